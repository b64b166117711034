"""The way between poses that takes least electrical energy: the same ends, the same time, less from the supply.

Each joint's way is a cubic B-spline. Its coefficients are sought by sequential quadratic programming, so that the sum
of U·i over all servos is least, as their models have it (Lima et al. 2009, equations 1 to 5), with the robot's own
inverse dynamics. Limits are kept at the moments at which the sum is taken; only those that come into reach are given
to the search, and it goes on until none is broken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import block_diag, null_space
from scipy.optimize import minimize

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import RigError, UsageError
from axbridge.motion.mirror import signs
from axbridge.motion.moves import MOST, JointPath, Key, Move, Page, tracks
from axbridge.motion.planning import Bounds, check
from axbridge.servo.columns import Param, pack
from axbridge.servo.steady import SteadyServo, volts_per_radian
from axbridge.sim.body.inverse_dynamics import Body
from axbridge.sim.body.kinematics import way_to_base
from axbridge.units import RPM

_STILL = 0.05  # rad/s: dry friction has its whole size from about twice this speed on
_NOTHING = 0.01  # W: power this small counts half, so that the sum is smooth where a motor begins to brake
_SPARED = 0.99  # of a joint's top speed: between the moments it is a little faster
_SOLE = 0.01  # m from the soles' edge that the zero-moment point keeps
_SWAY = 0.001  # m that it may leave the range it has in the poses at rest: more makes a robot on soft servos rock
_SLIDE, _TILT = 0.002, 0.02  # m and rad that a foot may move on the floor
_ALIKE = 1e-6  # rad
_ZMP = "zero-moment point"

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
_NEAR, _BROKEN = 0.03, 0.005  # of a limit's range: in its reach, and too far beyond it
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
    machine = _Machine(rig, page, {joint: np.array([way.at(t) for t in moments]) for joint, way in ways.items()})
    first = page.keys[0]
    keys = [_pose(first.time, {joint: way.at(moments[0]) for joint, way in ways.items()}, rest=first)]
    joules = usual = first.pause * machine.holding(keys[0])
    for part in parts:
        search = _SplineSearch(machine, part, ways)
        joules, usual = joules + search.run(), usual + search.usual
        keys += search.keys()
        held = part.keys[-1].pause * machine.holding(keys[-1])
        joules, usual = joules + held, usual + held
    done = page.model_copy(update={"keys": tuple(keys), "interpolation": "linear"})
    return LeastEnergy(Move(pages={"1": done}), joules, usual, page.duration - first.time)


def _pose(time: float, positions: Mapping[str, float], rest: Key | None = None) -> Key:
    """A pose of the result; one at rest has the pause and the name that it has in the move."""
    pause, name = (0.0, "") if rest is None else (rest.pause, rest.name)
    rounded = {joint: round(float(angle), 5) for joint, angle in positions.items()}
    return Key(positions=rounded, time=time, pause=pause, name=name)


class _RestToRest(NamedTuple):
    """A way from rest to rest: the poses after the one it begins with, and when it and each of them is reached, s."""

    keys: Sequence[Key]
    times: Sequence[float]

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
            if len(keys) > _POSES:
                raise UsageError(
                    f"a way through {len(keys)} poses without a rest leaves little to choose",
                    f"keep {_POSES} poses at most between two rests",
                )
            parts.append(_RestToRest(keys, times))
            keys, times = [], [time]
    return parts


class _Machine:
    """A robot that a move turns: what all its motors draw, and figures with limits.

    The figures are angles and speeds of the move's joints, voltages and torques of all servos, the zero-moment point,
    and how far a foot moves. `poses` are the joints' angles in the poses at rest, rad, (keys,) each.
    """

    def __init__(self, rig: Rig, page: Page, poses: Mapping[str, FloatArray]) -> None:
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
        positions |= {servos[name].joint: float(poses[name][0]) for name in page.joints}
        self._body = body = Body.of(rig, positions)
        joints = body.tree.names
        if free := [joint.name for joint in body.tree.joints if joint.linear or joint.name not in positions]:
            raise UsageError(
                f"{', '.join(free)}: slides, or swings without a servo",
                "optimise moves of robots whose joints servos turn",
            )
        bounds = {name: _bounds(rig, servos[name], page) for name in page.joints}
        check(Move(pages={"1": page}), ["1"], bounds)
        self._mirrored = _mirrored(rig, page, body)
        for name, (leader, sign) in self._mirrored.items():
            low, high = sorted((sign * bounds[name].low, sign * bounds[name].high))
            one = bounds[leader]
            bounds[leader] = Bounds(max(one.low, low), min(one.high, high), min(one.speed, bounds[name].speed))
        self.names = tuple(name for name in page.joints if name not in self._mirrored)
        self._rest = np.array([positions[joint] for joint in joints])  # 0 for the joints that the move turns
        self._turned = np.zeros((len(self.names), len(joints)))  # what a rad of `names` is in the tree's joints
        for name in page.joints:
            leader, sign = self._mirrored.get(name, (name, 1.0))
            self._turned[self.names.index(leader), joints.index(servos[name].joint)] = sign
            self._rest[joints.index(servos[name].joint)] = 0.0
        driving = rig.dynamixels
        self._driven = [joints.index(servo.joint) for servo in driving]
        self._servos, self._facts, most = _motors(rig, driving, body, page)
        slowed = [_SPARED * bounds[name].speed for name in self.names]
        volts = self._facts[3]
        rows: list[tuple[str, str, float, float]] = [
            *((name, "rad", bounds[name].low, bounds[name].high) for name in self.names),
            *((name, "rad/s", -top, top) for name, top in zip(self.names, slowed, strict=True)),
            *((servo.name, "V", -top, top) for servo, top in zip(driving, volts, strict=True)),
            *((servo.name, "N·m", -top, top) for servo, top in zip(driving, most, strict=True)),
            (f"{_ZMP} ahead", "m", _SOLE - body.room[0], body.room[0] - _SOLE),
            (f"{_ZMP} aside", "m", _SOLE - body.room[1], body.room[1] - _SOLE),
            *((f"a foot's place {axis}", "m", -_SLIDE, _SLIDE) for axis in "xyz"),
            *((f"a foot's tilt {axis}", "rad", -_TILT, _TILT) for axis in "xy"),
        ]
        self.limited = [row[:2] for row in rows]
        self.low, self.high = np.array([row[2:] for row in rows]).T
        self._stand(np.column_stack([poses[name] for name in self.names]))

    def _stand(self, poses: FloatArray) -> None:
        """Narrower room for the zero-moment point, about where it is in the poses at rest: `_SWAY`."""
        found = self._at_rest(poses)[1]
        over = self.over(found)
        if over.max() > _BROKEN:
            _, pose, figure = np.unravel_index(int(over.argmax()), over.shape)
            name, unit = self.limited[figure]
            raise UsageError(
                f"pose {pose + 1} cannot be held: {name} at {found[pose, figure]:.3g} {unit}, and may be at "
                f"{self.low[figure]:.3g} to {self.high[figure]:.3g}",
                "correct the pose"
                + (": the robot has to stand on both feet, where they are" if self._body.soles else ""),
            )
        zmp = [k for k, (name, _) in enumerate(self.limited) if name.startswith(_ZMP)]
        self.low[zmp] = np.maximum(self.low[zmp], found[:, zmp].min(axis=0) - _SWAY)
        self.high[zmp] = np.minimum(self.high[zmp], found[:, zmp].max(axis=0) + _SWAY)

    @property
    def span(self) -> FloatArray:
        """Between the limits; a large number where there is none."""
        found: FloatArray = np.minimum(self.high - self.low, 1e6)
        return found

    def over(self, found: FloatArray) -> FloatArray:
        """How far figures (n, figures) are below and above their limits, in shares of their range, (2, n, figures)."""
        return np.stack(((self.low - found) / self.span, (found - self.high) / self.span))

    def pose(self, angles: FloatArray) -> dict[str, float]:
        """Angles of all servos of the move, rad, from those of `names`."""
        found = dict(zip(self.names, angles.tolist(), strict=True))
        return found | {name: sign * found[leader] for name, (leader, sign) in self._mirrored.items()}

    def holding(self, pose: Key) -> float:
        """Power of a pose at rest, W."""
        return float(self._at_rest(np.array([[pose.positions[name] for name in self.names]]))[0][0])

    def _at_rest(self, angles: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.drawn(angles, np.zeros_like(angles), np.zeros_like(angles))

    def drawn(self, position: FloatArray, speed: FloatArray, acceleration: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Power of all servos, W, (n,), and the figures that are limited, (n, figures).

        Args:
            position: Of the move's joints at n moments, rad, (n, names).
            speed: rad/s.
            acceleration: rad/s².
        """
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


def _mirrored(rig: Rig, page: Page, body: Body) -> dict[str, tuple[str, float]]:
    """Servos of legs that do in every pose what their partner does, mirrored: so both feet stay where they are."""
    try:
        partners = signs(rig)
    except RigError:  # no mirror; then both feet are held by limits alone
        return {}
    way = way_to_base(body.tree, body.soles[1].link) if body.soles else []
    legs = {body.tree.names[dof] for dof in body.tree.dof[way].tolist() if dof >= 0}
    joints = [servo.name for servo in rig.servos if servo.joint in legs and servo.name in page.joints]
    found: dict[str, tuple[str, float]] = {}
    for joint in sorted(joints, key=page.joints.index):
        partner, sign = partners[joint]
        if partner == joint or partner in found or partner not in joints:
            continue
        pairs = [(key.positions.get(joint, math.inf), key.positions.get(partner, math.inf)) for key in page.keys]
        if all(one == other == math.inf or abs(one - sign * other) < _ALIKE for one, other in pairs):
            found[joint] = (partner, sign)
    return found


def _bounds(rig: Rig, servo: ServoConfig, page: Page) -> Bounds:
    (low, high), stops = servo.soft_limits, rig.stops_of(servo)
    top = servo.max_velocity or rig.profile_of(servo).electrics.no_load_speed * RPM
    return Bounds(max(low, stops[0]), min(high, stops[1]), min(top, page.speed.get(servo.name, math.inf)))


def _motors(
    rig: Rig, servos: Sequence[ServoConfig], body: Body, page: Page
) -> tuple[SteadyServo, FloatArray, list[float]]:
    """The servos with the friction of their joints; five facts of each, (5, servos); the most torque of each, N·m.

    The facts: 1 or -1, servo angle over joint angle; armature; spring; supply, V; and ripple, V for each rad/s, what
    goals that come in steps add to the voltage, root mean square.
    """
    joints = {joint.name: joint for joint in body.tree.joints}
    tick = rig.robot.basic_time_step_ms / 1e3  # s: between two goals a joint goes rate * tick, evenly
    rows, facts, highest = [], [], []
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
        highest.append(most)
        volts = rig.supply_of(servo)
        ripple = volts_per_radian(model, profile, volts) * tick / math.sqrt(12.0)
        facts.append((servo.direction, model.motor.armature, servo.spring_constant, volts, ripple))
    return SteadyServo.of(np.array(rows)), np.array(facts).T, highest


class _Cost(NamedTuple):
    """Energy, J; its gradient; the limited figures, (n, figures); their derivatives by the joints' motion."""

    joules: float
    gradient: FloatArray
    figures: FloatArray
    slopes: FloatArray


class _SplineSearch:
    """For the spline of one way from rest to rest; `ways` are the smoothest ones, by joint."""

    def __init__(self, machine: _Machine, part: _RestToRest, ways: Mapping[str, JointPath]) -> None:
        self._machine, self._part = machine, part
        passed = (np.array(part.times) - part.times[0]) / part.seconds
        breaks = _breaks(passed, part.seconds)
        self._knots = np.r_[np.zeros(_DEGREE), breaks, np.ones(_DEGREE)]
        lengths = np.repeat(np.diff(breaks), _MOMENTS) / _MOMENTS
        self._shares, self._weights = np.cumsum(lengths) - lengths / 2, lengths * part.seconds
        self._basis = [self._columns(self._shares, order) / part.seconds**order for order in range(3)]
        given, free = [], []
        for joint in machine.names:
            at = [0, *(n for n, key in enumerate(part.keys[:-1], 1) if joint in key.positions), len(part.keys)]
            fixed = np.vstack((self._columns(passed[at], 0), self._columns(np.array([0.0, 1.0]), 1)))
            wanted = np.array([*(ways[joint].at(part.times[n]) for n in at), 0.0, 0.0])
            none = null_space(fixed)
            smooth = np.array([ways[joint].at(part.times[0] + share * part.seconds) for share in self._shares])
            some = np.linalg.lstsq(fixed, wanted, rcond=None)[0]
            inside = np.linalg.lstsq(self._basis[0] @ none, smooth - self._basis[0] @ some, rcond=None)[0]
            given.append(some + none @ inside)
            free.append(none)
        self._given = np.array(given)  # (names, coefficients): the smoothest way, as far as a spline is one
        self._free = block_diag(*free)  # (names · coefficients, unknowns)
        self._last: tuple[FloatArray, _Cost] | None = None
        self._found = np.zeros(self._free.shape[1])
        self.usual = self._cost(self._found).joules  # of the smoothest way

    def run(self) -> float:
        """Search; the energy of what is found, J."""
        smooth = self._found
        unknowns = self._improved(smooth, set())
        over = self._over(unknowns)
        if over.max() > _BROKEN:
            # Limits cut the ways into groups, and no search leaves its own. So one begins at the way that breaks
            # them, and one at the smoothest: mostly they end in different groups.
            found = [self._within(begin, over) for begin in (unknowns, smooth)]
            unknowns = min(found, key=lambda one: (self._over(one).max() > _BROKEN, self._cost(one).joules))
            over = self._over(unknowns)
        if over.max() > _BROKEN:
            _, moment, figure = np.unravel_index(int(over.argmax()), over.shape)
            name, unit = self._machine.limited[figure]
            needed = self._cost(unknowns).figures[moment, figure]
            when = self._part.times[0] + self._shares[moment] * self._part.seconds
            may = f"{self._machine.low[figure]:.3g} to {self._machine.high[figure]:.3g} {unit}"
            where = f"{name} would have to be at {needed:.3g} {unit} after {when:.2f} s, and has {may}"
            raise UsageError(f"no way within the limits was found: {where}", "give the poses more time")
        self._found = unknowns
        return self._cost(unknowns).joules

    def keys(self) -> list[Key]:
        """The poses of what was found, one every 20 ms."""
        seconds, machine = self._part.seconds, self._machine
        count = max(2, round(seconds / _GRID))
        poses = self._columns(np.linspace(0, 1, count + 1)[1:], 0) @ self._coefficients(self._found).T
        poses = np.clip(poses, machine.low[: poses.shape[1]], machine.high[: poses.shape[1]])
        rests = [*[None] * (count - 1), self._part.keys[-1]]
        return [_pose(seconds / count, machine.pose(pose), rest) for pose, rest in zip(poses, rests, strict=True)]

    def _within(self, unknowns: FloatArray, over: FloatArray) -> FloatArray:
        """A way that keeps its limits, from `unknowns` on, as far as there is one; `over`: which are in reach."""
        active: set[tuple[int, int, int]] = set()
        for _ in range(_ROUNDS):
            active |= {(int(side), int(moment), int(figure)) for side, moment, figure in np.argwhere(over > -_NEAR)}
            unknowns = self._improved(unknowns, active)
            over = self._over(unknowns)
            if over.max() <= _BROKEN:
                break
        return unknowns

    def _improved(self, unknowns: FloatArray, active: set[tuple[int, int, int]]) -> FloatArray:
        """Less energy within these limits (side, moment, figure); where nothing is found, the same."""
        scale = max(self.usual, 1e-3)
        limits: list[Any] = []
        if active:
            sides, moments, figures = np.array(sorted(active)).T
            sign = np.where(sides == 1, -1.0, 1.0) / self._machine.span[figures]
            edge = np.where(sides == 1, self._machine.high[figures], self._machine.low[figures])
            limits.append(
                {
                    "type": "ineq",
                    "fun": lambda y: sign * (self._cost(y).figures[moments, figures] - edge),
                    "jac": lambda y: sign[:, None] * self._chained(self._cost(y).slopes)[moments, figures],
                }
            )

        def share(y: FloatArray) -> tuple[float, list[float]]:
            return self._cost(y).joules / scale, (self._cost(y).gradient / scale).tolist()

        done = minimize(
            share,
            unknowns,
            jac=True,
            bounds=[(-_FURTHEST, _FURTHEST)] * len(unknowns),
            method="SLSQP",
            constraints=limits,
            options={"maxiter": _STEPS, "ftol": 1e-6},
        )
        found: FloatArray = done.x if np.all(np.isfinite(done.x)) else unknowns
        return found

    def _over(self, unknowns: FloatArray) -> FloatArray:
        return self._machine.over(self._cost(unknowns).figures)

    def _columns(self, shares: FloatArray, order: int) -> FloatArray:
        """Derivatives of the basis functions by the share of the time, (shares, coefficients)."""
        found: FloatArray = BSpline(self._knots, np.eye(len(self._knots) - _DEGREE - 1), _DEGREE)(shares, nu=order)
        return found

    def _coefficients(self, unknowns: FloatArray) -> FloatArray:
        found: FloatArray = self._given + (self._free @ unknowns).reshape(self._given.shape)
        return found

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
        gradient = np.einsum("n,nfu->u", self._weights, self._chained(by_motion[:, :, None]))
        return _Cost(float(power[:n] @ self._weights), gradient, blocks[0], slopes)

    def _chained(self, slopes: FloatArray) -> FloatArray:
        """From derivatives by the motion, (width, n, figures), to those by the unknowns, (n, figures, unknowns)."""
        by_order = slopes.reshape(3, len(self._machine.names), *slopes.shape[1:])
        by_spline = np.einsum("ojnf,onc->nfjc", by_order, np.array(self._basis))
        found: FloatArray = by_spline.reshape(*by_spline.shape[:2], -1) @ self._free
        return found


def _breaks(passed: FloatArray, seconds: float) -> FloatArray:
    """Where the pieces of a spline meet: at each pose and in between; all are shares of the time from 0 to 1."""
    fewest, most = _PIECES
    pieces = max(fewest, min(most, math.ceil(seconds / _PIECE)))
    counts = np.maximum(_FEWEST, np.ceil(np.diff(passed) * pieces - 1e-9).astype(int))
    ways = [np.linspace(a, b, n + 1)[1:] for a, b, n in zip(passed[:-1], passed[1:], counts, strict=True)]
    return np.concatenate([[0.0], *ways])
