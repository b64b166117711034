"""Parameter sweeps: one robot with many values of its parameters, and a metric for each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.metrics import StepResponse, fall_time, step_response
from axbridge.config.rig import Rig
from axbridge.errors import UsageError, listed, nearest
from axbridge.learn.variation import SHORT, changed, check_name
from axbridge.motion.gait import JOINTS, SIDES, Gait
from axbridge.motion.walking import WalkOutcome, walk
from axbridge.pool import workers
from axbridge.robot.open import open_robot
from axbridge.robot.robot import Robot
from axbridge.sim.body.kinematics import posed

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
_LEAST = 1e-5  # J, that an arm gains in a fall
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

    `metric` is one of `METRICS`, or one figure of it as in ``walk.distance``; an unknown figure is NaN (see `causes`).
    `where` is ``dask://HOST:PORT``, or None for the cores of this machine. `report` is called with the
    numbers of finished and of all measurements.

    Raises:
        UsageError: an unknown metric or figure, or one that cannot be measured with this rig.
    """
    kind, _, figure = metric.partition(".")
    if kind not in METRICS:
        known = f"{nearest(kind, METRICS)}known: {', '.join(METRICS)}, or one figure of them"
        raise UsageError(f"there is no metric {metric!r}", known)
    if figure and figure not in METRICS[kind].figures:
        raise UsageError(f"{kind} has no figure {figure!r}", f"it has: {', '.join(METRICS[kind].figures)}")
    if why := METRICS[kind].lacks(rig):
        others = " or ".join(name for name in METRICS if not METRICS[name].lacks(rig))
        raise UsageError(f"{rig.name}: {kind} cannot be measured: {why}", f"take --metric {others}, or another rig")
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
    measured = METRICS[kind].measure(changed(rig, values), seed)
    return {figure: measured[figure]} if figure else measured


def causes(rows: Sequence[Figures], metric: str) -> list[str]:
    """Return which figures of which rows of a sweep are NaN, counted from 1, and why."""
    lacking: dict[str, list[str]] = {}
    for number, row in enumerate(rows, 1):
        if unknown := [name for name, value in row.items() if math.isnan(value)]:
            lacking.setdefault(", ".join(unknown), []).append(str(number))
    why = METRICS[metric.partition(".")[0]].unknown
    return [
        f"no {names} in row{'s' * (len(lines) > 1)} {listed(lines, most=10)}: {why}" for names, lines in lacking.items()
    ]


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
        assert robot.simulation is not None
        opening = robot.simulation.world.now() - robot.time  # s, in which the arm was limp, too
    return {"time": fall_time(times, places, -opening)}


def _watched(robot: Robot) -> tuple[FloatArray, FloatArray]:
    """Step for `_SECONDS`; return times, s, and true positions of the first joint, rad."""
    began = robot.time
    seen = [(began, robot[0].truth.position)]
    while robot.time < began + _SECONDS - 1e-9:
        robot.step(_SAMPLE)
        seen.append((robot.time, robot[0].truth.position))
    times, places = np.array(seen).T
    return times, places


def _cannot_fall(rig: Rig) -> str:
    """Return why the first servo's arm would not fall even without friction, or nothing."""
    joint, tree = rig.servos[0].joint, rig.tree()
    if joint not in tree.names:
        return ""  # opening the robot tells of it
    angles = np.linspace(_FALL, math.radians(5), 18)
    poses = np.tile(tree.pose(rig.start), (len(angles), 1))
    poses[:, tree.names.index(joint)] = angles
    gravity = np.array((0.0, 0.0, 0.0) if rig.world is None else rig.world.gravity)
    gained = tree.mass.sum() * posed(tree, poses).centre @ gravity  # J
    if np.all(gained[1:] > gained[0] + _LEAST):
        return ""
    return f"its weight does not turn {joint}, the first joint, from 90° to 0°"


def _cannot_walk(rig: Rig) -> str:
    names = rig.tree().names
    lost = [joint for side in SIDES for name in JOINTS if (joint := f"{side}_{name}") not in names]
    return f"it has no joint {lost[0]}, as the legs of the rig bioloid have" if lost else ""


class Metric(NamedTuple):
    """What a sweep can measure."""

    measure: Callable[[Rig, int], Figures]
    figures: tuple[str, ...]  # their names
    lacks: Callable[[Rig], str]  # returns why it cannot be measured with a rig, or nothing
    unknown: str  # cause of a NaN


METRICS = {
    "walk": Metric(
        _walk, (*(field.name for field in fields(WalkOutcome)), "speed"), _cannot_walk, "it was not measured"
    ),
    "step": Metric(
        _step,
        tuple(field.name for field in fields(StepResponse)),
        lambda _rig: "",
        f"the first joint turned by less than 2° in {_SECONDS} s (friction, a stop, no torque), or did not settle",
    ),
    "fall": Metric(
        _fall,
        ("time",),
        _cannot_fall,
        f"the arm was not within 5° of 0° after {_SECONDS} s: friction holds it or makes it slow, or a stop holds it",
    ),
}
