"""PyBullet as mechanics: any URDF, on a fixed or a floating base, with ground and contacts."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import DUMMY_INERTIA, DUMMY_MASS, read_tree
from axbridge.errors import RigError, SimulationDiverged, UsageError
from axbridge.jit import as_tuple, jit
from axbridge.physics.engines.native_output import quiet
from axbridge.physics.engines.tree_dynamics import BASE, Base, Contacts, Links, joint_dynamics
from axbridge.physics.mechanics import FIRM

with quiet(2):  # importing it prints its build time
    import pybullet as bullet

__all__ = ["BulletMechanics"]

_BASE_ROW = struct.Struct(f"{BASE}d")
_FASTEST = 1e5  # rad/s: Bullet clamps joint speeds silently, at 100 by default; we want to see what diverges
_DIVERGED = 1e4  # rad/s
# Sweeps of Bullet's solver, at most: for a robot that stands, and for all else (to press a 30 g foot on the floor in a
# fall takes more). The sweep that changes no speed by more is the last, (rad/s)²: where anything touches the robot and
# small corrections go on for long, and in the air.
_SWEEPS, _MORE_SWEEPS = 50, 200
_SETTLED, _SOLVED = 1e-3, 1e-7
_STILL = 0.5  # rad/s: where it stands every joint is slower
_PAST = 0.005  # rad past a stop that ask for more
_STRAIN = 1.0  # rad/s off the speed asked for, likewise
_ANCHOR = 20.0  # kg: what the prediction takes a contact at rest for
_SLOW = 0.1  # m/s: a contact point slower than this is at rest
_SUDDEN = 30.0  # rad/s: what a landing makes a light link's speed within a step


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
        dof = np.array([self.joints.index(names[d]) if d >= 0 else -1 for d in self._tree.dof], dtype=np.int64)
        shapes = (getattr(self._tree, name) for name in Links._fields[3:])
        self._chain = Links(self._tree.parent, self._tree.kind, dof, *shapes)
        self.kinds = tuple("prismatic" if fact.linear else "revolute" for fact in facts)
        self.weightless = frozenset(self._tree.weightless)
        self.limits = tuple((stops or {}).get(fact.name, (fact.low, fact.high)) for fact in facts)
        self.time_step = time_step
        self._fixed_base = fixed_base
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
        place, orientation = bullet.getDynamicsInfo(self.body, -1, **self._on)[3:5]
        frame = np.array(place), np.array(bullet.getMatrixFromQuaternion(orientation)).reshape(3, 3)
        self._base = Base(np.zeros(BASE), *frame, np.array(gravity), fixed_base)
        self._base.motion[:7] = sum(self.base(), ())
        self._stops = np.array(self.limits).reshape(-1, 2)
        self._row = struct.Struct(f"{3 * len(self.joints)}d")
        self._strained, self._touching = False, False
        self._effort: tuple[int, float] | None = None
        self._orders = np.zeros((3, len(self.joints)))
        self._read(*self._orders[:2])

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
        n = len(self.joints)
        inertia, load = np.empty((n, n)), np.empty(n)
        if not self._fixed_base:
            place, orientation = bullet.getBasePositionAndOrientation(self.body, **self._on)
            linear, angular = bullet.getBaseVelocity(self.body, **self._on)
            _BASE_ROW.pack_into(self._base.motion.data, 0, *place, *orientation, *linear, *angular)
        contacts = Contacts(self._contacts(), _ANCHOR, _SLOW, self.time_step)
        anchored = joint_dynamics(
            as_tuple(self._chain), as_tuple(self._base), as_tuple(contacts), self._positions, self._speeds, inertia,
            load,
        )  # fmt: skip
        self.resting = anchored > 0
        return inertia, load

    def step(self, speed: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Advance one step; see `Mechanics.step`.

        Raises:
            SimulationDiverged: a joint's motion left the finite range.
        """
        applied = np.empty(len(speed))
        near = 0.0 if self._touching else self.time_step * _SUDDEN
        share(speed, low, high, self._positions, self._stops, near, FIRM / self.time_step, self._orders, applied)
        speeds, middle, reach = self._orders.tolist()
        if any(middle):
            bullet.setJointMotorControlArray(self.body, self.links, bullet.TORQUE_CONTROL, forces=middle, **self._on)
        bullet.setJointMotorControlArray(
            self.body, self.links, bullet.VELOCITY_CONTROL, targetVelocities=speeds, forces=reach, **self._on
        )
        calm = self.resting and not self._strained
        effort = _SWEEPS if calm else _MORE_SWEEPS, _SETTLED if self._touching else _SOLVED
        if effort != self._effort:
            self._effort, (sweeps, residual) = effort, effort
            bullet.setPhysicsEngineParameter(numSolverIterations=sweeps, solverResidualThreshold=residual, **self._on)
        bullet.stepSimulation(**self._on)
        self._time += self.time_step
        self._read(speed, applied)
        return applied

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

    def _read(self, asked: FloatArray, applied: FloatArray) -> None:
        """Take over what the joints did when they were asked for these speeds; add what their motors gave."""
        figures = np.empty((3, len(self.joints)))
        self._positions, self._speeds = figures[:2]
        if self.links:
            states = bullet.getJointStates(self.body, self.links, **self._on)
            positions, speeds, _, used = zip(*states, strict=True)
            # three times faster than to let numpy take tuples in
            self._row.pack_into(figures.data, 0, *positions, *speeds, *used)
        worst, self._strained = survey(figures, asked, self._stops, applied)
        if worst >= 0:
            raise SimulationDiverged(self.joints[worst], self._time)

    def _contacts(self) -> FloatArray:
        """Links that touch something that cannot move, and where in the world, (contacts, 4)."""
        unmoved, link_of = self._unmoved, self._link_of
        figures: list[float] = []
        points = bullet.getContactPoints(self.body, **self._on)
        self._touching = len(points) > 0
        for contact in points:
            body = contact[2]
            if contact[9] > 0 and (unmoved[body] if body in unmoved else self._is_unmoved(body)):
                figures.append(link_of[contact[3]])
                figures += contact[5]
        return np.array(figures, dtype=np.float64).reshape(-1, 4)

    def _is_unmoved(self, body: int) -> bool:
        """Whether a body has no mass, as the floor."""
        unmoved = body != self.body and bool(bullet.getDynamicsInfo(body, -1, **self._on)[0] == 0)
        self._unmoved[body] = unmoved
        return unmoved


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


@jit
def share(
    speed: FloatArray, low: FloatArray, high: FloatArray, positions: FloatArray, stops: FloatArray, near: float,
    firm: float, orders: FloatArray, applied: FloatArray,
) -> None:  # fmt: skip
    """What a step asks of each joint: a torque that is given, and a motor that adds what the speed needs.

    A landing may take a joint to its stop and past it before the engine knows of either, so there the motor may do what
    the stop would.

    Args:
        speed: As of `BulletMechanics.step`, (n,).
        low: Likewise.
        high: Likewise.
        positions: Of the joints, (n,).
        stops: (n, 2).
        near: How far from a stop a joint may be to reach it in this step; 0 where nothing can land.
        firm: What a stop can take, N·m or N.
        orders: Result, (3, n): speeds, torques given, most that a motor adds.
        applied: Result, (n,): the torques given.
    """
    for j in range(len(speed)):
        orders[0, j] = speed[j]
        orders[1, j] = applied[j] = 0.5 * (high[j] + low[j])
        orders[2, j] = 0.5 * (high[j] - low[j])
        if near > 0.0 and not stops[j, 0] + near <= positions[j] <= stops[j, 1] - near:
            orders[2, j] += firm


@jit
def survey(figures: FloatArray, asked: FloatArray, stops: FloatArray, applied: FloatArray) -> tuple[int, bool]:
    """Look at the joints' motion after a step.

    Args:
        figures: Positions, rad or m, speeds and torques of the motors, (3, n).
        asked: Speeds asked for, (n,).
        stops: (n, 2).
        applied: Changed in place: the motors' torques are added, (n,).

    Returns:
        The joint whose motion left the finite range, -1 where there is none; and whether one moves, is past its stop or
        went far from what was asked: a hard case to solve.
    """
    strained = False
    for j in range(len(asked)):
        position, speed = figures[0, j], figures[1, j]
        if not abs(speed) < _DIVERGED:
            return j, True
        past = max(stops[j, 0] - position, position - stops[j, 1])
        strained = strained or past > _PAST or abs(speed) > _STILL or abs(speed - asked[j]) > _STRAIN
        applied[j] += figures[2, j]
    return -1, strained
