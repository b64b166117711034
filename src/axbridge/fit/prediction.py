"""What a model predicts of recordings, whole or in parts, and what each error counts.

*Moments.* Of some recordings nobody wrote down when their commands went out. Each parameter set gets, for each such
recording, the moment that suits it best (variable projection): one simulation is read every 2 ms, and the samples are
laid over it, a little earlier or later.

*Rounding.* A servo that rests gives one count over and over, up to half a count from where it is; that is one witness,
not a hundred. Of the variance count²/12 that rounding adds, the share exp(-(2π·noise/count)²) is common to all
readings of one place (first harmonic of the bias over the place within a count), the rest is new in each.

*Parts* are simulated from what was measured at their start, so that one slip of a sticking joint costs a second, not
the rest of the recording. Longer parts beside them show where the joint comes to rest after all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from axbridge.arrays import BoolArray, FloatArray, IntArray
from axbridge.fit.unknowns import Space
from axbridge.jit import jit
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import Regime, Runs

FINE, COARSE = 1e-3, 2e-3  # s: the servo's own loop runs every millisecond; searches make do with two
HUBER = 1.0  # degrees: errors beyond it count linearly
REACH = 0.06  # s: how far a moment may be from where the import put it; servos take 17 to 50 ms
_EVERY = 0.002  # s: how often the simulation is read
_COARSE, _FINE = 0.004, 0.001  # s: moments tried
LENGTHS = 1.0, 3.0  # s: of parts; a fit looks at both
SHORTEST = 0.15  # s: of a part
AROUND = 4  # samples on either side that a speed is taken from
RESTING = 0.05  # rad/s
_CAPPED = 0.05  # rad: larger errors count no more in choosing the moment


def predicted(rows: FloatArray, runs: Runs, step: float = FINE) -> FloatArray:
    """Positions (k, l), rad, by parameter sets (k, len(Param)): `rollouts`, at the best moment where none is known."""
    if not runs.unknown_command_times.any():
        return rollouts(rows, runs, step)
    positions = np.empty((len(rows), len(runs.time)))
    known, unknown = np.flatnonzero(runs.unknown_command_times == 0), np.flatnonzero(runs.unknown_command_times)
    if len(known):
        positions[:, np.repeat(runs.unknown_command_times == 0, np.diff(runs.start))] = rollouts(
            rows, runs.only(known.tolist()), step
        )
    judged, dense = runs.judged, _dense(runs.only(unknown.tolist()))
    simulated = rollouts(rows, dense, step)
    for number, m in enumerate(unknown):
        a, b = runs.start[m], runs.start[m + 1]
        path = simulated[:, dense.start[number] : dense.start[number + 1]]
        time = runs.time[None, a:b] - dense.time[dense.start[number]]
        measured = np.where(judged[a:b], runs.position[a:b], np.nan)
        tried = np.arange(-REACH, REACH + _FINE / 2, _COARSE)
        late = tried[np.argmin([_misfit(path, time - later, measured) for later in tried], axis=0)]
        near = np.arange(-_COARSE + _FINE, _COARSE - _FINE / 2, _FINE)
        errors = [_misfit(path, time - (late + further)[:, None], measured) for further in near]
        late += near[np.argmin(errors, axis=0)]
        positions[:, a:b] = _read(path, time - late[:, None])
    return positions


def _misfit(path: FloatArray, time: FloatArray, measured: FloatArray) -> FloatArray:
    """Mean squared error (k,) of positions read at `time`, (1 or k, n), large ones capped; NaN is not known."""
    result: FloatArray = np.nanmean(np.minimum(np.abs(_read(path, time) - measured), _CAPPED) ** 2, axis=1)
    return result


def _read(path: FloatArray, time: FloatArray) -> FloatArray:
    """Simulated positions (k, n) at times (1 or k, n) after the first of the path (k, every 2 ms)."""
    place = np.clip(time / _EVERY, 0, path.shape[1] - 1.001)
    whole, each = place.astype(int), np.arange(len(path))[:, None]
    below, above = path[each, whole], path[each, whole + 1]
    result: FloatArray = below + (place - whole) * (above - below)
    return result


def _dense(runs: Runs) -> Runs:
    """The same commands, from rest, sampled every 2 ms, with as much before and after as the moments may move."""
    times, index, start = [], [], [0]
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        time = np.arange(runs.time[a] - REACH, runs.time[b - 1] + REACH + 2 * _EVERY, _EVERY)
        times.append(time)
        index.append(a + np.clip(np.searchsorted(runs.sent[a:b], time, side="right") - 1, 0, b - a - 1))
        start.append(start[-1] + len(time))
    order, time = np.concatenate(index), np.concatenate(times)
    names = ("goal", "driven", "speed_limit", "duty", "cap", "position")
    sent = np.minimum(runs.sent[order], time)
    return runs._replace(
        start=np.array(start, dtype=np.int64),
        time=time,
        sent=sent,
        velocity=np.zeros(len(time)),
        known=runs.known[:0],
        load=runs.load[order] if len(runs.load) else runs.load,
        **{name: getattr(runs, name)[order] for name in names},
    )


FADED = 0.05  # samples correlate less than that where an error is over
_SAME = 1.5  # counts: readings no further apart are of one place
_OFF = 0.01  # counts: positions so close to whole ones were rounded to them


def scatter(noise: FloatArray | float, count: float) -> FloatArray | float:
    """Variance that is new in each reading, rad²: of the noise (standard deviation, rad), and of rounding the rest."""
    return noise**2 + count**2 / 12 * (1 - np.exp(-((2 * math.pi * noise / count) ** 2)))


def shared(space: Space, runs: Runs) -> tuple[FloatArray, IntArray]:
    """Standard deviation (l,) that rounding gives to readings in common, rad, and the number (l,) of what they share.

    A joint that comes back to a count, or to the one on the other side of where it hangs, likely errs as it did before.
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
    result: FloatArray = np.sqrt(shares / np.repeat(sums, np.diff(runs.start)))
    return result


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


def independent(runs: Runs, simulated: FloatArray) -> float:
    """How many samples would tell as much if no error lasted: their number over the errors' correlation time."""
    parts = np.split(runs.errors(simulated), runs.start[1:-1])
    power = max(sum(float(part @ part) for part in parts), 1e-12)
    lasts = 1.0
    for lag in range(1, max(len(part) for part in parts)):
        alike = sum(float(part[lag:] @ part[:-lag]) for part in parts) / power
        if alike < FADED:
            break
        lasts += 2.0 * alike
    lengths = len(LENGTHS) if len(runs.source) else 1  # of parts, each of which has all samples
    return max(float(runs.compared.sum()) / lasts / lengths, 2.0)


def speeds(runs: Runs) -> FloatArray:
    """Speeds (l,) from the positions: lines through the samples around each; 0 at rest, rad/s.

    A recording's first is the measured one: a line would be that of a little later.
    """
    speed = runs.velocity.copy()
    kernel = np.ones(2 * AROUND + 1)
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        time, position = runs.time[a:b] - runs.time[a], runs.position[a:b] - runs.position[a]
        if b - a <= 2 * AROUND:
            continue
        n, t, p, tt, tp = (
            np.convolve(values, kernel, "same")
            for values in (np.ones(b - a), time, position, time * time, time * position)
        )
        speed[a + 1 : b] = ((n * tp - t * p) / np.maximum(n * tt - t * t, 1e-12))[1:]
    return np.where(np.abs(speed) < RESTING, 0.0, speed)


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
    return runs._replace(velocity=speed).cut(start, order, source)._replace(source=np.array(source))


def _stretches(chosen: BoolArray, time: FloatArray, longest: float) -> Iterator[tuple[int, int]]:
    """Where samples are chosen without a gap, cut to `longest` s: first and past-the-last index of each."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.astype(np.int8), [0]))))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        span = time[last - 1] - time[first]
        count = max(1, math.ceil(float(span) / longest))
        cuts = np.searchsorted(time[first:last], time[first] + span * np.arange(count) / count) + first
        for a, b in zip(cuts, [*cuts[1:], last], strict=True):
            if time[b - 1] - time[a] >= SHORTEST:
                yield int(a), int(b)
