"""Convert a scene to a MuJoCo model, with the URDF's links, joints and shapes; no links are fused."""

from __future__ import annotations

import mujoco
import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.config.urdf import SLIDES, Shape, Tree, read_mesh, read_shapes
from axbridge.errors import RigError
from axbridge.sim.engine import Arrangement, Scene

# Contacts are critically damped springs of 4 ms (or two steps), with 5 to 1 % compliance and a friction cone.
_CONTACT = (0.004, 1.0)
_CONTACT_SHARE = (0.95, 0.99, 0.0005, 0.5, 2.0)
_CONE = 20.0  # impratio: stiffness of friction relative to that of the normal force
_RIGID = (0.9999, 0.9999, 0.001, 0.5, 2.0)  # 0.01 % compliance of dry friction, motors and stops
_FASTEST = 50.0  # rad/s: up to this speed, a stop becomes active before a joint passes it
_GEOMS = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "mesh": mujoco.mjtGeom.mjGEOM_MESH,
}


def build_model(scene: Scene, arrangement: Arrangement, step: float) -> tuple[mujoco.MjModel, IntArray, IntArray]:
    """Compile a scene for steps of `step` s; return it with MuJoCo's ids of the tree's links and of the joints."""
    tree = arrangement.tree
    spec = new_spec()
    option = spec.option
    option.timestep, option.gravity, option.impratio = step, scene.gravity, _CONE
    option.integrator, option.cone = mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtCone.mjCONE_ELLIPTIC
    option.jacobian = mujoco.mjtJacobian.mjJAC_SPARSE  # joints of different limbs do not couple
    for off in ("AUTORESET", "ACTUATION", "ISLAND"):  # islands are copies, which the engine's changes do not reach
        option.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{off}")
    if scene.ground:
        floor = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], rgba=[0.8, 0.8, 0.8, 1])
        floor.contype, floor.conaffinity = 0, 1
        _touching(floor, 0.0)  # MuJoCo takes the larger friction of two shapes: the link's, from the URDF
    base = np.array((0.0, 0.0, scene.base_height))
    bodies, joints = add_links(spec, tree, base, free=not scene.fixed_base)
    for joint in joints:  # rigid stops and dry friction
        joint.limited, joint.range, joint.margin = mujoco.mjtLimited.mjLIMITED_TRUE, (-1e9, 1e9), _FASTEST * step
        joint.solref_friction, joint.solimp_friction = (-1.0, -1.0 / step), _RIGID
        joint.solref_limit, joint.solimp_limit = (-1.0, -1.0 / step), _RIGID
    _add_shapes(spec, scene, dict(zip(tree.links, bodies, strict=True)))
    for index, body in enumerate(bodies if scene.self_collision else ()):
        body.name, above = f"link{index}", tree.parent[index]
        while above >= 0:  # no collision with the links that carry it: they overlap at the joints
            spec.add_exclude(bodyname1=f"link{above}", bodyname2=body.name)
            above = tree.parent[above]
    try:
        model = spec.compile()
    except ValueError as failure:
        why = f"MuJoCo cannot take it: {str(failure).splitlines()[0]}"
        raise RigError(scene.urdf, "", why, "correct the shape, or use a box, cylinder or sphere") from failure
    model.dof_simplenum[:] = 0  # MuJoCo would ignore a changed armature of "simple" joints
    names = [joint.name for joint in tree.joints]
    return (
        model,
        np.array([body.id for body in bodies], dtype=np.int64),
        np.array([joints[names.index(fact.name)].id for fact in arrangement.joints], dtype=np.int64),
    )


def _add_shapes(spec: mujoco.MjSpec, scene: Scene, bodies: dict[str, mujoco.MjsBody]) -> None:
    touching = [(True, shape) for shape in read_shapes(scene.urdf, "collision", scene.text)]
    seen = [(False, shape) for shape in read_shapes(scene.urdf, "visual", scene.text)]
    for number, (solid, shape) in enumerate((*touching, *seen)):
        if shape.file is not None and not (solid or scene.gui):
            continue
        geom = bodies[shape.link].add_geom(type=_GEOMS[shape.kind], pos=shape.place, quat=quaternion(shape.turn))
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
    if not any(geom.group == 1 for geom in spec.geoms):  # no visual shapes: show the collision shapes
        for geom in spec.geoms:
            geom.group = 0


def _sizes(shape: Shape) -> tuple[float, ...]:
    """Return a shape's sizes in MuJoCo's convention: half of each length."""
    if shape.kind == "box":
        return tuple(0.5 * edge for edge in shape.size)
    if shape.kind == "sphere":
        return (*shape.size, 0.0, 0.0)
    return shape.size[0], 0.5 * shape.size[1], 0.0


def _touching(geom: mujoco.MjsGeom, friction: float) -> None:
    geom.condim = 3
    geom.friction = (friction, 0.0, 0.0)
    geom.solref, geom.solimp = _CONTACT, _CONTACT_SHARE


def new_spec() -> mujoco.MjSpec:
    """Return an empty model in radians, whose compiler changes no links."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.compiler.fusestatic = False
    spec.compiler.balanceinertia = False
    return spec


def add_links(
    spec: mujoco.MjSpec, tree: Tree, place: FloatArray, *, free: bool
) -> tuple[list[mujoco.MjsBody], list[mujoco.MjsJoint]]:
    """Add a robot to a spec, with its base link at `place`, m, (3,); return its bodies and its joints."""
    bodies: list[mujoco.MjsBody] = []
    joints: dict[int, mujoco.MjsJoint] = {}
    for index, (parent, dof) in enumerate(zip(tree.parent, tree.dof.tolist(), strict=True)):
        above = bodies[parent] if index else spec.worldbody
        body = above.add_body(pos=tree.place[index] if index else place, quat=quaternion(tree.turn[index]))
        _weigh(body, tree.mass[index], tree.centre[index], tree.inertia[index])
        if index == 0 and free:
            body.add_freejoint(align=mujoco.mjtAlignFree.mjALIGNFREE_FALSE)
        if dof >= 0:
            kind = mujoco.mjtJoint.mjJNT_SLIDE if tree.kind[index] == SLIDES else mujoco.mjtJoint.mjJNT_HINGE
            joints[dof] = body.add_joint(type=kind, axis=tree.axis[index])
        bodies.append(body)
    return bodies, [joints[dof] for dof in range(len(tree.joints))]


def quaternion(turn: FloatArray) -> FloatArray:
    """Return the quaternion w, x, y, z of a rotation matrix (3, 3)."""
    result = np.empty(4)
    mujoco.mju_mat2Quat(result, np.ascontiguousarray(turn).reshape(9))
    return result


def _weigh(body: mujoco.MjsBody, mass: float, centre: FloatArray, inertia: FloatArray) -> None:
    """Set a link's mass and inertia; moments that rounding made impossible are raised to the nearest possible ones."""
    moments, axes = np.linalg.eigh(inertia)
    if mass > 0 and moments[2] > moments[0] + moments[1]:
        moments[:2] *= moments[2] / (moments[0] + moments[1]) * (1 + 1e-12)
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    body.explicitinertial = True
    body.mass, body.ipos, body.inertia, body.iquat = mass, centre, moments, quaternion(axes)
