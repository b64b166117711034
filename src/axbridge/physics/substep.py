"""The compiled heart of the bank: loops, motors, friction and joints, one substep after the other."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.physics.backlash_substeps import catch, meet, rest
from axbridge.physics.columns import Drive, Joint, State
from axbridge.physics.friction import budget
from axbridge.physics.implicit import invert, restrain
from axbridge.physics.model_columns import Param, friction_of, motor_of
from axbridge.physics.motor import end_current, fitted_weight, push, temperature_step, warmed
from axbridge.physics.one_body import spin
from axbridge.physics.position_laws import asked
from axbridge.physics.position_loop import control

__all__ = ["DIAGONAL", "NOISE", "Arrays", "drive_train", "recall", "run", "settle", "workspace"]

NOISE = 4096  # entries of the noise table
DIAGONAL = -4  # row of the workspace: what the inverse was made for
_RETURN = 1.0  # rad/s: how fast a joint that was pushed past a stop is brought back


class Arrays(NamedTuple):
    """What a bank keeps of its servos and n joints.

    Attributes:
        servo: Row of the servo that drives each joint, -1 where there is none, (n,).
        side: Servo angle over joint angle, 1 or -1, (n,).
        params: (servos, len(Param)).
        command: (servos, len(Command)).
        state: (servos, len(State)), changed in place.
        joint: (n, len(Joint)), changed in place.
        drive: (n, len(Drive)).
        load: Load torque, (2, n): at the start of the physics step, N·m, and its growth, N·m/s.
        supply: (4, buses): open-circuit voltage, V; internal resistance, ohm; changed in place: current, A, and what it
            changes by with the voltage, A/V.
        bus_of: Bus of each servo, (servos,).
        noise: Normal numbers, (NOISE,).
        work: From `workspace`; keeps the inverse from call to call.
        past: The latest states, (kept, servos, len(State)): that after substep k is in row k modulo `kept`.
    """

    servo: IntArray
    side: FloatArray
    params: FloatArray
    command: FloatArray
    state: FloatArray
    joint: FloatArray
    drive: FloatArray
    load: FloatArray
    supply: FloatArray
    bus_of: IntArray
    noise: FloatArray
    work: FloatArray
    past: FloatArray


@jit
def run(count: int, first: int, step: float, arrays: Arrays, inertia: FloatArray) -> int:
    """Advance all joints by `count` substeps.

    Args:
        count: Substeps.
        first: Number of the first one since the start (picks the noise).
        step: Length of a substep, s.
        arrays: Of the bank, by `as_tuple`.
        inertia: Joint-space inertia, (n, n), kg·m².

    Returns:
        -1, or the joint whose inertia is not positive or whose motion is not finite.
    """
    servo, side, params, command, state, joint, drive, load, supply, bus_of, noise, work, past = arrays
    n = joint.shape[0]
    inverse, matrix, rows = work[:n], work[n : 2 * n], work[2 * n :]
    right, speed, servo_torque, damping, weight, limit = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    low, high, impulse, stop, diagonal, before = rows[6], rows[7], rows[8], rows[9], rows[10], rows[11]
    loose, rotor = rows[12], rows[13]  # of joints in their play: 1, and the rotor's mean speed
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
            if (
                joint[j, Joint.LOOSE] != 0.0
                and abs(joint[j, Joint.DEBT]) * step > inertia[j, j] * params[row, Param.BACKLASH]
            ):
                catch(params[row], joint[j])
            loose[j] = joint[j, Joint.LOOSE]
            if row >= 0:
                torque, drag, dry = drive_train(
                    side[j], params[row], command[row], state[row], joint[j], step, pull,
                    noise[((first + index) * 31 + row * 977) % NOISE], 0.0,
                )  # fmt: skip
                if loose[j] != 0.0:
                    rotor[j], joint[j, Joint.ROTOR_SPEED] = spin(
                        joint[j, Joint.ROTOR_SPEED], params[row, Param.ARMATURE], torque, drag, dry, step
                    )
                    joint[j, Joint.ROTOR] += step * rotor[j]
                    playing = True
                else:
                    armature = params[row, Param.ARMATURE]
                    servo_torque[j] += torque
                    damping[j] += drag
                    limit[j] += dry
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
                _book(side[j], turned, torque, params[row], state[row], joint[j], step)
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
    return np.zeros((2 * joints + 14, joints))


@jit
def drive_train(
    side: float, params: FloatArray, command: FloatArray, state: FloatArray, joint: FloatArray, step: float,
    load: float, noise: float, blur: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Loop, motor and gear of one servo over a step, in the bank and in rollouts.

    Args:
        side: Servo angle over joint angle, 1 or -1.
        params: Its row of `Param`.
        command: Its row of `Command`.
        state: Its row of `State`: VOLTAGE and TEMPERATURE are read, READING is set.
        joint: The joint's row of `Joint`; RESISTANCE, LEFT and HELD are set, for `settle`.
        step: s.
        load: Load torque, joint side, N·m.
        noise: Of the position reading, in standard deviations.
        blur: See `control`.

    Returns:
        The motor's torque at zero speed, joint side, N·m; its damping, with viscous friction, N·m·s/rad; the largest
        impulse of dry friction, N·m·s.
    """
    angle, omega = side * joint[Joint.ANGLE], side * joint[Joint.SPEED]
    supply = state[State.VOLTAGE]
    reading = angle + params[Param.OFFSET] + params[Param.NOISE] * noise
    state[State.READING] = reading
    control(command, joint, params, reading, angle, omega, supply, step, blur)
    if joint[Joint.LOOSE] != 0.0:  # the loop sees the joint, the motor its rotor
        joint[Joint.VOLTS] -= joint[Joint.FEEDBACK] * omega
        joint[Joint.FEEDBACK] = 0.0
        omega, load = side * joint[Joint.ROTOR_SPEED], 0.0
    torque = drag = 0.0
    if joint[Joint.OPEN] == 0.0:
        resistance = warmed(
            params[Param.RESISTANCE],
            params[Param.RESISTANCE_PER_KELVIN],
            state[State.TEMPERATURE] - params[Param.AMBIENT],
        )
        pushed = push(
            motor_of(params, 0, 1, resistance, True), joint[Joint.VOLTS], joint[Joint.FEEDBACK], omega,
            joint[Joint.CURRENT], supply, step,
        )  # fmt: skip
        torque, drag = side * pushed.torque, pushed.damping
        joint[Joint.RESISTANCE], joint[Joint.LEFT], joint[Joint.HELD] = pushed.resistance, pushed.left, pushed.held
    dry = budget(friction_of(params, 0, 1, params[Param.STRIBECK_EXPONENT]), omega, torque - side * drag * omega, -load)
    return torque, drag + params[Param.VISCOUS], step * dry


@jit
def settle(joint: FloatArray, params: FloatArray, mean: float) -> float:
    """Bring the joint's CURRENT to the end of a substep of mean servo speed `mean` (rad/s).

    Args:
        joint: Its row of `Joint`, as `drive_train` left it.
        params: The servo's row of `Param`.
        mean: rad/s, servo side.

    Returns:
        Mean voltage over the motor, V.
    """
    if joint[Joint.OPEN] != 0.0:
        joint[Joint.CURRENT] = 0.0
        return 0.0
    applied: float = joint[Joint.VOLTS] - joint[Joint.FEEDBACK] * mean
    held = joint[Joint.HELD]
    if math.isnan(held):
        joint[Joint.CURRENT] = end_current(
            joint[Joint.CURRENT], applied, joint[Joint.LEFT], joint[Joint.RESISTANCE], params[Param.CONSTANT], mean
        )
    else:
        joint[Joint.CURRENT] = held
    return applied


@jit
def _book(
    side: float, mean: float, torque: float, params: FloatArray, state: FloatArray, joint: FloatArray, step: float
) -> None:  # fmt: skip
    """Current, energy, heat and the public state after a substep of mean joint speed `mean`."""
    supply = state[State.VOLTAGE]
    applied = settle(joint, params, side * mean)
    current = joint[Joint.CURRENT]
    state[State.READING] += side * mean * step  # the loop saw the position at the substep's start
    state[State.ANGLE] = side * joint[Joint.ANGLE]
    state[State.SPEED] = side * joint[Joint.SPEED]
    state[State.CURRENT] = current
    duty = min(max(applied / supply, -1.0), 1.0) if supply > 0.0 else 0.0
    state[State.DUTY] = asked(duty, params[Param.DEAD_DUTY])  # what the firmware reports
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


@partial(jit, exact=True)  # a register must not depend on who worked it out
def recall(past: FloatArray, rows: IntArray, times: FloatArray, step: float, states: FloatArray) -> None:
    """States of servos in the past.

    Args:
        past: As in `run`, (kept, servos, len(State)).
        rows: Which servos, (k,).
        times: When, (k,), s.
        step: A substep, s.
        states: Result, (k, len(State)).
    """
    for i in range(len(rows)):
        tick = int(times[i] / step + 1e-6) % past.shape[0]
        for column in range(past.shape[2]):
            states[i, column] = past[tick, rows[i], column]
