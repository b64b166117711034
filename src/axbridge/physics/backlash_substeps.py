"""Backlash in the bank's substeps: rotors that meet their joints, and leave them; see `axbridge.physics.backlash`."""

from __future__ import annotations

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.physics.backlash import meeting
from axbridge.physics.columns import Joint, Param
from axbridge.physics.implicit import Book

__all__ = ["catch", "meet", "rest"]


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
