"""Recordings cut into short parts.

A part is simulated from what was measured at its start, so that one slip of a sticking joint costs a second, not the
rest of the recording: the error becomes smooth in the parameters, and every second of the motion counts alike. Longer
parts beside them show where the joint comes to rest after all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray, IntArray
from axbridge.sim.runs import Regime, Runs

LENGTHS = 1.0, 3.0  # s: of parts; a fit looks at both
SHORTEST = 0.15  # s: of a part
AROUND = 4  # samples on either side that a speed is taken from
RESTING = 0.05  # rad/s

Mask = npt.NDArray[np.bool_]


def speeds(runs: Runs) -> FloatArray:
    """Speeds (l,) from the positions: lines through the samples around each; 0 at rest, rad/s.

    A recording's first is the measured one: a line would be that of a little later.
    """
    found = runs.velocity.copy()
    kernel = np.ones(2 * AROUND + 1)
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        time, position = runs.time[a:b] - runs.time[a], runs.position[a:b] - runs.position[a]
        if b - a <= 2 * AROUND:
            continue
        n, t, p, tt, tp = (
            np.convolve(values, kernel, "same")
            for values in (np.ones(b - a), time, position, time * time, time * position)
        )
        found[a + 1 : b] = ((n * tp - t * p) / np.maximum(n * tt - t * t, 1e-12))[1:]
    return np.where(np.abs(found) < RESTING, 0.0, found)


def parts(runs: Runs, lengths: Sequence[float] = LENGTHS) -> Runs | None:
    """The recordings in parts of at most these `lengths` (s), each a run of its own; of each length all the parts.

    What a model does not predict (held, or followed) is left out. None when nothing is left.
    """
    speed = speeds(runs)
    chosen = (runs.driven == Regime.ON) | (runs.driven == Regime.OFF)
    index: list[IntArray] = []
    source: list[int] = []
    for longest in lengths:
        for recording, (a, b) in enumerate(zip(runs.start[:-1], runs.start[1:], strict=True)):
            for first, last in _stretches(chosen[a:b], runs.time[a:b], longest):
                index.append(np.arange(a + first, a + last))
                source.append(recording)
    if not index:
        return None
    order, start = np.concatenate(index), np.cumsum([0, *(len(i) for i in index)])
    return runs._replace(velocity=speed).taken(start, order, source)._replace(source=np.array(source))


def _stretches(chosen: Mask, time: FloatArray, longest: float) -> Iterator[tuple[int, int]]:
    """Where samples are chosen without a gap, cut to `longest` s: first and past-the-last index of each."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.astype(np.int8), [0]))))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        span = time[last - 1] - time[first]
        count = max(1, math.ceil(float(span) / longest))
        cuts = np.searchsorted(time[first:last], time[first] + span * np.arange(count) / count) + first
        for a, b in zip(cuts, [*cuts[1:], last], strict=True):
            if time[b - 1] - time[a] >= SHORTEST:
                yield int(a), int(b)
