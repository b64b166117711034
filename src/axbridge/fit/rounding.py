"""What whole counts do to readings: at rest, the same error a hundred times.

A servo that rests gives one count over and over, up to half a count from where it is. Least squares takes that for a
hundred witnesses; it is one. With more noise before the rounding, readings of neighbouring counts mix, and their mean
comes close to the truth. Of the variance count²/12 that rounding adds, the share exp(-(2π·noise/count)²) is common to
all readings of one place (first harmonic of the bias over the place within a count), the rest is new in each.
"""

from __future__ import annotations

import math

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.fit.stages import speeds
from axbridge.fit.unknowns import Space
from axbridge.jit import jit
from axbridge.servo.columns import Param
from axbridge.sim.runs import Runs

_SAME = 1.5  # counts: readings no further apart are of one place
_OFF = 0.01  # counts: positions so close to whole ones were rounded to them


def scatter(noise: FloatArray | float, count: float) -> FloatArray | float:
    """Variance that is new in each reading, rad²: of the noise (standard deviation, rad), and of rounding the rest."""
    return noise**2 + count**2 / 12 * (1 - np.exp(-((2 * math.pi * noise / count) ** 2)))


def shared(space: Space, runs: Runs) -> tuple[FloatArray, IntArray]:
    """Standard deviation (l,) that rounding gives to readings in common, rad, and the number (l,) of what they share.

    A joint that comes back to a count, or to the one on the other side of where it hangs, likely errs as it did before.
    The deviations are 0 where nothing was rounded.
    """
    counts = runs.position / float(space.base[Param.COUNT])
    number: IntArray = np.unique(np.abs(np.round(counts)), return_inverse=True)[1]
    return _common(space, runs) * np.sign(counts), number


def weights(space: Space, runs: Runs) -> FloatArray:
    """What each error counts, (l,), readings of one place by what is new in them; squares add up to 1 a recording."""
    count, common = float(space.base[Param.COUNT]), _common(space, runs)
    place = np.empty(len(runs.position), dtype=np.int64)
    _places(runs.position, runs.start, _SAME * count, place)
    new = scatter(float(space.base[Param.NOISE]), count) if common else 1.0
    if common and runs.spread.any():  # an error of the time is one of the position, where the joint turns
        new = new + (speeds(runs) * np.repeat(runs.spread, np.diff(runs.start))) ** 2
    shares = np.where(~runs.judged, 0.0, 1 / (new + np.bincount(place)[place] * common**2))
    sums = np.maximum(np.add.reduceat(shares, runs.start[:-1]), 1e-300)
    found: FloatArray = np.sqrt(shares / np.repeat(sums, np.diff(runs.start)))
    return found


def _common(space: Space, runs: Runs) -> float:
    """Standard deviation that rounding gives to all readings of one place alike, rad; 0 where nothing was rounded."""
    count, noise = float(space.base[Param.COUNT]), float(space.base[Param.NOISE])
    counts = runs.position / count
    if np.mean(np.abs(counts - np.round(counts)) < _OFF) < 0.9:  # a part's first sample may be a mean of several
        return 0.0
    return count / math.sqrt(12) * math.exp(-((2 * math.pi * noise / count) ** 2) / 2)


@jit
def _places(position: FloatArray, start: IntArray, reach: float, number: IntArray) -> None:
    """Number readings in a row: the same for those within `reach` of the first."""
    place = -1
    for m in range(start.shape[0] - 1):
        first = math.inf
        for k in range(start[m], start[m + 1]):
            if not abs(position[k] - first) < reach:
                place += 1
                first = position[k]
            number[k] = place
