"""What an export leaves out, and by how much: the same moves on axbridge's servo and on the exported one.

Every term that the other simulator cannot express is taken out of axbridge's own model, one at a time, and the same
moves are made again. What that changes is the size of the term's effect, on this robot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.arm import stops_of
from axbridge.comparison.loop_settings import settings_of
from axbridge.config import toml_tables
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.export.linear_loop import LinearLoop, linear_loop
from axbridge.export.mjcf import LIMP_GROUP, mujoco_module, to_mjcf
from axbridge.robot.open import open_robot

__all__ = ["BenchMove", "ExportErrors", "in_axbridge", "in_mujoco", "measure", "moves_of"]

_SAMPLE = 0.005  # s
_STEP, _FALL = 1.5, 1.5  # s
_TURN = 0.6  # s that each joint of a robot has for its own step
_SIZE = 0.3  # rad, of that
_CHIRP = 6.0  # s
_SLOW, _FAST = 0.3, 3.0  # Hz, of the chirp at its begin and its end
_WIDE = math.radians(30)  # rad, its amplitude
_CLEAR = 0.05  # rad to a joint's stop
_GOAL = 0.02  # s from one of its goals to the next

Show = Callable[[str, float | None], None]
Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class BenchMove:
    """Goals over time, from rest.

    Attributes:
        name: ``step``, ``fall`` or ``chirp``, with its size.
        start: By servo, rad.
        goals: When, s, which servo, and where to, rad; none at all: everything is limp.
        seconds: How long it is watched.
    """

    name: str
    start: Mapping[str, float]
    goals: tuple[tuple[float, str, float], ...]
    seconds: float


@dataclass(frozen=True)
class ExportErrors:
    """Root mean square differences, degrees.

    Attributes:
        moves: Between axbridge and MuJoCo, by the move's name.
        terms: What leaving a term out of axbridge's own model changes, by the term, the worst of the moves.
    """

    moves: Mapping[str, float]
    terms: Mapping[str, float]


@dataclass(frozen=True)
class _Term:
    """What the export leaves out: in words, whether a model has it, and the tables without it."""

    words: str
    there: Callable[[ServoModel], bool]
    without: Callable[[ServoModel, LinearLoop], Tables]


def _constant(words: str, table: str, key: str) -> _Term:
    """A constant of the model that is 0 in the export."""
    return _Term(
        words,
        lambda model: bool(getattr(getattr(model, table), key)),
        lambda _model, _loop: {table: {key: 0.0}},
    )


_TERMS = (
    _Term(
        "margin, punch, dead duty, lag and quantised readings of the loop (one straight line instead)",
        lambda model: model.controller.law == "compliance",
        lambda _model, loop: {
            "controller": {"law": "state_feedback", "k_theta": loop.k_theta, "k_omega": 0.0},
            "motor": {"dead_duty": 0.0},
        },
    ),
    _Term(
        "dead duty, lag and quantised readings of the loop",
        lambda model: model.controller.law == "pid" and _blurred(model),
        lambda _model, _loop: {"motor": {"dead_duty": 0.0}, "sensor": {"lag_ms": 0.0, "quantised": False}},
    ),
    _Term(
        "resistance that grows with the duty (that of full duty instead)",
        lambda model: model.motor.resistance_per_duty > 0,
        lambda _model, loop: {"motor": {"resistance": loop.resistance, "resistance_per_duty": 0.0}},
    ),
    _constant("resistance that grows with the temperature", "motor", "resistance_per_kelvin"),
    _Term(
        "friction beyond Coulomb and viscous",
        lambda model: model.friction.law != "M1",
        lambda _model, _loop: {"friction": {"law": "M1"}},
    ),
    _constant("backlash", "motor", "backlash"),
    _constant("a motor that pushes harder one way", "motor", "asymmetry"),
    _Term(
        "limits of the current and its growth",
        lambda model: (
            model.motor.current_step > 0 or (model.motor.max_current > 0 and model.motor.current_limit == "supply")
        ),
        lambda _model, _loop: {"motor": {"current_step": 0.0, "max_current": 0.0}},
    ),
    _Term(
        "sampled control and a filtered speed",
        lambda model: model.controller.period_ms > 0 or model.controller.speed_filter < 1,
        lambda _model, _loop: {"controller": {"period_ms": 0.0, "speed_filter": 1.0}},
    ),
    _constant("inductance of the winding", "motor", "inductance"),
    _constant("an offset of the sensor", "sensor", "angle_offset"),
    _Term(
        "noise of the readings",
        lambda model: model.sensor.position_noise > 0 and model.controller.law != "compliance",
        lambda _model, _loop: {"sensor": {"position_noise": 0.0}},
    ),
)
_SAG = "a supply that sags under load"
_IDEAL = "ideal joints (Webots' motors): they have no actuator there"


def _blurred(model: ServoModel) -> bool:
    return model.motor.dead_duty > 0 or model.sensor.lag_ms > 0 or model.sensor.quantised


def moves_of(rig: Rig) -> list[BenchMove]:
    """Steps, falls and a chirp of one arm; of a robot a step of each joint in turn, a fall, a small chirp of all."""
    driven = rig.dynamixels
    if len(driven) > 1:
        start = {servo.name: servo.position for servo in driven}
        goals = [(0.0, servo.name, servo.position) for servo in driven]
        for index, servo in enumerate(driven):
            low, high = servo.soft_limits
            room = high - servo.position >= _SIZE or high - servo.position >= servo.position - low
            goal = min(max(servo.position + (_SIZE if room else -_SIZE), low), high)
            goals.append((_TURN * (index + 0.5), servo.name, goal))
        return [
            BenchMove("a step of each joint", start, tuple(goals), _TURN * (len(driven) + 1)),
            BenchMove("fall", start, (), _FALL),
            _chirp("a chirp of all joints", rig, _SIZE / 2),
        ]
    (servo,) = driven
    low, high = _room(rig, servo)
    moves = []
    for size in (10, 30, 90, -90):
        goal = min(max(math.radians(size), low), high)
        moves.append(BenchMove(f"step {math.degrees(goal):.0f}°", {servo.name: 0.0}, ((0.0, servo.name, goal),), _STEP))
    for size in (45, 90, 135):
        height = min(max(math.radians(size), low), high)
        moves.append(BenchMove(f"fall {math.degrees(height):.0f}°", {servo.name: height}, (), _FALL))
    moves.append(_chirp(f"chirp ±{math.degrees(_WIDE):.0f}°", rig, _WIDE))
    return list({move.name: move for move in moves}.values())


def _chirp(name: str, rig: Rig, amplitude: float) -> BenchMove:
    """Sines that get faster, about where the joints begin; a goal beyond a joint's limits is at the limit."""
    times = np.arange(0.0, _CHIRP, _GOAL)
    sines = amplitude * np.sin(2 * np.pi * (_SLOW * times + (_FAST - _SLOW) * times**2 / (2 * _CHIRP)))
    start = {servo.name: servo.position if len(rig.dynamixels) > 1 else 0.0 for servo in rig.dynamixels}
    goals = []
    for servo in rig.dynamixels:
        low, high = _room(rig, servo)
        wanted = np.clip(start[servo.name] + sines, low, high)
        goals += [(time, servo.name, goal) for time, goal in zip(times.tolist(), wanted.tolist(), strict=True)]
    return BenchMove(f"{name}, {_SLOW:g} to {_FAST:g} Hz", start, tuple(goals), _CHIRP)


def _room(rig: Rig, servo: ServoConfig) -> tuple[float, float]:
    """Between which angles a joint is moved, rad: its limits, and not quite to its stops."""
    (low, high), (bottom, top) = servo.soft_limits, stops_of(rig, servo)
    return max(low, bottom + _CLEAR), min(high, top - _CLEAR)


def in_axbridge(rig: Rig, move: BenchMove) -> FloatArray:
    """True positions of every servo after each 5 ms of a move, (samples, servos), rad."""
    rows = []
    started = rig.with_servos(lambda servo: {"position": move.start.get(servo.name, 0.0)})
    with open_robot(started, "sim") as robot:
        for servo in robot.values():
            servo.torque_off()
        pending = sorted(move.goals, reverse=True)
        for index in range(round(move.seconds / _SAMPLE)):
            while pending and pending[-1][0] <= index * _SAMPLE + 1e-9:
                _, name, goal = pending.pop()
                robot[name].set_position(goal)
            robot.step(_SAMPLE * 1000)
            rows.append([robot[name].truth.position for name in move.start])
    return np.array(rows)


def in_mujoco(document: str, rig: Rig, move: BenchMove) -> FloatArray:
    """The same in MuJoCo, of a document of `to_mjcf`."""
    mujoco = mujoco_module()
    model = mujoco.MjModel.from_xml_string(document)
    data = mujoco.MjData(model)
    places = {servo.name: model.joint(servo.joint).qposadr[0] for servo in rig.servos if servo.name in move.start}
    for name, start in move.start.items():
        data.qpos[places[name]] = data.ctrl[model.actuator(name).id] = start
    model.opt.disableactuator = 0 if move.goals else 1 << LIMP_GROUP
    pending = sorted(move.goals, reverse=True)
    before, now = 0.0, _seen(data, places)
    rows = []
    for index in range(round(move.seconds / _SAMPLE)):
        while pending and pending[-1][0] <= index * _SAMPLE + 1e-9:
            _, name, goal = pending.pop()
            data.ctrl[model.actuator(name).id] = goal
        due = (index + 1) * _SAMPLE
        while data.time < due - 1e-9:
            before, last = data.time, now
            mujoco.mj_step(model, data)
            now = _seen(data, places)
        share = (due - before) / (data.time - before)
        rows.append(last + share * (now - last))
    return np.array(rows)


def measure(rig: Rig, show: Show = lambda _what, _share: None) -> ExportErrors:
    """Make all moves in both, and again without each term that the export leaves out.

    Raises:
        RigError, ProfileError: the rig, its URDF or its models are wrong.
        UnsupportedOperation: MuJoCo is not there.
    """
    assert rig.world is not None
    # base bolted down in the air, nothing of the bus between goal and loop
    world = rig.world.model_copy(update={"fixed_base": True, "ground": False, "gui": False})
    rig = rig.with_buses(bus_timing="none").model_copy(update={"world": world})
    document = to_mjcf(rig)
    moves = moves_of(rig)
    whole = {}
    for index, move in enumerate(moves):
        show("measuring moves", index / len(moves))
        whole[move.name] = in_axbridge(rig, move)
    found = {move.name: _rms(whole[move.name], in_mujoco(document, rig, move)) for move in moves}
    terms = {}
    others = list(_without(rig))
    for index, (words, other) in enumerate(others):
        show("measuring what is left out", index / len(others))
        terms[words] = max((_rms(whole[m.name], in_axbridge(other, m)) for m in moves if other is not rig), default=0.0)
    return ExportErrors(found, terms)


def _without(rig: Rig) -> Iterator[tuple[str, Rig]]:
    """What of this rig is left out, and the rig without it."""
    driven = rig.dynamixels
    models = {servo.name: rig.model_of(servo) for servo in driven}
    for term in _TERMS:
        if any(term.there(model) for model in models.values()):
            yield term.words, _changed(rig, term, models)
    if any(bus.supply_resistance > 0 for bus in rig.buses):
        yield _SAG, rig.with_buses(supply_resistance=0.0)
    if len(driven) < len(rig.servos):
        yield _IDEAL, rig


def _changed(rig: Rig, term: _Term, models: Mapping[str, ServoModel]) -> Rig:
    def without(servo: ServoConfig) -> dict[str, Any]:
        model = models.get(servo.name)
        if model is None or not term.there(model):
            return {}
        row = settings_of(rig, servo, {})
        loop = linear_loop(model, row, rig.profile_of(servo).units.position, rig.supply_of(servo))
        return {"params": toml_tables.merged(servo.params, term.without(model, loop))}

    return rig.with_servos(without)


def _seen(data: Any, places: Mapping[str, int]) -> FloatArray:
    return np.array([data.qpos[place] for place in places.values()])


def _rms(one: FloatArray, other: FloatArray) -> float:
    return float(np.degrees(np.sqrt(np.mean((one - other) ** 2))))
