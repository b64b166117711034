"""The feet of a robot that stands: their undersides, how far inside of them a point is, and what they touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.urdf import Tree
from axbridge.rotations import Vector
from axbridge.sim.body.poses import posed

_LEVEL = 0.005  # m: feet whose soles differ less in height stand on the same floor


class Contact(NamedTuple):
    """A point at which a link touches what is not the robot, as of the engine's latest whole step.

    Attributes:
        link: Its name.
        point: In the world, m.
        force: What pushes the link there, pressure and friction, in the world, N.
    """

    link: str
    point: Vector
    force: Vector


class Sole(NamedTuple):
    """A foot's underside: a rectangle in its link's frame.

    Attributes:
        link: Index of the foot's link.
        low: x, y and z of the corner with the lowest figures, m, (3,).
        high: x and y of the opposite corner, and the same z, m, (3,).
    """

    link: int
    low: FloatArray
    high: FloatArray

    @property
    def middle(self) -> FloatArray:
        """In its link's frame, m, (3,)."""
        middle: FloatArray = (self.low + self.high) / 2
        return middle

    @property
    def corners(self) -> FloatArray:
        """In its link's frame, m, (4, 3)."""
        (x, y, z), (a, b, _) = self.low, self.high
        return np.array(((x, y, z), (a, y, z), (a, b, z), (x, b, z)))


def soles_of(rig: Rig, tree: Tree, stands: Mapping[str, float] | None = None) -> list[Sole]:
    """The links whose box is lowest, as far as their undersides are level."""
    places = posed(tree, tree.pose(rig.start if stands is None else stands)[None]).place[:, 0]
    boxes: list[tuple[float, Sole]] = []
    for shape in rig.shapes("collision"):
        if shape.kind == "box" and np.allclose(shape.turn, np.eye(3), atol=1e-6):
            half = np.array(shape.size) / 2
            link = tree.links.index(shape.link)
            low, high = shape.place - half, shape.place + half * (1.0, 1.0, -1.0)
            boxes.append((float(places[link, 2] + low[2]), Sole(link, low, high)))
    floor = min((height for height, _ in boxes), default=0.0)
    return [sole for height, sole in boxes if height < floor + _LEVEL]


def inside(point: tuple[float, float], corners: FloatArray) -> float:
    """How far a point is inside the hull of corners (n, 2), of an upright sole, too; m, below 0 outside."""
    from scipy.spatial import ConvexHull  # takes longer to load than everything else that a robot needs

    edges = ConvexHull(corners, qhull_options="QJ").equations  # a unit normal outwards, and minus its distance, of each
    return -float(np.max(edges[:, :2] @ point + edges[:, 2]))
