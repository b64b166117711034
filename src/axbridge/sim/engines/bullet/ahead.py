"""Loops, motors and joints worked out ahead of a longer physics step: substep after substep, in one compiled call.

Bullet takes 1 to 4 ms a step, a servo's loop wants 1 ms at most, and back-EMF is far stiffer than either: as an
explicit torque it makes light links explode (J > h·D/2). So the engine takes its joints' inertia M and load c, once a
physics step, and takes n joints in substeps of h seconds from speeds ω to ω⁺ by

    (M + A + h·W·D) ω⁺ = (M + A) ω - h (1 - W) D ω + h (τ0 - c(t)) + d + f,    c(t) = c0 + c1·t

with torque τ0 at zero speed, damping D (back-EMF and viscous friction) and armature A of the drives
(`axbridge.sim.substep`), W the weights of `motor.fitted_weight`, d the momentum that rotors are owed from before (DEBT
in the book), and f the impulses of what acts within limits: dry friction and hard stops. A substep has this order,
because each part needs the one before:

1. the load at its middle; and joints that were hit across their play take their rotors along, before the motors are
   asked what they do to whom;
2. `gather`: τ0, D, A and friction's limit, from angles and speeds at the start;
3. `_solve`: ω⁺ of all joints together.
   The matrix P on the left is inverted, and the inverse kept: M stays for a physics step, and of A, W and D only the
   diagonal hears, so it is made again when an entry there has changed. The inverse itself is wanted, not a factor of
   it: f, and rotors that hit their joints, need its columns. Without f that is all, in most substeps.
   f is worked out one joint after the other (projected Gauss-Seidel): an impulse on joint j changes all speeds by its
   column of P⁻¹, so the one that would stop it is -ω⁺_j / P⁻¹_jj; friction is cut to its budget, a stop pushes one way.
   It begins with friction's impulses of the substep before, which are nearly right, and ends when no speed changes by
   1e-7 rad/s. A stop is a speed: what takes the joint to it and no further, which depends on the angle alone, so W of a
   stopped joint becomes 1 afterwards;
4. rotors that reach a flank within the substep hit their joints: this needs ω⁺, and the inverse of the matrix that
   `_solve` has made, and ends before the angles move;
5. `_move`: angles at the mean speed W·ω⁺ + (1 - W)·ω, which makes a step of constant damping exact, and the sums of
   what acted, which Bullet is then asked for;
6. `account`: currents, heat and registers from mean speeds.

*On the floor no rotor leaves its flank.* Contacts are Bullet's, and act after all this: the speeds worked out here then
err by more than a rotor in its play takes to cross it. A standing robot's joints would be loose half the time, and it
would fall.
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
_RETURN = 0.1  # rad/s: how fast a joint that was pushed past a stop is brought back; it leaves the stop with that speed

# Rows of the workspace, behind the inverse and the matrix. Of the latest substep: the speed at its end, its weight in
# the mean speed, the impulse of dry friction, the speed at the start, the mean speed, the torque of drive and friction.
SPEED, WEIGHT, IMPULSE, BEFORE, MEAN, USED = range(-6, 0)
_STOP, _LOW, _HIGH, _RIGHT, _DIAGONAL = range(-11, -6)
_ROWS = 11


class StepState(IntEnum):
    """Columns of the book (n, len(Book)): a joint within a physics step, as worked out so far; joint side."""

    ANGLE = 0
    SPEED = 1
    PUSH = 2  # N·m·s: impulse of motor, spring, friction and hard stop since the physics step began
    DAMP = 3  # N·m·s/rad·s: their damping, summed likewise
    CLOCK = 4  # s since the physics step began
    MOMENTUM_RESIDUAL = 5  # N·m·s: momentum that the rotor has beyond its joint's speed
    START = 6  # rad: angle when the physics step began
    START_SPEED = 7  # rad/s: speed when it began
    ARMATURE = 8  # kg·m²: of the rotor
    PLAY = 9  # 1 = the gear has play; 2 = and the rotor is within it, and turns on its own
    PREDICTED_SPEED = 10  # rad/s: speed worked out for the end of the physics step
    LEAD = 11  # rad: how far an engine that is asked for speeds has its position ahead of ANGLE


def settle_at(row: FloatArray, angle: float) -> None:
    """Put the joint of a row of the book at an angle, at rest, as if its physics step had begun there."""
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
    """Joints as a linear system, for the length of a physics step."""

    inertia: FloatArray  # M, joint-space inertia, (n, n), kg·m²
    loads: FloatArray  # c0 and c1, load torque at the start of the physics step, N·m, and its growth, N·m/s, (2, n)
    book: FloatArray  # what is remembered of each joint, (n, len(Book)); changed in place
    work: FloatArray  # from `workspace`
    resting: bool = False  # whether contacts hold the robot


class AheadEngine:
    """The side of an engine that works its joints out ahead; what follows them in the world is the subclass's."""

    joints: tuple[str, ...]  # joint names, in the order of every array
    time_step: float  # a substep, s
    _system: System
    _left: int  # substeps until the next physics step

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Joint positions and speeds; inside a physics step as predicted."""
        book = self._system.book
        return book[:, StepState.ANGLE].copy(), book[:, StepState.SPEED].copy()

    def advance(self, drives: Drives, first: int, count: int) -> None:
        """Go ahead in substeps; the world follows whenever a physics step is complete."""
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
        """Complete a physics step, and make `_system` and `_left` ready for the next."""


@jit
def run(count: int, first: int, step: float, drives: Drives, system: System) -> int:
    """Advance servos and joints by `count` substeps.

    Args:
        count: Substeps.
        first: Number of the first one since the start (picks the noise).
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
    """Rotors in their play that reach a flank in this substep hit their joints.

    Of `drives.joint` ROTOR is as at the substep's end, ANGLE and SPEED are as at its start; it, the book and the row
    SPEED of `work` are changed.
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
    """A joint that was hit so hard that it crosses its play at once, or stands, takes its rotor along; rows of both."""
    taken = params[Param.ARMATURE] * (joint[Joint.ROTOR_SPEED] - joint[Joint.SPEED])
    joint[Joint.LOOSE] = 0.0
    joint[Joint.FLANK] = -1.0 if book[StepState.MOMENTUM_RESIDUAL] > 0.0 else 1.0
    book[StepState.MOMENTUM_RESIDUAL] += taken
    book[StepState.PUSH] += taken


@jit
def invert(matrix: FloatArray, inverse: FloatArray) -> bool:
    """Inverse of a symmetric positive definite `matrix` (n, n); False when it is not that (or not finite).

    Gauss-Jordan in place: its inner loop runs along rows, so it vectorises.
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
    """Add the impulses that act within limits, by Gauss-Seidel sweeps from those of the last substep.

    `budget` is the largest impulse of each joint's dry friction, N·m·s. In `work` SPEED is unrestrained at first; _LOW
    and _HIGH are the speeds at which a joint reaches its stops within this substep.
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
        moved = 0.0
        for j in range(n):
            change = 0.0
            if budget[j] > 0.0:
                wanted = impulse[j] - speed[j] / inverse[j, j]
                wanted = min(max(wanted, -budget[j]), budget[j])
                change = wanted - impulse[j]
                impulse[j] = wanted
            bare = speed[j] + inverse[j, j] * (change - stop[j])
            held = 0.0
            if bare > high[j]:
                held = (high[j] - bare) / inverse[j, j]
            elif bare < low[j]:
                held = (low[j] - bare) / inverse[j, j]
            change += held - stop[j]
            stop[j] = held
            if change != 0.0:
                moved = max(moved, abs(change * inverse[j, j]))
                for i in range(n):
                    speed[i] += inverse[j, i] * change
        if moved < _SETTLED:
            break


def workspace(joints: int) -> FloatArray:
    """What `_solve` needs to remember and to work in: the inverse, the matrix, and rows of figures."""
    work = np.zeros((2 * joints + _ROWS, joints))
    forget(work)
    return work


@jit
def forget(work: FloatArray) -> None:
    """The inertia has changed: the inverse that is remembered is out of date."""
    for j in range(work.shape[1]):
        work[_DIAGONAL, j] = -1.0


@jit
def _solve(
    step: float, inertia: FloatArray, motor: FloatArray, passive: FloatArray, book: FloatArray, work: FloatArray
) -> int:
    """Speeds at the end of a substep, as rows of `work`; takes DEBT out of the book.

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
            return _culprit(diagonal)
    for j in range(n):  # both matrices are symmetric: along their rows this vectorises
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
            if stop[j] != 0.0:  # its speed at the end is the mean one, so that it ends the substep at its stop
                weight[j] = 1.0
    else:
        for j in range(n):
            impulse[j] = stop[j] = 0.0
    return -1


@jit
def _move(step: float, motor: FloatArray, book: FloatArray, work: FloatArray) -> int:
    """Let the joints turn at the speeds of `_solve`. Returns -1, or the joint whose motion is not finite."""
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
def _culprit(diagonal: FloatArray) -> int:
    """The first joint whose diagonal is not positive, or the first of all."""
    for j in range(diagonal.shape[0]):
        if not (diagonal[j] > 0.0 and math.isfinite(diagonal[j])):
            return j
    return 0
