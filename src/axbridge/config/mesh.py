"""Meshes of a URDF, read whole before an engine sees them: STL and OBJ.

Engines read meshes in C and C++, and trust them. So they get what was understood here, in a file of our own, and
nothing else.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.errors import RigError
from axbridge.file_reading import reading, regular

_KINDS = (".stl", ".obj")
_LARGEST = 2_000_000  # triangles: more than any robot has
_LONGEST = 500_000_000  # bytes: so many triangles as text
_AGAIN = "export the mesh again, as STL or OBJ"


@dataclass(frozen=True)
class Mesh:
    """Triangles."""

    corners: FloatArray  # (n, 3), in the file's unit
    # corners of each triangle, (m, 3): the objects of an OBJ file one by one, of each of which Bullet makes a convex
    # body
    parts: tuple[IntArray, ...]

    @property
    def triangles(self) -> IntArray:
        """All of them, (m, 3)."""
        return np.concatenate(self.parts)

    def file(self) -> bytes:
        """Content of an OBJ file that says this."""
        lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in self.corners.tolist()]
        for number, part in enumerate(self.parts):
            lines += [f"o part{number}", *(f"f {a} {b} {c}" for a, b, c in (part + 1).tolist())]
        return "\n".join(lines).encode()


def read_mesh(path: Path) -> Mesh:
    """Read a mesh: ``.stl`` (binary or text) or ``.obj``."""
    kind = path.suffix.lower()
    if kind not in _KINDS:
        known = "Collada is not read" if kind == ".dae" else "no such kind of mesh is known"
        raise RigError(path, "", known, "export the mesh as STL or OBJ")
    with reading(partial(RigError, path, ""), _AGAIN):
        data = regular(path).read_bytes()
        if len(data) > _LONGEST:
            raise ValueError(f"more than {_LONGEST} bytes")
        parts = _parsed(data, kind)
        if sum(len(triangles) for _, triangles in parts) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} triangles")
        wrong = (
            "has no triangles"
            if not parts
            else "has a corner that is no finite number"
            if not all(np.isfinite(corners).all() for corners, _ in parts)
            else "has a triangle of corners that are not there"
            if any(triangles.min() < 0 or triangles.max() >= len(corners) for corners, triangles in parts)
            else ""
        )
    if wrong:
        raise RigError(path, "", wrong, _AGAIN)
    places, index = np.unique(np.concatenate([corners for corners, _ in parts]), axis=0, return_inverse=True)
    starts = np.cumsum([0, *(len(corners) for corners, _ in parts)])
    at = index.reshape(-1)
    return Mesh(places, tuple(at[triangles + start] for (_, triangles), start in zip(parts, starts, strict=False)))


def _parsed(data: bytes, kind: str) -> list[tuple[FloatArray, IntArray]]:
    """Corners and triangles of each part, as trimesh reads them, in the file's order; no other file is opened."""
    import trimesh

    options = {"skip_materials": True, "split_objects": True, "split_groups": True} if kind == ".obj" else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the only word of numpy about a text that is no number
            scene = trimesh.load_scene(BytesIO(data), file_type=kind[1:], process=False, **options)
    except Warning as said:
        raise ValueError(str(said)) from said
    found = [one for one in scene.geometry.values() if isinstance(one, trimesh.Trimesh) and len(one.faces)]
    shapes = [(np.asarray(one.vertices, np.float64), np.asarray(one.faces, np.int64)) for one in found]
    return shapes[::-1] if kind == ".obj" else shapes  # trimesh takes an OBJ's parts from its end
