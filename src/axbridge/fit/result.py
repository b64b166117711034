"""What identification found: estimates, errors, how friction laws compare, the paper's scans; and its file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from axbridge import __version__
from axbridge.arrays import FloatArray
from axbridge.config.model import PredictionParams, ServoModel, to_toml
from axbridge.config.rig import Rig
from axbridge.errors import plural
from axbridge.files import write_whole, writing
from axbridge.fit.intervals import Uncertainty
from axbridge.fit.least_squares import QUANTILE
from axbridge.fit.unknowns import KNOWN, Space, Unknown
from axbridge.recording.provenance import versions
from axbridge.servo.steady import SteadyServo
from axbridge.sim.runs import Runs

SURE = 2.0  # standard errors that chance may explain
_MOTOR_SIDE = "motor.torque_constant"  # searched at the output shaft, kept at the motor: over the gear ratio
_SAME = 0.005  # degrees: errors that are nearer to each other count as equal
_HELD = 0.2  # of its stall torque: what a joint of a small robot lifts


@dataclass(frozen=True)
class Estimate:
    """One identified value with its 95 % interval, in SI at the output shaft."""

    unknown: Unknown
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """How well the fitted model predicts one recording."""

    name: str  # of its file
    mae: float  # degrees
    rmse: float  # degrees
    held_out: bool  # whether the fit never saw it
    # how far from this prediction the other best starts' are, at most, on average over the recording, degrees; NaN
    # where there are fewer than three
    chance: float = math.nan
    # MAE of a servo that is where its goal is, degrees; like the next two NaN where it is not known
    perfect: float = math.nan
    lagging: float = math.nan  # of a joint with the delay and lag that suit the fitted recordings best
    floor: float = math.nan  # of a repeat of the same motion: no model can do better
    start: float = math.nan  # of the model that the fit began with
    own: float = math.nan  # of the model that the rig gives the servo


@dataclass(frozen=True)
class Verdict:
    """Whether a fitted model predicts better than others do."""

    error: float  # its mean absolute error, degrees
    held_out: bool  # whether it is that of recordings that the fit never saw
    others: Mapping[str, tuple[float, bool]]  # by model: its error, degrees, and whether the fit's is larger there

    @property
    def worse(self) -> list[str]:
        """The models that predict better than the fit."""
        return [name for name, (_, is_better) in self.others.items() if is_better]

    def __str__(self) -> str:
        which = "held-out error" if self.held_out else "error"
        beside = ", ".join(f"{name} {error:.2f}°" for name, (error, _) in self.others.items())
        said = f"worse than {' and '.join(self.worse)}" if self.worse else "better than each of them"
        return f"{which} {self.error:.2f}° beside {beside}: {said}" if self.others else f"{which} {self.error:.2f}°"


@dataclass(frozen=True)
class Input:
    """A file that a fit was made from."""

    role: str  # ``fitted``, ``held out`` or ``rig``
    name: str  # of the file
    sha256: str  # of its content


@dataclass(frozen=True)
class Fit:
    """What identification found."""

    kind: str  # ``pendulum-servo``, ``ax12``, ``lima2009``
    friction: str  # ``M1`` to ``M6``
    unknowns: tuple[Unknown, ...]  # what was searched
    row: FloatArray  # the whole parameter set (len(axbridge.servo.columns.Param),)
    base: ServoModel  # the model it started from: what was not searched is its
    scores: tuple[Score, ...]  # by recording, fitted ones first
    uncertainty: Uncertainty  # intervals, correlations, flat directions
    starts: tuple[float, ...]  # loss each start ended with, best first
    warnings: tuple[str, ...]  # what the recordings do not identify, in words
    rollouts: int  # how many recordings were simulated
    runs: Runs  # the recordings of `scores`, in their order; angles are the servo's own
    simulated: FloatArray  # what `row` makes of them, rad, (l,)
    rig: Rig  # the arm and the servo that were fitted
    seconds: float = 0.0  # how long it took
    seed: int = 0  # first seed
    inputs: tuple[Input, ...] = ()  # the files it was made from
    # a friction law with more terms that the recordings do not rule out, so the intervals allow for it; empty where
    # there is none, None where nobody looked
    allowed: str | None = None
    held: str = ""  # constants of the model that the intervals allow to be off, in words; empty where none is
    laws: LawComparison | None = None  # how the friction laws compare, where they were compared
    line: KsLine | None = None  # measurements of Ks, where some were given
    surfaces: tuple[Surface, ...] = ()  # the paper's scans, where they were made: friction over falls, gains over steps
    truth: FloatArray | None = None  # the hidden parameter set behind the data, where those were made from one

    def errors(self, *, held_out: bool) -> list[float]:
        """Mean absolute error of each recording that was held out, or of each that was fitted, degrees."""
        return [score.mae for score in self.scores if score.held_out is held_out]

    @property
    def verdict(self) -> Verdict:
        """Its error beside those of other models, over the recordings that were held out, else over all."""
        judged = [score for score in self.scores if score.held_out] or list(self.scores)
        others = {f"its start ({self.base.name})": "start", f"the rig's {self.rig.servos[0].model}": "own"}
        others |= {"a delay and a lag": "lagging", "a perfect servo": "perfect"}
        if self.base.name == self.rig.servos[0].model:
            others = {name: key for name, key in others.items() if key != "own"}
        error, worse = float(np.mean([score.mae for score in judged])), {}
        for name, key in others.items():
            known = [(getattr(score, key), score.mae) for score in judged if not math.isnan(getattr(score, key))]
            if known:
                other, ours = np.mean(known, axis=0).tolist()
                worse[name] = other, ours > other + _SAME
        return Verdict(error, bool(judged[0].held_out), worse)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The unknowns' values with their intervals."""
        ends = zip(self.unknowns, self.uncertainty.low, self.uncertainty.high, strict=True)
        return tuple(Estimate(u, float(self.row[u.column]), float(low), float(high)) for u, low, high in ends)

    @property
    def space(self) -> Space:
        """Its unknowns, around `row`."""
        return Space(self.unknowns, self.row, anchored=self.kind in KNOWN)

    @property
    def condition(self) -> str:
        """What the intervals take for granted, in a sentence."""
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
    """How one friction law did."""

    law: str  # ``M1`` to ``M6``
    parameters: int  # how many were fitted, the other unknowns of the model included
    mae_deg: float  # mean absolute error of the fitted recordings
    held_out_mae_deg: float  # of the held-out ones; NaN when there are none
    behind_deg: float  # by how much that is above the smallest
    behind_standard_error_deg: float
    bic: float  # bayesian information criterion of the fitted recordings

    @property
    def tied(self) -> bool:
        """Whether chance may explain that it is not the one with the smallest held-out error."""
        return self.behind_deg <= SURE * self.behind_standard_error_deg


@dataclass(frozen=True)
class LawComparison:
    """All laws side by side."""

    scores: tuple[LawScore, ...]  # in the order M1 to M6
    chosen: str  # the law that was taken
    rule: str  # why, in words

    @property
    def note(self) -> str:
        """What the held-out recordings leave open, in words; empty when they leave nothing."""
        others = [score.law for score in self.scores if score.tied and score.law != self.chosen]
        if not others:
            return ""
        return (
            f"the held-out recordings do not separate {self.chosen} from {', '.join(others)}; "
            "hold out more of them, with slow reversals under load"
        )


@dataclass(frozen=True)
class KsLine:
    """Ks, the paper's figure 5."""

    speed: FloatArray  # motor side, rad/s, (n,)
    volts: FloatArray  # open-circuit, V, (n,)
    ks: float  # slope through the origin, V·s/rad
    error: float  # its standard error


@dataclass(frozen=True)
class Surface:
    """Mean squared error over two unknowns."""

    x: Unknown  # the first unknown
    y: Unknown  # the second
    xs: FloatArray  # its values, (n,)
    ys: FloatArray  # (m,)
    mse: FloatArray  # deg², (n, m)
    best: tuple[float, float]  # where the scan ended, (2,)
    least: float  # mean squared error there, deg²


def servo_model(fit: Fit, name: str) -> ServoModel:
    """The fitted model: what was searched over what it started from."""
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
    tables["provenance"] = (
        f"axbridge {__version__} identify, seed {fit.seed}: fitted to {plural(len(fitted), 'recording')}, "
        f"mean absolute error {np.mean(fitted):.2f} degrees"
        + (f"; held out {len(held)}: {np.mean(held):.2f} degrees" if held else "")
    )
    profile = fit.rig.servos[0].profile
    tables["profile"] = "" if profile.endswith(".toml") else profile  # a file is not found from everywhere
    return ServoModel.model_validate(tables)


def write_params(fit: Fit, path: Path | str) -> None:
    """Write the parameters as TOML, for ``model = "…"`` in a rig and ``--model``; intervals stand as comments."""
    path = Path(path)
    model = servo_model(fit, path.stem)
    lines = [to_toml(model, {estimate.unknown.name: _interval(fit, estimate) for estimate in fit.estimates})]
    lines += [f"# {fit.condition}", *(f"# {warning}" for warning in fit.warnings), ""]
    lines += [f"# {source.role}: {source.name}, sha256 {source.sha256}" for source in fit.inputs]
    lines.append("# made with " + ", ".join(f"{name} {version}" for name, version in versions().items() if version))
    with writing(path):
        write_whole(path, "\n".join(lines).rstrip() + "\n")


def summary(fit: Fit) -> dict[str, Any]:
    """The fit as one document for `emit_json`, which writes what is not known, NaN, as null."""
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
    """A value at the output shaft, SI, as it stands in the parameters file."""
    return value / fit.base.motor.gear_ratio if unknown.name == _MOTOR_SIDE else value * unknown.scale


def _interval(fit: Fit, estimate: Estimate) -> str:
    if estimate.unknown.name in fit.uncertainty.flat:
        return "the data do not identify it"
    low, high = (in_file(fit, estimate.unknown, end) for end in (estimate.low, estimate.high))
    return f"95 %: {low:.4g} to {high:.4g}"


def prediction_of(fit: Fit) -> PredictionParams:
    """How far off the fitted model may be.

    `load_share` is half the 95 % interval of the duty that lifts a fifth of the stall torque: the unknowns' intervals
    propagated linearly, constants as the fit held them: what another does to an unknown, it does not do to that duty.
    """
    held = [score.rmse for score in fit.scores if score.held_out]
    error = math.radians(math.sqrt(np.mean(np.square(held)))) if held else None
    voltage = float(np.mean(fit.runs.supply))
    row = fit.row
    torque = _HELD * SteadyServo.of(row).drive(1.0, voltage, 0.0)
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
