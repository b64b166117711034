"""A fit by search with one friction law: a model with intervals, held-out errors and warnings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.condition import parse_condition
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, UsageError
from axbridge.fit.clocks import predicted
from axbridge.fit.fixed_constants import Held, allowing, held_in, in_words
from axbridge.fit.result import End, Estimate, Fit, Input, Score
from axbridge.fit.richer_laws import Richer, richer_law, widened
from axbridge.fit.rounding import scatter
from axbridge.fit.search import SHARPENED, Job, Mapper, StartOutcome, executor, opened, search
from axbridge.fit.stages import LENGTHS, parts
from axbridge.fit.uncertainty import Uncertainty, left_alone, misfits, polish, reaching, uncertainty
from axbridge.fit.unknowns import MODELS, Space, space_of
from axbridge.recording.provenance import origin_of
from axbridge.recording.recording import Recording
from axbridge.sim.runs import JOINT_MODE, Runs

APART = 1.0  # degrees: between predictions of the best starts, above which a fit says so
ASTRAY = 5.0  # degrees: what a model is worth that predicts no better, its intervals do not tell
CONDITIONS = "mae", "rmse", "held_out_mae", "held_out_rmse"
WARMING = 3.0  # K between recordings from which they can tell what warmth does
_ADRIFT = ("nobody wrote down when some commands went out: each moment is fitted, and nothing tells sensor.latency_ms",)
P_DUTY_XL330 = 1 / (256 * 885)  # raw PWM a count and unit of P gain, over full PWM: read off the `load` of the logs


def fit_model(
    recordings: Sequence[Recording],
    rig: Rig,
    model: str,
    *,
    friction: str | None = None,
    held_out: Sequence[Recording] = (),
    starts: int = 8,
    generations: int = 300,
    budget: float = 150.0,
    seed: int = 0,
    near: FloatArray | None = None,
    richer: bool = True,
    where: str | Mapper | None = None,
    report: Callable[[str, StartOutcome | None], None] = lambda _stage, _outcome: None,
) -> Fit:
    """Fit a model to recordings of a one-servo rig, and say how sure each parameter is.

    Args:
        recordings: What is fitted.
        rig: Its arm and its servo's profile.
        model: ``pendulum-servo``, ``ax12`` or ``lima2009``.
        friction: ``M1`` to ``M6``; None = the model's own.
        held_out: Never touched by the fit; only scored.
        starts: Independent searches, at most; two that agree are enough.
        generations: Of each search.
        budget: Of simulation, as much as two cores do in this time, s; see `search`.
        seed: Of everything random.
        near: A parameter set (len(Param),) to begin at, too: that of a simpler model.
        richer: Whether the intervals allow for friction laws with more terms; else they hold under the fit's own.
        where: See `axbridge.fit.search.executor`.
        report: Called after each start, and after each fit that the intervals take.

    Raises:
        UsageError: no such model, friction law or executor.
        RecordingError: recordings that do not fit the rig, move too little, or have no supply.
        RigError: the rig is not one arm on a fixed base.
    """
    began = time.monotonic()
    runs = runs_of(recordings, rig)
    every = runs_of([*recordings, *held_out], rig)
    base, space = _posed(rig, model, friction, runs)
    _check_sense(recordings, runs)
    smooth = model != "pendulum-servo"  # its truth is a model of ours: squares are best; real logs want robustness
    job = Job(
        space,
        runs,
        seed,
        generations,
        loss="huber" if smooth else "mae",
        parts=None if smooth else parts(runs, lengths=LENGTHS),
    )
    begin = space.point(near) if near is not None else None

    def counted(done: int, count: int) -> None:
        report(f"intervals: {done} of {count} fits", None)

    with executor(where) as running:
        outcomes = search(job, starts=starts, budget=budget, near=begin, where=running, report=report)
        space, outcomes = opened(job, outcomes, running, report)
        begin = space.point(near) if near is not None else None
        point = free = outcomes[0].point
        if smooth:
            free = _polished(replace(space, near=False), runs, [point, begin])
            point = _polished(space, runs, [free, space.point(space.base)]) if space.near else free
        sure = reaching(uncertainty(space, runs, point, running, counted), space, point, free)
        if smooth and sure.flat:
            point = left_alone(space, runs, point, sure.flat)
            sure = reaching(uncertainty(space, runs, point, running, counted), space, point, free)
        constants: tuple[Held, ...] = ()
        wanted: tuple[str, ...] = ()
        if smooth:
            report("constants held", None)
            constants = held_in(space, runs)
            sure, wanted = allowing(sure, space, runs, point, constants, running)
        more = None
        if richer:
            report("richer friction laws", None)
            law = friction or MODELS[model]
            more = richer_law(space, law, runs, point, generations=generations // 2, seed=seed, spread=running)
    row = space.sets(point[None])[0]
    simulated = predicted(row[None], every)[0]
    others = _others(space, every, outcomes)
    scores = _with_chance(scores_of(recordings, held_out, every, simulated), every, simulated, others)
    adrift = _ADRIFT if runs.adrift.any() else ()
    fit = Fit(
        kind=model,
        friction=friction or MODELS[model],
        estimates=tuple(
            Estimate(unknown, float(row[unknown.column]), float(low), float(high))
            for unknown, low, high in zip(space.unknowns, sure.low, sure.high, strict=True)
        ),
        row=row,
        base=base,
        scores=scores,
        uncertainty=sure,
        starts=tuple(sorted(outcome.loss for outcome in outcomes)),
        warnings=adrift + _warnings(space, sure, outcomes, row) + wanted + _left_to_chance(scores) + doubts(scores),
        rollouts=sum(outcome.rollouts for outcome in outcomes),
        seconds=time.monotonic() - began,
        seed=seed,
        runs=every,
        simulated=simulated,
        rig=rig,
        ends=_ends(every, len(recordings), others),
        inputs=inputs_of(recordings, held_out, rig),
        held=in_words(constants),
    )
    return allowing_for(fit, more) if richer else fit


def _posed(rig: Rig, kind: str, friction: str | None, runs: Runs) -> tuple[ServoModel, Space]:
    """What a fit of these recordings starts from, and its unknowns."""
    base = base_model(rig, kind)
    if kind != "pendulum-servo":
        base = with_noise(base, runs)
    known = runs.temperature[~np.isnan(runs.temperature)]
    if len(known):
        motor = base.motor.model_copy(update={"ambient_temperature": float(known.mean())})
        base = base.model_copy(update={"motor": motor})
    turning, warming = bool((runs.duty < JOINT_MODE).any()), len(known) > 0 and bool(np.ptp(known) > WARMING)
    adrift = bool(runs.adrift.any())
    return base, space_of(kind, friction, packed(base, rig), turning=turning, warming=warming, adrift=adrift)


def _polished(space: Space, runs: Runs, points: Sequence[FloatArray | None]) -> FloatArray:
    """The best of the points (n,) that there are, each polished."""
    ends = np.array([polish(space, runs, one) for one in points if one is not None])
    best: FloatArray = ends[int(np.argmin(misfits(space, runs, ends)))]
    return best


def allowing_for(fit: Fit, richer: Richer | None) -> Fit:
    """The fit with intervals that hold under a richer friction law, too."""
    if richer is None:
        return replace(fit, allowed="")
    sure = widened(fit.uncertainty, fit.space, richer)
    lost = [name for name in sure.flat if name not in fit.uncertainty.flat]
    return replace(
        fit,
        allowed=richer.law,
        uncertainty=sure,
        estimates=tuple(
            replace(estimate, low=float(low), high=float(high))
            for estimate, low, high in zip(fit.estimates, sure.low, sure.high, strict=True)
        ),
        warnings=fit.warnings
        + tuple(f"this data can tell {name} under law {fit.friction} alone, not under {richer.law}" for name in lost),
    )


def _others(space: Space, every: Runs, outcomes: Sequence[StartOutcome]) -> FloatArray:
    """What the best starts make of the recordings, rad, (k, l); sharpened ones where there are any."""
    chosen = [outcome for outcome in outcomes if outcome.sharpened] or list(outcomes[:SHARPENED])
    return predicted(space.sets(np.array([outcome.point for outcome in chosen])), every)


def _ends(every: Runs, fitted: int, others: FloatArray) -> tuple[End, ...]:
    """The errors of the best starts, given what they predict; of the recordings so many were fitted."""
    errors = every.means(np.degrees(np.abs(every.errors(others))))
    ends = [End(float(e[:fitted].mean()), float(e[fitted:].mean()) if len(e) > fitted else math.nan) for e in errors]
    return tuple(sorted(ends, key=lambda end: end.fitted))


def _with_chance(scores: Sequence[Score], every: Runs, simulated: FloatArray, others: FloatArray) -> tuple[Score, ...]:
    """The scores with how far from the prediction (l,) those of the best starts (k, l) are."""
    if len(others) < 2:
        return tuple(scores)
    apart = np.where(every.judged, np.abs(np.degrees(others - simulated)), 0.0)
    return tuple(
        replace(score, chance=float(chance))
        for score, chance in zip(scores, every.means(apart).max(axis=0), strict=True)
    )


def _left_to_chance(scores: Sequence[Score]) -> tuple[str, ...]:
    """Where the best starts disagree by more than the fit errs, and by more than `APART`, in words."""
    far = max(scores, key=lambda score: -1.0 if math.isnan(score.chance) else score.chance)
    if not far.chance > max(APART, far.mae):
        return ()
    text = f"the best starts predict {far.name} differently, by {far.chance:.1f}° on average: other motions may be "
    return (f"{text}as far off; what would help: holding out a motion like those the model is for, and more --starts",)


def inputs_of(fitted: Sequence[Recording], held_out: Sequence[Recording], rig: Rig) -> tuple[Input, ...]:
    """Names and hashes of a fit's files; of what is in no file there is none."""
    paths = [
        ("rig", rig.path),
        *(("fitted", one.path) for one in fitted),
        *(("held out", one.path) for one in held_out),
    ]
    return tuple(
        Input(role, path.name, str(origin_of(path)["source_sha256"])) for role, path in paths if path.is_file()
    )


def base_model(rig: Rig, kind: str) -> ServoModel:
    """What a fit starts from: profile constants and the controller law of the model.

    Raises:
        UsageError: the servo's firmware has another position loop.
    """
    servo = rig.servos[0]
    profile = rig.profile_of(servo)
    if kind == "ax12" and "cw_compliance_slope" not in profile.registers:
        why = f"the loop of ax12 is that of an AX-12, which an {profile.name} does not have"
        raise UsageError(why, "choose the model pendulum-servo")
    if kind in {"ax12", "lima2009"}:
        return ServoModel.load(kind, profile, servo.params if kind == servo.model else {})
    own = rig.model_of(servo).controller
    loop = own.model_dump() if own.law == "pid" else {"law": "pid", "p_duty": P_DUTY_XL330}
    table: dict[str, Any] = {
        "name": kind,
        "motor": {**profile.motor, "inductance": 0.0},
        "friction": {**profile.friction, "law": MODELS.get(kind, "M4")},
        "controller": loop,
        "sensor": {"quantised": True},
    }
    return ServoModel.model_validate(table)


def with_noise(base: ServoModel, runs: Runs) -> ServoModel:
    """The model with the noise that recordings show at rest."""
    return base.model_copy(update={"sensor": base.sensor.model_copy(update={"position_noise": resting_noise(runs)})})


def resting_noise(runs: Runs) -> float:
    """Standard deviation of the position reading where the servo rests, rad, without what rounding adds to it.

    0 when nothing rests, or when the reading never changes.
    """
    found = []
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        position = runs.position[a:b]
        for first in range(0, len(position) - 20, 20):
            part = position[first : first + 20]
            if np.ptp(part) < np.radians(1.2) and abs(part[:10].mean() - part[10:].mean()) < np.radians(0.1):
                found.append(float(np.var(np.diff(part)) / 2))
    if not found:
        return 0.0
    counts = np.abs(np.diff(np.unique(np.round(runs.position, 6))))
    count = float(np.min(counts[counts > 1e-5], initial=1.0))
    tried = np.linspace(0.0, math.radians(1.0), 2001)
    return float(np.interp(np.mean(found), scatter(tried, count), tried))


def scores_of(
    fitted: Sequence[Recording], held_out: Sequence[Recording], runs: Runs, simulated: FloatArray
) -> tuple[Score, ...]:
    """How well a simulation (l,) predicts recordings, whose runs are those of `fitted`, then of `held_out`."""
    error = np.degrees(runs.errors(simulated))
    means = zip([*fitted, *held_out], runs.means(np.abs(error)), runs.means(error**2), strict=True)
    return tuple(
        Score(recording.path.name, float(mae), float(np.sqrt(mse)), held_out=index >= len(fitted))
        for index, (recording, mae, mse) in enumerate(means)
    )


def check(fit: Fit, condition: str) -> list[str]:
    """Recordings of which `condition` holds, each with the value in words.

    Args:
        fit: What to look at.
        condition: ``rmse>2``, one of `CONDITIONS`, degrees; ``held_out_…`` looks at the recordings held out alone.

    Raises:
        UsageError: not of that form.
    """
    metric, holds = parse_condition(condition, CONDITIONS)
    held = metric.startswith("held_out_")
    scores = [score for score in fit.scores if score.held_out or not held]
    if not scores:
        return [f"{metric} cannot be told: no recording is held out"]
    values = [(score.name, float(getattr(score, metric.removeprefix("held_out_")))) for score in scores]
    return [f"{name}: {metric} = {value:.4g}" for name, value in values if holds(value)]


def doubts(scores: Sequence[Score]) -> tuple[str, ...]:
    """Recordings that the fitted model does not follow, in words: no interval allows for a model of another kind."""
    return tuple(
        f"the model does not follow {score.name} (RMSE {score.rmse:.1f}°): its values and intervals mean little; what "
        "would help: a model or friction law with more to it, or a look at the recording"
        for score in scores
        if score.rmse > ASTRAY
    )


def _check_sense(recordings: Sequence[Recording], runs: Runs) -> None:
    for recording, a, b, volts in zip(recordings, runs.start[:-1], runs.start[1:], runs.supply, strict=True):
        if not 0.0 < volts < math.inf:
            raise RecordingError(
                recording.path, f"has a supply of {volts:g} V", "correct its voltages, or leave that column out"
            )
        if np.ptp(runs.position[a:b]) < np.radians(2):
            raise RecordingError(
                recording.path, "hardly moves: less than 2° in all", "leave it out, or record a motion"
            )


def _warnings(space: Space, sure: Uncertainty, outcomes: Sequence[StartOutcome], row: FloatArray) -> tuple[str, ...]:
    best_experiment = {unknown.name: unknown.best_experiment for unknown in space.unknowns}
    kept = {
        u.name: ", so the model's value stays"
        if math.isclose(row[u.column], space.base[u.column], rel_tol=1e-6)
        else ""
        for u in space.unknowns
    }
    found = [f"this data cannot tell {name}{kept[name]}; what would: {best_experiment[name]}" for name in sure.flat]
    found += [
        f"this data cannot tell {a} from {b} (correlation {value:+.2f}); what would: {best_experiment[a]}"
        for a, b, value in sure.alike
        if a not in sure.flat and b not in sure.flat
    ]
    found += [f"{name} ended at an end of its range" for name in sure.at_end if name not in sure.flat]
    ended = sorted(outcome.loss for outcome in outcomes)
    if len(ended) > 3 and ended[2] > 1.15 * ended[0]:
        found.append("only few starts found the best solution: more --starts may find a better one")
    return tuple(found)
