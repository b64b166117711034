"""PyBullet as an engine: any URDF, with a fixed or a floating base, with ground and contacts.

Bullet's joints have no armature, and its motors have no back-EMF; an explicit back-EMF torque makes light links
unstable. So the engine predicts joints and drives in substeps, with the tree's inertia, load and contacts. Then it
commands Bullet's velocity motors to the predicted speed, with limited torque. The servos' momentum that Bullet did not
apply goes into the next physics step. `docs/physics.md` says how much each part contributes.
"""

from __future__ import annotations

import math
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
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
from axbridge.sim.engines.bullet.ahead import AheadEngine, StepState, System, mark_stale, settle_at, workspace
from axbridge.sim.engines.bullet.tree_dynamics import BASE, CONTACT, Base, Contacts, Links, joint_dynamics


@contextmanager
def _quiet(descriptor: int) -> Iterator[None]:
    """Silence C code, which writes directly to a file descriptor, while the block runs."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    try:
        original = os.dup(descriptor)
    except OSError:
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    try:
        yield
    finally:
        os.dup2(original, descriptor)
        os.close(original)
        os.close(null)


with _quiet(2):  # the import prints PyBullet's build time
    import pybullet as bullet


_BASE_ROW, _CONTACT_ROW = struct.Struct(f"{BASE}d"), struct.Struct(f"{CONTACT}d")
_FASTEST = 1e5  # rad/s: Bullet clamps joint speeds silently, by default at 100, which would hide a divergence
# Largest number of the solver's sweeps: for a standing robot, and for all other states (a 30 g foot that is pressed on
# the floor in a fall needs more).
_SWEEPS, _MORE_SWEEPS = 50, 200
# (rad/s)²: residual at which the solver ends, with contacts (small corrections would continue for long) and without.
# With coarser residuals, remaining forces shift the feet until a corner loses contact.
_CONTACT_RESIDUAL, _AIR_RESIDUAL = 5e-4, 1e-7
_ANCHOR = 20.0  # kg: mass of a contact in the prediction, along an axis that it holds
_SLOW = 0.1  # m/s: a contact point that is faster along an axis is about to separate or to slide
_LONGEST_LINE = 1000  # characters: PyBullet reads lines in pieces, and fails above about 8 kB
_ERP = 48.0  # 1/s: correction of a joint past its stop; Bullet's 0.2 per step throws it back when steps are short
_SUDDEN = 30.0  # rad/s: change of a light link's speed within a step in a landing
_SMALL_ERROR = 0.01  # rad/s
_STOP_IMPULSE = 1.0  # N·m·s: largest impulse of a hard stop in a step
# rad/s: error of the prediction up to which a motor holds its joint. A large margin holds a landing. But a motor that
# holds its speed with any torque pulls feet off the floor, which a servo does not do. So while contacts hold the robot,
# the margin is the last step's error plus a little.
_MARGIN, _CONTACT_MARGIN = 10.0, 0.3
_JUMP = 0.2  # rad/s: a larger change of speed within a physics step counts as a collision
_NEAR = 0.02  # rad
_LEAD_DECAY = 0.3  # share of a wrong lead that is corrected in a step
_DIVERGED = 1e4  # rad/s
# Each of these needs more sweeps: a joint that is faster, rad/s (a standing robot's are slower); a joint farther past
# its stop, rad; a larger error of the commanded speed, rad/s.
_MOVING, _PAST_STOP, _SPEED_ERROR = 0.5, 0.005, 1.0


class BulletEngine(AheadEngine):
    """A Bullet world with one robot; `axbridge.sim.engine.Engine` describes its methods.

    Attributes:
        physics_step: One step of Bullet, s.
        client: PyBullet's client id, for callers that add bodies to the world.
        body: The robot's body id.
        links: PyBullet's index of each joint and of the link that it moves.
        resting: Whether contacts with bodies at rest hold the robot, since the last `dynamics`.

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
        rows = [self.joints.index(joint.name) for joint in self._tree.joints]
        chain = Links(*(getattr(self._tree, name) for name in Links._fields))
        self._chain = chain._replace(dof=np.array([rows[d] if d >= 0 else -1 for d in chain.dof], dtype=np.int64))
        self.physics_step = scene.time_step
        self._substeps, self.time_step = substeps(scene.time_step)
        self._fixed_base = scene.fixed_base
        self._open = False
        self._end_pose: LinkPose | None = None
        self._time = 0.0
        self._build(scene, start)
        self._stops = np.array(self.limits).reshape(-1, 2)
        self._row = struct.Struct(f"{3 * n}d")
        self._strained, self._touching, self.resting = False, False, False
        self._effort: tuple[int, float] | None = None
        self._orders, self._figures, self._before = np.zeros((3, 3, n))
        self._read()
        self._left = 0  # substeps until Bullet's next step
        self._speed_error = math.inf  # rad/s: largest difference from a commanded speed in the last step
        self._loads, self._book, self._work = np.zeros((2, n)), np.zeros((n, len(StepState))), workspace(n)
        self._book[:, StepState.ANGLE], self._book[:, StepState.SPEED] = self._positions, self._speeds
        self._begin()

    def load(self) -> FloatArray:
        """Return the present load torques: those at the physics step's start plus their growth since then."""
        load: FloatArray = self._loads[0] + self._loads[1] * self._book[:, StepState.CLOCK]
        return load

    def base(self) -> LinkPose | None:
        """Return position, m, and orientation (x, y, z, w) of a free base's centre of mass; None for a fixed base."""
        return None if self._fixed_base else self._pose() if self._open else self._end_pose

    def place_base(self, pose: LinkPose) -> None:
        """Place a free base at a pose, at rest."""
        if self._fixed_base:
            raise UsageError("the base of this robot is bolted down", "write fixed_base = false under [world]")
        bullet.resetBasePositionAndOrientation(self.body, *pose, **self._on)
        bullet.resetBaseVelocity(self.body, [0, 0, 0], [0, 0, 0], **self._on)

    def place_joint(self, joint: int, position: float) -> None:
        """Place a joint at a position, at rest; the prediction of the other joints stays."""
        bullet.resetJointState(self.body, self.links[joint], position, 0.0, **self._on)
        self._positions[joint], self._speeds[joint] = position, 0.0
        settle_at(self._book[joint], position)

    def poses(self) -> dict[str, LinkPose]:
        """Return the pose of each link's frame."""
        poses: dict[str, LinkPose] = {}
        for index, link in self._link_of.items():
            if index < 0:
                poses[self._tree.links[link]] = bullet.multiplyTransforms(*self._pose(), *self._base_link)
            else:
                state = bullet.getLinkState(self.body, index, computeForwardKinematics=1, **self._on)
                poses[self._tree.links[link]] = state[4], state[5]
        return poses

    def motion(self, link: str) -> LinkMotion:
        """Return the motion of a link at the end of Bullet's latest step."""
        index = self._index_of.get(link)
        if index is None:
            raise UsageError(f"the robot has no link {link!r}", f"it has: {', '.join(self._tree.links)}")
        if index < 0:
            centre, orientation = self._pose()
            place, turned = bullet.multiplyTransforms(centre, orientation, *self._base_link)
            speed, spin = bullet.getBaseVelocity(self.body, **self._on)
        else:
            centre, _, _, _, place, turned, speed, spin = bullet.getLinkState(self.body, index, 1, 1, **self._on)
        (x, y, z), (a, b, c) = (near - far for near, far in zip(place, centre, strict=True)), spin
        across = b * z - c * y, c * x - a * z, a * y - b * x
        moved = speed[0] + across[0], speed[1] + across[1], speed[2] + across[2]
        return LinkMotion(self._time, place, turned, moved, spin)

    def contacts(self) -> list[Contact]:
        """Return the contact points with a force, of Bullet's latest step."""
        contacts = []
        for point in bullet.getContactPoints(self.body, **self._on):
            _, _, body, link, _, place, _, normal, _, pressure, along, first, across, second = point
            if body != self.body and (pressure or along or across):
                parts = zip(normal, first, second, strict=True)
                x, y, z = (pressure * n + along * f + across * s for n, f, s in parts)
                contacts.append(Contact(self._tree.links[self._link_of[link]], place, (x, y, z)))
        return contacts

    def close(self) -> None:
        """Disconnect; may be called twice."""
        if self._open:
            self._open = False
            with suppress(bullet.error):  # the user has closed the window
                self._end_pose = self._pose()
            bullet.disconnect(**self._on)

    def dynamics(self) -> tuple[FloatArray, FloatArray]:
        """Return inertia (n, n) and load torque (n,) (gravity, Coriolis) of all joints in the present state.

        They come from the URDF's masses, and include the effects of a free base and of contacts.
        """
        n = len(self.joints)
        inertia, load = np.empty((n, n)), np.empty(n)
        if not self._fixed_base:
            place, orientation = bullet.getBasePositionAndOrientation(self.body, **self._on)
            linear, angular = bullet.getBaseVelocity(self.body, **self._on)
            _BASE_ROW.pack_into(self._base.motion.data, 0, *place, *orientation, *linear, *angular)
        contacts = as_tuple(Contacts(self._contacts(), _ANCHOR, _SLOW, self.physics_step))
        anchored = joint_dynamics(*self._tree_arrays, contacts, self._positions, self._speeds, inertia, load)
        self.resting = anchored > 0
        return inertia, load

    def _begin(self) -> None:
        """Start a physics step with its inertia and load."""
        was_resting = self.resting
        inertia, load = self.dynamics()
        self._system = System(inertia, self._loads, self._book, self._work, self.resting)
        # A load from gravity and speed changes steadily; a load from contacts changes suddenly.
        smooth = self._speed_error < _SMALL_ERROR and not was_resting and not self.resting
        _begin(self._book, self._loads, load, smooth, self.physics_step, self._work)
        self._left = self._substeps

    def _follow(self) -> None:
        """Run Bullet's step with the predicted speeds, read the actual motion, and begin the next step."""
        dt, resting, orders, inertia = self.physics_step, self.resting, self._orders, self._system.inertia
        landing = not self._touching
        _command_motors(self._book, self._stops, self._figures, dt, resting, self._speed_error, landing, orders)
        self._step(*orders.tolist())
        self._read()
        failed, self._speed_error, self._strained = _take_over(
            self._book, self._stops, inertia, self._before, self._figures, orders, self._loads[1], dt, resting
        )
        if failed >= 0:
            raise SimulationDiverged(self.joints[failed], self._time)
        self._begin()

    def _step(self, speeds: list[float], torques: list[float], limits: list[float]) -> None:
        """Run a physics step with these torques, N·m; motors add up to `limits`, N·m, to reach `speeds`, rad/s."""
        if any(torques):
            bullet.setJointMotorControlArray(self.body, self.links, bullet.TORQUE_CONTROL, forces=torques, **self._on)
        bullet.setJointMotorControlArray(
            self.body, self.links, bullet.VELOCITY_CONTROL, targetVelocities=speeds, forces=limits, **self._on
        )
        still = self.resting and not self._strained
        effort = _SWEEPS if still else _MORE_SWEEPS, _CONTACT_RESIDUAL if self._touching else _AIR_RESIDUAL
        if effort != self._effort:
            self._effort, (sweeps, residual) = effort, effort
            bullet.setPhysicsEngineParameter(numSolverIterations=sweeps, solverResidualThreshold=residual, **self._on)
        bullet.stepSimulation(**self._on)
        self._time += self.physics_step

    def _pose(self) -> LinkPose:
        """Return the pose of the base's centre of mass."""
        position, orientation = bullet.getBasePositionAndOrientation(self.body, **self._on)
        return position, orientation

    def _build(self, scene: Scene, start: tuple[float, ...]) -> None:
        """Build Bullet's world."""
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
            enableConeFriction=0,  # a friction cone converges slowly: a standing robot creeps three times as far
            **self._on,
        )
        if scene.ground:
            plane = bullet.createCollisionShape(bullet.GEOM_PLANE, **self._on)
            floor = bullet.createMultiBody(0, plane, **self._on)
            bullet.changeDynamics(floor, -1, lateralFriction=1.0, **self._on)  # Bullet multiplies both frictions
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
        count = bullet.getNumJoints(self.body, **self._on)
        infos = [bullet.getJointInfo(self.body, index, **self._on) for index in range(count)]
        index_of_joint, index_of_link = ({info[k].decode(): info[0] for info in infos} for k in (1, 12))
        self.links = [index_of_joint[name] for name in self.joints]
        self._index_of = {name: index_of_link.get(name, -1) for name in self._tree.links}
        self._link_of = {index: link for link, index in enumerate(self._index_of.values())}
        self._prepare(start)
        self._frictions: dict[tuple[int, int, int], float] = {}  # results of `_friction_of`
        place, orientation = bullet.getDynamicsInfo(self.body, -1, **self._on)[3:5]
        self._base_link = bullet.invertTransform(place, orientation)  # link frame about the centre of mass
        frame = np.array(place), np.array(bullet.getMatrixFromQuaternion(orientation)).reshape(3, 3)
        self._base = Base(np.zeros(BASE), *frame, np.array(scene.gravity), scene.fixed_base)
        self._base.motion[:7] = sum(self._pose(), ())
        self._tree_arrays = as_tuple(self._chain), as_tuple(self._base)
        bullet.performCollisionDetection(**self._on)

    def _prepare(self, start: tuple[float, ...]) -> None:
        """Remove Bullet's motors, damping and speed limits; restore its inertias; set stops and start."""
        for index, link in self._link_of.items():
            if index >= 0 and self._tree.links[link] in self._tree.dummies:  # Bullet gives a link without mass 1 kg
                moments = [DUMMY_INERTIA] * 3
                bullet.changeDynamics(self.body, index, mass=DUMMY_MASS, localInertiaDiagonal=moments, **self._on)
            # In one call with maxJointVelocity, Bullet ignores the damping.
            bullet.changeDynamics(self.body, index, linearDamping=0, angularDamping=0, jointDamping=0, **self._on)
            bullet.changeDynamics(self.body, index, maxJointVelocity=_FASTEST, **self._on)
            self._restore_inertia(index, self._tree.inertia[link])
        for index, stops, position in zip(self.links, self.limits, start, strict=True):
            low, high = stops if np.isfinite(stops).all() else (1.0, -1.0)
            bullet.setJointMotorControl2(self.body, index, bullet.VELOCITY_CONTROL, force=0, **self._on)
            bullet.changeDynamics(self.body, index, jointLowerLimit=low, jointUpperLimit=high, **self._on)
            bullet.resetJointState(self.body, index, position, **self._on)

    def _restore_inertia(self, index: int, inertia: FloatArray) -> None:
        """Set moments of inertia that Bullet made 0: it refuses a moment above the others' sum, even by rounding."""
        mass, _, moments, _, turned = bullet.getDynamicsInfo(self.body, index, **self._on)[:5]
        if mass > 0 and not any(moments):
            axes = np.array(bullet.getMatrixFromQuaternion(turned)).reshape(3, 3)
            moments = np.diag(axes.T @ inertia @ axes).tolist()
            bullet.changeDynamics(self.body, index, localInertiaDiagonal=moments, **self._on)

    def _read(self) -> None:
        """Read positions and speeds of the joints, and their motors' torques; keep the result before."""
        self._figures, self._before = self._before, self._figures
        self._positions, self._speeds, _ = self._figures
        if self.links:
            states = bullet.getJointStates(self.body, self.links, **self._on)
            positions, speeds, _, used = zip(*states, strict=True)
            # three times as fast as numpy's conversion of tuples
            self._row.pack_into(self._figures.data, 0, *positions, *speeds, *used)

    def _contacts(self) -> FloatArray:
        """Return the contacts with bodies that cannot move, as `Contacts.points`."""
        frictions, link_of = self._frictions, self._link_of
        rows = bytearray()  # packed numbers: numpy needs twice as long to convert a list
        points = bullet.getContactPoints(self.body, **self._on)
        self._touching = len(points) > 0
        first_step = self._time == 0.0  # there are no forces yet: contacts at the start are taken as holding
        for _, _, body, link, other, place, _, normal, distance, pressure, along, first, across, second in points:
            if pressure > 0 or (first_step and distance <= 0):
                pair = link, body, other
                friction = frictions[pair] if pair in frictions else self._friction_of(pair)
                if friction >= 0:
                    limit = math.inf if first_step and friction > 0 else friction * pressure
                    axes = *normal, 0.0, math.inf, *first, along, limit, *second, across, limit
                    rows += _CONTACT_ROW.pack(link_of[link], *place, *axes)
        return np.frombuffer(rows).reshape(-1, CONTACT)

    def _friction_of(self, pair: tuple[int, int, int]) -> float:
        """Return the friction coefficient of the robot's link on a link of another body; -1 when that body moves."""
        link, body, other = pair
        facts = bullet.getDynamicsInfo(body, other, **self._on)
        friction = -1.0
        if body != self.body and facts[0] == 0:
            friction = facts[1] * bullet.getDynamicsInfo(self.body, link, **self._on)[1]
        self._frictions[pair] = friction
        return friction


@contextmanager
def _on_disk(scene: Scene) -> Iterator[Path]:
    """Yield a file with the scene's URDF, because PyBullet only reads files; its meshes are checked before."""
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


# Commands of the velocity motors in a physics step, and the evaluation of the step: arithmetic only. The difference
# between the servo's momentum and the torque that Bullet applied goes into the next substeps (MOMENTUM_RESIDUAL).


@jit
def _begin(book: FloatArray, load: FloatArray, fresh: FloatArray, smooth: bool, step: float, work: FloatArray) -> None:
    """Start a physics step: set the `fresh` load (n,), N·m, and reset the sums of the book.

    `load` and `work` are those of `System`. Only a `smooth` load continues to grow as in the last step.
    """
    n = book.shape[0]
    for j in range(n):
        load[1, j] = (fresh[j] - load[0, j]) / step if smooth else 0.0
        load[0, j] = fresh[j]
        book[j, StepState.PUSH] = book[j, StepState.MOMENTUM_RESIDUAL]
        book[j, StepState.DAMP] = book[j, StepState.CLOCK] = 0.0
        book[j, StepState.START] = book[j, StepState.ANGLE]
        book[j, StepState.START_SPEED] = book[j, StepState.SPEED]
    mark_stale(work)


@jit
def _command_motors(
    book: FloatArray, stops: FloatArray, actual: FloatArray, step: float, resting: bool, missed: float, landing: bool,
    orders: FloatArray,
) -> None:  # fmt: skip
    """Set the commands of Bullet's motors at the end of a predicted physics step, as `orders` (3, n).

    They are each joint's speed, rad/s, the expected torque, N·m, and the largest torque that a motor adds for the
    speed, N·m. Without contacts, the speed is the step's mean speed, so that Bullet's one-step rule for positions makes
    no error; the predicted end speeds stay in the book. With contacts (`resting`), the joints keep the speed that
    Bullet computes, so the command is the end speed; see `_update_lead`.

    `actual` is the result of `_read` at the start; `missed` is the speed error of the last step, rad/s. In a possible
    `landing`, a joint can pass its stop within the step, so its motor may give the stop's impulse.
    """
    margin = min(_CONTACT_MARGIN + missed, _MARGIN) if resting else _MARGIN
    for j in range(book.shape[0]):
        end = book[j, StepState.SPEED]
        armature = book[j, StepState.ARMATURE]
        book[j, StepState.PREDICTED_SPEED] = end
        if book[j, StepState.PLAY] > 0.0:
            # PUSH already excludes the impulse that a rotor with play kept; this cancels the subtraction below.
            book[j, StepState.PUSH] += armature * (end - book[j, StepState.START_SPEED])
        if book[j, StepState.PLAY] > 1.0:
            book[j, StepState.DAMP] = 0.0
        orders[0, j] = end if resting else (book[j, StepState.ANGLE] - book[j, StepState.START]) / step
        stiffness = armature + book[j, StepState.DAMP]  # N·m·s per rad/s of error of the predicted speed
        orders[1, j] = (book[j, StepState.PUSH] - armature * (end - book[j, StepState.START_SPEED])) / step
        reach = stiffness * (abs(orders[0, j] - actual[1, j]) + margin)
        near = _NEAR + step * abs(actual[1, j])
        angle = book[j, StepState.START]
        if angle > stops[j, 1] - near or angle < stops[j, 0] + near:
            reach += _STOP_IMPULSE  # a hard stop is rigid, but Bullet's stop acts only after the joint has passed it
        sudden = step * _SUDDEN
        if landing and not stops[j, 0] + sudden <= actual[0, j] <= stops[j, 1] - sudden:
            reach += _STOP_IMPULSE
        orders[2, j] = reach / step


@jit
def _take_over(
    book: FloatArray, stops: FloatArray, inertia: FloatArray, before: FloatArray, actual: FloatArray,
    orders: FloatArray, growth: FloatArray, step: float, resting: bool,
) -> tuple[int, float, bool]:  # fmt: skip
    """Write the joints' state after a physics step, and the servos' remaining momentum, into the book.

    Args:
        book: (n, len(StepState)), changed in place.
        stops: rad, (n, 2).
        inertia: (n, n), kg·m².
        before: Result of `_read` before the step, (3, n).
        actual: Result of `_read` after the step, (3, n).
        orders: Result of `_command_motors`, (3, n).
        growth: Of the load in this step, which Bullet does not use, N·m/s.
        step: The physics step, s.
        resting: As in `_command_motors`.

    Returns:
        The joint whose motion is not finite, or -1; the largest speed error of a joint, rad/s; and whether the next
        step needs more sweeps, because a joint moves, is past its stop or has a large speed error.
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
        strained = strained or past > _PAST_STOP or abs(speed) > _MOVING or abs(missed) > _SPEED_ERROR
        ahead = book[j, StepState.SPEED] - orders[0, j]
        # A joint that a contact or stop has stopped does not get the predicted change of speed.
        ahead *= max(0.0, 1.0 - abs(missed) / (abs(ahead) + 1e-12))
        book[j, StepState.SPEED] = speed + ahead
        _update_lead(book[j], before[1, j], speed, step, resting)
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
        # The residual of a collision is discarded: otherwise it keeps a robot on the floor vibrating.
        jump = (actual[1, j] - before[1, j]) / _JUMP
        book[j, StepState.MOMENTUM_RESIDUAL] /= 1.0 + jump * jump
        if book[j, StepState.PLAY] > 1.0:
            book[j, StepState.MOMENTUM_RESIDUAL] += book[j, StepState.ARMATURE] * (
                book[j, StepState.SPEED] - book[j, StepState.PREDICTED_SPEED]
            )
    return -1, worst, strained


@jit
def _update_lead(row: FloatArray, before: float, actual: float, step: float, resting: bool) -> None:
    """Update LEAD, the lead of Bullet's position after a step, from the speeds before and after the step, rad/s.

    Bullet moves a joint through the whole step with the speed of its end. If the command was this speed (`resting`),
    positions are half a step ahead of speeds; uncorrected, a swing would lose height in each step. If the command was
    the mean speed, there is no lead. The change between both takes some steps.
    """
    due = 0.0
    if resting:
        due = 0.5 * step * min(max(actual, -_MARGIN), _MARGIN)  # a higher speed comes from a landing
        row[StepState.LEAD] += due - 0.5 * step * min(max(before, -_MARGIN), _MARGIN)
    row[StepState.LEAD] += _LEAD_DECAY * (due - row[StepState.LEAD])
