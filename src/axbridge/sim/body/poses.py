"""Where a robot's links and its centre of mass are, for many poses at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import SLIDES, TURNS, Tree
from axbridge.rotations import about


class Posed(NamedTuple):
    """A robot in n poses; in the frame of its base, or in the world where it is known how the base is.

    Attributes:
        place: Origin of each link, m, (links, n, 3).
        turn: Its axes, (links, n, 3, 3).
        axis: Direction in which its joint moves, (links, n, 3); zeros for the base.
        centres: Its centre of mass, m, (links, n, 3).
        centre: That of all links together, m, (n, 3).
    """

    place: FloatArray
    turn: FloatArray
    axis: FloatArray
    centres: FloatArray
    centre: FloatArray


def posed(tree: Tree, positions: FloatArray, base: tuple[FloatArray, FloatArray] | None = None) -> Posed:
    """Put a robot into poses."""
    n, links = len(positions), len(tree.links)
    place, axis, centres = np.zeros((3, links, n, 3))
    turn = np.empty((links, n, 3, 3))
    place[0], turn[0] = (np.zeros(3), np.eye(3)) if base is None else base
    centres[0] = place[0] + turn[0] @ tree.centre[0]
    for link in range(1, links):
        parent, dof = tree.parent[link], tree.dof[link]
        frame = turn[parent] @ tree.turn[link]
        place[link] = place[parent] + turn[parent] @ tree.place[link]
        axis[link] = frame @ tree.axis[link]
        if tree.kind[link] == TURNS:
            frame = frame @ about(tree.axis[link], positions[:, dof])
        elif tree.kind[link] == SLIDES:
            place[link] += axis[link] * positions[:, dof, None]
        turn[link] = frame
        centres[link] = place[link] + frame @ tree.centre[link]
    return Posed(place, turn, axis, centres, np.tensordot(tree.mass / tree.mass.sum(), centres, 1))
