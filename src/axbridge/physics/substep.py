"""The compiled heart of the bank: loops, motors, friction and joints, one substep after the other."""

from __future__ import annotations

import numpy as np

from axbridge.jit import jit
from axbridge.physics.backlash import spin
from axbridge.physics.backlash_substeps import catch, meet, rest
from axbridge.physics.columns import Drive, Joint, State
from axbridge.physics.friction import budget
from axbridge.physics.implicit import BEFORE, IMPULSE, MEAN, SPEED, USED, WEIGHT, Book, move, solve
from axbridge.physics.mechanics import FloatArray, IntArray
from axbridge.physics.model_columns import Param
from axbridge.physics.motor import (
    directed,
    end_current,
    limited_current,
    mean_torque,
    relax,
    temperature_step,
    warmed,
)
from axbridge.physics.position_loop import control

__all__ = ["ARMATURE", "DAMPING", "LIMIT", "LOOSE", "NOISE", "PULL", "TORQUE", "account", "drive_train", "gather",
           "run", "settle", "workspace"]  # fmt: skip

NOISE = 4096  # entries of the noise table
# Rows of the workspace. What acts on each joint: torque at rest, damping, armature, largest impulse of dry friction;
# the load it carries; 1 where the rotor is in its play, and its mean speed then; what each motor remembers (5 rows).
TORQUE, DAMPING, ARMATURE, LIMIT, PULL, LOOSE, ROTOR, WANTED = range(8)


@jit
def run(
    count: int, first: int, step: float, servo: IntArray, side: FloatArray, params: FloatArray, command: FloatArray,
    state: FloatArray, joint: FloatArray, drive: FloatArray, inertia: FloatArray, load: FloatArray, book: FloatArray,
    supply: FloatArray, bus_of: IntArray, noise: FloatArray, motor: FloatArray, work: FloatArray, past: FloatArray,
) -> int:  # fmt: skip
    """Advance servos, and joints that an engine has given as a linear system, by `count` substeps.

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
        inertia: See `axbridge.physics.engine.Ahead`.
        load: Likewise.
        book: Likewise.
        supply: (4, buses): open-circuit voltage, V; internal resistance, ohm; changed in place: current, A, and what it
            changes by with the voltage, A/V.
        bus_of: Bus of each servo, (servos,).
        noise: Normal numbers, (NOISE,).
        motor: From `workspace`.
        work: Of the engine, as above.
        past: The latest states, (kept, servos, len(State)): that after substep k is in row k modulo `kept`.

    Returns:
        -1, or the joint whose inertia is not positive or whose motion is not finite.
    """
    n = joint.shape[0]
    torque, damping, armature, limit = motor[TORQUE], motor[DAMPING], motor[ARMATURE], motor[LIMIT]
    pull, loose = motor[PULL], motor[LOOSE]
    for j in range(n):
        joint[j, Joint.ANGLE], joint[j, Joint.SPEED] = book[j, Book.ANGLE], book[j, Book.SPEED]
    for index in range(count):
        playing = False
        for j in range(n):
            pull[j] = load[0, j] + load[1, j] * (book[j, Book.CLOCK] + 0.5 * step)
            if (
                joint[j, Joint.LOOSE] != 0.0
                and abs(book[j, Book.DEBT]) * step > inertia[j, j] * params[servo[j], Param.BACKLASH]
            ):
                catch(params[servo[j]], joint[j], book[j])
            if joint[j, Joint.LOOSE] != 0.0:
                playing = True
        gather(first + index, step, servo, side, params, command, state, joint, drive, noise, motor)
        failed = solve(
            step, inertia, pull, torque, damping, armature, limit, drive[:, Drive.LOW], drive[:, Drive.HIGH], book, work
        )  # fmt: skip
        if failed >= 0:
            return failed
        if playing:
            meet(work[:n], servo, params, joint, book, work[SPEED], work[WEIGHT], loose, step)
        failed = move(step, torque, damping, book, work)
        if failed >= 0:
            return failed
        for j in range(n):
            joint[j, Joint.ANGLE], joint[j, Joint.SPEED] = book[j, Book.ANGLE], book[j, Book.SPEED]
        account(
            first + index, step, servo, side, params, state, joint, drive, book, work[BEFORE], work[MEAN], work[USED],
            work[IMPULSE], supply, bus_of, motor, past,
        )  # fmt: skip
    return -1


@jit
def gather(
    index: int, step: float, servo: IntArray, side: FloatArray, params: FloatArray, command: FloatArray,
    state: FloatArray, joint: FloatArray, drive: FloatArray, noise: FloatArray, motor: FloatArray,
) -> None:  # fmt: skip
    """What acts on every joint in a substep.

    Args:
        index: Number of the substep since the start (picks the noise).
        step: This and the next nine are those of `run`.
        servo: Row of each joint's servo.
        side: Servo angle over joint angle.
        params: Constants.
        command: What the loops obey.
        state: Of the servos; the readings are set.
        joint: Of the joints, at the substep's start; what loops and loose rotors remember is changed.
        drive: What acts beside the servos.
        noise: Normal numbers.
        motor: Row PULL is read; TORQUE, DAMPING, ARMATURE and LIMIT are the result.
    """
    torque, damping, armature, limit = motor[TORQUE], motor[DAMPING], motor[ARMATURE], motor[LIMIT]
    pull, loose, rotor, wanted = motor[PULL], motor[LOOSE], motor[ROTOR], motor[WANTED : WANTED + 5]
    for j in range(joint.shape[0]):
        row = servo[j]
        angle, omega = joint[j, Joint.ANGLE], joint[j, Joint.SPEED]
        armature[j] = 0.0
        damping[j] = drive[j, Drive.DAMPING]
        torque[j] = -drive[j, Drive.SPRING] * (angle + 0.5 * step * omega)
        limit[j] = step * drive[j, Drive.FRICTION]
        beside = torque[j], damping[j], limit[j]
        loose[j] = joint[j, Joint.LOOSE]
        if loose[j] != 0.0:
            torque[j] = damping[j] = limit[j] = 0.0
        if row >= 0:
            armature[j] = params[row, Param.ARMATURE]
            drive_train(
                j, side[j], params[row], command[row], state[row], joint[j], step, pull[j],
                noise[(index * 31 + row * 977) % NOISE], 0.0, torque, damping, limit, wanted,
            )  # fmt: skip
        if loose[j] != 0.0:
            rotor[j], joint[j, Joint.ROTOR_SPEED] = spin(
                joint[j, Joint.ROTOR_SPEED], armature[j], torque[j], damping[j], limit[j], step
            )
            joint[j, Joint.ROTOR] += step * rotor[j]
            torque[j], damping[j], limit[j] = beside
            armature[j] = 0.0


@jit
def account(
    index: int, step: float, servo: IntArray, side: FloatArray, params: FloatArray, state: FloatArray,
    joint: FloatArray, drive: FloatArray, book: FloatArray, before: FloatArray, mean: FloatArray, used: FloatArray,
    impulse: FloatArray, supply: FloatArray, bus_of: IntArray, motor: FloatArray, past: FloatArray,
) -> None:  # fmt: skip
    """Currents, energy, heat and public states at the end of a substep.

    Args:
        index: Number of the substep since the start.
        step: This and the next seven are those of `run`.
        servo: Row of each joint's servo.
        side: Servo angle over joint angle.
        params: Constants.
        state: Of the servos, changed in place.
        joint: ANGLE and SPEED are those of the substep's end.
        drive: What acts beside the servos.
        book: PUSH and PLAY of joints with backlash are changed.
        before: Speeds of the joints at the substep's start, (n,), rad/s.
        mean: Mean speeds in it, (n,).
        used: Torques of drive and dry friction together, (n,), N·m.
        impulse: Of the dry friction, (n,), N·m·s.
        supply: This and the next are those of `run`.
        bus_of: Bus of each servo.
        motor: As `gather` left it.
        past: As for `run`.
    """
    limit, loose, rotor, wanted = motor[LIMIT], motor[LOOSE], motor[ROTOR], motor[WANTED : WANTED + 5]
    supply[2:] = 0.0
    for j in range(joint.shape[0]):
        row = servo[j]
        if row < 0:
            continue
        turned = mean[j]
        if loose[j] != 0.0:
            turned = rotor[j]
        elif params[row, Param.BACKLASH] > 0.0:
            beside_it = drive[j, Drive.FRICTION] * step / limit[j] if limit[j] > 0.0 else 0.0
            pushed = step * (used[j] + drive[j, Drive.SPRING] * (joint[j, Joint.ANGLE] - 0.5 * step * mean[j]))
            pushed += step * drive[j, Drive.DAMPING] * mean[j] - beside_it * impulse[j]
            rest(params[row], joint[j], book[j], pushed, joint[j, Joint.SPEED] - before[j])
        if params[row, Param.BACKLASH] > 0.0:
            book[j, Book.PLAY] = 1.0 + joint[j, Joint.LOOSE]
        _book(side[j], turned, used[j], params[row], state[row], joint[j], wanted[:, j], step)
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
            past[(index + 1) % past.shape[0], row, column] = state[row, column]


def workspace(joints: int) -> FloatArray:
    """What servos need to remember and to work in: rows of what they do to the joints."""
    return np.zeros((WANTED + 5, joints))


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
