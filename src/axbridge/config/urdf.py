"""Read and check a URDF: the tree of links and joints for the dynamics, shapes and meshes.

Engines read the same files in C and C++ without checks. So links are checked here first, and engines get meshes (STL
and OBJ) as files that are written from the checked data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as ET

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.errors import RigError, RigWarning, listed, plural, require
from axbridge.file_reading import reading, regular
from axbridge.rotations import matrix_of_roll_pitch_yaw

FIXED, TURNS, SLIDES = 0, 1, 2  # kinds of joints in `Tree.kind`

# inertia of links without mass, at crossing axes or attached frames: Webots' dummy, a 1 mm sphere of water
DUMMY_MASS = 4.2e-6  # kg
DUMMY_INERTIA = 1.7e-12  # kg·m²
_ROUNDED = 0.01  # relative tolerance for rounded inertias
_KINDS = {"fixed": FIXED, "revolute": TURNS, "continuous": TURNS, "prismatic": SLIDES}
_FRICTION = 0.5  # coefficient of a link without <contact>
_CORRECT = "correct the URDF"
_LONGEST_LINK = 5.0  # m; longer meshes are taken for millimetres
_LARGEST_GYRATION = 20.0  # m; a link with a larger radius of gyration is a mistake in units


@dataclass(frozen=True)
class JointFacts:
    """One movable joint."""

    name: str
    linear: bool  # whether it slides (m) instead of turning (rad)
    low: float  # lower stop of the URDF, rad or m; -inf for none
    high: float  # upper stop
    damping: float = 0.0  # from the URDF's `<dynamics>`, N·m·s/rad or N·s/m
    friction: float = 0.0  # dry friction from `<dynamics>`, N·m or N
    mimics: bool = False  # whether it follows another joint, so that it has no motor


@dataclass(frozen=True)
class Shape:
    """A collision or visual shape of a link."""

    link: str
    kind: str  # `box`, `cylinder`, `capsule`, `sphere` or `mesh`; cylinder and capsule lie along z
    # edges of a box; radius and length of a cylinder; of a capsule, length between its balls' centres; radius of a
    # sphere, m; scale of a mesh, without unit
    size: tuple[float, ...]
    file: Path | None  # mesh file
    place: FloatArray  # centre in the link frame, (3,), m
    turn: FloatArray  # rotation in the link frame, (3, 3)
    colour: tuple[float, float, float] | None  # red, green, blue, 0..1; None if the file has none
    friction: float  # `<contact><lateral_friction>` of a collision shape: coefficient against a surface with 1


@dataclass(frozen=True, eq=False)  # compared by identity, so that it can be a key of a cache
class Tree:
    """Links, ordered so that every parent comes before its children; link 0 is the base."""

    joints: tuple[JointFacts, ...]  # movable joints, in the order of the links they move
    links: tuple[str, ...]
    parent: IntArray  # index of each link's parent, (links,); -1 for the base
    kind: IntArray  # kind of each link's joint: FIXED, TURNS or SLIDES
    dof: IntArray  # index of each link's joint in `joints`, -1 for a fixed one
    place: FloatArray  # joint frame in the parent link: position, (links, 3), m
    turn: FloatArray  # joint frame in the parent link: rotation, (links, 3, 3)
    axis: FloatArray  # in the joint frame, (links, 3), unit length
    mass: FloatArray  # kg
    centre: FloatArray  # centre of mass in the link frame, (links, 3), m
    inertia: FloatArray  # about the centre of mass, in the link frame, (links, 3, 3), kg·m²
    dummies: tuple[str, ...] = ()  # links without <inertial>, which got the dummy's
    weightless: tuple[str, ...] = ()  # joints that move only such links
    fixed: tuple[str, ...] = ()  # names of the fixed joints

    @property
    def names(self) -> list[str]:
        """Names of the movable joints."""
        return [joint.name for joint in self.joints]

    @property
    def moved(self) -> dict[str, int]:
        """Index of the link that each joint moves."""
        return {self.joints[dof].name: link for link, dof in enumerate(self.dof.tolist()) if dof >= 0}

    def pose(self, positions: Mapping[str, float]) -> FloatArray:
        """Return the positions of all joints, (joints,), rad or m; joints that are not given are at 0."""
        return np.array([positions.get(name, 0.0) for name in self.names])


def check_start(path: Path, key: str, position: float, stops: tuple[float, float]) -> None:
    """Refuse a joint that starts outside its stops, rad or m."""
    low, high = stops
    if not low - 1e-9 <= position <= high + 1e-9:
        why = f"it starts at {position:g}, outside its stops {low:g}..{high:g}"
        raise RigError(path, key, why, f"write position = {min(max(position, low), high):g} in the rig, in radians")


def read_tree(path: Path, *, fixed_base: bool, kinematic: Collection[str] = (), text: str | None = None) -> Tree:
    """Read and check a URDF."""
    with reading(partial(RigError, path, ""), _CORRECT):
        return _tree(path, root_of(path, text), kinematic, fixed_base=fixed_base)


def root_of(path: Path, text: str | None = None) -> ET.Element:
    """Return the root element of a URDF: of `text`, else of the file; raise RigError if it is no XML."""
    try:
        # the user's own file; ElementTree resolves no external entities
        return ET.fromstring(regular(path).read_text("utf-8-sig") if text is None else text)  # noqa: S314
    except ET.ParseError as failure:
        raise RigError(path, "", f"not a readable URDF: {failure}", "give a valid URDF file") from failure


def _tree(path: Path, root: ET.Element, kinematic: Collection[str], *, fixed_base: bool) -> Tree:
    for tag in ("link", "joint"):
        names = sorted(element.get("name", "") for element in root.findall(tag))
        if twice := sorted({name for name, after in pairwise(names) if name == after}):
            raise RigError(path, listed(twice, 10), f"several {tag}s have this name", "rename one")
    links = {link.get("name", ""): link for link in root.findall("link")}
    moving: dict[str, ET.Element] = {}
    below: dict[str, list[str]] = {}
    for joint in root.findall("joint"):
        above, child = (_end(path, joint, tag, links) for tag in ("parent", "child"))
        if child in moving:
            raise RigError(path, child, "this link has two parents", "a URDF is a tree: give it one joint")
        moving[child] = joint
        below.setdefault(above, []).append(child)
    bases = [name for name in links if name not in moving]
    if not bases:
        why = "its joints form a loop" if links else "it has no links"
        raise RigError(path, "", why, "a URDF is a tree of links, which begins with one that has no parent")
    if len(bases) != 1:
        raise RigError(path, "", f"{len(bases)} links have no parent: {listed(bases, 10)}", "join them into one tree")
    order, parent = [bases[0]], [-1]
    for index, name in enumerate(order):  # the loop appends to `order`
        for child in below.get(name, ()):
            order.append(child)
            parent.append(index)
    if len(order) != len(links):
        alone = listed(sorted(links.keys() - set(order)), 10)
        raise RigError(path, alone, "not connected to the base", "join them into one tree")
    n = len(order)
    kind, dof = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    place, turn, axis = np.zeros((n, 3)), np.tile(np.eye(3), (n, 1, 1)), np.tile([1.0, 0.0, 0.0], (n, 1))
    mass, centre, inertia = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3, 3))
    joints: list[JointFacts] = []
    dummies, weightless = _dummies(links, order, parent, moving, kinematic)
    frames, mistakes = set(dummies), list[RigError]()
    heavy = [name for index, name in enumerate(order) if name not in frames and (index or not fixed_base)]
    whole = "inertial/mass", "inertial/inertia"
    if bare := [name for name in heavy if any(links[name].find(part) is None for part in whole)]:
        named = [joint.get("name", "") for joint in moving.values()]
        if unknown := [joint for joint in kinematic if joint not in named]:  # unknown joints are reported first
            raise RigError(path, listed(unknown, 10), "no joint has this name", f"its joints: {', '.join(named)}")
        hint = "add <inertial> with <mass> and <inertia>: without it PyBullet takes 1 kg and 1 kg·m²"
        raise RigError(path, ", ".join(bare), "no mass or inertia", hint)
    for index, name in enumerate(order):
        with _collected(mistakes):
            if name in frames:
                mass[index], inertia[index] = DUMMY_MASS, np.eye(3) * DUMMY_INERTIA
            elif index or not fixed_base:
                mass[index], centre[index], inertia[index] = _inertial(path, name, links[name])
        if index:
            with _collected(mistakes):
                element = moving[name]
                place[index], turn[index] = _frame(path, element.get("name", "?"), element.find("origin"))
                kind[index], facts = _joint(path, element)
                axis[index] = _axis(path, element)
                if facts is not None:
                    dof[index] = len(joints)
                    joints.append(facts)
    if mistakes:
        raise RigError.of(path, mistakes)
    fixed = tuple(joint.get("name", "?") for joint in moving.values() if joint.get("type") == "fixed")
    return Tree(
        tuple(joints), tuple(order), np.array(parent, dtype=np.int64), kind, dof, place, turn, axis, mass, centre,
        inertia, dummies, weightless, fixed,
    )  # fmt: skip


@contextmanager
def _collected(mistakes: list[RigError]) -> Iterator[None]:
    """Append a mistake to `mistakes`, so that the other links are checked, too."""
    try:
        yield
    except RigError as mistake:
        mistakes.append(mistake)


def read_shapes(path: Path, element: Literal["collision", "visual"], text: str | None = None) -> tuple[Shape, ...]:
    """Return the shapes of a URDF that `read_tree` has accepted; missing visual meshes are left out."""
    with reading(partial(RigError, path, ""), _CORRECT):
        return tuple(_shapes(path, root_of(path, text), element))


def missing_pictures(path: Path, text: str | None = None) -> list[str]:
    """Return the visual meshes of a URDF that are not there, each with its link."""
    meshes = ((link, mesh) for link in root_of(path, text).findall("link") for mesh in link.findall("visual/*/mesh"))
    return [f"{link.get('name')} ({mesh.get('filename')})" for link, mesh in meshes if _mesh_file(path, mesh) is None]


def _shapes(path: Path, root: ET.Element, element: Literal["collision", "visual"]) -> Iterator[Shape]:
    seen = element == "visual"
    named = {material.get("name"): _colour(path, material) for material in root.findall("material") if seen}
    mistakes: list[RigError] = []
    for link in root.findall("link"):
        name = link.get("name", "")
        for shape in link.findall(element):
            form, material = shape.find("geometry/*"), shape.find("material")
            with _collected(mistakes):
                if form is None or form.tag not in _SIZES:
                    why = f"its <{element}> has no shape, or one of a kind that is not known"
                    raise RigError(path, name, why, f"use one of {', '.join(_SIZES)}")
                file = _mesh_file(path, form) if form.tag == "mesh" else None
                if form.tag == "mesh" and file is None:
                    if seen:
                        continue
                    why = f"the mesh {form.get('filename')!r} of its <collision> is not there"
                    raise RigError(path, name, why, "put the file there, or use a box, cylinder or sphere")
                colour = (
                    None if material is None or not seen else _colour(path, material) or named.get(material.get("name"))
                )
                contact = None if seen else link.find("contact/lateral_friction")
                friction = _FRICTION if contact is None else _number(path, name, contact.get("value", ""))
                place, turn = _frame(path, name, shape.find("origin"))
                yield Shape(name, form.tag, _size(path, name, form), file, place, turn, colour, friction)
    if mistakes:
        raise RigError.of(path, mistakes)


_SIZES = {  # size attributes, and how many numbers each has
    "box": {"size": 3},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
    "sphere": {"radius": 1},
    "mesh": {"scale": 3},
}


def _size(path: Path, name: str, form: ET.Element) -> tuple[float, ...]:
    texts = ((form.get(key, "1 1 1" if key == "scale" else ""), count) for key, count in _SIZES[form.tag].items())
    return tuple(figure for text, count in texts for figure in _numbers(path, name, text, count).tolist())


def _colour(path: Path, material: ET.Element) -> tuple[float, float, float] | None:
    colour = material.find("color")
    if colour is None:
        return None
    red, green, blue, _ = _numbers(path, material.get("name", "?"), colour.get("rgba", ""), 4).tolist()
    return red, green, blue


def with_checked_meshes(
    path: Path, text: str | None, keep: Callable[[Mesh], Path] | None = None, *, pictures: bool = True
) -> str | None:
    """Return the text of a URDF for an engine, with checked meshes and without missing visual ones."""
    with reading(partial(RigError, path, ""), _CORRECT):
        root = root_of(path, text)
        list(_shapes(path, root, "collision"))  # raises the error of a wrong shape
        soft = root.findall("deformable") + root.findall("reduced_deformable")  # Bullet's extensions, which have meshes
        for body in soft:
            root.remove(body)
        changed, mistakes = bool(soft), list[RigError]()
        for link in root.iterfind("link"):
            for kind in ("collision", "visual"):
                for element in link.findall(kind):
                    files = [(mesh, _mesh_file(path, mesh)) for mesh in element.iter("mesh")]
                    if kind == "visual" and files and not (pictures and all(file for _, file in files)):
                        link.remove(element)
                        changed = True
                        continue
                    for mesh, file in files:
                        assert file is not None  # checked by `_shapes`
                        with _collected(mistakes):
                            understood = read_mesh(file)
                            _check_unit(path, link.get("name", ""), mesh, understood)
                            if keep is not None or "://" in mesh.get("filename", ""):
                                mesh.set("filename", str(file.resolve() if keep is None else keep(understood)))
                                changed = True
        if mistakes:
            raise RigError.of(path, mistakes)
        return ET.tostring(root, encoding="unicode") if changed else None


def _check_unit(path: Path, name: str, mesh: ET.Element, understood: Mesh) -> None:
    """Refuse a mesh without a scale that is longer than any link: its unit is probably the millimetre."""
    longest = float(np.ptp(understood.corners, axis=0).max())
    if longest > _LONGEST_LINK and mesh.get("scale") is None:
        why = f"its mesh {mesh.get('filename')!r} is {longest:.3g} m long: its unit is the millimetre"
        raise RigError(path, name, why, 'write scale="0.001 0.001 0.001" in <mesh>, or scale="1 1 1" if it is so long')


def _mesh_file(path: Path, mesh: ET.Element) -> Path | None:
    """Find a mesh beside the URDF, or in its package in a parent folder; return None if it is missing."""
    name = mesh.get("filename", "").removeprefix("file://")
    places = [path.parent / name]
    if name.startswith("package://"):
        inside = name.removeprefix("package://")
        names = [inside, inside.partition("/")[2]]
        places = [folder / ending for folder in path.resolve().parents for ending in names]
    return next((place for place in places if place.is_file()), None)


def _dummies(
    links: Mapping[str, ET.Element],
    order: Sequence[str],
    parent: Sequence[int],
    moving: Mapping[str, ET.Element],
    kinematic: Collection[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the links that need no `<inertial>`, and the joints that move only such links.

    Such a link is fixed to a link with mass (a frame), or is moved by a joint in `kinematic`.
    """
    bare = {name for name in order[1:] if links[name].find("inertial") is None}
    carrier = {order[0]: order[0]}  # link -> the link of its rigid group that is moved by a joint
    for index, name in enumerate(order[1:], start=1):
        fixed = moving[name].get("type") == "fixed"
        carrier[name] = carrier[order[parent[index]]] if fixed else name
    heavy = {order[0]}  # groups with mass in themselves or in the links they carry
    for index in range(len(order) - 1, 0, -1):
        name = order[index]
        if name not in bare:
            heavy.add(carrier[name])
        if carrier[name] == name and name in heavy:
            heavy.add(carrier[order[parent[index]]])
    light = {name: moving[name].get("name", "?") for name in order[1:] if carrier[name] == name and name not in heavy}
    allowed = tuple(name for name in order[1:] if name in bare and light.get(carrier[name], "") in {"", *kinematic})
    return allowed, tuple(joint for joint in light.values() if joint in kinematic)


def _end(path: Path, joint: ET.Element, tag: str, links: Collection[str]) -> str:
    element = joint.find(tag)
    name = element.get("link", "") if element is not None else ""
    if name not in links:
        raise RigError(path, joint.get("name", "?"), f"its {tag} link {name!r} is not there", "name a link")
    return name


def _joint(path: Path, element: ET.Element) -> tuple[int, JointFacts | None]:
    name, kind = element.get("name", "?"), element.get("type", "")
    if kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise RigError(path, name, f"joints of type {kind!r} are not supported", f"use one of {known}")
    if kind == "fixed":
        return 0, None
    low, high = -math.inf, math.inf
    limit = element.find("limit")
    if limit is None and kind != "continuous":  # PyBullet's own message for it is unclear
        hint = "" if kind == "prismatic" else ', or type="continuous"'
        raise RigError(path, name, f"a {kind} joint without <limit>", f"add <limit lower=… upper=…/>{hint}")
    if limit is not None and kind != "continuous":
        low, high = (_number(path, name, limit.get(key, "0")) for key in ("lower", "upper"))
        if low > high:
            raise RigError(path, name, f"its lower limit {low:g} is above the upper {high:g}", "exchange them")
        if low == high:
            why, other = f"both of its limits are at {low:g}, so it cannot move", "fixed" if low else "continuous"
            raise RigError(path, name, why, f'write where its travel ends, or type="{other}"')
    leader = element.find("mimic")
    if leader is not None:
        why = f"{path}: joint {name!r} mimics {leader.get('joint')!r}, which is not simulated"
        own = "it needs a servo of its own, or an ideal drive coupled with the other"
        warnings.warn(f"{why}: {own}", RigWarning, stacklevel=2)
    dynamics = element.find("dynamics")
    damping, friction = (
        _number(path, name, dynamics.get(key, "0")) if dynamics is not None else 0.0 for key in ("damping", "friction")
    )
    if min(damping, friction) < 0:
        raise RigError(path, name, "its <dynamics> has a negative figure", "no joint gains energy: make it positive")
    return _KINDS[kind], JointFacts(name, kind == "prismatic", low, high, damping, friction, leader is not None)


def _axis(path: Path, element: ET.Element) -> FloatArray:
    tag, name = element.find("axis"), element.get("name", "?")
    axis = _numbers(path, name, tag.get("xyz", "0 0 0") if tag is not None else "1 0 0", 3)
    length = float(np.linalg.norm(axis))
    if not length > 0:
        raise RigError(path, name, "its axis has no length", 'write axis xyz="0 0 1"')
    return axis / length


def _inertial(path: Path, name: str, link: ET.Element) -> tuple[float, FloatArray, FloatArray]:
    weight, tensor = link.find("inertial/mass"), link.find("inertial/inertia")
    assert weight is not None  # checked by `_tree`
    assert tensor is not None
    mass = _number(path, name, weight.get("value", ""))
    keys = ("ixx", "ixy", "ixz"), ("ixy", "iyy", "iyz"), ("ixz", "iyz", "izz")
    matrix = np.array([[_number(path, name, tensor.get(key, "0")) for key in row] for row in keys])
    moments = np.linalg.eigvalsh(matrix)
    if not (mass > 0 and moments[0] > 0):
        message = f"mass {mass:g} kg and principal inertia {', '.join(f'{m:g}' for m in moments)} kg·m²"
        raise RigError(path, name, message, "both must be positive")
    if moments[2] > (moments[0] + moments[1]) * (1 + _ROUNDED):
        message = f"no body has the principal inertia {', '.join(f'{m:g}' for m in moments)} kg·m²"
        raise RigError(path, name, message, "each must be at most the sum of the other two: correct the URDF")
    if (wide := math.sqrt(moments[2] / mass)) > _LARGEST_GYRATION:
        message = f"mass {mass:g} kg and inertia {moments[2]:g} kg·m² are of a body {wide:.0f} m wide"
        raise RigError(path, name, message, "correct its <inertial>: kilograms, metres")
    centre, turn = _frame(path, name, link.find("inertial/origin"))
    return mass, centre, turn @ matrix @ turn.T


def _frame(path: Path, name: str, origin: ET.Element | None) -> tuple[FloatArray, FloatArray]:
    if origin is None:
        return np.zeros(3), np.eye(3)
    turn = matrix_of_roll_pitch_yaw(*_numbers(path, name, origin.get("rpy", "0 0 0"), 3))
    return _numbers(path, name, origin.get("xyz", "0 0 0"), 3), turn


def _numbers(path: Path, name: str, text: str, count: int) -> FloatArray:
    try:
        values = np.array([float(part) for part in text.split()])
    except ValueError:
        values = np.array([math.nan])
    if len(values) != count or not np.isfinite(values).all():
        raise RigError(path, name, f"{text!r} should be {plural(count, 'finite number')}", "correct the URDF")
    return values


def _number(path: Path, name: str, text: str) -> float:
    return float(_numbers(path, name, text, 1)[0])


_MESHES = (".stl", ".obj")
_LARGEST = 2_000_000  # triangles; larger meshes are refused
_LONGEST = 500_000_000  # bytes; the size of so many triangles as text
_AGAIN = "export the mesh again, as STL or OBJ"


@dataclass(frozen=True)
class Mesh:
    """A triangle mesh."""

    corners: FloatArray  # (n, 3), in the file's unit
    # corner indices of each triangle, (m, 3), by object of an OBJ file: Bullet makes a convex body of each object
    parts: tuple[IntArray, ...]

    @property
    def triangles(self) -> IntArray:
        """Corner indices of all triangles, (m, 3)."""
        return np.concatenate(self.parts)

    def file(self) -> bytes:
        """Return the mesh as the content of an OBJ file."""
        lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in self.corners.tolist()]
        for number, part in enumerate(self.parts):
            lines += [f"o part{number}", *(f"f {a} {b} {c}" for a, b, c in (part + 1).tolist())]
        return "\n".join(lines).encode()


def read_mesh(path: Path) -> Mesh:
    """Read a mesh: ``.stl`` (binary or text) or ``.obj``."""
    kind = path.suffix.lower()
    if kind not in _MESHES:
        known = "Collada is not read" if kind == ".dae" else "no such kind of mesh is known"
        raise RigError(path, "", known, "export the mesh as STL or OBJ")
    with reading(partial(RigError, path, ""), _AGAIN):
        data = regular(path).read_bytes()
        if len(data) > _LONGEST:
            raise ValueError(f"more than {_LONGEST} bytes")
        parts = _parsed(data, kind)
        if sum(len(triangles) for _, triangles in parts) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} triangles")
    if not parts:
        raise RigError(path, "", "has no triangles", _AGAIN)
    for corners, triangles in parts:
        if not np.isfinite(corners).all():
            raise RigError(path, "", "has a corner that is no finite number", _AGAIN)
        if triangles.min() < 0 or triangles.max() >= len(corners):
            raise RigError(path, "", "has a triangle of corners that are not there", _AGAIN)
    places, index = np.unique(np.concatenate([corners for corners, _ in parts]), axis=0, return_inverse=True)
    starts = np.cumsum([0, *(len(corners) for corners, _ in parts)])
    at = index.reshape(-1)
    return Mesh(places, tuple(at[triangles + start] for (_, triangles), start in zip(parts, starts, strict=False)))


def _parsed(data: bytes, kind: str) -> list[tuple[FloatArray, IntArray]]:
    """Return corners and triangles of each part in the file's order; trimesh opens no other file."""
    require("reading a mesh", "trimesh")
    import trimesh

    options = {"skip_materials": True, "split_objects": True, "split_groups": True} if kind == ".obj" else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns about a text that is no number
            scene = trimesh.load_scene(BytesIO(data), file_type=kind[1:], process=False, **options)
    except Warning as said:
        raise ValueError(str(said)) from said
    meshes = [mesh for mesh in scene.geometry.values() if isinstance(mesh, trimesh.Trimesh) and len(mesh.faces)]
    shapes = [(np.asarray(mesh.vertices, np.float64), np.asarray(mesh.faces, np.int64)) for mesh in meshes]
    return shapes[::-1] if kind == ".obj" else shapes  # trimesh returns an OBJ's parts in reverse order
