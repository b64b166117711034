"""A robot's body in the scene: its links as frames inside each other, each with its shapes, moved by joint angles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.config.mesh import read_mesh
from axbridge.config.urdf import SLIDES, Shape, Tree
from axbridge.rotations import LinkPose, Quaternion, of_axis, product
from axbridge.sim.body.poses import posed

if TYPE_CHECKING:
    import viser


_STILL = 5e-4  # rad or m: a joint that has moved less is not drawn again
_APART = {False: math.radians(1), True: 0.001}  # rad, or m where it slides: joints that differ to the eye
_PLAIN = (0.55, 0.58, 0.62)  # of shapes without a colour


class RobotDrawing:
    """One robot, or its ghost.

    Args:
        server: The page's.
        tree: Its links and joints.
        shapes: What they look like.
        joints: Joint of the URDF by servo.
        root: Name of its frame in the scene.
        ghost: Colour of a translucent body; None: solid, in the shapes' own colours.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        tree: Tree,
        shapes: tuple[Shape, ...],
        joints: Mapping[str, str],
        root: str,
        ghost: tuple[float, float, float] | None = None,
    ) -> None:
        import viser.transforms

        self._scene, self._ghost = server.scene, ghost
        rotate = viser.transforms.SO3.from_matrix
        self._root = server.scene.add_frame(root, show_axes=False)
        names = [root]
        dofs = tree.moved
        frames: list[Any] = [self._root]
        turns: list[Quaternion] = [(0.0, 0.0, 0.0, 1.0)]
        for link, parent in enumerate(tree.parent.tolist()):
            if parent < 0:
                continue
            names.append(f"{names[parent]}/{tree.links[link]}")
            w, x, y, z = (float(part) for part in rotate(tree.turn[link]).wxyz)
            turns.append((x, y, z, w))
            frames.append(
                server.scene.add_frame(names[link], show_axes=False, wxyz=(w, x, y, z), position=tree.place[link])
            )
        self._moved = {
            servo: (frames[dofs[joint]], turns[dofs[joint]], tree.axis[dofs[joint]].tolist(), dofs[joint])
            for servo, joint in joints.items()
            if joint in dofs
        }
        self._sliding = {servo: tree.kind[link] == SLIDES for servo, (_, _, _, link) in self._moved.items()}
        self._tree = tree
        self._drawn: dict[str, float] = {}
        self._placed: LinkPose | None = None
        self._parts: dict[str, list[tuple[Any, tuple[float, float, float]]]] = {}
        of_link = {tree.links[link]: servo for servo, (_, _, _, link) in self._moved.items()}
        alike: dict[tuple[str, tuple[float, float, float]], list[Shape]] = {}
        for shape in shapes:
            alike.setdefault((shape.link, ghost or shape.colour or _PLAIN), []).append(shape)
        self._led: list[tuple[Any, frozenset[str]]] = []  # each mesh, and the servos that move it
        for number, ((link_name, colour), parts) in enumerate(alike.items()):  # few meshes: a browser draws them faster
            handle = self._add(f"{names[tree.links.index(link_name)]}/shape{number}", parts, colour)
            self._led.append((handle, frozenset(_leaders(tree, link_name, of_link))))
            if link_name in of_link:
                self._parts.setdefault(of_link[link_name], []).append((handle, colour))
        self._tints: dict[str, int] = {}

    def _add(self, name: str, shapes: list[Shape], colour: tuple[float, float, float]) -> Any:
        """These shapes of one link as one mesh."""
        meshes = [_mesh(shape) for shape in shapes]
        starts = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
        return self._scene.add_mesh_simple(
            name,
            np.concatenate([vertices for vertices, _ in meshes]),
            np.concatenate([faces + start for (_, faces), start in zip(meshes, starts, strict=False)]),
            color=_bytes(colour),
            opacity=None if self._ghost is None else 0.35,
            cast_shadow=self._ghost is None,
            flat_shading=True,
        )

    def move(self, positions: Mapping[str, float], base: LinkPose | None) -> None:
        """Put the joints at these positions, rad or m, and the base there; what has hardly moved stays."""
        for servo, position in positions.items():
            if servo not in self._moved or not abs(position - self._drawn.get(servo, math.inf)) > _STILL:
                continue
            frame, turn, axis, link = self._moved[servo]
            self._drawn[servo] = position
            if self._sliding[servo]:
                frame.position = self._tree.place[link] + self._tree.turn[link] @ self._tree.axis[link] * position
            else:
                x, y, z, w = product(turn, of_axis(axis, position))
                frame.wxyz = (w, x, y, z)
        if base is not None and base != self._placed:
            self._placed = base
            (x, y, z), (qx, qy, qz, qw) = base
            self._root.position, self._root.wxyz = (x, y, z), (qw, qx, qy, qz)

    def tint(self, shares: Mapping[str, float]) -> None:
        """Colour what each servo moves, from its own colour at 0 to red at 1; empty: their own colours."""
        for servo, parts in self._parts.items():
            share = shares.get(servo, 0.0)
            level = round(10 * min(max(share, 0.0), 1.0)) if math.isfinite(share) else 0
            if self._tints.get(servo, 0) == level:
                continue
            self._tints[servo] = level
            for handle, own in parts:
                share = level / 10
                red, green, blue = (a * (1 - share) + b * share for a, b in zip(own, (0.9, 0.1, 0.08), strict=True))
                handle.color = _bytes((red, green, blue))

    def show_apart(self, positions: Mapping[str, float], others: Mapping[str, float]) -> None:
        """Show the parts that are elsewhere than those of another body: two surfaces in one place darken each other."""
        apart = {
            servo
            for servo, sliding in self._sliding.items()
            if abs(positions.get(servo, math.nan) - others.get(servo, math.nan)) > _APART[sliding]
        }
        for handle, leaders in self._led:
            if handle.visible != (shown := not leaders.isdisjoint(apart)):
                handle.visible = shown


def _leaders(tree: Tree, link: str, of_link: Mapping[str, str]) -> Iterator[str]:
    """The servos between the base and a link."""
    at = tree.links.index(link)
    while at >= 0:
        if tree.links[at] in of_link:
            yield of_link[tree.links[at]]
        at = int(tree.parent[at])


def _mesh(shape: Shape) -> tuple[FloatArray, IntArray]:
    """Corners (n, 3), m, in the link frame, and triangles (m, 3) of a shape."""
    import trimesh

    if shape.kind == "box":
        mesh: Any = trimesh.creation.box(shape.size)
    elif shape.kind == "cylinder":
        mesh = trimesh.creation.cylinder(radius=shape.size[0], height=shape.size[1], sections=24)
    elif shape.kind == "capsule":
        mesh = trimesh.creation.capsule(radius=shape.size[0], height=shape.size[1], count=(24, 24))
    elif shape.kind == "sphere":
        mesh = trimesh.creation.icosphere(subdivisions=2, radius=shape.size[0])
    else:
        assert shape.file is not None  # `read_shapes` has seen to it
        read = read_mesh(shape.file)
        return (read.corners * shape.size) @ shape.turn.T + shape.place, read.triangles
    return np.asarray(mesh.vertices) @ shape.turn.T + shape.place, np.asarray(mesh.faces)


def _bytes(colour: tuple[float, float, float]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in colour)
    return red, green, blue


def centre_of_mass(tree: Tree, joints: Mapping[str, float]) -> FloatArray:
    """Where the mass of the whole robot is, (3,), m, in the base link's frame."""
    position = tree.pose(joints)[None]
    centre: FloatArray = posed(tree, position).centre[0]
    return centre
