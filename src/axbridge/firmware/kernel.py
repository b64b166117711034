"""The compiled heart of the bank: loops, motors, friction and joints, one substep after the other."""

from __future__ import annotations

import math

import numpy as np

from axbridge.firmware.columns import Drive, Joint, State
from axbridge.firmware.loop import control
from axbridge.plant.columns import Param
from axbridge.plant.coupling import factor, invert, restrain, solve
from axbridge.plant.friction import budget
from axbridge.plant.jit import jit
from axbridge.plant.mechanics import FloatArray, IntArray
from axbridge.plant.motor import (
    end_current,
    fitted_weight,
    limited_current,
    mean_torque,
    relax,
    temperature_step,
)

__all__ = ["NOISE", "run"]

NOISE = 4096  # entries of the noise table


@jit
def run(
    count: int, first: int, step: float, servo: IntArray, side: FloatArray, params: FloatArray, command: FloatArray,
    state: FloatArray, joint: FloatArray, drive: FloatArray, inertia: FloatArray, load: FloatArray,
    supply: FloatArray, bus_of: IntArray, noise: FloatArray,
) -> int:  # fmt: skip
    """Advance all joints by `count` substeps.

    Args:
        count: Substeps.
        first: Number of the first one since the start (picks the noise).
        step: Length of a substep, s.
        servo: Row of the servo that drives each joint, -1 where there is none, (n,).
        side: Servo angle over joint angle, 1 or -1, (n,).
        params: (servos, len(Param)).
        command: (servos, len(Command)).
        state: (servos, len(State)), changed in place.
        joint: (n, len(Joint)), changed in place.
        drive: (n, len(Drive)).
        inertia: Joint-space inertia, (n, n), kg·m².
        load: Load torque, (n,), N·m.
        supply: (3, buses): open-circuit voltage, V; internal resistance, ohm; current, A, changed in place.
        bus_of: Bus of each servo, (servos,).
        noise: Normal numbers, (NOISE,).

    Returns:
        -1, or the joint whose inertia is not positive or whose motion is not finite.
    """
    n = joint.shape[0]
    matrix = np.empty((n, n))
    lower = np.zeros((n, n))
    inverse = np.empty((n, n))
    right = np.empty(n)
    speed = np.empty(n)
    torque = np.empty(n)  # τ0 - c
    servo_torque = np.empty(n)  # τ0
    damping = np.empty(n)
    motor_damping = np.empty(n)
    weight = np.empty(n)
    limit = np.empty(n)
    low = np.empty(n)
    high = np.empty(n)
    impulse = np.empty(n)
    stop = np.empty(n)
    diagonal = np.full(n, -1.0)
    wanted = np.empty((n, 4))  # of each joint's motor: resistance, share left, current when limited, 1 if limited
    used = np.empty(supply.shape[1])
    for j in range(n):
        impulse[j] = joint[j, Joint.FRICTION]
        for k in range(n):
            matrix[j, k] = inertia[j, k]
    inverted = False
    for index in range(count):
        restrained = False
        stale = False
        for j in range(n):
            row = servo[j]
            angle, omega = joint[j, Joint.ANGLE], joint[j, Joint.SPEED]
            armature, viscous = 0.0, drive[j, Drive.DAMPING]
            servo_torque[j] = 0.0
            motor_damping[j] = 0.0
            limit[j] = step * drive[j, Drive.FRICTION]
            if row >= 0:
                armature = params[row, Param.ARMATURE]
                _motor(
                    j, side[j], params[row], command[row], state[row], joint[j], step, load[j],
                    noise[((first + index) * 31 + row * 977) % NOISE], servo_torque, motor_damping, limit, wanted[j],
                )  # fmt: skip
                viscous += params[row, Param.VISCOUS]
            damping[j] = motor_damping[j] + viscous
            weight[j] = fitted_weight(step * damping[j] / (inertia[j, j] + armature))
            sum_diagonal = inertia[j, j] + armature + step * weight[j] * damping[j]
            if sum_diagonal != diagonal[j]:
                diagonal[j] = sum_diagonal
                matrix[j, j] = sum_diagonal
                stale = True
            torque[j] = servo_torque[j] - load[j]
            torque[j] -= drive[j, Drive.SPRING] * (angle + 0.5 * step * omega)
            right[j] = (armature - step * (1.0 - weight[j]) * damping[j]) * omega + step * torque[j]
            right[j] += joint[j, Joint.DEBT]
            joint[j, Joint.DEBT] = 0.0
            for k in range(n):
                right[j] += inertia[j, k] * joint[k, Joint.SPEED]
            low[j] = min((drive[j, Drive.LOW] - angle) / step, 0.0) if drive[j, Drive.LOW] > -1e9 else -1e300
            high[j] = max((drive[j, Drive.HIGH] - angle) / step, 0.0) if drive[j, Drive.HIGH] < 1e9 else 1e300
            if limit[j] > 0.0:
                restrained = True
        if stale:
            inverted = False
            if not factor(matrix, lower):
                return _culprit(diagonal)
        solve(lower, right, speed)
        for j in range(n):
            if speed[j] > high[j] or speed[j] < low[j]:
                restrained = True
        if restrained:
            if not inverted:
                invert(lower, inverse)
                inverted = True
            restrain(inverse, speed, limit, impulse, low, high, stop)
        else:
            for j in range(n):
                impulse[j] = 0.0
        for bus in range(used.shape[0]):
            used[bus] = 0.0
        for j in range(n):
            mean = weight[j] * speed[j] + (1.0 - weight[j]) * joint[j, Joint.SPEED]
            if not abs(mean) < 1e9:
                return j
            joint[j, Joint.PUSH] += step * (servo_torque[j] - damping[j] * mean) + impulse[j]
            joint[j, Joint.PUSH] -= (
                step * drive[j, Drive.SPRING] * (joint[j, Joint.ANGLE] + 0.5 * step * joint[j, Joint.SPEED])
            )
            joint[j, Joint.DAMP] += step * damping[j]
            joint[j, Joint.ANGLE] += step * mean
            joint[j, Joint.SPEED] = speed[j]
            joint[j, Joint.FRICTION] = impulse[j]
            row = servo[j]
            if row >= 0:
                _book(
                    side[j], mean, servo_torque[j] - damping[j] * mean + impulse[j] / step, params[row], state[row],
                    joint[j], wanted[j], step,
                )  # fmt: skip
                used[bus_of[row]] += abs(state[row, State.DUTY] * state[row, State.CURRENT])
        for bus in range(used.shape[0]):
            supply[2, bus] = used[bus]
        for row in range(state.shape[0]):
            bus = bus_of[row]
            state[row, State.VOLTAGE] = max(0.0, supply[0, bus] - supply[1, bus] * supply[2, bus])
    return -1


@jit
def _motor(
    j: int, side: float, params: FloatArray, command: FloatArray, state: FloatArray, joint: FloatArray, step: float,
    load: float, noise: float, torque: FloatArray, damping: FloatArray, limit: FloatArray, wanted: FloatArray,
) -> None:  # fmt: skip
    """Loop, motor and dry friction of one servo, as the substep's system needs them."""
    angle, omega = side * joint[Joint.ANGLE], side * joint[Joint.SPEED]
    supply = state[State.VOLTAGE]
    constant = params[Param.CONSTANT]
    reading = angle + params[Param.OFFSET] + params[Param.NOISE] * noise
    state[State.READING] = reading
    control(command, joint, params, reading, angle, omega, supply, step)
    wanted[3] = 0.0
    drawn = 0.0
    if joint[Joint.OPEN] == 0.0:
        volts, feedback = joint[Joint.VOLTS], joint[Joint.FEEDBACK]
        applied = volts - feedback * omega
        duty = abs(applied) / supply if supply > 0.0 else 0.0
        resistance = params[Param.RESISTANCE] + params[Param.RESISTANCE_PER_DUTY] * duty
        left, mean = relax(resistance, params[Param.INDUCTANCE], step)
        wanted[0], wanted[1] = resistance, left
        current = joint[Joint.CURRENT]
        torque[j], damping[j] = mean_torque(
            current, volts, feedback, mean, resistance, constant, params[Param.EFFICIENCY]
        )
        torque[j] *= side
        if params[Param.MAX_CURRENT] > 0.0 or params[Param.CURRENT_STEP] > 0.0:
            free = end_current(current, applied, left, resistance, constant, omega)
            held = limited_current(
                free, current, params[Param.CURRENT_STEP], params[Param.MAX_CURRENT], duty,
                params[Param.SUPPLY_SIDE] != 0.0, step,
            )  # fmt: skip
            if held != free:
                wanted[2], wanted[3] = held, 1.0
                torque[j] = side * params[Param.EFFICIENCY] * constant * held
                damping[j] = 0.0
        drawn = torque[j] - damping[j] * side * omega
    limit[j] += step * budget(
        omega, drawn, -load, params[Param.COULOMB], params[Param.STRIBECK], params[Param.STRIBECK_SPEED],
        params[Param.STRIBECK_EXPONENT], params[Param.LOAD], params[Param.LOAD_STRIBECK],
        params[Param.LOAD_EXTERNAL], params[Param.QUADRATIC],
    )  # fmt: skip


@jit
def _book(
    side: float, mean: float, torque: float, params: FloatArray, state: FloatArray, joint: FloatArray,
    wanted: FloatArray, step: float,
) -> None:  # fmt: skip
    """Current, energy, heat and the public state after a substep of mean joint speed `mean`."""
    supply = state[State.VOLTAGE]
    applied = 0.0
    current = 0.0
    if joint[Joint.OPEN] == 0.0:
        applied = joint[Joint.VOLTS] - joint[Joint.FEEDBACK] * side * mean
        if wanted[3] != 0.0:
            current = wanted[2]
        else:
            current = end_current(
                joint[Joint.CURRENT], applied, wanted[1], wanted[0], params[Param.CONSTANT], side * mean
            )
    joint[Joint.CURRENT] = current
    state[State.ANGLE] = side * joint[Joint.ANGLE]
    state[State.SPEED] = side * joint[Joint.SPEED]
    state[State.CURRENT] = current
    state[State.DUTY] = min(max(applied / supply, -1.0), 1.0) if supply > 0.0 else 0.0
    state[State.TORQUE] = side * torque
    state[State.ENERGY] += max(0.0, applied * current) * step
    state[State.TEMPERATURE] = temperature_step(
        state[State.TEMPERATURE], params[Param.AMBIENT], params[Param.RESISTANCE] * current * current,
        params[Param.THERMAL_RESISTANCE], params[Param.THERMAL_TIME], step,
    )  # fmt: skip


@jit
def _culprit(diagonal: FloatArray) -> int:
    """The first joint whose diagonal is not positive, or the first of all."""
    for j in range(diagonal.shape[0]):
        if not (diagonal[j] > 0.0 and math.isfinite(diagonal[j])):
            return j
    return 0
