"""Many one-joint simulations side by side, so that a step of all of them runs in vector registers.

A lane is one parameter set on one recording; when it is done, the lane takes the next pair. Lanes share nothing, not
even the time. All their numbers are in one array, a row for each quantity and a column for each lane: only so does the
compiler see that the loops over lanes, `_control` and `_move`, can do several at once. What differs from lane to lane
in its course - commands that come due, samples to be read - is done lane by lane in between, where there is any.

What that is worth: twice the rollouts a second of one after the other (`benchmarks/identify_throughput.py`,
`ratio_lanes_to_one_by_one`). Fits come out the same without it, to the last digit printed, but later.

For what nearly all fits need: no play, no limits of the current, a loop that runs in every step and sees the speed
unfiltered (`axbridge.sim.rollout` has the rest). Law, motor, friction and stops are the functions that the bank
and the other rollouts call; here is only how they are fed.
"""

from __future__ import annotations

import math
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.servo.branch_free import sine
from axbridge.servo.columns import Command, Law, Param, Passive, friction_of, motor_of
from axbridge.servo.friction import budget
from axbridge.servo.motor import end_current, push, warmed
from axbridge.servo.position_laws import approach, felt, lagging, position_law, saturated
from axbridge.servo.position_loop import loop_of
from axbridge.sim.one_body import spin, stopped
from axbridge.sim.runs import Runs

__all__ = ["LOOP", "STRETCH", "WIDTH", "fits", "run", "workspace"]

WIDTH = 16
_VECTOR = 8  # numbers in the longest registers there are: fewer lanes than that are not done side by side
LOOP = 0.5e-3  # s: a command waits half a turn of the servo's loop on average; what is read is of that moment
STRETCH = 1.25  # a step may be so much longer than asked for when a command is due at its end


class _Lane(IntEnum):
    """Rows of the workspace; after these come those of `Param`, `Command` and `Passive`."""

    ANGLE = 0  # rad
    SPEED = 1  # rad/s
    CURRENT = 2  # A
    REFERENCE = 3  # rad
    INTEGRAL = 4  # counts·s
    LAST_ERROR = 5  # counts
    VOLTS = 6  # V
    FEEDBACK = 7  # V·s/rad
    BEFORE = 8  # rad: the angle when the step began
    MEAN = 9  # rad/s: the step's mean speed
    STEP = 10  # s
    ON = 11  # 1 = motor driven, 0 = open circuit
    DUTY = 12  # what drives the motor in wheel mode; above 1: the position loop does
    SUPPLY = 13  # V
    INERTIA = 14  # kg·m², with the armature
    GRAVITY = 15  # N·m
    PHASE = 16  # rad
    LOST = 17  # 1: the motion has left the finite range
    SEEN = 18  # rad: the position as the loop sees it


_PARAM = len(_Lane)
_COMMAND = _PARAM + len(Param)
_PASSIVE = _COMMAND + len(Command)
_ROWS = _PASSIVE + len(Passive)


class _Place(IntEnum):
    """Where a lane is in its recording: rows of whole numbers."""

    SET = 0
    COMMAND = 1  # the sample whose command acts
    SAMPLE = 2  # the next one to be read
    END = 3
    FIRST = 4  # its recording's first sample
    READS = 5  # 1: its step needs a closer look


class _LaneTimes(IntEnum):
    """Likewise of times, s."""

    NOW = 0
    EVENT = 1  # until then its steps are all alike
    LATENCY = 2
    READING = 3  # rad: what is read while it is held


class Lanes(NamedTuple):
    """All that changes: numbers (rows of `_Lane` and so on, flat), places (rows of `_Place`), times (`_LaneTimes`)."""

    w: FloatArray
    place: IntArray
    clock: FloatArray


def fits(params: FloatArray, settings: FloatArray) -> bool:
    """Whether parameter sets (k, len(Param)) and settings (m, len(Command)) are of the kind that lanes can run."""
    fades = (params[:, Param.STRIBECK] > 0) | (params[:, Param.LOAD_STRIBECK] > 0)
    odd = (
        (params[:, [Param.BACKLASH, Param.PERIOD, Param.MAX_CURRENT, Param.CURRENT_STEP]] > 0).any(axis=1)
        | (params[:, Param.SPEED_FILTER] < 1)
        | (fades & (params[:, Param.STRIBECK_EXPONENT] != 1))
        | (params[:, Param.LAW] != params[:1, Param.LAW])
    )
    return not odd.any() and not (settings[:, Command.ACCELERATION] > 0).any()


def workspace() -> Lanes:
    """What `run` works in."""
    places = np.zeros((len(_Place), WIDTH), dtype=np.int64)
    return Lanes(np.zeros(_ROWS * WIDTH), places, np.zeros((len(_LaneTimes), WIDTH)))


@jit
def _control(w: FloatArray, lanes: int, law: int) -> None:
    """Every lane's loop, of which `law` is the constant: VOLTS and FEEDBACK of its step."""
    for i in range(lanes):
        angle, speed, step = w[_Lane.ANGLE * WIDTH + i], w[_Lane.SPEED * WIDTH + i], w[_Lane.STEP * WIDTH + i]
        before = w[_Lane.REFERENCE * WIDTH + i]
        integral, last = w[_Lane.INTEGRAL * WIDTH + i], w[_Lane.LAST_ERROR * WIDTH + i]
        cap, supply = w[(_COMMAND + Command.TORQUE_LIMIT) * WIDTH + i], w[_Lane.SUPPLY * WIDTH + i]
        reading = angle + w[(_PARAM + Param.OFFSET) * WIDTH + i]
        seen, blur = lagging(
            w[_Lane.SEEN * WIDTH + i], reading, w[(_PARAM + Param.LAG) * WIDTH + i],
            w[(_PARAM + Param.NOISE) * WIDTH + i], step,
        )  # fmt: skip
        reference = approach(
            before, w[(_COMMAND + Command.GOAL) * WIDTH + i], w[(_COMMAND + Command.SPEED) * WIDTH + i], step
        )
        volts, feedback, fresh, counts = position_law(
            loop_of(law, w, _PARAM * WIDTH + i, w, _COMMAND * WIDTH + i, WIDTH, blur), reference,
            angle + 0.5 * step * speed, seen, integral, last, step, cap, supply,
        )  # fmt: skip
        dead = w[(_PARAM + Param.DEAD_DUTY) * WIDTH + i]
        volts, feedback = saturated(volts, feedback, speed, felt(cap, dead) * supply)
        duty = w[_Lane.DUTY * WIDTH + i]
        if duty <= 1.0:  # wheel mode
            volts = felt(min(max(duty, -cap), cap), dead) * supply
            feedback, reference, fresh, counts = 0.0, angle, 0.0, 0.0
        if w[_Lane.ON * WIDTH + i] == 0.0:
            volts, feedback, reference, fresh, counts, seen = 0.0, 0.0, angle, 0.0, 0.0, reading
        w[_Lane.VOLTS * WIDTH + i] = volts
        w[_Lane.FEEDBACK * WIDTH + i] = feedback
        w[_Lane.REFERENCE * WIDTH + i] = reference
        w[_Lane.INTEGRAL * WIDTH + i] = fresh
        w[_Lane.LAST_ERROR * WIDTH + i] = counts
        w[_Lane.SEEN * WIDTH + i] = seen


@jit
def _move(w: FloatArray, lanes: int) -> None:
    """Motor, friction and joint of every lane over its step."""
    for i in range(lanes):
        angle, omega, step = w[_Lane.ANGLE * WIDTH + i], w[_Lane.SPEED * WIDTH + i], w[_Lane.STEP * WIDTH + i]
        volts, feedback = w[_Lane.VOLTS * WIDTH + i], w[_Lane.FEEDBACK * WIDTH + i]
        on, constant = w[_Lane.ON * WIDTH + i], w[(_PARAM + Param.CONSTANT) * WIDTH + i]
        gravity, phase = w[_Lane.GRAVITY * WIDTH + i], w[_Lane.PHASE * WIDTH + i]
        pull = gravity * sine(angle + phase + 0.5 * step * omega)
        motor = motor_of(w, _PARAM * WIDTH + i, WIDTH, w[(_PARAM + Param.RESISTANCE) * WIDTH + i], False)
        current = w[_Lane.CURRENT * WIDTH + i]
        pushed = push(motor, volts, feedback, omega, current, w[_Lane.SUPPLY * WIDTH + i], step)
        torque, drag = on * pushed.torque, on * pushed.damping
        friction = friction_of(w, _PARAM * WIDTH + i, WIDTH, 1.0)
        dry = w[(_PASSIVE + Passive.FRICTION) * WIDTH + i] + budget(friction, omega, torque - drag * omega, -pull)
        spring = w[(_PASSIVE + Passive.SPRING) * WIDTH + i] * (angle + 0.5 * step * omega)
        damping = drag + w[(_PARAM + Param.VISCOUS) * WIDTH + i] + w[(_PASSIVE + Passive.DAMPING) * WIDTH + i]
        mean, speed = spin(omega, w[_Lane.INERTIA * WIDTH + i], torque - pull - spring, damping, step * dry, step)
        low, high = w[(_PASSIVE + Passive.LOW) * WIDTH + i], w[(_PASSIVE + Passive.HIGH) * WIDTH + i]
        following, mean, speed = stopped(angle, mean, speed, low, high, step)
        current = on * end_current(current, volts - feedback * mean, pushed.left, pushed.resistance, constant, mean)
        lost = w[_Lane.LOST * WIDTH + i]
        if not abs(following) < 1e3:
            following, speed, current, lost = 0.0, 0.0, 0.0, 1.0
        w[_Lane.LOST * WIDTH + i] = lost
        w[_Lane.CURRENT * WIDTH + i] = current
        w[_Lane.BEFORE * WIDTH + i] = angle
        w[_Lane.MEAN * WIDTH + i] = mean
        w[_Lane.ANGLE * WIDTH + i] = following
        w[_Lane.SPEED * WIDTH + i] = speed


@jit
def _board(i: int, number: int, lanes: Lanes, params: FloatArray, runs: Runs, h: float, out: FloatArray) -> None:
    """Give lane `i` the pair with this number: all sets on the first recording, then all on the next."""
    w, place, clock = lanes
    k, m = number % params.shape[0], number // params.shape[0]
    a = runs.start[m]
    for column in range(params.shape[1]):
        w[(_PARAM + column) * WIDTH + i] = params[k, column]
    for column in range(runs.settings.shape[1]):
        w[(_COMMAND + column) * WIDTH + i] = runs.settings[m, column]
    for column in range(runs.passive.shape[1]):
        w[(_PASSIVE + column) * WIDTH + i] = runs.passive[m, column]
    if not math.isnan(runs.temperature[m]):
        w[(_PARAM + Param.RESISTANCE) * WIDTH + i] = warmed(
            params[k, Param.RESISTANCE],
            params[k, Param.RESISTANCE_PER_KELVIN],
            runs.temperature[m] - params[k, Param.AMBIENT],
        )
    w[_Lane.SUPPLY * WIDTH + i], w[_Lane.STEP * WIDTH + i] = runs.supply[m], h
    w[_Lane.INERTIA * WIDTH + i] = runs.inertia[m] + params[k, Param.ARMATURE]
    w[_Lane.GRAVITY * WIDTH + i], w[_Lane.PHASE * WIDTH + i] = runs.gravity[m], runs.phase[m]
    _put(i, w, runs.position[a], runs.velocity[a])
    w[_Lane.INTEGRAL * WIDTH + i] = w[_Lane.LAST_ERROR * WIDTH + i] = w[_Lane.LOST * WIDTH + i] = 0.0
    place[_Place.SET, i], place[_Place.FIRST, i] = k, a
    place[_Place.COMMAND, i], place[_Place.SAMPLE, i], place[_Place.END, i] = a - 1, a + 1, runs.start[m + 1]
    clock[_LaneTimes.NOW, i], clock[_LaneTimes.EVENT, i] = runs.time[a], -math.inf
    clock[_LaneTimes.LATENCY, i], clock[_LaneTimes.READING, i] = params[k, Param.LATENCY] + LOOP, runs.position[a]
    out[k, a] = runs.position[a]


@jit
def _put(i: int, w: FloatArray, reading: float, speed: float) -> None:
    """Start lane `i`'s motion where its sensor reads `reading`, rad, at `speed`, rad/s."""
    w[_Lane.ANGLE * WIDTH + i] = reading - w[(_PARAM + Param.OFFSET) * WIDTH + i]
    w[_Lane.SPEED * WIDTH + i] = speed
    w[_Lane.CURRENT * WIDTH + i] = 0.0
    w[_Lane.REFERENCE * WIDTH + i] = w[_Lane.SEEN * WIDTH + i] = reading


@jit
def _due(j: int, n: int, sent: FloatArray, latency: float) -> float:
    """When the command after that of sample `j` acts, s; infinity after the last."""
    return sent[j + 1] + latency if j + 1 < n else math.inf


@jit
def _obey(i: int, j: int, w: FloatArray, runs: Runs) -> None:
    """Lane `i` gets the command of sample `j`."""
    most = min(runs.cap[j], 1.0)
    powered = runs.driven[j] > 0.5 and most > 0.0 and w[_Lane.SUPPLY * WIDTH + i] > 0.0
    w[_Lane.ON * WIDTH + i] = 1.0 if powered else 0.0
    w[_Lane.DUTY * WIDTH + i] = runs.duty[j]
    w[(_COMMAND + Command.GOAL) * WIDTH + i] = runs.goal[j]
    w[(_COMMAND + Command.SPEED) * WIDTH + i] = runs.speed_limit[j]
    w[(_COMMAND + Command.TORQUE_LIMIT) * WIDTH + i] = most


@jit
def _prepare(i: int, lanes: Lanes, runs: Runs, h: float, out: FloatArray) -> bool:
    """What lane `i` has to do before its next step; false at the end of its recording."""
    w, place, clock = lanes
    j, k, n, row = place[_Place.COMMAND, i], place[_Place.SAMPLE, i], place[_Place.END, i], place[_Place.SET, i]
    now, latency, reading = clock[_LaneTimes.NOW, i], clock[_LaneTimes.LATENCY, i], clock[_LaneTimes.READING, i]
    step = 0.0
    while k < n and step == 0.0:
        obeyed = j
        j = max(j, place[_Place.FIRST, i])
        while _due(j, n, runs.sent, latency) <= now + 1e-9:
            j += 1
        if j != obeyed:
            _obey(i, j, w, runs)
        ahead = _due(j, n, runs.sent, latency) - now
        step = ahead if ahead < STRETCH * h else h  # a command acts when it is due, not at the next whole step
        if runs.driven[k] > 2.5:  # FOLLOWED
            now, out[row, k] = runs.time[k], runs.position[k]
            _put(i, w, runs.position[k], runs.velocity[k])
            k += 1
            step = 0.0
        elif 1.5 < runs.driven[j] < 2.5:  # HELD
            while k < n and runs.time[k] <= now + step:
                out[row, k] = reading
                k += 1
            now += step
            step = 0.0
    if step != 0.0:
        w[_Lane.STEP * WIDTH + i] = step
    place[_Place.COMMAND, i], place[_Place.SAMPLE, i], clock[_LaneTimes.NOW, i] = j, k, now
    return step != 0.0


@jit
def _read(i: int, lanes: Lanes, runs: Runs, h: float, out: FloatArray) -> None:
    """Read the samples of lane `i` that its step has passed, and look how far the next steps are all alike."""
    w, place, clock = lanes
    k, n, row = place[_Place.SAMPLE, i], place[_Place.END, i], place[_Place.SET, i]
    now, step, mean = clock[_LaneTimes.NOW, i], w[_Lane.STEP * WIDTH + i], w[_Lane.MEAN * WIDTH + i]
    began = w[_Lane.BEFORE * WIDTH + i] + w[(_PARAM + Param.OFFSET) * WIDTH + i]
    if w[_Lane.LOST * WIDTH + i] != 0.0:
        out[row, k:n] = 1e3
        k = n
    while k < n and runs.time[k] <= now + step:
        out[row, k] = began + mean * (runs.time[k] - now)
        k += 1
    now += step
    event = -math.inf
    if k < n and runs.driven[k] < 2.5:
        command = _due(place[_Place.COMMAND, i], n, runs.sent, clock[_LaneTimes.LATENCY, i])
        event = min(runs.time[k] - h, command - STRETCH * h) - 1e-9
    w[_Lane.STEP * WIDTH + i] = h
    place[_Place.SAMPLE, i], clock[_LaneTimes.NOW, i], clock[_LaneTimes.EVENT, i] = k, now, event


@partial(jit, nogil=True)
def run(params: FloatArray, runs: Runs, h: float, lanes: Lanes, out: FloatArray) -> None:
    """All sets on all recordings: the arguments are those of `axbridge.sim.rollout.rollouts`, and `workspace`."""
    w, place, clock = lanes
    pairs = params.shape[0] * (runs.start.shape[0] - 1)
    law = int(params[0, Param.LAW])
    count = 1 if pairs == 1 else min((pairs + _VECTOR - 1) // _VECTOR * _VECTOR, WIDTH)
    for i in range(count):  # some have nothing to do, but compute like the others
        _board(i, min(i, pairs - 1), lanes, params, runs, h, out)
        if i >= pairs:
            place[_Place.END, i] = 0
    given, busy = count, True
    while busy:
        busy = False
        for i in range(count):
            ready = clock[_LaneTimes.NOW, i] < clock[_LaneTimes.EVENT, i]
            if ready:
                clock[_LaneTimes.NOW, i] += h
                place[_Place.READS, i] = 0
            else:
                ready = _prepare(i, lanes, runs, h, out)
                while not ready and given < pairs:
                    _board(i, given, lanes, params, runs, h, out)
                    given += 1
                    ready = _prepare(i, lanes, runs, h, out)
                place[_Place.READS, i] = 1 if ready else 0
            busy = busy or ready
        if law == Law.STATE_FEEDBACK:
            _control(w, count, 0)
        elif law == Law.COMPLIANCE:
            _control(w, count, 1)
        elif law == Law.PID:
            _control(w, count, 2)
        else:  # one that is new: as right, and a sixth slower
            _control(w, count, law)
        _move(w, count)
        for i in range(count):
            if place[_Place.READS, i] != 0:
                _read(i, lanes, runs, h, out)
