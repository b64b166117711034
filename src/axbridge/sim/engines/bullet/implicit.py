"""Motors and joints solved together, implicitly: the small dense algebra of one substep, as kernels.

A substep of h seconds takes n joints from speeds ω to ω⁺ by

    (M + A + h·W·D) ω⁺ = (M + A) ω - h (1 - W) D ω + h (τ0 - c) + d + f

with the joint-space inertia M, armature A, damping D (back-EMF and viscous friction), W the weights of
`motor.fitted_weight`, τ0 the torque at zero speed, c the load, d the momentum that rotors are owed from before (DEBT in
the book), and f the impulses of what acts within limits: dry friction and hard stops. Written explicitly, back-EMF
alone makes light links explode (J > h·D/2).

1. The matrix P = M + A + h·W·D on the left is inverted, and the inverse kept: M stays for a physics step, and of A, W
   and D only the diagonal hears, so it is made again when an entry there has changed. The inverse itself is wanted, not
   a factor of it: step 3, and rotors that hit their joints, need its columns.
2. ω⁺ without f. In most substeps that is all: no friction, no stop in reach.
3. f, one joint after the other (projected Gauss-Seidel): an impulse on joint j changes all speeds by its column of P⁻¹,
   so the one that would stop it is -ω⁺_j / P⁻¹_jj; friction is cut to its budget, a stop pushes one way. It begins with
   friction's impulses of the substep before, which are nearly right, and ends when no speed changes by 1e-7 rad/s.
   A stop is a speed: what takes the joint to it and no further, which depends on the angle alone, so W of a stopped
   joint becomes 1 afterwards.
4. `move`: the angles go at the mean speed W·ω⁺ + (1 - W)·ω, which makes a step of constant damping exact.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.motor import fitted_weight

_SWEEPS = 40
_SETTLED = 1e-7  # rad/s
_RETURN = 0.1  # rad/s: how fast a joint that was pushed past a stop is brought back; it leaves the stop with that speed

# Rows of the workspace, behind the inverse and the matrix. Of the latest substep: the speed at its end, its weight in
# the mean speed, the impulse of dry friction, the speed at the start, the mean speed, the torque of drive and friction.
SPEED, WEIGHT, IMPULSE, BEFORE, MEAN, USED = range(-6, 0)
_STOP, _LOW, _HIGH, _RIGHT, _DIAGONAL = range(-11, -6)
_ROWS = 11


class Book(IntEnum):
    """Columns of the book (n, len(Book)): a joint within a physics step, as worked out so far; joint side."""

    ANGLE = 0
    SPEED = 1
    PUSH = 2  # N·m·s: impulse of motor, spring, friction and hard stop since the physics step began
    DAMP = 3  # N·m·s/rad·s: their damping, summed likewise
    CLOCK = 4  # s since the physics step began
    DEBT = 5  # N·m·s: momentum that the rotor has beyond its joint's speed
    START = 6  # rad: angle when the physics step began
    START_SPEED = 7  # rad/s: speed when it began
    ARMATURE = 8  # kg·m²: of the rotor
    PLAY = 9  # 1 = the gear has play; 2 = and the rotor is within it, and turns on its own
    FORETOLD = 10  # rad/s: speed worked out for the end of the physics step
    LEAD = 11  # rad: how far an engine that is asked for speeds has its position ahead of ANGLE


def settle_at(row: FloatArray, angle: float) -> None:
    """Put the joint of a row of the book at an angle, at rest, as if its physics step had begun there."""
    row[[Book.SPEED, Book.PUSH, Book.DAMP, Book.DEBT, Book.START_SPEED, Book.FORETOLD]] = 0.0
    row[[Book.ANGLE, Book.START]] = angle


class Acting(NamedTuple):
    """What acts on each joint in a substep, each (n,); joint side.

    Attributes:
        torque: τ0, at zero speed, of all but the load, N·m.
        damping: D, N·m·s/rad.
        armature: A, kg·m².
        limit: Largest impulse of dry friction, N·m·s.
        lower: Lower hard stop, rad.
        upper: Upper one.
    """

    torque: FloatArray
    damping: FloatArray
    armature: FloatArray
    limit: FloatArray
    lower: FloatArray
    upper: FloatArray


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
def restrain(
    inverse: FloatArray,
    speed: FloatArray,
    budget: FloatArray,
    impulse: FloatArray,
    low: FloatArray,
    high: FloatArray,
    stop: FloatArray,
) -> None:
    """Add the impulses that act within limits, by Gauss-Seidel sweeps from those of the last substep.

    Args:
        inverse: Of the substep's matrix, (n, n).
        speed: Unrestrained ω⁺, changed in place, rad/s.
        budget: Largest impulse of each joint's dry friction, N·m·s.
        impulse: The impulses; on entry a guess, on return the solution, N·m·s.
        low: Speed at which the joint reaches its lower hard stop within this substep, rad/s.
        high: Likewise its upper one.
        stop: Impulses of the hard stops, likewise.
    """
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
    """What `solve` needs to remember and to work in: the inverse, the matrix, and rows of figures."""
    work = np.zeros((2 * joints + _ROWS, joints))
    forget(work)
    return work


@jit
def forget(work: FloatArray) -> None:
    """The inertia has changed: the inverse that is remembered is out of date."""
    for j in range(work.shape[1]):
        work[_DIAGONAL, j] = -1.0


@jit
def solve(
    step: float, inertia: FloatArray, pull: FloatArray, acting: Acting, book: FloatArray, work: FloatArray
) -> int:
    """Speeds at the end of a substep, as rows of `work`.

    Args:
        step: s.
        inertia: M, (n, n).
        pull: c, (n,).
        acting: What acts on the joints; from Python by `as_tuple`.
        book: (n, len(Book)); DEBT is taken out.
        work: From `workspace`.

    Returns:
        -1, or the joint whose inertia is not positive.
    """
    n = inertia.shape[0]
    torque, damping, armature, limit, lower, upper = acting
    inverse, matrix = work[:n], work[n : 2 * n]
    speed, weight, impulse, before = work[SPEED], work[WEIGHT], work[IMPULSE], work[BEFORE]
    stop, low, high, right, diagonal = work[_STOP], work[_LOW], work[_HIGH], work[_RIGHT], work[_DIAGONAL]
    restrained = stale = False
    for j in range(n):
        angle, omega = book[j, Book.ANGLE], book[j, Book.SPEED]
        weight[j] = fitted_weight(step * damping[j] / (inertia[j, j] + armature[j]))
        pivot = inertia[j, j] + armature[j] + step * weight[j] * damping[j]
        if pivot != diagonal[j]:
            diagonal[j] = pivot
            stale = True
        right[j] = (armature[j] - step * (1.0 - weight[j]) * damping[j]) * omega + step * (torque[j] - pull[j])
        right[j] += book[j, Book.DEBT]
        book[j, Book.DEBT] = 0.0
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
        restrain(inverse, speed, limit, impulse, low, high, stop)
        for j in range(n):
            if stop[j] != 0.0:  # its speed at the end is the mean one, so that it ends the substep at its stop
                weight[j] = 1.0
    else:
        for j in range(n):
            impulse[j] = stop[j] = 0.0
    return -1


@jit
def move(step: float, torque: FloatArray, damping: FloatArray, book: FloatArray, work: FloatArray) -> int:
    """Let the joints turn at the speeds of `solve`.

    Args:
        step: s.
        torque: As for `solve`.
        damping: Likewise.
        book: (n, len(Book)), changed in place.
        work: As `solve` left it.

    Returns:
        -1, or the joint whose motion is not finite.
    """
    speed, weight, impulse, before = work[SPEED], work[WEIGHT], work[IMPULSE], work[BEFORE]
    mean, used, stop = work[MEAN], work[USED], work[_STOP]
    for j in range(book.shape[0]):
        mean[j] = weight[j] * speed[j] + (1.0 - weight[j]) * before[j]
        if not abs(mean[j]) < 1e9:
            return j
        used[j] = torque[j] - damping[j] * mean[j] + impulse[j] / step
        book[j, Book.PUSH] += step * used[j] + stop[j]
        book[j, Book.DAMP] += step * damping[j]
        book[j, Book.ANGLE] += step * mean[j]
        book[j, Book.SPEED] = speed[j]
        book[j, Book.CLOCK] += step
    return -1


@jit
def _culprit(diagonal: FloatArray) -> int:
    """The first joint whose diagonal is not positive, or the first of all."""
    for j in range(diagonal.shape[0]):
        if not (diagonal[j] > 0.0 and math.isfinite(diagonal[j])):
            return j
    return 0
