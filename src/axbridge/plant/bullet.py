"""PyBullet as mechanics: any URDF, on a fixed or a floating base, with ground and contacts."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.errors import RigError, SimulationDiverged, UsageError
from axbridge.plant.dynamics import base_motion, joint_dynamics
from axbridge.plant.mechanics import FloatArray, IntArray
from axbridge.plant.quiet import quiet
from axbridge.plant.urdf import DUMMY_INERTIA, DUMMY_MASS, read_tree

with quiet(2):  # importing it prints its build time
    import pybullet as bullet

__all__ = ["BulletMechanics"]

_FASTEST = 1e5  # rad/s: Bullet clamps joint speeds silently, at 100 by default; we want to see what diverges
_DIVERGED = 1e4  # rad/s
_SWEEPS, _MORE_SWEEPS = 50, 200  # of Bullet's solver: it takes more to press a 30 g foot on the floor in a fall
_PAST = 0.005  # rad past a stop that ask for more
_STRAIN = 1.0  # rad/s off the speed asked for, likewise
_ANCHOR = 20.0  # kg: what the prediction takes a contact at rest for
_SLOW = 0.1  # m/s: a contact point slower than this is at rest


class BulletMechanics:
    """A world of its own with one robot in it; see `Mechanics` for what its methods promise.

    Args:
        urdf: The robot.
        time_step: Physics step, s.
        fixed_base: Whether the base link is bolted down.
        gravity: m/s².
        ground: Whether there is a floor at z = 0.
        self_collision: Whether links collide with each other, neighbours excepted.
        base_height: z of the base link at the start, m.
        first: Joints that come first in every array, in this order; the others follow in the URDF's.
        last: Joints that come last.
        start: Initial positions by joint, rad or m.
        stops: Hard stops by joint, instead of the URDF's.
        unbounded: Joints whose stops somebody else keeps; they may move links without mass.
        gui: Show the world in a window.
        text: What the URDF says, instead of the file's own text; meshes are looked for beside the file.

    Attributes:
        joints: All movable joints of the URDF, in the order of every array.
        time_step: s.
        kinds: ``revolute`` or ``prismatic``, of each joint.
        limits: Stops of each joint.
        weightless: Joints that move nothing with a mass.
        client: PyBullet's client id, for callers that add things to the world.
        body: The robot's body id.
        links: PyBullet's index of each joint and of the link it moves.
        resting: Whether the robot touches something at rest with a point at rest, as of the last `dynamics`.

    Raises:
        UsageError: `gui` without a display.
        RigError: the URDF is wrong (see `urdf.read_tree`), or lacks a joint named.
    """

    def __init__(
        self,
        urdf: Path,
        *,
        time_step: float,
        fixed_base: bool = True,
        gravity: tuple[float, float, float] = (0.0, 0.0, -9.81),
        ground: bool = False,
        self_collision: bool = False,
        base_height: float = 0.0,
        first: Sequence[str] = (),
        last: Sequence[str] = (),
        start: Mapping[str, float] | None = None,
        stops: Mapping[str, tuple[float, float]] | None = None,
        unbounded: Sequence[str] = (),
        gui: bool = False,
        text: str | None = None,
    ) -> None:
        self._tree = read_tree(urdf, fixed_base=fixed_base, kinematic=unbounded, text=text)
        names = [joint.name for joint in self._tree.joints]
        for joint in [*first, *last, *(start or {}), *(stops or {})]:
            if joint not in names:
                there = joint in self._tree.fixed
                why = "this joint is fixed" if there else "the URDF has no such joint"
                raise RigError(urdf, joint, why, f"movable joints: {', '.join(names) or 'none'}")
        self.joints = (*first, *(name for name in names if name not in {*first, *last}), *last)
        facts = [self._tree.joints[names.index(name)] for name in self.joints]
        self._dof = np.array([self.joints.index(names[d]) if d >= 0 else -1 for d in self._tree.dof], dtype=np.int64)
        self.kinds = tuple("prismatic" if fact.linear else "revolute" for fact in facts)
        self.weightless = frozenset(self._tree.weightless)
        self.limits = tuple((stops or {}).get(fact.name, (fact.low, fact.high)) for fact in facts)
        self.time_step = time_step
        self._fixed_base = fixed_base
        self._gravity = np.array(gravity)
        if gui and sys.platform == "linux" and not os.environ.get("DISPLAY"):  # PyBullet would end the process
            raise UsageError("there is no display to show the world on", "set DISPLAY, or leave gui out")
        with quiet(1) if gui else nullcontext():
            self.client = bullet.connect(bullet.GUI if gui else bullet.DIRECT)
        self._open = True
        self._time = 0.0
        self._on: dict[str, Any] = {"physicsClientId": self.client}
        bullet.setGravity(*gravity, **self._on)
        bullet.setPhysicsEngineParameter(
            fixedTimeStep=time_step,
            numSubSteps=0,
            deterministicOverlappingPairs=1,
            enableConeFriction=0,  # the cone's rows converge slowly: a standing robot creeps three times as far
            **self._on,
        )
        if ground:
            plane = bullet.createCollisionShape(bullet.GEOM_PLANE, **self._on)
            bullet.createMultiBody(0, plane, **self._on)
        flags = bullet.URDF_USE_INERTIA_FROM_FILE
        if self_collision:
            flags |= bullet.URDF_USE_SELF_COLLISION | bullet.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        try:
            with _on_disk(urdf, text) as file, quiet(1):
                if file != urdf:
                    bullet.setAdditionalSearchPath(str(urdf.parent), **self._on)
                self.body = bullet.loadURDF(
                    str(file), basePosition=[0, 0, base_height], useFixedBase=fixed_base, flags=flags, **self._on
                )
        except bullet.error as failure:
            self.close()
            raise RigError(urdf, "", f"PyBullet cannot read it: {failure}", "check that it is valid URDF") from failure
        self.links = self._prepare(start or {}, unbounded)
        self.resting = False
        infos = [
            bullet.getJointInfo(self.body, i, **self._on) for i in range(bullet.getNumJoints(self.body, **self._on))
        ]
        index_of = {info[12].decode(): info[0] for info in infos}
        self._link_of = {index_of.get(name, -1): index for index, name in enumerate(self._tree.links)}
        self._unmoved: dict[int, bool] = {}
        self._origin = np.zeros(3)
        place, orientation = bullet.getDynamicsInfo(self.body, -1, **self._on)[3:5]
        self._base_frame = np.array(place), np.array(bullet.getMatrixFromQuaternion(orientation)).reshape(3, 3)
        self._turn, self._base_speed, self._lever = np.eye(3), np.zeros(6), np.zeros(3)
        self._low, self._high = np.array(self.limits).reshape(-1, 2).T
        self._sweeps = _SWEEPS
        self._wanted = np.zeros(len(self.joints))
        self._positions = np.zeros(len(self.joints))
        self._speeds = np.zeros(len(self.joints))
        self._torques = np.zeros(len(self.joints))
        self._read()

    def _prepare(self, start: Mapping[str, float], unbounded: Sequence[str]) -> list[int]:
        """Take Bullet's own motors, damping and clamps away, set stops and start; the index of each joint."""
        known = {}
        bullet.changeDynamics(self.body, -1, linearDamping=0, angularDamping=0, **self._on)
        for index in range(bullet.getNumJoints(self.body, **self._on)):
            info = bullet.getJointInfo(self.body, index, **self._on)
            known[info[1].decode()] = index
            if info[12].decode() in self._tree.dummies:  # Bullet has made it 1 kg
                moments = [DUMMY_INERTIA] * 3
                bullet.changeDynamics(self.body, index, mass=DUMMY_MASS, localInertiaDiagonal=moments, **self._on)
            bullet.changeDynamics(
                self.body,
                index,
                linearDamping=0,
                angularDamping=0,
                jointDamping=0,
                maxJointVelocity=_FASTEST,
                **self._on,
            )
            if info[2] != bullet.JOINT_FIXED:
                bullet.setJointMotorControl2(self.body, index, bullet.VELOCITY_CONTROL, force=0, **self._on)
        for name, limits in zip(self.joints, self.limits, strict=True):
            low, high = limits if np.isfinite(limits).all() and name not in unbounded else (1.0, -1.0)  # no limit
            bullet.changeDynamics(self.body, known[name], jointLowerLimit=low, jointUpperLimit=high, **self._on)
            bullet.resetJointState(self.body, known[name], start.get(name, 0.0), **self._on)
        return [known[name] for name in self.joints]

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Joint positions and speeds, as of the last step."""
        return self._positions, self._speeds

    def dynamics(self) -> tuple[FloatArray, FloatArray]:
        """Inertia and load torque (gravity, Coriolis) at the present state, from the URDF's own figures."""
        tree, n = self._tree, len(self.joints)
        inertia, load = np.empty((n, n)), np.empty(n)
        self._base()
        touching, points = self._contacts()
        anchored = joint_dynamics(
            tree.parent, tree.kind, self._dof, tree.place, tree.turn, tree.axis, tree.mass, tree.centre, tree.inertia,
            self._positions, self._speeds, self._turn, self._base_speed, self._gravity, self._fixed_base, touching,
            points, _ANCHOR, _SLOW, self.time_step, inertia, load,
        )  # fmt: skip
        self.resting = anchored > 0
        return inertia, load

    def step(self, speed: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Advance one step; see `Mechanics.step`.

        Raises:
            SimulationDiverged: a joint's motion left the finite range.
        """
        middle = 0.5 * (low + high)
        if middle.any():
            bullet.setJointMotorControlArray(
                self.body, self.links, bullet.TORQUE_CONTROL, forces=middle.tolist(), **self._on
            )
        bullet.setJointMotorControlArray(
            self.body,
            self.links,
            bullet.VELOCITY_CONTROL,
            targetVelocities=speed.tolist(),
            forces=(0.5 * (high - low)).tolist(),
            **self._on,
        )
        sweeps = _MORE_SWEEPS if self._is_strained() else _SWEEPS
        if sweeps != self._sweeps:
            self._sweeps = sweeps
            bullet.setPhysicsEngineParameter(numSolverIterations=sweeps, **self._on)
        bullet.stepSimulation(**self._on)
        self._wanted = speed
        self._time += self.time_step
        self._read()
        return middle + self._torques

    def _is_strained(self) -> bool:
        """Whether a joint is past its stop or went far from what was asked in the last step: a hard case to solve."""
        past = np.maximum(self._low - self._positions, self._positions - self._high).max(initial=-1.0)
        return bool(past > _PAST or np.abs(self._speeds - self._wanted).max(initial=0.0) > _STRAIN)

    def reset_base(self, position: tuple[float, float, float], orientation: tuple[float, float, float, float]) -> None:
        """Put a floating base somewhere, at rest: position, m, and quaternion (x, y, z, w) of its centre of mass."""
        bullet.resetBasePositionAndOrientation(self.body, position, orientation, **self._on)
        bullet.resetBaseVelocity(self.body, [0, 0, 0], [0, 0, 0], **self._on)

    def base(self) -> tuple[tuple[float, float, float], tuple[float, float, float, float]]:
        """Position, m, and orientation (x, y, z, w) of the base's centre of mass."""
        position, orientation = bullet.getBasePositionAndOrientation(self.body, **self._on)
        return position, orientation

    def close(self) -> None:
        """Disconnect; may be called twice."""
        if self._open:
            self._open = False
            bullet.disconnect(**self._on)

    def _read(self) -> None:
        states = bullet.getJointStates(self.body, self.links, **self._on) if self.links else ()
        self._positions = np.array([state[0] for state in states])
        self._speeds = np.array([state[1] for state in states])
        self._torques = np.array([state[3] for state in states])
        if not (np.abs(self._speeds) < _DIVERGED).all():
            worst = int(np.argmax(np.where(np.isfinite(self._speeds), np.abs(self._speeds), np.inf)))
            raise SimulationDiverged(self.joints[worst], self._time)

    def _contacts(self) -> tuple[IntArray, FloatArray]:
        """Links that touch something that cannot move, and where from the base link's origin, (contacts, 3)."""
        found = [
            (self._link_of[contact[3]], contact[5])
            for contact in bullet.getContactPoints(self.body, **self._on)
            if contact[9] > 0 and self._is_unmoved(contact[2])
        ]
        if not found:
            return _NOWHERE
        points = np.array([point for _, point in found]) - self._origin
        return np.array([link for link, _ in found], dtype=np.int64), points

    def _is_unmoved(self, body: int) -> bool:
        """Whether a body has no mass, as the floor."""
        if body not in self._unmoved:
            self._unmoved[body] = body != self.body and bullet.getDynamicsInfo(body, -1, **self._on)[0] == 0
        return self._unmoved[body]

    def _base(self) -> None:
        """Read the base's motion into `_turn`, `_base_speed` and `_origin` (of the base link, world axes)."""
        if self._fixed_base:
            return
        position, orientation = bullet.getBasePositionAndOrientation(self.body, **self._on)
        linear, angular = bullet.getBaseVelocity(self.body, **self._on)
        base_motion(
            np.array(orientation), np.array(linear), np.array(angular), *self._base_frame, self._turn,
            self._base_speed, self._lever,
        )  # fmt: skip
        self._origin = np.array(position) - self._lever


@contextmanager
def _on_disk(urdf: Path, text: str | None) -> Iterator[Path]:
    """A file that says `text`, as PyBullet reads files alone."""
    if text is None or text == urdf.read_text(encoding="utf-8-sig"):
        yield urdf
        return
    with tempfile.TemporaryDirectory(prefix="axbridge-") as folder:
        file = Path(folder, urdf.name)
        file.write_text(text, encoding="utf-8")
        yield file


_NOWHERE = np.zeros(0, dtype=np.int64), np.zeros((0, 3))
