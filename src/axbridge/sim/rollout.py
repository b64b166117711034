"""Simulate one servo on one arm over recorded commands: many parameter sets and many recordings in one call.

Loop, motor and friction are the bank's equations, for a single joint. Its inertia J and load torque m(θ, t) have a
closed form, so a whole recording takes less than a millisecond.

The equation of each step of h (1 ms, or 0.1 ms for a higher accuracy) is

    (J + armature) ω' = torque - damping·ω - m(θ) - spring·θ, less dry friction of at most `limit`

*Lanes.* A lane simulates one parameter set on one recording; at its end it gets the next pair. The numbers of all lanes
are in one array, with a row for each quantity (`_Row`) and a column for each lane. The two loops over lanes, `_control`
and `_move`, have no calls, and no branches after compilation. Only then the compiler puts several lanes into one vector
register (1.8 times the rollouts per second). Work that differs between lanes is done lane by lane between these loops.

A step of a lane has these parts:

1. *The command in force* (`_prepare`). A command acts `LATENCY` and half a period of the servo's loop after it was
   sent. A step ends earlier, or up to a quarter later, so that no command acts within a step.
2. *Samples that are not computed.* For `FOLLOWED` samples the state is set from the measurement. At `HELD` samples the
   joint stays at the start of its part. Both come before the loop runs, which must not use them.
3. *The loop* (`_control`) is `servo.position_loop.control` for the two modes of recordings.
4. *The load* (`_move`), at the angle in the middle of the step (half a step ahead at the old speed). So the method is
   of second order in h, although the load is computed before the step is solved.
5. *The motor* gives a line over the speed, torque - damping·ω. The gear gives the largest dry friction. It needs the
   load, because friction grows with the torque through the gear.
6. *The integration* (`one_joint.spin`). Damping is implicit, and exact for a constant torque. Friction at most stops
   the joint. Then `stopped` applies the hard stops.
7. *Backlash*, if the model has it. A loose rotor is stepped with the motor's torque, and the joint without it. After
   both have moved, they meet or separate.
8. *The current* at the end of the step, from the voltage's line at the mean speed.
9. *The samples* within the step (`_read`), by linear interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.servo.branch_free import decayed, sine
from axbridge.servo.columns import Command, Param, Passive, friction_of, motor_of
from axbridge.servo.friction import Friction, budget_at
from axbridge.servo.motor import Motor, end_current, fitted_weight, push, warmed
from axbridge.servo.position_laws import Loop, lagging, motor_duty, position_law, saturated
from axbridge.servo.position_loop import follow_goal, loop_of
from axbridge.sim.one_joint import leaves, meeting, spin, stopped
from axbridge.sim.runs import Regime, Runs

_WIDTH = 16  # lanes
_VECTOR = 8  # numbers in the longest vector registers
_LOOP = 0.5e-3  # s: mean wait of a command for the servo's loop, half its period
_STRETCH = 1.25  # longest step when a command is due at its end, in units of h
_FOLLOWED, _HELD, _OFF = int(Regime.FOLLOWED), int(Regime.HELD), int(Regime.OFF)


class _Row(IntEnum):
    """Rows of a lane's numbers; rows of `Loop` without its law, `Motor` and `Friction` follow."""

    ANGLE = 0  # as in `Joint`, up to ROTOR_SPEED
    SPEED = 1
    CURRENT = 2
    REFERENCE = 3
    REFERENCE_SPEED = 4
    FILTERED = 5
    INTEGRAL = 6
    LAST_ERROR = 7
    TIMER = 8
    VOLTS = 9
    FEEDBACK = 10
    SEEN = 11
    LOOSE = 12
    FLANK = 13
    ROTOR = 14
    ROTOR_SPEED = 15
    BEFORE = 16  # rad: angle at the start of the step
    MEAN = 17  # rad/s: the step's mean speed
    STEP = 18  # s
    FILTER = 19  # weight of a new speed for this length of step
    LOST = 20  # 1 = the angle was too large or not finite
    ON = 21  # 1 = motor driven, 0 = open circuit
    DUTY = 22  # duty in wheel mode; above 1 = joint mode
    GOAL = 23
    LIMIT = 24  # of the speed, rad/s
    CAP = 25
    ACCELERATION = 26
    SUPPLY = 27  # V
    INERTIA = 28  # kg·m², without the armature
    PULL = 29  # N·m: the load is PULL·sin(θ + PHASE) + STEADY
    PHASE = 30
    FADED = 31  # factor s of the Stribeck terms, when their exponent is not 1
    STEADY = 32
    OFFSET = 33
    NOISE = 34
    ARMATURE = 35
    PLAY = 36
    OUTPUT = 37
    VISCOUS = 38
    SPRING = 39  # as of `Passive`
    DAMPING = 40
    FRICTION = 41
    LOW = 42
    HIGH = 43


_LOOP_ROWS = len(_Row)
_MOTOR_ROWS = _LOOP_ROWS + len(Loop._fields) - 1
_FRICTION_ROWS = _MOTOR_ROWS + len(Motor._fields)
_ROWS = _FRICTION_ROWS + len(Friction._fields)
_PASSIVE = tuple(int(_Row[name.name]) for name in Passive)
_LAG, _SPEED_FILTER = Loop._fields.index("lag") - 1, Loop._fields.index("speed_filter") - 1


class _Place(IntEnum):
    """Rows of integers: a lane's position in its recording."""

    SET = 0
    APPLIED = 1  # sample whose command is in force
    SAMPLE = 2  # next sample to be read
    END = 3
    FIRST = 4  # first sample of the recording
    READS = 5  # 1 = `_read` is needed after the step
    RECORDING = 6


class _Clock(IntEnum):
    """Rows of a lane's times, s."""

    NOW = 0
    EVENT = 1  # until then, steps need neither `_prepare` nor `_read`
    LATENCY = 2


class _Lanes(NamedTuple):
    """State of all lanes: rows of `_Row` and those that follow, flat; rows of `_Place`; rows of `_Clock`."""

    w: FloatArray
    place: IntArray
    clock: FloatArray


def rollouts(params: FloatArray, runs: Runs, step: float = 1e-3) -> FloatArray:
    """Simulate every packed model, (sets, len(Param)), on every recording in steps of `step` s.

    Returns the servo's readings at the recorded times, rad, (sets, samples); 1e3 after a motion has diverged.
    """
    out = np.empty((len(params), len(runs.time)))
    fades = params[:, [Param.STRIBECK, Param.LOAD_STRIBECK, Param.LOAD_EXTERNAL_STRIBECK]].max(axis=1) > 0.0
    curved = fades & (params[:, Param.STRIBECK_EXPONENT] != 1.0)
    kinds = np.column_stack([params[:, Param.LAW], params[:, Param.BACKLASH] > 0.0, curved])
    for kind in np.unique(kinds, axis=0):
        chosen = (kinds == kind).all(axis=1)
        sets = np.ascontiguousarray(params[chosen], dtype=np.float64)
        positions = np.empty((len(sets), out.shape[1]))
        if positions.size:
            law, playing, has_exponent = kind.tolist()
            places = np.zeros((len(_Place), _WIDTH), dtype=np.int64)
            lanes = _Lanes(np.zeros(_ROWS * _WIDTH), places, np.zeros((len(_Clock), _WIDTH)))
            _kernel(int(law), bool(playing), bool(has_exponent))(sets, runs, float(step), lanes, positions)
        out[chosen] = positions
    return out


@lru_cache
def _kernel(law: int, playing: bool, curved: bool) -> Callable[..., None]:
    """Return `_all` for one kind of parameter sets: other laws are neither computed nor compiled."""

    @partial(jit, nogil=True, reorders=True)
    def run(params: FloatArray, runs: Runs, h: float, lanes: _Lanes, out: FloatArray) -> None:
        _all(params, runs, h, law, playing, curved, lanes, out)

    return run


@jit
def _loop_at(law: int, w: FloatArray, i: int) -> Loop:
    a = _LOOP_ROWS * _WIDTH + i
    return Loop(
        law, w[a], w[a + _WIDTH], w[a + 2 * _WIDTH], w[a + 3 * _WIDTH], w[a + 4 * _WIDTH], w[a + 5 * _WIDTH],
        w[a + 6 * _WIDTH], w[a + 7 * _WIDTH], w[a + 8 * _WIDTH], w[a + 9 * _WIDTH], w[a + 10 * _WIDTH],
        w[a + 11 * _WIDTH], w[a + 12 * _WIDTH], w[a + 13 * _WIDTH], w[a + 14 * _WIDTH], w[a + 15 * _WIDTH],
    )  # fmt: skip


@jit
def _motor_at(w: FloatArray, i: int) -> Motor:
    a = _MOTOR_ROWS * _WIDTH + i
    return Motor(
        w[a], w[a + _WIDTH], w[a + 2 * _WIDTH], w[a + 3 * _WIDTH], w[a + 4 * _WIDTH], w[a + 5 * _WIDTH],
        w[a + 6 * _WIDTH], w[a + 7 * _WIDTH], w[a + 8 * _WIDTH],
    )  # fmt: skip


@jit
def _friction_at(w: FloatArray, i: int) -> Friction:
    a = _FRICTION_ROWS * _WIDTH + i
    return Friction(
        w[a], w[a + _WIDTH], w[a + 2 * _WIDTH], w[a + 3 * _WIDTH], w[a + 4 * _WIDTH], w[a + 5 * _WIDTH],
        w[a + 6 * _WIDTH], w[a + 7 * _WIDTH], w[a + 8 * _WIDTH],
    )  # fmt: skip


@jit
def _control(w: FloatArray, lanes: int, law: int) -> None:
    """Run every lane's control loop: set VOLTS and FEEDBACK of its step; `law` is a compile-time constant."""
    for i in range(lanes):
        angle, speed, step = w[_Row.ANGLE * _WIDTH + i], w[_Row.SPEED * _WIDTH + i], w[_Row.STEP * _WIDTH + i]
        cap, supply = w[_Row.CAP * _WIDTH + i], w[_Row.SUPPLY * _WIDTH + i]
        loop = _loop_at(law, w, i)
        reading, on = angle + w[_Row.OFFSET * _WIDTH + i], w[_Row.ON * _WIDTH + i] != 0.0
        seen, blur = lagging(w[_Row.SEEN * _WIDTH + i], reading, loop.lag, w[_Row.NOISE * _WIDTH + i], step)
        weight, filtered = w[_Row.FILTER * _WIDTH + i], w[_Row.FILTERED * _WIDTH + i]
        filtered = filtered + weight * (speed - filtered) if weight < 1.0 else speed
        reference, pace = follow_goal(
            w[_Row.REFERENCE * _WIDTH + i], w[_Row.REFERENCE_SPEED * _WIDTH + i], w[_Row.GOAL * _WIDTH + i],
            w[_Row.LIMIT * _WIDTH + i], w[_Row.ACCELERATION * _WIDTH + i], step,
        )  # fmt: skip
        timer, integral, last = (
            w[_Row.TIMER * _WIDTH + i], w[_Row.INTEGRAL * _WIDTH + i], w[_Row.LAST_ERROR * _WIDTH + i]
        )  # fmt: skip
        sampled = loop.period > 0.0 or weight < 1.0  # otherwise state feedback acts within the substep, too
        volts, feedback, fresh, counts = position_law(
            loop, reference, angle if sampled else angle + 0.5 * step * speed, seen, integral, last,
            max(loop.period, step), cap, supply, blur,
        )  # fmt: skip
        volts = volts - feedback * filtered if sampled else volts
        feedback = 0.0 if sampled else feedback
        volts, feedback = saturated(volts, feedback, speed, motor_duty(cap, loop.dead) * supply)
        holds = loop.period > 0.0 and timer > 1e-9
        if loop.period > 0.0:
            timer = max(timer - step + (0.0 if holds else loop.period), -step)
        if holds:  # the loop holds its output
            volts, feedback, fresh, counts = w[_Row.VOLTS * _WIDTH + i], w[_Row.FEEDBACK * _WIDTH + i], integral, last
        duty = w[_Row.DUTY * _WIDTH + i]
        if duty <= 1.0:  # wheel mode
            volts, feedback = motor_duty(min(max(duty, -cap), cap), loop.dead) * supply, 0.0
            reference, pace, fresh, counts = angle, w[_Row.REFERENCE_SPEED * _WIDTH + i], 0.0, 0.0
            timer = w[_Row.TIMER * _WIDTH + i]
        if not on:
            volts, feedback, fresh, counts, timer = 0.0, 0.0, 0.0, 0.0, 0.0
            reference, pace, filtered, seen = angle, 0.0, speed, reading
        w[_Row.VOLTS * _WIDTH + i], w[_Row.FEEDBACK * _WIDTH + i] = volts, feedback
        w[_Row.REFERENCE * _WIDTH + i], w[_Row.REFERENCE_SPEED * _WIDTH + i] = reference, pace
        w[_Row.INTEGRAL * _WIDTH + i], w[_Row.LAST_ERROR * _WIDTH + i] = fresh, counts
        w[_Row.FILTERED * _WIDTH + i], w[_Row.SEEN * _WIDTH + i], w[_Row.TIMER * _WIDTH + i] = filtered, seen, timer


@jit
def _move(w: FloatArray, lanes: int, playing: bool, curved: bool) -> None:
    """Step motor, friction and joint of every lane; both flags are compile-time constants."""
    for i in range(lanes):
        angle, omega, step = w[_Row.ANGLE * _WIDTH + i], w[_Row.SPEED * _WIDTH + i], w[_Row.STEP * _WIDTH + i]
        volts, feedback = w[_Row.VOLTS * _WIDTH + i], w[_Row.FEEDBACK * _WIDTH + i]
        on, current = w[_Row.ON * _WIDTH + i], w[_Row.CURRENT * _WIDTH + i]
        motor, friction = _motor_at(w, i), _friction_at(w, i)
        inertia, armature = w[_Row.INERTIA * _WIDTH + i], w[_Row.ARMATURE * _WIDTH + i]
        midway = angle + 0.5 * step * omega
        pull = w[_Row.PULL * _WIDTH + i] * sine(midway + w[_Row.PHASE * _WIDTH + i])
        pull += w[_Row.STEADY * _WIDTH + i]
        loose, turn, carried = False, omega, pull
        if playing:
            loose = w[_Row.LOOSE * _WIDTH + i] != 0.0
            if loose:  # the loop measures the joint's speed; the motor turns with the rotor's
                volts, feedback = volts - feedback * omega, 0.0
                turn, carried = w[_Row.ROTOR_SPEED * _WIDTH + i], 0.0
        pushed = push(motor, volts, feedback, turn, current, w[_Row.SUPPLY * _WIDTH + i], step)
        torque, drag = on * pushed.torque, on * pushed.damping
        at_rest = w[_Row.FADED * _WIDTH + i] if curved else 1.0 - decayed(abs(turn) / friction.stribeck_speed)
        gear = step * budget_at(friction, turn, at_rest, torque - drag * turn, -carried)
        drag += w[_Row.VISCOUS * _WIDTH + i]
        beside = w[_Row.DAMPING * _WIDTH + i]
        rub = step * (w[_Row.FRICTION * _WIDTH + i] + w[_Row.OUTPUT * _WIDTH + i])
        rest = -w[_Row.SPRING * _WIDTH + i] * midway - pull
        moved = inertia if loose else inertia + armature
        damping, limit = (beside, rub) if loose else (beside + drag, rub + gear)
        mean, speed = spin(omega, moved, rest if loose else rest + torque, damping, limit, step)
        used = moved * (speed - omega) - step * (rest + torque - damping * mean)  # of dry friction, while not loose
        following, mean, speed = stopped(
            angle, mean, speed, w[_Row.LOW * _WIDTH + i], w[_Row.HIGH * _WIDTH + i], step
        )  # fmt: skip
        turned = mean
        if playing:
            play, flank = w[_Row.PLAY * _WIDTH + i], w[_Row.FLANK * _WIDTH + i]
            rotor, spun = w[_Row.ROTOR * _WIDTH + i], w[_Row.ROTOR_SPEED * _WIDTH + i]
            alone, spun = spin(spun, armature, torque, drag, gear, step)
            mobility = 1.0 / (moved + step * fitted_weight(step * damping / moved) * damping)
            rotor += step * alone
            hit_flank, hit = meeting(rotor - following, spun, speed, play, armature, mobility)
            share = gear / limit if limit > 0.0 else 0.0
            parts = leaves(flank, step * (torque - drag * mean) + share * used - armature * (speed - omega))
            if loose:
                turned = alone
                if hit_flank != 0:
                    loose, flank, speed = False, float(hit_flank), speed + hit * mobility
            elif parts:
                loose, rotor, spun = True, following + 0.5 * flank * play, speed
            w[_Row.LOOSE * _WIDTH + i], w[_Row.FLANK * _WIDTH + i] = 1.0 if loose else 0.0, flank
            w[_Row.ROTOR * _WIDTH + i], w[_Row.ROTOR_SPEED * _WIDTH + i] = rotor, spun
        ended = end_current(
            current, volts - feedback * turned, pushed.left, pushed.resistance, motor.constant, turned
        )  # fmt: skip
        current = on * (ended if math.isnan(pushed.held) else pushed.held)
        lost = w[_Row.LOST * _WIDTH + i]
        if not abs(following) < 1e3:
            following, speed, current, lost = 0.0, 0.0, 0.0, 1.0
        w[_Row.LOST * _WIDTH + i] = lost
        w[_Row.CURRENT * _WIDTH + i] = current
        w[_Row.BEFORE * _WIDTH + i], w[_Row.MEAN * _WIDTH + i] = angle, mean
        w[_Row.ANGLE * _WIDTH + i], w[_Row.SPEED * _WIDTH + i] = following, speed


@jit
def _load_lane(i: int, number: int, lanes: _Lanes, params: FloatArray, runs: Runs, h: float, out: FloatArray) -> None:
    """Load the pair `number` into lane `i`: all sets on the first recording come first, then all on the next."""
    w, place, clock = lanes
    k, m = number % params.shape[0], number // params.shape[0]
    a, row, settings, warm = runs.start[m], params[k], runs.settings[m], runs.temperature[m]
    for line in range(_LOOP_ROWS):
        w[line * _WIDTH + i] = 0.0
    above = 0.0 if math.isnan(warm) else warm - row[Param.AMBIENT]
    loop = loop_of(row, settings)[1:]
    motor = motor_of(row, warmed(row[Param.RESISTANCE], row[Param.RESISTANCE_PER_KELVIN], above))
    friction = friction_of(row)
    for column in range(len(loop)):
        w[(_LOOP_ROWS + column) * _WIDTH + i] = loop[column]
    for column in range(len(motor)):
        w[(_MOTOR_ROWS + column) * _WIDTH + i] = motor[column]
    for column in range(len(friction)):
        w[(_FRICTION_ROWS + column) * _WIDTH + i] = friction[column]
    for column in range(len(_PASSIVE)):
        w[_PASSIVE[column] * _WIDTH + i] = runs.passive[m, column]
    w[_Row.ACCELERATION * _WIDTH + i] = settings[Command.ACCELERATION]
    w[_Row.SUPPLY * _WIDTH + i], w[_Row.INERTIA * _WIDTH + i] = runs.supply[m], runs.inertia[m]
    w[_Row.PULL * _WIDTH + i] = runs.gravity[m]
    w[_Row.PHASE * _WIDTH + i] = runs.phase[m]
    w[_Row.OFFSET * _WIDTH + i], w[_Row.NOISE * _WIDTH + i] = row[Param.OFFSET], row[Param.NOISE]
    w[_Row.ARMATURE * _WIDTH + i], w[_Row.VISCOUS * _WIDTH + i] = row[Param.ARMATURE], row[Param.VISCOUS]
    w[_Row.PLAY * _WIDTH + i], w[_Row.OUTPUT * _WIDTH + i] = row[Param.BACKLASH], row[Param.OUTPUT]
    _reset_lane(i, w, runs.position[a], runs.velocity[a])
    w[_Row.SEEN * _WIDTH + i] = runs.position[a] - row[Param.LAG] * runs.velocity[a]
    _set_step(i, w, h)
    place[_Place.SET, i], place[_Place.RECORDING, i], place[_Place.FIRST, i] = k, m, a
    place[_Place.APPLIED, i], place[_Place.SAMPLE, i], place[_Place.END, i] = a - 1, a + 1, runs.start[m + 1]
    clock[_Clock.NOW, i], clock[_Clock.EVENT, i] = runs.time[a], -math.inf
    clock[_Clock.LATENCY, i] = row[Param.LATENCY] + _LOOP
    out[k, a] = runs.position[a]


@jit
def _reset_lane(i: int, w: FloatArray, reading: float, speed: float) -> None:
    """Start lane `i`'s motion where its sensor reads `reading`, rad, at `speed`, rad/s."""
    angle = reading - w[_Row.OFFSET * _WIDTH + i]
    w[_Row.ANGLE * _WIDTH + i] = w[_Row.ROTOR * _WIDTH + i] = angle
    w[_Row.SPEED * _WIDTH + i] = w[_Row.ROTOR_SPEED * _WIDTH + i] = w[_Row.FILTERED * _WIDTH + i] = speed
    w[_Row.REFERENCE * _WIDTH + i] = reading
    w[_Row.CURRENT * _WIDTH + i] = w[_Row.TIMER * _WIDTH + i] = 0.0
    w[_Row.LOOSE * _WIDTH + i] = 1.0 if w[_Row.PLAY * _WIDTH + i] > 0.0 else 0.0  # starts in the middle of the play


@jit
def _set_step(i: int, w: FloatArray, step: float) -> None:
    """Set the length of lane `i`'s next step, s."""
    w[_Row.STEP * _WIDTH + i] = step
    weight = w[(_LOOP_ROWS + _SPEED_FILTER) * _WIDTH + i]  # for a loop of 1 ms
    w[_Row.FILTER * _WIDTH + i] = 1.0 - (1.0 - weight) ** (step * 1e3) if weight < 1.0 else 1.0


@jit
def _due(j: int, n: int, sent: FloatArray, latency: float) -> float:
    """Return the time, s, at which the command after that of sample `j` acts; infinity after the last."""
    return sent[j + 1] + latency if j + 1 < n else math.inf


@jit
def _apply_command(i: int, j: int, w: FloatArray, runs: Runs) -> None:
    """Apply the command of sample `j` to lane `i`."""
    cap = min(runs.cap[j], 1.0)
    powered = runs.driven[j] != _OFF and cap > 0.0 and w[_Row.SUPPLY * _WIDTH + i] > 0.0
    w[_Row.ON * _WIDTH + i] = 1.0 if powered else 0.0
    w[_Row.DUTY * _WIDTH + i], w[_Row.CAP * _WIDTH + i] = runs.duty[j], cap
    w[_Row.GOAL * _WIDTH + i], w[_Row.LIMIT * _WIDTH + i] = runs.goal[j], runs.speed_limit[j]


@jit
def _prepare(i: int, lanes: _Lanes, runs: Runs, h: float, out: FloatArray) -> bool:
    """Prepare lane `i` for its next step: command, skipped samples, load; return False at the recording's end."""
    w, place, clock = lanes
    j, k, n, row = place[_Place.APPLIED, i], place[_Place.SAMPLE, i], place[_Place.END, i], place[_Place.SET, i]
    now, latency, first = clock[_Clock.NOW, i], clock[_Clock.LATENCY, i], place[_Place.FIRST, i]
    step = 0.0
    while k < n and step == 0.0:
        applied = j
        j = max(j, first)
        while _due(j, n, runs.sent, latency) <= now + 1e-9:
            j += 1
        if j != applied:
            _apply_command(i, j, w, runs)
        ahead = _due(j, n, runs.sent, latency) - now
        step = ahead if ahead < _STRETCH * h else h  # so that a command acts exactly at its time
        if runs.driven[k] == _FOLLOWED:
            now, out[row, k] = runs.time[k], runs.position[k]
            seen = _lagged_position(w[_Row.SEEN * _WIDTH + i], runs, k, w[(_LOOP_ROWS + _LAG) * _WIDTH + i])
            _reset_lane(i, w, runs.position[k], runs.velocity[k])
            w[_Row.SEEN * _WIDTH + i] = seen
            k += 1
            step = 0.0
        elif runs.driven[j] == _HELD:
            while k < n and runs.time[k] <= now + step:
                out[row, k] = runs.position[first]
                k += 1
            now += step
            step = 0.0
    if step != 0.0:
        _set_step(i, w, step)
        if runs.load.shape[0] > 0:
            share = min(max((now + 0.5 * step - runs.time[k - 1]) / (runs.time[k] - runs.time[k - 1]), 0.0), 1.0)
            before, after = runs.load[k - 1], runs.load[k]
            w[_Row.INERTIA * _WIDTH + i] = before[0] + share * (after[0] - before[0])
            along, across = before[1] + share * (after[1] - before[1]), before[2] + share * (after[2] - before[2])
            w[_Row.PULL * _WIDTH + i] = math.sqrt(along * along + across * across)
            w[_Row.PHASE * _WIDTH + i] = math.atan2(across, along)
            w[_Row.STEADY * _WIDTH + i] = before[3] + share * (after[3] - before[3])
    place[_Place.APPLIED, i], place[_Place.SAMPLE, i], clock[_Clock.NOW, i] = j, k, now
    return step != 0.0


@jit
def _lagged_position(seen: float, runs: Runs, k: int, lag: float) -> float:
    """Return the loop's input at sample k, rad, behind its lag (s), for a constant acceleration since sample k - 1."""
    position, velocity, duration = runs.position, runs.velocity, runs.time[k] - runs.time[k - 1]
    acceleration = (velocity[k] - velocity[k - 1]) / duration if duration > 0.0 else 0.0
    steady = position[k - 1] - lag * (velocity[k - 1] - lag * acceleration)  # with this acceleration from the beginning
    rest, _ = lagging(seen - steady, 0.0, lag, 0.0, duration)
    reading: float = position[k] - lag * (velocity[k] - lag * acceleration) + rest
    return reading


@jit
def _read(i: int, lanes: _Lanes, runs: Runs, h: float, out: FloatArray) -> None:
    """Read the samples of lane `i` within its step, and set EVENT: the time until which steps need no `_prepare`."""
    w, place, clock = lanes
    k, n, row = place[_Place.SAMPLE, i], place[_Place.END, i], place[_Place.SET, i]
    now, step, mean = clock[_Clock.NOW, i], w[_Row.STEP * _WIDTH + i], w[_Row.MEAN * _WIDTH + i]
    start = w[_Row.BEFORE * _WIDTH + i] + w[_Row.OFFSET * _WIDTH + i]
    if w[_Row.LOST * _WIDTH + i] != 0.0:
        out[row, k:n] = 1e3
        k = n
    while k < n and runs.time[k] <= now + step:
        out[row, k] = start + mean * (runs.time[k] - now)
        k += 1
    now += step
    event = -math.inf
    if k < n and runs.driven[k] < _HELD and runs.load.shape[0] == 0:
        command = _due(place[_Place.APPLIED, i], n, runs.sent, clock[_Clock.LATENCY, i])
        event = min(runs.time[k] - h, command - _STRETCH * h) - 1e-9
        if step != h:
            _set_step(i, w, h)
    place[_Place.SAMPLE, i], clock[_Clock.NOW, i], clock[_Clock.EVENT, i] = k, now, event


@jit
def _stribeck_decay(w: FloatArray, lanes: int) -> None:
    """Set FADED of every lane for a Stribeck exponent: the power is a call that cannot be vectorised."""
    for i in range(lanes):
        friction, turn = _friction_at(w, i), _Row.ROTOR_SPEED if w[_Row.LOOSE * _WIDTH + i] != 0.0 else _Row.SPEED
        ratio = abs(w[turn * _WIDTH + i]) / friction.stribeck_speed
        w[_Row.FADED * _WIDTH + i] = 1.0 - decayed(ratio**friction.stribeck_exponent)


@jit
def _all(
    params: FloatArray, runs: Runs, h: float, law: int, playing: bool, curved: bool, lanes: _Lanes, out: FloatArray
) -> None:  # fmt: skip
    """Run every set on every recording; constants: `law`, `playing` (backlash), `curved` (a Stribeck exponent)."""
    w, place, clock = lanes
    pairs = params.shape[0] * (runs.start.shape[0] - 1)
    count = 1 if pairs == 1 else min((pairs + _VECTOR - 1) // _VECTOR * _VECTOR, _WIDTH)
    for i in range(count):  # lanes without a pair compute like the others, without output
        _load_lane(i, min(i, pairs - 1), lanes, params, runs, h, out)
        if i >= pairs:
            place[_Place.END, i] = 0
    loaded, busy = count, True
    while busy:
        busy = False
        for i in range(count):
            ready = clock[_Clock.NOW, i] < clock[_Clock.EVENT, i]
            if ready:
                clock[_Clock.NOW, i] += h
                place[_Place.READS, i] = 0
            else:
                ready = _prepare(i, lanes, runs, h, out)
                while not ready and loaded < pairs:
                    _load_lane(i, loaded, lanes, params, runs, h, out)
                    loaded += 1
                    ready = _prepare(i, lanes, runs, h, out)
                place[_Place.READS, i] = 1 if ready else 0
            busy = busy or ready
        _control(w, count, law)
        if curved:
            _stribeck_decay(w, count)
        _move(w, count, playing, curved)
        for i in range(count):
            if place[_Place.READS, i] != 0:
                _read(i, lanes, runs, h, out)
