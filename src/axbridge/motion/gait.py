"""A walk that keeps its zero-moment point in the feet: a few figures in, joint angles over time out.

Footsteps say where the feet stand. The zero-moment point waits over the standing foot and goes on to the next one while
both stand; preview control says how the centre of mass has to move for that, and the legs' joints follow from where the
feet are below it. Servos lag and give way under their load, so each one's goal is ahead by what its model says.
Nothing is measured and nothing corrected, unless `Gait.feedback` asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.urdf import Tree
from axbridge.errors import RigError, UsageError
from axbridge.motion.footsteps import SIDES, Foothold, Step, footsteps
from axbridge.motion.leg import JOINTS, Leg
from axbridge.motion.zmp import GRAVITY, followed
from axbridge.rotations import about
from axbridge.servo.feed_forward import lead
from axbridge.sim.body.carrying import Carrier, carried
from axbridge.sim.body.inverse_dynamics import BaseMotion, wrenches
from axbridge.sim.body.poses import posed

_GRID = 0.01  # s between two poses that are worked out
_SHIFT = 0.9  # s before the first step, in which the weight goes over the standing foot, and after the last
_UPRIGHT = 0.1  # of a foot's way: up alone at its start, and down alone at its end, so that it does not scrape
_ROUNDS = 3  # of moving the torso until it, legs and arms together have their centre of mass where it should be


@dataclass(frozen=True)
class Gait:
    """How to walk. The defaults do on the rig `bioloid`, with the servo models `ax12` and `lima2009`.

    Attributes:
        steps: Steps ahead; one more closes the feet.
        period: Time of two steps, s.
        step_length: How far each step leads ahead, m; negative is backwards.
        side_step: How far two steps lead to the left, m; negative is to the right.
        turn: How far two steps turn to the left, rad; negative is to the right.
        step_height: How high a foot is lifted, m.
        double_support: Share of a step in which both feet stand, 0..1.
        lower: How much lower than standing the torso walks, m.
        zmp_ahead: The zero-moment point is held so far in front of the standing ankle, m.
        zmp_inward: And so far inside of it, m.
        made_up: Share of what the servos would lag and give way under their load that is added to their goals.
        feedback: Share of the torso's lean and of its wrong heading, as an IMU feels them, that the hips take back;
            0 = none, 0.3 does.

    Raises:
        UsageError: a figure that no walk has.
    """

    steps: int = 12
    period: float = 1.3
    step_length: float = 0.04
    side_step: float = 0.0
    turn: float = 0.0
    step_height: float = 0.016
    double_support: float = 0.3
    lower: float = 0.012
    zmp_ahead: float = 0.005
    zmp_inward: float = 0.0075
    made_up: float = 1.0
    feedback: float = 0.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"a walk of {self.steps} steps", "take at least one")
        for name, value in vars(self).items():
            if not math.isfinite(value):
                raise UsageError(f"a walk with {name} = {value:g}", "give a finite number")
        if not 0 < self.period < math.inf:
            raise UsageError(f"a period of {self.period:g} s", "take a positive one")
        if not 0 <= self.feedback < 1:
            raise UsageError(f"a feedback of {self.feedback:g}", "take 0, or 0.3: too much makes it tremble and fall")
        if not self.step_height > 0:
            raise UsageError(f"a step height of {self.step_height:g} m", "take a positive one")
        if not 0 <= self.double_support < 1:
            raise UsageError(f"feet that both stand {self.double_support:.0%} of a step", "take less than all of it")

    @property
    def duration(self) -> float:
        """Of the whole walk, s."""
        return (self.steps + 1) * self.period / 2 + 2 * _SHIFT

    @property
    def distance(self) -> float:
        """How far it leads ahead when it does not turn and no foot slips, m."""
        return self.steps * self.step_length

    @classmethod
    def steps_within(cls, seconds: float, period: float) -> int:
        """Most steps ahead of a walk of so many seconds.

        Raises:
            UsageError: not one fits.
        """
        steps = -1.0
        if seconds < math.inf and period > 0:
            steps = math.floor((seconds - 2 * _SHIFT) / (period / 2) + 1e-9) - 1
        if not steps >= 1:
            needed = 2 * _SHIFT + period
            raise UsageError(f"no step of {period / 2:g} s fits into {seconds:g} s", f"give at least {needed:g} s")
        return int(steps)


@dataclass(frozen=True)
class Walk:
    """A gait on a robot's legs, worked out at n moments.

    Attributes:
        gait: How to walk.
        legs: By side.
        joints: Names of the legs' joints.
        steps: One foot after the other.
        time: s, (n,).
        feet: Where each foot is, by side: x, y, height, turn; m and rad, (n, 4).
        centre: Of mass, m, (n, 2); planned, without what the servos make of it.
        zmp: Where the zero-moment point is held, m, (n, 2).
        angles_at: Goals of `joints`, rad, (n, joints).
    """

    gait: Gait
    legs: dict[str, Leg]
    joints: tuple[str, ...]
    steps: tuple[Step, ...]
    time: FloatArray
    feet: dict[str, FloatArray]
    centre: FloatArray
    zmp: FloatArray
    angles_at: FloatArray

    @classmethod
    def of(cls, rig: Rig, gait: Gait) -> Walk:
        """A gait on the legs of a rig, from its standing pose."""
        body = _Biped.of(rig)
        ankles = {side: leg.ankle(body.standing[body.columns(side)[1:]].tolist()) for side, leg in body.legs.items()}
        plan = footsteps(
            gait.steps, gait.step_length, gait.side_step, gait.turn, ankles["left"][1] - ankles["right"][1]
        )
        time: FloatArray = np.arange(round(gait.duration / _GRID) + 1, dtype=np.float64) * _GRID
        feet = {side: _way_of_foot(side, plan, gait, time) for side in SIDES}
        reference = _reference(plan, gait, time)
        floor = gait.lower - (rig.world.base_height if rig.world is not None else 0.0)
        height = float(posed(body.tree, body.standing[None]).centre[0, 2]) - floor
        centre, zmp = followed(reference, height, _GRID)
        stepping = _stepping(body, feet, centre, ankles["left"][2] + gait.lower)
        goals: FloatArray = stepping.positions + gait.made_up * _leads(rig, body, stepping, feet, gait, -floor)
        columns = [column for side in SIDES for column in body.columns(side)]
        names = tuple(body.tree.names[column] for column in columns)
        return cls(gait, body.legs, names, tuple(plan), time, feet, centre, zmp, goals[:, columns])

    def angles(self, time: float) -> dict[str, float]:
        """Goals of the legs' joints, rad, by joint, `time` s after the start; held before it and after the end."""
        goals = (float(np.interp(time, self.time, column)) for column in self.angles_at.T)
        return dict(zip(self.joints, goals, strict=True))

    def middle(self, time: float) -> Foothold:
        """Between the feet, then."""
        left, right = ([float(np.interp(time, self.time, column)) for column in self.feet[side].T] for side in SIDES)
        return Foothold(*((left[k] + right[k]) / 2 for k in (0, 1, 3)))

    def step_at(self, time: float) -> tuple[int, float]:
        """Which step is taken then, and which share of the foot's way is done, 0..1."""
        number = min(max(math.floor((time - _SHIFT) / (self.gait.period / 2)), 0), len(self.steps) - 1)
        begun = (time - _SHIFT) / (self.gait.period / 2) - number
        both = self.gait.double_support
        return number, min(max((begun - both / 2) / (1 - both), 0.0), 1.0)


def can_walk(rig: Rig) -> bool:
    """Whether a rig has a free base and the legs that a gait needs."""
    if rig.world is None or rig.world.fixed_base:
        return False
    try:
        Walk.of(rig, Gait())
    except (RigError, UsageError):
        return False
    return True


@dataclass(frozen=True)
class _Biped:
    """A robot with two legs.

    Attributes:
        tree: Its links.
        legs: By side.
        standing: Its pose in the rig, (joints of the tree,).
        servos: By joint.
    """

    tree: Tree
    legs: dict[str, Leg]
    standing: FloatArray
    servos: dict[str, ServoConfig]

    @classmethod
    def of(cls, rig: Rig) -> _Biped:
        tree = rig.tree(fixed_base=False)
        legs = {side: Leg.of(tree, f"{side}_", rig.path) for side in SIDES}
        servos = {servo.joint: servo for servo in rig.servos}
        return cls(tree, legs, tree.pose(rig.start), servos)

    def columns(self, side: str) -> list[int]:
        """Of the joints of a leg, the twist first."""
        return [self.tree.names.index(f"{side}_{joint}") for joint in ("hip_twist", *JOINTS)]


class _Stepping(NamedTuple):
    """Joints on their way.

    Attributes:
        positions: Of the tree's joints, rad, (n, joints).
        torso: Where its origin is above the floor plan, m, (n, 2).
        turned: Of the torso to the left, rad, (n,).
    """

    positions: FloatArray
    torso: FloatArray
    turned: FloatArray


def _way_of_foot(side: str, plan: Sequence[Step], gait: Gait, time: FloatArray) -> FloatArray:
    """x, y, height and turn of a foot, m and rad, (n, 4)."""
    first = next(step for step in plan if side == step.side)
    way = np.tile((first.start.x, first.start.y, 0.0, first.start.turn), (len(time), 1))
    length = gait.period / 2
    for number, step in enumerate(plan):
        if step.side == side:
            begun = (time - _SHIFT) / length - number
            share = np.clip((begun - gait.double_support / 2) / (1 - gait.double_support), 0.0, 1.0)
            ahead = np.clip((share - _UPRIGHT) / (1 - 2 * _UPRIGHT), 0.0, 1.0)
            eased = ahead - np.sin(2 * math.pi * ahead) / (2 * math.pi)  # no speed and no acceleration at the ends
            moving = share > 0
            for column, (start, end) in enumerate(zip(_flat(step.start), _flat(step.end), strict=True)):
                way[moving, column] = (start + (end - start) * eased)[moving]
            way[moving, 2] = (gait.step_height * np.sin(math.pi * share) ** 2)[moving]
    return way


def _flat(place: Foothold) -> tuple[float, float, float, float]:
    return place.x, place.y, 0.0, place.turn


def _reference(plan: Sequence[Step], gait: Gait, time: FloatArray) -> FloatArray:
    """Where the zero-moment point should be, m, (n, 2): over the standing foot, and on its way while both stand."""
    length, both = gait.period / 2, gait.double_support * gait.period / 4
    begin, end = _between(plan[0].start, plan[0].standing, gait), _between(plan[-1].end, plan[-1].standing, gait)
    moments, points = [0.0, _SHIFT - both], [begin, begin]
    for number, step in enumerate(plan):
        start = _SHIFT + number * length
        moments += [start + both, start + length - both]
        points += [_held(step.standing, gait, left=step.side == "right")] * 2
    moments += [_SHIFT + len(plan) * length + both, gait.duration]
    points += [end, end]
    return np.stack([np.interp(time, moments, column) for column in np.array(points).T], axis=1)


def _held(foot: Foothold, gait: Gait, *, left: bool) -> tuple[float, float]:
    """Where the zero-moment point is held while this foot stands alone."""
    place = foot.moved(gait.zmp_ahead, -gait.zmp_inward if left else gait.zmp_inward)
    return place.x, place.y


def _between(one: Foothold, other: Foothold, gait: Gait) -> tuple[float, float]:
    """Where it is held while both stand, one beside the other."""
    place = Foothold((one.x + other.x) / 2, (one.y + other.y) / 2, one.turn).moved(gait.zmp_ahead, 0.0)
    return place.x, place.y


def _stepping(body: _Biped, feet: Mapping[str, FloatArray], centre: FloatArray, down: float) -> _Stepping:
    """Joints that put the feet on their ways and the centre of mass over its own.

    The centre of mass moves in the torso with the legs: put the torso, pose the legs, look where the centre came
    out, and again.
    """
    turned = (feet["left"][:, 3] + feet["right"][:, 3]) / 2
    positions = np.tile(body.standing, (len(centre), 1))
    for _ in range(_ROUNDS):
        inside = posed(body.tree, positions).centre[:, :2]
        torso = centre - _turned(inside, turned)
        for side, leg in body.legs.items():
            place = _turned(feet[side][:, :2] - torso, -turned) - leg.hip[:2]
            twist = feet[side][:, 3] - turned
            across = leg.hip[:2] + _turned(place, -twist)
            columns = body.columns(side)
            for k, (x, y) in enumerate(across):
                positions[k, columns[1:]] = leg.angles((float(x), float(y), down + feet[side][k, 2]))
            positions[:, columns[0]] = twist
    return _Stepping(positions, torso, turned)


def _leads(
    rig: Rig, body: _Biped, way: _Stepping, feet: Mapping[str, FloatArray], gait: Gait, high: float
) -> FloatArray:
    """How far ahead of the legs' joints the goals of their servos have to be, rad, (n, joints).

    Args:
        rig: With the servos.
        body: Of the robot.
        way: Of its joints.
        feet: Of its feet.
        gait: How it walks.
        high: The torso's origin above the floor, m.
    """
    joints = (way.positions, *_rates(way.positions))
    speed, faster = joints[1:]
    spin, spinning = (np.pad(rate, ((0, 0), (2, 0))) for rate in _rates(way.turned[:, None]))
    place = np.column_stack((way.torso, np.full(len(way.torso), high)))
    base = BaseMotion(about(np.array((0.0, 0.0, 1.0)), way.turned), place, spin, spinning, _rates(place)[1])
    left, right = (
        Carrier(
            body.columns(side),
            np.array([_held(Foothold(x, y, turn), gait, left=side == "left") for x, y, _, turn in feet[side]]),
        )
        for side in SIDES
    )
    taken = wrenches(body.tree, *joints, np.array((0.0, 0.0, -GRAVITY)), base)
    torque = carried(body.tree, taken, base.place, (left, right)).torque
    found = np.zeros_like(way.positions)
    for column in (*left.joints, *right.joints):
        servo = body.servos.get(body.tree.joints[column].name)
        if servo is not None and servo.drive == "dynamixel":
            moving = (servo.direction * one[:, column] for one in (speed, faster, torque))
            ahead = lead(rig.model_of(servo), rig.profile_of(servo), rig.supply_of(servo), *moving)
            found[:, column] = servo.direction * ahead
    return found


def _rates(way: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Speed and acceleration along a way (n, k)."""
    speed = np.gradient(way, _GRID, axis=0)
    return speed, np.gradient(speed, _GRID, axis=0)


def _turned(points: FloatArray, angles: FloatArray) -> FloatArray:
    """Points (n, 2) turned to the left by angles (n,), rad."""
    c, s = np.cos(angles), np.sin(angles)
    turned: FloatArray = np.stack((c * points[:, 0] - s * points[:, 1], s * points[:, 0] + c * points[:, 1]), axis=1)
    return turned
