"""The way between key poses: what a joint does between the times at which its position is given.

Three laws. ``linear``: a straight line from knot to knot, as Webots plays motions and as dense samples want it.
``minimum-jerk``: every knot is a rest, and the way between two of them the smoothest. ``cubic``: the joint runs on
through a knot when its direction stays, and rests where it turns, so it never leaves the range of the knots beside
it (Fritsch and Carlson 1980, "Monotone piecewise cubic interpolation", with the harmonic mean of Fritsch and Butland).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import numpy as np

from axbridge.control import minimum_jerk
from axbridge.physics.mechanics import FloatArray

__all__ = ["Law", "Track"]

Law = Literal["linear", "cubic", "minimum-jerk"]


class Track:
    """One joint's way through its knots.

    Args:
        law: How it goes from knot to knot.
        times: Of the knots, (n,), s, rising.
        positions: There, (n,), rad.
    """

    def __init__(self, law: Law, times: Sequence[float], positions: Sequence[float]) -> None:
        self.law, self.times, self.positions = law, list(times), list(positions)
        self._slopes = _slopes(np.array(times), np.array(positions)).tolist() if law == "cubic" else []

    def at(self, time: float) -> float:
        """Position at `time`, s, rad; held before the first knot and after the last."""
        place = bisect_right(self.times, time)
        if place == 0:
            return self.positions[0]
        if place == len(self.times):
            return self.positions[-1]
        begin, duration = self.times[place - 1], self.times[place] - self.times[place - 1]
        start, end = self.positions[place - 1 : place + 1]
        share = (time - begin) / duration
        if self.law == "linear":
            return start + (end - start) * share
        if self.law == "minimum-jerk":
            return start + (end - start) * minimum_jerk.way(share)
        out, into = self._slopes[place - 1 : place + 1]
        rest = 1 - share
        return float(
            start * rest * rest * (1 + 2 * share)
            + end * share * share * (3 - 2 * share)
            + duration * share * rest * (out * rest - into * share)
        )

    def peak_speeds(self) -> FloatArray:
        """Highest speed between each two knots, (n - 1,), rad/s."""
        mean: FloatArray = np.diff(self.positions) / np.diff(self.times)
        if self.law == "linear":
            return np.abs(mean)
        if self.law == "minimum-jerk":
            return np.abs(mean) * minimum_jerk.PEAK
        slopes = np.array(self._slopes)
        out, into = slopes[:-1], slopes[1:]
        # The speed is a parabola in the share s of the time: out + 2 a s + 3 b s²; its top is at s = -a / 3b.
        a, b = 3 * mean - 2 * out - into, out + into - 2 * mean
        curved = np.abs(b) > 1e-12
        top = np.clip(np.divide(-a, 3 * b, out=np.zeros_like(a), where=curved), 0.0, 1.0)
        found = np.abs(out + 2 * a * top + 3 * b * top * top)
        peaks: FloatArray = np.maximum(found, np.maximum(np.abs(out), np.abs(into)))
        return peaks


def _slopes(times: FloatArray, positions: FloatArray) -> FloatArray:
    """Speed of the cubic law at each knot, (n,); 0 at both ends and where the direction changes."""
    slopes = np.zeros(len(times))
    if len(times) < 3:
        return slopes
    durations = np.diff(times)
    mean = np.diff(positions) / durations
    before, after = mean[:-1], mean[1:]
    weight_before = durations[:-1] + 2 * durations[1:]
    weight_after = 2 * durations[:-1] + durations[1:]
    on = before * after > 0
    through = np.zeros(len(before))
    through[on] = (weight_before[on] + weight_after[on]) / (
        weight_before[on] / before[on] + weight_after[on] / after[on]
    )
    slopes[1:-1] = through
    return slopes
