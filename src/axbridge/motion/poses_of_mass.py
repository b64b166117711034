"""Where the links and the centre of mass of a robot are, for many poses at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import Tree

__all__ = ["Posed", "about", "posed"]


class Posed(NamedTuple):
    """A robot in n poses, in the frame of its base, m.

    Attributes:
        place: Of each joint's frame, (links, n, 3).
        axis: Of each joint, (links, n, 3).
        centre: Of all its mass, (n, 3).
    """

    place: FloatArray
    axis: FloatArray
    centre: FloatArray


def posed(tree: Tree, positions: FloatArray) -> Posed:
    """Put a robot into poses.

    Args:
        tree: The robot.
        positions: Of its joints, rad or m, (n, joints).
    """
    count, links = len(positions), len(tree.links)
    place, axis, turn = np.zeros((links, count, 3)), np.zeros((links, count, 3)), np.zeros((links, count, 3, 3))
    turn[0] = np.eye(3)
    moment = tree.mass[0] * np.broadcast_to(tree.centre[0], (count, 3))
    for link in range(1, links):
        parent, dof = tree.parent[link], tree.dof[link]
        frame = turn[parent] @ tree.turn[link]
        place[link] = place[parent] + turn[parent] @ tree.place[link]
        axis[link] = frame @ tree.axis[link]
        if tree.kind[link] == 1:
            frame = frame @ about(tree.axis[link], positions[:, dof])
        elif tree.kind[link] == 2:
            place[link] += axis[link] * positions[:, dof, None]
        turn[link] = frame
        moment = moment + tree.mass[link] * (place[link] + frame @ tree.centre[link])
    return Posed(place, axis, moment / tree.mass.sum())


def about(axis: FloatArray, angles: FloatArray) -> FloatArray:
    """Rotations about an axis of unit length, (n, 3, 3): Rodrigues' formula."""
    x, y, z = axis
    cross = np.array(((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)))
    sine, cosine = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    rotation: FloatArray = np.eye(3) + sine * cross + (1 - cosine) * (cross @ cross)
    return rotation
