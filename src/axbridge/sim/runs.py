"""Recorded commands of many recordings, as arrays for `axbridge.sim.rollout`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from axbridge.arrays import BoolArray, FloatArray, IntArray
from axbridge.servo.columns import Passive

FREE = np.zeros(len(Passive))  # a row of `Runs.passive` for a joint without passive elements
FREE[[Passive.LOW, Passive.HIGH]] = -np.inf, np.inf
JOINT_MODE = 2.0  # in `Runs.duty`: no duty, the position loop runs
_NONE: FloatArray = np.zeros(0)
_ALL: BoolArray = np.zeros(0, dtype=np.bool_)
_CONSTANT: FloatArray = np.zeros((0, 4))
_WHOLE: IntArray = np.zeros(0, dtype=np.int64)
_Kind = TypeVar("_Kind", bound=np.generic)
_BY_SAMPLE = ("time", "sent", "goal", "driven", "speed_limit", "duty", "cap", "position", "velocity", "known", "load")


class Regime(IntEnum):
    """Values of `Runs.driven`: the source of the joint's motion."""

    OFF = 0  # no torque
    ON = 1
    HELD = 2  # at rest before a part begins, for example held by hand
    FOLLOWED = 3  # the motion is taken from the measurement; the simulation continues from it afterwards


class Runs(NamedTuple):
    """Recorded commands of m recordings, one behind the other; l samples in all. Angles are on the servo's side."""

    start: IntArray  # first sample of each, and l: (m + 1,)
    time: FloatArray  # s, (l,)
    sent: FloatArray  # time at which a sample's goal, torque enable, speed limit and duty were sent, s, (l,)
    goal: FloatArray  # rad, (l,)
    driven: IntArray  # `Regime`, (l,)
    speed_limit: FloatArray  # rad/s, 0 = none, (l,)
    duty: FloatArray  # wheel-mode duty, `JOINT_MODE` in joint mode, (l,)
    cap: FloatArray  # largest duty (torque limit), 0..1, (l,)
    position: FloatArray  # measured, rad, (l,); a run starts at the first of its recording
    velocity: FloatArray  # measured, rad/s, (l,); used at a run's start and after `Regime.FOLLOWED`
    supply: FloatArray  # V, (m,)
    inertia: FloatArray  # of arm and load, kg·m², (m,)
    gravity: FloatArray  # m·g·l, N·m, (m,): load torque `gravity·sin(θ + phase)`
    phase: FloatArray  # rad, (m,)
    # reported by the servo, degC, (m,); NaN = unknown, then the model's ambient temperature is used
    temperature: FloatArray
    # passive elements of the joint, (m, len(Passive)): spring, damper, friction, hard stops
    passive: FloatArray
    # the loop's settings from the registers, (m, len(Command)); the columns above replace their part of it
    settings: FloatArray
    # 1 = the times of commands were not recorded, so `sent` is an estimate, (m,); empty = all are recorded
    unknown_command_times: FloatArray = _NONE
    # standard deviation of the independent errors of `time`, s, (m,); empty = none
    spread: FloatArray = _NONE
    # whether `position` was measured, (l,); a position that was not is interpolated, and is not compared with the
    # simulation. Empty = all were measured
    known: BoolArray = _ALL
    # a load that changes: inertia, kg·m², and a, b, c of the load torque `a·sin(θ) + b·cos(θ) + c`, N·m, (l, 4),
    # interpolated between the samples; in place of `inertia`, `gravity` and `phase`. Empty = a constant load
    load: FloatArray = _CONSTANT
    source: IntArray = _WHOLE  # number of the recording from which each was cut, (m,); empty = whole recordings

    @property
    def recordings(self) -> int:
        """Return the number of recordings."""
        return len(self.start) - 1

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Return the first sample of each recording, and the one after its last."""
        return list(pairwise(self.start.tolist()))

    @property
    def seconds(self) -> float:
        """Return the length of all recordings, s."""
        return float(np.sum(self.time[self.start[1:] - 1] - self.time[self.start[:-1]]))

    def each(self, values: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
        """Return values of the recordings (m,) for each of their samples, (l,)."""
        return np.repeat(values, np.diff(self.start))

    @property
    def judged(self) -> BoolArray:
        """Return which samples are compared with the model, (l,): measured ones that are not `Regime.FOLLOWED`."""
        free: BoolArray = self.driven != Regime.FOLLOWED
        return free & self.known if len(self.known) else free

    @property
    def compared(self) -> FloatArray:
        """Return the number of compared samples of each recording, (m,)."""
        return np.add.reduceat(self.judged.astype(float), self.start[:-1])

    def errors(self, positions: FloatArray) -> FloatArray:
        """Return simulated positions (…, l) minus measured ones, rad; 0 for samples that are not compared."""
        return np.where(self.judged, positions - self.position, 0.0)

    def means(self, errors: FloatArray) -> FloatArray:
        """Return the means (…, m) by recording of `errors` (…, l); 0 for a recording without compared samples."""
        return np.add.reduceat(errors, self.start[:-1], axis=-1) / np.maximum(self.compared, 1.0)

    def only(self, chosen: Sequence[int]) -> Runs:
        """Return the recordings with these indices."""
        parts = [np.arange(self.start[i], self.start[i + 1]) for i in chosen]
        start = np.cumsum([0, *(len(part) for part in parts)])
        return self.cut(start, np.concatenate([np.zeros(0, dtype=np.int64), *parts]), chosen)

    def cut(self, start: IntArray, samples: IntArray, recordings: Sequence[int]) -> Runs:
        """Return new recordings with this `start` (as in `Runs`), these `samples` of `recordings`, by index."""
        source = np.array(recordings, dtype=np.int64)
        places = {"start": slice(None), **dict.fromkeys(_BY_SAMPLE, samples)}
        parts = (values[places.get(name, source)] if len(values) else values for name, values in self._asdict().items())
        return Runs(*parts)._replace(start=start.astype(np.int64))
