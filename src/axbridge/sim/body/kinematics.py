"""Where the links of a robot are: in many poses at once, from another base, and its soles when it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.urdf import FIXED, SLIDES, TURNS, Tree
from axbridge.errors import require
from axbridge.rotations import about

_LEVEL = 0.005  # m: feet whose soles differ less in height stand on the same floor


class Posed(NamedTuple):
    """A robot in n poses; in the frame of its base, or in the world where it is known how the base is."""

    place: FloatArray  # origin of each link, m, (links, n, 3)
    turn: FloatArray  # its axes, (links, n, 3, 3)
    axis: FloatArray  # direction in which its joint moves, (links, n, 3); zeros for the base
    centres: FloatArray  # its centre of mass, m, (links, n, 3)
    centre: FloatArray  # that of all links together, m, (n, 3)


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


def way_to_base(tree: Tree, link: int) -> list[int]:
    """The links from one to the base, both among them."""
    way = [link]
    while tree.parent[way[-1]] >= 0:
        way.append(int(tree.parent[way[-1]]))
    return way


def rooted_at(tree: Tree, link: int) -> Tree:
    """The same robot with another link as its base; links on the way get the frame of the joint they now hang by."""
    way = way_to_base(tree, link)
    above = dict(zip(way[1:], way[:-1], strict=True))  # link on the way -> the one by which it now hangs
    order = [link]
    for one in order:  # grows while it is read
        children = [k for k in range(len(tree.links)) if (tree.parent[k] == one and k not in way)]
        order += [*children, *([int(tree.parent[one])] if one in way and tree.parent[one] >= 0 else [])]
    place, turn = tree.place.copy(), tree.turn.copy()
    axis, kind, old = tree.axis.copy(), tree.kind.copy(), tree.dof.copy()
    centre, inertia = tree.centre.copy(), tree.inertia.copy()
    frames = {one: (tree.place[child], tree.turn[child]) for one, child in above.items()}  # new frame in the old one
    for one, (shift, rotation) in frames.items():
        centre[one] = rotation.T @ (tree.centre[one] - shift)
        inertia[one] = rotation.T @ tree.inertia[one] @ rotation
    for k in range(len(tree.links)):
        up = int(tree.parent[k])
        if k not in way and up in frames:
            shift, rotation = frames[up]
            place[k], turn[k] = rotation.T @ (tree.place[k] - shift), rotation.T @ tree.turn[k]
    for one, child in above.items():
        kind[one], old[one], axis[one] = tree.kind[child], tree.dof[child], -tree.axis[child]
        place[one], turn[one] = np.zeros(3), np.eye(3)
        if child in frames:  # its own frame has moved
            shift, rotation = frames[child]
            place[one], turn[one] = -rotation.T @ shift, rotation.T
    kind[link], old[link] = FIXED, -1
    parents = [-1 if one == link else above.get(one, int(tree.parent[one])) for one in order]
    dofs = [int(old[one]) for one in order]
    joints = [d for d in dofs if d >= 0]
    return replace(
        tree,
        joints=tuple(tree.joints[d] for d in joints),
        links=tuple(tree.links[one] for one in order),
        parent=np.array([order.index(up) if up >= 0 else -1 for up in parents], dtype=np.int64),
        kind=kind[order],
        dof=np.array([joints.index(d) if d >= 0 else -1 for d in dofs], dtype=np.int64),
        place=place[order],
        turn=turn[order],
        axis=axis[order],
        mass=tree.mass[order],
        centre=centre[order],
        inertia=inertia[order],
    )


class Sole(NamedTuple):
    """A foot's underside: a rectangle in its link's frame."""

    link: int  # index of the foot's link
    low: FloatArray  # x, y and z of the corner with the lowest figures, m, (3,)
    high: FloatArray  # x and y of the opposite corner, and the same z, m, (3,)

    @property
    def middle(self) -> FloatArray:
        """In its link's frame, m, (3,)."""
        return (self.low + self.high) / 2

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
    require("the area under the feet", "scipy")
    from scipy.spatial import ConvexHull  # takes longer to load than everything else that a robot needs

    edges = ConvexHull(corners, qhull_options="QJ").equations  # a unit normal outwards, and minus its distance, of each
    return -float(np.max(edges[:, :2] @ point + edges[:, 2]))
