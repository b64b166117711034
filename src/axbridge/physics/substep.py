"""The compiled heart of the bank: loops, motors, friction and joints, one substep after the other."""

from __future__ import annotations

import math

import numpy as np

from axbridge.jit import jit
from axbridge.physics.backlash import spin
from axbridge.physics.backlash_substeps import catch, meet, rest
from axbridge.physics.columns import Drive, Joint, State
from axbridge.physics.friction import budget
from axbridge.physics.implicit import invert, restrain
from axbridge.physics.mechanics import FloatArray, IntArray
from axbridge.physics.model_columns import Param
from axbridge.physics.motor import (
    directed,
    end_current,
    fitted_weight,
    limited_current,
    mean_torque,
    relax,
    temperature_step,
    warmed,
)
from axbridge.physics.position_loop import control

__all__ = ["DIAGONAL", "NOISE", "drive_train", "run", "settle", "workspace"]

NOISE = 4096  # entries of the noise table
DIAGONAL = -9  # row of the workspace: what the inverse was made for
_RETURN = 1.0  # rad/s: how fast a joint that was pushed past a stop is brought back


@jit
def run(
    count: int, first: int, step: float, servo: IntArray, side: FloatArray, params: FloatArray, command: FloatArray,
    state: FloatArray, joint: FloatArray, drive: FloatArray, inertia: FloatArray, load: FloatArray,
    supply: FloatArray, bus_of: IntArray, noise: FloatArray, work: FloatArray, past: FloatArray,
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
        load: Load torque, (2, n): at the start of the physics step, N·m, and its growth, N·m/s.
        supply: (4, buses): open-circuit voltage, V; internal resistance, ohm; changed in place: current, A, and what it
            changes by with the voltage, A/V.
        bus_of: Bus of each servo, (servos,).
        noise: Normal numbers, (NOISE,).
        work: From `workspace`; keeps the inverse from call to call.
        past: The latest states, (kept, servos, len(State)): that after substep k is in row k modulo `kept`.

    Returns:
        -1, or the joint whose inertia is not positive or whose motion is not finite.
    """
    n = joint.shape[0]
    inverse, matrix, rows = work[:n], work[n : 2 * n], work[2 * n :]
    right, speed, servo_torque, damping, weight, limit = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    low, high, impulse, stop, diagonal, before = rows[6], rows[7], rows[8], rows[9], rows[10], rows[11]
    wanted = rows[12:17]  # of each joint's motor: see `drive_train`
    loose, rotor = rows[17], rows[18]  # of joints in their play: 1, and the rotor's mean speed
    for index in range(count):
        restrained = playing = stale = False
        for j in range(n):
            row = servo[j]
            angle, omega = joint[j, Joint.ANGLE], joint[j, Joint.SPEED]
            armature = 0.0
            damping[j] = drive[j, Drive.DAMPING]
            servo_torque[j] = -drive[j, Drive.SPRING] * (angle + 0.5 * step * omega)
            limit[j] = step * drive[j, Drive.FRICTION]
            pull = load[0, j] + load[1, j] * (joint[j, Joint.CLOCK] + 0.5 * step)
            beside = servo_torque[j], damping[j], limit[j]
            if (
                joint[j, Joint.LOOSE] != 0.0
                and abs(joint[j, Joint.DEBT]) * step > inertia[j, j] * params[row, Param.BACKLASH]
            ):
                catch(params[row], joint[j])
            loose[j] = joint[j, Joint.LOOSE]
            if loose[j] != 0.0:
                servo_torque[j] = damping[j] = limit[j] = 0.0
            if row >= 0:
                armature = params[row, Param.ARMATURE]
                drive_train(
                    j, side[j], params[row], command[row], state[row], joint[j], step, pull,
                    noise[((first + index) * 31 + row * 977) % NOISE], 0.0, servo_torque, damping, limit, wanted,
                )  # fmt: skip
            if loose[j] != 0.0:
                rotor[j], joint[j, Joint.ROTOR_SPEED] = spin(
                    joint[j, Joint.ROTOR_SPEED], armature, servo_torque[j], damping[j], limit[j], step
                )
                joint[j, Joint.ROTOR] += step * rotor[j]
                servo_torque[j], damping[j], limit[j] = beside
                armature = 0.0
                playing = True
            weight[j] = fitted_weight(step * damping[j] / (inertia[j, j] + armature))
            pivot = inertia[j, j] + armature + step * weight[j] * damping[j]
            if pivot != diagonal[j]:
                diagonal[j] = pivot
                stale = True
            right[j] = (armature - step * (1.0 - weight[j]) * damping[j]) * omega + step * (servo_torque[j] - pull)
            right[j] += joint[j, Joint.DEBT]
            joint[j, Joint.DEBT] = 0.0
            before[j] = omega
            low[j] = (drive[j, Drive.LOW] - angle) / step if drive[j, Drive.LOW] > -1e9 else -1e300
            high[j] = (drive[j, Drive.HIGH] - angle) / step if drive[j, Drive.HIGH] < 1e9 else 1e300
            low[j] = min(low[j], _RETURN)
            high[j] = max(high[j], -_RETURN)
            if limit[j] > 0.0:
                restrained = True
        if stale:
            for j in range(n):
                for k in range(n):
                    matrix[j, k] = inertia[j, k]
                matrix[j, j] = diagonal[j]
            if not invert(matrix, inverse):
                return _culprit(diagonal)
        for j in range(n):  # both matrices are symmetric: along their rows this vectorises
            for k in range(n):
                right[k] += inertia[j, k] * before[j]
            speed[j] = 0.0
        for j in range(n):
            for k in range(n):
                speed[k] += inverse[j, k] * right[j]
        for j in range(n):
            if speed[j] > high[j] or speed[j] < low[j]:
                restrained = True
        if restrained:
            restrain(inverse, speed, limit, impulse, low, high, stop)
        else:
            for j in range(n):
                impulse[j] = 0.0
        if playing:
            meet(inverse, servo, params, joint, speed, weight, loose, step)
        supply[2:] = 0.0
        for j in range(n):
            mean = weight[j] * speed[j] + (1.0 - weight[j]) * before[j]
            if not abs(mean) < 1e9:
                return j
            torque = servo_torque[j] - damping[j] * mean + impulse[j] / step
            joint[j, Joint.PUSH] += step * torque
            joint[j, Joint.DAMP] += step * damping[j]
            joint[j, Joint.ANGLE] += step * mean
            joint[j, Joint.SPEED] = speed[j]
            joint[j, Joint.CLOCK] += step
            row = servo[j]
            if row >= 0:
                turned = mean
                if loose[j] != 0.0:
                    turned = rotor[j]
                elif params[row, Param.BACKLASH] > 0.0:
                    beside_it = drive[j, Drive.FRICTION] * step / limit[j] if limit[j] > 0.0 else 0.0
                    pushed = step * (torque + drive[j, Drive.SPRING] * (joint[j, Joint.ANGLE] - 0.5 * step * mean))
                    pushed += step * drive[j, Drive.DAMPING] * mean - beside_it * impulse[j]
                    rest(params[row], joint[j], pushed, speed[j] - before[j])
                _book(side[j], turned, torque, params[row], state[row], joint[j], wanted[:, j], step)
                supply[2, bus_of[row]] += abs(state[row, State.DUTY] * state[row, State.CURRENT])
                supply[3, bus_of[row]] += state[row, State.DUTY] ** 2 / params[row, Param.RESISTANCE]
        for row in range(state.shape[0]):
            # The current is that of the voltage before; that it follows the voltage (`follows`) is why a weak supply
            # does not swing for ever.
            bus = bus_of[row]
            follows = supply[1, bus] * supply[3, bus]
            sagging = supply[0, bus] - supply[1, bus] * supply[2, bus]
            state[row, State.VOLTAGE] = max(0.0, (sagging + follows * state[row, State.VOLTAGE]) / (1.0 + follows))
            for column in range(state.shape[1]):
                past[(first + index + 1) % past.shape[0], row, column] = state[row, column]
    return -1


def workspace(joints: int) -> FloatArray:
    """What `run` needs to remember and to work in."""
    return np.zeros((2 * joints + 19, joints))


@jit
def drive_train(
    j: int, side: float, params: FloatArray, command: FloatArray, state: FloatArray, joint: FloatArray, step: float,
    load: float, noise: float, blur: float, torque: FloatArray, damping: FloatArray, limit: FloatArray,
    wanted: FloatArray,
) -> None:  # fmt: skip
    """Loop, motor and dry friction of one servo, as the substep's system needs them.

    Args:
        j: Its joint.
        side: Servo angle over joint angle, 1 or -1.
        params: Its row of `Param`.
        command: Its row of `Command`.
        state: Its row of `State`: VOLTAGE is read, READING is set.
        joint: The joint's row of `Joint`.
        step: s.
        load: Load torque, joint side, N·m.
        noise: Of the position reading, in standard deviations.
        blur: See `control`.
        torque: The motor's at zero speed is added to entry `j`, joint side, N·m, (n,).
        damping: Likewise back-EMF and viscous friction, N·m·s/rad.
        limit: Likewise the largest impulse of dry friction, N·m·s.
        wanted: Column `j`, kept from substep to substep: resistance, share of the current left, current when limited,
            1 if limited, share in the mean, (5, n).
    """
    angle, omega = side * joint[Joint.ANGLE], side * joint[Joint.SPEED]
    supply = state[State.VOLTAGE]
    constant = params[Param.CONSTANT]
    reading = angle + params[Param.OFFSET] + params[Param.NOISE] * noise
    state[State.READING] = reading
    control(command, joint, params, reading, angle, omega, supply, step, blur)
    if joint[Joint.LOOSE] != 0.0:  # the loop sees the joint, the motor its rotor
        joint[Joint.VOLTS] -= joint[Joint.FEEDBACK] * omega
        joint[Joint.FEEDBACK] = 0.0
        omega, load = side * joint[Joint.ROTOR_SPEED], 0.0
    wanted[3, j] = 0.0
    drawn = 0.0
    if joint[Joint.OPEN] == 0.0:
        volts, feedback = joint[Joint.VOLTS], joint[Joint.FEEDBACK]
        applied = volts - feedback * omega
        duty = abs(applied) / supply if supply > 0.0 else 0.0
        resistance = params[Param.RESISTANCE_PER_DUTY] * duty + warmed(
            params[Param.RESISTANCE],
            params[Param.RESISTANCE_PER_KELVIN],
            state[State.TEMPERATURE] - params[Param.AMBIENT],
        )
        if resistance != wanted[0, j]:  # else nothing has changed since the last substep
            wanted[0, j] = resistance
            wanted[1, j], wanted[4, j] = relax(resistance, params[Param.INDUCTANCE], step)
        left, mean = wanted[1, j], wanted[4, j]
        current = joint[Joint.CURRENT]
        efficiency = directed(params[Param.EFFICIENCY], params[Param.ASYMMETRY], volts)
        push, drag = mean_torque(current, volts, feedback, mean, resistance, constant, efficiency)
        if params[Param.MAX_CURRENT] > 0.0 or params[Param.CURRENT_STEP] > 0.0:
            free = end_current(current, applied, left, resistance, constant, omega)
            held = limited_current(
                free, current, params[Param.CURRENT_STEP], params[Param.MAX_CURRENT], duty,
                params[Param.SUPPLY_SIDE] != 0.0, step,
            )  # fmt: skip
            if held != free:
                wanted[2, j], wanted[3, j] = held, 1.0
                push, drag = efficiency * constant * held, 0.0
        torque[j] += side * push
        damping[j] += drag
        drawn = side * (push - drag * omega)
    damping[j] += params[Param.VISCOUS]
    limit[j] += step * budget(
        omega, drawn, -load, params[Param.COULOMB], params[Param.STRIBECK], params[Param.STRIBECK_SPEED],
        params[Param.STRIBECK_EXPONENT], params[Param.LOAD], params[Param.LOAD_STRIBECK],
        params[Param.LOAD_EXTERNAL], params[Param.QUADRATIC],
    )  # fmt: skip


@jit
def settle(joint: FloatArray, params: FloatArray, wanted: FloatArray, mean: float) -> float:
    """Bring the joint's CURRENT to the end of a substep of mean servo speed `mean` (rad/s).

    Args:
        joint: Its row of `Joint`.
        params: The servo's row of `Param`.
        wanted: From `drive_train`, (5,).
        mean: rad/s, servo side.

    Returns:
        Mean voltage over the motor, V.
    """
    if joint[Joint.OPEN] != 0.0:
        joint[Joint.CURRENT] = 0.0
        return 0.0
    applied: float = joint[Joint.VOLTS] - joint[Joint.FEEDBACK] * mean
    if wanted[3] != 0.0:
        joint[Joint.CURRENT] = wanted[2]
    else:
        joint[Joint.CURRENT] = end_current(
            joint[Joint.CURRENT], applied, wanted[1], wanted[0], params[Param.CONSTANT], mean
        )
    return applied


@jit
def _book(
    side: float, mean: float, torque: float, params: FloatArray, state: FloatArray, joint: FloatArray,
    wanted: FloatArray, step: float,
) -> None:  # fmt: skip
    """Current, energy, heat and the public state after a substep of mean joint speed `mean`."""
    supply = state[State.VOLTAGE]
    applied = settle(joint, params, wanted, side * mean)
    current = joint[Joint.CURRENT]
    state[State.READING] += side * mean * step  # the loop saw the position at the substep's start
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
