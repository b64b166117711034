"""The way between poses that takes least electrical energy: the same ends, the same time, less from the supply.

Each joint's way is a cubic B-spline. Sequential quadratic programming seeks its coefficients, so that the sum of U·i of
all servos is least, as their models have it (Lima et al. 2009, equations 1 to 5), with the robot's inverse dynamics.
Limits are kept at the moments at which the sum is taken; the search gets those alone that come into reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.interpolate import BSpline
from scipy.linalg import block_diag, null_space
from scipy.optimize import minimize

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import RigError, UsageError
from axbridge.motion.mirror import signs
from axbridge.motion.moves import MOST, JointPath, Key, Move, Page, tracks
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
_ALIKE = 1e-6  # rad
_GRID = 0.02  # s between the poses of the result
_POSES = 12  # of a way from rest to rest, at most
_PIECE, _PIECES = 0.12, (8, 24)  # of a spline: how long each should be, s, and how many there are at least and at most
_FEWEST, _MOMENTS = 3, 3  # pieces between two poses, and moments in a piece
_STEPS, _ROUNDS = 60, 8  # of the search with the same limits, and of finding limits that it has come to
_NEAR, _BROKEN = 0.03, 0.005  # of a limit's range: in its reach, and too far beyond it


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
    """
    page = move.single
    if page.duration / _GRID > MOST:
        raise UsageError(f"a way of {page.duration:g} s has more than {MOST} poses", "make the move shorter")
    parts = _parts(page)
    ways = tracks(page.model_copy(update={"interpolation": "minimum-jerk"}))
    moments = [parts[0][1][0], *(time for _, times in parts for time in times[1:])]
    machine = _Machine(rig, page, {joint: np.array([way.at(t) for t in moments]) for joint, way in ways.items()})
    first = page.keys[0]
    keys = [_pose(first.time, {joint: way.at(moments[0]) for joint, way in ways.items()}, rest=first)]
    joules = usual = float(machine.holding @ [key.pause for key in page.keys])
    for part in parts:
        found, smoothest, more = _searched(machine, *part, ways)
        joules, usual = joules + found, usual + smoothest
        keys += more
    done = page.model_copy(update={"keys": tuple(keys), "interpolation": "linear"})
    return LeastEnergy(Move(pages={"1": done}), joules, usual, page.duration - first.time)


def _pose(time: float, positions: Mapping[str, float], rest: Key | None = None) -> Key:
    """A pose of the result; one at rest has the pause and the name that it has in the move."""
    rounded = {joint: round(float(angle), 5) for joint, angle in positions.items()}
    return Key(positions=rounded, time=time, pause=rest.pause if rest else 0.0, name=rest.name if rest else "")


def _parts(page: Page) -> list[tuple[Sequence[Key], FloatArray]]:
    """The ways from rest to rest: the poses after the one each begins with, and when it and they are reached, s."""
    if len(page.keys) < 2:
        raise UsageError(
            "there is nothing to optimise between fewer than two poses", "give the move a start and an end"
        )
    for number, key in enumerate(page.keys[1:], 2):
        if not key.time > 0:
            raise UsageError(f"the way to pose {number} takes no time", "give it a time above 0 s")
    left = np.cumsum([key.time + key.pause for key in page.keys])
    reached = left - [key.pause for key in page.keys]
    last = len(page.keys) - 1
    rests = [0, *(n for n in range(1, last) if page.keys[n].pause), last]
    if (most := max(b - a for a, b in pairwise(rests))) > _POSES:
        hint = f"keep {_POSES} poses at most between two rests"
        raise UsageError(f"a way through {most} poses without a rest leaves little to choose", hint)
    return [(page.keys[a + 1 : b + 1], np.r_[left[a], reached[a + 1 : b + 1]]) for a, b in pairwise(rests)]


class _Machine:
    """A robot that a move turns: what all its motors draw, and figures with limits.

    The figures are angles and speeds of the move's joints, voltages and torques of all servos, the zero-moment point,
    and how far a foot moves. `poses` are the joints' angles in the move's poses, rad, (keys,) each.
    """

    def __init__(self, rig: Rig, page: Page, poses: Mapping[str, FloatArray]) -> None:
        servos = {servo.name: servo for servo in rig.dynamixels}
        if strange := [name for name in page.joints if name not in servos]:
            raise UsageError(
                f"rig {rig.name!r} has no servo {', '.join(strange)} of which a model tells the current",
                "leave joints out, or choose another rig",
            )
        positions = {servo.joint: servo.position for servo in rig.servos}
        positions |= {servos[name].joint: float(poses[name][0]) for name in page.joints}
        self._body = body = Body.of(rig, positions)
        joints = body.tree.names
        if free := [joint.name for joint in body.tree.joints if joint.linear or joint.name not in positions]:
            hint = "optimise moves of robots whose joints servos turn"
            raise UsageError(f"{', '.join(free)}: slides, or swings without a servo", hint)
        bounds = {}
        for name in page.joints:
            (low, high), stops = servos[name].soft_limits, rig.stops_of(servos[name])
            top = servos[name].max_velocity or rig.profile_of(servos[name]).electrics.no_load_speed * RPM
            top = min(top, page.speed.get(name, math.inf))
            bounds[name] = Bounds(max(low, stops[0]), min(high, stops[1]), top)
        check(Move(pages={"1": page}), ["1"], bounds)
        self._leaders = _leaders(rig, page) if body.soles else {name: (name, 1.0) for name in page.joints}
        self.names = tuple(name for name, (leader, _) in self._leaders.items() if name == leader)
        self._rest = np.array([positions[joint] for joint in joints])  # 0 for the joints that the move turns
        self._turned = np.zeros((len(self.names), len(joints)))  # what a rad of `names` is in the tree's joints
        for name, (leader, sign) in self._leaders.items():
            low, high = sorted((sign * bounds[name].low, sign * bounds[name].high))
            one = bounds[leader]
            bounds[leader] = Bounds(max(one.low, low), min(one.high, high), min(one.speed, bounds[name].speed))
            self._turned[self.names.index(leader), joints.index(servos[name].joint)] = sign
            self._rest[joints.index(servos[name].joint)] = 0.0
        self._driven = [joints.index(name) for name in (servo.joint for servo in rig.dynamixels)]
        most = self._set_motors(rig, page)
        both = {
            **{(name, "rad/s"): _SPARED * bounds[name].speed for name in self.names},
            **{(name, "V"): volts for name, volts in zip(servos, self._facts[3], strict=True)},
            **{(name, "N·m"): torque for name, torque in zip(servos, most, strict=True)},
            ("zero-moment point ahead", "m"): body.room[0] - _SOLE,
            ("zero-moment point aside", "m"): body.room[1] - _SOLE,
            **{(f"a foot's place {axis}", "m"): _SLIDE for axis in "xyz"},
            **{(f"a foot's tilt {axis}", "rad"): _TILT for axis in "xy"},
        }  # what is limited alike to both sides
        self._limited = [*((name, "rad") for name in self.names), *both]
        self.low = np.array([*(bounds[name].low for name in self.names), *(-most for most in both.values())])
        self.high = np.array([*(bounds[name].high for name in self.names), *both.values()])
        rows = np.column_stack([poses[name] for name in self.names])
        self.holding, figures = self.drawn(rows, np.zeros_like(rows), np.zeros_like(rows))  # W in each pose, at rest
        if broken := self.broken(figures):
            pose, name, value, may = broken
            stand = ": the robot has to stand on both feet, where they are" if body.soles else ""
            raise UsageError(
                f"pose {pose + 1} cannot be held: {name} at {value}, and may be at {may}", "correct the pose" + stand
            )
        zmp = slice(-7, -5)
        self.low[zmp] = np.maximum(self.low[zmp], figures[:, zmp].min(axis=0) - _SWAY)
        self.high[zmp] = np.minimum(self.high[zmp], figures[:, zmp].max(axis=0) + _SWAY)

    def _set_motors(self, rig: Rig, page: Page) -> FloatArray:
        """Keep what is known of the servos, with the friction of their joints; the most torque of each, N·m."""
        joints = {joint.name: joint for joint in self._body.tree.joints}
        rows, facts = [], []
        for servo in rig.dynamixels:
            model, profile, joint = rig.model_of(servo), rig.profile_of(servo), joints[servo.joint]
            row, volts = pack(model, profile.units.position), rig.supply_of(servo)
            most = min(servo.max_torque or profile.electrics.stall_torque, page.torque.get(servo.name, math.inf))
            if model.motor.max_current:
                most = min(most, row[Param.EFFICIENCY] * row[Param.CONSTANT] * model.motor.max_current)
            row[Param.VISCOUS] += joint.damping + servo.damping_constant
            row[Param.COULOMB] += joint.friction + servo.static_friction
            row[Param.MAX_CURRENT] = 0.0  # `most` it is
            rows.append(row)
            # Between two goals a joint goes on evenly: V for each rad/s that their steps add, root mean square.
            ripple = volts_per_radian(model, profile, volts) * rig.robot.basic_time_step_ms / 1e3 / math.sqrt(12.0)
            facts.append((servo.direction, model.motor.armature, servo.spring_constant, volts, ripple, most))
        self._servos = SteadyServo.of(np.array(rows))
        *self._facts, most_torque = np.array(facts).T
        return np.array(most_torque)

    @property
    def span(self) -> FloatArray:
        """Between the limits; a large number where there is none."""
        found: FloatArray = np.minimum(self.high - self.low, 1e6)
        return found

    def room(self, figures: FloatArray) -> FloatArray:
        """From the limits below and above to figures (n, figures), in shares of their range, (2, n, figures)."""
        return np.stack(((figures - self.low) / self.span, (self.high - figures) / self.span))

    def broken(self, figures: FloatArray) -> tuple[int, str, str, str] | None:
        """The moment, name, value and range of what is furthest beyond its limit."""
        room = self.room(figures)
        if room.min() >= -_BROKEN:
            return None
        _, moment, figure = np.unravel_index(int(room.argmin()), room.shape)
        name, unit = self._limited[figure]
        may = f"{self.low[figure]:.3g} to {self.high[figure]:.3g} {unit}"
        return int(moment), name, f"{figures[moment, figure]:.3g} {unit}", may

    def pose(self, angles: FloatArray) -> dict[str, float]:
        """Angles of all servos of the move, rad, from those of `names`."""
        found = dict(zip(self.names, angles.tolist(), strict=True))
        return {name: sign * found[leader] for name, (leader, sign) in self._leaders.items()}

    def drawn(self, position: FloatArray, speed: FloatArray, acceleration: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Power of all servos, W, (n,), and the figures, (n, figures), where `names` move so, (n, names); rad and s."""
        moving = [self._rest + position @ self._turned, speed @ self._turned, acceleration @ self._turned]
        effort = self._body.effort(*moving)
        angle, rate, faster = (whole[:, self._driven] for whole in moving)
        side, armature, spring, supply, ripple = self._facts
        load = side * (effort.torque[:, self._driven] + spring * angle)
        rate = side * rate
        torque = self._servos.needed(load, rate, np.tanh(rate / _STILL)) + armature * side * faster
        duty = self._servos.duty_of(torque, supply, rate)
        volts = supply * self._servos.felt(duty)
        power = self._servos.power(duty, supply, rate)
        positive = (power + np.sqrt(power**2 + _NOTHING**2)) / 2  # what a braking motor gives back is lost
        heated = (ripple * rate) ** 2 / self._servos.resistance(np.clip(duty, -1.0, 1.0))
        return (positive + heated).sum(axis=1), np.hstack((position, speed, volts, torque, effort.zmp, effort.slip))


def _leaders(rig: Rig, page: Page) -> dict[str, tuple[str, float]]:
    """By joint: itself and 1, or the partner that it mirrors in every pose. So both feet stay where they are."""
    found = {name: (name, 1.0) for name in page.joints}
    with suppress(RigError):  # no mirror; then both feet are held by limits alone
        for joint, (partner, sign) in signs(rig).items():
            if joint in found and joint != partner and found.get(partner) == (partner, 1.0):
                angles = [[key.positions.get(one, math.nan) for key in page.keys] for one in (joint, partner)]
                one, other = np.array(angles)
                if np.allclose(one, sign * other, rtol=0.0, atol=_ALIKE, equal_nan=True):
                    found[joint] = (partner, sign)
    return found


class _Cost(NamedTuple):
    """Energy, J; its gradient; the limited figures, (n, figures); their derivatives by the joints' motion."""

    joules: float
    gradient: FloatArray
    figures: FloatArray
    slopes: FloatArray


def _searched(
    machine: _Machine, keys: Sequence[Key], times: FloatArray, ways: Mapping[str, JointPath]
) -> tuple[float, float, list[Key]]:
    """The way from rest to rest: its energy, J, that of the smoothest one (`ways`, by joint), and its poses."""
    seconds = float(times[-1] - times[0])
    passed = (times - times[0]) / seconds
    pieces = min(max(_PIECES[0], math.ceil(seconds / _PIECE)), _PIECES[1])
    counts = np.maximum(_FEWEST, np.ceil(np.diff(passed) * pieces - 1e-9).astype(int)).tolist()
    ends = zip(pairwise(passed.tolist()), counts, strict=True)  # pieces meet at each pose and in between
    breaks = np.concatenate([[0.0], *(np.linspace(*end, n + 1)[1:] for end, n in ends)])
    knots = np.r_[np.zeros(3), breaks, np.ones(3)]
    splines = BSpline(knots, np.eye(len(knots) - 4), 3)
    lengths = np.repeat(np.diff(breaks), _MOMENTS) / _MOMENTS
    shares, weights = np.cumsum(lengths) - lengths / 2, lengths * seconds
    moments = times[0] + shares * seconds
    basis = np.array([splines(shares, nu=order) / seconds**order for order in range(3)])
    nearest, nulls = [], []
    for joint in machine.names:
        at = [0, *(n for n, key in enumerate(keys[:-1], 1) if joint in key.positions), len(keys)]
        fixed = np.vstack((splines(passed[at]), splines([0.0, 1.0], nu=1)))
        wanted = np.array([*(ways[joint].at(times[n]) for n in at), 0.0, 0.0])
        null = null_space(fixed)
        smooth = np.array([ways[joint].at(moment) for moment in moments])
        some = np.linalg.lstsq(fixed, wanted, rcond=None)[0]
        inside = np.linalg.lstsq(basis[0] @ null, smooth - basis[0] @ some, rcond=None)[0]
        nearest.append(some + null @ inside)
        nulls.append(null)
    given = np.array(nearest)  # (names, coefficients): the smoothest way, as far as a spline is one
    free = block_diag(*nulls).reshape(*given.shape, -1)  # (names, coefficients, unknowns)
    smoothest = np.einsum("onc,jc->noj", basis, given).reshape(len(shares), -1)  # angles, speeds, accelerations
    by_unknown = np.einsum("onc,jcu->noju", basis, free).reshape(*smoothest.shape, -1)
    size = 1e-6 * np.repeat([1.0, 10.0, 100.0], len(machine.names))

    @lru_cache(maxsize=1)  # the search asks for its parts one by one
    def worked_out(unknowns: tuple[float, ...]) -> _Cost:
        motion = smoothest + by_unknown @ unknowns
        n, width = motion.shape
        rows = np.concatenate([motion, *(motion + size * unit for unit in np.eye(width))])
        power, figures = machine.drawn(*np.split(rows, 3, axis=1))
        power, figures = power.reshape(width + 1, n), figures.reshape(width + 1, n, -1)
        by_motion = weights * (power[1:] - power[0]) / size[:, None]
        slopes = (figures[1:] - figures[0]) / size[:, None, None]
        gradient = np.einsum("wn,nwu->u", by_motion, by_unknown)
        return _Cost(float(power[0] @ weights), gradient, figures[0], slopes)

    def cost(y: FloatArray) -> _Cost:
        return worked_out(tuple(y.tolist()))

    def room(y: FloatArray) -> FloatArray:
        return machine.room(cost(y).figures)

    def share(y: FloatArray) -> tuple[float, list[float]]:
        return cost(y).joules / scale, (cost(y).gradient / scale).tolist()

    def improved(begin: FloatArray, active: npt.NDArray[np.bool_]) -> FloatArray:
        """Less energy within these limits, (2, n, figures); where nothing is found, the same."""
        side, moment, figure = np.nonzero(active)
        lever = (np.where(side, -1.0, 1.0) / machine.span[figure])[:, None, None] * by_unknown[moment]
        limits = {
            "type": "ineq",
            "fun": lambda y: room(y)[active],
            "jac": lambda y: np.einsum("wk,kwu->ku", cost(y).slopes[:, moment, figure], lever),
        }
        how: Any = {"method": "SLSQP", "constraints": limits if active.any() else ()}
        done = minimize(share, begin, jac=True, options={"maxiter": _STEPS, "ftol": 1e-6}, **how)
        found: FloatArray = done.x if np.all(np.isfinite(done.x)) else begin
        return found

    def within(found: FloatArray, near: FloatArray) -> FloatArray:
        """A way that keeps its limits, from this one on, as far as there is one; `near`: room of limits in reach."""
        active = np.zeros_like(near, dtype=np.bool_)
        for _ in range(_ROUNDS):
            active |= near < _NEAR
            found = improved(found, active)
            near = room(found)
            if near.min() >= -_BROKEN:
                break
        return found

    smooth = np.zeros(free.shape[-1])
    usual = cost(smooth).joules
    scale = max(usual, 1e-3)
    best = improved(smooth, np.zeros_like(room(smooth), dtype=np.bool_))
    if (near := room(best)).min() < -_BROKEN:
        # Limits cut the ways into groups, and no search leaves its own. So one begins at the way that breaks them, and
        # one at the smoothest: mostly they end in different groups.
        both = [within(begin, near) for begin in (best, smooth)]
        best = min(both, key=lambda y: (room(y).min() < -_BROKEN, cost(y).joules))
    if broken := machine.broken(cost(best).figures):
        moment, name, value, may = broken
        where = f"{name} would have to be at {value} after {moments[moment]:.2f} s, and has {may}"
        raise UsageError(f"no way within the limits was found: {where}", "give the poses more time")
    count = max(2, round(seconds / _GRID))
    poses = splines(np.linspace(0, 1, count + 1)[1:]) @ (given + free @ best).T
    poses = np.clip(poses, machine.low[: poses.shape[1]], machine.high[: poses.shape[1]])
    rests = [*[None] * (count - 1), keys[-1]]
    found = [_pose(seconds / count, machine.pose(pose), rest) for pose, rest in zip(poses, rests, strict=True)]
    return cost(best).joules, usual, found
