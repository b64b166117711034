"""Between the bank and the mechanics, once a physics step: what is asked of them, and what comes back."""

from __future__ import annotations

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.physics.columns import Drive, Joint
from axbridge.physics.mechanics import FIRM
from axbridge.physics.substep import DIAGONAL

__all__ = ["ask", "begin", "take_over"]

_JUMP = 0.2  # rad/s: changes of speed above this within a physics step count as collisions
_NEAR = 0.02  # rad


@jit
def begin(joint: FloatArray, load: FloatArray, fresh: FloatArray, smooth: bool, step: float, work: FloatArray) -> None:
    """At the start of a physics step: take over the joints' load, and count anew what acts on them.

    Args:
        joint: (n, len(Joint)), changed in place.
        load: As in `run`, changed in place.
        fresh: The load now, (n,), N·m.
        smooth: Whether it goes on growing as since the step before.
        step: The physics step, s.
        work: That of `run`; what it remembers of the inertia is out of date.
    """
    n = joint.shape[0]
    for j in range(n):
        load[1, j] = (fresh[j] - load[0, j]) / step if smooth else 0.0
        load[0, j] = fresh[j]
        joint[j, Joint.PUSH] = joint[j, Joint.DEBT]
        joint[j, Joint.DAMP] = joint[j, Joint.CLOCK] = 0.0
        joint[j, Joint.START] = joint[j, Joint.ANGLE]
        joint[j, Joint.START_SPEED] = joint[j, Joint.SPEED]
        work[DIAGONAL, j] = -1.0


@jit
def ask(
    joint: FloatArray, drive: FloatArray, armature: FloatArray, actual: FloatArray, step: float, resting: bool,
    margin: float, asked: FloatArray, low: FloatArray, high: FloatArray,
) -> None:  # fmt: skip
    """At the end of a physics step: the speed to ask of the mechanics, and the torque that may be spent on it.

    Args:
        joint: (n, len(Joint)).
        drive: (n, len(Drive)).
        armature: (n,), kg·m².
        actual: Speeds the mechanics had at the start, (n,).
        step: The physics step, s.
        resting: Whether contacts at rest hold the robot.
        margin: How far off the prediction a motor still holds its joint, rad/s.
        asked: Result, (n,).
        low: Result: lowest torque, (n,). An engine that starts from the middle starts from what is expected.
        high: Result: highest torque.
    """
    for j in range(joint.shape[0]):
        end = joint[j, Joint.SPEED]
        asked[j] = end if resting else (joint[j, Joint.ANGLE] - joint[j, Joint.START]) / step
        stiffness = armature[j] + joint[j, Joint.DAMP]  # N·m·s for each rad/s that the joint is off the prediction
        needed = joint[j, Joint.PUSH] - armature[j] * (end - joint[j, Joint.START_SPEED])
        reach = stiffness * (abs(asked[j] - actual[j]) + margin)
        near = _NEAR + step * abs(actual[j])
        angle = joint[j, Joint.START]
        if angle > drive[j, Drive.HIGH] - near or angle < drive[j, Drive.LOW] + near:
            reach += FIRM  # a hard stop gives way to nothing; the engine's own reacts only once it is passed
        low[j], high[j] = (needed - reach) / step, (needed + reach) / step


@jit
def take_over(
    joint: FloatArray, armature: FloatArray, inertia: FloatArray, before: FloatArray,
    after: tuple[FloatArray, FloatArray], applied: FloatArray, growth: FloatArray, step: float, resting: bool,
    asked: FloatArray,
) -> float:  # fmt: skip
    """After a physics step: the joints' true state, and what is left over of the servos' momentum.

    Args:
        joint: (n, len(Joint)), changed in place.
        armature: (n,), kg·m².
        inertia: (n, n), kg·m².
        before: Speeds of the mechanics before the step, (n,).
        after: Their angles and speeds after it.
        applied: Torques the mechanics applied, (n,), N·m.
        growth: Of the load in this step, as in `run`; the mechanics do not see it, N·m/s.
        step: The physics step, s.
        resting: As in `ask`.
        asked: Speeds asked for.

    Returns:
        By how much the joint that went least as asked missed its speed, rad/s.
    """
    n = joint.shape[0]
    angles, actual = after
    worst = 0.0
    for j in range(n):
        missed = actual[j] - asked[j]
        worst = max(worst, abs(missed))
        ahead = joint[j, Joint.SPEED] - asked[j]
        # A joint that was stopped by something does not gain what it was predicted to.
        ahead *= max(0.0, 1.0 - abs(missed) / (abs(ahead) + 1e-12))
        joint[j, Joint.SPEED] = actual[j] + ahead
        joint[j, Joint.ANGLE] = angles[j]
        gained = joint[j, Joint.SPEED] - joint[j, Joint.START_SPEED]
        joint[j, Joint.DEBT] = joint[j, Joint.PUSH] - joint[j, Joint.DAMP] * missed
        joint[j, Joint.DEBT] -= armature[j] * gained + step * (applied[j] + 0.5 * step * growth[j])
    for j in range(n):
        if not resting:
            for k in range(n):
                joint[j, Joint.DEBT] -= inertia[j, k] * (
                    joint[k, Joint.SPEED] - joint[k, Joint.START_SPEED] - actual[k] + before[k]
                )
        # What a collision leaves over is let go: carried on, it keeps a robot on the floor trembling.
        jump = (actual[j] - before[j]) / _JUMP
        joint[j, Joint.DEBT] /= 1.0 + jump * jump
    return worst
