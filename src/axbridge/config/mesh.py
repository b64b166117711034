"""Meshes of a URDF, read whole before an engine sees them: STL, OBJ and Collada.

Engines read meshes in C and C++, and trust them: Bullet ends Python at a Collada file without geometry. So they get
what was understood here, in a file of our own, and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.errors import RigError
from axbridge.file_reading import reading, regular

_LARGEST = 2_000_000  # triangles: more than any robot has, and what Collada's copies of copies would make
_AGAIN = "export the mesh again, as STL or OBJ"
_STL_HEAD = 84  # bytes: a free text, and the number of triangles
_STL = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("colour", "<u2")])
_VERTEX = re.compile(rb"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)")


@dataclass(frozen=True)
class Mesh:
    """Triangles.

    Attributes:
        corners: (n, 3), in the file's unit, of Collada m.
        parts: Corners of each triangle, (m, 3): the objects of an OBJ file one by one, of each of which Bullet makes a
            convex body.
    """

    corners: FloatArray
    parts: tuple[IntArray, ...]

    @property
    def triangles(self) -> IntArray:
        """All of them, (m, 3)."""
        return np.concatenate(self.parts)

    def file(self) -> tuple[str, bytes]:
        """Ending and content of a file that says this: STL, or OBJ where there are several parts."""
        if len(self.parts) == 1:
            triangles = np.zeros(len(self.triangles), _STL)
            triangles["corners"] = self.corners[self.triangles]
            return ".stl", bytes(_STL_HEAD - 4) + len(triangles).to_bytes(4, "little") + triangles.tobytes()
        lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in self.corners.tolist()]
        for number, part in enumerate(self.parts):
            lines += [f"o part{number}", *(f"f {a} {b} {c}" for a, b, c in (part + 1).tolist())]
        return ".obj", "\n".join(lines).encode()


def read_mesh(path: Path) -> Mesh:
    """Read a mesh: ``.stl`` (binary or text), ``.obj`` or ``.dae``.

    Raises:
        RigError: another kind, unreadable, or no triangles in it.
    """
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise RigError(path, "", "no such kind of mesh is known", f"give {', '.join(_READERS)}")
    with reading(partial(RigError, path, ""), _AGAIN):
        mesh = read(regular(path).read_bytes())
        wrong = (
            "has no triangles"
            if not len(mesh.triangles)
            else "has a corner that is no finite number"
            if not np.isfinite(mesh.corners).all()
            else "has a triangle of corners that are not there"
            if mesh.triangles.min() < 0 or mesh.triangles.max() >= len(mesh.corners)
            else ""
        )
    if wrong:
        raise RigError(path, "", wrong, _AGAIN)
    return mesh


def _stl(data: bytes) -> Mesh:
    count = int.from_bytes(data[_STL_HEAD - 4 : _STL_HEAD], "little")
    if len(data) >= _STL_HEAD + count * _STL.itemsize:  # a text has no small number there
        corners = np.frombuffer(data, _STL, count, _STL_HEAD)["corners"].reshape(-1, 3).astype(np.float64)
    elif data.lstrip()[:5].lower() == b"solid":
        corners = np.array([[float(part) for part in found] for found in _VERTEX.findall(data)]).reshape(-1, 3)
    else:
        raise ValueError("it is cut off, or no STL")
    return _joined(corners)


def _joined(corners: FloatArray) -> Mesh:
    """A mesh of the corners of its triangles, three after three, (3 m, 3); those in one place become one."""
    places, index = np.unique(corners, axis=0, return_inverse=True)
    return Mesh(places, (index.reshape(-1, 3),))


def _obj(data: bytes) -> Mesh:
    corners: list[tuple[float, ...]] = []
    parts: list[list[tuple[int, int, int]]] = [[]]
    for line in data.decode("utf-8", "replace").replace("\\\n", " ").splitlines():
        kind, _, rest = line.strip().partition(" ")
        if kind == "v":
            x, y, z = rest.split()[:3]
            corners.append((float(x), float(y), float(z)))
        elif kind == "f":
            numbers = [int(part.split("/")[0]) for part in rest.split()]
            first, *others = (number - 1 if number > 0 else len(corners) + number for number in numbers)
            parts[-1] += [(first, a, b) for a, b in pairwise(others)]
        elif kind in {"o", "g"} and parts[-1]:
            parts.append([])
    shapes = tuple(np.array(part, dtype=np.int64).reshape(-1, 3) for part in parts if part or len(parts) == 1)
    return Mesh(np.array(corners, dtype=np.float64).reshape(-1, 3), shapes)


def _collada(data: bytes) -> Mesh:
    root = ET.fromstring(data)  # noqa: S314 - the user's own file; entities are not resolved from outside
    shapes = {shape.get("id", ""): _geometry(shape) for shape in root.iterfind("{*}library_geometries/{*}geometry")}
    unit = root.find("{*}asset/{*}unit")
    # Which axis is up it says, too; readers of URDFs take no notice.
    frame = _scaled([float(unit.get("meter", "1")) if unit is not None else 1.0] * 3)
    placed = [
        (shapes[name], frame @ place)
        for scene in root.iterfind("{*}library_visual_scenes/{*}visual_scene")
        for name, place in _instances(scene, np.eye(4))
    ] or [(shape, frame) for shape in shapes.values()]
    if sum(len(corners) for corners, _ in placed) > 3 * _LARGEST:
        raise ValueError(f"more than {_LARGEST} triangles")
    corners = [of @ place[:3, :3].T + place[:3, 3] for of, place in placed]
    return _joined(np.concatenate([np.empty((0, 3)), *corners]))


def _instances(node: ET.Element, place: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    """Geometries below a node of a Collada scene, by name, and where each is, (4, 4)."""
    for part in node:
        kind = part.tag.rpartition("}")[2]
        if kind in _MOVES:
            place = place @ _MOVES[kind](np.array([float(number) for number in (part.text or "").split()]))
        elif kind == "instance_geometry":
            yield part.get("url", "").removeprefix("#"), place
        elif kind == "node":
            yield from _instances(part, place)


def _turned(numbers: FloatArray) -> FloatArray:
    """About an axis by degrees, as a matrix."""
    x, y, z = numbers[:3] / np.linalg.norm(numbers[:3])
    angle = math.radians(numbers[3])
    across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    matrix = np.eye(4)
    matrix[:3, :3] += math.sin(angle) * across + (1 - math.cos(angle)) * across @ across
    return matrix


def _scaled(numbers: Sequence[float] | FloatArray) -> FloatArray:
    return np.diag([*numbers, 1.0])


def _moved(numbers: FloatArray) -> FloatArray:
    matrix = np.eye(4)
    matrix[:3, 3] = numbers
    return matrix


_MOVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "matrix": lambda numbers: numbers.reshape(4, 4),
    "rotate": _turned,
    "scale": _scaled,
    "translate": _moved,
}


def _geometry(shape: ET.Element) -> FloatArray:
    """The corners of a Collada geometry's triangles, three after three, (3 m, 3)."""
    points = {}
    for source in shape.iterfind("{*}mesh/{*}source"):
        numbers = source.findtext("{*}float_array")
        accessor = source.find("{*}technique_common/{*}accessor")
        if numbers is not None and accessor is not None and accessor.get("stride", "1") == "3":
            points[source.get("id", "")] = np.array(numbers.split(), dtype=np.float64).reshape(-1, 3)
    for vertices in shape.iterfind("{*}mesh/{*}vertices"):
        for one in vertices.iterfind("{*}input"):
            if one.get("semantic") == "POSITION":
                points[vertices.get("id", "")] = points[one.get("source", "").removeprefix("#")]
    found = [np.empty((0, 3))]
    for kind in ("triangles", "polylist", "polygons"):
        for faces in shape.iterfind(f"{{*}}mesh/{{*}}{kind}"):
            inputs = {one.get("semantic"): one for one in faces.iterfind("{*}input")}
            places = [int(one.get("offset", "0")) for one in faces.iterfind("{*}input")]
            mine = int(inputs["VERTEX"].get("offset", "0"))
            runs = [np.array((p.text or "").split(), dtype=np.int64) for p in faces.iterfind("{*}p")]
            runs = [run.reshape(-1, max(places) + 1)[:, mine] for run in runs]
            corners = points[inputs["VERTEX"].get("source", "").removeprefix("#")]
            if kind == "polylist":
                ends = np.cumsum(np.array(faces.findtext("{*}vcount", "").split(), dtype=np.int64))
                runs = [part for run in runs for part in np.split(run, ends[:-1])]
            found += [corners[run.reshape(-1, 3) if kind == "triangles" else _fan(run)].reshape(-1, 3) for run in runs]
    return np.concatenate(found)


def _fan(polygon: IntArray) -> IntArray:
    """Triangles of a convex polygon, (m, 3)."""
    return np.stack([np.full(len(polygon) - 2, polygon[0]), polygon[1:-1], polygon[2:]], axis=1)


_READERS: dict[str, Callable[[bytes], Mesh]] = {".stl": _stl, ".obj": _obj, ".dae": _collada}
