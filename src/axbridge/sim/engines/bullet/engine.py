"""PyBullet as engine: any URDF, on a fixed or a floating base, with ground and contacts.

Bullet's joints have no armature, and its motors know nothing of volts: back-EMF given as torque makes light links
explode. So a physics step has four parts: *predict* joints and drives in substeps, against the tree's inertia and load;
*ask* Bullet's velocity motors for the speed that came out, within the torque there is; *keep the momentum* that the
servo still has; and, while predicting, *know the floor*. `docs/physics.md` says what each is worth.
"""

from __future__ import annotations

import math
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import DUMMY_INERTIA, DUMMY_MASS, Mesh, with_checked_meshes
from axbridge.errors import RigError, SimulationDiverged, UsageError
from axbridge.jit import as_tuple, jit
from axbridge.rotations import LinkPose
from axbridge.sim.engine import BULLET_LINKS, Contact, LinkMotion, Scene, arrange, refuse_size, substeps
from axbridge.sim.engines.bullet.ahead import AheadEngine, StepState, System, forget, settle_at, workspace
from axbridge.sim.engines.bullet.tree_dynamics import BASE, CONTACT, Base, Contacts, Links, joint_dynamics


@contextmanager
def _quiet(descriptor: int) -> Iterator[None]:
    """Silence C code, which prints past Python's own streams, for the length of a block."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    try:
        kept = os.dup(descriptor)
    except OSError:
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)
        os.close(nowhere)


with _quiet(2):  # importing it prints its build time
    import pybullet as bullet


_BASE_ROW = struct.Struct(f"{BASE}d")
_FASTEST = 1e5  # rad/s: Bullet clamps joint speeds silently, at 100 by default; we want to see what diverges
# Sweeps of Bullet's solver, at most: for a robot that stands, and for all else (to press a 30 g foot on the floor in a
# fall takes more). The sweep that changes no speed by more is the last, (rad/s)²: where anything touches the robot and
# small corrections go on for long, and in the air.
_SWEEPS, _MORE_SWEEPS = 50, 200
_SETTLED, _SOLVED = 5e-4, 1e-7  # coarser, forces that are left over walk feet away until a corner lets go
_ANCHOR = 20.0  # kg: what the prediction takes a contact for along an axis that it holds
_SLOW = 0.1  # m/s: faster along an axis, a contact point is about to leave or to slide
_LONGEST_LINE = 1000  # characters: PyBullet reads lines in pieces, and fails beyond some 8 kB
_ERP = 48.0  # 1/s: of the way that a joint is past its stop; Bullet's 0.2 a step throws it back in short steps
_SUDDEN = 30.0  # rad/s: what a landing makes a light link's speed within a step
_SMALL_SURPRISE = 0.01  # rad/s
_FIRM = 1.0  # N·m·s: what a hard stop may take within a step
# rad/s: how far off the prediction a joint is still held by its motor. More holds a landing, but a motor that holds its
# speed whatever it takes tears feet loose from the floor: a servo gives way. So where contacts hold the robot, it is
# little more than what the step before was off.
_MARGIN, _LITTLE = 10.0, 0.3
_JUMP = 0.2  # rad/s: changes of speed above this within a physics step count as collisions
_NEAR = 0.02  # rad
_GIVE = 0.3  # of a lead that is not due, a step
_DIVERGED = 1e4  # rad/s
_STILL = 0.5  # rad/s: where a robot stands every joint is slower
_PAST = 0.005  # rad past a stop that ask for more sweeps
_STRAIN = 1.0  # rad/s off the speed asked for, likewise


class BulletEngine(AheadEngine):
    """A world of its own with one robot in it; see `axbridge.sim.engine.Engine` for what its methods promise.

    Attributes:
        physics_step: One step of Bullet, s.
        client: PyBullet's client id, for callers that add things to the world.
        body: The robot's body id.
        links: PyBullet's index of each joint and of the link it moves.
        resting: Whether contacts with something at rest hold the robot, as of the last `dynamics`.

    Raises:
        UsageError: `gui` without a display; the scene has ideal joints, which PyBullet cannot move.
        RigError: the URDF is wrong, or does not fit the scene (see `arrange`).
    """

    def __init__(self, scene: Scene) -> None:
        if scene.ideal:
            raise UsageError("PyBullet cannot move ideal joints", 'take engine = "mujoco", or "auto"')
        self._tree, facts, self.limits, start = arrange(scene)
        if len(self._tree.links) > BULLET_LINKS:
            refuse_size(scene.urdf, len(self._tree.links))
        n = len(facts)
        self.joints = tuple(fact.name for fact in facts)
        self.kinds = tuple("prismatic" if fact.linear else "revolute" for fact in facts)
        self.damping = np.array([fact.damping for fact in facts])
        self.friction = np.array([fact.friction for fact in facts])
        names = [joint.name for joint in self._tree.joints]
        dof = np.array([self.joints.index(names[d]) if d >= 0 else -1 for d in self._tree.dof], dtype=np.int64)
        shapes = (getattr(self._tree, name) for name in Links._fields[3:])
        self._chain = Links(self._tree.parent, self._tree.kind, dof, *shapes)
        self.physics_step = scene.time_step
        self._substeps, self.time_step = substeps(scene.time_step)
        self._fixed_base = scene.fixed_base
        self._open = False
        self._time = 0.0
        self._build(scene, start)
        self._stops = np.array(self.limits).reshape(-1, 2)
        self._row = struct.Struct(f"{3 * n}d")
        self._strained, self._touching, self.resting = False, False, False
        self._effort: tuple[int, float] | None = None
        self._orders = np.zeros((3, n))
        self._read()
        self._left = 0  # substeps until Bullet's next step
        self._surprise = math.inf  # rad/s: how far the last step missed what was asked
        self._loads, self._book, self._work = np.zeros((2, n)), np.zeros((n, len(StepState))), workspace(n)
        self._book[:, StepState.ANGLE], self._book[:, StepState.SPEED] = self._positions, self._speeds
        self._begin()

    def load(self) -> FloatArray:
        """Load torques now: those of the physics step's beginning, as they grow within it."""
        load: FloatArray = self._loads[0] + self._loads[1] * self._book[:, StepState.CLOCK]
        return load

    def base(self) -> LinkPose | None:
        """Position, m, and orientation (x, y, z, w) of the centre of mass of a base that stands free."""
        return None if self._fixed_base else self._pose()

    def place_base(self, pose: LinkPose) -> None:
        """Put a base that stands free there, at rest."""
        if self._fixed_base:
            raise UsageError("the base of this robot is bolted down", "write fixed_base = false under [world]")
        bullet.resetBasePositionAndOrientation(self.body, *pose, **self._on)
        bullet.resetBaseVelocity(self.body, [0, 0, 0], [0, 0, 0], **self._on)

    def place_joint(self, joint: int, position: float) -> None:
        """Put a joint there, at rest; what was worked out ahead for the others stays."""
        bullet.resetJointState(self.body, self.links[joint], position, 0.0, **self._on)
        self._positions[joint], self._speeds[joint] = position, 0.0
        settle_at(self._book[joint], position)

    def poses(self) -> dict[str, LinkPose]:
        """Where the frame of each link is."""
        poses: dict[str, LinkPose] = {}
        for index, link in self._link_of.items():
            if index < 0:
                poses[self._tree.links[link]] = self._base_frame()
            else:
                state = bullet.getLinkState(self.body, index, computeForwardKinematics=1, **self._on)
                poses[self._tree.links[link]] = state[4], state[5]
        return poses

    def motion(self, link: str) -> LinkMotion:
        """How a link moves, as of Bullet's latest step."""
        index = self._index_of.get(link)
        if index is None:
            raise UsageError(f"the robot has no link {link!r}", f"it has: {', '.join(self._tree.links)}")
        if index < 0:
            (centre, _), (speed, spin) = self._pose(), bullet.getBaseVelocity(self.body, **self._on)
            place, turned = self._base_frame()
        else:
            centre, _, _, _, place, turned, speed, spin = bullet.getLinkState(self.body, index, 1, 1, **self._on)
        (x, y, z), (a, b, c) = (near - far for near, far in zip(place, centre, strict=True)), spin
        across = b * z - c * y, c * x - a * z, a * y - b * x
        moved = speed[0] + across[0], speed[1] + across[1], speed[2] + across[2]
        return LinkMotion(self._time, place, turned, moved, spin)

    def contacts(self) -> list[Contact]:
        """Points that carry something, as of Bullet's latest step."""
        contacts = []
        for point in bullet.getContactPoints(self.body, **self._on):
            _, _, body, link, _, place, _, normal, _, pressed, along, first, across, second = point
            if body != self.body and (pressed or along or across):
                parts = zip(normal, first, second, strict=True)
                x, y, z = (pressed * n + along * f + across * s for n, f, s in parts)
                contacts.append(Contact(self._tree.links[self._link_of[link]], place, (x, y, z)))
        return contacts

    def close(self) -> None:
        """Disconnect; may be called twice."""
        if self._open:
            self._open = False
            bullet.disconnect(**self._on)

    def dynamics(self) -> tuple[FloatArray, FloatArray]:
        """Inertia and load torque (gravity, Coriolis) of all joints at the present state, from the URDF's own figures.

        What a free base and contacts do is included.
        """
        n = len(self.joints)
        inertia, load = np.empty((n, n)), np.empty(n)
        if not self._fixed_base:
            place, orientation = bullet.getBasePositionAndOrientation(self.body, **self._on)
            linear, angular = bullet.getBaseVelocity(self.body, **self._on)
            _BASE_ROW.pack_into(self._base.motion.data, 0, *place, *orientation, *linear, *angular)
        contacts = Contacts(self._contacts(), _ANCHOR, _SLOW, self.physics_step)
        anchored = joint_dynamics(
            as_tuple(self._chain), as_tuple(self._base), as_tuple(contacts), self._positions, self._speeds, inertia,
            load,
        )  # fmt: skip
        self.resting = anchored > 0
        return inertia, load

    def _follow(self) -> None:
        self._finish()
        self._begin()

    def _begin(self) -> None:
        """Start a physics step: take over inertia and load."""
        rested = self.resting
        inertia, load = self.dynamics()
        self._system = System(inertia, self._loads, self._book, self._work, self.resting)
        # A load that gravity and speed make goes on growing; one that contacts make jumps.
        smooth = self._surprise < _SMALL_SURPRISE and not rested and not self.resting
        _begin(self._book, self._loads, load, smooth, self.physics_step, self._work)
        self._left = self._substeps

    def _finish(self) -> None:
        """Let Bullet do the step that was predicted, and take over what really happened."""
        dt, resting, before, orders = self.physics_step, self.resting, self._figures, self._orders
        landing = not self._touching
        _ask(self._book, self._stops, before, dt, resting, self._surprise, landing, orders)
        self._step(*orders.tolist())
        self._read()
        failed, self._surprise, self._strained = _take_over(
            self._book, self._stops, self._system.inertia, before, self._figures, orders, self._loads[1], dt, resting
        )
        if failed >= 0:
            raise SimulationDiverged(self.joints[failed], self._time)

    def _step(self, speeds: list[float], given: list[float], reach: list[float]) -> None:
        """One physics step under these torques, with motors that add up to `reach` where these speeds need it."""
        if any(given):
            bullet.setJointMotorControlArray(self.body, self.links, bullet.TORQUE_CONTROL, forces=given, **self._on)
        bullet.setJointMotorControlArray(
            self.body, self.links, bullet.VELOCITY_CONTROL, targetVelocities=speeds, forces=reach, **self._on
        )
        still = self.resting and not self._strained
        effort = _SWEEPS if still else _MORE_SWEEPS, _SETTLED if self._touching else _SOLVED
        if effort != self._effort:
            self._effort, (sweeps, residual) = effort, effort
            bullet.setPhysicsEngineParameter(numSolverIterations=sweeps, solverResidualThreshold=residual, **self._on)
        bullet.stepSimulation(**self._on)
        self._time += self.physics_step

    def _pose(self) -> LinkPose:
        """Of the base's centre of mass."""
        position, orientation = bullet.getBasePositionAndOrientation(self.body, **self._on)
        return position, orientation

    def _base_frame(self) -> LinkPose:
        local = bullet.getDynamicsInfo(self.body, -1, **self._on)[3:5]
        place, turned = bullet.multiplyTransforms(*self._pose(), *bullet.invertTransform(*local))
        return place, turned

    def _build(self, scene: Scene, start: tuple[float, ...]) -> None:
        """Make Bullet's world."""
        urdf = scene.urdf
        if scene.gui and sys.platform == "linux" and not os.environ.get("DISPLAY"):  # PyBullet would end the process
            raise UsageError("there is no display to show the world on", "set DISPLAY, or leave gui out")
        with _quiet(1) if scene.gui else nullcontext():
            self.client = bullet.connect(bullet.GUI if scene.gui else bullet.DIRECT)
        self._open = True
        self._on: dict[str, Any] = {"physicsClientId": self.client}
        bullet.setGravity(*scene.gravity, **self._on)
        bullet.setPhysicsEngineParameter(
            fixedTimeStep=scene.time_step,
            numSubSteps=0,
            deterministicOverlappingPairs=1,
            erp=min(_ERP * scene.time_step, 1.0),
            enableConeFriction=0,  # the cone's rows converge slowly: a standing robot creeps three times as far
            **self._on,
        )
        if scene.ground:
            plane = bullet.createCollisionShape(bullet.GEOM_PLANE, **self._on)
            floor = bullet.createMultiBody(0, plane, **self._on)
            bullet.changeDynamics(floor, -1, lateralFriction=1.0, **self._on)  # a pair's is the product of both
        flags = bullet.URDF_USE_INERTIA_FROM_FILE
        if scene.self_collision:
            flags |= bullet.URDF_USE_SELF_COLLISION | bullet.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        try:
            with _on_disk(scene) as file, _quiet(1):
                if file != urdf:
                    bullet.setAdditionalSearchPath(str(urdf.parent), **self._on)
                self.body = bullet.loadURDF(
                    str(file),
                    basePosition=[0, 0, scene.base_height],
                    useFixedBase=scene.fixed_base,
                    flags=flags,
                    **self._on,
                )
        except bullet.error as failure:
            self.close()
            raise RigError(urdf, "", f"PyBullet cannot read it: {failure}", "check that it is valid URDF") from failure
        self.links = self._prepare(start)
        infos = [
            bullet.getJointInfo(self.body, i, **self._on) for i in range(bullet.getNumJoints(self.body, **self._on))
        ]
        index_of = {info[12].decode(): info[0] for info in infos}
        self._index_of = {name: index_of.get(name, -1) for name in self._tree.links}
        self._link_of = {index: link for link, index in enumerate(self._index_of.values())}
        self._grip: dict[tuple[int, int, int], float] = {}
        place, orientation = bullet.getDynamicsInfo(self.body, -1, **self._on)[3:5]
        frame = np.array(place), np.array(bullet.getMatrixFromQuaternion(orientation)).reshape(3, 3)
        self._base = Base(np.zeros(BASE), *frame, np.array(scene.gravity), scene.fixed_base)
        self._base.motion[:7] = sum(self._pose(), ())
        bullet.performCollisionDetection(**self._on)

    def _prepare(self, start: tuple[float, ...]) -> list[int]:
        """Take Bullet's own motors, damping and clamps away, set stops and start; the index of each joint."""
        known = {}
        bullet.changeDynamics(self.body, -1, linearDamping=0, angularDamping=0, **self._on)
        for index in range(bullet.getNumJoints(self.body, **self._on)):
            info = bullet.getJointInfo(self.body, index, **self._on)
            known[info[1].decode()] = index
            if info[12].decode() in self._tree.dummies:  # Bullet has made it 1 kg
                moments = [DUMMY_INERTIA] * 3
                bullet.changeDynamics(self.body, index, mass=DUMMY_MASS, localInertiaDiagonal=moments, **self._on)
            # In one call with maxJointVelocity the damping would get lost.
            bullet.changeDynamics(self.body, index, linearDamping=0, angularDamping=0, jointDamping=0, **self._on)
            bullet.changeDynamics(self.body, index, maxJointVelocity=_FASTEST, **self._on)
            if info[2] != bullet.JOINT_FIXED:
                bullet.setJointMotorControl2(self.body, index, bullet.VELOCITY_CONTROL, force=0, **self._on)
        for name, stops, position in zip(self.joints, self.limits, start, strict=True):
            low, high = stops if np.isfinite(stops).all() else (1.0, -1.0)
            bullet.changeDynamics(self.body, known[name], jointLowerLimit=low, jointUpperLimit=high, **self._on)
            bullet.resetJointState(self.body, known[name], position, **self._on)
        for index in range(-1 if not self._fixed_base else 0, len(known)):
            self._give_inertia(index)
        return [known[name] for name in self.joints]

    def _give_inertia(self, index: int) -> None:
        """Set what Bullet has zeroed: it takes no moment that is above the sum of the others, were it by rounding."""
        name = bullet.getJointInfo(self.body, index, **self._on)[12].decode() if index >= 0 else self._tree.links[0]
        mass, _, moments, _, turned = bullet.getDynamicsInfo(self.body, index, **self._on)[:5]
        if mass > 0 and not any(moments):
            axes = np.array(bullet.getMatrixFromQuaternion(turned)).reshape(3, 3)
            tensor = self._tree.inertia[self._tree.links.index(name)]
            moments = np.diag(axes.T @ tensor @ axes).tolist()
            bullet.changeDynamics(self.body, index, localInertiaDiagonal=moments, **self._on)

    def _read(self) -> None:
        """Take over positions and speeds of the joints, and what their motors gave."""
        self._figures = np.empty((3, len(self.joints)))
        self._positions, self._speeds, _ = self._figures
        if self.links:
            states = bullet.getJointStates(self.body, self.links, **self._on)
            positions, speeds, _, used = zip(*states, strict=True)
            # three times faster than to let numpy take tuples in
            self._row.pack_into(self._figures.data, 0, *positions, *speeds, *used)

    def _contacts(self) -> FloatArray:
        """Contacts with what cannot move, see `Contacts.points`."""
        grip, link_of = self._grip, self._link_of
        figures: list[float] = []
        points = bullet.getContactPoints(self.body, **self._on)
        self._touching = len(points) > 0
        fresh = self._time == 0.0  # no force is known yet: what touches at the start stands there
        for _, _, body, link, other, place, _, normal, distance, pressed, along, first, across, second in points:
            if pressed > 0 or (fresh and distance <= 0):
                pair = link, body, other
                friction = grip[pair] if pair in grip else self._pair(pair)
                if friction >= 0:
                    most = math.inf if fresh and friction > 0 else friction * pressed
                    figures += (link_of[link], *place, *normal, 0.0, math.inf, *first, along, most)
                    figures += (*second, across, most)
        return np.array(figures, dtype=np.float64).reshape(-1, CONTACT)

    def _pair(self, pair: tuple[int, int, int]) -> float:
        """Friction of a link of ours on a link of another body, below 0 where that body moves."""
        link, body, other = pair
        facts = bullet.getDynamicsInfo(body, other, **self._on)
        friction = -1.0
        if body != self.body and facts[0] == 0:
            friction = facts[1] * bullet.getDynamicsInfo(self.body, link, **self._on)[1]
        self._grip[pair] = friction
        return friction


@contextmanager
def _on_disk(scene: Scene) -> Iterator[Path]:
    """A file that says what the scene's URDF says, as PyBullet reads files alone; its meshes were read whole."""
    urdf = scene.urdf
    with ExitStack() as stack:
        folder = cache(lambda: Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="axbridge-"))))

        def keep(mesh: Mesh) -> Path:
            file = folder() / f"mesh{len(list(folder().iterdir()))}.obj"
            file.write_bytes(mesh.file())
            return file

        text = with_checked_meshes(urdf, scene.text, keep, pictures=scene.gui) or scene.text
        if text is not None and max(map(len, text.splitlines())) > _LONGEST_LINE:
            text = re.sub(r">\s*<", ">\n<", text)
        if text is None or text == urdf.read_text(encoding="utf-8-sig"):
            yield urdf
            return
        file = folder() / urdf.name
        file.write_text(text, encoding="utf-8")
        yield file


# What the velocity motors are asked for, once a physics step, and what comes back: arithmetic only. Torque that Bullet
# applied and the servo did not give is owed: what is left of the servo's momentum goes into the next substeps.


@jit
def _begin(book: FloatArray, load: FloatArray, fresh: FloatArray, smooth: bool, step: float, work: FloatArray) -> None:
    """At the start of a physics step: take over the `fresh` load (n,), N·m, and begin to count what acts on the joints.

    `load` and `work` are those of `System`. A load that is not `smooth` does not go on growing as it did.
    """
    n = book.shape[0]
    for j in range(n):
        load[1, j] = (fresh[j] - load[0, j]) / step if smooth else 0.0
        load[0, j] = fresh[j]
        book[j, StepState.PUSH] = book[j, StepState.MOMENTUM_RESIDUAL]
        book[j, StepState.DAMP] = book[j, StepState.CLOCK] = 0.0
        book[j, StepState.START] = book[j, StepState.ANGLE]
        book[j, StepState.START_SPEED] = book[j, StepState.SPEED]
    forget(work)


@jit
def _ask(
    book: FloatArray, stops: FloatArray, actual: FloatArray, step: float, resting: bool, missed: float, landing: bool,
    orders: FloatArray,
) -> None:  # fmt: skip
    """At the end of a physics step: what to ask of each joint, as `orders` (3, n).

    They become a speed, the torque that is given, as expected, and the most that a motor adds to it where the speed
    needs that. Without contact the speed is the mean one of the step, so that Bullet's one-step rule for positions
    makes no error, and the servos keep their own speed at its end. A contact leaves the joints at the speed it lets
    them have, so there they get that of the end; see `_keep_pace`. `actual` are Bullet's figures at the start, as of
    `_read`; `missed` is what `_take_over` said of the step before. Where the robot may be `landing`, a joint may be
    taken to its stop and past it before the engine knows of either, so there the motor may do what the stop would.
    """
    margin = min(_LITTLE + missed, _MARGIN) if resting else _MARGIN
    for j in range(book.shape[0]):
        end = book[j, StepState.SPEED]
        armature = book[j, StepState.ARMATURE]
        book[j, StepState.PREDICTED_SPEED] = end
        if book[j, StepState.PLAY] > 0.0:
            # What passed on to a joint with backlash is known; below, what its rotor kept is taken off again.
            book[j, StepState.PUSH] += armature * (end - book[j, StepState.START_SPEED])
        if book[j, StepState.PLAY] > 1.0:
            book[j, StepState.DAMP] = 0.0
        orders[0, j] = end if resting else (book[j, StepState.ANGLE] - book[j, StepState.START]) / step
        stiffness = armature + book[j, StepState.DAMP]  # N·m·s for each rad/s that the joint is off the prediction
        orders[1, j] = (book[j, StepState.PUSH] - armature * (end - book[j, StepState.START_SPEED])) / step
        reach = stiffness * (abs(orders[0, j] - actual[1, j]) + margin)
        near = _NEAR + step * abs(actual[1, j])
        angle = book[j, StepState.START]
        if angle > stops[j, 1] - near or angle < stops[j, 0] + near:
            reach += _FIRM  # a hard stop gives way to nothing; Bullet's own reacts only once it is passed
        sudden = step * _SUDDEN
        if landing and not stops[j, 0] + sudden <= actual[0, j] <= stops[j, 1] - sudden:
            reach += _FIRM
        orders[2, j] = reach / step


@jit
def _take_over(
    book: FloatArray, stops: FloatArray, inertia: FloatArray, before: FloatArray, actual: FloatArray,
    orders: FloatArray, growth: FloatArray, step: float, resting: bool,
) -> tuple[int, float, bool]:  # fmt: skip
    """After a physics step: the joints' true state, and what is left over of the servos' momentum, into the book.

    Args:
        book: (n, len(Book)), changed in place.
        stops: rad, (n, 2).
        inertia: (n, n), kg·m².
        before: Bullet's figures before the step, as of `_read`; `actual` of after it, (3, n).
        actual: See there.
        orders: As `_ask` made them, (3, n).
        growth: Of the load in this step, which Bullet does not see, N·m/s.
        step: The physics step, s.
        resting: As in `_ask`.

    Returns:
        The joint whose motion left the finite range, or -1; by how much the joint that went least as asked missed its
        speed, rad/s; and whether one moves, is past its stop or went far from what was asked: a hard case to solve.
    """
    n = book.shape[0]
    worst, strained = 0.0, False
    for j in range(n):
        position, speed = actual[0, j], actual[1, j]
        if not abs(speed) < _DIVERGED:
            return j, worst, True
        missed = speed - orders[0, j]
        worst = max(worst, abs(missed))
        past = max(stops[j, 0] - position, position - stops[j, 1])
        strained = strained or past > _PAST or abs(speed) > _STILL or abs(missed) > _STRAIN
        ahead = book[j, StepState.SPEED] - orders[0, j]
        # A joint that was stopped by something does not gain what it was predicted to.
        ahead *= max(0.0, 1.0 - abs(missed) / (abs(ahead) + 1e-12))
        book[j, StepState.SPEED] = speed + ahead
        _keep_pace(book[j], before[1, j], speed, step, resting)
        book[j, StepState.ANGLE] = position - book[j, StepState.LEAD]
        gained = book[j, StepState.SPEED] - book[j, StepState.START_SPEED]
        book[j, StepState.MOMENTUM_RESIDUAL] = book[j, StepState.PUSH] - book[j, StepState.DAMP] * missed
        applied = orders[1, j] + actual[2, j]
        book[j, StepState.MOMENTUM_RESIDUAL] -= book[j, StepState.ARMATURE] * gained + step * (
            applied + 0.5 * step * growth[j]
        )
    for j in range(n):
        if not resting:
            for k in range(n):
                book[j, StepState.MOMENTUM_RESIDUAL] -= inertia[j, k] * (
                    book[k, StepState.SPEED] - book[k, StepState.START_SPEED] - actual[1, k] + before[1, k]
                )
        # What a collision leaves over is let go: carried on, it keeps a robot on the floor trembling.
        jump = (actual[1, j] - before[1, j]) / _JUMP
        book[j, StepState.MOMENTUM_RESIDUAL] /= 1.0 + jump * jump
        if book[j, StepState.PLAY] > 1.0:
            book[j, StepState.MOMENTUM_RESIDUAL] += book[j, StepState.ARMATURE] * (
                book[j, StepState.SPEED] - book[j, StepState.PREDICTED_SPEED]
            )
    return -1, worst, strained


@jit
def _keep_pace(row: FloatArray, before: float, actual: float, step: float, resting: bool) -> None:
    """Keep LEAD, how far Bullet's position is ahead after a step, from the speeds before and after it.

    Bullet moves a joint all step long at the speed of the step's end. Where it was asked for just that speed,
    `resting`, positions are half a step ahead of speeds; taken as they are, a swing would lose height in each step.
    Where it was asked for the mean speed they are not ahead. The change from one to the other takes some steps.
    """
    due = 0.0
    if resting:
        due = 0.5 * step * min(max(actual, -_MARGIN), _MARGIN)  # faster, a landing has thrown it
        row[StepState.LEAD] += due - 0.5 * step * min(max(before, -_MARGIN), _MARGIN)
    row[StepState.LEAD] += _GIVE * (due - row[StepState.LEAD])
