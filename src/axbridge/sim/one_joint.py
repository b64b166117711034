"""A single joint: an implicit step, hard stops, and the play between gear and output shaft.

Within the play, rotor and joint move separately: the motor drives only the rotor, and the joint coasts against its own
friction.

There are two bodies, at the output. The rotor has the armature A and the torque T, the motor's less the gear's
friction. The joint has the inertia J, the torque G of gravity and all else, and dry friction of at most F: that of the
output shaft's bearing, `Param.OUTPUT`, and the rig's. The rotor rests on the flank s = 1 or -1 with the torque P, N·m:

    A·ω_r' = T - P          J·ω' = G + P - f,   |f| ≤ F against the motion          P·s ≥ 0: a flank only pushes

*On a flank* ω_r = ω, so they move as one body of A + J with the friction of both sides; the equations are those without
play. P follows from the rotor alone: P = T - A·ω'. When P·s would be negative, the rotor would have to pull, so it
leaves the flank (`rest`).

*Within the play* P = 0, and the bodies move separately. While the motor brakes, T decelerates A, and only G - f
decelerates J. So a bar with a large J runs ahead through the play. It meets the other flank later, with more of its
speed. A bare horn, J = 0, stays on the driving flank because of its friction: there P = f.

*They meet* without a bounce: an impulse makes their speeds equal and keeps their momentum. So play never adds energy
(`meeting`).
"""

from __future__ import annotations

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.columns import Joint
from axbridge.servo.motor import fitted_weight


@jit
def spin(
    speed: float, inertia: float, torque: float, damping: float, friction: float, step: float
) -> tuple[float, float]:
    """Return the mean speed and the end speed, rad/s, of a body's step, which is implicit in the damping.

    `torque` is the torque at zero speed without dry friction, N·m; `friction` is the largest impulse of dry friction,
    N·m·s.
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
    """Return angle, rad, mean speed and speed, rad/s, at the end of a step with hard stops at `low` and `high`, rad."""
    following = angle + step * mean
    if following < low or following > high:
        following = min(max(following, low), high)
        return following, (following - angle) / step, 0.0
    return following, mean, speed


@jit
def reached(gap: float, rotor: float, joint: float, play: float) -> int:
    """Return the flank that the rotor reaches: 1 or -1, 0 for none.

    `gap` is the rotor's angle minus the joint's, rad, 0 in the middle of the play; `rotor` and `joint` are speeds,
    rad/s.
    """
    if abs(gap) < 0.5 * play:
        return 0
    flank = 1 if gap > 0.0 else -1
    return flank if (rotor - joint) * flank > 0.0 else 0  # otherwise the rotor moves back into the play


@jit
def meeting(gap: float, rotor: float, joint: float, play: float, armature: float, mobility: float) -> tuple[int, float]:
    """Return the flank as `reached`, and the rotor's impulse on the joint, N·m·s.

    `mobility` is the joint's change of speed for an impulse of 1 N·m·s, 1/(kg·m²).
    """
    flank = reached(gap, rotor, joint, play)
    if flank == 0:
        return 0, 0.0
    return flank, (rotor - joint) / (1.0 / armature + mobility)


@jit
def leaves(flank: float, passed: float) -> bool:
    """Return whether the rotor leaves its flank: `passed`, its impulse on the joint, N·m·s, would have to pull."""
    return passed * flank < 0.0


@jit
def rest(joint: FloatArray, armature: float, play: float, pushed: float, gained: float) -> float:
    """Release the rotor from its flank after a substep if it would pull; return the impulse that it kept, N·m·s.

    `pushed` is the impulse of the motor less the gear's friction, N·m·s; `gained` is the change of speed, rad/s.
    """
    kept: float = armature * gained
    if leaves(joint[Joint.FLANK], pushed - kept):
        joint[Joint.LOOSE] = 1.0
        joint[Joint.ROTOR] = joint[Joint.ANGLE] + 0.5 * joint[Joint.FLANK] * play
        joint[Joint.ROTOR_SPEED] = joint[Joint.SPEED]
    return kept
