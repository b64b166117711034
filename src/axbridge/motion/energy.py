"""The way between poses that takes least electrical energy: the same ends, the same time, less from the supply.

Each joint's way is a cubic spline through a row of angles. Those that no pose gives are sought, so that the sum of U·i
of all servos is least, as their models have it (Lima et al. 2009, equations 1 to 5), with the robot's inverse dynamics.
Limits are kept at the moments at which the sum is taken, by an augmented Lagrangian (Nocedal and Wright 2006, ch. 17).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import RigError, UsageError, require
from axbridge.motion.mirror import signs
from axbridge.motion.moves import FARTHEST, MOST, Key, Move, Page, Signs, tracks
from axbridge.motion.planning import Bounds, check
from axbridge.servo.columns import Param, pack
from axbridge.servo.steady import SteadyServo, volts_per_radian
from axbridge.sim.body.inverse_dynamics import Body
from axbridge.units import RPM

_STILL = 0.05  # rad/s: dry friction has its whole size from about twice this speed on
_NOTHING = 0.01  # W: power this small counts half, so that the sum is smooth where a motor begins to brake
_SPARED = 0.99  # of a joint's top speed: between the moments it is a little faster
_SOLE = 0.01  # m from the soles' edge that the zero-moment point keeps
_SWAY = 0.001  # m that it may leave the range it has in the poses at rest: more makes a robot on soft servos rock
_SLIDE, _TILT = 0.002, 0.02  # m and rad that a foot may move on the floor
_GRID = 0.02  # s between the poses of the result
_POSES = 12  # of a way from rest to rest, at most
_PIECE, _PIECES = 0.12, (8, 24)  # of a spline: how long each should be, s, and how many there are at least and at most
_FEWEST, _MOMENTS = 3, 3  # pieces between two poses, and moments in a piece
_WEIGHTS = 3.0 ** np.arange(1, 9)  # of limits, round by round
_BROKEN = 0.005  # of a limit's range: too far beyond it


@dataclass(frozen=True)
class LeastEnergy:
    """What was found."""

    move: Move  # a pose every 20 ms
    joules: float  # what its ways and pauses take, as the servo models have it
    minimum_jerk: float  # what the smoothest ways through the same poses would take, J
    seconds: float  # from its first pose to its last

    @property
    def saved(self) -> float:
        """Share of the energy of the smoothest ways."""
        return 1 - self.joules / self.minimum_jerk if self.minimum_jerk > 0 else 0.0


def least_energy(rig: Rig, move: Move) -> LeastEnergy:
    """Find the way through a move's poses that takes least electrical energy.

    The robot rests in the first pose, in the last one and in each with a pause. Joints that the move does not name hold
    where the rig has them, and what they take counts. A robot that stands keeps both feet where they are.

    Raises:
        UsageError: fewer than two poses, a joint without a servo model, a pose beyond a limit, or poses that no motion
            within the limits reaches in their time.
        RigError: no world, or a robot that stands free on no two feet.
        UnsupportedOperation: SciPy or MuJoCo is not installed.
    """
    require("a move of least energy", "scipy", "mujoco")
    page = move.single
    if len(page.keys) < 2:
        raise UsageError("there is nothing to optimise between fewer than two poses", "give it a start and an end")
    if still := [number for number, key in enumerate(page.keys[1:], 2) if not key.time]:
        raise UsageError(f"the way to pose {still[0]} takes no time", "give it a time above 0 s")
    rests = sorted({0, *(n for n, key in enumerate(page.keys) if key.pause), len(page.keys) - 1})
    if (most := max(b - a for a, b in pairwise(rests))) > _POSES:
        why = f"a way through {most} poses without a rest leaves little to choose"
        raise UsageError(why, f"keep {_POSES} poses at most between two rests")
    pauses = np.array([key.pause for key in page.keys])
    left = np.cumsum([key.time + key.pause for key in page.keys])
    reached = left - pauses
    machine = _Machine(rig, page, reached)
    joules = usual = float(machine.holding @ pauses)
    start = {name: way.at(page.keys[0].time) for name, way in machine.ways.items()}
    keys = [page.keys[0].model_copy(update={"positions": start})]
    for a, b in pairwise(rests):
        found, smoothest, rows = _searched(machine, page.keys[a + 1 : b + 1], np.r_[left[a], reached[a + 1 : b + 1]])
        joules, usual = joules + found, usual + smoothest
        time = float(reached[b] - left[a]) / len(rows)
        keys += [Key(positions=dict(zip(start, row, strict=True)), time=time) for row in rows.round(5).tolist()]
        keys[-1] = keys[-1].model_copy(update={"pause": page.keys[b].pause, "name": page.keys[b].name})
    done = page.model_copy(update={"keys": tuple(keys), "interpolation": "linear"})
    return LeastEnergy(Move(pages={"1": done}), joules, usual, page.duration - page.keys[0].time)


class _Machine:
    """A robot that a move turns: what all its motors draw, and figures with limits.

    The figures are angle, speed, voltage and torque of each servo, the zero-moment point, and how far a foot moves.
    """

    def __init__(self, rig: Rig, page: Page, reached: FloatArray) -> None:
        self.ways = tracks(page.model_copy(update={"interpolation": "minimum-jerk"}))
        poses = {name: np.array([way.at(time) for time in reached]) for name, way in self.ways.items()}
        servos = {servo.name: servo for servo in rig.dynamixels}
        if strange := [name for name in poses if name not in servos]:
            why = f"rig {rig.name!r} has no servo {', '.join(strange)} of which a model tells the current"
            raise UsageError(why, "leave joints out, or choose another rig")
        positions = {servo.joint: servo.position for servo in rig.servos}
        positions |= {servos[name].joint: float(angles[0]) for name, angles in poses.items()}
        self._body = body = Body.of(rig, positions)
        if free := [joint.name for joint in body.tree.joints if joint.linear or joint.name not in positions]:
            why = f"{', '.join(free)}: slides, or swings without a servo"
            raise UsageError(why, "optimise moves of robots whose joints servos turn")
        joints = body.tree.names
        self._driven = [joints.index(servo.joint) for servo in rig.dynamixels]
        limits = self._set_servos(rig, page)
        check(Move(pages={"1": page}), ["1"], {name: Bounds(*limits[name, "rad"], math.inf) for name in poses})
        self.reach = np.array([limits[name, "rad"] for name in poses]).T
        ahead, aside = (room - _SOLE for room in body.room)
        limits |= {("zero-moment point ahead", "m"): (-ahead, ahead), ("zero-moment point aside", "m"): (-aside, aside)}
        limits |= {(f"a foot's place {axis}", "m"): (-_SLIDE, _SLIDE) for axis in "xyz"}
        limits |= {(f"a foot's tilt {axis}", "rad"): (-_TILT, _TILT) for axis in "xy"}
        self._limited = list(limits)
        self.ends: FloatArray = np.clip(list(limits.values()), -FARTHEST, FARTHEST).T
        self.names, self.given = _leaders(rig, poses) if body.soles else (list(poses), np.eye(len(poses)))
        self._turned = self.given @ np.eye(len(joints))[[joints.index(servos[name].joint) for name in poses]]
        rows = np.column_stack([poses[name] for name in self.names])
        self._rest = body.tree.pose(positions) - rows[0] @ self._turned
        self.holding, figures = self.power(np.hstack((rows, 0 * rows, 0 * rows)))  # W in each pose, at rest
        stand = ": the robot has to stand on both feet, where they are" if body.soles else ""
        why = "pose {when} cannot be held: {name} at {value}, and may be at {range}"
        self.refuse_broken(figures, why, range(1, len(rows) + 1), "correct the pose" + stand)
        zmp, at_rest = slice(-7, -5), figures[:, -7:-5]
        self.ends[:, zmp] = np.clip(self.ends[:, zmp], at_rest.min(axis=0) - _SWAY, at_rest.max(axis=0) + _SWAY)

    def _set_servos(self, rig: Rig, page: Page) -> dict[tuple[str, str], tuple[float, float]]:
        """Keep what is known of the servos, with the friction of their joints; limits by name and unit."""
        rows, facts, limits = [], [], {}
        for servo, column in zip(rig.dynamixels, self._driven, strict=True):
            model, profile, volts = rig.model_of(servo), rig.profile_of(servo), rig.supply_of(servo)
            row, joint, name = pack(model, profile.units.position), self._body.tree.joints[column], servo.name
            low, high = np.clip(servo.soft_limits, *rig.stops_of(servo))
            top = min(servo.max_velocity or profile.electrics.no_load_speed * RPM, page.speed.get(name, math.inf))
            most = min(servo.max_torque or profile.electrics.stall_torque, page.torque.get(name, math.inf))
            most = min(most, row[Param.EFFICIENCY] * row[Param.CONSTANT] * (model.motor.max_current or math.inf))
            limits[name, "rad"] = low, high
            limits[name, "rad/s"] = -_SPARED * top, _SPARED * top
            limits |= {(name, "V"): (-volts, volts), (name, "N·m"): (-most, most)}
            row[Param.VISCOUS] += joint.damping + servo.damping_constant
            row[Param.COULOMB] += joint.friction + servo.static_friction
            row[Param.MAX_CURRENT] = 0.0  # `most` it is
            rows.append(row)
            # Between two goals a joint goes on evenly: V for each rad/s that their steps add, root mean square.
            ripple = volts_per_radian(model, profile, volts) * rig.robot.basic_time_step_ms / 1e3 / math.sqrt(12.0)
            facts.append((servo.direction, model.motor.armature, servo.spring_constant, volts, ripple))
        self._servos = SteadyServo.of(np.array(rows))
        self._side, self._armature, self._spring, self._supply, self._ripple = np.array(facts).T
        return limits

    def room(self, figures: FloatArray) -> FloatArray:
        """From the limits below and above to figures (…, figures), in shares of their range, (2, …, figures)."""
        low, high = self.ends
        found: FloatArray = np.stack((figures - low, high - figures)) / np.maximum(high - low, 1e-6)
        return found

    def refuse_broken(self, figures: FloatArray, why: str, when: Sequence[float], hint: str) -> None:
        """Raise what is furthest beyond its limit, if anything is."""
        room = self.room(figures)
        if room.min() < -_BROKEN:
            _, moment, figure = np.unravel_index(int(room.argmin()), room.shape)
            (name, unit), (low, high) = self._limited[figure], self.ends[:, figure]
            value, span = f"{figures[moment, figure]:.3g} {unit}", f"{low:.3g} to {high:.3g} {unit}"
            raise UsageError(why.format(when=when[int(moment)], name=name, value=value, range=span), hint)

    def power(self, motion: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Power of all servos, W, and the figures, (…, figures), by angles, speeds, accelerations, (…, 3 names)."""
        moving = motion.reshape(-1, 3, len(self.names)) @ self._turned
        moving[:, 0] += self._rest
        effort = self._body.effort(*moving.swapaxes(0, 1))
        angle, rate, faster = self._side * moving[..., self._driven].swapaxes(0, 1)
        load = self._side * effort.torque[:, self._driven] + self._spring * angle
        torque = self._servos.needed(load, rate, np.tanh(rate / _STILL)) + self._armature * faster
        duty = self._servos.duty_of(torque, self._supply, rate)
        power = self._servos.power(duty, self._supply, rate)
        positive = (power + np.sqrt(power**2 + _NOTHING**2)) / 2  # what a braking motor gives back is lost
        heated = (self._ripple * rate) ** 2 / self._servos.resistance(np.clip(duty, -1.0, 1.0))
        servos = np.stack((self._side * angle, rate, self._supply * self._servos.felt(duty), torque), axis=-1)
        figures = np.hstack((servos.reshape(len(moving), -1), effort.zmp, effort.slip))
        return (positive + heated).sum(axis=1).reshape(motion.shape[:-1]), figures.reshape(*motion.shape[:-1], -1)


def _leaders(rig: Rig, poses: Mapping[str, FloatArray]) -> tuple[list[str], FloatArray]:
    """Joints that lead, and what each gives to all, (leaders, joints): partners that mirror them, so that feet stay."""
    mirror: Signs = {}
    with suppress(RigError):  # no mirror; then both feet are held by limits alone
        mirror = signs(rig)
    leaders: list[str] = []
    given = np.zeros((len(poses), len(poses)))
    for column, (name, own) in enumerate(poses.items()):
        partner, sign = mirror.get(name, (name, 1.0))
        if partner not in leaders or not np.allclose(own, sign * poses[partner], rtol=0.0, atol=1e-6):
            partner, sign = name, 1.0
            leaders.append(name)
        given[leaders.index(partner), column] = sign
    return leaders, given[: len(leaders)]


def _searched(machine: _Machine, keys: Sequence[Key], times: FloatArray) -> tuple[float, float, FloatArray]:
    """The way from rest to rest: its energy, J, that of the smoothest one, and its poses."""
    from scipy.interpolate import CubicSpline
    from scipy.optimize import minimize

    counts = np.clip(np.ceil(np.diff(times) / _PIECE - 1e-9), *np.divide(_PIECES, len(keys)))
    counts = np.maximum(_FEWEST, np.ceil(counts)).astype(int)
    reached = np.r_[0, np.cumsum(counts)]  # pieces before each pose
    breaks = np.interp(np.arange(reached[-1] + 1), reached, times)
    moments = np.interp((np.arange(_MOMENTS * reached[-1]) + 0.5) / _MOMENTS, reached, times)
    weights = np.repeat(np.diff(breaks), _MOMENTS) / _MOMENTS
    angles = np.array([[machine.ways[name].at(time) for name in machine.names] for time in breaks])  # the smoothest way
    free = np.ones_like(angles, dtype=np.bool_)
    free[[0, -1]] = False
    for number, key in zip(reached[1:-1], keys[:-1], strict=True):
        free[number] = ~machine.given[:, [name in key.positions for name in machine.ways]].any(axis=1)
    splines = CubicSpline(breaks, np.eye(len(breaks)), bc_type="clamped")
    basis = np.stack([splines(moments, order) for order in range(3)], axis=1)
    by_angle = np.kron(basis, np.eye(len(machine.names)))  # of angles, speeds and accelerations
    smoothest, by_free = by_angle @ angles.ravel(), by_angle[..., free.ravel()]
    # An unknown is a mix of angles, so that each adds 20 rad/s² to the accelerations: then the search is short.
    bends = np.concatenate(by_free[:, -len(machine.names) :])
    mix = 20.0 * np.linalg.inv(np.linalg.cholesky(bends.T @ bends / len(bends))).T
    by_unknown = by_free @ mix
    size = np.repeat([1e-8, 1e-7, 1e-6], len(machine.names))[:, None]  # rad, rad/s and rad/s², for derivatives
    steps = np.vstack((0 * size.T, np.diagflat(size)))[:, None]
    usual = float(machine.power(smoothest)[0] @ weights)
    unknowns, forces = np.zeros(len(mix)), np.zeros((2, 1, 1))  # with which limits push

    def pushed(unknowns: FloatArray) -> tuple[float, FloatArray]:
        """The augmented Lagrangian, and its gradient."""
        power, figures = machine.power(smoothest + by_unknown @ unknowns + steps)
        push = np.maximum(0.0, forces[:, None] - weight * machine.room(figures))
        each = weights * power / usual + (push**2).sum(axis=(0, -1)) / (2 * weight)
        return each[0].sum(), np.einsum("wn,nwu->u", (each[1:] - each[0]) / size, by_unknown)

    for weight in _WEIGHTS:
        unknowns = minimize(pushed, unknowns, jac=True, method="BFGS").x
        power, figures = machine.power(smoothest + by_unknown @ unknowns)
        if (room := machine.room(figures)).min() >= -_BROKEN:
            break
        forces = np.maximum(0.0, forces - weight * room)
    why = "no way within the limits was found: {name} would have to be at {value} after {when:.2f} s, and has {range}"
    machine.refuse_broken(figures, why, moments.tolist(), "give the poses more time")
    angles[free] += mix @ unknowns
    grid = np.linspace(times[0], times[-1], min(max(2, round(np.ptp(times) / _GRID)), MOST) + 1)[1:]
    return float(power @ weights), usual, np.clip(splines(grid) @ angles @ machine.given, *machine.reach)
