"""The servo's own control loop as a kernel: a row of `Command` and a reading in, a voltage out."""

from __future__ import annotations

import math

from axbridge.jit import jit
from axbridge.physics.columns import Command, Joint, Mode
from axbridge.physics.mechanics import FloatArray
from axbridge.physics.model_columns import Law, Param
from axbridge.physics.position_laws import (
    approach,
    follow,
    lagging,
    mean_compliance,
    pid,
    quantise,
    saturated,
    state_feedback,
)

__all__ = ["control"]

_WHEEL_GAIN = 4.0  # speed loop of the MX wheel mode: V·s/rad in units of the motor constant


@jit
def control(
    command: FloatArray, joint: FloatArray, params: FloatArray, reading: float, angle: float, speed: float,
    supply: float, step: float, blur: float,
) -> None:  # fmt: skip
    """Run the loop for one substep; leaves `volts - feedback * ω` in the joint's VOLTS and FEEDBACK, and OPEN.

    Args:
        command: One row of `Command`.
        joint: The joint's row of `Joint`; REFERENCE, VOLTS and the like are the loop's own memory.
        params: One row of `Param`.
        reading: Position as the sensor has it, rad, servo side.
        angle: The true one, rad.
        speed: rad/s, servo side.
        supply: V.
        step: s.
        blur: Noise that `reading` is without and the compliance law answers on average, standard deviation, rad.
    """
    cap = min(command[Command.TORQUE_LIMIT], 1.0)
    if command[Command.TORQUE] == 0.0 or cap <= 0.0 or supply <= 0.0:
        joint[Joint.OPEN] = 1.0
        joint[Joint.LAG] = 0.0
        joint[Joint.VOLTS] = 0.0
        joint[Joint.FEEDBACK] = 0.0
        joint[Joint.REFERENCE] = angle
        joint[Joint.REFERENCE_SPEED] = 0.0
        joint[Joint.INTEGRAL] = 0.0
        joint[Joint.LAST_ERROR] = 0.0
        joint[Joint.FILTERED] = speed
        joint[Joint.TIMER] = 0.0
        joint[Joint.SEEN] = reading
        return
    joint[Joint.OPEN] = 0.0
    joint[Joint.SEEN], blur = lagging(joint[Joint.SEEN], reading, params[Param.LAG], blur, step)
    weight = params[Param.SPEED_FILTER]
    if weight < 1.0:  # the weight is that of a 1 ms loop
        weight = 1.0 - (1.0 - weight) ** (step * 1e3)
        joint[Joint.FILTERED] += weight * (speed - joint[Joint.FILTERED])
    else:
        joint[Joint.FILTERED] = speed
    mode = int(command[Command.MODE])
    if mode == Mode.WHEEL_DUTY:
        joint[Joint.VOLTS] = min(max(command[Command.DUTY], -cap), cap) * supply
        joint[Joint.FEEDBACK] = 0.0
        return
    if mode == Mode.WHEEL_SPEED:
        _ramp(joint, command[Command.SPEED], command[Command.ACCELERATION], step)
        _hold_speed(joint, command, params, speed, cap * supply, supply, step)
        return
    joint[Joint.LAG] = 0.0
    _follow_goal(joint, command, step)
    if params[Param.PERIOD] > 0.0:
        joint[Joint.TIMER] -= step
        if joint[Joint.TIMER] > 1e-9:
            return  # the loop holds its output
        joint[Joint.TIMER] += params[Param.PERIOD]
        if joint[Joint.TIMER] <= 0.0:
            joint[Joint.TIMER] = params[Param.PERIOD]
    law = int(params[Param.LAW])
    if law == Law.STATE_FEEDBACK:
        sampled = params[Param.PERIOD] > 0.0 or weight < 1.0  # else the law acts continuously, within the substep, too
        volts, feedback = state_feedback(
            joint[Joint.REFERENCE],
            joint[Joint.REFERENCE_SPEED],
            angle if sampled else angle + 0.5 * step * speed,
            params[Param.K_THETA],
            params[Param.K_OMEGA],
        )
        if sampled:
            volts -= feedback * joint[Joint.FILTERED]
            feedback = 0.0
        joint[Joint.VOLTS], joint[Joint.FEEDBACK] = saturated(volts, feedback, speed, cap * supply)
        return
    count = params[Param.COUNT]
    quantum = count if params[Param.QUANTISED] != 0.0 else 0.0
    if law == Law.COMPLIANCE:
        margin_cw, margin_ccw = command[Command.MARGIN_CW], command[Command.MARGIN_CCW]
        slope, punch = params[Param.SLOPE], params[Param.PUNCH]
        slope_cw = slope if slope > 0.0 else command[Command.SLOPE_CW]
        slope_ccw = slope if slope > 0.0 else command[Command.SLOPE_CCW]
        punch = punch if punch >= 0.0 else command[Command.PUNCH]
        duty = mean_compliance(
            joint[Joint.REFERENCE], joint[Joint.SEEN], quantum, blur, margin_cw, margin_ccw, slope_cw, slope_ccw, punch
        )
    else:
        interval = max(params[Param.PERIOD], step)
        counts = (joint[Joint.REFERENCE] - quantise(joint[Joint.SEEN], quantum)) / count
        duty, joint[Joint.INTEGRAL] = pid(
            counts, joint[Joint.LAST_ERROR], joint[Joint.INTEGRAL], interval,
            params[Param.P_DUTY] * command[Command.P_GAIN], params[Param.I_DUTY] * command[Command.I_GAIN],
            params[Param.D_DUTY] * command[Command.D_GAIN], cap,
        )  # fmt: skip
        joint[Joint.LAST_ERROR] = counts
    joint[Joint.VOLTS] = min(max(duty, -cap), cap) * supply
    joint[Joint.FEEDBACK] = 0.0


@jit
def _hold_speed(
    joint: FloatArray, command: FloatArray, params: FloatArray, speed: float, limit: float, supply: float, step: float
) -> None:  # fmt: skip
    """Proportional to the error of the speed, and to that of the angle it adds up to, by the P gain of the angle."""
    wanted = joint[Joint.REFERENCE_SPEED]
    stiffness = params[Param.P_DUTY] * command[Command.P_GAIN] * supply / params[Param.COUNT]
    lag = joint[Joint.LAG] + step * (wanted - speed)
    if stiffness * abs(lag) > limit:  # no wind-up
        lag = math.copysign(limit / stiffness, lag)
    joint[Joint.LAG] = lag
    gain = _WHEEL_GAIN * params[Param.CONSTANT]
    volts = (gain + params[Param.CONSTANT]) * wanted + stiffness * lag
    joint[Joint.VOLTS], joint[Joint.FEEDBACK] = saturated(volts, gain, speed, limit)


@jit
def _ramp(joint: FloatArray, speed: float, acceleration: float, step: float) -> None:
    joint[Joint.REFERENCE_SPEED] = approach(joint[Joint.REFERENCE_SPEED], speed, acceleration, step)


@jit
def _follow_goal(joint: FloatArray, command: FloatArray, step: float) -> None:
    """Move the reference at the moving speed, and with the goal acceleration where there is one."""
    goal, speed, acceleration = command[Command.GOAL], command[Command.SPEED], command[Command.ACCELERATION]
    if acceleration > 0.0:
        distance = goal - joint[Joint.REFERENCE]
        fastest = math.sqrt(2.0 * acceleration * abs(distance))
        if speed > 0.0:
            fastest = min(fastest, speed)
        _ramp(joint, fastest if distance > 0.0 else -fastest, acceleration, step)
        move = joint[Joint.REFERENCE_SPEED] * step
        if abs(move) >= abs(distance):
            joint[Joint.REFERENCE] = goal
            joint[Joint.REFERENCE_SPEED] = 0.0
        else:
            joint[Joint.REFERENCE] += move
        return
    joint[Joint.REFERENCE], joint[Joint.REFERENCE_SPEED] = follow(joint[Joint.REFERENCE], goal, speed, step)
