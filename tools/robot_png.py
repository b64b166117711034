"""A robot drawn for the pictures of docs/: the shapes of its URDF in parallel projection."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import Shape
from axbridge.rotations import LinkPose, matrix

_ROUND = 20  # faces around a cylinder or a sphere
_COLOUR = (0.62, 0.69, 0.78)  # red, green, blue of a shape without a colour
_DARKEST = 0.16  # of what is black, so that its faces differ
_LIGHT = np.array([0.35, -0.5, 0.79])  # where it comes from
_SHADE = 0.45  # of the darkest face
_AZIMUTH, _ELEVATION = math.radians(-50), math.radians(18)  # of who looks, from the front on the robot's right
_TILE = 0.05  # m, of the floor
_MARGIN = 0.06  # of the largest extent

_Colour = tuple[float, float, float]

_BOX = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]


def draw_robot(
    axes: Any,
    shapes: Sequence[Shape],
    poses: Mapping[str, LinkPose],
    window: tuple[float, float, float, float],
    *,
    floor: bool = False,
) -> None:
    """Draw a robot as it stands, in its own colours.

    Meshes are not drawn. The ends of a capsule are flat.

    Args:
        axes: Matplotlib's.
        shapes: What the links look like.
        poses: Where the frame of each link is, by its name.
        window: Left, right, lower and upper edge of the picture, m; see `extent`.
        floor: Draw tiles of 5 cm at height 0.
    """
    from matplotlib.collections import LineCollection, PolyCollection

    right, up, towards = _view()
    faces = _faces(shapes, poses)
    if floor and faces:
        tiles = _tiles(np.concatenate([corners for corners, _ in faces]), right, up)
        axes.add_collection(LineCollection(tiles, colors="#c3cedb", linewidths=0.7, zorder=0))
    faces.sort(key=lambda face: float((face[0] @ towards).mean()))
    flat = [np.stack([corners @ right, corners @ up], axis=1) for corners, _ in faces]
    colours = [_shaded(corners, colour) for corners, colour in faces]
    axes.add_collection(PolyCollection(flat, facecolors=colours, edgecolors="#2f3d4d", linewidths=0.3, zorder=1))
    axes.set_xlim(*window[:2])
    axes.set_ylim(*window[2:])
    axes.set_aspect("equal")
    axes.axis("off")


def extent(
    shapes: Sequence[Shape], moments: Sequence[Mapping[str, LinkPose]], *, floor: bool = False
) -> tuple[float, float, float, float]:
    """A window that a robot fits into at all these moments: left, right, lower and upper edge, m.

    Args:
        shapes: What the links look like.
        moments: Where the frame of each link is, by its name.
        floor: With the tiles below it.
    """
    right, up, _ = _view()
    spots = []
    for poses in moments:
        corners = np.array([corner for face, _ in _faces(shapes, poses) for corner in face])
        if len(corners):
            spots.append(np.stack([corners @ right, corners @ up], axis=1))
            spots += _tiles(corners, right, up) if floor else []
    points = np.concatenate(spots) if spots else np.array([[-0.1, -0.1], [0.1, 0.1]])
    (left, lower), (rightmost, upper) = points.min(axis=0), points.max(axis=0)
    margin = _MARGIN * max(rightmost - left, upper - lower)
    return float(left - margin), float(rightmost + margin), float(lower - margin), float(upper + margin)


def _view() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Unit vectors to the right and up in the picture, and towards who looks."""
    towards = np.array(
        [
            math.cos(_ELEVATION) * math.cos(_AZIMUTH),
            math.cos(_ELEVATION) * math.sin(_AZIMUTH),
            math.sin(_ELEVATION),
        ]
    )
    right = np.array([-math.sin(_AZIMUTH), math.cos(_AZIMUTH), 0.0])
    return right, np.cross(towards, right), towards


def _faces(shapes: Sequence[Shape], poses: Mapping[str, LinkPose]) -> list[tuple[FloatArray, _Colour]]:
    """Corners (n, 3) in the world, m, of every face that is there to be seen, and its colour."""
    faces = []
    for shape in shapes:
        if shape.kind == "mesh" or shape.link not in poses:
            continue
        place, orientation = poses[shape.link]
        turn = matrix(orientation)
        for corners in _solid(shape):
            inside = corners @ shape.turn.T + shape.place
            faces.append((inside @ turn.T + np.array(place), shape.colour or _COLOUR))
    return faces


def _solid(shape: Shape) -> list[FloatArray]:
    """Faces of a shape around its own centre."""
    if shape.kind == "box":
        half = np.array(shape.size) / 2
        corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
        return [corners[list(face)] for face in _BOX]
    around = np.linspace(0, math.tau, _ROUND + 1)
    circle = np.stack([np.cos(around), np.sin(around), np.zeros_like(around)], axis=1)
    if shape.kind in {"cylinder", "capsule"}:
        radius, length = shape.size
        top = circle * radius + [0, 0, length / 2]
        return [*_band(circle * radius - [0, 0, length / 2], top), top[:-1], (top - [0, 0, length])[-2::-1]]
    heights = np.linspace(-math.pi / 2, math.pi / 2, _ROUND // 2 + 1)
    rings = [(circle * math.cos(angle) + [0, 0, math.sin(angle)]) * shape.size[0] for angle in heights]
    return [face for below, above in itertools.pairwise(rings) for face in _band(below, above)]


def _band(below: FloatArray, above: FloatArray) -> list[FloatArray]:
    """The faces between two rings of points."""
    return [
        np.array([below[index], below[index + 1], above[index + 1], above[index]]) for index in range(len(below) - 1)
    ]


def _shaded(corners: FloatArray, colour: _Colour) -> _Colour:
    """The colour of a face: lighter where it looks up and to the light."""
    across = np.cross(corners[1] - corners[0], corners[2] - corners[1])
    size = float(np.linalg.norm(across))
    facing = abs(float(across @ _LIGHT)) / size if size > 0 else 0.0
    share = _SHADE + (1 - _SHADE) * facing
    red, green, blue = (min(1.0, max(part, _DARKEST) * share * 1.25) for part in colour)
    return red, green, blue


def _tiles(points: FloatArray, right: FloatArray, up: FloatArray) -> list[FloatArray]:
    """Lines of the floor below these points (n, 3) and a tile beyond them."""
    first = np.floor(points[:, :2].min(axis=0) / _TILE - 1) * _TILE
    last = np.ceil(points[:, :2].max(axis=0) / _TILE + 1) * _TILE
    ends = [([x, first[1], 0], [x, last[1], 0]) for x in np.arange(first[0], last[0] + 1e-9, _TILE)]
    ends += [([first[0], y, 0], [last[0], y, 0]) for y in np.arange(first[1], last[1] + 1e-9, _TILE)]
    return [np.array([[np.dot(point, right), np.dot(point, up)] for point in line]) for line in ends]
