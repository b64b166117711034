"""When samples were taken whose stamps come from a coarse clock: Dynamixel Wizard writes down its last step of 16 ms.

The polls are even, but for one that is late or skipped now and then, and each lies in its stamp's step. A chain of
hidden times, 1 ms apart within each step, is followed forwards and backwards; its mean is the time of a sample, but
for a few milliseconds common to all. At 60 rpm the stamps alone are off by 1.7 degrees of position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from axbridge.arrays import FloatArray

GRID = 0.016  # s: the clock's step
POLL = 0.020  # s: how often it asks
JITTER = 1.5e-3  # s: what is left, as steady motions of seven recordings show it (0.5 to 1.6 ms)
SLACK = 0.002  # s: stamps lie so close to the grid, because they are rounded to milliseconds twice
MOST = 0.9  # share of the stamps that lie on the grid if there is one
_WIDTH = 0.7e-3  # s: how even the polls are, with what whole milliseconds make of them
_SKIPS = _LATE = 0.05  # share of polls that are skipped, or late by anything
_LONG = 0.2  # s: which is at most about this
_EVEN = -0.8  # mean logarithm of a step's likelihood: seven recordings have -0.5 to -0.7, uneven polls below -0.9
_WITHIN = np.arange(0.5e-3, GRID, 1e-3)  # s: where in its step a sample may be


@dataclass(frozen=True)
class Stamps:
    """What is known of the stamps of a recording."""

    time: FloatArray  # when the samples were taken, s, (n,); strictly increasing
    poll: float  # seconds between two of them; NaN = not even, then `time` is the middle of each stamp's step
    spread: float  # standard deviation of what is left of the error of `time`, s


def on_grid(time: FloatArray) -> bool:
    """Whether stamps (n,), s, lie on a grid of `GRID`."""
    return len(time) >= 10 and bool(np.mean(np.abs(time - GRID * np.round(time / GRID)) <= SLACK) >= MOST)


def restored(time: FloatArray) -> Stamps:
    """When samples were taken whose stamps (n,), s, strictly increasing, lie on the grid."""
    steps = GRID * np.round(time / GRID)
    chains = [_chain(gap) for gap in np.diff(steps)]
    ahead, evidence = [np.full(len(_WITHIN), 1 / len(_WITHIN))], 0.0
    for chain in chains:
        reached = ahead[-1] @ chain
        evidence += math.log(reached.sum())
        ahead.append(reached / reached.sum())
    if evidence < _EVEN * max(1, len(chains)):
        return Stamps(_rising(steps + GRID / 2), math.nan, GRID / math.sqrt(12.0))
    behind, within = np.ones(len(_WITHIN)), np.empty(len(time))
    for k in range(len(time) - 1, -1, -1):
        share = ahead[k] * behind
        within[k] = share @ _WITHIN / share.sum()
        if k:
            behind = chains[k - 1] @ behind
            behind /= behind.sum()
    return Stamps(_rising(steps + within), POLL, JITTER)


def _chain(gap: float) -> FloatArray:
    """How likely each place in a step follows each place in the one `gap` seconds before, (n, n)."""
    apart = gap + _WITHIN[None] - _WITHIN[:, None]
    even, skipped = (
        np.exp(-0.5 * ((apart - polls * POLL) / _WIDTH) ** 2) / (_WIDTH * math.sqrt(2 * math.pi)) for polls in (1, 2)
    )
    late = np.where(apart > POLL / 4, 1 / _LONG, 1e-9)
    found: FloatArray = ((1 - _SKIPS - _LATE) * even + _SKIPS * skipped + _LATE * late) * (_WITHIN[1] - _WITHIN[0])
    return found


def _rising(time: FloatArray) -> FloatArray:
    """The same where it rises; where it does not, a millisecond on."""
    apart = 1e-3 * np.arange(len(time))
    rising: FloatArray = np.maximum.accumulate(time - apart) + apart
    return rising
