"""The servo's own control loop as a kernel: a row of `Command` and a reading in, a voltage out.

`control` goes through these in each substep of the simulation, in this order:

1. Without torque it forgets all it knew. When torque comes back, it starts from where the shaft is then.
2. The reading passes the sensor's lag, and the speed passes its filter: they go on whether or not the loop runs now.
3. A wheel has no angle to hold: its duty, or its loop of the speed, gives the voltage.
4. The reference moves towards the goal at Moving Speed. It does so in every substep, also between two runs of the loop:
   the goal that the loop finds at its next run is that of then.
5. Between two runs the voltage stays. Else the position law gives it, as a line over the speed: `volts - feedback·ω`.
   A law that samples has no line: what it makes of the speed is in `volts` already.
6. The torque limit comes last, because a line that is cut off is a constant.
"""

from __future__ import annotations

import math

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.columns import Command, Joint, Mode, Param
from axbridge.servo.motor import Motor, driving
from axbridge.servo.position_laws import Loop, approach, lagging, motor_duty, position_law, saturated

_WHEEL_GAIN = 4.0  # speed loop of the MX wheel mode: V·s/rad in units of the motor constant


@jit
def loop_of(params: FloatArray, command: FloatArray) -> Loop:
    """The loop in a packed model, (len(Param),), and the registers in force, (len(Command),)."""
    slope, punch = params[Param.SLOPE], params[Param.PUNCH]
    punch = punch if punch >= 0.0 else command[Command.PUNCH]
    count, dead = params[Param.COUNT], params[Param.DEAD_DUTY]
    return Loop(
        int(params[Param.LAW]),
        params[Param.K_THETA],
        params[Param.K_OMEGA],
        params[Param.P_DUTY] * command[Command.P_GAIN],
        params[Param.I_DUTY] * command[Command.I_GAIN],
        params[Param.D_DUTY] * command[Command.D_GAIN],
        command[Command.MARGIN_CW],
        command[Command.MARGIN_CCW],
        slope if slope > 0.0 else command[Command.SLOPE_CW],
        slope if slope > 0.0 else command[Command.SLOPE_CCW],
        (punch - dead) / (1.0 - dead),  # the law is a line from here to full duty, and so is what is felt of it
        dead,
        count,
        count if params[Param.QUANTISED] != 0.0 else 0.0,
        params[Param.LAG],
        params[Param.SPEED_FILTER],
        params[Param.PERIOD],
    )


@jit
def control(
    command: FloatArray, joint: FloatArray, loop: Loop, motor: Motor, reading: float, angle: float, speed: float,
    supply: float, step: float, blur: float,
) -> None:  # fmt: skip
    """Run the loop for one substep; leaves `volts - feedback * ω` in the joint's VOLTS and FEEDBACK, and OPEN.

    `reading` is the position as the sensor has it, `angle` the true one, rad; both, and `speed`, are on the servo's
    side. `blur` is noise that `reading` is without and the compliance law answers on average, a standard deviation,
    rad.
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
    joint[Joint.SEEN], blur = lagging(joint[Joint.SEEN], reading, loop.lag, blur, step)
    weight = loop.speed_filter
    if weight < 1.0:  # the weight is that of a 1 ms loop
        weight = 1.0 - (1.0 - weight) ** (step * 1e3)
        joint[Joint.FILTERED] += weight * (speed - joint[Joint.FILTERED])
    else:
        joint[Joint.FILTERED] = speed
    mode = int(command[Command.MODE])
    if not (mode == Mode.JOINT or mode == Mode.JOINT_CURRENT):  # noqa: PLR1714 - what becomes a joint again starts here
        joint[Joint.REFERENCE], joint[Joint.INTEGRAL], joint[Joint.LAST_ERROR] = angle, 0.0, 0.0
    if mode == Mode.WHEEL_DUTY:
        joint[Joint.VOLTS] = motor_duty(min(max(command[Command.DUTY], -cap), cap), loop.dead) * supply
        joint[Joint.FEEDBACK] = 0.0
        return
    if mode == Mode.CURRENT:
        _drive_current(joint, motor, command[Command.CURRENT], speed, cap * supply, supply)
        return
    if mode == Mode.WHEEL_SPEED or mode == Mode.SPEED:  # noqa: PLR1714 - numba
        joint[Joint.REFERENCE_SPEED] = approach(
            joint[Joint.REFERENCE_SPEED], command[Command.SPEED], command[Command.ACCELERATION], step
        )
        gain, ahead = command[Command.SPEED_P] * supply, 0.0
        stiffness = command[Command.SPEED_I] * supply
        if mode == Mode.WHEEL_SPEED:  # as stiff against the angle that errors add up to as the loop of the angle
            gain, ahead = _WHEEL_GAIN * motor.constant, motor.constant
            stiffness = loop.p * supply / loop.one_count
        _hold_speed(joint, gain, ahead, stiffness, speed, cap * supply, step)
        return
    joint[Joint.LAG] = 0.0
    joint[Joint.REFERENCE], joint[Joint.REFERENCE_SPEED] = follow_goal(
        joint[Joint.REFERENCE], joint[Joint.REFERENCE_SPEED], command[Command.GOAL], command[Command.SPEED],
        command[Command.ACCELERATION], step,
    )  # fmt: skip
    if loop.period > 0.0:
        holds = joint[Joint.TIMER] > 1e-9
        joint[Joint.TIMER] = max(joint[Joint.TIMER] - step + (0.0 if holds else loop.period), -step)
        if holds:
            return  # the loop holds its output
    most = cap if mode == Mode.JOINT else command[Command.CURRENT] / command[Command.FULL_CURRENT]
    sampled = loop.period > 0.0 or weight < 1.0  # else state feedback acts within the substep, too
    volts, feedback, joint[Joint.INTEGRAL], joint[Joint.LAST_ERROR] = position_law(
        loop, joint[Joint.REFERENCE], angle if sampled else angle + 0.5 * step * speed, joint[Joint.SEEN],
        joint[Joint.INTEGRAL], joint[Joint.LAST_ERROR], max(loop.period, step), most, supply, blur,
    )  # fmt: skip
    if mode == Mode.JOINT_CURRENT:
        asked = min(max(volts / supply, -most), most) * command[Command.FULL_CURRENT]
        _drive_current(joint, motor, asked, speed, cap * supply, supply)
        return
    if sampled:
        volts -= feedback * joint[Joint.FILTERED]
        feedback = 0.0
    joint[Joint.VOLTS], joint[Joint.FEEDBACK] = saturated(volts, feedback, speed, motor_duty(cap, loop.dead) * supply)


@jit
def _hold_speed(
    joint: FloatArray, gain: float, ahead: float, stiffness: float, speed: float, limit: float, step: float
) -> None:  # fmt: skip
    """Proportional to the error of the speed, and to that of the angle it adds up to: a PI loop of the speed.

    REFERENCE_SPEED of the joint is what is wanted; `gain`, and `ahead`, fed forward, in V·s/rad; `stiffness` in V/rad.
    """
    wanted = joint[Joint.REFERENCE_SPEED]
    lag = joint[Joint.LAG] + step * (wanted - speed)
    if stiffness * abs(lag) > limit:  # no wind-up
        lag = math.copysign(limit / stiffness, lag)
    joint[Joint.LAG] = lag
    volts = (gain + ahead) * wanted + stiffness * lag
    joint[Joint.VOLTS], joint[Joint.FEEDBACK] = saturated(volts, gain, speed, limit)


@jit
def _drive_current(
    joint: FloatArray, motor: Motor, current: float, speed: float, limit: float, supply: float
) -> None:  # fmt: skip
    """A loop of the current that is quick against all else: the voltage that drives it, as far as `limit` (V) goes."""
    volts, feedback = driving(motor, current, speed, supply)
    joint[Joint.VOLTS], joint[Joint.FEEDBACK] = saturated(volts, feedback, speed, limit)


@jit
def follow_goal(
    reference: float, reference_speed: float, goal: float, speed: float, acceleration: float, step: float
) -> tuple[float, float]:
    """The reference, rad, and its speed after a step towards the goal at `speed` and with `acceleration`; 0 = none."""
    if acceleration > 0.0:
        distance = goal - reference
        fastest = math.sqrt(2.0 * acceleration * abs(distance))
        if speed > 0.0:
            fastest = min(fastest, speed)
        pace = approach(reference_speed, fastest if distance > 0.0 else -fastest, acceleration, step)
        move = pace * step
        if abs(move) >= abs(distance):
            return goal, 0.0
        return reference + move, pace
    return approach(reference, goal, speed, step), 0.0
