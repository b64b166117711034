"""MuJoCo as an engine: joints, drives, dry friction, stops and contacts are solved in one system.

The equation of a step for all degrees of freedom, from speeds v to v⁺, is

    (M + A + h·W·D) v⁺ = (M + A) v - h (1 - W) D v + h (τ - c) + h·Jᵀf

with the drives' torque τ, damping D and armature A (`axbridge.sim.substep`) and weights W (`fitted_weight`). h·W·D is
part of MuJoCo's armature, so the solver of contacts, friction and stops includes the damping. An implicit integrator
adds damping after the constraint forces are solved, which makes light links vibrate. Dry friction is MuJoCo's friction
loss. An ideal motor is a friction loss about its target speed.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NamedTuple

import mujoco
import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.errors import SimulationDiverged, UsageError, install
from axbridge.jit import as_tuple, jit
from axbridge.rotations import LinkPose
from axbridge.servo.columns import Joint, Param, Passive
from axbridge.servo.motor import fitted_weight
from axbridge.sim.engine import Contact, LinkMotion, Scene, arrange, substeps
from axbridge.sim.engines.mujoco.model import build_model
from axbridge.sim.one_joint import reached
from axbridge.sim.substep import ARMATURE, DAMPING, LIMIT, LOOSE, PULL, TORQUE, Drives, end_step, gather

_FINE, _COARSE = 1e-3, 1 / 240  # s, longest steps with a base that is bolted down, and with a free base
_SANE = 1e9  # rad/s
_FRAME = 1 / 60  # s, between two frames of a window
_CLOSE_TIMEOUT = 5.0  # s: time limit for closing a window
_GIVE = 0.003  # factor on MuJoCo's compliance of 0.01 %, for dry friction, motors and stops
_RETURN = 1.0  # rad/s: return speed of a joint that is past a stop
_SLACK = 5e-7  # rad past a stop that are not corrected: the correction would act against the joint's own friction
_LIGHTEST = 1e-15  # kg·m²
_DONE, _DIVERGED = -1, -2  # results of `_end_and_begin` that are no joint


class MujocoEngine:
    """See `axbridge.sim.engine.Engine`.

    MuJoCo's positions are half a step ahead of its speeds, as in every leapfrog method. `state` corrects this.
    """

    def __init__(self, scene: Scene) -> None:
        arrangement = arrange(scene)
        self._tree, facts, limits, start = arrangement
        self._ideal = tuple(scene.ideal)
        n = len(facts) - len(self._ideal)
        self._names = tuple(fact.name for fact in facts)
        self.joints, self.limits = self._names[:n], limits[:n]
        self.kinds = tuple("prismatic" if fact.linear else "revolute" for fact in facts[:n])
        self.damping = np.array([fact.damping for fact in facts[:n]])
        self.friction = np.array([fact.friction for fact in facts[:n]])
        for motor, fact in zip(self._ideal, facts[n:], strict=True):
            motor.attach(fact, weightless=fact.name in self._tree.weightless)
        # A world with only ideal joints moves in whole physics steps, as in Webots. Control loops need shorter steps;
        # with a free base, contacts limit the accuracy, so longer steps are enough.
        whole = bool(self._ideal) and not scene.joints
        longest = scene.time_step if whole else _FINE if scene.fixed_base else _COARSE
        self.time_step = substeps(scene.time_step, longest)[1]
        self._fixed_base = scene.fixed_base
        self._time = 0.0
        self.model, self._bodies, numbers = build_model(scene, arrangement, self.time_step)
        self._link_of = dict(zip(self._bodies.tolist(), self._tree.links, strict=True))
        self.data = mujoco.MjData(self.model)
        self._qpos, self._dof = self.model.jnt_qposadr[numbers], self.model.jnt_dofadr[numbers]
        self._driven, self._driven_qpos, self._ranges = self._dof[:n], self._qpos[:n], numbers[:n]
        self._ideal_dof, self._ideal_qpos, self._ideal_joints = self._dof[n:], self._qpos[n:], numbers[n:]
        self._held = np.zeros(self.model.nv)  # N·m: torques of dry friction and ideal motors in the latest step
        self._still = np.zeros(self.model.nv)
        self._diagonal = self.model.M_rowadr[self._driven] + self.model.M_rownnz[self._driven] - 1
        # Views of MuJoCo's memory: creating them in each step takes as long as the step's arithmetic.
        self._q, self._v, self._inertia = self.data.qpos, self.data.qvel, self.data.M
        self._applied, self._friction = self.data.qfrc_applied, self.model.dof_frictionloss
        self._armature, self._range = self.model.dof_armature, self.model.jnt_range
        self._memory = as_tuple(_Memory(
            self._driven, self._driven_qpos, self._ranges, self._diagonal, self._inertia, self._q, self._v,
            self._armature, self._friction, self._range, self._applied, self._held, np.empty((3, n)),
        ))  # fmt: skip
        self._q[self._qpos] = start
        self._weighed = False
        self._solve(self._still)
        self._sense(np.zeros(len(self._ideal)))
        self._window = _Window(self.model, self.data) if scene.gui else None
        self._shown = 0.0

    def state(self) -> tuple[FloatArray, FloatArray]:
        speeds = self._v[self._driven]
        positions: FloatArray = self._q[self._driven_qpos] - 0.5 * self.time_step * speeds
        return positions, speeds

    def load(self) -> FloatArray:
        data = self.data
        force = np.zeros(data.nefc)
        touching = data.ne + data.nf + data.nl  # rows of contacts come last
        force[touching:] = data.efc_force[touching:]
        pull = np.zeros(self.model.nv)
        mujoco.mj_mulJacTVec(self.model, data, pull, force)
        pull = data.qfrc_bias - pull
        if not self._fixed_base:  # the base accelerates under the load
            inertia = np.zeros((6, 6))
            for row in range(6):
                first, count = self.model.M_rowadr[row], self.model.M_rownnz[row]
                inertia[row, self.model.M_colind[first : first + count]] = data.M[first : first + count]
            inertia += np.tril(inertia, -1).T
            moving, beside = np.zeros(self.model.nv), np.zeros(self.model.nv)
            moving[:6] = -np.linalg.solve(inertia, pull[:6])
            mujoco.mj_mulM(self.model, data, beside, moving)
            pull += beside
        load: FloatArray = pull[self._driven]
        return load

    def advance(self, drives: Drives, first: int, count: int) -> None:
        arrays = as_tuple(drives)
        for index in range(first, first + count):
            if drives.carrying:
                drives.motor[PULL] = self.load()
            self._exchange(drives, arrays, index, ends=index > first)
            if not self._weighed:
                self._weigh(drives.motor[ARMATURE])
            self._solve(self._apply_ideal() if self._ideal else self._still)
            mujoco.mj_Euler(self.model, self.data)
            self._time += self.time_step
        self._exchange(drives, arrays, first + count, begins=False)
        if self._window is not None and self._time > self._shown + _FRAME:
            self._shown = self._time
            self._window.viewer.sync()

    def base(self) -> LinkPose | None:
        if self._fixed_base:
            return None
        place, turned = self._q[:3], self._q[3:7]
        x, y, z = (place + _turned(self._tree.centre[0], turned)).tolist()
        return (x, y, z), _to_xyzw(turned)

    def place_base(self, pose: LinkPose) -> None:
        if self._fixed_base:
            raise UsageError("the base of this robot is bolted down", "write fixed_base = false under [world]")
        x, y, z, w = pose[1]
        turned = np.array((w, x, y, z)) / np.linalg.norm(pose[1])
        self._q[:3] = np.array(pose[0]) - _turned(self._tree.centre[0], turned)
        self._q[3:7] = turned
        self._v[:6] = 0.0

    def place_joint(self, joint: int, position: float) -> None:
        self._q[self._driven_qpos[joint]] = position
        self._v[self._driven[joint]] = self._held[self._driven[joint]] = 0.0

    def poses(self) -> dict[str, LinkPose]:
        mujoco.mj_kinematics(self.model, self.data)
        poses: dict[str, LinkPose] = {}
        for name, body in zip(self._tree.links, self._bodies, strict=True):
            x, y, z = self.data.xpos[body].tolist()
            poses[name] = (x, y, z), _to_xyzw(self.data.xquat[body])
        return poses

    def motion(self, link: str) -> LinkMotion:
        if link not in self._tree.links:
            raise UsageError(f"the robot has no link {link!r}", f"it has: {', '.join(self._tree.links)}")
        body = self._bodies[self._tree.links.index(link)]
        for part in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_comVel):
            part(self.model, self.data)
        moved = np.empty(6)
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, body, moved, 0)
        a, b, c, u, v, w = moved.tolist()
        x, y, z = self.data.xpos[body].tolist()
        return LinkMotion(self._time, (x, y, z), _to_xyzw(self.data.xquat[body]), (u, v, w), (a, b, c))

    def contacts(self) -> list[Contact]:
        contacts, force = [], np.empty(6)
        for number, contact in enumerate(self.data.contact):
            below, above = (self._link_of.get(body) for body in self.model.geom_bodyid[contact.geom])
            if (below is None) != (above is None):
                mujoco.mj_contactForce(self.model, self.data, number, force)
                if force[:3].any():
                    x, y, z = (force[:3] @ contact.frame.reshape(3, 3) * (-1.0 if above is None else 1.0)).tolist()
                    contacts.append(Contact(below or above or "", tuple(contact.pos.tolist()), (x, y, z)))
        return contacts

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None

    def _exchange(
        self, drives: Drives, arrays: Drives, index: int, *, ends: bool = True, begins: bool = True
    ) -> None:  # fmt: skip
        """Account for step `index - 1` if it `ends`, and write the drives' action in step `index` if it `begins`."""
        data, step, since = self.data, self.time_step, 0
        forces = data.nf, data.efc_id, data.efc_force
        while (met := _end_and_begin(index, step, ends, begins, since, forces, arrays, self._memory)) >= 0:
            joint = drives.playing[met]
            armature = drives.params[drives.servo[joint], Param.ARMATURE]
            self._strike(self._driven[joint], armature, drives.joint[joint, Joint.ROTOR_SPEED])
            since = met + 1
        if met == _DIVERGED:
            raise SimulationDiverged(self._failed_joint(), self._time)
        if ends and self._ideal:
            self._sense(self._held[self._ideal_dof])

    def _strike(self, dof: int, armature: float, speed: float) -> None:
        """Apply the impulse of a rotor with `armature` (kg·m²) and `speed` (rad/s) that meets its joint."""
        unit, mobility = np.zeros((1, self.model.nv)), np.zeros((1, self.model.nv))
        unit[0, dof] = 1.0
        mujoco.mj_solveM(self.model, self.data, mobility, unit)
        hit = (speed - self._v[dof]) / (1.0 / armature + mobility[0, dof])
        gained = mobility[0] * hit
        self._v += gained
        self._q[self._qpos] += 0.5 * self.time_step * gained[self._dof]  # keeps the positions of `state` unchanged

    def _solve(self, targets: FloatArray) -> None:
        """Compute the present accelerations; `targets` (nv,) are the speeds for friction and motors, rad/s."""
        model, data = self.model, self.data
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        if data.nf or data.nl:
            rows = data.efc_id, data.efc_R, data.efc_D, data.efc_aref, data.efc_vel, data.efc_pos
            _aim(self.time_step, data.nf, data.nl, targets, self._held, rows)
        mujoco.mj_fwdAcceleration(model, data)
        mujoco.mj_fwdConstraint(model, data)

    def _weigh(self, armature: FloatArray) -> None:
        """Update MuJoCo's inertia constants with the rotors' armature: they scale the stiffness of contacts."""
        before = self._armature[self._driven]
        self._armature[self._driven] = armature
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
        self._armature[self._driven] = before
        self._weighed = True

    def _failed_joint(self) -> str:
        """Return the joint whose torque is not finite, or else the fastest."""
        torque = self._applied[self._dof]
        speeds = np.abs(self._v[self._dof])
        worst = np.argmax(~np.isfinite(torque)) if not np.isfinite(torque).all() else np.argmax(speeds)
        return self._names[int(worst)] if self._names else self._tree.links[0]

    def _apply_ideal(self) -> FloatArray:
        """Apply springs, dampers and motors of the ideal joints; return the motors' target speeds, (nv,), rad/s."""
        h, dof = self.time_step, self._ideal_dof
        position, speed = self._q[self._ideal_qpos], self._v[dof]
        stiffness = np.array([motor.stiffness for motor in self._ideal])
        damping = np.array([motor.damping for motor in self._ideal])
        user = np.array([motor.user_torque for motor in self._ideal])
        stops = np.array([motor.stops for motor in self._ideal])
        targets, limit = np.array([motor.row for motor in self._ideal]).T
        for place, motor in enumerate(self._ideal):
            if motor.kinematic:  # a massless joint would pass its stop
                low, high = (stops[place] - position[place]) / h
                targets[place] = min(max(targets[place], low), high)
        self._armature[dof] = h * damping + h * h * stiffness
        self._friction[dof] = limit
        self._range[self._ideal_joints] = stops
        self._applied[dof] = user - stiffness * (position + h * speed) - damping * speed
        velocities = np.zeros(self.model.nv)
        velocities[dof] = targets
        return velocities

    def _sense(self, torque: FloatArray) -> None:
        """Pass the ideal joints their positions, speeds and motor torques (N·m)."""
        positions, speeds = self._q[self._ideal_qpos], self._v[self._ideal_dof]
        for motor, x, v, used in zip(self._ideal, positions, speeds, torque, strict=True):
            motor.sense(float(x), float(v), float(used), self._time)


def _turned(vector: FloatArray, quaternion: FloatArray) -> FloatArray:
    turned: FloatArray = np.empty(3)
    mujoco.mju_rotVecQuat(turned, vector, quaternion)
    return turned


def _to_xyzw(quaternion: FloatArray) -> tuple[float, float, float, float]:
    w, x, y, z = quaternion.tolist()
    return x, y, z, w


class _Window:
    """MuJoCo's window; its drawing thread must end before the process closes the graphics library."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise UsageError("there is no display to show the world on", "set DISPLAY, or leave gui out")
        try:
            from mujoco import viewer
        except ImportError as failure:
            raise UsageError(f"MuJoCo's window cannot be opened: {failure}", install("mujoco")) from failure
        before = set(threading.enumerate())
        self.viewer = viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False)
        self._drawing = [thread for thread in threading.enumerate() if thread not in before]
        atexit.register(self.close)

    def close(self) -> None:
        atexit.unregister(self.close)
        self.viewer.close()
        for thread in self._drawing:
            thread.join(_CLOSE_TIMEOUT)


# Inputs and outputs of MuJoCo in a step, as kernels: for such short arrays, numpy would take as long as MuJoCo itself.


class _Memory(NamedTuple):
    """Indices of a robot's n joints in MuJoCo's arrays, these arrays, and the results of a step."""

    dof: IntArray  # degree of freedom of each driven joint, (n,)
    place: IntArray  # its index in `position`, (n,)
    joint: IntArray  # its number in MuJoCo, (n,)
    diagonal: IntArray  # its index in `inertia`, (n,)
    inertia: FloatArray  # sparse entries of the joint-space inertia, kg·m²
    position: FloatArray  # half a step ahead of `speed`, rad
    speed: FloatArray  # of each degree of freedom, rad/s; the next ones, too, except `stops`
    armature: FloatArray  # kg·m²
    friction: FloatArray  # N·m
    stops: FloatArray  # lower and upper stop of each joint, (joints, 2), rad
    torque: FloatArray  # applied, N·m
    held: FloatArray  # torques of dry friction and ideal motors, N·m
    ended: FloatArray  # positions, speeds and torques of dry friction of the driven joints at a step's end, (3, n)


class _ConstraintRows(NamedTuple):
    """MuJoCo's constraint rows of a step: first those of dry friction and motors, then those of stops."""

    of: IntArray  # id of each row's object (`efc_id`); for friction the degree of freedom
    give: FloatArray  # regularisation R of each row; `_aim` changes this and the next two
    hold: FloatArray  # its inverse
    wanted: FloatArray  # reference acceleration of each row
    speed: FloatArray  # rad/s
    gap: FloatArray  # distance of a joint from its stop, rad


@jit
def _end_and_begin(
    index: int, step: float, ends: bool, begins: bool, since: int, forces: tuple[int, IntArray, FloatArray],
    drives: Drives, memory: _Memory,
) -> int:  # fmt: skip
    """Account for step `index - 1` if it `ends`, then write the drives' action in step `index` if it `begins`.

    `step` in s; `forces` are the number of constraint rows of friction and motors, their ids, and their forces, N·m.

    Returns:
        _DONE; _DIVERGED; or the index in `drives.playing` of a joint that its rotor has met. Then the caller applies
        the rotor's impulse, and calls again with `since` set to this index plus 1.
    """
    known, there = Drives(*drives), _Memory(*memory)
    if ends:
        positions, speeds, friction = there.ended[0], there.ended[1], there.ended[2]
        if since == 0:
            rubbing, of, force = forces
            if not _sum_up(rubbing, of, force, there.dof, there.speed, there.held, friction) < _SANE**2:
                return _DIVERGED  # also when a speed is NaN
            for j in range(len(there.dof)):
                positions[j] = there.position[there.place[j]] - 0.5 * step * there.speed[there.dof[j]]
        for j in range(len(there.dof)):
            speeds[j] = there.speed[there.dof[j]]
        for k in range(since, len(known.playing)):
            j = known.playing[k]
            if known.motor[LOOSE, j] != 0.0:
                gap, play = known.joint[j, Joint.ROTOR] - positions[j], known.params[known.servo[j], Param.BACKLASH]
                flank = reached(gap, known.joint[j, Joint.ROTOR_SPEED], speeds[j], play)
                if flank != 0:
                    known.joint[j, Joint.LOOSE], known.joint[j, Joint.FLANK] = 0.0, flank
                    return k
        end_step(index - 1, step, drives, positions, speeds, friction)
    if begins:
        gather(index, step, drives)
        _apply_drives(step, drives, memory)
    return _DONE


@jit
def _apply_drives(step: float, drives: Drives, memory: _Memory) -> None:
    """Write the drives' action on the joints in a step (s); h·W·D is added to the armature."""
    known, there = Drives(*drives), _Memory(*memory)
    torque, damping, armature = known.motor[TORQUE], known.motor[DAMPING], known.motor[ARMATURE]
    for j in range(len(there.dof)):
        d, number, part = there.dof[j], there.joint[j], step * damping[j]
        ratio = part / (there.inertia[there.diagonal[j]] - there.armature[d] + armature[j] + _LIGHTEST)
        there.armature[d] = armature[j] + fitted_weight(ratio) * part
        there.friction[d] = known.motor[LIMIT, j] / step
        there.stops[number, 0], there.stops[number, 1] = known.passive[j, Passive.LOW], known.passive[j, Passive.HIGH]
        there.torque[d] = torque[j] - damping[j] * there.speed[d]


@jit
def _aim(
    step: float, rubbing: int, stopping: int, targets: FloatArray, held: FloatArray,
    rows: tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray],
) -> None:  # fmt: skip
    """Set the reference accelerations of the constraint rows in a step of `step` s.

    The first `rubbing` rows are of friction and motors, the next `stopping` rows of stops. Friction brings each degree
    of freedom to its speed in `targets`, (nv,). It starts from the torques `held` in the last step, N·m. Without them,
    MuJoCo's regularised friction only resists a motion, so a loaded joint would creep to its stop.
    """
    known = _ConstraintRows(*rows)
    of, give, hold, wanted, speed, gap = known.of, known.give, known.hold, known.wanted, known.speed, known.gap
    for k in range(rubbing + stopping):
        give[k] *= _GIVE
        hold[k] /= _GIVE
    for k in range(rubbing):
        wanted[k] = (targets[of[k]] - speed[k]) / step + give[k] * held[of[k]]
    for k in range(rubbing, rubbing + stopping):  # the joint must not pass its stop in this step
        allowed = -gap[k] if gap[k] > 0.0 else min(max(-gap[k] - _SLACK, 0.0), step * _RETURN)
        wanted[k] = (allowed / step - speed[k]) / step


@jit
def _sum_up(
    rubbing: int, of: IntArray, force: FloatArray, dof: IntArray, speed: FloatArray, held: FloatArray, spent: FloatArray
) -> float:
    """Write the torques of friction and motors into `held` (nv,) and `spent` (n,); return the sum of squared speeds."""
    squares = 0.0
    for d in range(len(held)):
        held[d] = 0.0
        squares += speed[d] * speed[d]
    for k in range(rubbing):
        held[of[k]] = force[k]
    for j in range(len(dof)):
        spent[j] = held[dof[j]]
    return squares
