"""Parameter sweeps: one robot with many values of its parameters, and a metric for each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.metrics import StepResponse, fall_time, step_response
from axbridge.config.rig import Rig
from axbridge.errors import UsageError, nearest
from axbridge.learn.variation import SHORT, changed, check_name
from axbridge.motion.gait import Gait
from axbridge.motion.walking import WalkOutcome, walk
from axbridge.pool import workers
from axbridge.robot.open import open_robot
from axbridge.robot.robot import Robot

_UNITS = {  # ASCII, for the headers of tables
    "bus.supply_voltage": "V",
    **dict.fromkeys(("bus.supply_resistance", "motor.resistance"), "ohm"),
    **dict.fromkeys(("motor.backlash", "sensor.position_noise", "turned", "tilt"), "rad"),
    **dict.fromkeys(("delay", "rise", "settling", "time"), "s"),
    **dict.fromkeys(("overshoot", "steady_state_error"), "deg"),
    **dict.fromkeys(("planned", "distance", "sideways"), "m"),
    "energy": "J",
    **dict.fromkeys(("friction.coulomb", "friction.dry"), "Nm"),
    "friction.viscous": "Nms/rad",
    "motor.armature": "kgm2",
    "sensor.latency_ms": "ms",
    "speed": "m/s",
}
_STEP, _FALL = math.radians(45), math.radians(90)
_SECONDS = 1.5
_SAMPLE = 5.0  # ms
_MOST = 100_000  # robots of a sweep
_FORM = "write NAME=VALUE,VALUE,… or NAME=FROM:TO:COUNT, each with its own --over"

Figures = dict[str, float]
Job = tuple[Rig, Figures, str, int]  # a rig, the changed values by name, the metric and the seed


def parse_axes(items: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Parse axes ``friction=0.02,0.05`` and ``latency=0:40:5`` (from, to, count).

    Raises:
        UsageError: an axis is malformed, unknown or given twice.
    """
    axes: dict[str, tuple[float, ...]] = {}
    for item in items:
        name, _, text = item.partition("=")
        try:
            values = tuple(value for word in text.split(",") for value in _numbers(*word.split(":")))
        except (TypeError, ValueError) as failure:
            raise UsageError(f"{item!r} is no axis", _FORM) from failure
        if not values or not all(map(math.isfinite, values)):
            raise UsageError(f"{item!r} is no axis", _FORM)
        if name in axes:
            raise UsageError(f"{name} is given twice", "give all its values in one list")
        check_name(name, "seed")
        if name == "seed" and not all(value >= 0 and value.is_integer() for value in values):
            raise UsageError(f"{item!r}: a seed is a whole number, at least 0", "write seed=0,1,2")
        axes[name] = values
    if math.prod(map(len, axes.values())) > _MOST:
        raise UsageError(f"more than {_MOST} robots are too many for a sweep", "give fewer values")
    return axes


def _numbers(first: str, last: str | None = None, count: str = "") -> list[float]:
    if last is None:
        return [float(first)]
    # one too many is enough to be refused
    values: list[float] = np.linspace(float(first), float(last), min(int(count), _MOST + 1)).tolist()
    return values


def header(name: str) -> str:
    """Return a name with its unit, if it has one, as ``rise_s``."""
    unit = _UNITS.get(SHORT.get(name, name))
    return name if unit is None or name.endswith(f"_{unit}") else f"{name}_{unit}"


def sweep(
    rig: Rig,
    axes: Mapping[str, Sequence[float]],
    metric: str,
    *,
    seed: int = 0,
    where: str | None = None,
    report: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[Figures]:
    """Measure every combination of the axes' values, the last axis fastest; return its values and figures.

    `metric` is one of `METRICS`, or one figure of it as in ``walk.distance``; an unknown figure is NaN.
    `where` is ``dask://HOST:PORT``, or None for the cores of this machine. `report` is called with the
    numbers of finished and of all measurements.

    Raises:
        UsageError: an unknown metric or figure.
    """
    kind, _, figure = metric.partition(".")
    if kind not in METRICS:
        known = f"{nearest(kind, METRICS)}known: {', '.join(METRICS)}, or one figure of them"
        raise UsageError(f"there is no metric {metric!r}", known)
    if figure and figure not in METRICS[kind][1]:
        raise UsageError(f"{kind} has no figure {figure!r}", f"it has: {', '.join(METRICS[kind][1])}")
    jobs: list[Job] = []
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        changed(rig, values)  # impossible values raise before the work begins
        jobs.append((rig, values, metric, int(values.get("seed", seed))))
    rows: list[Figures] = []
    report(0, len(jobs))
    with workers(where, most=len(jobs)) as pool:
        for (_, values, *_), measured in zip(jobs, pool(figures, jobs), strict=True):
            rows.append(values | measured)
            report(len(rows), len(jobs))
    return rows


def figures(job: Job) -> Figures:
    """Measure one robot."""
    rig, values, metric, seed = job
    kind, _, figure = metric.partition(".")
    measured = METRICS[kind][0](changed(rig, values), seed)
    return {figure: measured[figure]} if figure else measured


def _walk(rig: Rig, seed: int) -> Figures:
    with open_robot(rig, "sim", seed=seed) as robot:
        outcome = walk(robot, Gait())
    facts = asdict(outcome) | {"speed": outcome.speed}
    return {name: math.nan if value is None else float(value) for name, value in facts.items()}


def _step(rig: Rig, seed: int) -> Figures:
    """Measure a step of the first servo by 45°."""
    with open_robot(rig, "sim", seed=seed) as robot:
        robot.set_positions(robot.positions)
        robot.step(200)
        began, goal = robot.time, robot[0].truth.position + _STEP
        robot[0].set_position(goal)
        times, places = _watched(robot)
    return asdict(step_response(times, places, goal, began))


def _fall(rig: Rig, seed: int) -> Figures:
    """Measure the fall time of a limp arm from 90° to within 5° of hanging down."""
    raised = rig.with_servos(lambda servo: {"position": _FALL} if servo is rig.servos[0] else {})
    with open_robot(raised, "sim", seed=seed) as robot:
        robot[0].torque_off()
        times, places = _watched(robot)
    return {"time": fall_time(times, places, 0.0)}


def _watched(robot: Robot) -> tuple[FloatArray, FloatArray]:
    """Step for `_SECONDS`; return times, s, and true positions of the first joint, rad."""
    began = robot.time
    seen = [(began, robot[0].truth.position)]
    while robot.time < began + _SECONDS - 1e-9:
        robot.step(_SAMPLE)
        seen.append((robot.time, robot[0].truth.position))
    times, places = np.array(seen).T
    return times, places


METRICS: dict[str, tuple[Callable[[Rig, int], Figures], tuple[str, ...]]] = {  # function and names of figures
    "walk": (_walk, (*(field.name for field in fields(WalkOutcome)), "speed")),
    "step": (_step, tuple(field.name for field in fields(StepResponse))),
    "fall": (_fall, ("time",)),
}
