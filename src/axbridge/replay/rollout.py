"""One servo on one arm, run over recorded commands: many parameter sets and many recordings in one call.

The bank's own loop, motor and friction (`axbridge.physics.substep.drive_train`), for a single joint whose inertia and
gravity are known in closed form, so that a whole recording takes less than a millisecond: the engine of identification,
and of comparing a recording with a model. What nearly all fits need runs many at a time (`axbridge.replay.rollout_lanes`),
the rest one by one, here. Compiled where numba is installed; without it the same code runs as plain Python, hundreds of
times slower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial

import numpy as np
import numpy.typing as npt

from axbridge.jit import COMPILED, jit
from axbridge.physics.backlash import meeting, spin
from axbridge.physics.columns import Command, Drive, Joint, Mode, State
from axbridge.physics.mechanics import FloatArray
from axbridge.physics.model_columns import Param
from axbridge.physics.motor import fitted_weight
from axbridge.physics.substep import drive_train, settle
from axbridge.replay import rollout_lanes as lanes

__all__ = ["FOLLOWED", "FREE", "HELD", "JOINT_MODE", "Runs", "rollouts"]

FREE = np.zeros(len(Drive))  # a row of `Runs.drive`: nothing acts beside the servo
FREE[[Drive.LOW, Drive.HIGH]] = -np.inf, np.inf
HELD, FOLLOWED = 2.0, 3.0  # in `Runs.driven`
_JOINT, _STATE = len(Joint), len(State)
_WIDTH = max(len(Joint), len(State), len(Command))
_MODES = float(Mode.JOINT), float(Mode.WHEEL_DUTY)
JOINT_MODE = 2.0  # in `Runs.duty`: no duty, the position loop runs


@dataclass(frozen=True)
class Runs:
    """Recorded commands of m recordings, laid end to end; l samples in all. Angles are the servo's own.

    Attributes:
        start: First sample of each, and l: (m + 1,).
        time: s, (l,).
        sent: When goal, torque switch, speed limit and duty of a sample went out, s, (l,).
        goal: rad, (l,).
        driven: 1 torque on, 0 off, `HELD` held still by whatever (before a part begins), `FOLLOWED` where the motion is
            taken from the measurement and goes on from it afterwards (torque on, out of the sensor's range), (l,).
        speed_limit: rad/s, 0 = none, (l,).
        duty: Wheel-mode duty, `JOINT_MODE` in joint mode, (l,).
        cap: Largest duty (torque limit), 0..1, (l,).
        position: Measured, rad, (l,); the first of each is where the run starts.
        velocity: Measured, rad/s, (l,); what a run starts with, and goes on with after `FOLLOWED`.
        supply: V, (m,).
        inertia: Of arm and load, kg·m², (m,).
        gravity: m·g·l, N·m, (m,): load torque `gravity·sin(θ + phase)`.
        phase: rad, (m,).
        temperature: Reported by the servo, degC, NaN where not known: then it is the model's ambient one, (m,).
        drive: What acts on the joint beside the servo, (m, len(Drive)): spring, damper, friction, hard stops.
        settings: What the registers make of the loop, (m, len(Command)); what the columns above say is theirs to say.
        adrift: 1 where nobody wrote down when commands went out, so `sent` is a guess, (m,); empty = known everywhere.
        spread: Standard deviation of errors of `time` that differ from sample to sample, s, (m,); empty = none.
    """

    start: npt.NDArray[np.int64]
    time: FloatArray
    sent: FloatArray
    goal: FloatArray
    driven: FloatArray
    speed_limit: FloatArray
    duty: FloatArray
    cap: FloatArray
    position: FloatArray
    velocity: FloatArray
    supply: FloatArray
    inertia: FloatArray
    gravity: FloatArray
    phase: FloatArray
    temperature: FloatArray
    drive: FloatArray
    settings: FloatArray
    adrift: FloatArray = field(default_factory=lambda: np.zeros(0))
    spread: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def compared(self) -> FloatArray:
        """How many samples of each recording a model has to account for: all that are not `FOLLOWED`, (m,)."""
        counts: FloatArray = np.add.reduceat((self.driven != FOLLOWED).astype(float), self.start[:-1])
        return counts

    def means(self, errors: FloatArray) -> FloatArray:
        """Means (…, m) by recording of errors (…, l), which are 0 where `FOLLOWED`; 0 where all of a recording is."""
        sums: FloatArray = np.add.reduceat(errors, self.start[:-1], axis=-1) / np.maximum(self.compared, 1.0)
        return sums

    def only(self, chosen: Sequence[int]) -> Runs:
        """The recordings with these indices."""
        parts = [slice(int(self.start[i]), int(self.start[i + 1])) for i in chosen]
        lengths = [part.stop - part.start for part in parts]
        start = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)
        index = np.array(chosen, dtype=np.intp)
        names = [one.name for one in fields(self)][1:]
        samples = [getattr(self, name) for name in names[:9]]
        return Runs(
            start,
            *(np.concatenate([values[part] for part in parts]) if parts else values[:0] for values in samples),
            *(values[index] if len(values) else values for values in (getattr(self, name) for name in names[9:])),
        )


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
    given = (
        np.ascontiguousarray(params, dtype=np.float64), runs.start, runs.time, runs.sent, runs.goal, runs.driven,
        runs.speed_limit, runs.duty, runs.cap, runs.position, runs.velocity, runs.supply, runs.inertia, runs.gravity,
        runs.phase, runs.temperature, runs.drive, runs.settings, float(step),
    )  # fmt: skip
    if COMPILED and out.size and lanes.fits(given[0], runs.settings):  # plain Python has no vector registers
        lanes.run(*given, *lanes.workspace(), out)
    else:
        _all(*given, np.zeros((7, _WIDTH)), out)
    return out


@jit
def _one(
    params: FloatArray, time: FloatArray, sent: FloatArray, goal: FloatArray, driven: FloatArray,
    speed_limit: FloatArray, duty: FloatArray, cap: FloatArray, position: FloatArray, velocity: FloatArray,
    supply: float, inertia: float, gravity: float, phase: float, temperature: float, drive: FloatArray,
    settings: FloatArray, h: float, work: FloatArray, out: FloatArray,
) -> None:  # fmt: skip
    """One parameter set over one recording; `out` (l,) as `rollouts` returns it."""
    latency, offset, noise = params[Param.LATENCY] + lanes.LOOP, params[Param.OFFSET], params[Param.NOISE]
    total = inertia + params[Param.ARMATURE]
    command, joint, state, torque, damping, limit, wanted = (
        work[0],
        work[1],
        work[2],
        work[3, :1],
        work[4, :1],
        work[5, :1],
        work[6, :5].reshape((5, 1)),
    )
    for column in range(len(settings)):
        command[column] = settings[column]
    joint[:] = 0.0
    state[:] = 0.0
    state[State.VOLTAGE] = supply
    state[State.TEMPERATURE] = params[Param.AMBIENT] if math.isnan(temperature) else temperature
    n = time.shape[0]
    now, reading = time[0], position[0]
    joint[Joint.ANGLE], joint[Joint.SPEED] = reading - offset, velocity[0]
    joint[Joint.REFERENCE], joint[Joint.FILTERED], joint[Joint.SEEN] = reading, velocity[0], reading
    play = params[Param.BACKLASH]
    if play > 0.0:  # the rotor starts in the middle of it
        joint[Joint.LOOSE], joint[Joint.ROTOR], joint[Joint.ROTOR_SPEED] = 1.0, reading - offset, velocity[0]
    out[0] = reading
    j, k, obeyed = 0, 1, -1
    taken, drag, weight, mobility, kept = 0.0, 0.0, 0.0, 0.0, 0.0  # of the last step, and what follows from it
    while k < n:
        while j + 1 < n and sent[j + 1] + latency <= now + 1e-9:
            j += 1
        if j != obeyed:
            obeyed = j
            command[Command.TORQUE] = 1.0 if driven[j] > 0.5 else 0.0
            command[Command.MODE] = _MODES[1] if duty[j] <= 1.0 else _MODES[0]
            command[Command.GOAL], command[Command.SPEED] = goal[j], speed_limit[j]
            command[Command.DUTY], command[Command.TORQUE_LIMIT] = duty[j], cap[j]
        step = h
        if j + 1 < n and sent[j + 1] + latency - now < lanes.STRETCH * h:
            step = sent[j + 1] + latency - now  # the next command acts when it is due, not at the next whole step
        if driven[k] > 2.5:  # FOLLOWED
            now, out[k] = time[k], position[k]
            joint[Joint.ANGLE], joint[Joint.SPEED] = position[k] - offset, velocity[k]
            joint[Joint.REFERENCE], joint[Joint.FILTERED], joint[Joint.SEEN] = position[k], velocity[k], position[k]
            joint[Joint.CURRENT], joint[Joint.TIMER] = 0.0, 0.0
            joint[Joint.ROTOR], joint[Joint.ROTOR_SPEED] = position[k] - offset, velocity[k]
            joint[Joint.LOOSE], drag = 1.0 if play > 0.0 else 0.0, -1e300
            k += 1
            continue
        if 1.5 < driven[j] < 2.5:  # HELD
            while k < n and time[k] <= now + step:
                out[k] = reading
                k += 1
            now += step
            continue
        if abs(step - taken) > 1e-9:
            taken, drag, wanted[0, 0] = step, -1e300, 0.0
        angle, omega = joint[Joint.ANGLE], joint[Joint.SPEED]
        pull = gravity * math.sin(angle + phase + 0.5 * step * omega)
        spring = -drive[Drive.SPRING] * (angle + 0.5 * step * omega)
        torque[0], damping[0], limit[0] = spring, drive[Drive.DAMPING], step * drive[Drive.FRICTION]
        loose = joint[Joint.LOOSE] != 0.0
        if loose:
            torque[0] = damping[0] = limit[0] = 0.0
        drive_train(0, 1.0, params, command, state, joint, step, pull, 0.0, noise, torque, damping, limit, wanted)
        turned, moved = 0.0, total
        if loose:
            turned, joint[Joint.ROTOR_SPEED] = spin(
                joint[Joint.ROTOR_SPEED], params[Param.ARMATURE], torque[0], damping[0], limit[0], step
            )
            joint[Joint.ROTOR] += step * turned
            torque[0], damping[0], limit[0] = spring, drive[Drive.DAMPING], step * drive[Drive.FRICTION]
            moved = inertia
        if damping[0] != drag:  # seldom
            drag = damping[0]
            weight = fitted_weight(step * drag / moved)
            mobility = 1.0 / (moved + step * weight * drag)
            kept = (moved - step * (1.0 - weight) * drag) * mobility
        speed = kept * omega + step * (torque[0] - pull) * mobility
        cut = limit[0] * mobility  # dry friction takes at most the momentum there is: a joint that would stop sticks
        speed = speed - cut if speed > cut else min(speed + cut, 0.0)
        mean = weight * speed + (1.0 - weight) * omega
        following = angle + step * mean
        if following < drive[Drive.LOW] or following > drive[Drive.HIGH]:
            following = min(max(following, drive[Drive.LOW]), drive[Drive.HIGH])
            speed = 0.0
            mean = (following - angle) / step
        if loose:
            flank, hit = meeting(
                joint[Joint.ROTOR] - following, joint[Joint.ROTOR_SPEED], speed, play, params[Param.ARMATURE], mobility
            )
            if flank != 0:
                joint[Joint.LOOSE], joint[Joint.FLANK], drag = 0.0, float(flank), -1e300
                speed += hit * mobility
            settle(joint, params, wanted[:, 0], turned)
        else:
            settle(joint, params, wanted[:, 0], mean)
            if play > 0.0:  # does the rotor push its joint, or would it have to pull?
                passed = inertia * (speed - omega) + step * (pull - spring + drive[Drive.DAMPING] * mean)
                if passed * joint[Joint.FLANK] < 0.0:
                    joint[Joint.LOOSE], joint[Joint.ROTOR_SPEED], drag = 1.0, speed, -1e300
                    joint[Joint.ROTOR] = following + 0.5 * joint[Joint.FLANK] * play
        if not abs(following) < 1e3:
            out[k:] = 1e3
            return
        while k < n and time[k] <= now + step:
            out[k] = angle + mean * (time[k] - now) + offset
            k += 1
        joint[Joint.ANGLE], joint[Joint.SPEED] = following, speed
        now += step


@partial(jit, nogil=True)
def _all(
    params: FloatArray, start: npt.NDArray[np.int64], time: FloatArray, sent: FloatArray, goal: FloatArray,
    driven: FloatArray, speed_limit: FloatArray, duty: FloatArray, cap: FloatArray, position: FloatArray,
    velocity: FloatArray, supply: FloatArray, inertia: FloatArray, gravity: FloatArray, phase: FloatArray,
    temperature: FloatArray, drive: FloatArray, settings: FloatArray, step: float, work: FloatArray, out: FloatArray,
) -> None:  # fmt: skip
    for k in range(params.shape[0]):
        for m in range(start.shape[0] - 1):
            a, b = start[m], start[m + 1]
            _one(
                params[k], time[a:b], sent[a:b], goal[a:b], driven[a:b], speed_limit[a:b], duty[a:b], cap[a:b],
                position[a:b], velocity[a:b], supply[m], inertia[m], gravity[m], phase[m], temperature[m], drive[m],
                settings[m], step, work, out[k, a:b],
            )  # fmt: skip
