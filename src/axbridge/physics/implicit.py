"""Motors and joints solved together, implicitly: the small dense algebra of one substep, as kernels.

A substep of h seconds takes n joints from speeds ω to ω⁺ by

    (M + A + h·W·D) ω⁺ = (M + A) ω - h (1 - W) D ω + h (τ0 - c) + f

with the joint-space inertia M, armature A, damping D (back-EMF and viscous friction), W the weights of
`motor.fitted_weight`, τ0 the torque at zero speed, c the load, and f the impulses of what acts within limits: dry
friction and hard stops. Written explicitly, back-EMF alone makes light links explode (J > h·D/2).
"""

from __future__ import annotations

from axbridge.arrays import FloatArray
from axbridge.jit import jit

__all__ = ["invert", "restrain"]

_SWEEPS = 40
_SETTLED = 1e-7  # rad/s


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
