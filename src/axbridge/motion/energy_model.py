"""What motions cost a robot: the electrical power of its servos, and whatever limits a motion has to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import RigError, UsageError
from axbridge.motion.mirror import signs
from axbridge.motion.moves import Move, Page
from axbridge.motion.planning import Bounds, check
from axbridge.servo.columns import Param, pack
from axbridge.servo.feed_forward import volts_per_radian
from axbridge.servo.steady import SteadyServo
from axbridge.sim.body.effort import Body
from axbridge.sim.body.link_paths import way_to_base
from axbridge.units import RPM

_STILL = 0.05  # rad/s: dry friction has its whole size from about twice this speed on
_NOTHING = 0.01  # W: power this small counts half, so that the sum is smooth where a motor begins to brake
_SPARED = 0.99  # of a joint's top speed: between the moments it is a little faster
_SOLE = 0.01  # m from the soles' edge that the zero-moment point keeps
_SWAY = 0.001  # m that it may leave the range it has in the poses at rest: more makes a robot on soft servos rock
_SLIDE, _TILT = 0.002, 0.02  # m and rad that a foot may move on the floor
_HELD = 0.005  # of a limit's range: a pose at rest may be so far beyond it
_ALIKE = 1e-6  # rad
_ZMP = "zero-moment point"


class _ServoFigures(NamedTuple):
    """Figures of the servos and their joints, one of each servo, (servos,)."""

    servos: SteadyServo  # with the friction of their joints
    side: FloatArray  # 1 or -1: servo angle over joint angle
    armature: FloatArray
    spring: FloatArray
    supply: FloatArray
    torque: FloatArray  # at most
    ripple: FloatArray  # V for each rad/s: what goals that come in steps add to the voltage, root mean square


class Limited(NamedTuple):
    """What limits hold for, by name, with the lowest and highest figures, (figures,)."""

    names: tuple[tuple[str, str], ...]
    low: FloatArray
    high: FloatArray

    @property
    def span(self) -> FloatArray:
        """Between them; a large number where there is no limit."""
        return np.minimum(self.high - self.low, 1e6)


@dataclass(frozen=True)
class Machine:
    """A robot and its servos, and the joints that a move turns.

    Attributes:
        body: Its dynamics.
        rest: Angles of the tree's joints that the move does not turn, 0 for the others, (joints,).
        names: Servos that the move names, without those that mirror one of them.
        mirrored: Servos of legs that do what their partner on the other side does: the partner, and the sign.
        turned: What a rad of `names` is in the tree's joints, (names, joints).
        driven: Joints of all servos in the tree, (servos,).
        motors: Theirs.
        limited: Angles and speeds of the move's joints, voltages and torques of all servos, zero-moment point, feet.
    """

    body: Body
    rest: FloatArray
    names: tuple[str, ...]
    mirrored: dict[str, tuple[str, float]]
    turned: FloatArray
    driven: tuple[int, ...]
    motors: _ServoFigures
    limited: Limited

    @classmethod
    def of(cls, rig: Rig, page: Page, poses: Mapping[str, FloatArray]) -> Machine:
        """A robot for a move; `poses` are the angles of its joints in its poses, rad, (keys,) each.

        Raises:
            UsageError: a joint without a servo model, or a pose that is out of reach or cannot be held.
            RigError: no world, or a robot that stands free on no two feet.
        """
        servos = {servo.name: servo for servo in rig.servos}
        if strange := [name for name in page.joints if name not in servos]:
            raise UsageError(
                f"rig {rig.name!r} has no servo {', '.join(strange)}", "leave joints out, or choose another rig"
            )
        if ideal := [name for name in page.joints if servos[name].drive != "dynamixel"]:
            raise UsageError(
                f"{', '.join(ideal)}: an ideal joint draws no current that a model knows", "choose joints with servos"
            )
        positions = {servo.joint: servo.position for servo in rig.servos}
        positions |= {servos[joint].joint: float(poses[joint][0]) for joint in page.joints}
        body = Body.of(rig, positions)
        joints = body.tree.names
        if free := [joint.name for joint in body.tree.joints if joint.linear or joint.name not in positions]:
            raise UsageError(
                f"{', '.join(free)}: slides, or swings without a servo",
                "optimise moves of robots whose joints servos turn",
            )
        way = way_to_base(body.tree, body.soles[1].link) if body.soles else []
        legs = {joints[dof] for dof in body.tree.dof[way].tolist() if dof >= 0}
        mirrored = _mirrored(rig, page, [name for name in page.joints if servos[name].joint in legs])
        names = tuple(name for name in page.joints if name not in mirrored)
        driving = rig.dynamixels
        driven = tuple(joints.index(servo.joint) for servo in driving)
        bounds = {name: _bounds(rig, servos[name], body, page) for name in page.joints}
        check(Move(pages={"1": page}), ["1"], bounds)
        for name, (leader, sign) in mirrored.items():
            bounds[leader] = _shared(bounds[leader], bounds[name], sign)
        motors = _motors(rig, driving, body, page)
        slowed = [_SPARED * bounds[name].speed for name in names]
        rows: list[tuple[str, str, float, float]] = [
            *((name, "rad", bounds[name].low, bounds[name].high) for name in names),
            *((name, "rad/s", -top, top) for name, top in zip(names, slowed, strict=True)),
            *((servo.name, "V", -volts, volts) for servo, volts in zip(driving, motors.supply, strict=True)),
            *((servo.name, "N·m", -most, most) for servo, most in zip(driving, motors.torque, strict=True)),
            (f"{_ZMP} ahead", "m", _SOLE - body.room[0], body.room[0] - _SOLE),
            (f"{_ZMP} aside", "m", _SOLE - body.room[1], body.room[1] - _SOLE),
            *((f"a foot's place {axis}", "m", -_SLIDE, _SLIDE) for axis in "xyz"),
            *((f"a foot's tilt {axis}", "rad", -_TILT, _TILT) for axis in "xy"),
        ]
        limited = Limited(
            tuple((name, unit) for name, unit, _, _ in rows),
            np.array([low for _, _, low, _ in rows]),
            np.array([high for _, _, _, high in rows]),
        )
        rest = np.array([positions[joint] for joint in joints])
        turned = np.zeros((len(names), len(joints)))
        for name in page.joints:
            leader, sign = mirrored.get(name, (name, 1.0))
            turned[names.index(leader), joints.index(servos[name].joint)] = sign
            rest[joints.index(servos[name].joint)] = 0.0
        return cls(body, rest, names, mirrored, turned, driven, motors, limited).standing(poses)

    def standing(self, poses: Mapping[str, FloatArray]) -> Machine:
        """Narrower room for the zero-moment point, about where it is in the poses at rest: `_SWAY`."""
        angles = np.column_stack([poses[name] for name in self.names])
        found = self.drawn(angles, np.zeros_like(angles), np.zeros_like(angles))[1]
        low, high = self.limited.low.copy(), self.limited.high.copy()
        over = np.maximum(low - found, found - high) / self.limited.span
        pose, figure = np.unravel_index(int(over.argmax()), over.shape)
        if over[pose, figure] > _HELD:
            name, unit = self.limited.names[figure]
            raise UsageError(
                f"pose {pose + 1} cannot be held: {name} at {found[pose, figure]:.3g} {unit}, and may be at "
                f"{low[figure]:.3g} to {high[figure]:.3g}",
                "correct the pose"
                + (": the robot has to stand on both feet, where they are" if self.body.soles else ""),
            )
        for k, (name, _) in enumerate(self.limited.names):
            if name.startswith(_ZMP):
                low[k] = max(low[k], found[:, k].min() - _SWAY)
                high[k] = min(high[k], found[:, k].max() + _SWAY)
        return replace(self, limited=self.limited._replace(low=low, high=high))

    def pose(self, angles: FloatArray) -> dict[str, float]:
        """Angles of all servos of the move, rad, from those of `names`."""
        found = dict(zip(self.names, angles.tolist(), strict=True))
        return found | {name: sign * found[leader] for name, (leader, sign) in self.mirrored.items()}

    def holding(self, pose: Mapping[str, float]) -> float:
        """Power of a pose at rest, W."""
        angles = np.array([[pose[name] for name in self.names]])
        return float(self.drawn(angles, np.zeros_like(angles), np.zeros_like(angles))[0][0])

    def drawn(self, position: FloatArray, speed: FloatArray, acceleration: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Power of all servos, W, (n,), and the figures that are limited, (n, figures).

        Args:
            position: Of the move's joints at n moments, rad, (n, names).
            speed: rad/s.
            acceleration: rad/s².
        """
        moving = [self.rest + position @ self.turned, speed @ self.turned, acceleration @ self.turned]
        effort = self.body.effort(*moving)
        angle, rate, faster = (whole[:, self.driven] for whole in moving)
        m = self.motors
        load = m.side * (effort.torque[:, self.driven] + m.spring * angle)
        rate = m.side * rate
        torque = m.servos.needed(load, rate, np.tanh(rate / _STILL)) + m.armature * m.side * faster
        duty = m.servos.duty_of(torque, m.supply, rate)
        volts = m.supply * m.servos.felt(duty)
        power = m.servos.power(duty, m.supply, rate)
        positive = (power + np.sqrt(power**2 + _NOTHING**2)) / 2  # what a braking motor gives back is lost
        heated = (m.ripple * rate) ** 2 / m.servos.resistance(np.clip(duty, -1.0, 1.0))
        return (positive + heated).sum(axis=1), np.hstack((position, speed, volts, torque, effort.zmp, effort.slip))


def _mirrored(rig: Rig, page: Page, joints: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Which of these joints do in every pose what their partners do, mirrored: so both feet stay where they are."""
    try:
        partners = signs(rig)
    except RigError:  # no mirror; then both feet are held by limits alone
        return {}
    found: dict[str, tuple[str, float]] = {}
    for joint in joints:
        partner, sign = partners[joint]
        if partner == joint or partner in found or partner not in joints:
            continue
        pairs = [(key.positions.get(joint), key.positions.get(partner)) for key in page.keys]
        if all((one is None) == (other is None) for one, other in pairs) and all(
            abs(one - sign * other) < _ALIKE for one, other in pairs if one is not None and other is not None
        ):
            found[joint] = (partner, sign)
    return found


def _shared(one: Bounds, other: Bounds, sign: float) -> Bounds:
    """What a joint may do when another one does the same, or with sign -1 the opposite."""
    low, high = sorted((sign * other.low, sign * other.high))
    return Bounds(max(one.low, low), min(one.high, high), min(one.speed, other.speed))


def _bounds(rig: Rig, servo: ServoConfig, body: Body, page: Page) -> Bounds:
    joint = next(joint for joint in body.tree.joints if joint.name == servo.joint)
    low, high = servo.soft_limits
    stops = (servo.min_stop, servo.max_stop) if servo.min_stop < servo.max_stop else (joint.low, joint.high)
    top = servo.max_velocity or rig.profile_of(servo).electrics.no_load_speed * RPM
    return Bounds(max(low, stops[0]), min(high, stops[1]), min(top, page.speed.get(servo.name, math.inf)))


def _motors(rig: Rig, servos: Sequence[ServoConfig], body: Body, page: Page) -> _ServoFigures:
    joints = {joint.name: joint for joint in body.tree.joints}
    tick = rig.robot.basic_time_step_ms / 1e3  # s: between two goals a joint goes rate * tick, evenly
    rows, figures = [], []
    for servo in servos:
        model, profile, joint = rig.model_of(servo), rig.profile_of(servo), joints[servo.joint]
        row = pack(model, profile.units.position)
        most = min(servo.max_torque or profile.electrics.stall_torque, page.torque.get(servo.name, math.inf))
        if model.motor.max_current:
            most = min(most, row[Param.EFFICIENCY] * row[Param.CONSTANT] * model.motor.max_current)
        row[Param.VISCOUS] += joint.damping + servo.damping_constant
        row[Param.COULOMB] += joint.friction + servo.static_friction
        row[Param.MAX_CURRENT] = 0.0  # `most` it is
        rows.append(row)
        volts = rig.supply_of(servo)
        ripple = volts_per_radian(model, profile, volts) * tick / math.sqrt(12.0)
        figures.append((servo.direction, model.motor.armature, servo.spring_constant, volts, most, ripple))
    return _ServoFigures(SteadyServo.of(np.array(rows)), *np.array(figures).T)
