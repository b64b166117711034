"""What torques a motion takes, for many moments at once: bolted down, or standing on flat feet.

A robot that stands is looked at from one of its feet, which does not move; the floor's push on the other foot is taken
from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.urdf import Tree
from axbridge.errors import RigError
from axbridge.sim.body.carrying import Carrier, carried
from axbridge.sim.body.inverse_dynamics import Wrenches, wrenches
from axbridge.sim.body.link_paths import rooted_at, way_to_base
from axbridge.sim.body.poses import posed
from axbridge.sim.body.soles import Sole, soles_of


class Effort(NamedTuple):
    """What a motion takes at n moments.

    Attributes:
        torque: Of each joint of the tree, N·m, (n, joints).
        zmp: Zero-moment point beside the middle of both soles, m, (n, 2); zeros where the robot is bolted down.
        slip: How far the second foot has gone, x, y, z in m and its lean in two directions in rad, (n, 5); likewise.
    """

    torque: FloatArray
    zmp: FloatArray
    slip: FloatArray


@dataclass(frozen=True)
class Body:
    """A robot that is bolted down, or stands on two feet.

    Attributes:
        tree: Its links; the first is what does not move.
        gravity: In the frame of that link, m/s², (3,).
        soles: None bolted down; two, the first one's link is the first of the tree.
        home: Place and rotation of the second foot's link where it has to stay, (3,) and (3, 3).
        room: How far the zero-moment point may go from the middle of both soles, m, (2,).
    """

    tree: Tree
    gravity: FloatArray
    soles: tuple[Sole, ...] = ()
    home: tuple[FloatArray, FloatArray] = (np.zeros(3), np.eye(3))
    room: tuple[float, float] = (math.inf, math.inf)

    @classmethod
    def of(cls, rig: Rig, positions: dict[str, float]) -> Body:
        """The body of a rig."""
        tree, world = rig.tree(), rig.world
        assert world is not None  # else it had no tree
        gravity = np.array(world.gravity)
        if world.fixed_base:
            return cls(tree, gravity)
        feet = soles_of(rig, tree, positions)
        if len(feet) != 2:
            why = f"{len(feet)} links with a box for a sole stand on the floor in this pose"
            raise RigError(rig.path, "world", why, "start from a pose on two feet, or let fixed_base = true")
        names = [tree.links[sole.link] for sole in feet]
        tree = rooted_at(tree, feet[0].link)
        soles = tuple(sole._replace(link=tree.links.index(name)) for sole, name in zip(feet, names, strict=True))
        home = posed(tree, tree.pose(positions)[None])
        body = cls(tree, gravity, soles, (home.place[soles[1].link, 0], home.turn[soles[1].link, 0]))
        corners = np.array(
            [body._in_first(k, corner) for k, sole in enumerate(soles) for corner in (sole.low, sole.high)]
        )
        middle = body._centres().mean(axis=0)
        reach = np.abs(corners - middle)
        return replace(body, room=(float(reach[:, 0].min()), float(reach[:, 1].max())))

    def effort(self, position: FloatArray, speed: FloatArray, acceleration: FloatArray) -> Effort:
        """What a motion takes: its joints' angles (rad), speeds and accelerations, (n, joints) each."""
        held = wrenches(self.tree, position, speed, acceleration, self.gravity)
        if not self.soles:
            return Effort(held.torque, np.zeros((len(position), 2)), np.zeros((len(position), 5)))
        return self._on_feet(held)

    def _on_feet(self, held: Wrenches) -> Effort:
        """The first foot is held: the second one's push comes up its leg, and goes down the first."""
        first, second = self._centres()
        leg = [int(dof) for dof in self.tree.dof[way_to_base(self.tree, self.soles[1].link)] if dof >= 0]
        legs = Carrier(leg, second[None]), Carrier([], first[None])
        found = carried(self.tree, held, held.where.place[0], legs, float(self.soles[0].low[2]))
        place, turn = held.where.place[self.soles[1].link], held.where.turn[self.soles[1].link]
        turned = np.swapaxes(turn, -1, -2) @ self.home[1]
        slip = np.column_stack((place - self.home[0], turned[:, 0, 2], turned[:, 1, 2]))
        return Effort(found.torque, found.zmp - (first + second) / 2, slip)

    def _centres(self) -> FloatArray:
        """Of both soles, in the frame of the first foot, m, (2, 2)."""
        return np.array([self._in_first(k, sole.middle) for k, sole in enumerate(self.soles)])

    def _in_first(self, sole: int, point: FloatArray) -> FloatArray:
        found = self.home[0] + self.home[1] @ point if sole else point
        return np.array(found[:2])
