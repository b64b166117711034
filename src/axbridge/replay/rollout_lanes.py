"""Many one-joint simulations side by side, so that a step of all of them runs in vector registers.

A lane is one parameter set on one recording; when it is done, the lane takes the next pair. Lanes share nothing, not
even the time. All their numbers are in one array, a row for each quantity and a column for each lane: only so does the
compiler see that the loops over lanes, `_control` and `_move`, can do several at once. What differs from lane to lane
in its course - commands that come due, samples to be read - is done lane by lane in between, where there is any.

For what nearly all fits need: no play, no limits of the current, a loop that runs in every step and sees the speed
unfiltered (`axbridge.replay.rollout` has the rest). The formulas are those of `axbridge.plant`, here and in the bank.
"""

from __future__ import annotations

import math
from enum import IntEnum
from functools import partial

import numpy as np
import numpy.typing as npt

from axbridge.jit import jit
from axbridge.physics.backlash import spin
from axbridge.physics.branch_free import sine
from axbridge.physics.columns import Command, Drive
from axbridge.physics.friction import budget
from axbridge.physics.mechanics import FloatArray, IntArray
from axbridge.physics.model_columns import Law, Param
from axbridge.physics.motor import directed, end_current, mean_torque, relax, warmed
from axbridge.physics.position_laws import follow, lagging, mean_compliance, pid, quantise, saturated, state_feedback

__all__ = ["LOOP", "STRETCH", "WIDTH", "fits", "run", "workspace"]

WIDTH = 16
_VECTOR = 8  # numbers in the longest registers there are: fewer lanes than that are not done side by side
LOOP = 1e-3  # s: a command waits half a turn of the servo's loop on average, and a reading is half of one old
STRETCH = 1.25  # a step may be so much longer than asked for when a command is due at its end


class _Lane(IntEnum):
    """Rows of the workspace; after these come those of `Param`, `Command` and `Drive`."""

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
_DRIVE = _COMMAND + len(Command)
_ROWS = _DRIVE + len(Drive)


class _Place(IntEnum):
    """Where a lane is in its recording: rows of whole numbers."""

    SET = 0
    COMMAND = 1  # the sample whose command acts
    SAMPLE = 2  # the next one to be read
    END = 3
    FIRST = 4  # its recording's first sample
    READS = 5  # 1: its step needs a closer look


class _Clock(IntEnum):
    """Likewise of times, s."""

    NOW = 0
    EVENT = 1  # until then its steps are all alike
    LATENCY = 2
    READING = 3  # rad: what is read while it is held


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


def workspace() -> tuple[FloatArray, IntArray, FloatArray]:
    """What `run` works in."""
    places = np.zeros((len(_Place), WIDTH), dtype=np.int64)
    return np.zeros(_ROWS * WIDTH), places, np.zeros((len(_Clock), WIDTH))


@jit
def _control(w: FloatArray, lanes: int, law: int) -> None:
    """Every lane's loop, of which `law` is the constant: VOLTS and FEEDBACK of its step."""
    for i in range(lanes):
        angle, speed, step = w[_Lane.ANGLE * WIDTH + i], w[_Lane.SPEED * WIDTH + i], w[_Lane.STEP * WIDTH + i]
        before = w[_Lane.REFERENCE * WIDTH + i]
        integral, last = w[_Lane.INTEGRAL * WIDTH + i], w[_Lane.LAST_ERROR * WIDTH + i]
        cap, supply = w[(_COMMAND + Command.TORQUE_LIMIT) * WIDTH + i], w[_Lane.SUPPLY * WIDTH + i]
        quantum = w[(_PARAM + Param.COUNT) * WIDTH + i] if w[(_PARAM + Param.QUANTISED) * WIDTH + i] != 0.0 else 0.0
        reading = angle + w[(_PARAM + Param.OFFSET) * WIDTH + i]
        seen, blur = lagging(
            w[_Lane.SEEN * WIDTH + i], reading, w[(_PARAM + Param.LAG) * WIDTH + i],
            w[(_PARAM + Param.NOISE) * WIDTH + i], step,
        )  # fmt: skip
        reference, reference_speed = follow(
            before, w[(_COMMAND + Command.GOAL) * WIDTH + i], w[(_COMMAND + Command.SPEED) * WIDTH + i], step
        )
        feedback, fresh, counts = 0.0, integral, last
        if law == Law.STATE_FEEDBACK:
            volts, feedback = state_feedback(
                reference, reference_speed, angle + 0.5 * step * speed,
                w[(_PARAM + Param.K_THETA) * WIDTH + i], w[(_PARAM + Param.K_OMEGA) * WIDTH + i],
            )  # fmt: skip
            volts, feedback = saturated(volts, feedback, speed, cap * supply)
        elif law == Law.COMPLIANCE:
            duty = mean_compliance(
                reference, seen, quantum, blur,
                w[(_COMMAND + Command.MARGIN_CW) * WIDTH + i], w[(_COMMAND + Command.MARGIN_CCW) * WIDTH + i],
                w[(_COMMAND + Command.SLOPE_CW) * WIDTH + i], w[(_COMMAND + Command.SLOPE_CCW) * WIDTH + i],
                w[(_COMMAND + Command.PUNCH) * WIDTH + i],
            )  # fmt: skip
            volts = min(max(duty, -cap), cap) * supply
        else:
            counts = (reference - quantise(seen, quantum)) / w[(_PARAM + Param.COUNT) * WIDTH + i]
            duty, fresh = pid(
                counts, last, integral, step,
                w[(_PARAM + Param.P_DUTY) * WIDTH + i] * w[(_COMMAND + Command.P_GAIN) * WIDTH + i],
                w[(_PARAM + Param.I_DUTY) * WIDTH + i] * w[(_COMMAND + Command.I_GAIN) * WIDTH + i],
                w[(_PARAM + Param.D_DUTY) * WIDTH + i] * w[(_COMMAND + Command.D_GAIN) * WIDTH + i], cap,
            )  # fmt: skip
            volts = min(max(duty, -cap), cap) * supply
        duty = w[_Lane.DUTY * WIDTH + i]
        if duty <= 1.0:  # wheel mode
            volts, feedback, reference, fresh, counts = min(max(duty, -cap), cap) * supply, 0.0, before, integral, last
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
        current, on = w[_Lane.CURRENT * WIDTH + i], w[_Lane.ON * WIDTH + i]
        constant = w[(_PARAM + Param.CONSTANT) * WIDTH + i]
        gravity, phase = w[_Lane.GRAVITY * WIDTH + i], w[_Lane.PHASE * WIDTH + i]
        pull = gravity * sine(angle + phase + 0.5 * step * omega)
        supply = w[_Lane.SUPPLY * WIDTH + i]
        duty = abs(volts - feedback * omega) / supply if supply > 0.0 else 0.0
        resistance = (
            w[(_PARAM + Param.RESISTANCE) * WIDTH + i] + w[(_PARAM + Param.RESISTANCE_PER_DUTY) * WIDTH + i] * duty
        )
        left, mean = relax(resistance, w[(_PARAM + Param.INDUCTANCE) * WIDTH + i], step)
        efficiency = directed(
            w[(_PARAM + Param.EFFICIENCY) * WIDTH + i], w[(_PARAM + Param.ASYMMETRY) * WIDTH + i], volts
        )
        push, drag = mean_torque(current, volts, feedback, mean, resistance, constant, efficiency)
        push, drag = on * push, on * drag
        dry = w[(_DRIVE + Drive.FRICTION) * WIDTH + i] + budget(
            omega, push - drag * omega, -pull,
            w[(_PARAM + Param.COULOMB) * WIDTH + i], w[(_PARAM + Param.STRIBECK) * WIDTH + i],
            w[(_PARAM + Param.STRIBECK_SPEED) * WIDTH + i], 1.0,
            w[(_PARAM + Param.LOAD) * WIDTH + i], w[(_PARAM + Param.LOAD_STRIBECK) * WIDTH + i],
            w[(_PARAM + Param.LOAD_EXTERNAL) * WIDTH + i], w[(_PARAM + Param.QUADRATIC) * WIDTH + i],
        )  # fmt: skip
        spring = w[(_DRIVE + Drive.SPRING) * WIDTH + i] * (angle + 0.5 * step * omega)
        damping = drag + w[(_PARAM + Param.VISCOUS) * WIDTH + i] + w[(_DRIVE + Drive.DAMPING) * WIDTH + i]
        speed_mean, speed = spin(omega, w[_Lane.INERTIA * WIDTH + i], push - pull - spring, damping, step * dry, step)
        following = angle + step * speed_mean
        low, high = w[(_DRIVE + Drive.LOW) * WIDTH + i], w[(_DRIVE + Drive.HIGH) * WIDTH + i]
        if following < low or following > high:
            following, speed = min(max(following, low), high), 0.0
            speed_mean = (following - angle) / step
        current = on * end_current(current, volts - feedback * speed_mean, left, resistance, constant, speed_mean)
        lost = w[_Lane.LOST * WIDTH + i]
        if not abs(following) < 1e3:
            following, speed, current, lost = 0.0, 0.0, 0.0, 1.0
        w[_Lane.LOST * WIDTH + i] = lost
        w[_Lane.CURRENT * WIDTH + i] = current
        w[_Lane.BEFORE * WIDTH + i] = angle
        w[_Lane.MEAN * WIDTH + i] = speed_mean
        w[_Lane.ANGLE * WIDTH + i] = following
        w[_Lane.SPEED * WIDTH + i] = speed


@jit
def _board(
    i: int, number: int, w: FloatArray, place: IntArray, clock: FloatArray, params: FloatArray, start: IntArray,
    time: FloatArray, position: FloatArray, velocity: FloatArray, supply: FloatArray, inertia: FloatArray,
    gravity: FloatArray, phase: FloatArray, temperature: FloatArray, drive: FloatArray, settings: FloatArray,
    h: float, out: FloatArray,
) -> None:  # fmt: skip
    """Give lane `i` the pair with this number: all sets on the first recording, then all on the next."""
    k, m = number % params.shape[0], number // params.shape[0]
    a = start[m]
    for column in range(params.shape[1]):
        w[(_PARAM + column) * WIDTH + i] = params[k, column]
    for column in range(settings.shape[1]):
        w[(_COMMAND + column) * WIDTH + i] = settings[m, column]
    for column in range(drive.shape[1]):
        w[(_DRIVE + column) * WIDTH + i] = drive[m, column]
    if not math.isnan(temperature[m]):
        w[(_PARAM + Param.RESISTANCE) * WIDTH + i] = warmed(
            params[k, Param.RESISTANCE],
            params[k, Param.RESISTANCE_PER_KELVIN],
            temperature[m] - params[k, Param.AMBIENT],
        )
    if params[k, Param.SLOPE] > 0.0:
        w[(_COMMAND + Command.SLOPE_CW) * WIDTH + i] = params[k, Param.SLOPE]
        w[(_COMMAND + Command.SLOPE_CCW) * WIDTH + i] = params[k, Param.SLOPE]
    if params[k, Param.PUNCH] >= 0.0:
        w[(_COMMAND + Command.PUNCH) * WIDTH + i] = params[k, Param.PUNCH]
    w[_Lane.SUPPLY * WIDTH + i], w[_Lane.STEP * WIDTH + i] = supply[m], h
    w[_Lane.INERTIA * WIDTH + i] = inertia[m] + params[k, Param.ARMATURE]
    w[_Lane.GRAVITY * WIDTH + i], w[_Lane.PHASE * WIDTH + i] = gravity[m], phase[m]
    _put(i, w, position[a], velocity[a])
    w[_Lane.INTEGRAL * WIDTH + i] = w[_Lane.LAST_ERROR * WIDTH + i] = w[_Lane.LOST * WIDTH + i] = 0.0
    place[_Place.SET, i], place[_Place.FIRST, i] = k, a
    place[_Place.COMMAND, i], place[_Place.SAMPLE, i], place[_Place.END, i] = a - 1, a + 1, start[m + 1]
    clock[_Clock.NOW, i], clock[_Clock.EVENT, i] = time[a], -math.inf
    clock[_Clock.LATENCY, i], clock[_Clock.READING, i] = params[k, Param.LATENCY] + LOOP, position[a]
    out[k, a] = position[a]


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
def _obey(
    i: int, j: int, w: FloatArray, driven: FloatArray, goal: FloatArray, speed_limit: FloatArray, duty: FloatArray,
    cap: FloatArray,
) -> None:  # fmt: skip
    """Lane `i` gets the command of sample `j`."""
    most = min(cap[j], 1.0)
    w[_Lane.ON * WIDTH + i] = 1.0 if driven[j] > 0.5 and most > 0.0 and w[_Lane.SUPPLY * WIDTH + i] > 0.0 else 0.0
    w[_Lane.DUTY * WIDTH + i] = duty[j]
    w[(_COMMAND + Command.GOAL) * WIDTH + i], w[(_COMMAND + Command.SPEED) * WIDTH + i] = goal[j], speed_limit[j]
    w[(_COMMAND + Command.TORQUE_LIMIT) * WIDTH + i] = most


@jit
def _prepare(
    i: int, w: FloatArray, place: IntArray, clock: FloatArray, time: FloatArray, sent: FloatArray, goal: FloatArray,
    driven: FloatArray, speed_limit: FloatArray, duty: FloatArray, cap: FloatArray, position: FloatArray,
    velocity: FloatArray, h: float, out: FloatArray,
) -> bool:  # fmt: skip
    """What lane `i` has to do before its next step; false at the end of its recording."""
    j, k, n, row = place[_Place.COMMAND, i], place[_Place.SAMPLE, i], place[_Place.END, i], place[_Place.SET, i]
    now, latency, reading = clock[_Clock.NOW, i], clock[_Clock.LATENCY, i], clock[_Clock.READING, i]
    step = 0.0
    while k < n and step == 0.0:
        obeyed = j
        j = max(j, place[_Place.FIRST, i])
        while _due(j, n, sent, latency) <= now + 1e-9:
            j += 1
        if j != obeyed:
            _obey(i, j, w, driven, goal, speed_limit, duty, cap)
        ahead = _due(j, n, sent, latency) - now
        step = ahead if ahead < STRETCH * h else h  # a command acts when it is due, not at the next whole step
        if driven[k] > 2.5:  # FOLLOWED
            now, out[row, k] = time[k], position[k]
            _put(i, w, position[k], velocity[k])
            k += 1
            step = 0.0
        elif 1.5 < driven[j] < 2.5:  # HELD
            while k < n and time[k] <= now + step:
                out[row, k] = reading
                k += 1
            now += step
            step = 0.0
    if step != 0.0:
        w[_Lane.STEP * WIDTH + i] = step
    place[_Place.COMMAND, i], place[_Place.SAMPLE, i], clock[_Clock.NOW, i] = j, k, now
    return step != 0.0


@jit
def _read(
    i: int, w: FloatArray, place: IntArray, clock: FloatArray, time: FloatArray, sent: FloatArray, driven: FloatArray,
    h: float, out: FloatArray,
) -> None:  # fmt: skip
    """Read the samples of lane `i` that its step has passed, and look how far the next steps are all alike."""
    k, n, row = place[_Place.SAMPLE, i], place[_Place.END, i], place[_Place.SET, i]
    now, step, mean = clock[_Clock.NOW, i], w[_Lane.STEP * WIDTH + i], w[_Lane.MEAN * WIDTH + i]
    began = w[_Lane.BEFORE * WIDTH + i] + w[(_PARAM + Param.OFFSET) * WIDTH + i]
    if w[_Lane.LOST * WIDTH + i] != 0.0:
        out[row, k:n] = 1e3
        k = n
    while k < n and time[k] <= now + step:
        out[row, k] = began + mean * (time[k] - now)
        k += 1
    now += step
    event = -math.inf
    if k < n and driven[k] < 2.5:
        command = _due(place[_Place.COMMAND, i], n, sent, clock[_Clock.LATENCY, i])
        event = min(time[k] - h, command - STRETCH * h) - 1e-9
    w[_Lane.STEP * WIDTH + i] = h
    place[_Place.SAMPLE, i], clock[_Clock.NOW, i], clock[_Clock.EVENT, i] = k, now, event


@partial(jit, nogil=True)
def run(
    params: FloatArray, start: npt.NDArray[np.int64], time: FloatArray, sent: FloatArray, goal: FloatArray,
    driven: FloatArray, speed_limit: FloatArray, duty: FloatArray, cap: FloatArray, position: FloatArray,
    velocity: FloatArray, supply: FloatArray, inertia: FloatArray, gravity: FloatArray, phase: FloatArray,
    temperature: FloatArray, drive: FloatArray, settings: FloatArray, h: float, w: FloatArray, place: IntArray,
    clock: FloatArray, out: FloatArray,
) -> None:  # fmt: skip
    """All sets on all recordings: the arguments are those of `axbridge.replay.rollout.rollouts`, and `workspace`."""
    pairs = params.shape[0] * (start.shape[0] - 1)
    law = int(params[0, Param.LAW])
    lanes = 1 if pairs == 1 else min((pairs + _VECTOR - 1) // _VECTOR * _VECTOR, WIDTH)
    for i in range(lanes):  # some have nothing to do, but compute like the others
        _board(
            i, min(i, pairs - 1), w, place, clock, params, start, time, position, velocity, supply, inertia, gravity,
            phase, temperature, drive, settings, h, out,
        )  # fmt: skip
        if i >= pairs:
            place[_Place.END, i] = 0
    given, busy = lanes, True
    while busy:
        busy = False
        for i in range(lanes):
            ready = clock[_Clock.NOW, i] < clock[_Clock.EVENT, i]
            if ready:
                clock[_Clock.NOW, i] += h
                place[_Place.READS, i] = 0
            else:
                ready = _prepare(
                    i, w, place, clock, time, sent, goal, driven, speed_limit, duty, cap, position, velocity, h, out
                )
                while not ready and given < pairs:
                    _board(
                        i, given, w, place, clock, params, start, time, position, velocity, supply, inertia, gravity,
                        phase, temperature, drive, settings, h, out,
                    )  # fmt: skip
                    given += 1
                    ready = _prepare(
                        i, w, place, clock, time, sent, goal, driven, speed_limit, duty, cap, position, velocity, h, out
                    )
                place[_Place.READS, i] = 1 if ready else 0
            busy = busy or ready
        if law == Law.STATE_FEEDBACK:
            _control(w, lanes, 0)
        elif law == Law.COMPLIANCE:
            _control(w, lanes, 1)
        else:
            _control(w, lanes, 2)
        _move(w, lanes)
        for i in range(lanes):
            if place[_Place.READS, i] != 0:
                _read(i, w, place, clock, time, sent, driven, h, out)
