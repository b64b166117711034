"""The way between poses that takes least electrical energy: the same ends, the same time, less from the supply.

Each joint's way is a cubic B-spline. Its coefficients are sought by sequential quadratic programming, so that the sum
of U·i over all servos is least, as their models have it (Lima et al. 2009, equations 1 to 5), with the robot's own
inverse dynamics. Limits are kept at the moments at which the sum is taken; only those that come into reach are given
to the search, and it goes on until none is broken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import block_diag, null_space
from scipy.optimize import NonlinearConstraint, minimize

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import RigError, UsageError
from axbridge.motion.interpolation import JointPath
from axbridge.motion.mirror import signs
from axbridge.motion.moves import MOST, Key, Move, Page, tracks
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


_GRID = 0.02  # s between the poses of the result
_DEGREE = 3
_PIECES = (8, 24)  # of the spline, at least and at most
_PIECE = 0.12  # s, the length they should have
_FEWEST = 3  # between two poses
_POSES = 12  # of a way from rest to rest, at most
_MOMENTS = 3  # in each piece
_DIFFERENCE = 1e-6
_STEPS = 60  # of the search, with the same limits
_ROUNDS = 8  # of finding limits that it has come to
_NEAR = 0.03  # of a limit's range: counts as in its reach
_BROKEN = 0.005  # of that range
_FURTHEST = 2 * math.pi  # rad that a coefficient may go from where it began


@dataclass(frozen=True)
class LeastEnergy:
    """What was found.

    Attributes:
        move: To be played: a pose every 20 ms.
        joules: What its ways and pauses take, as the servo models have it, J.
        minimum_jerk: What the smoothest ways through the same poses would take, J.
        seconds: From its first pose to its last, s.
    """

    move: Move
    joules: float
    minimum_jerk: float
    seconds: float

    @property
    def saved(self) -> float:
        """Share of the energy of the smoothest ways."""
        return 1 - self.joules / self.minimum_jerk if self.minimum_jerk > 0 else 0.0


def least_energy(rig: Rig, move: Move) -> LeastEnergy:
    """Find the way through a move's poses that takes least electrical energy.

    The first pose is the start, at rest; the last one the end, at rest; so is a pose with a pause. Through other poses
    the joints go at their time without resting. Joints that the move does not name hold where the rig has them, and
    what they take counts. A robot that stands keeps both feet where they are and its zero-moment point in the soles.

    Args:
        rig: With a world; its servos have models.
        move: Ends, poses on the way and their times; its interpolation does not matter.

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
    moments = [parts[0].times[0], *(time for part in parts for time in part.times[1:])]
    poses = {joint: np.array([way.at(t) for t in moments]) for joint, way in ways.items()}
    machine = Machine.of(rig, page, poses)
    keys = [_pose(page.keys[0].time, {joint: ways[joint].at(parts[0].times[0]) for joint in page.joints})]
    keys[0] = keys[0].model_copy(update={"pause": page.keys[0].pause, "name": page.keys[0].name})
    joules = usual = page.keys[0].pause * machine.holding(keys[0].positions)
    seconds = page.keys[0].pause
    for part in parts:
        ends = np.array([[ways[j].at(t) for j in machine.names] for t in (part.times[0], part.times[-1])])
        search = _SplineSearch(machine, part, ends, ways)
        found = search.run()
        keys += search.keys(found)
        last = part.keys[-1]
        keys[-1] = keys[-1].model_copy(update={"pause": last.pause, "name": last.name})
        held = last.pause * machine.holding(keys[-1].positions)
        joules, usual = joules + search.energy(found) + held, usual + search.usual + held
        seconds += part.seconds + last.pause
    done = page.model_copy(update={"keys": tuple(keys), "interpolation": "linear"})
    return LeastEnergy(Move(pages={"1": done}), joules, usual, seconds)


def _pose(time: float, positions: Mapping[str, float]) -> Key:
    return Key(positions={joint: round(float(angle), 5) for joint, angle in positions.items()}, time=time)


@dataclass(frozen=True)
class _RestToRest:
    """A way from rest to rest.

    Attributes:
        keys: The poses after the one it begins with.
        times: When it begins, and when each of them is reached, s after the page's start.
    """

    keys: tuple[Key, ...]
    times: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return self.times[-1] - self.times[0]


def _parts(page: Page) -> list[_RestToRest]:
    if len(page.keys) < 2:
        raise UsageError(
            "there is nothing to optimise between fewer than two poses", "give the move a start and an end"
        )
    parts: list[_RestToRest] = []
    time = page.keys[0].time + page.keys[0].pause
    keys: list[Key] = []
    times = [time]
    for number, key in enumerate(page.keys[1:], 2):
        if not key.time > 0:
            raise UsageError(f"the way to pose {number} takes no time", "give it a time above 0 s")
        time += key.time
        keys.append(key)
        times.append(time)
        time += key.pause
        if key.pause or number == len(page.keys):
            parts.append(_RestToRest(tuple(keys), tuple(times)))
            keys, times = [], [time]
    return parts


def _breaks(part: _RestToRest) -> FloatArray:
    """Where the pieces of a spline meet: at each pose, and in between; shares of the time from 0 to 1."""
    if len(part.keys) > _POSES:
        raise UsageError(
            f"a way through {len(part.keys)} poses without a rest leaves little to choose",
            f"keep {_POSES} poses at most between two rests",
        )
    fewest, most = _PIECES
    pieces = max(fewest, min(most, math.ceil(part.seconds / _PIECE)))
    shares = (np.array(part.times) - part.times[0]) / part.seconds
    counts = np.maximum(_FEWEST, np.ceil(np.diff(shares) * pieces - 1e-9).astype(int))
    ways = [np.linspace(a, b, n + 1)[1:] for a, b, n in zip(shares[:-1], shares[1:], counts, strict=True)]
    return np.concatenate([[0.0], *ways])


_Edge = tuple[int, int, int]  # a limit in reach: moment, figure, side


class _Cost(NamedTuple):
    """Energy, J; its gradient; the limited figures, (n, figures); their derivatives by the joints' motion."""

    joules: float
    gradient: FloatArray
    figures: FloatArray
    slopes: FloatArray


class _SplineSearch:
    """For the spline of one way from rest to rest.

    Args:
        machine: The robot.
        part: The way.
        ends: Its first and its last pose, rad, (2, names).
        ways: The smoothest ways, by joint.
    """

    def __init__(self, machine: Machine, part: _RestToRest, ends: FloatArray, ways: Mapping[str, JointPath]) -> None:
        self._machine, self._part = machine, part
        breaks = _breaks(part)
        self._knots = np.r_[np.zeros(_DEGREE), breaks, np.ones(_DEGREE)]
        lengths = np.repeat(np.diff(breaks), _MOMENTS) / _MOMENTS
        self._shares, self._weights = np.cumsum(lengths) - lengths / 2, lengths
        self._basis = [self._columns(self._shares, order) / part.seconds**order for order in range(3)]
        start = part.times[0]
        given, free = [], []
        for column, joint in enumerate(machine.names):
            shares, values = [0.0], [ends[0, column]]
            for key, time in zip(part.keys[:-1], part.times[1:], strict=False):
                if joint in key.positions:
                    shares.append((time - start) / part.seconds)
                    values.append(key.positions[joint])
            shares, values = [*shares, 1.0], [*values, ends[1, column]]
            fixed = np.vstack((self._columns(np.array(shares), 0), self._columns(np.array([0.0, 1.0]), 1)))
            wanted = np.array([*values, 0.0, 0.0])
            none = null_space(fixed)
            smooth = np.array([ways[joint].at(start + share * part.seconds) for share in self._shares])
            some = np.linalg.lstsq(fixed, wanted, rcond=None)[0]
            inside = np.linalg.lstsq(self._basis[0] @ none, smooth - self._basis[0] @ some, rcond=None)[0]
            given.append(some + none @ inside)
            free.append(none)
        self._given = np.array(given)  # (names, coefficients)
        self._free = block_diag(*free)  # (names · coefficients, unknowns)
        self.usual = self._of_smooth(ways)
        self._scale = max(self.usual, 1e-3)
        self._last: tuple[FloatArray, _Cost] | None = None

    def run(self) -> FloatArray:
        """Search."""
        smooth = np.zeros(self._free.shape[1])
        unknowns = self._improved(smooth, set())
        over = self._over(unknowns)
        if over.max() > _BROKEN:
            # Limits cut the ways into groups, and no search leaves its own. So one begins at the way that breaks
            # them, and one at the smoothest: mostly they end in different groups.
            found = [self._within(begin, over) for begin in (unknowns, smooth)]
            unknowns = min(found, key=lambda one: (self._over(one).max() > _BROKEN, self.energy(one)))
            over = self._over(unknowns)
        if over.max() > _BROKEN:
            _, moment, figure = np.unravel_index(int(over.argmax()), over.shape)
            limited = self._machine.limited
            name, unit = limited.names[figure]
            needed = self._cost(unknowns).figures[moment, figure]
            when = self._part.times[0] + self._shares[moment] * self._part.seconds
            may = f"{limited.low[figure]:.3g} to {limited.high[figure]:.3g} {unit}"
            where = f"{name} would have to be at {needed:.3g} {unit} after {when:.2f} s, and has {may}"
            raise UsageError(f"no way within the limits was found: {where}", "give the poses more time")
        return unknowns

    def energy(self, unknowns: FloatArray) -> float:
        """J."""
        return self._cost(unknowns).joules

    def keys(self, unknowns: FloatArray) -> list[Key]:
        """Its poses, one every 20 ms."""
        seconds, limited = self._part.seconds, self._machine.limited
        count = max(2, round(seconds / _GRID))
        poses = self._columns(np.linspace(0, 1, count + 1)[1:], 0) @ self._coefficients(unknowns).T
        poses = np.clip(poses, limited.low[: poses.shape[1]], limited.high[: poses.shape[1]])
        return [_pose(seconds / count, self._machine.pose(pose)) for pose in poses]

    def _within(self, unknowns: FloatArray, over: FloatArray) -> FloatArray:
        """A way that keeps its limits, from `unknowns` on, as far as there is one; `over`: which are in reach."""
        active: set[_Edge] = set()
        for _ in range(_ROUNDS):
            active |= {(int(moment), int(figure), int(side)) for side, moment, figure in np.argwhere(over > -_NEAR)}
            unknowns = self._improved(unknowns, active)
            over = self._over(unknowns)
            if over.max() <= _BROKEN:
                break
        return unknowns

    def _improved(self, unknowns: FloatArray, active: set[_Edge]) -> FloatArray:
        """Less energy within these limits; where nothing is found, the same."""
        done = minimize(
            self._share,
            unknowns,
            jac=self._gradient,
            bounds=[(-_FURTHEST, _FURTHEST)] * len(unknowns),
            method="SLSQP",
            constraints=self._constraints(sorted(active)),
            options={"maxiter": _STEPS, "ftol": 1e-6},
        )
        found: FloatArray = done.x if np.all(np.isfinite(done.x)) else unknowns
        return found

    def _share(self, unknowns: FloatArray) -> float:
        """Energy as a share of the smoothest way's: what the search makes small."""
        return self.energy(unknowns) / self._scale

    def _gradient(self, unknowns: FloatArray) -> list[float]:
        found: list[float] = (self._cost(unknowns).gradient / self._scale).tolist()
        return found

    def _constraints(self, chosen: Sequence[_Edge]) -> list[NonlinearConstraint]:
        if not chosen:
            return []
        moments, figures, sides = (np.array(column) for column in zip(*chosen, strict=True))
        limited = self._machine.limited
        sign = np.where(sides == 1, -1.0, 1.0) / limited.span[figures]
        edge = np.where(sides == 1, limited.high[figures], limited.low[figures])
        return [
            NonlinearConstraint(
                lambda y: sign * (self._cost(y).figures[moments, figures] - edge),
                0.0,
                np.inf,
                jac=lambda y: sign[:, None] * self._chained(self._cost(y).slopes)[moments, figures],
            )
        ]

    def _over(self, unknowns: FloatArray) -> FloatArray:
        """How far each figure is below and above its limits, in shares of their range, (2, n, figures)."""
        found, limited = self._cost(unknowns).figures, self._machine.limited
        return np.stack(((limited.low - found) / limited.span, (found - limited.high) / limited.span))

    def _columns(self, shares: FloatArray, order: int) -> FloatArray:
        """Derivatives of the basis functions by the share of the time, (shares, coefficients)."""
        count = len(self._knots) - _DEGREE - 1
        splines = [BSpline(self._knots, row, _DEGREE)(shares, nu=order) for row in np.eye(count)]
        found: FloatArray = np.array(splines, dtype=np.float64).T
        return found

    def _coefficients(self, unknowns: FloatArray) -> FloatArray:
        found: FloatArray = self._given + (self._free @ unknowns).reshape(self._given.shape)
        return found

    def _of_smooth(self, ways: Mapping[str, JointPath]) -> float:
        """What the smoothest way takes, J: by differences, as it is no spline of this kind."""
        seconds = self._part.seconds
        step = seconds / len(self._shares) / 4
        times = self._part.times[0] + self._shares * seconds
        before, now, after = (
            np.array([[ways[joint].at(time + k * step) for joint in self._machine.names] for time in times])
            for k in (-1, 0, 1)
        )
        speed, faster = (after - before) / (2 * step), (after - 2 * now + before) / step**2
        return float(self._machine.drawn(now, speed, faster)[0] @ self._weights * seconds)

    def _cost(self, unknowns: FloatArray) -> _Cost:
        """What a way costs; the last one is kept, because the search asks for its parts one by one."""
        if self._last is None or not np.array_equal(self._last[0], unknowns):
            self._last = unknowns.copy(), self._work_out(unknowns)
        return self._last[1]

    def _work_out(self, unknowns: FloatArray) -> _Cost:
        spline = self._coefficients(unknowns)
        motion = np.hstack([basis @ spline.T for basis in self._basis])
        n, width = motion.shape
        size = _DIFFERENCE * np.repeat([1.0, 10.0, 100.0], width // 3)
        rows = np.concatenate([motion, *(motion + size * unit for unit in np.eye(width))])
        power, figures = self._machine.drawn(*np.split(rows, 3, axis=1))
        by_motion = (power.reshape(width + 1, n)[1:] - power[:n]) / size[:, None]  # (width, n)
        blocks = figures.reshape(width + 1, n, -1)
        slopes = (blocks[1:] - blocks[0]) / size[:, None, None]  # (width, n, figures)
        weights = self._part.seconds * self._weights
        gradient = np.einsum("n,nfu->u", weights, self._chained(by_motion[:, :, None]))
        return _Cost(float(power[:n] @ weights), gradient, blocks[0], slopes)

    def _chained(self, slopes: FloatArray) -> FloatArray:
        """From derivatives by the motion, (width, n, figures), to those by the unknowns, (n, figures, unknowns)."""
        by_order = slopes.reshape(3, len(self._machine.names), *slopes.shape[1:])
        by_spline = np.einsum("ojnf,onc->nfjc", by_order, np.array(self._basis))
        found: FloatArray = by_spline.reshape(*by_spline.shape[:2], -1) @ self._free
        return found
