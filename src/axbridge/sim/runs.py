"""Recorded commands of many recordings, as the arrays that `axbridge.sim.rollout` runs a model over."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from axbridge.arrays import BoolArray, FloatArray, IntArray
from axbridge.servo.columns import Passive

FREE = np.zeros(len(Passive))  # a row of `Runs.passive`: nothing acts beside the servo
FREE[[Passive.LOW, Passive.HIGH]] = -np.inf, np.inf
JOINT_MODE = 2.0  # in `Runs.duty`: no duty, the position loop runs
_NONE: FloatArray = np.zeros(0)
_ALL: BoolArray = np.zeros(0, dtype=np.bool_)
_CONSTANT: FloatArray = np.zeros((0, 4))
_WHOLE: IntArray = np.zeros(0, dtype=np.int64)
_BY_SAMPLE = ("time", "sent", "goal", "driven", "speed_limit", "duty", "cap", "position", "velocity", "known", "load")


class Regime(IntEnum):
    """Values of `Runs.driven`: what moves the joint."""

    OFF = 0  # no torque
    ON = 1
    HELD = 2  # held still by whatever, before a part begins
    FOLLOWED = 3  # the motion is taken from the measurement, and goes on from it afterwards


class Runs(NamedTuple):
    """Recorded commands of m recordings, laid end to end; l samples in all. Angles are the servo's own."""

    start: IntArray  # first sample of each, and l: (m + 1,)
    time: FloatArray  # s, (l,)
    sent: FloatArray  # when goal, torque switch, speed limit and duty of a sample went out, s, (l,)
    goal: FloatArray  # rad, (l,)
    driven: IntArray  # `Regime`, (l,)
    speed_limit: FloatArray  # rad/s, 0 = none, (l,)
    duty: FloatArray  # wheel-mode duty, `JOINT_MODE` in joint mode, (l,)
    cap: FloatArray  # largest duty (torque limit), 0..1, (l,)
    position: FloatArray  # measured, rad, (l,); the first of each is where the run starts
    velocity: FloatArray  # measured, rad/s, (l,); what a run starts with, and goes on with after `Regime.FOLLOWED`
    supply: FloatArray  # V, (m,)
    inertia: FloatArray  # of arm and load, kg·m², (m,)
    gravity: FloatArray  # m·g·l, N·m, (m,): load torque `gravity·sin(θ + phase)`
    phase: FloatArray  # rad, (m,)
    # reported by the servo, degC, NaN where not known: then it is the model's ambient one, (m,)
    temperature: FloatArray
    # what acts on the joint beside the servo, (m, len(Passive)): spring, damper, friction, hard stops
    passive: FloatArray
    # what the registers make of the loop, (m, len(Command)); what the columns above say is theirs to say
    settings: FloatArray
    # 1 where nobody wrote down when commands went out, so `sent` is a guess, (m,); empty = known everywhere
    unknown_command_times: FloatArray = _NONE
    # standard deviation of errors of `time` that differ from sample to sample, s, (m,); empty = none
    spread: FloatArray = _NONE
    # whether `position` was measured, (l,); where it was not, `position` is on the line between its neighbours, and
    # nothing is compared with it. Empty = all were
    known: BoolArray = _ALL
    # where it changes under way: inertia, kg·m², and a, b, c of the load torque `a·sin(θ) + b·cos(θ) + c`, N·m, (l,
    # 4), on lines between the samples; in place of `inertia`, `gravity` and `phase`. Empty = it does not
    load: FloatArray = _CONSTANT
    source: IntArray = _WHOLE  # number of the recording that each of these was cut out of, (m,); empty = they are whole

    @property
    def recordings(self) -> int:
        """How many recordings these are."""
        return len(self.start) - 1

    @property
    def judged(self) -> BoolArray:
        """Which samples a model has to account for, (l,): those that were measured and are not `Regime.FOLLOWED`."""
        free: BoolArray = self.driven != Regime.FOLLOWED
        return free & self.known if len(self.known) else free

    @property
    def compared(self) -> FloatArray:
        """How many samples of each recording a model has to account for, (m,)."""
        return np.add.reduceat(self.judged.astype(float), self.start[:-1])

    def errors(self, positions: FloatArray) -> FloatArray:
        """Simulated positions (…, l) minus measured ones, rad; 0 where there is nothing to account for."""
        return np.where(self.judged, positions - self.position, 0.0)

    def means(self, errors: FloatArray) -> FloatArray:
        """Means (…, m) by recording of what `errors` gave (…, l); 0 where there is nothing to account for."""
        return np.add.reduceat(errors, self.start[:-1], axis=-1) / np.maximum(self.compared, 1.0)

    def only(self, chosen: Sequence[int]) -> Runs:
        """The recordings with these indices."""
        parts = [np.arange(self.start[i], self.start[i + 1]) for i in chosen]
        start = np.cumsum([0, *(len(part) for part in parts)])
        return self.cut(start, np.concatenate([np.zeros(0, dtype=np.int64), *parts]), chosen)

    def cut(self, start: IntArray, samples: IntArray, recordings: Sequence[int]) -> Runs:
        """Recordings cut out of these: `samples` of them in their order, and which `recordings` they come from."""
        source = np.array(recordings, dtype=np.int64)
        places = {"start": slice(None), **dict.fromkeys(_BY_SAMPLE, samples)}
        parts = (values[places.get(name, source)] if len(values) else values for name, values in self._asdict().items())
        return Runs(*parts)._replace(start=start.astype(np.int64))
