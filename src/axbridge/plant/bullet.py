"""PyBullet as mechanics: joints of a URDF, driven towards predicted speeds by Bullet's own joint motors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pybullet as bullet

from axbridge.errors import RigError
from axbridge.plant.mechanics import FloatArray

__all__ = ["BulletMechanics"]

_FASTEST = 1e4  # rad/s: Bullet clamps joint speeds silently, at 100 by default


class BulletMechanics:
    """A URDF on a fixed base; see `Mechanics` for what its methods promise.

    Args:
        urdf: The robot.
        joints: Driven joints, in the order of every array; the URDF's other joints are left free.
        time_step: Physics step, s.
        gravity: m/s².
        start: Initial positions, rad, by joint.
        unbounded: Joints whose URDF limits somebody else keeps.

    Raises:
        RigError: PyBullet cannot read the URDF, or it lacks a joint.
    """

    def __init__(
        self,
        urdf: Path,
        joints: Sequence[str],
        *,
        time_step: float,
        gravity: tuple[float, float, float] = (0.0, 0.0, -9.81),
        start: Mapping[str, float] | None = None,
        unbounded: Sequence[str] = (),
    ) -> None:
        self.joints = tuple(joints)
        self.time_step = time_step
        self._client = bullet.connect(bullet.DIRECT)
        self._open = True
        client = {"physicsClientId": self._client}
        bullet.setGravity(*gravity, **client)
        bullet.setTimeStep(time_step, **client)
        try:
            self._body = bullet.loadURDF(
                str(urdf), useFixedBase=True, flags=bullet.URDF_USE_INERTIA_FROM_FILE, **client
            )
        except bullet.error as failure:
            self.close()
            raise RigError(urdf, "", f"PyBullet cannot read it: {failure}", "check that it is valid URDF") from failure
        known = {}
        facts = {}
        for index in range(bullet.getNumJoints(self._body, **client)):
            info = bullet.getJointInfo(self._body, index, **client)
            known[info[1].decode()] = index
            bounded = info[8] < info[9] and info[2] in {bullet.JOINT_REVOLUTE, bullet.JOINT_PRISMATIC}
            facts[info[1].decode()] = (
                "prismatic" if info[2] == bullet.JOINT_PRISMATIC else "revolute",
                (float(info[8]), float(info[9])) if bounded else (-math.inf, math.inf),
            )
            bullet.changeDynamics(
                self._body,
                index,
                linearDamping=0,
                angularDamping=0,
                jointDamping=0,
                maxJointVelocity=_FASTEST,
                **client,
            )
            bullet.setJointMotorControl2(self._body, index, bullet.VELOCITY_CONTROL, force=0, **client)
        missing = [joint for joint in joints if joint not in known]
        if missing:
            self.close()
            raise RigError(urdf, "", f"has no joint {', '.join(missing)}", f"it has: {', '.join(known)}")
        self._indices = [known[joint] for joint in joints]
        self.kinds = tuple(facts[joint][0] for joint in joints)
        self.limits = tuple(facts[joint][1] for joint in joints)
        for joint in unbounded:
            bullet.changeDynamics(self._body, known[joint], jointLowerLimit=1, jointUpperLimit=-1, **client)
        for joint, position in (start or {}).items():
            bullet.resetJointState(self._body, known[joint], position, **client)

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Joint positions and speeds."""
        states = bullet.getJointStates(self._body, self._indices, physicsClientId=self._client)
        return np.array([s[0] for s in states]), np.array([s[1] for s in states])

    def dynamics(self) -> tuple[FloatArray, FloatArray]:
        """Inertia and load torque (gravity, Coriolis) at the present state."""
        position, speed = (array.tolist() for array in self.state())
        inertia = bullet.calculateMassMatrix(self._body, position, physicsClientId=self._client)
        load = bullet.calculateInverseDynamics(
            self._body, position, speed, [0.0] * len(position), physicsClientId=self._client
        )
        return np.array(inertia), np.array(load)

    def step(self, speed: FloatArray, torque: FloatArray, limit: FloatArray, beside: FloatArray | None = None) -> None:
        """Advance one step towards `speed`, with at most |torque| + limit."""
        bullet.setJointMotorControlArray(
            self._body,
            self._indices,
            bullet.VELOCITY_CONTROL,
            targetVelocities=speed.tolist(),
            forces=(np.abs(torque) + limit).tolist(),
            physicsClientId=self._client,
        )
        if beside is not None:
            bullet.setJointMotorControlArray(
                self._body,
                self._indices,
                bullet.TORQUE_CONTROL,
                forces=beside.tolist(),
                physicsClientId=self._client,
            )
        bullet.stepSimulation(physicsClientId=self._client)

    def motor_torque(self) -> FloatArray:
        """What the joint motors used in the last step."""
        states = bullet.getJointStates(self._body, self._indices, physicsClientId=self._client)
        return np.array([s[3] for s in states])

    def close(self) -> None:
        """Disconnect; may be called twice."""
        if self._open:
            self._open = False
            bullet.disconnect(physicsClientId=self._client)
