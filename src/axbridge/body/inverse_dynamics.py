"""What each joint of a robot has to give along a motion: recursive Newton-Euler, all moments at once.

Plain vectors in world axes, link by link (Featherstone 2008, chapter 5). The engines' kernel for one moment,
`axbridge.sim.engines.bullet.tree_dynamics`, wants no accelerations and gives no wrench of the base.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.body.poses import Posed, posed
from axbridge.config.urdf import SLIDES, TURNS, Tree

__all__ = ["BaseMotion", "Wrenches", "accelerated", "cross", "wrenches"]


class BaseMotion(NamedTuple):
    """How the base link moves, at n moments; world axes.

    Attributes:
        turn: Its axes, (n, 3, 3).
        place: Its origin, m, (n, 3).
        spin: rad/s, (n, 3).
        spin_rate: rad/s², (n, 3).
        acceleration: Of its origin, m/s², (n, 3).
    """

    turn: FloatArray
    place: FloatArray
    spin: FloatArray
    spin_rate: FloatArray
    acceleration: FloatArray


class Wrenches(NamedTuple):
    """What a motion takes at n moments.

    Attributes:
        tree: The robot.
        where: Its links.
        force: What its parent has to give each link for it and all beyond, N, (links, n, 3); the base gets it from
            outside.
        moment: Likewise about the link's origin, N·m, (links, n, 3).
    """

    tree: Tree
    where: Posed
    force: FloatArray
    moment: FloatArray

    def torques(self) -> FloatArray:
        """Of each joint, N·m, (n, joints); of one that slides the force along it, N."""
        found = np.zeros((self.force.shape[1], len(self.tree.joints)))
        for link, dof in enumerate(self.tree.dof.tolist()):
            if dof >= 0:
                pushed = self.force if self.tree.kind[link] == SLIDES else self.moment
                found[:, dof] = np.sum(self.where.axis[link] * pushed[link], axis=1)
        return found


def wrenches(
    tree: Tree,
    position: FloatArray,
    speed: FloatArray,
    acceleration: FloatArray,
    gravity: FloatArray,
    base: BaseMotion | None = None,
) -> Wrenches:
    """Forces and moments along a motion in which nothing touches the robot but at its base.

    Args:
        tree: The robot.
        position: Of its joints, rad or m, (n, joints).
        speed: rad/s or m/s, (n, joints).
        acceleration: rad/s² or m/s², (n, joints).
        gravity: m/s², (3,).
        base: How the base moves; None = it stands still, its axes those of the world.
    """
    where = posed(tree, position, None if base is None else (base.place, base.turn))
    spin, rate, moving, force, moment = np.zeros((5, *where.place.shape))
    moving[0] = -gravity  # weight is felt as in a lift that starts upwards
    if base is not None:
        spin[0], rate[0] = base.spin, base.spin_rate
        moving[0] += base.acceleration
    for link, up in enumerate(tree.parent.tolist()):
        if up >= 0:
            arm = where.place[link] - where.place[up]
            spin[link], rate[link] = spin[up], rate[up]
            moving[link] = moving[up] + accelerated(arm, spin[up], rate[up])
            dof = int(tree.dof[link])
            if tree.kind[link] == TURNS:
                turning = where.axis[link] * speed[:, dof, None]
                spin[link] += turning
                rate[link] += where.axis[link] * acceleration[:, dof, None] + cross(spin[up], turning)
            elif tree.kind[link] == SLIDES:
                sliding = where.axis[link] * speed[:, dof, None]
                moving[link] += where.axis[link] * acceleration[:, dof, None] + 2 * cross(spin[up], sliding)
        turn, lever = where.turn[link], where.centres[link] - where.place[link]
        inertia = turn @ tree.inertia[link] @ np.swapaxes(turn, 1, 2)
        force[link] = tree.mass[link] * (moving[link] + accelerated(lever, spin[link], rate[link]))
        momentum = np.einsum("nij,nj->ni", inertia, spin[link])
        moment[link] = np.einsum("nij,nj->ni", inertia, rate[link]) + cross(spin[link], momentum)
        moment[link] += cross(lever, force[link])
    for link in range(len(tree.links) - 1, 0, -1):
        up = int(tree.parent[link])
        force[up] += force[link]
        moment[up] += moment[link] + cross(where.place[link] - where.place[up], force[link])
    return Wrenches(tree, where, force, moment)


def accelerated(arm: FloatArray, spin: FloatArray, rate: FloatArray) -> FloatArray:
    """How much faster the end of a turning arm (n, 3) gets than its beginning; m, rad/s and rad/s² to m/s²."""
    return cross(rate, arm) + cross(spin, cross(spin, arm))


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Of rows (n, 3); `np.cross` takes several times as long."""
    found: FloatArray = a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]
    return found
