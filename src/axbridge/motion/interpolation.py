"""The way between key poses: what a joint does between the times at which its position is given.

Three laws; all but ``ramps`` stay in the range between two neighbouring knots.

* ``linear``: a straight line, as Webots plays motions and as dense samples want it.
* ``minimum-jerk``: every knot is a rest, and the way between two of them the smoothest.
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

Law = Literal["linear", "minimum-jerk", "ramps"]


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
        self._speeds: list[float] = []  # at the knots, of ``ramps`` alone
        if law == "ramps":
            self._speeds = _passed(durations.tolist(), np.diff(positions).tolist(), self._ramps)

    def at(self, time: float) -> float:
        """Position at `time`, s, rad; held before the first knot and after the last."""
        place = bisect_right(self.times, time)
        if place == 0:
            return self.positions[0]
        if place == len(self.times):
            return self.positions[-1]
        begin, duration = self.times[place - 1], self.times[place] - self.times[place - 1]
        start, end = self.positions[place - 1 : place + 1]
        if self.law == "ramps":
            out, into = self._speeds[place - 1 : place + 1]
            return start + _ramped(end - start, duration, self._ramps[place - 1], out, into, time - begin)
        share = (time - begin) / duration
        return start + (end - start) * (share if self.law == "linear" else minimum_jerk.way(share))

    def peak_speeds(self) -> FloatArray:
        """Highest speed between each two knots, (n - 1,), rad/s."""
        durations = np.diff(self.times)
        mean: FloatArray = np.diff(self.positions) / durations
        if self.law != "ramps":
            return np.abs(mean) * (1.0 if self.law == "linear" else minimum_jerk.PEAK)
        ways = zip(mean * durations, durations, self._ramps, self._speeds[:-1], self._speeds[1:], strict=True)
        return np.array([max(abs(way[3]), abs(_steady(*way))) for way in ways])


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
