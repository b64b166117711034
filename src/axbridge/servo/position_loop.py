"""The servo's control loop as a kernel: from a row of `Command` and a reading to a voltage.

`control` does this in each substep of the simulation, in this order:

1. Without torque, the loop's state is reset. So the loop starts from the shaft's position when torque comes back.
2. The reading passes the sensor's lag, and the speed passes its filter, also between two runs of the loop.
3. The wheel, speed and current modes hold no angle: the duty, or a loop of the speed or current, gives the voltage.
4. The reference moves towards the goal at Moving Speed in every substep, also between two runs of the loop. So each run
   uses the reference of its own time.
5. Between two runs the voltage stays. At a run, the position law gives it as a line over the speed,
   `volts - feedback·ω`. A sampled law gives no line: `volts` includes the effect of the measured speed.
6. The torque limit comes last, because a clipped line is a constant.
"""

from __future__ import annotations

import math

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.columns import Command, Joint, Mode, Param
from axbridge.servo.motor import Motor, driving
from axbridge.servo.position_laws import Loop, approach, lagging, motor_duty, position_law, saturated

_WHEEL_GAIN = 4.0  # gain of the speed loop in the MX wheel mode, as a multiple of the motor constant (V·s/rad)


@jit
def loop_of(params: FloatArray, command: FloatArray) -> Loop:
    """Return the loop of a packed model, (len(Param),), with the registers in force, (len(Command),)."""
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
        (punch - dead) / (1.0 - dead),  # the law is linear from punch to full duty, so the motor's duty is linear, too
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
    """Run the loop for one substep: set the joint's OPEN, VOLTS and FEEDBACK; the voltage is `volts - feedback * ω`.

    `reading` is the sensor's position, `angle` the true one, rad; both and `speed`, rad/s, are on the servo's side.
    `blur` is the standard deviation, rad, of noise that is not in `reading`: the compliance law returns its mean duty.
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
    if not (mode == Mode.JOINT or mode == Mode.JOINT_CURRENT):  # noqa: PLR1714 - a later joint mode starts from here
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
        gain, feed_forward = command[Command.SPEED_P] * supply, 0.0
        stiffness = command[Command.SPEED_I] * supply
        if mode == Mode.WHEEL_SPEED:  # the integral of the speed error has the stiffness of the position loop
            gain, feed_forward = _WHEEL_GAIN * motor.constant, motor.constant
            stiffness = loop.p * supply / loop.one_count
        _hold_speed(joint, gain, feed_forward, stiffness, speed, cap * supply, step)
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
    largest = cap if mode == Mode.JOINT else command[Command.CURRENT] / command[Command.FULL_CURRENT]
    sampled = loop.period > 0.0 or weight < 1.0  # otherwise state feedback acts within the substep, too
    volts, feedback, joint[Joint.INTEGRAL], joint[Joint.LAST_ERROR] = position_law(
        loop, joint[Joint.REFERENCE], angle if sampled else angle + 0.5 * step * speed, joint[Joint.SEEN],
        joint[Joint.INTEGRAL], joint[Joint.LAST_ERROR], max(loop.period, step), largest, supply, blur,
    )  # fmt: skip
    if mode == Mode.JOINT_CURRENT:
        current = min(max(volts / supply, -largest), largest) * command[Command.FULL_CURRENT]
        _drive_current(joint, motor, current, speed, cap * supply, supply)
        return
    if sampled:
        volts -= feedback * joint[Joint.FILTERED]
        feedback = 0.0
    joint[Joint.VOLTS], joint[Joint.FEEDBACK] = saturated(volts, feedback, speed, motor_duty(cap, loop.dead) * supply)


@jit
def _hold_speed(
    joint: FloatArray, gain: float, feed_forward: float, stiffness: float, speed: float, limit: float, step: float
) -> None:  # fmt: skip
    """Control the speed with a PI loop; the set-point is the joint's REFERENCE_SPEED, and LAG the integral.

    `gain` and `feed_forward` in V·s/rad; `stiffness`, the gain of the integral, in V/rad; `limit` in V.
    """
    goal = joint[Joint.REFERENCE_SPEED]
    lag = joint[Joint.LAG] + step * (goal - speed)
    if stiffness * abs(lag) > limit:  # no wind-up
        lag = math.copysign(limit / stiffness, lag)
    joint[Joint.LAG] = lag
    volts = (gain + feed_forward) * goal + stiffness * lag
    joint[Joint.VOLTS], joint[Joint.FEEDBACK] = saturated(volts, gain, speed, limit)


@jit
def _drive_current(
    joint: FloatArray, motor: Motor, current: float, speed: float, limit: float, supply: float
) -> None:  # fmt: skip
    """Set the voltage that drives a current, A, up to `limit`, V: a current loop without a delay of its own."""
    volts, feedback = driving(motor, current, speed, supply)
    joint[Joint.VOLTS], joint[Joint.FEEDBACK] = saturated(volts, feedback, speed, limit)


@jit
def follow_goal(
    reference: float, reference_speed: float, goal: float, speed: float, acceleration: float, step: float
) -> tuple[float, float]:
    """Return the reference, rad, and its speed after a step towards the goal.

    `speed`, rad/s, and `acceleration`, rad/s², are limits of the approach; 0 = none.
    """
    if acceleration > 0.0:
        distance = goal - reference
        fastest = math.sqrt(2.0 * acceleration * abs(distance))
        if speed > 0.0:
            fastest = min(fastest, speed)
        new_speed = approach(reference_speed, fastest if distance > 0.0 else -fastest, acceleration, step)
        move = new_speed * step
        if abs(move) >= abs(distance):
            return goal, 0.0
        return reference + move, new_speed
    return approach(reference, goal, speed, step), 0.0
