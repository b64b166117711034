"""Plan a walk whose zero-moment point stays within the feet: from a few parameters to joint angles over time.

The zero-moment point stays over the standing foot, and moves to the next foot while both stand. Preview control gives
the motion of the centre of mass for that, and the positions of the feet below it give the legs' joint angles. Servos
lag and yield to their loads, so each goal is ahead of the joint by an offset from the servo's model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.urdf import Tree
from axbridge.errors import RigError, UsageError, require
from axbridge.rotations import about
from axbridge.servo import checks
from axbridge.servo.steady import goal_offset
from axbridge.sim.body.inverse_dynamics import BaseMotion, Carrier, carried, wrenches
from axbridge.sim.body.kinematics import posed

SIDES = ("left", "right")
_OTHER = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Foothold:
    """Position of a standing foot on the floor."""

    x: float  # ahead of the walk's start, m
    y: float  # to the left of the walk's start, m
    turn: float  # turn to the left, rad

    def moved(self, ahead: float, left: float, turn: float = 0.0) -> Foothold:
        """Return the foothold moved ahead and to the left in its own axes (m), then turned (rad)."""
        c, s = math.cos(self.turn), math.sin(self.turn)
        return Foothold(self.x + c * ahead - s * left, self.y + s * ahead + c * left, self.turn + turn)


@dataclass(frozen=True)
class Step:
    """One step of a walk."""

    side: str  # side of the lifted foot
    start: Foothold  # of the lifted foot
    end: Foothold  # of the lifted foot
    standing: Foothold  # of the other foot


def footsteps(count: int, ahead: float, left: float, turn: float, apart: float) -> list[Step]:
    """Return steps ahead, left and turning (both per two steps), and a closing step; `apart`: m between the feet."""
    middle = Foothold(0.0, 0.0, 0.0)
    side = "left" if left > 0 or (left == 0 and turn > 0) else "right"  # the foot on that side opens
    half = {"left": apart / 2, "right": -apart / 2}
    feet = {name: middle.moved(0.0, half[name]) for name in SIDES}
    steps = []
    for number in range(count + 1):
        other = _OTHER[side]
        if number == count:
            middle = feet[other].moved(0.0, -half[other])
        else:
            opens = number % 2 == 0
            middle = middle.moved(ahead, left if opens else 0.0, turn if opens else 0.0)
        end = middle.moved(0.0, half[side])
        steps.append(Step(side, feet[side], end, feet[other]))
        feet[side] = end
        side = other
    return steps


# ---- legs
#
# Inverse kinematics of a Bioloid's leg in closed form: the axes of hip lateral and hip swing cross in one point, those
# of ankle swing and ankle lateral in another. Thigh and shank lie in one plane, each slightly bent, as the servo is
# beside the line between the joints. The sole stays level. x forward, y left, z up, in the torso's frame; m and rad.
# Signs are those of the rig `bioloid`:
# swing joints are positive forward (hip) and where they bend (knee; ankle: toes up), lateral ones turn about +x.

JOINTS = ("hip_lateral", "hip_swing", "knee", "ankle_swing", "ankle_lateral")  # in the order of `LegAngles`
LegAngles = tuple[float, float, float, float, float]
Point = tuple[float, float, float]


@dataclass(frozen=True)
class Leg:
    """Dimensions of a leg."""

    hip: Point  # crossing of hip lateral and hip swing, in the torso's frame, m
    thigh: tuple[float, float]  # hip to knee with all joints at 0: forward, up; m
    shank: tuple[float, float]  # knee to ankle: forward, up; m

    @classmethod
    def of(cls, tree: Tree, side: str, path: Path) -> Leg:
        """Return the leg of a URDF with joints named `side` + `JOINTS`; raise RigError if it is not a Bioloid's."""
        names = tree.names
        chain = [side + name for name in ("hip_twist", *JOINTS)]
        for name in chain:
            if name not in names:
                raise RigError(path, name, "is missing: a robot needs it to walk", "walk with the rig bioloid")
        links = [tree.dof.tolist().index(names.index(name)) for name in chain]
        twist, lateral, swing, knee, ankle, end = (tree.place[link] for link in links)
        apart = max(abs(value) for value in (*swing, *end, knee[1], ankle[1], *lateral[:2]))
        if apart > 1e-6:
            raise RigError(path, chain[0], "the leg's axes do not cross as a Bioloid's", "walk with the rig bioloid")
        x, y, z = (float(value) for value in twist + lateral)
        return cls((x, y, z), (float(knee[0]), float(knee[2])), (float(ankle[0]), float(ankle[2])))

    @property
    def _polar(self) -> tuple[float, float, float, float]:
        """Lengths of thigh and shank, m, and their angles forward of straight down, rad, with all joints at 0."""
        (a, b), (c, d) = self.thigh, self.shank
        return math.hypot(a, b), math.hypot(c, d), math.atan2(a, -b), math.atan2(c, -d)

    def angles(self, ankle: Point) -> LegAngles:
        """Return the joint angles for a position of the ankle, knee forward and sole level; UsageError if too far."""
        x, y, z = (a - b for a, b in zip(ankle, self.hip, strict=True))
        lateral = math.atan2(y, -z)
        down = math.hypot(y, z)
        distance = math.hypot(x, down)
        thigh, shank, thigh_bend, shank_bend = self._polar
        least = max(0.0, thigh_bend - shank_bend)  # bend of the leg with the knee at 0, or of a straight leg
        nearest = abs(thigh - shank)
        furthest = math.sqrt(thigh**2 + shank**2 + 2 * thigh * shank * math.cos(least))
        if not nearest < distance <= furthest + 1e-12:
            span = f"{nearest * 1000:.0f} to {furthest * 1000:.0f} mm"
            why = f"a foot {distance * 1000:.0f} mm from the hip is out of reach: {span}"
            raise UsageError(why, "take shorter, lower or less wide steps (--step-length, --step-height, --side-step)")
        bend = math.acos(max(-1.0, min(1.0, (distance**2 - thigh**2 - shank**2) / (2 * thigh * shank))))
        knee = bend - (thigh_bend - shank_bend)
        swing = math.atan2(x, down) + math.atan2(shank * math.sin(bend), thigh + shank * math.cos(bend)) - thigh_bend
        return lateral, swing, knee, knee - swing, -lateral

    def ankle(self, angles: Sequence[float]) -> Point:
        """Return the ankle's position for joint angles in the order of `JOINTS`: the inverse of `angles`."""
        lateral, swing, knee = angles[:3]
        thigh, shank, thigh_bend, shank_bend = self._polar
        upper, lower = thigh_bend + swing, shank_bend + swing - knee
        x = thigh * math.sin(upper) + shank * math.sin(lower)
        down = thigh * math.cos(upper) + shank * math.cos(lower)
        return self.hip[0] + x, self.hip[1] + down * math.sin(lateral), self.hip[2] - down * math.cos(lateral)


# ---- zero-moment point
#
# The robot is modelled as a cart with its total mass on a table: the centre of mass x keeps its height z, and the zero-
# moment point (ZMP), where the floor's force acts, is p = x - (z/g)·x''. Preview control is the linear optimal control
# of x''' with which p follows a reference that is known some time ahead: the cart must start before the point moves.
# Kajita et al., *Biped Walking Pattern Generation by using Preview Control of Zero-Moment Point*, ICRA 2003: the cart
# on the table is its section 3, the control its section 4.

GRAVITY = 9.81  # m/s²
_AHEAD = 1.6  # s of the reference that the control uses; at 0.25 m height, later gains are below 1e-4
_ERROR, _JERK = 1.0, 1e-6  # weights of the ZMP's summed error and of x'''


def followed(reference: FloatArray, height: float, step: float) -> tuple[FloatArray, FloatArray]:
    """Return the centre of mass and its ZMP, (n, axes) each, m, that follow a reference, (n, axes), from rest.

    `height` is the centre of mass's height above the floor, m, and `step` the time between rows, s.
    """
    ahead = round(_AHEAD / step)
    feedback, preview = _gains(height, step, ahead)
    a, b, c = _cart(height, step)
    padded = np.concatenate((reference, np.repeat(reference[-1:], ahead, axis=0)))
    state = np.zeros((3, reference.shape[1]))
    state[0] = reference[0]
    summed_error = np.zeros(reference.shape[1])
    centre, point = np.empty_like(reference), np.empty_like(reference)
    for k in range(len(reference)):
        centre[k], point[k] = state[0], c @ state
        summed_error += point[k] - padded[k]
        jerk = preview @ padded[k + 1 : k + 1 + ahead] - feedback[0] * summed_error - feedback[1:] @ state
        state = a @ state + np.outer(b, jerk)
    return centre, point


def _cart(height: float, step: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the cart's state matrix (3, 3), input vector of the jerk (3,) and output vector of the ZMP (3,)."""
    a = np.array(((1.0, step, step**2 / 2), (0.0, 1.0, step), (0.0, 0.0, 1.0)))
    return a, np.array((step**3 / 6, step**2 / 2, step)), np.array((1.0, 0.0, -height / GRAVITY))


def _gains(height: float, step: float, ahead: int) -> tuple[FloatArray, FloatArray]:
    """Return feedback gains of the summed error and the state, (4,), and preview gains of the reference, (ahead,)."""
    from scipy.linalg import solve_discrete_are  # imported here: it takes a fifth of a second to load

    a, b, c = _cart(height, step)
    wide = np.zeros((4, 4))  # the cart's state, extended by the summed error
    wide[0, 0], wide[0, 1:], wide[1:, 1:] = 1.0, c @ a, a
    push = np.concatenate(([c @ b], b))
    riccati = solve_discrete_are(wide, push[:, None], np.diag((_ERROR, 0.0, 0.0, 0.0)), np.array(((_JERK,),)))
    weight = 1.0 / (_JERK + push @ riccati @ push)
    feedback: FloatArray = weight * (push @ riccati @ wide)
    closed = wide - np.outer(push, feedback)
    preview = np.empty(ahead)
    preview[0] = feedback[0]
    later = closed.T @ riccati[:, 0] * _ERROR
    for k in range(1, ahead):
        preview[k] = weight * (push @ later)
        later = closed.T @ later
    return feedback, preview


_GRID = 0.01  # s between two poses of the plan
_SHIFT = 0.9  # s before the first step, in which the weight moves over the standing foot, and after the last
_UPRIGHT = 0.1  # share of a foot's motion, at start and end, in which it moves only vertically, so as not to scrape
_LONGEST = 3600.0  # s: the plan of an hour has 360,000 poses
_ROUNDS = 3  # iterations of the torso's position until the whole robot's centre of mass is as planned


@dataclass(frozen=True)
class Gait:
    """Parameters of a walk. The defaults suit the rig `bioloid` with the servo models `ax12` and `lima2009`.

    Attributes:
        steps: Number of steps; a further step closes the feet.
        period: Time of two steps, s.
        step_length: Length of each step, m; negative is backwards.
        side_step: Distance of two steps to the left, m; negative is to the right.
        turn: Turn of two steps to the left, rad; negative is to the right.
        step_height: Largest height of a foot, m.
        double_support: Share of a step in which both feet stand, 0..1.
        lower: How much lower the torso is than in the standing pose, m.
        zmp_ahead: Distance of the zero-moment point ahead of the standing ankle, m.
        zmp_inward: Distance of the zero-moment point inward of the standing ankle, m.
        made_up: Share of the servos' expected lag and yielding that is added to their goals.
        feedback: Share of the torso's lean and heading error, measured by an IMU, that the hips correct;
            0 = none, 0.3 is enough.

    Raises:
        UsageError: a value that is invalid for a walk.
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
        if not isinstance(self.steps, int | np.integer) or self.steps < 1:
            raise UsageError(f"a walk of {self.steps} steps", "take at least one, and a whole number of them")
        for name, value in vars(self).items():
            if not math.isfinite(checks.number(value, f"{name} of a walk")):
                raise UsageError(f"a walk with {name} = {value:g}", "give a finite number")
        for what, value, unit in (("period", self.period, "s"), ("step height", self.step_height, "m")):
            if not value > 0:
                raise UsageError(f"a {what} of {value:g} {unit}", "take a positive one")
        if not 0 <= self.feedback < 1:
            raise UsageError(f"a feedback of {self.feedback:g}", "take 0, or 0.3: too much makes it tremble and fall")
        if not 0 <= self.double_support < 1:
            raise UsageError(f"feet that both stand {self.double_support:.0%} of a step", "take less than all of it")
        if self.duration > _LONGEST:
            raise UsageError(f"a walk of {self.duration:.3g} s", f"at most {_LONGEST:g} s: take fewer steps")

    @property
    def duration(self) -> float:
        """Duration of the whole walk, s."""
        return (self.steps + 1) * self.period / 2 + 2 * _SHIFT

    @property
    def distance(self) -> float:
        """Distance ahead, m, without turns and slips."""
        return self.steps * self.step_length


@dataclass(frozen=True)
class Walk:
    """The plan of a gait for a robot's legs at n times."""

    gait: Gait
    legs: dict[str, Leg]  # by side
    joints: tuple[str, ...]  # names of the legs' joints
    steps: tuple[Step, ...]  # in order
    time: FloatArray  # s, (n,)
    feet: dict[str, FloatArray]  # position of each foot, by side: x, y, height, turn; m and rad, (n, 4)
    centre: FloatArray  # planned centre of mass, m, (n, 2)
    zmp: FloatArray  # planned zero-moment point, m, (n, 2)
    angles_at: FloatArray  # goals of `joints`, rad, (n, joints)

    @classmethod
    def of(cls, rig: Rig, gait: Gait) -> Walk:
        """Plan a gait for the legs of a rig, from its standing pose; raise RigError or UsageError if impossible."""
        require("planning a walk", "scipy", "mujoco")
        tree = rig.tree(fixed_base=False)
        legs = {side: Leg.of(tree, f"{side}_", rig.path) for side in SIDES}
        columns = {side: [tree.names.index(f"{side}_{joint}") for joint in ("hip_twist", *JOINTS)] for side in SIDES}
        standing = tree.pose(rig.start)
        ankles = {side: leg.ankle(standing[columns[side][1:]].tolist()) for side, leg in legs.items()}
        apart = ankles["left"][1] - ankles["right"][1]
        plan = footsteps(gait.steps, gait.step_length, gait.side_step, gait.turn, apart)
        time: FloatArray = np.arange(round(gait.duration / _GRID) + 1, dtype=np.float64) * _GRID
        feet = {side: _foot_path(side, plan, gait, time) for side in SIDES}
        reference = _reference(plan, gait, time)
        floor = gait.lower - (rig.world.base_height if rig.world is not None else 0.0)
        height = float(posed(tree, standing[None]).centre[0, 2]) - floor
        centre, zmp = followed(reference, height, _GRID)

        # The legs' pose changes the centre of mass relative to the torso: both are computed repeatedly.
        turned = (feet["left"][:, 3] + feet["right"][:, 3]) / 2
        positions = np.tile(standing, (len(centre), 1))
        for _ in range(_ROUNDS):
            torso = centre - _turned(posed(tree, positions).centre[:, :2], turned)
            for side, leg in legs.items():
                place = _turned(feet[side][:, :2] - torso, -turned) - leg.hip[:2]
                twist = feet[side][:, 3] - turned
                across = leg.hip[:2] + _turned(place, -twist)
                down = ankles["left"][2] + gait.lower + feet[side][:, 2]
                ankle_places = np.column_stack((across, down)).tolist()
                positions[:, columns[side]] = [
                    (t, *leg.angles(place)) for t, place in zip(twist, ankle_places, strict=True)
                ]
        base = np.column_stack((torso, np.full(len(torso), -floor), turned))
        goals: FloatArray = positions + gait.made_up * _feed_forward(rig, tree, columns, positions, base, feet, gait)
        both = [column for side in SIDES for column in columns[side]]
        names = tuple(tree.names[column] for column in both)
        return cls(gait, legs, names, tuple(plan), time, feet, centre, zmp, goals[:, both])

    def angles(self, time: float) -> dict[str, float]:
        """Return the goals of the legs' joints, rad, by joint, `time` s after the start; constant outside the walk."""
        goals = (float(np.interp(time, self.time, column)) for column in self.angles_at.T)
        return dict(zip(self.joints, goals, strict=True))

    def middle(self, time: float) -> Foothold:
        """Return the middle between the feet at `time`, s."""
        left, right = ([float(np.interp(time, self.time, column)) for column in self.feet[side].T] for side in SIDES)
        return Foothold(*((left[k] + right[k]) / 2 for k in (0, 1, 3)))

    def step_at(self, time: float) -> tuple[int, float]:
        """Return the number of the step at `time`, s, and the finished share of the foot's motion, 0..1."""
        number = min(max(math.floor((time - _SHIFT) / (self.gait.period / 2)), 0), len(self.steps) - 1)
        progress = (time - _SHIFT) / (self.gait.period / 2) - number
        both = self.gait.double_support
        return number, min(max((progress - both / 2) / (1 - both), 0.0), 1.0)


def can_walk(rig: Rig) -> bool:
    """Return whether a rig has a free base and the legs that a gait needs."""
    if rig.world is None or rig.world.fixed_base:
        return False
    try:
        Walk.of(rig, Gait())
    except (RigError, UsageError):
        return False
    return True


def _foot_path(side: str, plan: Sequence[Step], gait: Gait, time: FloatArray) -> FloatArray:
    """Return x, y, height and turn of a foot at times (n,), m and rad, (n, 4)."""
    first = next(step for step in plan if side == step.side)
    path = np.tile((first.start.x, first.start.y, 0.0, first.start.turn), (len(time), 1))
    length = gait.period / 2
    for number, step in enumerate(plan):
        if step.side == side:
            progress = (time - _SHIFT) / length - number
            share = np.clip((progress - gait.double_support / 2) / (1 - gait.double_support), 0.0, 1.0)
            ahead = np.clip((share - _UPRIGHT) / (1 - 2 * _UPRIGHT), 0.0, 1.0)
            eased = ahead - np.sin(2 * math.pi * ahead) / (2 * math.pi)  # no speed and no acceleration at the ends
            moving = share > 0
            for column, name in ((0, "x"), (1, "y"), (3, "turn")):
                start, end = getattr(step.start, name), getattr(step.end, name)
                path[moving, column] = (start + (end - start) * eased)[moving]
            path[moving, 2] = (gait.step_height * np.sin(math.pi * share) ** 2)[moving]
    return path


def _reference(plan: Sequence[Step], gait: Gait, time: FloatArray) -> FloatArray:
    """Return the planned zero-moment point, m, (n, 2): over the standing foot, moving while both feet stand."""
    length, both = gait.period / 2, gait.double_support * gait.period / 4
    begin, end = _zmp_both(plan[0].start, plan[0].standing, gait), _zmp_both(plan[-1].end, plan[-1].standing, gait)
    moments, points = [0.0, _SHIFT - both], [begin, begin]
    for number, step in enumerate(plan):
        start = _SHIFT + number * length
        moments += [start + both, start + length - both]
        points += [_zmp_over(step.standing, gait, left=step.side == "right")] * 2
    moments += [_SHIFT + len(plan) * length + both, gait.duration]
    points += [end, end]
    return np.stack([np.interp(time, moments, column) for column in np.array(points).T], axis=1)


def _zmp_over(foot: Foothold, gait: Gait, *, left: bool) -> tuple[float, float]:
    """Return the planned zero-moment point, m, while only this foot stands."""
    place = foot.moved(gait.zmp_ahead, -gait.zmp_inward if left else gait.zmp_inward)
    return place.x, place.y


def _zmp_both(first: Foothold, second: Foothold, gait: Gait) -> tuple[float, float]:
    """Return the planned zero-moment point, m, while both feet stand side by side."""
    place = Foothold((first.x + second.x) / 2, (first.y + second.y) / 2, first.turn).moved(gait.zmp_ahead, 0.0)
    return place.x, place.y


def _feed_forward(
    rig: Rig,
    tree: Tree,
    columns: Mapping[str, list[int]],
    positions: FloatArray,
    torso: FloatArray,
    feet: Mapping[str, FloatArray],
    gait: Gait,
) -> FloatArray:
    """Return the offsets of the servos' goals from the legs' joint angles against lag and load, rad, (n, joints).

    `torso` has the origin of the torso and its turn to the left, m and rad, (n, 4).
    """
    place, turned = torso[:, :3], torso[:, 3]
    joints = (positions, *_rates(positions))
    spin, spinning = (np.pad(rate, ((0, 0), (2, 0))) for rate in _rates(turned[:, None]))
    base = BaseMotion(about(np.array((0.0, 0.0, 1.0)), turned), place, spin, spinning, _rates(place)[1])
    over = {side: [Foothold(x, y, turn) for x, y, _, turn in feet[side]] for side in SIDES}
    points = {side: np.array([_zmp_over(foot, gait, left=side == "left") for foot in over[side]]) for side in SIDES}
    left, right = (Carrier(columns[side], points[side]) for side in SIDES)
    taken = wrenches(tree, *joints, np.array((0.0, 0.0, -GRAVITY)), base)
    torque, _ = carried(tree, taken, base.place, (left, right))
    servos = {servo.joint: servo for servo in rig.servos}
    lead = np.zeros_like(positions)
    for column in (*left.joints, *right.joints):
        servo = servos.get(tree.joints[column].name)
        if servo is not None and servo.drive == "dynamixel":
            moving = (servo.direction * values[:, column] for values in (*joints[1:], torque))
            spec = rig.specs[servo.name]
            ahead = goal_offset(spec.model, spec.profile, spec.supply, *moving)
            lead[:, column] = servo.direction * ahead
    return lead


def _rates(path: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return speed and acceleration along a trajectory (n, k), sampled each `_GRID` s."""
    speed = np.gradient(path, _GRID, axis=0)
    return speed, np.gradient(speed, _GRID, axis=0)


def _turned(points: FloatArray, angles: FloatArray) -> FloatArray:
    """Return points (n, 2) turned to the left by angles (n,), rad."""
    c, s = np.cos(angles), np.sin(angles)
    return np.stack((c * points[:, 0] - s * points[:, 1], s * points[:, 0] + c * points[:, 1]), axis=1)
