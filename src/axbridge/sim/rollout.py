"""One servo on one arm, run over recorded commands: many parameter sets and many recordings in one call.

The bank's own loop, motor and friction (`axbridge.sim.substep.drive_train`), for a single joint whose inertia J and
load torque m(θ, t) are known in closed form, so that a whole recording takes less than a millisecond: the engine of
identification, and of comparing a recording with a model. Compiled where numba is installed; without it the same code
runs as plain Python, hundreds of times slower.

What is solved, in each step of h (1 ms, or 0.1 ms where it is to be exact):

    (J + armature) ω' = torque - damping·ω - m(θ) - spring·θ, held still by dry friction up to its `limit`

1. *Which command acts.* A command acts `LATENCY` and half a turn of the servo's loop after it was sent. A step ends
   early, or up to a quarter late, so that this is never in its midst: the goal is constant over a step.
2. *What is not computed.* `FOLLOWED` samples are taken from the measurement: the state is set, and nothing is
   integrated. `HELD` ones stand where the part began. Both come before the loop runs, which must not see them.
3. *The load*, at the angle in the middle of the step (half a step ahead at the old speed): so the sum is of second
   order in h, though it is taken before the step is solved.
4. *Loop and motor* give a line over the speed, torque - damping·ω, and the most that dry friction can take up. They
   need the load, because friction grows with what the gear passes on.
5. *The step itself* (`one_body.spin`): damping is implicit and exact for a constant torque, friction at most stops the
   joint. `stopped` then ends it at the hard stops.
6. *Backlash*, where the model has it: a rotor that is loose is stepped by itself, with the motor's torque, and the
   joint without; then they meet, or part. That is known only when both have moved.
7. *The current* at the end of the step, from the mean speed (`settle`): the motor's voltage was that line.
8. *The samples* within the step, on a line over it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.columns import Command, Joint, Mode, Param, Passive
from axbridge.servo.motor import fitted_weight
from axbridge.servo.position_laws import lagging
from axbridge.sim.backlash import meeting, rest
from axbridge.sim.one_body import spin, stopped
from axbridge.sim.runs import Regime, Runs
from axbridge.sim.substep import DriveTrain, drive_train, drive_train_of, settle

_WIDTH = max(len(Joint), len(Command))  # of what a set works in
_MODES = float(Mode.JOINT), float(Mode.WHEEL_DUTY)
_NOW, _OBEYED, _NEXT = range(3)  # a place in a recording: s; the sample that is obeyed, and the one to come
_LOOP = 0.5e-3  # s: a command waits half a turn of the servo's loop on average; what is read is of that moment
_STRETCH = 1.25  # a step may be so much longer than asked for when a command is due at its end
_FOLLOWED, _HELD, _OFF = int(Regime.FOLLOWED), int(Regime.HELD), int(Regime.OFF)


def rollouts(params: FloatArray, runs: Runs, step: float = 1e-3) -> FloatArray:
    """Positions read by the servo at the recorded times.

    Args:
        params: Parameter sets (k, len(Param)).
        runs: m recordings of l samples in all.
        step: h, s; steps end early, or a little late, where a command acts.

    Returns:
        (k, l), rad. A motion that left the finite range is held at ±1e3.
    """
    out = np.empty((len(params), len(runs.time)))
    sets = np.ascontiguousarray(params, dtype=np.float64)
    _all(sets, runs, float(step), np.zeros((6, _WIDTH)), out)
    return out


class _Trial(NamedTuple):
    """What of a parameter set stays as it is all through a recording.

    Attributes:
        train: Loop, motor and gear.
        latency: s, with half a turn of the loop.
        offset: rad.
        noise: rad.
        armature: kg·m².
        play: rad.
        output: N·m.
    """

    train: DriveTrain
    latency: float
    offset: float
    noise: float
    armature: float
    play: float
    output: float


@jit
def _begin(params: FloatArray, runs: Runs, m: int, work: FloatArray, out: FloatArray) -> _Trial:
    """Set `work` (3, _WIDTH), its place in time, command and joint, to where recording `m` begins; `out` as below."""
    a, warm = runs.start[m], runs.temperature[m]
    place, command, joint = work[0], work[1], work[2]
    for column in range(runs.settings.shape[1]):
        command[column] = runs.settings[m, column]
    _obey(command, runs, a)
    joint[:] = 0.0
    train = drive_train_of(params, command, params[Param.AMBIENT] if math.isnan(warm) else warm)
    offset, play = params[Param.OFFSET], params[Param.BACKLASH]
    reading, velocity = runs.position[a], runs.velocity[a]
    joint[Joint.ANGLE], joint[Joint.SPEED] = reading - offset, velocity
    joint[Joint.REFERENCE], joint[Joint.FILTERED] = reading, velocity
    joint[Joint.SEEN] = reading - train.loop.lag * velocity
    if play > 0.0:  # the rotor starts in the middle of it
        joint[Joint.LOOSE], joint[Joint.ROTOR], joint[Joint.ROTOR_SPEED] = 1.0, reading - offset, velocity
    out[a] = reading
    place[_NOW], place[_OBEYED], place[_NEXT] = runs.time[a], a, a + 1
    return _Trial(
        train, params[Param.LATENCY] + _LOOP, offset, params[Param.NOISE], params[Param.ARMATURE], play,
        params[Param.OUTPUT],
    )  # fmt: skip


@jit
def _obey(command: FloatArray, runs: Runs, j: int) -> None:
    """What sample `j` says acts from now on."""
    command[Command.TORQUE] = 1.0 if runs.driven[j] != _OFF else 0.0
    command[Command.MODE] = _MODES[1] if runs.duty[j] <= 1.0 else _MODES[0]
    command[Command.GOAL], command[Command.SPEED] = runs.goal[j], runs.speed_limit[j]
    command[Command.DUTY], command[Command.TORQUE_LIMIT] = runs.duty[j], runs.cap[j]


@jit
def _advance(trial: _Trial, runs: Runs, m: int, h: float, work: FloatArray, out: FloatArray) -> bool:
    """A step over recording `m`, unless that has ended: then False. `out` (l,) is a line of what `rollouts` returns."""
    place, command, joint = work[0], work[1], work[2]
    n, now, j, k = runs.start[m + 1], place[_NOW], int(place[_OBEYED]), int(place[_NEXT])
    if k >= n:
        return False
    time, sent, position, velocity, driven = runs.time, runs.sent, runs.position, runs.velocity, runs.driven
    train, latency, offset, noise, armature, play, output = trial
    inertia, passive = runs.inertia[m], runs.passive[m]
    total, carried = inertia + armature, runs.load.shape[0] > 0
    if j + 1 < n and sent[j + 1] + latency <= now + 1e-9:
        while j + 1 < n and sent[j + 1] + latency <= now + 1e-9:
            j += 1
        place[_OBEYED] = j
        _obey(command, runs, j)
    step = h
    if j + 1 < n and sent[j + 1] + latency - now < _STRETCH * h:
        step = sent[j + 1] + latency - now  # the next command acts when it is due, not at the next whole step
    if driven[k] == _FOLLOWED:
        place[_NOW], out[k] = time[k], position[k]
        joint[Joint.ANGLE], joint[Joint.SPEED] = position[k] - offset, velocity[k]
        joint[Joint.REFERENCE], joint[Joint.FILTERED] = position[k], velocity[k]
        joint[Joint.SEEN] = _seen_along(joint[Joint.SEEN], runs, k, train.loop.lag)
        joint[Joint.CURRENT], joint[Joint.TIMER] = 0.0, 0.0
        joint[Joint.ROTOR], joint[Joint.ROTOR_SPEED] = position[k] - offset, velocity[k]
        joint[Joint.LOOSE] = 1.0 if play > 0.0 else 0.0
        place[_NEXT] = k + 1
        return True
    if driven[j] == _HELD:
        while k < n and time[k] <= now + step:
            out[k] = position[runs.start[m]]
            k += 1
        place[_NOW], place[_NEXT] = now + step, k
        return True
    angle, omega = joint[Joint.ANGLE], joint[Joint.SPEED]
    midway = angle + 0.5 * step * omega
    if carried:
        share = min(max((now + 0.5 * step - time[k - 1]) / (time[k] - time[k - 1]), 0.0), 1.0)
        before, after = runs.load[k - 1], runs.load[k]
        inertia = before[0] + share * (after[0] - before[0])
        pull = (before[1] + share * (after[1] - before[1])) * math.sin(midway)
        pull += (before[2] + share * (after[2] - before[2])) * math.cos(midway)
        pull += before[3] + share * (after[3] - before[3])
        total = inertia + armature
    else:
        pull = runs.gravity[m] * math.sin(midway + runs.phase[m])
    loose = joint[Joint.LOOSE] != 0.0
    torque, damping, limit = drive_train(1.0, train, command, joint, angle + offset, runs.supply[m], step, pull, noise)
    spring, turned, moved, gear = -passive[Passive.SPRING] * midway, 0.0, total, limit
    drive, drag = torque, damping
    if loose:
        turned, joint[Joint.ROTOR_SPEED] = spin(joint[Joint.ROTOR_SPEED], armature, torque, damping, limit, step)
        joint[Joint.ROTOR] += step * turned
        torque, damping, limit, moved = 0.0, 0.0, 0.0, inertia
    damping += passive[Passive.DAMPING]
    limit += step * (passive[Passive.FRICTION] + output)
    mean, speed = spin(omega, moved, torque + spring - pull, damping, limit, step)
    unstopped_mean, unstopped = mean, speed
    following, mean, speed = stopped(angle, mean, speed, passive[Passive.LOW], passive[Passive.HIGH], step)
    if loose:
        mobility = 1.0 / (moved + step * fitted_weight(step * damping / moved) * damping)
        ahead = joint[Joint.ROTOR] - following
        flank, hit = meeting(ahead, joint[Joint.ROTOR_SPEED], speed, play, armature, mobility)
        if flank != 0:
            joint[Joint.LOOSE], joint[Joint.FLANK] = 0.0, float(flank)
            speed += hit * mobility
        settle(joint, train.motor.constant, turned)
    else:
        settle(joint, train.motor.constant, mean)
        if play > 0.0:  # does the rotor push its joint, or would it have to pull?
            rubbed = total * (unstopped - omega) - step * (torque + spring - pull - damping * unstopped_mean)
            pushed = step * (drive - drag * mean) + (rubbed * gear / limit if limit > 0.0 else 0.0)
            joint[Joint.ANGLE], joint[Joint.SPEED] = following, speed
            rest(joint, armature, play, pushed, speed - omega)
    if not abs(following) < 1e3:
        out[k:n] = 1e3
        place[_NEXT] = n
        return False
    while k < n and time[k] <= now + step:
        out[k] = angle + mean * (time[k] - now) + offset
        k += 1
    joint[Joint.ANGLE], joint[Joint.SPEED] = following, speed
    place[_NOW], place[_NEXT] = now + step, k
    return True


@jit
def _seen_along(seen: float, runs: Runs, k: int, lag: float) -> float:
    """What a loop sees at sample k through its lag (s) if the joint came from the one before with even acceleration."""
    position, velocity, spell = runs.position, runs.velocity, runs.time[k] - runs.time[k - 1]
    gained = (velocity[k] - velocity[k - 1]) / spell if spell > 0.0 else 0.0
    due = position[k - 1] - lag * (velocity[k - 1] - lag * gained)  # if it had gone on like this all the time before
    rest, _ = lagging(seen - due, 0.0, lag, 0.0, spell)
    found: float = position[k] - lag * (velocity[k] - lag * gained) + rest
    return found


@partial(jit, nogil=True)
def _all(params: FloatArray, runs: Runs, step: float, work: FloatArray, out: FloatArray) -> None:
    """Two parameter sets go through a recording together, step by step.

    In a step each figure waits for the one before; meanwhile the processor works at the other set's. That makes 1.2 to
    1.3 times as many rollouts (`benchmarks/identify_throughput.py`).
    """
    sets = params.shape[0]
    for m in range(runs.start.shape[0] - 1):
        for a in range(0, sets, 2):
            b = min(a + 1, sets - 1)
            one = _begin(params[a], runs, m, work[:3], out[a])
            other = _begin(params[b], runs, m, work[3:], out[b])
            if a == b:
                work[3, _NEXT] = runs.start[m + 1]  # there is no other one
            going = True
            while going:
                going = _advance(one, runs, m, step, work[:3], out[a])
                going |= _advance(other, runs, m, step, work[3:], out[b])
