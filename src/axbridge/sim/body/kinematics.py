"""Forward kinematics of many poses at once, a change of the base link, and the soles of a robot."""

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
    """A robot in n poses, in the frame of its base; in the world when the base's pose is given."""

    place: FloatArray  # origin of each link, m, (links, n, 3)
    turn: FloatArray  # rotation matrix of each link, (links, n, 3, 3)
    axis: FloatArray  # axis of each link's joint, (links, n, 3); zeros for the base
    centres: FloatArray  # centre of mass of each link, m, (links, n, 3)
    centre: FloatArray  # centre of mass of the robot, m, (n, 3)


def posed(tree: Tree, positions: FloatArray, base: tuple[FloatArray, FloatArray] | None = None) -> Posed:
    """Return the links' poses at joint `positions` (n, joints), rad or m; `base`: origins, m, and rotations."""
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


def path_to_base(tree: Tree, link: int) -> list[int]:
    """Return the links from `link` to the base, both included."""
    path = [link]
    while tree.parent[path[-1]] >= 0:
        path.append(int(tree.parent[path[-1]]))
    return path


def rooted_at(tree: Tree, link: int) -> Tree:
    """Return the robot with another base link; links on the path to the old base get their new joint's frame."""
    path = path_to_base(tree, link)
    above = dict(zip(path[1:], path[:-1], strict=True))  # link on the path -> its new parent
    order = [link]
    for i in order:  # the loop appends to the list
        children = [k for k in range(len(tree.links)) if (tree.parent[k] == i and k not in path)]
        order += [*children, *([int(tree.parent[i])] if i in path and tree.parent[i] >= 0 else [])]
    place, turn = tree.place.copy(), tree.turn.copy()
    axis, kind, old = tree.axis.copy(), tree.kind.copy(), tree.dof.copy()
    centre, inertia = tree.centre.copy(), tree.inertia.copy()
    frames = {i: (tree.place[child], tree.turn[child]) for i, child in above.items()}  # new frame in the old one
    for i, (shift, rotation) in frames.items():
        centre[i] = rotation.T @ (tree.centre[i] - shift)
        inertia[i] = rotation.T @ tree.inertia[i] @ rotation
    for k in range(len(tree.links)):
        up = int(tree.parent[k])
        if k not in path and up in frames:
            shift, rotation = frames[up]
            place[k], turn[k] = rotation.T @ (tree.place[k] - shift), rotation.T @ tree.turn[k]
    for i, child in above.items():
        kind[i], old[i], axis[i] = tree.kind[child], tree.dof[child], -tree.axis[child]
        place[i], turn[i] = np.zeros(3), np.eye(3)
        if child in frames:  # its own frame has moved
            shift, rotation = frames[child]
            place[i], turn[i] = -rotation.T @ shift, rotation.T
    kind[link], old[link] = FIXED, -1
    parents = [-1 if i == link else above.get(i, int(tree.parent[i])) for i in order]
    dofs = [int(old[i]) for i in order]
    joints = [d for d in dofs if d >= 0]
    return replace(
        tree,
        joints=tuple(tree.joints[d] for d in joints),
        links=tuple(tree.links[i] for i in order),
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
    low: FloatArray  # x, y and z of the corner with the lowest x and y, m, (3,)
    high: FloatArray  # x and y of the opposite corner, and the same z, m, (3,)

    @property
    def middle(self) -> FloatArray:
        """Return the centre in the link's frame, m, (3,)."""
        return (self.low + self.high) / 2

    @property
    def corners(self) -> FloatArray:
        """Return the corners in the link's frame, m, (4, 3)."""
        (x, y, z), (a, b, _) = self.low, self.high
        return np.array(((x, y, z), (a, y, z), (a, b, z), (x, b, z)))


def soles_of(rig: Rig, tree: Tree, pose: Mapping[str, float] | None = None) -> list[Sole]:
    """Return the soles in a pose: the lowest undersides of collision boxes, within 5 mm of the same height."""
    places = posed(tree, tree.pose(rig.start if pose is None else pose)[None]).place[:, 0]
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
    """Return the distance of a point inside the hull of corners (n, 2), m; negative outside. The hull may be a line."""
    require("the area under the feet", "scipy")
    from scipy.spatial import ConvexHull  # its import takes longer than all other imports of a robot

    edges = ConvexHull(corners, qhull_options="QJ").equations  # of each edge: outward unit normal, minus its distance
    return -float(np.max(edges[:, :2] @ point + edges[:, 2]))
