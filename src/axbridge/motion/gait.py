"""A walk straight ahead, open loop: a few figures in, joint angles over time out.

Every step takes the same time. The torso swings over the standing foot, half a sine wave a step, while the other foot
is lifted, carried forward and set down level; between two swings both feet stand. The first two steps are made on the
spot, to begin the swing, and one more closes the feet at the end. The servos give way under the weight: `lean` and
`hip_lift` are what they are told more, so that the torso comes out upright.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.errors import UsageError
from axbridge.motion.leg import JOINTS, Leg, Point

__all__ = ["SIDES", "Gait", "Walk"]

SIDES = ("left", "right")
_ON_THE_SPOT = 2  # steps that begin the swing
_CLOSING = 1


@dataclass(frozen=True)
class Gait:
    """How to walk. The defaults do on the rig `bioloid`, with the servo models `lima2009` and `ax12`.

    Attributes:
        steps: Steps ahead; three more begin and end the walk.
        period: Time of two steps, s.
        step_length: Between the feet when both stand, m.
        step_height: How high a foot is lifted, m.
        sway: How far the torso swings to each side, m.
        double_support: Share of a step in which both feet stand, 0..1.
        lower: How much lower than standing the torso walks, m.
        ahead: How far the torso is held in front of the place above its feet that it has in standing, m.
        lean: Torso told to lean forward, rad.
        hip_lift: Hip of the standing leg told to lift the free side, rad, when the torso is furthest over the foot.

    Raises:
        UsageError: a figure that no walk has.
    """

    steps: int = 12
    period: float = 1.4
    step_length: float = 0.02
    step_height: float = 0.0125
    sway: float = 0.0225
    double_support: float = 0.5
    lower: float = 0.005
    ahead: float = 0.0125
    lean: float = 0.02
    hip_lift: float = 0.09

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"a walk of {self.steps} steps", "take at least one")
        if not 0 < self.period < math.inf:
            raise UsageError(f"a period of {self.period:g} s", "take a positive one")
        if not self.step_height > 0:
            raise UsageError(f"a step height of {self.step_height:g} m", "take a positive one")
        if not 0 <= self.double_support < 1:
            raise UsageError(f"feet that both stand {self.double_support:.0%} of a step", "take less than all of it")

    @property
    def duration(self) -> float:
        """Of the whole walk, s."""
        return (self.steps + _ON_THE_SPOT + _CLOSING) * self.period / 2

    @property
    def distance(self) -> float:
        """How far it leads when no foot slips, m."""
        return self.steps * self.step_length

    @classmethod
    def steps_within(cls, seconds: float, period: float) -> int:
        """Most steps ahead of a walk of so many seconds.

        Raises:
            UsageError: not one fits.
        """
        steps = -1.0
        if seconds < math.inf and period > 0:
            steps = math.floor(seconds / (period / 2) + 1e-9) - _ON_THE_SPOT - _CLOSING
        if not steps >= 1:
            raise UsageError(f"no step of {period / 2:g} s fits into {seconds:g} s", f"give at least {2 * period:g} s")
        return int(steps)


@dataclass(frozen=True)
class Walk:
    """A gait on a robot's legs.

    Attributes:
        gait: How to walk.
        legs: By side.
        ankles: Where the ankles are in the standing pose, in the torso's frame, by side, m.
    """

    gait: Gait
    legs: Mapping[str, Leg]
    ankles: Mapping[str, Point]

    @classmethod
    def of(cls, rig: Rig, gait: Gait) -> Walk:
        """A gait on the legs of a rig, from its standing pose.

        Raises:
            RigError: the rig has no URDF, or not the legs of a Bioloid.
        """
        tree = read_tree(rig.urdf_path(), fixed_base=False)
        legs = {side: Leg.of(tree, f"{side}_", rig.path) for side in SIDES}
        standing = {servo.joint: servo.position for servo in rig.servos}
        poses = {side: tuple(standing.get(f"{side}_{joint}", 0.0) for joint in JOINTS) for side in SIDES}
        return cls(gait, legs, {side: leg.ankle(poses[side]) for side, leg in legs.items()})

    def angles(self, time: float) -> dict[str, float]:
        """Joint angles, rad, by joint, `time` seconds after the start; at 0 and from the end on, both feet stand.

        Raises:
            UsageError: a foot out of the leg's reach.
        """
        gait = self.gait
        length = gait.period / 2
        number = min(int(time / length), round(gait.duration / length) - 1)
        share = min(time / length - number, 1.0)
        free, standing = SIDES[(number + 1) % 2], SIDES[number % 2]  # the right foot goes first
        there, target = self._foothold(number - 1), self._foothold(number)
        left_behind = self._foothold(number - 2)
        swing = (share - gait.double_support / 2) / (1 - gait.double_support)
        foot = {standing: there, free: left_behind + (target - left_behind) * _eased(swing)}
        torso = (left_behind + there) / 2 + (target - left_behind) / 2 * share
        over = math.sin(math.pi * share)  # the standing foot, 0..1
        found: dict[str, float] = {}
        for side, leg in self.legs.items():
            x, y, z = self.ankles[side]
            forward = x + foot[side] - torso - gait.ahead
            across = y - (1 if standing == "left" else -1) * gait.sway * over
            up = z + gait.lower + (gait.step_height * _lifted(swing) if side == free else 0.0)
            lateral, *rest = leg.angles(_leaning((forward, across, up), leg.hip, gait.lean), gait.lean)
            if side == standing:
                lateral += (1 if side == "left" else -1) * gait.hip_lift * over
            found.update(zip((f"{side}_{joint}" for joint in JOINTS), (lateral, *rest), strict=True))
        return found

    def _foothold(self, number: int) -> float:
        """Where step `number` sets its foot down, m ahead of the start; before the first the feet are at 0."""
        return min(max(number - _ON_THE_SPOT + 1, 0), self.gait.steps) * self.gait.step_length


def _eased(share: float) -> float:
    """0..1 in so much of the time, with no speed and no acceleration at the ends."""
    share = min(max(share, 0.0), 1.0)
    return share - math.sin(2 * math.pi * share) / (2 * math.pi)


def _lifted(share: float) -> float:
    """Height of a foot on its way, 0..1; no speed at the ends."""
    return math.sin(math.pi * share) ** 2 if 0 < share < 1 else 0.0


def _leaning(point: Point, hip: Point, lean: float) -> Point:
    """A point in the frame of a torso that leans forward about the hip."""
    x, z = point[0] - hip[0], point[2] - hip[2]
    return (
        hip[0] + x * math.cos(lean) - z * math.sin(lean),
        point[1],
        hip[2] + x * math.sin(lean) + z * math.cos(lean),
    )
