"""What ideal joints do in a step of an engine without any: motors, springs, dampers and stops, solved together.

A motor row tries to bring the joint to the commanded speed within one step, by at most its torque limit. Spring and
damper act beside it, implicitly: `v' = (I·v + h·(τ - K·x)) / (I + h·B + h²·K)`. Source: Webots Reference Manual, Motor,
Servo and JointParameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.sim.engine import IdealMotor

__all__ = ["Rows", "solve_rows"]

_REACHED, _LIMITED_UP, _LIMITED_DOWN, _AT_HIGH, _AT_LOW = range(5)  # what a joint is taken to do in a step
_BOLD, _GUESSES = 8, 60  # a joint alone needs two or three
_TOLERANCE = 1e-12
_NO_CHOICE = 1e-9  # N·m


class Rows(NamedTuple):
    """What the ideal joints do in one step, each (n,).

    Attributes:
        target: Speed their motors try to reach.
        limit: Most torque of the motors.
        beside: Torque besides: user torque, spring and damper.
        motor: Torque of the motors, as predicted without contacts.
        speed: Speed at the end, likewise.
        stopped: Whether a stop decides about the speed.
    """

    target: FloatArray
    limit: FloatArray
    beside: FloatArray
    motor: FloatArray
    speed: FloatArray
    stopped: npt.NDArray[np.bool_]


def solve_rows(
    joints: Sequence[IdealMotor],
    h: float,
    position: FloatArray,
    speed: FloatArray,
    inertia: FloatArray,
    load: FloatArray,
    others: tuple[FloatArray, FloatArray, FloatArray],
) -> Rows:
    """Motors, springs, dampers and stops of the ideal joints over a step of `h` seconds.

    Solves `(M + h·B + h²·K)·v' = M·v + h·(τ - c - K·x) + λ`, where each motor impulse λ is within `±h·limit` and as
    large as it must be to reach the target speed, and a stop adds what it must to end the step inside. Each joint is
    taken to reach its target, to be at its limit or at a stop; guesses that turn out wrong are changed until none is.

    Args:
        joints: The last n of the m joints.
        h: s.
        position: x, (m,).
        speed: v, (m,).
        inertia: M, (m, m).
        load: c, (m,): gravity, Coriolis.
        others: What the first m - n joints are asked for: mean speed, lowest and highest torque, each (m - n,). Where
            there is no choice of torque, the speed follows from it.
    """
    asked, low, high = others
    m, first = len(position), len(asked)
    mine = slice(first, m)
    stiffness, damping, user = np.zeros(m), np.zeros(m), np.zeros(m)
    stiffness[mine] = [joint.stiffness for joint in joints]
    damping[mine] = [joint.damping for joint in joints]
    user[mine] = [joint.user_torque for joint in joints]
    target, limit = np.array([joint.row for joint in joints]).T
    stops = np.array([joint.stops for joint in joints])
    lowest, highest = (stops[:, 0] - position[mine]) / h, (stops[:, 1] - position[mine]) / h
    matrix = inertia + np.diag(h * damping + h * h * stiffness)
    momentum = inertia @ speed + h * (user - load - stiffness * position)

    given = np.zeros(m, dtype=np.bool_)  # whether the speed is given, and the impulse follows; else the other way round
    given[:first] = high - low > _NO_CHOICE
    final, impulse = np.zeros(m), np.zeros(m)
    final[:first], impulse[:first] = asked, h * 0.5 * (low + high)
    state = np.where(target > highest, _AT_HIGH, np.where(target < lowest, _AT_LOW, _REACHED))
    push = h * limit
    for guess in range(_GUESSES):
        given[mine] = state != _LIMITED_UP
        given[mine] &= state != _LIMITED_DOWN
        final[mine] = np.select([state == _AT_HIGH, state == _AT_LOW], [highest, lowest], target)
        impulse[mine] = np.where(state == _LIMITED_UP, push, -push)
        free = ~given
        if free.any():
            right = momentum[free] + impulse[free] - matrix[np.ix_(free, given)] @ final[given]
            final[free] = np.linalg.solve(matrix[np.ix_(free, free)], right)
        impulse[given] = matrix[given] @ final - momentum[given]
        now, own = final[mine], impulse[mine]
        better = state.copy()
        better[(state == _REACHED) & (own > push + _TOLERANCE)] = _LIMITED_UP
        better[(state == _REACHED) & (own < -push - _TOLERANCE)] = _LIMITED_DOWN
        better[(state == _LIMITED_UP) & (now > target + _TOLERANCE)] = _REACHED
        better[(state == _LIMITED_DOWN) & (now < target - _TOLERANCE)] = _REACHED
        limited = (state == _LIMITED_UP) | (state == _LIMITED_DOWN)
        better[limited & (now > highest + _TOLERANCE)] = _AT_HIGH
        better[limited & (now < lowest - _TOLERANCE)] = _AT_LOW
        helping = np.where(target > now, push, -push)  # what a motor does at a stop: it cannot reach its target there
        better[(state == _AT_HIGH) & (own > helping + _TOLERANCE)] = _LIMITED_UP
        better[(state == _AT_LOW) & (own < helping - _TOLERANCE)] = _LIMITED_DOWN
        better[(better == _REACHED) & (target > highest)] = _AT_HIGH
        better[(better == _REACHED) & (target < lowest)] = _AT_LOW
        wrong = better != state
        if not wrong.any():
            break
        if guess >= _BOLD:  # all changes at once may go round in circles; one at a time does not
            wrong[np.argmax(wrong) + 1 :] = False
        state = np.where(wrong, better, state)
    now = final[mine]
    stopped = (state == _AT_HIGH) | (state == _AT_LOW)
    motor = np.where(stopped, np.where(target > now, limit, np.where(target < now, -limit, 0.0)), impulse[mine] / h)
    beside = user - stiffness * (position + h * final) - damping * final
    return Rows(target, limit, beside[mine], np.clip(motor, -limit, limit), now, stopped)
