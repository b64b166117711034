"""Find the trajectory between poses with the least electrical energy, for given poses and times.

Each joint's trajectory is a cubic spline through a row of angles. Those that no pose gives are the unknowns of the
search. It minimises the sum of U·i of all servos by their models (Lima et al. 2009, equations 1 to 5), with the robot's
inverse dynamics. Limits are checked at the times of this sum, by an augmented Lagrangian (Nocedal and Wright 2006,
ch. 17).
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

_STILL = 0.05  # rad/s: dry friction is complete from about twice this speed on
_SMOOTHING = 0.01  # W: smooths the power around 0, where a motor begins to brake
_SPEED_SHARE = 0.99  # usable share of a joint's top speed: between the checked times it is slightly faster
_SOLE = 0.01  # m: least distance of the zero-moment point from the soles' edge
_SWAY = 0.001  # m: largest distance of the ZMP from its range in the poses at rest; more makes a soft robot rock
_SLIDE, _TILT = 0.002, 0.02  # m, rad: largest motion of a foot on the floor
_GRID = 0.02  # s between the poses of the result
_POSES = 12  # most poses between two rests
_PIECE, _PIECES = 0.12, (8, 24)  # of a spline: desired length of a piece, s; least and greatest number of pieces
_FEWEST, _MOMENTS = 3, 3  # least number of pieces between two poses; times per piece at which power is computed
_WEIGHTS = 3.0 ** np.arange(1, 9)  # of limits, for each round
_MAX_VIOLATION = 0.005  # of a limit, as a share of its range


@dataclass(frozen=True)
class LeastEnergy:
    """A move of least energy."""

    move: Move  # a pose every 20 ms
    joules: float  # energy of the motion and its pauses, by the servo models
    minimum_jerk: float  # energy of minimum-jerk trajectories through the same poses, J
    seconds: float  # from its first pose to its last

    @property
    def saved(self) -> float:
        """Saved energy as a share of that of the minimum-jerk trajectories."""
        return 1 - self.joules / self.minimum_jerk if self.minimum_jerk > 0 else 0.0


def least_energy(rig: Rig, move: Move) -> LeastEnergy:
    """Return the move through the same poses, at the same times, with the least electrical energy.

    The robot rests in the first pose, in the last one and in each with a pause. Joints that are not in the move hold
    the rig's position, and their energy counts. A standing robot keeps both feet in place.

    Raises:
        UsageError: fewer than two poses, a joint without a servo model, a pose beyond a limit, or poses that cannot be
            reached in time within the limits.
        RigError: no world, or a free robot that does not stand on two feet.
        UnsupportedOperation: SciPy or MuJoCo is not installed.
    """
    require("a move of least energy", "scipy", "mujoco")
    page = move.single
    if len(page.keys) < 2:
        raise UsageError("there is nothing to optimise between fewer than two poses", "give it a start and an end")
    if still := [number for number, key in enumerate(page.keys[1:], 2) if not key.time]:
        raise UsageError(f"the motion to pose {still[0]} takes no time", "give it a time above 0 s")
    rests = sorted({0, *(n for n, key in enumerate(page.keys) if key.pause), len(page.keys) - 1})
    if (longest := max(b - a for a, b in pairwise(rests))) > _POSES:
        why = f"a motion through {longest} poses without a rest leaves little to choose"
        raise UsageError(why, f"keep {_POSES} poses at most between two rests")
    pauses = np.array([key.pause for key in page.keys])
    left = np.cumsum([key.time + key.pause for key in page.keys])
    reached = left - pauses
    machine = _Machine(rig, page, reached)
    joules = usual = float(machine.holding @ pauses)
    start = {name: path.at(page.keys[0].time) for name, path in machine.paths.items()}
    keys = [page.keys[0].model_copy(update={"positions": start})]
    for a, b in pairwise(rests):
        least, smoothest, rows = _optimised(machine, page.keys[a + 1 : b + 1], np.r_[left[a], reached[a + 1 : b + 1]])
        joules, usual = joules + least, usual + smoothest
        time = float(reached[b] - left[a]) / len(rows)
        keys += [Key(positions=dict(zip(start, row, strict=True)), time=time) for row in rows.round(5).tolist()]
        keys[-1] = keys[-1].model_copy(update={"pause": page.keys[b].pause, "name": page.keys[b].name})
    done = page.model_copy(update={"keys": tuple(keys), "interpolation": "linear"})
    return LeastEnergy(Move(pages={"1": done}), joules, usual, page.duration - page.keys[0].time)


class _Machine:
    """A moving robot: the power of all its motors, and the figures that have limits.

    The figures are angle, speed, voltage and torque of each servo, the zero-moment point, and the motion of a foot.
    """

    def __init__(self, rig: Rig, page: Page, reached: FloatArray) -> None:
        self.paths = tracks(page.model_copy(update={"interpolation": "minimum-jerk"}))
        poses = {name: np.array([path.at(time) for time in reached]) for name, path in self.paths.items()}
        servos = {servo.name: servo for servo in rig.dynamixels}
        if unmodelled := [name for name in poses if name not in servos]:
            why = f"rig {rig.name!r} has no servo {', '.join(unmodelled)} with a model of its current"
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
        ahead, aside = (extent - _SOLE for extent in body.room)
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
        """Set the servos' parameters, with their joints' friction; return limits by name and unit."""
        rows, facts, limits = [], [], {}
        for servo, column in zip(rig.dynamixels, self._driven, strict=True):
            spec = rig.specs[servo.name]
            model, profile, volts = spec.model, spec.profile, spec.supply
            row, joint, name = pack(model, profile.units.position), self._body.tree.joints[column], servo.name
            low, high = np.clip(servo.soft_limits, *spec.stops)
            top = min(servo.max_velocity or profile.electrics.no_load_speed * RPM, page.speed.get(name, math.inf))
            torque = min(servo.max_torque or profile.electrics.stall_torque, page.torque.get(name, math.inf))
            torque = min(torque, row[Param.EFFICIENCY] * row[Param.CONSTANT] * (model.motor.max_current or math.inf))
            limits[name, "rad"] = low, high
            limits[name, "rad/s"] = -_SPEED_SHARE * top, _SPEED_SHARE * top
            limits |= {(name, "V"): (-volts, volts), (name, "N·m"): (-torque, torque)}
            row[Param.VISCOUS] += joint.damping + servo.damping_constant
            row[Param.COULOMB] += joint.friction + servo.static_friction
            row[Param.MAX_CURRENT] = 0.0  # the torque limit includes it
            rows.append(row)
            # A joint moves evenly between two goals: RMS voltage that the steps of the goals add, V for each rad/s.
            ripple = volts_per_radian(model, profile, volts) * rig.robot.basic_time_step_ms / 1e3 / math.sqrt(12.0)
            facts.append((servo.direction, model.motor.armature, servo.spring_constant, volts, ripple))
        self._servos = SteadyServo.of(np.array(rows))
        self._side, self._armature, self._spring, self._supply, self._ripple = np.array(facts).T
        return limits

    def room(self, figures: FloatArray) -> FloatArray:
        """Return distances (2, …) of figures (…, figures) from lower and upper limits, as shares of the ranges."""
        low, high = self.ends
        room: FloatArray = np.stack((figures - low, high - figures)) / np.maximum(high - low, 1e-6)
        return room

    def refuse_broken(self, figures: FloatArray, why: str, when: Sequence[float], hint: str) -> None:
        """Raise UsageError for the figure furthest beyond its limit, if there is one."""
        room = self.room(figures)
        if room.min() < -_MAX_VIOLATION:
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
        positive = (power + np.sqrt(power**2 + _SMOOTHING**2)) / 2  # a braking motor returns no power to the supply
        heated = (self._ripple * rate) ** 2 / self._servos.resistance(np.clip(duty, -1.0, 1.0))
        servos = np.stack((self._side * angle, rate, self._supply * self._servos.motor_duty(duty), torque), axis=-1)
        figures = np.hstack((servos.reshape(len(moving), -1), effort.zmp, effort.slip))
        return (positive + heated).sum(axis=1).reshape(motion.shape[:-1]), figures.reshape(*motion.shape[:-1], -1)


def _leaders(rig: Rig, poses: Mapping[str, FloatArray]) -> tuple[list[str], FloatArray]:
    """Return independent joints and their effect on all, (leaders, joints); mirrored joints follow, so feet stay."""
    mirror: Signs = {}
    with suppress(RigError):  # the rig is not symmetrical: limits alone keep the feet in place
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


def _optimised(machine: _Machine, keys: Sequence[Key], times: FloatArray) -> tuple[float, float, FloatArray]:
    """Return the least energy from rest to rest, J, that of minimum jerk, J, and the poses (n, joints), rad."""
    from scipy.interpolate import CubicSpline
    from scipy.optimize import minimize

    counts = np.clip(np.ceil(np.diff(times) / _PIECE - 1e-9), *np.divide(_PIECES, len(keys)))
    counts = np.maximum(_FEWEST, np.ceil(counts)).astype(int)
    reached = np.r_[0, np.cumsum(counts)]  # pieces before each pose
    breaks = np.interp(np.arange(reached[-1] + 1), reached, times)
    moments = np.interp((np.arange(_MOMENTS * reached[-1]) + 0.5) / _MOMENTS, reached, times)
    weights = np.repeat(np.diff(breaks), _MOMENTS) / _MOMENTS
    angles = np.array([[machine.paths[name].at(time) for name in machine.names] for time in breaks])  # minimum jerk
    free = np.ones_like(angles, dtype=np.bool_)
    free[[0, -1]] = False
    for number, key in zip(reached[1:-1], keys[:-1], strict=True):
        free[number] = ~machine.given[:, [name in key.positions for name in machine.paths]].any(axis=1)
    splines = CubicSpline(breaks, np.eye(len(breaks)), bc_type="clamped")
    basis = np.stack([splines(moments, order) for order in range(3)], axis=1)
    by_angle = np.kron(basis, np.eye(len(machine.names)))  # of angles, speeds and accelerations
    smoothest, by_free = by_angle @ angles.ravel(), by_angle[..., free.ravel()]
    # Each unknown is a combination of angles that adds 20 rad/s² to the accelerations: the search converges faster.
    bends = np.concatenate(by_free[:, -len(machine.names) :])
    mix = 20.0 * np.linalg.inv(np.linalg.cholesky(bends.T @ bends / len(bends))).T
    by_unknown = by_free @ mix
    size = np.repeat([1e-8, 1e-7, 1e-6], len(machine.names))[:, None]  # rad, rad/s and rad/s², for derivatives
    steps = np.vstack((0 * size.T, np.diagflat(size)))[:, None]
    energy_of_smoothest = float(machine.power(smoothest)[0] @ weights)
    unknowns, forces = np.zeros(len(mix)), np.zeros((2, 1, 1))  # multipliers of the limits

    def pushed(unknowns: FloatArray) -> tuple[float, FloatArray]:
        """Return the augmented Lagrangian and its gradient."""
        power, figures = machine.power(smoothest + by_unknown @ unknowns + steps)
        push = np.maximum(0.0, forces[:, None] - weight * machine.room(figures))
        each = weights * power / energy_of_smoothest + (push**2).sum(axis=(0, -1)) / (2 * weight)
        return each[0].sum(), np.einsum("wn,nwu->u", (each[1:] - each[0]) / size, by_unknown)

    for weight in _WEIGHTS:
        unknowns = minimize(pushed, unknowns, jac=True, method="BFGS").x
        power, figures = machine.power(smoothest + by_unknown @ unknowns)
        if (room := machine.room(figures)).min() >= -_MAX_VIOLATION:
            break
        forces = np.maximum(0.0, forces - weight * room)
    why = "no motion within the limits was found: {name} would be {value} after {when:.2f} s, and may be {range}"
    machine.refuse_broken(figures, why, moments.tolist(), "give the poses more time")
    angles[free] += mix @ unknowns
    grid = np.linspace(times[0], times[-1], min(max(2, round(np.ptp(times) / _GRID)), MOST) + 1)[1:]
    return float(power @ weights), energy_of_smoothest, np.clip(splines(grid) @ angles @ machine.given, *machine.reach)
