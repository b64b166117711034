"""Prepare a fit: turn recordings and a rig into a problem with runs of commands, a base model, and unknowns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.lag import SAME_GOALS, apart
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, UsageError, plural
from axbridge.fit.least_squares import slopes
from axbridge.fit.prediction import COARSE, scatter
from axbridge.fit.unknowns import KINDS, MODELS, Space, space_of
from axbridge.recording.recording import Recording
from axbridge.servo.columns import Param
from axbridge.sim.runs import JOINT_MODE, Runs

MOVED = math.radians(2.0)  # a smaller motion gives no information
WARMING = 3.0  # K: from this range of temperatures on, the effect of temperature can be identified
P_DUTY_XL330 = 1 / (256 * 885)  # PWM per count and unit of P gain, over full PWM: from the `load` of the logs
_WITHIN = 0.2, 0.8  # shares of the ranges within which slopes are computed: terms of size 0 would hide each other
_CLEAR = 5.0  # counts: change of the prediction by one unknown alone from which it is well identified
_OWN_LOOP = "pendulum-servo"
_FORMS = "write REC.mcap=bar:MASS,LENGTH,WIDTH in kg and m, or REC.mcap=inertia:J in kg·m²"


@dataclass(frozen=True)
class Problem:
    """Input of a fit."""

    kind: str  # ``pendulum-servo``, ``ax12`` or ``lima2009``, from the law of the servo's loop
    friction: str  # ``M1`` to ``M6``
    rig: Rig  # the arm and its servo
    fitted: tuple[Recording, ...]  # recordings that are fitted
    held_out: tuple[Recording, ...]  # recordings that are only scored
    base: ServoModel  # the model from which the fit starts
    space: Space  # the unknowns, around `base`
    runs: Runs  # runs of `fitted`
    every: Runs  # runs of all recordings, the fitted ones first
    begin: FloatArray | None  # a further start point (n,), or None
    floors: tuple[float, ...]  # MAE of a repetition of each held-out recording, degrees; NaN without one

    @property
    def smooth(self) -> bool:
        """Whether plain squares suit the errors; a real servo's errors (``pendulum-servo``) need a robust loss."""
        return self.kind != "pendulum-servo"


def prepare(
    recordings: Sequence[Recording],
    rig: Rig,
    model: str,
    *,
    friction: str | None = None,
    held_out: Sequence[Recording] = (),
    near: FloatArray | None = None,
    again: Sequence[Recording] = (),
    free: Sequence[str] = (),
) -> Problem:
    """Return the problem of fitting a model to recordings of a rig with one servo; arguments as in `identify`."""
    runs = runs_of(recordings, rig)
    base = base_model(rig, model)
    kind = KINDS[base.controller.law]
    law = friction or MODELS.get(model, base.friction.law)
    if near is None and model not in MODELS:
        near = packed(base, rig)
    if kind != "pendulum-servo":
        sensor = base.sensor.model_copy(update={"position_noise": resting_noise(runs)})
        base = base.model_copy(update={"sensor": sensor})
    known = runs.temperature[~np.isnan(runs.temperature)]
    if len(known):
        motor = base.motor.model_copy(update={"ambient_temperature": float(known.mean())})
        base = base.model_copy(update={"motor": motor})
    space = space_of(
        kind, law, packed(base, rig), turning=bool((runs.duty < JOINT_MODE).any()),
        warming=len(known) > 0 and bool(np.ptp(known) > WARMING),
        unknown_command_times=bool(runs.unknown_command_times.any()), free=free,
    )  # fmt: skip
    _check_sense(recordings, runs)
    return Problem(
        kind, law, rig, tuple(recordings), tuple(held_out), base, space, runs,
        runs_of([*recordings, *held_out], rig) if held_out else runs,
        None if near is None else space.point(near), _floors(held_out, again),
    )  # fmt: skip


def _floors(held_out: Sequence[Recording], again: Sequence[Recording]) -> tuple[float, ...]:
    floors = [math.nan] * len(held_out)
    for repeat in again:
        alike = []
        for index, recording in enumerate(held_out):
            goals, positions = apart(next(iter(recording.values())), repeat)
            if goals < SAME_GOALS:
                alike.append((goals, index, positions))
        if not alike:
            why = f"{repeat.path} repeats no recording that is held out"
            raise UsageError(why, "give one with the same goals at the same times")
        nearest = min(alike)
        for _, index, positions in alike:  # all servos of the repeated recording
            if held_out[index].path == held_out[nearest[1]].path:
                floors[index] = positions
    return tuple(floors)


def excitation(problem: Problem) -> tuple[str, ...]:
    """Return a line about the recordings, and for each unknown its effect on the prediction, in all and by itself."""
    space, runs = problem.space, problem.runs
    slope = slopes(space, runs, np.clip(space.point(space.base), *_WITHIN), COARSE)
    normal = slope.T @ slope / runs.recordings
    inverse = np.linalg.pinv(normal, rcond=1e-10)
    count = math.degrees(float(space.base[Param.COUNT]))
    lines = [_sampled(problem)]
    for index, unknown in enumerate(space.unknowns):
        moves = math.sqrt(normal[index, index])
        alone = min(moves, 1 / math.sqrt(max(inverse[index, index], 1e-12)))
        how = "well" if alone > _CLEAR * count else "weakly" if alone > count else "not"
        line = f"{unknown.name}: {how} identified (over its range it changes the prediction by {moves:.2g}°; "
        line += f"no other value can make up for {alone:.2g}° of that)"
        lines.append(line if how == "well" else f"{line}; record {unknown.best_experiment}")
    return tuple(lines)


def _sampled(problem: Problem) -> str:
    """Return rates, gaps, jumps of the position and clocks of the fitted recordings, in words."""
    facts = [next(iter(recording.values())).facts() for recording in problem.fitted]
    runs = problem.runs
    rates = sorted({round(fact.rate) for fact in facts})
    rate = f"{rates[0]}" if len(rates) == 1 else f"{rates[0]} to {rates[-1]}"
    clock = "stamps restored from a coarse clock" if runs.spread.any() else "clock even"
    if runs.unknown_command_times.any():
        clock += ", moments of some commands unknown"
    gaps, jumps = sum(fact.gaps for fact in facts), sum(fact.jumps for fact in facts)
    counted = f"{rate} Hz, gaps: {gaps}, jumps: {jumps}"
    return f"{plural(len(facts), 'recording')}, {runs.seconds:.0f} s, {counted}, {clock}"


def base_model(rig: Rig, name: str) -> ServoModel:
    """Return a fit's start: a model by name or file, or the profile's constants with the servo's own loop."""
    servo = rig.servos[0]
    spec = rig.specs[servo.name]
    profile = spec.profile
    if name == _OWN_LOOP:
        own = spec.model.controller
        model = ServoModel.model_validate(
            {
                "name": name,
                "motor": {**profile.motor, "inductance": 0.0},
                "friction": {**profile.friction, "law": MODELS[name]},
                "controller": own.model_dump() if own.law == "pid" else {"law": "pid", "p_duty": P_DUTY_XL330},
                "sensor": {"quantised": True},
            }
        )
    else:
        model = spec.model if name == servo.model else spec.load_model(name)
    if not profile.has_law(model.controller.law):
        other = "ax12" if profile.has_law("compliance") else _OWN_LOOP
        raise UsageError(f"an {profile.name} has no registers for the loop of {name}", f"choose the model {other}")
    return model


def resting_noise(runs: Runs) -> float:
    """Return the standard deviation of position readings at rest, rad, without rounding; 0 if the servo never rests."""
    variances = []
    for a, b in runs.spans:
        position = runs.position[a:b]
        for first in range(0, len(position) - 20, 20):
            part = position[first : first + 20]
            if np.ptp(part) < np.radians(1.2) and abs(part[:10].mean() - part[10:].mean()) < np.radians(0.1):
                variances.append(float(np.var(np.diff(part)) / 2))
    if not variances:
        return 0.0
    counts = np.abs(np.diff(np.unique(np.round(runs.position, 6))))
    count = float(np.min(counts[counts > 1e-5], initial=1.0))
    noises = np.linspace(0.0, math.radians(1.0), 2001)
    return float(np.interp(np.mean(variances), scatter(noises, count), noises))


def _check_sense(recordings: Sequence[Recording], runs: Runs) -> None:
    for recording, (a, b), volts in zip(recordings, runs.spans, runs.supply, strict=True):
        path = recording.path
        if not 0.0 < volts < math.inf:
            raise RecordingError(path, f"has a supply of {volts:g} V", "correct its voltages, or leave that column out")
        if np.ptp(runs.position[a:b]) < MOVED:
            raise RecordingError(path, "hardly moves: less than 2° in all", "leave it out, or record a motion")


def inertia_of(text: str) -> float:
    """Return the inertia of a balanced load, kg·m², from ``bar:MASS,LENGTH,WIDTH`` or ``inertia:J``."""
    kind, _, rest = text.partition(":")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if any(not 0 <= number < 1e3 for number in numbers):
        raise UsageError(f"{text!r} has a number that no load has", _FORMS)
    if len(numbers) != {"bar": 3, "inertia": 1}.get(kind):
        raise UsageError(f"{text!r} is no load", _FORMS)
    mass, *sides = numbers
    return mass * sum(side**2 for side in sides) / 12 if sides else mass


def loaded_with(items: Sequence[str], *groups: Sequence[Recording]) -> tuple[list[Recording], ...]:
    """Return groups of recordings with the loads of `items`, ``PATH=LOAD``; PATH may be a unique file name."""
    loads: dict[Path, float] = {}
    paths = [recording.path for group in groups for recording in group]
    for item in items:
        name, equals, text = item.rpartition("=")
        if not equals:
            raise UsageError(f"{item!r} is no load of a recording", _FORMS)
        matches = [path for path in paths if path.resolve() == Path(name).resolve()]
        matches = matches or [path for path in paths if path.name == name]
        if len(matches) != 1:
            hint = f"recordings: {', '.join(map(str, paths))}"
            raise UsageError(f"{name} is {'no' if not matches else 'more than one'} recording of this fit", hint)
        loads[matches[0]] = inertia_of(text)

    def loaded(run: Recording) -> Recording:
        inertia = loads.get(run.path)
        return run if inertia is None else replace(run, metadata={**run.metadata, "load": {"inertia": inertia}})

    return tuple(list(map(loaded, group)) for group in groups)
