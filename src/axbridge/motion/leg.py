"""A humanoid's leg in closed form: where the foot is to where the joints are, and back.

The leg of a Bioloid: hip lateral and hip swing cross in one point, ankle swing and ankle lateral in another; thigh and
shank lie in one plane, each a little bent (the servo sits beside the line between the joints). The hip does not twist,
and the sole stays level. x forward, y left, z up, in the torso's frame; m and rad. Signs are those of the rig
`bioloid`: swing joints are positive forward (hip) and where they bend (knee; ankle: toes up), lateral ones turn
about +x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from axbridge.config.urdf import Tree
from axbridge.errors import RigError, UsageError

JOINTS = ("hip_lateral", "hip_swing", "knee", "ankle_swing", "ankle_lateral")  # in the order of `LegAngles`
LegAngles = tuple[float, float, float, float, float]
Point = tuple[float, float, float]


@dataclass(frozen=True)
class Leg:
    """One leg's lengths.

    Attributes:
        hip: Where hip lateral and hip swing cross, in the torso's frame, m.
        thigh: Hip to knee with every joint at 0: forward, up; m.
        shank: Knee to ankle: forward, up; m.
    """

    hip: Point
    thigh: tuple[float, float]
    shank: tuple[float, float]

    @classmethod
    def of(cls, tree: Tree, side: str, path: Path) -> Leg:
        """The leg of a URDF whose joints are called `side` + `JOINTS`."""
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
    def reach(self) -> tuple[float, float]:
        """Nearest and furthest distance of the ankle from the hip with a knee of 0 or more, m."""
        thigh, shank = math.hypot(*self.thigh), math.hypot(*self.shank)
        least = max(0.0, _direction(*self.thigh) - _direction(*self.shank))  # bend of a knee of 0, or a straight leg
        return abs(thigh - shank), math.sqrt(thigh**2 + shank**2 + 2 * thigh * shank * math.cos(least))

    def angles(self, ankle: Point) -> LegAngles:
        """Joint angles that put the ankle there, knee forward, sole level."""
        x, y, z = (a - b for a, b in zip(ankle, self.hip, strict=True))
        lateral = math.atan2(y, -z)
        down = math.hypot(y, z)
        distance = math.hypot(x, down)
        nearest, furthest = self.reach
        if not nearest < distance <= furthest + 1e-12:
            raise UsageError(
                f"a foot {distance * 1000:.0f} mm from the hip is out of reach: {nearest * 1000:.0f} to "
                f"{furthest * 1000:.0f} mm",
                "take shorter, lower or less wide steps (of axbridge walk: --step-length, --step-height, --side-step)",
            )
        thigh, shank = math.hypot(*self.thigh), math.hypot(*self.shank)
        thigh_bend, shank_bend = _direction(*self.thigh), _direction(*self.shank)
        bend = math.acos(max(-1.0, min(1.0, (distance**2 - thigh**2 - shank**2) / (2 * thigh * shank))))
        knee = bend - (thigh_bend - shank_bend)
        swing = math.atan2(x, down) + math.atan2(shank * math.sin(bend), thigh + shank * math.cos(bend)) - thigh_bend
        return lateral, swing, knee, knee - swing, -lateral

    def ankle(self, angles: Sequence[float]) -> Point:
        """Where joint angles, in the order of `JOINTS`, put the ankle: the inverse of `angles`."""
        lateral, swing, knee = angles[:3]
        thigh = _direction(*self.thigh) + swing
        shank = _direction(*self.shank) + swing - knee
        length, rest = math.hypot(*self.thigh), math.hypot(*self.shank)
        x = length * math.sin(thigh) + rest * math.sin(shank)
        down = length * math.cos(thigh) + rest * math.cos(shank)
        return self.hip[0] + x, self.hip[1] + down * math.sin(lateral), self.hip[2] - down * math.cos(lateral)


def _direction(forward: float, up: float) -> float:
    """Angle of a vector forward of straight down, rad."""
    return math.atan2(forward, -up)
