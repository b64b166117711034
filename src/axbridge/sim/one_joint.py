"""One joint on its own: an implicit step, hard stops, and the play between gear and output shaft.

In its play the rotor turns on its own, and the joint coasts against its own friction.

Two bodies, seen at the output: the rotor (armature A, torque T of the motor less what the gear rubs away) and the joint
(inertia J, torque G of gravity and all else, dry friction of at most F on its own side: that of the output shaft's
bearing, `Param.OUTPUT`, and what a rig adds). With the flank s = 1 or -1 on which the rotor rests, and the force P on
it, in N·m,

    A·ω_r' = T - P          J·ω' = G + P - f,   |f| ≤ F against the motion          P·s ≥ 0: a flank pushes only

*On a flank* ω_r = ω, so they move as one body of A + J, with the friction of both sides; the equations are those
without play. P follows from the rotor alone: P = T - A·ω'. Where P·s would be negative, the rotor would have to pull,
and leaves the flank (`rest`).

*In the play* P = 0, each goes its own way. While the motor brakes, A slows down by T, and J by no more than G - f. So a
bar with a large J runs ahead through the play and is caught at the other flank later, with more of its speed left; a
bare horn, J = 0, is held to the driving flank by its friction: P = f there.

*They meet* without a bounce: an impulse passes that makes their speeds one, and keeps their momentum. So play never
adds energy (`meeting`).
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
    """A step of a body that turns on its own: mean speed and speed at its end, rad/s.

    `torque` is that at zero speed, of all but dry friction, N·m; `friction` the largest impulse of that, N·m·s.
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
    """A step that hard stops may end: angle at its end, rad, mean speed and speed at its end, rad/s."""
    following = angle + step * mean
    if following < low or following > high:
        following = min(max(following, low), high)
        return following, (following - angle) / step, 0.0
    return following, mean, speed


@jit
def reached(gap: float, rotor: float, joint: float, play: float) -> int:
    """The end of the play that the rotor reaches: 1 or -1, 0 for none.

    `gap` is the angle of the rotor beyond the joint's, 0 in the middle of the play; both speeds are in rad/s.
    """
    if abs(gap) < 0.5 * play:
        return 0
    flank = 1 if gap > 0.0 else -1
    return flank if (rotor - joint) * flank > 0.0 else 0  # else it is on its way back into the play


@jit
def meeting(gap: float, rotor: float, joint: float, play: float, armature: float, mobility: float) -> tuple[int, float]:
    """As `reached`; and the impulse that the joint gets from the rotor, N·m·s.

    `mobility` is the speed that an impulse of 1 N·m·s gives the joint, 1/(kg·m²).
    """
    flank = reached(gap, rotor, joint, play)
    if flank == 0:
        return 0, 0.0
    return flank, (rotor - joint) / (1.0 / armature + mobility)


@jit
def leaves(flank: float, passed: float) -> bool:
    """Whether a rotor leaves its flank that would have to pass on this impulse to its joint, N·m·s."""
    return passed * flank < 0.0


@jit
def rest(joint: FloatArray, armature: float, play: float, pushed: float, gained: float) -> float:
    """Let a rotor leave its flank after a substep, if it has to; what it kept of the impulse, N·m·s.

    `pushed` is the impulse of motor and gear with its friction; `gained` the speed that joint and rotor gained.
    """
    kept: float = armature * gained
    if leaves(joint[Joint.FLANK], pushed - kept):
        joint[Joint.LOOSE] = 1.0
        joint[Joint.ROTOR] = joint[Joint.ANGLE] + 0.5 * joint[Joint.FLANK] * play
        joint[Joint.ROTOR_SPEED] = joint[Joint.SPEED]
    return kept
