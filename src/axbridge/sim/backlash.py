"""Play between gear and output shaft: in it the rotor turns on its own, and the joint swings freely.

The rotor (armature, motor, friction of the gear) rests on one flank of the play or on the other; then it and the joint
move as one, and the equations are those without play. It leaves the flank when it would have to pull the joint instead
of pushing it. Free, it meets a flank again as two bodies that do not bounce, whose momentum is kept, so play never adds
energy. All angles and speeds are seen at the output.
"""

from __future__ import annotations

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.servo.columns import Joint, Param
from axbridge.sim.implicit import Book

__all__ = ["catch", "meet", "meeting", "reached", "rest"]


@jit
def reached(gap: float, rotor: float, joint: float, play: float) -> int:
    """The end of the play that the rotor reaches: 1 or -1, 0 for none; arguments as for `meeting`."""
    if abs(gap) < 0.5 * play:
        return 0
    flank = 1 if gap > 0.0 else -1
    return flank if (rotor - joint) * flank > 0.0 else 0  # else it is on its way back into the play


@jit
def meeting(gap: float, rotor: float, joint: float, play: float, armature: float, mobility: float) -> tuple[int, float]:
    """What happens where the rotor reaches an end of the play.

    Args:
        gap: Angle of the rotor beyond the joint's, 0 in the middle of the play, rad.
        rotor: Its speed, rad/s.
        joint: The joint's, rad/s.
        play: Width, rad.
        armature: kg·m².
        mobility: Speed that an impulse of 1 N·m·s gives the joint, 1/(kg·m²).

    Returns:
        The flank reached, 1 or -1, 0 for none; the impulse that the joint gets from it, N·m·s.
    """
    flank = reached(gap, rotor, joint, play)
    if flank == 0:
        return 0, 0.0
    return flank, (rotor - joint) / (1.0 / armature + mobility)


@jit
def meet(
    inverse: FloatArray, servo: IntArray, params: FloatArray, joint: FloatArray, book: FloatArray, speed: FloatArray,
    weight: FloatArray, loose: FloatArray, step: float,
) -> None:  # fmt: skip
    """Rotors in their play that reach a flank in this substep hit their joints.

    Args:
        inverse: Of the substep's matrix, (n, n).
        servo: Row of the servo that drives each joint, (n,).
        params: (servos, len(Param)).
        joint: (n, len(Joint)), changed in place; ROTOR as at the substep's end, ANGLE and SPEED as at its start.
        book: (n, len(Book)), changed in place.
        speed: At its end, rad/s, changed in place, (n,).
        weight: Of that in the mean speed, (n,).
        loose: 1 for joints in their play, (n,).
        step: s.
    """
    n = speed.shape[0]
    for j in range(n):
        if loose[j] == 0.0:
            continue
        row = servo[j]
        ahead = step * (weight[j] * speed[j] + (1.0 - weight[j]) * joint[j, Joint.SPEED])
        flank, hit = meeting(
            joint[j, Joint.ROTOR] - joint[j, Joint.ANGLE] - ahead, joint[j, Joint.ROTOR_SPEED], speed[j],
            params[row, Param.BACKLASH], params[row, Param.ARMATURE], inverse[j, j],
        )  # fmt: skip
        if flank != 0:
            joint[j, Joint.LOOSE], joint[j, Joint.FLANK] = 0.0, float(flank)
            book[j, Book.PUSH] += hit
            for i in range(n):
                speed[i] += inverse[i, j] * hit


@jit
def catch(params: FloatArray, joint: FloatArray, book: FloatArray) -> None:
    """A joint that was hit so hard that it crosses its play at once takes its rotor along.

    Args:
        params: The servo's row.
        joint: The joint's row, changed in place.
        book: Likewise.
    """
    taken = params[Param.ARMATURE] * (joint[Joint.ROTOR_SPEED] - joint[Joint.SPEED])
    joint[Joint.LOOSE] = 0.0
    joint[Joint.FLANK] = -1.0 if book[Book.DEBT] > 0.0 else 1.0
    book[Book.DEBT] += taken
    book[Book.PUSH] += taken


@jit
def rest(params: FloatArray, joint: FloatArray, book: FloatArray, pushed: float, gained: float) -> None:
    """After a substep of a rotor on its flank: what passed on to the joint, and whether it still pushes.

    Args:
        params: The servo's row.
        joint: The joint's row, changed in place.
        book: Likewise.
        pushed: Impulse of motor and gear, N·m·s.
        gained: Speed that joint and rotor gained, rad/s.
    """
    kept = params[Param.ARMATURE] * gained
    book[Book.PUSH] -= kept
    if (pushed - kept) * joint[Joint.FLANK] < 0.0:
        joint[Joint.LOOSE] = 1.0
        joint[Joint.ROTOR] = joint[Joint.ANGLE] + 0.5 * joint[Joint.FLANK] * params[Param.BACKLASH]
        joint[Joint.ROTOR_SPEED] = joint[Joint.SPEED]
