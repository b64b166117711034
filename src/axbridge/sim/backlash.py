"""Play between gear and output shaft: in it the rotor turns on its own, and the joint swings freely.

The rotor (armature, motor, friction of the gear) rests on one flank of the play or on the other; then it and the joint
move as one, and the equations are those without play. It leaves the flank when it would have to pull the joint instead
of pushing it. Free, it meets a flank again as two bodies that do not bounce, whose momentum is kept, so play never adds
energy. All angles and speeds are seen at the output.
"""

from __future__ import annotations

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.columns import Joint, Param


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
def rest(params: FloatArray, joint: FloatArray, pushed: float, gained: float) -> float:
    """After a substep of a rotor on its flank: whether it still pushes.

    Args:
        params: The servo's row.
        joint: The joint's row, changed in place.
        pushed: Impulse of motor and gear, N·m·s.
        gained: Speed that joint and rotor gained, rad/s.

    Returns:
        What of the impulse the rotor kept; the rest passed on to the joint, N·m·s.
    """
    kept: float = params[Param.ARMATURE] * gained
    if (pushed - kept) * joint[Joint.FLANK] < 0.0:
        joint[Joint.LOOSE] = 1.0
        joint[Joint.ROTOR] = joint[Joint.ANGLE] + 0.5 * joint[Joint.FLANK] * params[Param.BACKLASH]
        joint[Joint.ROTOR_SPEED] = joint[Joint.SPEED]
    return kept
