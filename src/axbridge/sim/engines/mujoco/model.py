"""A scene as a MuJoCo model: links, joints and shapes as the URDF has them, nothing fused, guessed or smoothed."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.config.mesh import read_mesh
from axbridge.config.urdf import Shape, read_shapes
from axbridge.errors import RigError
from axbridge.sim.engine import Arrangement, Scene

__all__ = ["Built", "build_model"]

# Contacts as critically damped springs of 4 ms (or two steps), that give way by 5 to 1 %; and a cone of friction.
_CONTACT = (0.004, 1.0)
_CONTACT_SHARE = (0.95, 0.99, 0.0005, 0.5, 2.0)
_CONE = 20.0  # how much harder friction holds than pressure does
_RIGID = (0.9999, 0.9999, 0.001, 0.5, 2.0)  # dry friction, motors and stops give way by 0.01 %
_FASTEST = 50.0  # rad/s: a joint slower than this cannot pass a stop unseen in a step
_GEOMS = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "mesh": mujoco.mjtGeom.mjGEOM_MESH,
}


class Built(NamedTuple):
    """A compiled model and where things are in it.

    Attributes:
        model: The model.
        bodies: MuJoCo's number of each link of the tree, (links,).
        joints: Of each joint of the arrangement, (m,).
    """

    model: mujoco.MjModel
    bodies: IntArray
    joints: IntArray


def build_model(scene: Scene, arrangement: Arrangement, step: float) -> Built:
    """Build a scene for steps of `step` seconds.

    Raises:
        RigError: a shape that MuJoCo cannot take.
    """
    tree, facts = arrangement.tree, arrangement.joints
    spec = mujoco.MjSpec()
    _set_options(spec, scene, step)
    if scene.ground:
        floor = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], rgba=[0.8, 0.8, 0.8, 1])
        floor.contype, floor.conaffinity = 0, 1
        _touching(floor, 0.0)  # of two shapes the larger friction counts: the link's, as the URDF says
    numbers = {fact.name: number for number, fact in enumerate(facts)}
    bodies: list[mujoco.MjsBody] = []
    joints: dict[int, mujoco.MjsJoint] = {}
    for index, parent in enumerate(tree.parent):
        above = bodies[parent] if index else spec.worldbody
        place = tree.place[index] if index else np.array((0.0, 0.0, scene.base_height))
        body = above.add_body(pos=place, quat=_quaternion(tree.turn[index]))
        _weigh(body, tree.mass[index], tree.centre[index], tree.inertia[index])
        if index == 0 and not scene.fixed_base:
            body.add_freejoint(align=mujoco.mjtAlignFree.mjALIGNFREE_FALSE)
        if tree.dof[index] >= 0:
            number = numbers[tree.joints[tree.dof[index]].name]
            joints[number] = _hinge(body, tree.axis[index], facts[number].linear, step)
        bodies.append(body)
    _add_shapes(spec, scene, dict(zip(tree.links, bodies, strict=True)))
    if scene.self_collision:
        _spare_relatives(spec, tree.parent, bodies)
    try:
        model = spec.compile()
    except ValueError as failure:
        why = f"MuJoCo cannot take it: {str(failure).splitlines()[0]}"
        raise RigError(scene.urdf, "", why, "correct the shape, or use a box, cylinder or sphere") from failure
    model.dof_simplenum[:] = 0  # "simple" joints would not hear of an armature that changes
    return Built(
        model,
        np.array([body.id for body in bodies], dtype=np.int64),
        np.array([joints[number].id for number in range(len(facts))], dtype=np.int64),
    )


def _set_options(spec: mujoco.MjSpec, scene: Scene, step: float) -> None:
    spec.compiler.degree = False
    spec.compiler.fusestatic = False
    spec.compiler.balanceinertia = False
    option = spec.option
    option.timestep = step
    option.gravity = scene.gravity
    option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = _CONE
    option.jacobian = mujoco.mjtJacobian.mjJAC_SPARSE  # legs and arms of a robot have little to do with each other
    for off in ("AUTORESET", "ACTUATION", "ISLAND"):  # in islands it would solve copies of what the engine changes
        option.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{off}")


def _weigh(body: mujoco.MjsBody, mass: float, centre: FloatArray, inertia: FloatArray) -> None:
    """Give a link its mass and inertia; moments that rounding has made impossible are raised to the nearest ones."""
    moments, axes = np.linalg.eigh(inertia)
    if mass > 0 and moments[2] > moments[0] + moments[1]:
        moments[:2] *= moments[2] / (moments[0] + moments[1]) * (1 + 1e-12)
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    body.explicitinertial = True
    body.mass, body.ipos, body.inertia, body.iquat = mass, centre, moments, _quaternion(axes)


def _hinge(body: mujoco.MjsBody, axis: FloatArray, linear: bool, step: float) -> mujoco.MjsJoint:
    kind = mujoco.mjtJoint.mjJNT_SLIDE if linear else mujoco.mjtJoint.mjJNT_HINGE
    joint = body.add_joint(type=kind, axis=axis)
    joint.limited, joint.range, joint.margin = mujoco.mjtLimited.mjLIMITED_TRUE, (-1e9, 1e9), _FASTEST * step
    joint.solref_friction, joint.solimp_friction = (-1.0, -1.0 / step), _RIGID
    joint.solref_limit, joint.solimp_limit = (-1.0, -1.0 / step), _RIGID
    return joint


def _add_shapes(spec: mujoco.MjSpec, scene: Scene, bodies: dict[str, mujoco.MjsBody]) -> None:
    touching = [(True, shape) for shape in read_shapes(scene.urdf, "collision", scene.text)]
    seen = [(False, shape) for shape in read_shapes(scene.urdf, "visual", scene.text)]
    for number, (solid, shape) in enumerate((*touching, *seen)):
        if shape.file is not None and not (solid or scene.gui):
            continue
        geom = bodies[shape.link].add_geom(type=_GEOMS[shape.kind], pos=shape.place, quat=_quaternion(shape.turn))
        if shape.file is None:
            geom.size = _sizes(shape)
        else:
            geom.meshname = f"mesh{number}"
            mesh = read_mesh(shape.file)
            spec.add_mesh(
                name=geom.meshname, uservert=mesh.corners.ravel(), userface=mesh.triangles.ravel(), scale=shape.size,
                inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX,
            )  # fmt: skip
        geom.mass = 0.0
        geom.contype, geom.conaffinity = int(solid), int(solid and scene.self_collision)
        geom.group = 3 if solid else 1  # a window shows the first three groups
        _touching(geom, shape.friction)
    if not any(geom.group == 1 for geom in spec.geoms):  # nothing but what touches: then that is shown
        for geom in spec.geoms:
            geom.group = 0


def _sizes(shape: Shape) -> tuple[float, ...]:
    """As MuJoCo has them: half of each length."""
    if shape.kind == "box":
        return tuple(0.5 * edge for edge in shape.size)
    if shape.kind == "sphere":
        return (*shape.size, 0.0, 0.0)
    return shape.size[0], 0.5 * shape.size[1], 0.0


def _touching(geom: mujoco.MjsGeom, friction: float) -> None:
    geom.condim = 3
    geom.friction = (friction, 0.0, 0.0)
    geom.solref, geom.solimp = _CONTACT, _CONTACT_SHARE


def _spare_relatives(spec: mujoco.MjSpec, parents: IntArray, bodies: list[mujoco.MjsBody]) -> None:
    """Let no link touch those that carry it: they overlap where the joints are."""
    for index, body in enumerate(bodies):
        body.name = f"link{index}"
        above = parents[index]
        while above >= 0:
            spec.add_exclude(bodyname1=f"link{above}", bodyname2=body.name)
            above = parents[above]


def _quaternion(turn: FloatArray) -> FloatArray:
    """w, x, y, z of a rotation (3, 3)."""
    found = np.empty(4)
    mujoco.mju_mat2Quat(found, np.ascontiguousarray(turn).reshape(9))
    return found
