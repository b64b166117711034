"""The way between poses that takes least electrical energy: the same ends, the same time, less from the supply.

Each joint's way is a cubic B-spline. Its coefficients are sought by sequential quadratic programming, so that the sum of
U·i over all servos is least, as their models have it (Lima et al. 2009, equations 1 to 5), with the robot's own
inverse dynamics. Limits are kept at the moments at which the sum is taken; only those that come into reach are given to
the search, and it goes on until none is broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import block_diag, null_space
from scipy.optimize import minimize

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig, ServoConfig
from axbridge.errors import RigError, UsageError
from axbridge.motion.inverse_dynamics import Body, joints_between
from axbridge.motion.mirror import signs
from axbridge.motion.moves import Key, Move, Page, tracks
from axbridge.motion.planning import Bounds, check
from axbridge.units import RPM

__all__ = ["LeastEnergy", "least_energy"]

_GRID = 0.02  # s between the poses of the result
_DEGREE = 3
_PIECES = (8, 24)  # of the spline, at least and at most
_PIECE = 0.12  # s, the length they should have
_MOMENTS = 3  # in each of them
_STILL = 0.05  # rad/s: dry friction has its whole size from about twice this speed on
_NOTHING = 0.01  # W: power this small counts half, so that the sum is smooth where a motor begins to brake
_DIFFERENCE = 1e-6
_STEPS = 60  # of the search, with the same limits
_ROUNDS = 8  # of finding limits that it has come to
_NEAR = 0.03  # of a limit's range: counts as in its reach
_BROKEN = 0.005  # of that range
_SOLE = 0.01  # m from the soles' edge that the zero-moment point keeps
_SLIDE, _TILT = 0.002, 0.02  # m and rad that a foot may move on the floor
_ALIKE = 1e-6  # rad
_FURTHEST = 2 * math.pi  # rad that a coefficient may go from where it began
_TIMES = (0.2, 3.0)  # of the move's own time, where it is free


@dataclass(frozen=True)
class LeastEnergy:
    """What was found.

    Attributes:
        move: To be played: a pose every 20 ms.
        joules: What its ways and pauses take, as the servo models have it, J.
        minimum_jerk: What the smoothest ways through the same poses would take in the move's own time, J.
        seconds: From its first pose to its last, s.
        asked: What the move said for that, s.
    """

    move: Move
    joules: float
    minimum_jerk: float
    seconds: float
    asked: float

    @property
    def saved(self) -> float:
        """Share of the energy of the smoothest ways."""
        return 1 - self.joules / self.minimum_jerk if self.minimum_jerk > 0 else 0.0


def least_energy(
    rig: Rig,
    move: Move,
    *,
    free_time: bool = False,
    progress: Callable[[str, float | None], None] = lambda _what, _share=None: None,
) -> LeastEnergy:
    """Find the way through a move's poses that takes least electrical energy.

    The first pose is the start, at rest; the last one the end, at rest; so is a pose with a pause. Through other poses
    the joints go at their time without resting. Joints that the move does not name hold where the rig has them, and
    what they take counts. A robot that stands keeps both feet where they are and its zero-moment point in the soles.

    Args:
        rig: With a world; its servos have models.
        move: Ends, poses on the way and their times; its interpolation does not matter.
        free_time: Whether the ways may take up to three times as long, or less.
        progress: Told what is under way, and the share of it that is done where that is known.

    Raises:
        UsageError: fewer than two poses, a joint without a servo model, a pose beyond a limit, or poses that no motion
            within the limits reaches in their time.
        RigError: no world, or a robot that stands free on no two feet.
    """
    page = move.single
    machine = _Machine.of(rig, page)
    check(Move(pages={"1": page}), ["1"], machine.bounds)
    ways = tracks(page.model_copy(update={"interpolation": "minimum-jerk"}))
    parts = _parts(page)
    keys = [_pose(page.keys[0].time, {joint: ways[joint].at(parts[0].times[0]) for joint in page.joints})]
    keys[0] = keys[0].model_copy(update={"pause": page.keys[0].pause, "name": page.keys[0].name})
    joules = usual = page.keys[0].pause * machine.holding(keys[0].positions)
    seconds = asked = page.keys[0].pause
    for number, part in enumerate(parts, 1):
        named = f"way {number} of {len(parts)}" if len(parts) > 1 else "the way"
        search = _Search(machine, part, np.array([[ways[j].at(t) for j in machine.names] for t in part.ends]), ways)
        usual += search.usual
        found = search.run(free_time=free_time, progress=lambda share, named=named: progress(named, share))
        keys += found.keys
        last = part.keys[-1]
        keys[-1] = keys[-1].model_copy(update={"pause": last.pause, "name": last.name})
        held = last.pause * machine.holding(keys[-1].positions)
        joules, usual = joules + found.joules + held, usual + held
        seconds, asked = seconds + found.seconds + last.pause, asked + part.seconds + last.pause
    done = page.model_copy(update={"keys": tuple(keys), "interpolation": "linear"})
    return LeastEnergy(Move(pages={"1": done}), joules, usual, seconds, asked)


def _pose(time: float, positions: Mapping[str, float]) -> Key:
    return Key(positions={joint: round(float(angle), 5) for joint, angle in positions.items()}, time=time)


@dataclass(frozen=True)
class _Part:
    """A way from rest to rest.

    Attributes:
        keys: The poses after the one it begins with.
        times: When it begins, and when each of them is reached, s after the page's start.
    """

    keys: tuple[Key, ...]
    times: tuple[float, ...]

    @property
    def ends(self) -> tuple[float, float]:
        return self.times[0], self.times[-1]

    @property
    def seconds(self) -> float:
        return self.times[-1] - self.times[0]


def _parts(page: Page) -> list[_Part]:
    if len(page.keys) < 2:
        raise UsageError(
            "there is nothing to optimise between fewer than two poses", "give the move a start and an end"
        )
    parts: list[_Part] = []
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
            parts.append(_Part(tuple(keys), tuple(times)))
            keys, times = [], [time]
    return parts


class _Motors(NamedTuple):
    """Figures of the servo models, one of each servo, (servos,); as in `axbridge.config.model`."""

    resistance: FloatArray
    resistance_per_duty: FloatArray
    constant: FloatArray
    gain: FloatArray  # N·m/A that arrive at the output
    armature: FloatArray
    viscous: FloatArray
    spring: FloatArray
    coulomb: FloatArray
    stribeck: FloatArray
    stribeck_speed: FloatArray
    stribeck_exponent: FloatArray
    load: FloatArray
    load_stribeck: FloatArray
    quadratic: FloatArray
    supply: FloatArray
    torque: FloatArray  # at most


class _Limited(NamedTuple):
    """What limits hold for, by name, with the lowest and highest figures, (figures,)."""

    names: tuple[tuple[str, str], ...]
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class _Machine:
    """A robot and its servos, and the joints that a move turns.

    Attributes:
        body: Its dynamics.
        rest: Angles of the tree's joints that the move does not turn, 0 for the others, (joints,).
        names: Servos that the move names, without those that mirror one of them.
        mirrored: Servos of legs that do what their partner on the other side does: the partner, and the sign.
        turned: What a rad of `names` is in the tree's joints, (names, joints).
        driven: Joints of all servos in the tree, (servos,).
        motors: Theirs.
        bounds: Of the move's joints.
        limited: Angles and speeds of the move's joints, voltages and torques of all servos, zero-moment point, feet.
    """

    body: Body
    rest: FloatArray
    names: tuple[str, ...]
    mirrored: dict[str, tuple[str, float]]
    turned: FloatArray
    driven: tuple[int, ...]
    motors: _Motors
    bounds: dict[str, Bounds]
    limited: _Limited

    @classmethod
    def of(cls, rig: Rig, page: Page) -> _Machine:
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
        for joint in page.joints:
            positions[servos[joint].joint] = next(k.positions[joint] for k in page.keys if joint in k.positions)
        body = Body.of(rig, positions)
        joints = [joint.name for joint in body.tree.joints]
        if free := [joint.name for joint in body.tree.joints if joint.linear or joint.name not in positions]:
            raise UsageError(
                f"{', '.join(free)}: slides, or swings without a servo",
                "optimise moves of robots whose joints servos turn",
            )
        legs = {joints[dof] for dof in joints_between(body.tree, body.soles[1].link)} if body.soles else set()
        mirrored = _mirrored(rig, page, [name for name in page.joints if servos[name].joint in legs])
        names = tuple(name for name in page.joints if name not in mirrored)
        driving = [servo for servo in rig.servos if servo.drive == "dynamixel"]
        driven = tuple(joints.index(servo.joint) for servo in driving)
        bounds = {name: _bounds(rig, servos[name], body, page) for name in page.joints}
        for name, (leader, sign) in mirrored.items():
            bounds[leader] = _shared(bounds[leader], bounds[name], sign)
        motors = _motors(rig, driving, body, page)
        low_high = [
            *((f"{name}|rad", bounds[name].low, bounds[name].high) for name in names),
            *((f"{name}|rad/s", -bounds[name].speed, bounds[name].speed) for name in names),
            *((f"{servo.name}|V", -volts, volts) for servo, volts in zip(driving, motors.supply, strict=True)),
            *((f"{servo.name}|N·m", -most, most) for servo, most in zip(driving, motors.torque, strict=True)),
            *(
                (f"zero-moment point {way}|m", -(most - _SOLE), most - _SOLE)
                for way, most in zip(("ahead", "aside"), body.room, strict=True)
            ),
            *((f"a foot's place {axis}|m", -_SLIDE, _SLIDE) for axis in "xyz"),
            *((f"a foot's tilt {axis}|rad", -_TILT, _TILT) for axis in "xy"),
        ]
        limited = _Limited(
            tuple((name.partition("|")[0], name.partition("|")[2]) for name, _, _ in low_high),
            np.array([low for _, low, _ in low_high]),
            np.array([high for _, _, high in low_high]),
        )
        rest = np.array([positions[joint] for joint in joints])
        turned = np.zeros((len(names), len(joints)))
        for name in page.joints:
            leader, sign = mirrored.get(name, (name, 1.0))
            turned[names.index(leader), joints.index(servos[name].joint)] = sign
            rest[joints.index(servos[name].joint)] = 0.0
        return cls(body, rest, names, mirrored, turned, driven, motors, bounds, limited)

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
        needed = effort.torque[:, self.driven] + m.armature * faster + m.viscous * rate + m.spring * angle
        torque = needed + _dry(m, rate, needed) * np.tanh(rate / _STILL)
        current = torque / m.gain
        duty = np.abs(m.resistance * current + m.constant * rate) / m.supply
        volts = (m.resistance + m.resistance_per_duty * np.minimum(duty, 1.0)) * current + m.constant * rate
        power = volts * current
        positive = (power + np.sqrt(power**2 + _NOTHING**2)) / 2  # what a braking motor gives back is lost
        return positive.sum(axis=1), np.hstack((position, speed, volts, torque, effort.zmp, effort.slip))


def _dry(m: _Motors, rate: FloatArray, needed: FloatArray) -> FloatArray:
    """Dry friction of moving gears, N·m: `axbridge.physics.friction.budget` for arrays."""
    at_rest = np.exp(-((np.abs(rate) / m.stribeck_speed) ** m.stribeck_exponent))
    dry = m.coulomb + m.stribeck * at_rest + m.quadratic * rate**2
    found: FloatArray = dry + (m.load + m.load_stribeck * at_rest) * np.abs(needed)
    return found


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


def _motors(rig: Rig, servos: Sequence[ServoConfig], body: Body, page: Page) -> _Motors:
    volts = {bus.name: bus.supply_voltage for bus in rig.buses}
    joints = {joint.name: joint for joint in body.tree.joints}
    rows = []
    for servo in servos:
        model, joint = rig.model_of(servo), joints[servo.joint]
        motor, friction = model.motor, model.friction
        gain = motor.efficiency * motor.output_constant
        most = servo.max_torque or rig.profile_of(servo).electrics.stall_torque
        most = min(most, page.torque.get(servo.name, math.inf))
        if motor.max_current:
            most = min(most, gain * motor.max_current)
        through = 2.0 if friction.law in {"M3", "M4"} else 1.0  # these count motor and load torque together
        rows.append(
            _Motors(
                motor.resistance, motor.resistance_per_duty, motor.output_constant, gain, motor.armature,
                friction.viscous + joint.damping + servo.damping_constant, servo.spring_constant,
                friction.coulomb + joint.friction + servo.static_friction, friction.stribeck, friction.stribeck_speed,
                friction.stribeck_exponent, through * friction.load + friction.load_external,
                through * friction.load_stribeck, friction.quadratic, volts[servo.bus], most,
            )  # type: ignore[arg-type]  # columns below
        )  # fmt: skip
    return _Motors(*(np.array(column) for column in zip(*rows, strict=True)))


class _Found(NamedTuple):
    """A way: its poses, J and s."""

    keys: list[Key]
    joules: float
    seconds: float


class _Search:
    """For the spline of one way from rest to rest.

    Args:
        machine: The robot.
        part: The way.
        ends: Its first and its last pose, rad, (2, names).
        ways: The smoothest ways, by joint.
    """

    def __init__(self, machine: _Machine, part: _Part, ends: FloatArray, ways: Mapping[str, object]) -> None:
        self._machine, self._part = machine, part
        fewest, most = _PIECES
        pieces = max(fewest, len(part.keys) * 4, min(most, math.ceil(part.seconds / _PIECE)))
        self._knots = np.r_[np.zeros(_DEGREE), np.linspace(0, 1, pieces + 1), np.ones(_DEGREE)]
        self._shares = (np.arange(pieces * _MOMENTS) + 0.5) / (pieces * _MOMENTS)
        self._basis = [self._columns(self._shares, order) for order in range(3)]
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
            smooth = np.array([ways[joint].at(start + share * part.seconds) for share in self._shares])  # type: ignore[attr-defined]
            some = np.linalg.lstsq(fixed, wanted, rcond=None)[0]
            inside = np.linalg.lstsq(self._basis[0] @ none, smooth - self._basis[0] @ some, rcond=None)[0]
            given.append(some + none @ inside)
            free.append(none)
        self._given = np.array(given)  # (names, coefficients)
        self._free = block_diag(*free)  # (names · coefficients, unknowns)
        self.usual = self._of_smooth(ways)
        self._scale = max(self.usual, 1e-3)
        self._last: tuple[bytes, tuple[float, FloatArray, FloatArray, FloatArray]] | None = None

    def run(self, *, free_time: bool, progress: Callable[[float], None]) -> _Found:
        """Search.

        Raises:
            UsageError: no way within the limits was found.
        """
        unknowns = np.zeros(self._free.shape[1] + free_time)
        fixed = [(-_FURTHEST, _FURTHEST)] * self._free.shape[1]
        bounds = [*fixed, *([(math.log(_TIMES[0]), math.log(_TIMES[1]))] if free_time else [])]
        limited = self._machine.limited
        span = np.minimum(limited.high - limited.low, 1e6)
        active: set[tuple[int, int, int]] = set()  # moment, figure, side
        over = np.zeros(0)
        for turn in range(_ROUNDS):
            chosen = sorted(active)
            done = minimize(
                lambda y: self._cost(y)[0] / self._scale,
                unknowns,
                jac=lambda y: self._cost(y)[1] / self._scale,
                bounds=bounds,
                method="SLSQP",
                constraints=self._constraints(chosen, span),
                options={"maxiter": _STEPS, "ftol": 1e-6},
                callback=lambda _y, turn=turn: progress(turn / _ROUNDS),
            )
            if np.all(np.isfinite(done.x)):
                unknowns = done.x
            over = self._over(unknowns, span)
            if over.max() <= _BROKEN:
                break
            reached = np.argwhere(over > -_NEAR)
            active |= {(int(moment), int(figure), int(side)) for side, moment, figure in reached}
        if over.max() > _BROKEN:
            self._refuse(over, unknowns, free_time=free_time)
        seconds = self._part.seconds * self._stretch(unknowns)
        count = max(2, round(seconds / _GRID))
        poses = self._columns(np.linspace(0, 1, count + 1)[1:], 0) @ self._coefficients(unknowns).T
        poses = np.clip(poses, limited.low[: poses.shape[1]], limited.high[: poses.shape[1]])
        keys = [_pose(seconds / count, self._machine.pose(pose)) for pose in poses]
        return _Found(keys, self._cost(unknowns)[0], seconds)

    def _constraints(self, chosen: Sequence[tuple[int, int, int]], span: FloatArray) -> list[dict[str, object]]:
        if not chosen:
            return []
        moments, figures, sides = (np.array(column) for column in zip(*chosen, strict=True))
        limited = self._machine.limited
        sign = np.where(sides == 1, -1.0, 1.0) / span[figures]
        edge = np.where(sides == 1, limited.high[figures], limited.low[figures])
        return [
            {
                "type": "ineq",
                "fun": lambda y: sign * (self._cost(y)[2][moments, figures] - edge),
                "jac": lambda y: sign[:, None] * self._slopes(y)[moments, figures],
            }
        ]

    def _over(self, unknowns: FloatArray, span: FloatArray) -> FloatArray:
        """How far below and above its limits each figure is at each moment, in shares of their range, (2, n, figures)."""
        found, limited = self._cost(unknowns)[2], self._machine.limited
        return np.stack(((limited.low - found) / span, (found - limited.high) / span))

    def _refuse(self, over: FloatArray, unknowns: FloatArray, *, free_time: bool) -> None:
        _, moment, figure = np.unravel_index(int(over.argmax()), over.shape)
        limited = self._machine.limited
        name, unit = limited.names[figure]
        needed = self._cost(unknowns)[2][moment, figure]
        when = self._part.times[0] + self._shares[moment] * self._part.seconds * self._stretch(unknowns)
        may = f"{limited.low[figure]:.3g} to {limited.high[figure]:.3g} {unit}"
        where = f"{name} would have to be at {needed:.3g} {unit} after {when:.2f} s, and has {may}"
        hint = "choose other poses, or raise the limits in the rig" if free_time else "give the poses more time"
        raise UsageError(f"no way within the limits was found: {where}", hint)

    def _columns(self, shares: FloatArray, order: int) -> FloatArray:
        """Derivatives of the basis functions by the share of the time, (shares, coefficients)."""
        count = len(self._knots) - _DEGREE - 1
        found: FloatArray = np.array(
            [BSpline(self._knots, row, _DEGREE)(shares, nu=order) for row in np.eye(count)], dtype=np.float64
        ).T
        return found

    def _stretch(self, unknowns: FloatArray) -> float:
        """Time of the way over that of the part."""
        return math.exp(unknowns[-1]) if len(unknowns) > self._free.shape[1] else 1.0

    def _coefficients(self, unknowns: FloatArray) -> FloatArray:
        shape = self._given.shape
        found: FloatArray = self._given + (self._free @ unknowns[: self._free.shape[1]]).reshape(shape)
        return found

    def _of_smooth(self, ways: Mapping[str, object]) -> float:
        """What the smoothest way takes, J: by differences, as it is no spline of this kind."""
        start, seconds = self._part.times[0], self._part.seconds
        step = seconds / len(self._shares) / 4
        around = [
            np.array(
                [
                    [ways[j].at(start + share * seconds + k * step) for j in self._machine.names]
                    for share in self._shares
                ]
            )  # type: ignore[attr-defined]
            for k in (-1, 0, 1)
        ]
        speed, faster = (around[2] - around[0]) / (2 * step), (around[2] - 2 * around[1] + around[0]) / step**2
        return float(self._machine.drawn(around[1], speed, faster)[0].mean() * seconds)

    def _cost(self, unknowns: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Energy, J; its gradient; the limited figures, (n, figures); their derivatives by the joints' motion."""
        key = unknowns.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self._work_out(unknowns)
        return self._last[1]

    def _work_out(self, unknowns: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        seconds = self._part.seconds * self._stretch(unknowns)
        spline = self._coefficients(unknowns)
        motion = np.hstack([basis @ spline.T / seconds**order for order, basis in enumerate(self._basis)])
        n, width = motion.shape
        size = _DIFFERENCE * np.repeat([1.0, 10.0, 100.0], width // 3)
        rows = np.concatenate([motion, *(motion + size * unit for unit in np.eye(width))])
        power, figures = self._machine.drawn(*np.split(rows, 3, axis=1))
        by_motion = (power.reshape(width + 1, n)[1:] - power[:n]) / size[:, None]  # (width, n)
        blocks = figures.reshape(width + 1, n, -1)
        slopes = (blocks[1:] - blocks[0]) / size[:, None, None]  # (width, n, figures)
        weight = seconds / n
        energy = float(power[:n].sum() * weight)
        gradient = self._chained(by_motion[:, :, None], seconds).sum(axis=0)[0] * weight
        if len(unknowns) > self._free.shape[1]:
            gradient = np.append(gradient, energy + weight * self._by_time(by_motion[:, :, None], motion).sum())
        self._motion, self._seconds = motion, seconds
        return energy, gradient, blocks[0], slopes

    def _chained(self, slopes: FloatArray, seconds: float) -> FloatArray:
        """From derivatives by the motion, (width, n, figures), to those by the unknowns, (n, figures, unknowns)."""
        joints = len(self._machine.names)
        by_spline = sum(
            np.einsum("jnf,nc->nfjc", slopes[order * joints : (order + 1) * joints], basis / seconds**order)
            for order, basis in enumerate(self._basis)
        )
        found: FloatArray = np.reshape(by_spline, (*by_spline.shape[:2], -1)) @ self._free
        return found

    def _by_time(self, slopes: FloatArray, motion: FloatArray) -> FloatArray:
        """Derivatives by the logarithm of the time, (n, figures): speeds fall with it, accelerations by its square."""
        joints = len(self._machine.names)
        falls = np.repeat([0.0, -1.0, -2.0], joints) * motion  # (n, width)
        return np.einsum("wnf,nw->nf", slopes, falls)

    def _slopes(self, unknowns: FloatArray) -> FloatArray:
        """Derivatives of the limited figures by the unknowns, (n, figures, unknowns)."""
        slopes = self._cost(unknowns)[3]
        found = self._chained(slopes, self._seconds)
        if len(unknowns) > self._free.shape[1]:
            found = np.concatenate((found, self._by_time(slopes, self._motion)[:, :, None]), axis=2)
        return found
