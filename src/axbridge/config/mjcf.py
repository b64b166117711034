"""Convert a robot from MJCF to URDF: MuJoCo compiles the file, with includes, defaults and classes.

Actuators, and the damping, armature and dry friction of joints are left out, because the servo model has them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import RigError, plural, require
from axbridge.file_reading import refuse_other_kind
from axbridge.rotations import Quaternion, matrix, roll_pitch_yaw

_AGAIN = "give a robot of hinges and slides, each on its own"


class FromMjcf(NamedTuple):
    """The robot of an MJCF file, as files for a rig."""

    urdf: str
    meshes: dict[str, bytes]  # STL files, by their name in the URDF
    joints: tuple[str, ...]  # revolute joints with an actuator; without any actuator, all revolute joints
    free: bool  # whether the base is free
    height: float  # of the base link above the floor, m; 0 for a fixed base
    dropped: tuple[str, ...]  # descriptions of the parts that were left out

    def files(self, folder: Path) -> dict[Path, str | bytes]:
        """Return the content of each file of a rig in this folder, by path."""
        meshes = {folder / name: data for name, data in self.meshes.items()}
        return {folder / f"{folder.name}.urdf": self.urdf, **meshes}


def find_mjcf(name: str) -> Path:
    """Find an MJCF file by path, or by the name of a robot of the package `mujoco-menagerie`.

    Raises:
        RigError: no file and no robot has that name.
    """
    path = Path(name)
    if path.is_file():
        return path
    if find_spec("mujoco_menagerie") is None:
        hint = "give the path of a file; robots by name come with: python -m pip install mujoco-menagerie"
        raise RigError(path, "", "no such file", hint)
    import mujoco_menagerie as menagerie

    try:
        robot = menagerie.get(name)
        return Path(robot.xml(robot.default_model))  # downloaded at the first use
    except menagerie.MenagerieError as failure:
        why = f"no such file, and none from mujoco-menagerie: {failure}"
        raise RigError(path, "", why, "give the path of a file") from failure


def read_mjcf(path: Path) -> FromMjcf:
    """Compile an MJCF file, and convert its robot to a URDF.

    Raises:
        UnsupportedOperation: MuJoCo is not installed.
        RigError: MuJoCo cannot compile it, or a URDF cannot express it: ball joints, tendons, loops.
    """
    require("reading MJCF", "mujoco", "trimesh")
    import mujoco

    refuse_other_kind(path, partial(RigError, path, ""), but="a model of MuJoCo (MJCF)")
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as failure:
        why = " ".join(str(failure).split())  # MuJoCo's message has several lines
        raise RigError(path, "", f"MuJoCo cannot compile it: {why}", "correct the file") from failure
    _refuse(mujoco, model, path)
    roots = sorted({int(model.body_rootid[body]) for body in model.jnt_bodyid})
    if len(roots) != 1:
        names = ", ".join(model.body(body).name for body in roots) or "none"
        raise RigError(path, "", f"{len(roots)} bodies in the world move: {names}", "leave one robot in the file")
    root = roots[0]
    free = any(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE for joint in _joints_of(model, root))
    writer = _Writer(mujoco, model)
    writer.write(root, free=free)
    writer.robot.set("name", model.body(root).name or path.stem)
    ET.indent(writer.robot)
    turning = [name for name, kind in writer.joints.items() if kind == mujoco.mjtJoint.mjJNT_HINGE]
    driving = np.flatnonzero(model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT)
    driven = {model.joint(joint).name for joint in model.actuator_trnid[driving, 0]}
    lossy = {"damping": model.dof_damping, "armature": model.dof_armature, "dry friction": model.dof_frictionloss}
    counts = {what: int(np.count_nonzero(values)) for what, values in lossy.items()}
    dropped = [plural(model.nu, "actuator")] if model.nu else []
    dropped += [f"{plural(count, 'joint')} with {what}" for what, count in counts.items() if count]
    urdf = f"{ET.tostring(writer.robot, encoding='unicode')}\n"
    joints = tuple(name for name in turning if name in driven) or tuple(turning)
    height = _height(mujoco, model, root) if free else 0.0
    return FromMjcf(urdf, writer.meshes, joints, free, height, tuple(dropped))


def _refuse(mujoco: Any, model: Any, path: Path) -> None:
    kinds, joints = mujoco.mjtJoint, [model.joint(j) for j in range(model.njnt)]
    in_tree = [joint for joint in joints if model.body_parentid[model.jnt_bodyid[joint.id]]]
    odd = {
        "ball joint": [joint for joint in joints if model.jnt_type[joint.id] == kinds.mjJNT_BALL],
        "free joint in a tree": [joint for joint in in_tree if model.jnt_type[joint.id] == kinds.mjJNT_FREE],
        "tendon": [model.tendon(k) for k in range(model.ntendon)],
        "equality": [model.equality(k) for k in range(model.neq)],
    }
    for kind, (first, *_) in ((kind, elements) for kind, elements in odd.items() if elements):
        name = first.name or str(first.id)
        raise RigError(path, name, f"it has the {kind} {name!r}, which a rig cannot have", _AGAIN)


def _height(mujoco: Any, model: Any, root: int) -> float:
    """Return the height of the base, m; raised if the robot, with all joints at 0, would start inside the floor."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    height, lowest = float(model.body_pos[root, 2]), 0.0
    for geom in range(model.ngeom):
        if model.body_rootid[model.geom_bodyid[geom]] == root and model.geom_contype[geom]:
            centre, half = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
            up = data.geom_xmat[geom].reshape(3, 3)[2]  # z components of its axes
            lowest = min(lowest, float(data.geom_xpos[geom, 2] + up @ centre - np.abs(up) @ half))
    return math.ceil((height - lowest) * 1e4) / 1e4


def _joints_of(model: Any, body: int) -> range:
    first = int(model.body_jntadr[body])
    return range(first, first + int(model.body_jntnum[body])) if first >= 0 else range(0)


class _Writer:
    """Writes links and joints; a link has its body's frame, moved to the body's last joint."""

    def __init__(self, mujoco: Any, model: Any) -> None:
        self._mujoco, self._model = mujoco, model
        self._names = [model.body(body).name or f"body{body}" for body in range(model.nbody)]
        self.robot = ET.Element("robot")
        self.joints: dict[str, int] = {}  # kind by name
        self.meshes: dict[str, bytes] = {}

    def write(self, root: int, *, free: bool) -> None:
        """Write the robot with this root body."""
        model, shifts = self._model, dict[int, FloatArray]()
        if not free:
            ET.SubElement(self.robot, "link", name="world")
        for body in range(root, model.nbody):
            if model.body_rootid[body] != root:
                continue
            name, parent = self._names[body], int(model.body_parentid[body])
            hinges = [] if free and body == root else list(_joints_of(model, body))
            above, place = (self._names[parent] if parent else "world"), model.body_pos[body] - shifts.get(parent, 0.0)
            shift, turn = np.zeros(3), _xyzw(model.body_quat[body])
            for number, joint in enumerate(hinges):
                link = name if number == len(hinges) - 1 else f"{name}_{number}"
                if link != name:
                    ET.SubElement(self.robot, "link", name=link)
                anchor = model.jnt_pos[joint]
                self._moving(joint, above, link, place + matrix(turn) @ (anchor - shift), turn)
                above, place, turn, shift = link, np.zeros(3), (0.0, 0.0, 0.0, 1.0), anchor.copy()
            if not hinges and (parent or not free):
                self._joint(f"{name}_fixed", "fixed", above, name, place, turn)
            shifts[body] = shift
            self._link(body, name, shift)

    def _moving(self, joint: int, parent: str, child: str, place: FloatArray, turn: Quaternion) -> None:
        model = self._model
        name = model.joint(joint).name or f"joint{joint}"
        self.joints[name] = int(model.jnt_type[joint])
        slides, limited = self.joints[name] == self._mujoco.mjtJoint.mjJNT_SLIDE, bool(model.jnt_limited[joint])
        kind = "prismatic" if slides else "revolute" if limited else "continuous"
        element = self._joint(name, kind, parent, child, place, turn)
        ET.SubElement(element, "axis", xyz=_words(model.jnt_axis[joint]))
        if limited or slides:
            zero = model.qpos0[model.jnt_qposadr[joint]]
            low, high = (model.jnt_range[joint] - zero).tolist() if limited else (-9.0, 9.0)
            ET.SubElement(element, "limit", lower=f"{low:.9g}", upper=f"{high:.9g}", effort="100", velocity="100")

    def _joint(self, name: str, kind: str, parent: str, child: str, place: FloatArray, turn: Quaternion) -> ET.Element:
        element = _placed(self.robot, "joint", place, turn, name=name, type=kind)
        ET.SubElement(element, "parent", link=parent)
        ET.SubElement(element, "child", link=child)
        return element

    def _link(self, body: int, name: str, shift: FloatArray) -> None:
        model = self._model
        link = ET.SubElement(self.robot, "link", name=name)
        if model.body_mass[body] > 0:
            inertial = _placed(link, "inertial", model.body_ipos[body] - shift, _xyzw(model.body_iquat[body]))
            ET.SubElement(inertial, "mass", value=f"{model.body_mass[body]:.9g}")
            x, y, z = (f"{value:.9g}" for value in model.body_inertia[body])
            ET.SubElement(inertial, "inertia", ixx=x, iyy=y, izz=z, ixy="0", ixz="0", iyz="0")
        for geom in np.flatnonzero(model.geom_bodyid == body).tolist():
            if (shape := self._shape(geom)) is not None:
                kind = "collision" if model.geom_contype[geom] or model.geom_conaffinity[geom] else "visual"
                element = _placed(link, kind, model.geom_pos[geom] - shift, _xyzw(model.geom_quat[geom]))
                ET.SubElement(element, "geometry").append(shape)

    def _shape(self, geom: int) -> ET.Element | None:
        import trimesh

        kinds, model = self._mujoco.mjtGeom, self._model
        kind, size = model.geom_type[geom], model.geom_size[geom]
        if kind == kinds.mjGEOM_BOX:
            return ET.Element("box", size=_words(2 * size))
        if kind == kinds.mjGEOM_SPHERE:
            return ET.Element("sphere", radius=f"{size[0]:.9g}")
        if kind in {kinds.mjGEOM_CAPSULE, kinds.mjGEOM_CYLINDER}:
            shape = "capsule" if kind == kinds.mjGEOM_CAPSULE else "cylinder"
            return ET.Element(shape, radius=f"{size[0]:.9g}", length=f"{2 * size[1]:.9g}")
        if kind != kinds.mjGEOM_MESH:
            return None  # a plane, or a shape that URDF lacks
        mesh = int(model.geom_dataid[geom])
        given = model.mesh(mesh).name
        plain = re.sub(r"\W+", "_", given)  # the name may be a path
        name = f"meshes/{plain if plain == given else f'{plain}_{mesh}'}.stl"
        vertices = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]]
        faces = model.mesh_face[model.mesh_faceadr[mesh] :][: model.mesh_facenum[mesh]]
        self.meshes[name] = trimesh.Trimesh(vertices, faces, process=False).export(file_type="stl")
        return ET.Element("mesh", filename=name)


def _placed(parent: ET.Element, tag: str, place: FloatArray, turn: Quaternion, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    ET.SubElement(element, "origin", xyz=_words(place), rpy=_words(roll_pitch_yaw(turn)))
    return element


def _words(values: Iterable[float]) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def _xyzw(wxyz: FloatArray) -> Quaternion:
    w, x, y, z = wxyz.tolist()
    return x, y, z, w
