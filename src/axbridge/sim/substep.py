"""The bank's kernels: the servos' action on the joints in a substep, and the servos' state afterwards.

A substep has h seconds. The engine calls a kernel before it and one after it.

1. `gather`, before the joints move. Each loop reads its position and sets its voltage. Motor, gear and passive elements
   of joint j are reduced to three numbers and a limit,

       torque(ω) = τ_j - D_j·ω,   an armature A_j,   and dry friction of at most F_j N·m·s,

   with the back-EMF in D_j. So an engine can take D·ω implicitly, at the end of the step. With an explicit back-EMF
   torque from the start of the step, a light link is unstable. A rotor within its play is stepped here, and its joint
   gets no torque from it.
2. The engine moves the joints from ω to ω⁺.
3. `account`, afterwards. Only now the mean speed is known; it gives the winding's current at the end and the motor's
   energy. Heat and the voltage drop of each supply follow from the currents. For an engine that only has the joints'
   positions and speeds, `end_step` computes the arguments of `account`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.servo.columns import Joint, Param, Passive, State, friction_of, motor_of
from axbridge.servo.friction import budget
from axbridge.servo.motor import end_current, push, temperature_step, warmed
from axbridge.servo.position_laws import loop_duty
from axbridge.servo.position_loop import control, loop_of
from axbridge.sim.one_joint import rest, spin

NOISE = 4096  # entries of the noise table
# Rows of the workspace, for each joint: torque at zero speed, damping, armature, largest impulse of dry friction; the
# joint's load; 1 = the rotor is within its play, and then its mean speed.
TORQUE, DAMPING, ARMATURE, LIMIT, PULL, LOOSE, _ROTOR = range(7)
KEPT = 7  # N·m·s: impulse that a rotor with play did not pass to its joint
_BEFORE, _MEAN, _USED, _IMPULSE = range(8, 12)  # only in `end_step`: arguments of `account`


class Drives(NamedTuple):
    """A bank's servos and the passive elements of the n joints of an engine."""

    servo: IntArray  # row of the servo that drives each joint, -1 = none, (n,)
    side: FloatArray  # servo angle over joint angle, 1 or -1, (n,)
    params: FloatArray  # (servos, len(Param))
    command: FloatArray  # (servos, len(Command))
    state: FloatArray  # (servos, len(State)), changed in place
    joint: FloatArray  # (n, len(Joint)), changed in place
    passive: FloatArray  # (n, len(Passive))
    # (4, buses): open-circuit voltage, V; internal resistance, ohm; changed in place: current, A, and its change with
    # the voltage, A/V
    supply: FloatArray
    bus_of: IntArray  # bus of each servo, (servos,)
    noise: FloatArray  # standard normal random numbers, (NOISE,)
    motor: FloatArray  # from `workspace`
    past: FloatArray  # past states, (kept, servos, len(State)): the state after substep k is in row k modulo `kept`
    playing: IntArray  # joints whose gear has play, (k,)
    carrying: bool  # whether friction depends on the load; then an engine must fill row PULL of `motor`


@jit
def gather(index: int, step: float, drives: Drives) -> None:
    """Compute the drives' action on every joint in a substep: rows TORQUE, DAMPING, ARMATURE, LIMIT of the workspace.

    Args:
        index: Number of the substep since the start (selects the noise).
        step: s.
        drives: By `as_tuple`. `joint` is of the substep's start, and row PULL of the workspace is read. The states of
            loops and loose rotors are changed, and the readings are set.
    """
    known = Drives(*drives)
    servo, side, params, command, state = known.servo, known.side, known.params, known.command, known.state
    joint, passive, noise, motor = known.joint, known.passive, known.noise, known.motor
    torque, damping, armature, limit = motor[TORQUE], motor[DAMPING], motor[ARMATURE], motor[LIMIT]
    pull, loose, rotor = motor[PULL], motor[LOOSE], motor[_ROTOR]
    for j in range(joint.shape[0]):
        row = servo[j]
        angle, omega = joint[j, Joint.ANGLE], joint[j, Joint.SPEED]
        armature[j] = 0.0
        damping[j] = passive[j, Passive.DAMPING]
        torque[j] = -passive[j, Passive.SPRING] * (angle + 0.5 * step * omega)
        limit[j] = step * passive[j, Passive.FRICTION]
        loose[j] = joint[j, Joint.LOOSE]
        if row >= 0:
            limit[j] += step * params[row, Param.OUTPUT]
            hiss = params[row, Param.NOISE] * noise[(index * 31 + row * 977) % NOISE]
            state[row, State.READING] = side[j] * angle + params[row, Param.OFFSET] + hiss
            moving, drag, dry = _drive_train(side[j], params[row], command[row], state[row], joint[j], step, pull[j])
            if loose[j] != 0.0:
                rotor[j], joint[j, Joint.ROTOR_SPEED] = spin(
                    joint[j, Joint.ROTOR_SPEED], params[row, Param.ARMATURE], moving, drag, dry, step
                )
                joint[j, Joint.ROTOR] += step * rotor[j]
            else:
                armature[j] = params[row, Param.ARMATURE]
                torque[j] += moving
                damping[j] += drag
                limit[j] += dry


@jit
def end_step(
    index: int, step: float, drives: Drives, positions: FloatArray, speeds: FloatArray, friction: FloatArray
) -> None:
    """Set the joints' positions and speeds from an engine that solves the joints itself, then call `account`.

    `joint` is of the start of substep number `index`; the workspace is the result of `gather`. Positions, speeds and
    torques of dry friction (N·m) of the joints, (n,), are of its end.
    """
    known = Drives(*drives)
    joint, motor = known.joint, known.motor
    before, mean, used, impulse = motor[_BEFORE], motor[_MEAN], motor[_USED], motor[_IMPULSE]
    for j in range(joint.shape[0]):
        before[j] = joint[j, Joint.SPEED]
        mean[j] = (positions[j] - joint[j, Joint.ANGLE]) / step
        used[j] = motor[TORQUE, j] - motor[DAMPING, j] * mean[j] + friction[j]
        impulse[j] = friction[j] * step
        joint[j, Joint.ANGLE], joint[j, Joint.SPEED] = positions[j], speeds[j]
    account(index, step, drives, before, mean, used, impulse)


@jit
def account(
    index: int, step: float, drives: Drives, before: FloatArray, mean: FloatArray, used: FloatArray,
    impulse: FloatArray,
) -> None:  # fmt: skip
    """Compute currents, energy, heat and public states at the end of a substep.

    Args:
        index: Number of the substep since the start.
        step: s.
        drives: By `as_tuple`; ANGLE and SPEED are of the substep's end, the workspace is the result of `gather`.
        before: Speeds of the joints at the substep's start, (n,), rad/s.
        mean: Their mean speeds in the substep, (n,), rad/s.
        used: Torques of drive and dry friction together, (n,), N·m.
        impulse: Of the dry friction, (n,), N·m·s.
    """
    known = Drives(*drives)
    servo, side, params, state, joint = known.servo, known.side, known.params, known.state, known.joint
    passive, supply, bus_of, motor, past = known.passive, known.supply, known.bus_of, known.motor, known.past
    limit, loose, rotor, kept = motor[LIMIT], motor[LOOSE], motor[_ROTOR], motor[KEPT]
    supply[2:] = 0.0
    for j in range(joint.shape[0]):
        row = servo[j]
        if row < 0:
            continue
        turned = mean[j]
        if loose[j] != 0.0:
            turned, kept[j] = rotor[j], 0.0
        elif params[row, Param.BACKLASH] > 0.0:
            beside_it = (passive[j, Passive.FRICTION] + params[row, Param.OUTPUT]) * step
            beside_it = beside_it / limit[j] if limit[j] > 0.0 else 0.0  # the joint side's share of dry friction
            pushed = step * (used[j] + passive[j, Passive.SPRING] * (joint[j, Joint.ANGLE] - 0.5 * step * mean[j]))
            pushed += step * passive[j, Passive.DAMPING] * mean[j] - beside_it * impulse[j]
            kept[j] = rest(
                joint[j], params[row, Param.ARMATURE], params[row, Param.BACKLASH], pushed,
                joint[j, Joint.SPEED] - before[j],
            )  # fmt: skip
        _book(side[j], turned, used[j], params[row], state[row], joint[j], step)
        supply[2, bus_of[row]] += abs(state[row, State.DUTY] * state[row, State.CURRENT])
        supply[3, bus_of[row]] += state[row, State.DUTY] ** 2 / params[row, Param.RESISTANCE]
    for row in range(state.shape[0]):
        # The current belongs to the last step's voltage. Its change with the voltage (`follows`) is included;
        # otherwise the voltage of a weak supply would oscillate without end.
        bus = bus_of[row]
        follows = supply[1, bus] * supply[3, bus]
        sagging = supply[0, bus] - supply[1, bus] * supply[2, bus]
        state[row, State.VOLTAGE] = max(0.0, (sagging + follows * state[row, State.VOLTAGE]) / (1.0 + follows))
        for column in range(state.shape[1]):
            past[(index + 1) % past.shape[0], row, column] = state[row, column]


def workspace(joints: int) -> FloatArray:
    """Return the workspace of `Drives.motor`: a row for each quantity, a column for each joint."""
    return np.zeros((_IMPULSE + 1, joints))


@jit
def _drive_train(
    side: float, params: FloatArray, command: FloatArray, state: FloatArray, joint: FloatArray, step: float, load: float
) -> tuple[float, float, float]:
    """Run loop, motor and gear of one servo for `step` s under a load torque (joint side, N·m).

    It sets RESISTANCE, LEFT and HELD of the joint for `_settle`.

    Returns:
        The motor's torque at zero speed, joint side, N·m; its damping, with viscous friction, N·m·s/rad; the largest
        impulse of dry friction, N·m·s.
    """
    supply, above = state[State.VOLTAGE], state[State.TEMPERATURE] - params[Param.AMBIENT]
    motor = motor_of(params, warmed(params[Param.RESISTANCE], params[Param.RESISTANCE_PER_KELVIN], above))
    angle, omega = side * joint[Joint.ANGLE], side * joint[Joint.SPEED]
    control(command, joint, loop_of(params, command), motor, state[State.READING], angle, omega, supply, step, 0.0)
    if joint[Joint.LOOSE] != 0.0:  # the loop measures the joint's speed; the motor turns with the rotor's
        joint[Joint.VOLTS] -= joint[Joint.FEEDBACK] * omega
        joint[Joint.FEEDBACK] = 0.0
        omega, load = side * joint[Joint.ROTOR_SPEED], 0.0
    torque = drag = 0.0
    if joint[Joint.OPEN] == 0.0:
        pushed = push(motor, joint[Joint.VOLTS], joint[Joint.FEEDBACK], omega, joint[Joint.CURRENT], supply, step)
        torque, drag = side * pushed.torque, pushed.damping
        joint[Joint.RESISTANCE], joint[Joint.LEFT], joint[Joint.HELD] = pushed.resistance, pushed.left, pushed.held
    dry = budget(friction_of(params), omega, torque - side * drag * omega, -load)
    return torque, drag + params[Param.VISCOUS], step * dry


@jit
def _settle(joint: FloatArray, constant: float, mean: float) -> float:
    """Set a joint's CURRENT at the end of a substep with mean servo speed `mean` (rad/s); return the voltage, V."""
    if joint[Joint.OPEN] != 0.0:
        joint[Joint.CURRENT] = 0.0
        return 0.0
    applied: float = joint[Joint.VOLTS] - joint[Joint.FEEDBACK] * mean
    held = joint[Joint.HELD]
    if math.isnan(held):
        joint[Joint.CURRENT] = end_current(
            joint[Joint.CURRENT], applied, joint[Joint.LEFT], joint[Joint.RESISTANCE], constant, mean
        )
    else:
        joint[Joint.CURRENT] = held
    return applied


@jit
def _book(
    side: float, mean: float, torque: float, params: FloatArray, state: FloatArray, joint: FloatArray, step: float
) -> None:  # fmt: skip
    """Compute current, energy, heat and the public state after a substep with mean joint speed `mean` (rad/s)."""
    supply = state[State.VOLTAGE]
    applied = _settle(joint, params[Param.CONSTANT], side * mean)
    current = joint[Joint.CURRENT]
    state[State.READING] += side * mean * step  # `gather` set it to the position at the substep's start
    state[State.ANGLE] = side * joint[Joint.ANGLE]
    state[State.SPEED] = side * joint[Joint.SPEED]
    state[State.REFERENCE], state[State.REFERENCE_SPEED] = joint[Joint.REFERENCE], joint[Joint.REFERENCE_SPEED]
    state[State.CURRENT] = current
    duty = min(max(applied / supply, -1.0), 1.0) if supply > 0.0 else 0.0
    state[State.DUTY] = loop_duty(duty, params[Param.DEAD_DUTY])  # the firmware reports the loop's duty
    state[State.TORQUE] = side * torque
    state[State.ENERGY] += max(0.0, applied * current) * step
    state[State.TEMPERATURE] = temperature_step(
        state[State.TEMPERATURE], params[Param.AMBIENT], params[Param.RESISTANCE] * current * current,
        params[Param.THERMAL_RESISTANCE], params[Param.THERMAL_TIME], step,
    )  # fmt: skip


@jit
def recall(past: FloatArray, rows: IntArray, times: FloatArray, step: float, states: FloatArray) -> None:
    """Fill `states` (k, len(State)) of servos `rows` (k,) at past times (k,), s, from `past` as in `Drives`."""
    for i in range(len(rows)):
        tick = int(times[i] / step + 1e-6)
        since = max(times[i] - tick * step, 0.0)
        for column in range(past.shape[2]):
            states[i, column] = past[tick % past.shape[0], rows[i], column]
        moved = since * states[i, State.SPEED]
        states[i, State.ANGLE] += moved
        states[i, State.READING] += moved
