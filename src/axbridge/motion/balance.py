"""Where the floor's push acts on a simulated robot that stands: its zero-moment point, and how far inside the soles.

On level ground the point about which the floor's push turns nothing over is the mean of the contact points, each
weighed by what presses there. It cannot leave the soles: where it comes to their edge, the robot begins to tip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.motion.footsteps import Foothold
from axbridge.motion.gait import Walk
from axbridge.robot.simulation import Simulation
from axbridge.rotations import Vector, roll_pitch_yaw, turned
from axbridge.sim.body.soles import Contact, inside, soles_of

_STANDS = 0.5  # N: pressed with less, a foot carries nothing


class Support(NamedTuple):
    """What carries a robot.

    Attributes:
        zmp: The zero-moment point, m, in the world.
        margin: From there to the nearest edge of the soles that stand, m; below 0 outside. NaN where a foot is no box.
    """

    zmp: tuple[float, float]
    margin: float


class Soles:
    """The feet of a simulated robot that walks.

    Args:
        simulation: Of a robot with joints; the soles are the lowest faces of the boxes that its feet touch the
            floor with.

    Raises:
        RigError: the rig has no legs that walk.
    """

    def __init__(self, simulation: Simulation) -> None:
        rig, engine = simulation.world.rig, simulation.engine
        assert engine is not None
        self._engine = engine
        tree = rig.tree(fixed_base=False)
        self.links = {side: tree.links[tree.moved[f"{side}_ankle_lateral"]] for side in ("left", "right")}
        found = {tree.links[sole.link]: sole.corners.tolist() for sole in soles_of(rig, tree)}
        self._corners: dict[str, list[Vector]] = {link: found.get(link, []) for link in self.links.values()}

    def support(self) -> Support | None:
        """Where the floor's push acts; None while no foot stands."""
        pressed: dict[str, list[Contact]] = {link: [] for link in self._corners}
        for contact in self._engine.contacts():
            if contact.link in pressed:
                pressed[contact.link].append(contact)
        push = {link: sum(contact.force[2] for contact in there) for link, there in pressed.items()}
        standing = [link for link, force in push.items() if force > _STANDS]
        if not standing:
            return None
        there = [contact for link in standing for contact in pressed[link]]
        weight = np.array([contact.force[2] for contact in there])
        points = np.array([contact.point[:2] for contact in there])
        x, y = (weight @ points / weight.sum()).tolist()
        known = all(self._corners[link] for link in standing)
        corners = np.concatenate([self._outline(link) for link in standing]) if known else None
        return Support((x, y), math.nan if corners is None else inside((x, y), corners))

    def planned(self, walk: Walk, time: float) -> tuple[float, float]:
        """Where the plan wants the zero-moment point `time` s after the walk's start, as seen from where the feet are.

        So a drift of the whole robot is no difference.
        """
        wanted = _at(walk, walk.zmp, time)
        plan = _middle({side: tuple(_at(walk, way, time)[[0, 1, 3]].tolist()) for side, way in walk.feet.items()})
        feet = {side: self._engine.motion(link) for side, link in self.links.items()}
        here = _middle(
            {side: (foot.place[0], foot.place[1], roll_pitch_yaw(foot.turned)[2]) for side, foot in feet.items()}
        )
        turn = here[2] - plan[2]
        x, y = float(wanted[0]) - plan[0], float(wanted[1]) - plan[1]
        there = Foothold(here[0], here[1], turn).moved(x, y)
        return there.x, there.y

    def _outline(self, link: str) -> FloatArray:
        """Corners of a sole on the floor, (n, 2), m."""
        foot = self._engine.motion(link)
        corners: FloatArray = np.array([turned(corner, foot.turned)[:2] for corner in self._corners[link]])
        corners += foot.place[:2]
        return corners


def _at(walk: Walk, ways: FloatArray, time: float) -> FloatArray:
    return np.array([np.interp(time, walk.time, column) for column in ways.T])


def _middle(feet: Mapping[str, tuple[float, ...]]) -> tuple[float, float, float]:
    """Between two feet, each x, y, turn."""
    (x, y, one), (a, b, other) = feet.values()
    between = math.atan2(math.sin(one) + math.sin(other), math.cos(one) + math.cos(other))
    return (x + a) / 2, (y + b) / 2, between
