"""The way between key poses: what a joint does between the times at which its position is given.

Four laws; all but ``ramps`` stay in the range between two neighbouring knots.

* ``linear``: a straight line, as Webots plays motions and as dense samples want it.
* ``minimum-jerk``: every knot is a rest, and the way between two of them the smoothest.
* ``cubic``: the joint runs on through a knot when its direction stays, and rests where it turns (Fritsch and Carlson
  1980, "Monotone piecewise cubic interpolation", with the harmonic mean of Fritsch and Butland 1984).
* ``ramps``: the speed changes evenly for a given time, then it stays; the joint runs on through a knot at full speed
  when its direction stays, and slows down before one where it turns or rests. This is how ROBOTIS' player of the
  ROBOTIS-OP plays the same kind of pages (`Action.cpp` of its framework: pre, main and post section). Where a slow way
  follows a fast one, the joint goes too far, and comes back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import numpy as np

from axbridge import minimum_jerk
from axbridge.arrays import FloatArray

Law = Literal["linear", "minimum-jerk", "cubic", "ramps"]


class JointPath:
    """One joint's way through its knots.

    Args:
        law: How it goes from knot to knot.
        times: Of the knots, (n,), s, rising.
        positions: There, (n,), rad.
        ramps: ``ramps`` alone: how long the speed changes in each interval, (n - 1,) or one for all, s; at most half of
            the interval.
    """

    def __init__(
        self, law: Law, times: Sequence[float], positions: Sequence[float], ramps: Sequence[float] | float = 0.0
    ) -> None:
        self.law, self.times, self.positions = law, list(times), list(positions)
        durations = np.diff(times)
        self._ramps = np.minimum(np.broadcast_to(ramps, durations.shape), durations / 2).tolist()
        self._slopes = [0.0] * len(self.times)
        if law == "ramps":
            self._slopes = _passed(durations.tolist(), np.diff(positions).tolist(), self._ramps)
        elif law == "cubic":
            self._slopes = _slopes(np.array(times), np.array(positions)).tolist()

    def at(self, time: float) -> float:
        """Position at `time`, s, rad; held before the first knot and after the last."""
        place = bisect_right(self.times, time)
        if place == 0:
            return self.positions[0]
        if place == len(self.times):
            return self.positions[-1]
        begin, duration = self.times[place - 1], self.times[place] - self.times[place - 1]
        start, end = self.positions[place - 1 : place + 1]
        out, into = self._slopes[place - 1 : place + 1]
        if self.law == "ramps":
            return start + _ramped(end - start, duration, self._ramps[place - 1], out, into, time - begin)
        share = (time - begin) / duration
        if self.law == "cubic":
            rest = 1 - share
            lean = share * rest * (out * rest - into * share)
            return start + (end - start) * (share * share * (3 - 2 * share)) + duration * lean
        return start + (end - start) * (share if self.law == "linear" else minimum_jerk.way(share))

    def peak_speeds(self) -> FloatArray:
        """Highest speed between each two knots, (n - 1,), rad/s."""
        mean: FloatArray = np.diff(self.positions) / np.diff(self.times)
        if self.law in _PEAKS:
            return np.abs(mean) * _PEAKS[self.law]
        out, into = np.array(self._slopes[:-1]), np.array(self._slopes[1:])
        if self.law == "ramps":
            durations = np.diff(self.times)
            ways = zip(mean * durations, durations, self._ramps, out, into, strict=True)
            return np.array([max(abs(way[3]), abs(_steady(*way))) for way in ways])
        # The speed is a parabola in the share s of the time: out + 2 a s + 3 b s²; its top is at s = -a / 3b.
        a, b = 3 * mean - 2 * out - into, out + into - 2 * mean
        curved = np.abs(b) > 1e-12
        top = np.clip(np.divide(-a, 3 * b, out=np.zeros_like(a), where=curved), 0.0, 1.0)
        found = np.abs(out + 2 * a * top + 3 * b * top * top)
        peaks: FloatArray = np.maximum(found, np.maximum(np.abs(out), np.abs(into)))
        return peaks


_PEAKS: dict[Law, float] = {"linear": 1.0, "minimum-jerk": minimum_jerk.PEAK}


def _steady(distance: float, duration: float, ramp: float, out: float, into: float) -> float:
    """The speed between the ramps, rad/s: it ends there, or goes on where the joint runs through the knot (`into`)."""
    return (distance - out * ramp / 2) / (duration - (ramp / 2 if into else ramp))


def _passed(durations: list[float], distances: list[float], ramps: list[float]) -> list[float]:
    """Speed at each knot, (n,), rad/s: each interval begins with the speed that the one before ended with."""
    speeds = [0.0]
    for number, (duration, distance, ramp) in enumerate(zip(durations, distances, ramps, strict=True)):
        on = number + 1 < len(distances) and distance * distances[number + 1] > 0
        speeds.append(_steady(distance, duration, ramp, speeds[-1], 1.0) if on else 0.0)
    return speeds


def _ramped(distance: float, duration: float, ramp: float, out: float, into: float, passed: float) -> float:
    """The way made in a time `passed`, s, of an interval that begins at speed `out`, rad/s."""
    steady = _steady(distance, duration, ramp, out, into)
    first, last = min(passed, ramp), max(0.0, passed - (duration - ramp))
    way = out * first + steady * (passed - first)
    if ramp:
        way += (steady - out) * first**2 / (2 * ramp)
        way -= 0.0 if into else steady * last**2 / (2 * ramp)
    return way


def _slopes(times: FloatArray, positions: FloatArray) -> FloatArray:
    """Speed of a cubic at each knot, (n,), rad/s; 0 at both ends and where the direction changes."""
    slopes = np.zeros(len(times))
    durations = np.diff(times)
    mean = np.diff(positions) / durations
    before, after = mean[:-1], mean[1:]
    weight_before = durations[:-1] + 2 * durations[1:]
    weight_after = 2 * durations[:-1] + durations[1:]
    on = before * after > 1e-18  # not 0 alone: the mean below divides by both
    slopes[1:-1][on] = (weight_before[on] + weight_after[on]) / (
        weight_before[on] / before[on] + weight_after[on] / after[on]
    )
    return slopes
