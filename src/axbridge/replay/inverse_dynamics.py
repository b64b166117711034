"""What each joint of a robot has to carry along a recorded motion: recursive Newton-Euler, all samples at once.

Plain vectors in world axes, link by link (Featherstone 2008, chapter 5). The engines' kernel for one moment,
`axbridge.physics.engines.tree_dynamics`, wants no accelerations and gives no wrench of the base.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import Tree

__all__ = ["BaseMotion", "Wrenches", "wrenches"]

_TURNS, _SLIDES = 1, 2  # in `Tree.kind`


class BaseMotion(NamedTuple):
    """How the base link moves, of l samples; world axes.

    Attributes:
        turn: Its axes, (l, 3, 3).
        place: Its origin, m, (l, 3).
        spin: rad/s, (l, 3).
        spin_rate: rad/s², (l, 3).
        acceleration: Of its origin, m/s², (l, 3).
    """

    turn: FloatArray
    place: FloatArray
    spin: FloatArray
    spin_rate: FloatArray
    acceleration: FloatArray


class Wrenches(NamedTuple):
    """What a motion takes.

    Attributes:
        origin: Where each link's joint is, m, (links, l, 3).
        axis: Direction in which each link's joint moves, (links, l, 3).
        centre: Centre of mass of each link, m, (links, l, 3).
        force: What its parent has to give each link for it and all beyond, N, (links, l, 3).
        moment: Likewise about `origin`, N·m, (links, l, 3).
    """

    origin: FloatArray
    axis: FloatArray
    centre: FloatArray
    force: FloatArray
    moment: FloatArray

    def of_joint(self, tree: Tree, joint: int) -> FloatArray:
        """Torque (l,) about a joint, N·m; of one that slides the force along it, N."""
        link = int(np.flatnonzero(tree.dof == joint)[0])
        pushed = self.moment if tree.kind[link] == _TURNS else self.force
        result: FloatArray = np.einsum("li,li->l", self.axis[link], pushed[link])
        return result


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
        position: Of its joints, rad or m, (l, n).
        speed: rad/s or m/s, (l, n).
        acceleration: rad/s² or m/s², (l, n).
        gravity: m/s², (3,).
        base: How the base moves; None = it stands still, its axes those of the world.
    """
    count, length = len(tree.links), len(position)
    if base is None:
        still = np.zeros((length, 3))
        base = BaseMotion(np.broadcast_to(np.eye(3), (length, 3, 3)), still, still, still, still)
    turn = np.empty((count, length, 3, 3))
    origin, axis, centre, spin, rate, moving, force, moment = np.zeros((8, count, length, 3))
    for link in range(count):
        up = int(tree.parent[link])
        if up < 0:
            turn[0], origin[0], spin[0], rate[0] = base.turn, base.place, base.spin, base.spin_rate
            moving[0] = base.acceleration - gravity
        else:
            lever = turn[up] @ tree.place[link]
            turn[link] = turn[up] @ tree.turn[link]
            origin[link] = origin[up] + lever
            axis[link] = turn[link] @ tree.axis[link]
            spin[link], rate[link] = spin[up], rate[up]
            moving[link] = moving[up] + np.cross(rate[up], lever) + np.cross(spin[up], np.cross(spin[up], lever))
            joint = int(tree.dof[link])
            if joint >= 0:
                at, fast, faster = (column[:, joint, None] for column in (position, speed, acceleration))
                along, across = axis[link], np.cross(spin[up], axis[link])
                if tree.kind[link] == _SLIDES:
                    slid = along * at
                    origin[link] += slid
                    moving[link] += np.cross(rate[up], slid) + np.cross(spin[up], np.cross(spin[up], slid))
                    moving[link] += along * faster + 2 * across * fast
                else:
                    turn[link] = turn[link] @ _turned(tree.axis[link], at[:, 0])
                    spin[link] = spin[up] + along * fast
                    rate[link] = rate[up] + along * faster + across * fast
        arm = turn[link] @ tree.centre[link]
        centre[link] = origin[link] + arm
        inertia = turn[link] @ tree.inertia[link] @ np.swapaxes(turn[link], 1, 2)
        at_centre = moving[link] + np.cross(rate[link], arm) + np.cross(spin[link], np.cross(spin[link], arm))
        force[link] = tree.mass[link] * at_centre
        momentum = np.einsum("lij,lj->li", inertia, spin[link])
        moment[link] = np.einsum("lij,lj->li", inertia, rate[link]) + np.cross(spin[link], momentum)
        moment[link] += np.cross(arm, force[link])
    for link in range(count - 1, 0, -1):
        up = int(tree.parent[link])
        force[up] += force[link]
        moment[up] += moment[link] + np.cross(origin[link] - origin[up], force[link])
    return Wrenches(origin, axis, centre, force, moment)


def _turned(axis: FloatArray, angle: FloatArray) -> FloatArray:
    """Rotations (l, 3, 3) about an axis (3,) of unit length by angles (l,), rad (Rodrigues)."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    sine, rest = np.sin(angle)[:, None, None], (1 - np.cos(angle))[:, None, None]
    result: FloatArray = np.eye(3) + sine * cross + rest * (cross @ cross)
    return result
