"""A robot's links and joints in a MuJoCo model: as the URDF has them, nothing fused or guessed."""

from __future__ import annotations

import mujoco
import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import SLIDES, Tree


def new_spec() -> mujoco.MjSpec:
    """An empty model, in radians, that takes links as they are."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.compiler.fusestatic = False
    spec.compiler.balanceinertia = False
    return spec


def add_links(
    spec: mujoco.MjSpec, tree: Tree, place: FloatArray, *, free: bool
) -> tuple[list[mujoco.MjsBody], list[mujoco.MjsJoint]]:
    """Put a robot into a spec."""
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
    """w, x, y, z of a rotation (3, 3)."""
    found = np.empty(4)
    mujoco.mju_mat2Quat(found, np.ascontiguousarray(turn).reshape(9))
    return found


def _weigh(body: mujoco.MjsBody, mass: float, centre: FloatArray, inertia: FloatArray) -> None:
    """Give a link its mass and inertia; moments that rounding has made impossible are raised to the nearest ones."""
    moments, axes = np.linalg.eigh(inertia)
    if mass > 0 and moments[2] > moments[0] + moments[1]:
        moments[:2] *= moments[2] / (moments[0] + moments[1]) * (1 + 1e-12)
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    body.explicitinertial = True
    body.mass, body.ipos, body.inertia, body.iquat = mass, centre, moments, quaternion(axes)
