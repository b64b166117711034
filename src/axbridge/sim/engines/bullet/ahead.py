"""Prediction of a longer physics step: loops, motors and joints in substeps, in one compiled call.

Bullet's step has 1 to 4 ms, and a servo's loop needs 1 ms at most. Back-EMF is far stiffer than either: as an explicit
torque it is stable only for J > h·D/2, which excludes light links. So the engine takes its joints' inertia M and load c
once in a physics step. It moves n joints in substeps of h seconds from speeds ω to ω⁺ by

    (M + A + h·W·D) ω⁺ = (M + A) ω - h (1 - W) D ω + h (τ0 - c(t)) + d + f,    c(t) = c0 + c1·t

The drives give the torque τ0 at zero speed, the damping D (back-EMF and viscous friction) and the armature A
(`axbridge.sim.substep`). W are the weights of `motor.fitted_weight`, and d is the rotors' remaining momentum
(MOMENTUM_RESIDUAL in the book). f are the limited impulses of dry friction and hard stops. A substep has this order,
because each part needs the one before:

1. The load at the middle of the substep. Rotors whose joints crossed the play are coupled to them, before the motors
   are evaluated.
2. `gather`: τ0, D, A and the friction limit, from angles and speeds at the start.
3. `_solve`: ω⁺ of all joints together.
   The matrix P on the left is inverted, and the inverse is stored. M is constant in a physics step; A, W and D change
   only the diagonal. So P is inverted again only when a diagonal entry has changed. The inverse is needed, not a
   factorisation: f, and rotors that hit their joints, use its columns. Most substeps have no f, and end here.
   f is solved joint by joint (projected Gauss-Seidel). An impulse on joint j changes all speeds by column j of P⁻¹, so
   the impulse that stops it is -ω⁺_j / P⁻¹_jj. Friction is limited to its budget, and a stop pushes in one direction.
   The iteration starts with friction's impulses of the last substep, and ends when no speed changes by 1e-7 rad/s. A
   stop limits the speed so that the joint just reaches it. This depends only on the angle, so W of a stopped joint
   becomes 1 afterwards.
4. `_meet`: rotors that reach a flank within the substep hit their joints. This needs ω⁺ and the inverse from `_solve`,
   and comes before the angles move.
5. `_move`: angles at the mean speed W·ω⁺ + (1 - W)·ω, which makes a step with constant damping exact. The impulses are
   summed for Bullet's step.
6. `account`: currents, heat and registers from mean speeds.

*While contacts hold the robot, no rotor leaves its flank.* Bullet adds the contacts after the prediction. With
contacts, the predicted speeds have larger errors than the speed at which a rotor crosses its play. The joints of a
standing robot would be loose half of the time, and it would fall.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import SimulationDiverged
from axbridge.jit import as_tuple, jit
from axbridge.servo.columns import Joint, Param, Passive
from axbridge.servo.motor import fitted_weight
from axbridge.sim.one_joint import meeting
from axbridge.sim.substep import ARMATURE, DAMPING, KEPT, LIMIT, LOOSE, PULL, TORQUE, Drives, account, gather

_SWEEPS = 40
_SETTLED = 1e-7  # rad/s
_RETURN = 0.1  # rad/s: return speed of a joint that is past a stop; it leaves the stop with this speed

# Rows of the workspace, behind the inverse and the matrix, for the latest substep: end speed, its weight in the mean
# speed, impulse of dry friction, start speed, mean speed, torque of drive and friction.
SPEED, WEIGHT, IMPULSE, BEFORE, MEAN, USED = range(-6, 0)
_STOP, _LOW, _HIGH, _RIGHT, _DIAGONAL = range(-11, -6)
_ROWS = 11


class StepState(IntEnum):
    """Columns of the book (n, len(StepState)): predicted state of a joint within a physics step; joint side."""

    ANGLE = 0
    SPEED = 1
    PUSH = 2  # N·m·s: impulse of motor, spring, friction and hard stop since the start of the physics step
    DAMP = 3  # N·m·s/rad·s: their damping, summed over the same time
    CLOCK = 4  # s since the start of the physics step
    MOMENTUM_RESIDUAL = 5  # N·m·s: the rotor's momentum beyond that of its joint's speed
    START = 6  # rad: angle at the start of the physics step
    START_SPEED = 7  # rad/s: speed at its start
    ARMATURE = 8  # kg·m²: of the rotor
    PLAY = 9  # 1 = the gear has play; 2 = and the rotor is within it
    PREDICTED_SPEED = 10  # rad/s: predicted speed at the end of the physics step
    LEAD = 11  # rad: position of a speed-commanded engine (Bullet) minus ANGLE


def settle_at(row: FloatArray, angle: float) -> None:
    """Place the joint of a row of the book at an angle, rad, at rest; its physics step starts there."""
    row[
        [
            StepState.SPEED,
            StepState.PUSH,
            StepState.DAMP,
            StepState.MOMENTUM_RESIDUAL,
            StepState.START_SPEED,
            StepState.PREDICTED_SPEED,
        ]
    ] = 0.0
    row[[StepState.ANGLE, StepState.START]] = angle


class System(NamedTuple):
    """The joints as a linear system within a physics step."""

    inertia: FloatArray  # M, joint-space inertia, (n, n), kg·m²
    loads: FloatArray  # c0 and c1, load torque at the start of the physics step, N·m, and its growth, N·m/s, (2, n)
    book: FloatArray  # state of each joint, (n, len(StepState)); changed in place
    work: FloatArray  # from `workspace`
    resting: bool = False  # whether contacts hold the robot


class AheadEngine:
    """Base of an engine that predicts its joints; the subclass completes the physics steps of its world."""

    joints: tuple[str, ...]  # joint names, in the order of every array
    time_step: float  # a substep, s
    _system: System
    _left: int  # substeps until the next physics step

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Return joint positions and speeds; within a physics step, the predicted ones."""
        book = self._system.book
        return book[:, StepState.ANGLE].copy(), book[:, StepState.SPEED].copy()

    def advance(self, drives: Drives, first: int, count: int) -> None:
        """Advance in substeps; complete each physics step with `_follow`."""
        while count:
            part = min(count, self._left)
            failed = run(part, first, self.time_step, as_tuple(drives), as_tuple(self._system))
            first, count, self._left = first + part, count - part, self._left - part
            if failed >= 0:
                raise SimulationDiverged(self.joints[failed], first * self.time_step)
            if self._left == 0:
                self._follow()

    @abstractmethod
    def _follow(self) -> None:
        """Complete a physics step, and set `_system` and `_left` for the next."""


@jit
def run(count: int, first: int, step: float, drives: Drives, system: System) -> int:
    """Advance servos and joints by `count` substeps.

    Args:
        count: Substeps.
        first: Number of the first substep since the start (selects the noise).
        step: Length of a substep, s.
        drives: Of the bank; this and the next by `as_tuple`.
        system: Of the engine.

    Returns:
        -1, or the joint whose inertia is not positive or whose motion is not finite.
    """
    known, joints = Drives(*drives), System(*system)
    servo, params, joint, passive, motor = known.servo, known.params, known.joint, known.passive, known.motor
    inertia, loads, book, work = joints.inertia, joints.loads, joints.book, joints.work
    n = joint.shape[0]
    pull = motor[PULL]
    for j in range(n):
        joint[j, Joint.ANGLE], joint[j, Joint.SPEED] = book[j, StepState.ANGLE], book[j, StepState.SPEED]
        book[j, StepState.ARMATURE] = params[servo[j], Param.ARMATURE] if servo[j] >= 0 else 0.0
    for index in range(first, first + count):
        playing = False
        for j in range(n):
            pull[j] = loads[0, j] + loads[1, j] * (book[j, StepState.CLOCK] + 0.5 * step)
            if joint[j, Joint.LOOSE] != 0.0:
                play = inertia[j, j] * params[servo[j], Param.BACKLASH]
                if joints.resting or abs(book[j, StepState.MOMENTUM_RESIDUAL]) * step > play:
                    _catch(params[servo[j]], joint[j], book[j])
                else:
                    playing = True
        gather(index, step, drives)
        failed = _solve(step, inertia, motor, passive, book, work)
        if failed >= 0:
            return failed
        if playing:
            _meet(step, known, book, work)
        failed = _move(step, motor, book, work)
        if failed >= 0:
            return failed
        for j in range(n):
            joint[j, Joint.ANGLE], joint[j, Joint.SPEED] = book[j, StepState.ANGLE], book[j, StepState.SPEED]
        account(index, step, drives, work[BEFORE], work[MEAN], work[USED], work[IMPULSE])
        for j in range(n):
            if servo[j] >= 0 and params[servo[j], Param.BACKLASH] > 0.0:
                book[j, StepState.PUSH] -= motor[KEPT, j]
                if joints.resting:
                    joint[j, Joint.LOOSE] = 0.0
                book[j, StepState.PLAY] = 1.0 + joint[j, Joint.LOOSE]
    return -1


@jit
def _meet(step: float, drives: Drives, book: FloatArray, work: FloatArray) -> None:
    """Apply the impulses of rotors that reach a flank of their play in this substep.

    In `drives.joint`, ROTOR is of the substep's end, ANGLE and SPEED are of its start. `drives.joint`, the book and the
    row SPEED of `work` are changed.
    """
    joint, params = drives.joint, drives.params
    n = joint.shape[0]
    inverse, speed, weight = work[:n], work[SPEED], work[WEIGHT]
    for j in range(n):
        if drives.motor[LOOSE, j] == 0.0:
            continue
        row = drives.servo[j]
        ahead = step * (weight[j] * speed[j] + (1.0 - weight[j]) * joint[j, Joint.SPEED])
        flank, hit = meeting(
            joint[j, Joint.ROTOR] - joint[j, Joint.ANGLE] - ahead, joint[j, Joint.ROTOR_SPEED], speed[j],
            params[row, Param.BACKLASH], params[row, Param.ARMATURE], inverse[j, j],
        )  # fmt: skip
        if flank != 0:
            joint[j, Joint.LOOSE], joint[j, Joint.FLANK] = 0.0, float(flank)
            book[j, StepState.PUSH] += hit
            for i in range(n):
                speed[i] += inverse[i, j] * hit


@jit
def _catch(params: FloatArray, joint: FloatArray, book: FloatArray) -> None:
    """Couple a loose rotor to its joint; its momentum becomes MOMENTUM_RESIDUAL. Arguments are rows of the joint."""
    momentum = params[Param.ARMATURE] * (joint[Joint.ROTOR_SPEED] - joint[Joint.SPEED])
    joint[Joint.LOOSE] = 0.0
    joint[Joint.FLANK] = -1.0 if book[StepState.MOMENTUM_RESIDUAL] > 0.0 else 1.0
    book[StepState.MOMENTUM_RESIDUAL] += momentum
    book[StepState.PUSH] += momentum


@jit
def invert(matrix: FloatArray, inverse: FloatArray) -> bool:
    """Invert a symmetric positive definite `matrix` (n, n) into `inverse`; return False for any other matrix.

    Gauss-Jordan elimination in place: its inner loop runs along rows, so the compiler vectorises it.
    """
    n = matrix.shape[0]
    for i in range(n):
        for k in range(n):
            inverse[i, k] = matrix[i, k]
    for j in range(n):
        if not inverse[j, j] > 0.0:
            return False
        pivot = 1.0 / inverse[j, j]
        inverse[j, j] = 1.0
        row = inverse[j]
        for k in range(n):
            row[k] *= pivot
        for i in range(n):
            if i != j:
                factor = inverse[i, j]
                if factor != 0.0:
                    inverse[i, j] = 0.0
                    for k in range(n):
                        inverse[i, k] -= factor * row[k]
    return True


@jit
def _restrain(inverse: FloatArray, budget: FloatArray, work: FloatArray) -> None:
    """Add the impulses of dry friction and stops, by Gauss-Seidel sweeps that start from those of the last substep.

    `budget` is the largest impulse of each joint's dry friction, N·m·s. In `work`, SPEED is without these impulses at
    first; _LOW and _HIGH are the speeds with which a joint reaches its stops at the end of this substep.
    """
    speed, impulse, low, high, stop = work[SPEED], work[IMPULSE], work[_LOW], work[_HIGH], work[_STOP]
    n = speed.shape[0]
    for j in range(n):
        impulse[j] = min(max(impulse[j], -budget[j]), budget[j])
        stop[j] = 0.0
        if impulse[j] != 0.0:
            for i in range(n):
                speed[i] += inverse[j, i] * impulse[j]
    for _ in range(_SWEEPS):
        largest = 0.0
        for j in range(n):
            change = 0.0
            if budget[j] > 0.0:
                friction = impulse[j] - speed[j] / inverse[j, j]
                friction = min(max(friction, -budget[j]), budget[j])
                change = friction - impulse[j]
                impulse[j] = friction
            free = speed[j] + inverse[j, j] * (change - stop[j])
            held = 0.0
            if free > high[j]:
                held = (high[j] - free) / inverse[j, j]
            elif free < low[j]:
                held = (low[j] - free) / inverse[j, j]
            change += held - stop[j]
            stop[j] = held
            if change != 0.0:
                largest = max(largest, abs(change * inverse[j, j]))
                for i in range(n):
                    speed[i] += inverse[j, i] * change
        if largest < _SETTLED:
            break


def workspace(joints: int) -> FloatArray:
    """Return the workspace of `_solve`: the inverse, the matrix, and a row for each quantity."""
    work = np.zeros((2 * joints + _ROWS, joints))
    mark_stale(work)
    return work


@jit
def mark_stale(work: FloatArray) -> None:
    """Mark the stored inverse as out of date, after a change of the inertia."""
    for j in range(work.shape[1]):
        work[_DIAGONAL, j] = -1.0


@jit
def _solve(
    step: float, inertia: FloatArray, motor: FloatArray, passive: FloatArray, book: FloatArray, work: FloatArray
) -> int:
    """Compute the speeds at the end of a substep into rows of `work`; move MOMENTUM_RESIDUAL from the book into them.

    Returns -1, or the joint whose inertia is not positive.
    """
    n = inertia.shape[0]
    torque, damping, armature, limit, pull = motor[TORQUE], motor[DAMPING], motor[ARMATURE], motor[LIMIT], motor[PULL]
    lower, upper = passive[:, Passive.LOW], passive[:, Passive.HIGH]
    inverse, matrix = work[:n], work[n : 2 * n]
    speed, weight, impulse, before = work[SPEED], work[WEIGHT], work[IMPULSE], work[BEFORE]
    stop, low, high, right, diagonal = work[_STOP], work[_LOW], work[_HIGH], work[_RIGHT], work[_DIAGONAL]
    restrained = stale = False
    for j in range(n):
        angle, omega = book[j, StepState.ANGLE], book[j, StepState.SPEED]
        weight[j] = fitted_weight(step * damping[j] / (inertia[j, j] + armature[j]))
        pivot = inertia[j, j] + armature[j] + step * weight[j] * damping[j]
        if pivot != diagonal[j]:
            diagonal[j] = pivot
            stale = True
        right[j] = (armature[j] - step * (1.0 - weight[j]) * damping[j]) * omega + step * (torque[j] - pull[j])
        right[j] += book[j, StepState.MOMENTUM_RESIDUAL]
        book[j, StepState.MOMENTUM_RESIDUAL] = 0.0
        before[j] = omega
        low[j] = (lower[j] - angle) / step if lower[j] > -1e9 else -1e300
        high[j] = (upper[j] - angle) / step if upper[j] < 1e9 else 1e300
        low[j] = min(low[j], _RETURN)
        high[j] = max(high[j], -_RETURN)
        if limit[j] > 0.0:
            restrained = True
    if stale:
        for j in range(n):
            for k in range(n):
                matrix[j, k] = inertia[j, k]
            matrix[j, j] = diagonal[j]
        if not invert(matrix, inverse):
            return _failed_joint(diagonal)
    for j in range(n):  # both matrices are symmetric, so loops along their rows vectorise
        for k in range(n):
            right[k] += inertia[j, k] * before[j]
        speed[j] = 0.0
    for j in range(n):
        for k in range(n):
            speed[k] += inverse[j, k] * right[j]
    for j in range(n):
        if speed[j] > high[j] or speed[j] < low[j]:
            restrained = True
    if restrained:
        _restrain(inverse, limit, work)
        for j in range(n):
            if stop[j] != 0.0:  # the mean speed is the end speed, so that the joint ends the substep at its stop
                weight[j] = 1.0
    else:
        for j in range(n):
            impulse[j] = stop[j] = 0.0
    return -1


@jit
def _move(step: float, motor: FloatArray, book: FloatArray, work: FloatArray) -> int:
    """Move the joints with the speeds of `_solve`. Returns -1, or the joint whose motion is not finite."""
    torque, damping = motor[TORQUE], motor[DAMPING]
    speed, weight, impulse, before = work[SPEED], work[WEIGHT], work[IMPULSE], work[BEFORE]
    mean, used, stop = work[MEAN], work[USED], work[_STOP]
    for j in range(book.shape[0]):
        mean[j] = weight[j] * speed[j] + (1.0 - weight[j]) * before[j]
        if not abs(mean[j]) < 1e9:
            return j
        used[j] = torque[j] - damping[j] * mean[j] + impulse[j] / step
        book[j, StepState.PUSH] += step * used[j] + stop[j]
        book[j, StepState.DAMP] += step * damping[j]
        book[j, StepState.ANGLE] += step * mean[j]
        book[j, StepState.SPEED] = speed[j]
        book[j, StepState.CLOCK] += step
    return -1


@jit
def _failed_joint(diagonal: FloatArray) -> int:
    """Return the first joint whose diagonal entry is not positive or not finite; 0 when there is none."""
    for j in range(diagonal.shape[0]):
        if not (diagonal[j] > 0.0 and math.isfinite(diagonal[j])):
            return j
    return 0
