"""The result of an identification: estimates, errors, comparison of friction laws; and its file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from axbridge import __version__
from axbridge.arrays import FloatArray
from axbridge.config.model import PredictionParams, ServoModel, to_toml
from axbridge.config.rig import Rig
from axbridge.errors import plural
from axbridge.files import write_whole
from axbridge.fit.intervals import Uncertainty
from axbridge.fit.least_squares import QUANTILE
from axbridge.fit.prepare import Problem
from axbridge.fit.unknowns import KNOWN, Space, Unknown
from axbridge.recording.provenance import origin_of, versions
from axbridge.servo.steady import SteadyServo
from axbridge.sim.runs import Runs

SURE = 2.0  # standard errors within which two laws count as tied
_MOTOR_SIDE = "motor.torque_constant"  # searched at the output shaft, but in the file at the motor: over the gear ratio
LARGEST_USEFUL_ERROR = 5.0  # degrees: a model with a larger error is not useful, even with narrow intervals
BEST = 3  # least number of starts whose predictions are compared
_SAME = 0.01  # degrees: errors this close count as equal; errors that differ by more are printed differently
_LIFTED = 0.2  # share of the stall torque: a usual load of a joint in a small robot


@dataclass(frozen=True)
class Estimate:
    """One identified value with its 95 % interval, in SI at the output shaft."""

    unknown: Unknown
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """The fitted model's prediction errors for one recording, degrees; NaN where an error is unknown."""

    name: str  # file name
    mae: float
    rmse: float
    held_out: bool  # whether it was excluded from the fit
    # largest mean difference between this prediction and those of the other best starts; NaN with fewer than three
    chance: float = math.nan
    perfect: float = math.nan  # MAE of a servo that is always at its goal
    lagging: float = math.nan  # MAE of a joint with the delay and lag that fit the fitted recordings best
    floor: float = math.nan  # MAE of a repetition of the same motion: no model can be better
    start: float = math.nan  # MAE of the model from which the fit started
    own: float = math.nan  # MAE of the rig's model for this servo


@dataclass(frozen=True)
class Verdict:
    """Comparison of a fitted model's error with those of other models."""

    error: float  # mean absolute error of the fit, degrees
    held_out: bool  # whether it is the error on held-out recordings
    others: Mapping[str, tuple[float, float]]  # by model: its error, degrees, and the fit's on the same recordings

    @property
    def worse(self) -> list[str]:
        """The models with smaller errors than the fit."""
        return [name for name, (error, own) in self.others.items() if own > error + _SAME]

    def __str__(self) -> str:
        which = f"{'held-out ' * self.held_out}error {self.error:.2f}°"
        beside = [
            f"{name} {error:.2f}°" + f" (where the fit has {own:.2f}°)" * (f"{own:.2f}" != f"{self.error:.2f}")
            for name, (error, own) in self.others.items()
        ]
        is_best = all(own < error for error, own in self.others.values())
        verdict = "better than each of them" if is_best else f"as good as the best of them, within {_SAME}°"
        verdict = f"worse than {' and '.join(self.worse)}" if self.worse else verdict
        return f"{which} beside {', '.join(beside)}: {verdict}" if beside else which


@dataclass(frozen=True)
class Input:
    """An input file of a fit."""

    role: str  # ``fitted``, ``held out`` or ``rig``
    name: str  # file name
    sha256: str  # of the content


@dataclass(frozen=True)
class Fit:
    """The result of an identification."""

    kind: str  # ``pendulum-servo``, ``ax12``, ``lima2009``
    friction: str  # ``M1`` to ``M6``
    unknowns: tuple[Unknown, ...]  # the searched parameters
    row: FloatArray  # the complete parameter set (len(axbridge.servo.columns.Param),)
    base: ServoModel  # the model from which the fit started, with the values of all other parameters
    scores: tuple[Score, ...]  # by recording, fitted ones first
    uncertainty: Uncertainty  # intervals, correlations, unknowns that are not identified
    starts: tuple[float, ...]  # final loss of each start, best first
    warnings: tuple[str, ...]  # parameters that the recordings do not identify, in words
    rollouts: int  # number of simulated recordings
    runs: Runs  # the recordings of `scores`, in their order; angles are on the servo's side
    simulated: FloatArray  # their simulation with `row`, rad, (l,)
    rig: Rig  # the arm and the fitted servo
    seconds: float = 0.0  # duration of the fit
    seed: int = 0  # first seed
    inputs: tuple[Input, ...] = ()  # the files from which it was made
    # a friction law with more terms that the recordings do not rule out, and that the intervals include; empty if there
    # is none, None if none was tried
    allowed: str | None = None
    held: str = ""  # constants whose errors the intervals include, in words; empty if there are none
    laws: LawComparison | None = None  # comparison of the friction laws, if it was made
    truth: FloatArray | None = None  # the hidden parameter set, if the data were simulated with one

    @classmethod
    def of(
        cls, problem: Problem, unknowns: tuple[Unknown, ...], row: FloatArray, bounds: Uncertainty, **results: Any
    ) -> Fit:
        """Return the fit of a problem with these unknowns, parameters, intervals, and further fields."""
        return cls(
            kind=problem.kind, friction=problem.friction, base=problem.base, rig=problem.rig, runs=problem.every,
            inputs=_inputs_of(problem), unknowns=unknowns, row=row, uncertainty=bounds, **results,
        )  # fmt: skip

    def errors(self, *, held_out: bool) -> list[float]:
        """Return the mean absolute error of each held-out recording, or of each fitted one, degrees."""
        return [score.mae for score in self.scores if score.held_out is held_out]

    @property
    def verdict(self) -> Verdict:
        """Comparison with other models on the held-out recordings, or on all if none was held out."""
        judged = [score for score in self.scores if score.held_out] or list(self.scores)
        others = {f"its start ({self.base.name})": "start", f"the rig's {self.rig.servos[0].model}": "own"}
        others |= {"a delay and a lag": "lagging", "a perfect servo": "perfect"}
        if self.base.name == self.rig.servos[0].model:
            others = {name: key for name, key in others.items() if key != "own"}
        error, compared = float(np.mean([score.mae for score in judged])), {}
        for name, key in others.items():
            known = [(getattr(score, key), score.mae) for score in judged if not math.isnan(getattr(score, key))]
            if known:
                compared[name] = tuple(np.mean(known, axis=0).tolist())
        return Verdict(error, bool(judged[0].held_out), compared)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Values and intervals of the unknowns."""
        ends = zip(self.unknowns, self.uncertainty.low, self.uncertainty.high, strict=True)
        return tuple(Estimate(u, float(self.row[u.column]), float(low), float(high)) for u, low, high in ends)

    @property
    def space(self) -> Space:
        """The unknowns, around `row`."""
        return Space(self.unknowns, self.row, anchored=self.kind in KNOWN)

    @property
    def condition(self) -> str:
        """The assumptions of the intervals, in a sentence."""
        friction = f"the intervals hold if the servo's friction follows law {self.friction}"
        if self.allowed:
            friction += f" or {self.allowed}, which the recordings do not rule out (--friction {self.allowed})"
        elif self.allowed is not None:
            friction += ", and the recordings call for no law with more terms"
        else:
            friction += ": if it follows another, friction may lie outside"
        if self.held:
            friction += f"; they allow for constants that the fit takes from the model: {self.held}"
        return f"{friction}; all torques, inertias and friction scale with the mass given for the arm"


@dataclass(frozen=True)
class LawScore:
    """Result of one friction law."""

    law: str  # ``M1`` to ``M6``
    parameters: int  # number of fitted parameters, with the model's other unknowns
    mae_deg: float  # mean absolute error of the fitted recordings
    held_out_mae_deg: float  # of the held-out recordings; NaN when there are none
    behind_deg: float  # difference of `held_out_mae_deg` from the smallest
    behind_standard_error_deg: float
    bic: float  # Bayesian information criterion of the fitted recordings

    @property
    def tied(self) -> bool:
        """Whether its held-out error is within `SURE` standard errors of the smallest."""
        return self.behind_deg <= SURE * self.behind_standard_error_deg


@dataclass(frozen=True)
class LawComparison:
    """Comparison of all friction laws."""

    scores: tuple[LawScore, ...]  # in the order M1 to M6
    chosen: str  # the chosen law
    rule: str  # the rule of the choice, in words

    @property
    def note(self) -> str:
        """The laws that the held-out recordings do not separate from the chosen one, in words; empty if none."""
        others = [score.law for score in self.scores if score.tied and score.law != self.chosen]
        if not others:
            return ""
        tied = f"the held-out recordings do not separate {self.chosen} from {', '.join(others)}"
        return f"{tied}; hold out more of them, with slow reversals under load"


def _inputs_of(problem: Problem) -> tuple[Input, ...]:
    """Return names and hashes of a fit's files; an input without a file is left out."""
    made = [("fitted", run.path) for run in problem.fitted] + [("held out", run.path) for run in problem.held_out]
    files = [entry for entry in dict.fromkeys([("rig", problem.rig.path), *made]) if entry[1].is_file()]
    return tuple(Input(role, path.name, str(origin_of(path)["source_sha256"])) for role, path in files)


def scores_of(problem: Problem, simulated: FloatArray, others: FloatArray | None = None) -> tuple[Score, ...]:
    """Return the scores of a simulation (l,) on all recordings; `others` (k, l) are those of the best starts."""
    every, count = problem.every, len(problem.fitted)
    error = np.degrees(every.errors(simulated))
    chances = np.full(every.recordings, math.nan)
    if others is not None and len(others) >= BEST:  # two are too few to compare
        apart = np.where(every.judged, np.abs(np.degrees(others - simulated)), 0.0)
        chances = every.means(apart).max(axis=0)
    recordings = [*problem.fitted, *problem.held_out]
    several = len(problem.rig.servos) > 1
    names = [f"{run.path.name} {next(iter(run))}" if several else run.path.name for run in recordings]
    means = zip(names, every.means(np.abs(error)), every.means(error**2), chances, strict=True)
    return tuple(
        Score(name, float(mae), float(np.sqrt(mse)), index >= count, float(chance))
        for index, (name, mae, mse, chance) in enumerate(means)
    )


def doubts(scores: Sequence[Score]) -> tuple[str, ...]:
    """Return warnings for recordings that the model does not follow: intervals assume the right kind of model."""
    return tuple(
        f"the model does not follow {score.name} (RMSE {score.rmse:.1f}°): its values and intervals are not valid; "
        "try another model or friction law, and look at the recording"
        for score in scores
        if score.rmse > LARGEST_USEFUL_ERROR
    )


def servo_model(fit: Fit, name: str) -> ServoModel:
    """Return the fitted model: the base model with the values of the unknowns."""
    tables: dict[str, Any] = fit.base.model_dump(exclude={"path"})
    for estimate in fit.estimates:
        table, key = estimate.unknown.name.split(".")
        value = in_file(fit, estimate.unknown, estimate.value)
        tables[table][key] = max(0.0, value) if key == "latency_ms" else value
    tables["friction"]["law"] = fit.friction
    tables["prediction"] = prediction_of(fit).model_dump()
    fitted, held = fit.errors(held_out=False), fit.errors(held_out=True)
    tables["name"] = name
    tables["description"] = f"identified {fit.kind} with friction {fit.friction}"
    command, count = f"axbridge {__version__} identify, seed {fit.seed}", plural(len(fitted), "recording")
    tables["provenance"] = f"{command}: fitted to {count}, mean absolute error {np.mean(fitted):.2f} degrees"
    tables["provenance"] += f"; held out {len(held)}: {np.mean(held):.2f} degrees" if held else ""
    profile = fit.rig.servos[0].profile
    tables["profile"] = "" if profile.endswith(".toml") else profile  # a relative path is invalid in other folders
    return ServoModel.model_validate(tables)


def write_params(fit: Fit, path: Path | str) -> None:
    """Write the parameters as TOML, for ``model = "…"`` in a rig and ``--model``, with intervals as comments."""
    path = Path(path)
    model = servo_model(fit, path.stem)
    lines = [to_toml(model, {estimate.unknown.name: _interval(fit, estimate) for estimate in fit.estimates})]
    lines += [f"# {fit.condition}", *(f"# {warning}" for warning in fit.warnings), ""]
    lines += [f"# {source.role}: {source.name}, sha256 {source.sha256}" for source in fit.inputs]
    lines.append("# made with " + ", ".join(f"{name} {version}" for name, version in versions().items() if version))
    write_whole(path, "\n".join(lines).rstrip() + "\n")


def summary(fit: Fit) -> dict[str, Any]:
    """Return the fit as one document for `emit_json`, which writes NaN (unknown) as null."""
    held, names, parameters = fit.errors(held_out=True), [unknown.name for unknown in fit.unknowns], {}
    for est in fit.estimates:
        values = {"value": est.value, "low": est.low, "high": est.high}
        if fit.truth is not None:
            values["hidden"] = float(fit.truth[est.unknown.column])
        parameters[est.unknown.name] = {key: in_file(fit, est.unknown, value) for key, value in values.items()}
    compared = fit.laws and {
        "friction_laws": [vars(score) | {"chosen": score.law == fit.laws.chosen} for score in fit.laws.scores],
        "friction_chosen_by": fit.laws.rule,
        "friction_note": fit.laws.note,
    }
    return {
        "model": fit.kind,
        "friction": fit.friction,
        "parameters": parameters,
        "mae_deg": float(np.mean(fit.errors(held_out=False))),
        "held_out_mae_deg": float(np.mean(held)) if held else None,
        "verdict": str(fit.verdict),
        "worse_than": fit.verdict.worse,
        "recordings": [vars(score) for score in fit.scores],
        "correlations": {
            name: dict(zip(names, map(float, row), strict=True))
            for name, row in zip(names, fit.uncertainty.correlation, strict=True)
        },
        "cannot_tell": list(fit.uncertainty.flat),
        "condition": fit.condition,
        "friction_allowed": fit.allowed,
        "warnings": list(fit.warnings),
        "starts": list(fit.starts),
        "rollouts": fit.rollouts,
        "seconds": fit.seconds,
        "seed": fit.seed,
        "inputs": [vars(source) for source in fit.inputs],
        "versions": versions(),
    } | (compared or {})


def in_file(fit: Fit, unknown: Unknown, value: float) -> float:
    """Convert a value at the output shaft, SI, to the parameter file's unit and side of the gear."""
    return value / fit.base.motor.gear_ratio if unknown.name == _MOTOR_SIDE else value * unknown.scale


def _interval(fit: Fit, estimate: Estimate) -> str:
    if estimate.unknown.name in fit.uncertainty.flat:
        return "the data do not identify it"
    low, high = (in_file(fit, estimate.unknown, end) for end in (estimate.low, estimate.high))
    return f"95 %: {low:.4g} to {high:.4g}"


def prediction_of(fit: Fit) -> PredictionParams:
    """Return the possible errors of the fitted model's predictions.

    `load_share` is half the 95 % interval of the duty for a fifth of the stall torque, as a share of that duty. The
    unknowns' intervals are propagated linearly, with fixed constants: an error of a constant changes the unknowns, but
    not this duty.
    """
    held = [score.rmse for score in fit.scores if score.held_out]
    error = math.radians(math.sqrt(np.mean(np.square(held)))) if held else None
    voltage = float(np.mean(fit.runs.supply))
    row = fit.row
    torque = _LIFTED * SteadyServo.of(row).drive(1.0, voltage, 0.0)
    width, space = np.empty(len(fit.unknowns)), fit.space
    point, reach = space.point(row), QUANTILE * fit.uncertainty.share
    bounds = space.sets(np.array([point - reach, point + reach]))
    for index, unknown in enumerate(space.unknowns):
        ends = np.repeat(row[None], 2, axis=0)
        ends[:, unknown.column] = bounds[:, unknown.column]
        low, high = (SteadyServo.of(end).duty(torque, voltage, 0.0) for end in ends)
        width[index] = high - low
    variance = float(width @ fit.uncertainty.correlation @ width)
    share = math.sqrt(max(variance, 0.0)) / 2 / SteadyServo.of(row).duty(torque, voltage, 0.0)
    apart = [score.chance for score in fit.scores if not math.isnan(score.chance)]
    chance = math.radians(math.sqrt(np.mean(np.square(apart)))) if apart else None
    values = {"held_out_error": error or None, "load_share": share, "chance": chance}
    return PredictionParams(**{key: value and float(f"{value:.3g}") for key, value in values.items()})
