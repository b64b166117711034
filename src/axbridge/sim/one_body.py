"""One body on its own: an implicit step under torque, damping and dry friction, and hard stops.

What `axbridge.sim.engines.bullet.implicit` does for joints that move each other, for one that moves nothing else.
"""

from __future__ import annotations

from axbridge.jit import jit
from axbridge.servo.motor import fitted_weight


@jit
def spin(
    speed: float, inertia: float, torque: float, damping: float, friction: float, step: float
) -> tuple[float, float]:
    """A step of a body that turns on its own: a rotor in its play, or the one joint of a rollout with its rotor.

    Args:
        speed: At the start, rad/s.
        inertia: kg·m².
        torque: At zero speed, of all but dry friction, N·m.
        damping: N·m·s/rad.
        friction: Largest impulse of dry friction, N·m·s.
        step: s.

    Returns:
        Mean speed and speed at the end, rad/s.
    """
    weight = fitted_weight(step * damping / inertia)
    pivot = inertia + step * weight * damping
    end = ((inertia - step * (1.0 - weight) * damping) * speed + step * torque) / pivot
    cut = friction / pivot
    end = end - cut if end > cut else min(end + cut, 0.0)
    return weight * end + (1.0 - weight) * speed, end


@jit
def stopped(
    angle: float, mean: float, speed: float, low: float, high: float, step: float
) -> tuple[float, float, float]:
    """A step from `angle` (rad) at `mean` speed (rad/s) that hard stops may end: it stands at the stop then.

    Args:
        angle: At the start, rad.
        mean: rad/s.
        speed: At the end, rad/s.
        low: The stops, rad.
        high: See there.
        step: s.

    Returns:
        Angle at the end, mean speed and speed at the end.
    """
    following = angle + step * mean
    if following < low or following > high:
        following = min(max(following, low), high)
        return following, (following - angle) / step, 0.0
    return following, mean, speed
