"""Predict recordings, whole or in parts, with a model, and weigh the errors.

*Command times.* Some recordings lack the times at which commands were sent. For them, each parameter set gets the delay
that fits best (variable projection): one simulation is sampled every 2 ms, and compared at several delays.

*Rounding.* A servo at rest reports the same count repeatedly, with an error of up to half a count. These readings are
one independent sample, not a hundred. Of rounding's variance count²/12, the share exp(-(2π·noise/count)²) is common to
all readings of one place (first harmonic of the bias over the place within a count). The rest is independent.

*Parts* are simulated from the measured state at their start. So one wrong slip of a sticking joint affects a second,
not the rest of the recording. Longer parts, used in addition, show where the joint finally comes to rest.
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

FINE, COARSE = 1e-3, 2e-3  # s: simulation steps; the servo's loop runs every millisecond, searches use the coarse one
HUBER = 1.0  # degrees: larger errors count linearly
REACH = 0.06  # s: largest difference of a command's time from the imported one; servos have delays of 17 to 50 ms
_EVERY = 0.002  # s: sample period of the simulation
_COARSE, _FINE = 0.004, 0.001  # s: resolutions of the delays
LENGTHS = 1.0, 3.0  # s: lengths of parts; a fit uses both
SHORTEST = 0.15  # s: shortest part
AROUND = 4  # samples on either side from which a speed is computed
RESTING = 0.05  # rad/s: lower speeds count as rest
_MAX_ERROR = 0.05  # rad: errors are clipped to this for the choice of the delay


def predicted(rows: FloatArray, runs: Runs, step: float = FINE) -> FloatArray:
    """Return positions (k, l), rad, by parameter sets (k, len(Param)); unknown command times get the best delay."""
    if not runs.unknown_command_times.any():
        return rollouts(rows, runs, step)
    positions = np.empty((len(rows), len(runs.time)))
    known, unknown = np.flatnonzero(runs.unknown_command_times == 0), np.flatnonzero(runs.unknown_command_times)
    if len(known):
        positions[:, runs.each(runs.unknown_command_times == 0)] = rollouts(rows, runs.only(known.tolist()), step)
    judged, dense = runs.judged, _dense(runs.only(unknown.tolist()))
    simulated = rollouts(rows, dense, step)
    for number, m in enumerate(unknown):
        (a, b), path = runs.spans[m], simulated[:, slice(*dense.spans[number])]
        time = runs.time[None, a:b] - dense.time[dense.start[number]]
        measured = np.where(judged[a:b], runs.position[a:b], np.nan)
        delays = np.arange(-REACH, REACH + _FINE / 2, _COARSE)
        delay = delays[np.argmin([_misfit(path, time - later, measured) for later in delays], axis=0)]
        refinements = np.arange(-_COARSE + _FINE, _COARSE - _FINE / 2, _FINE)
        errors = [_misfit(path, time - (delay + further)[:, None], measured) for further in refinements]
        delay += refinements[np.argmin(errors, axis=0)]
        positions[:, a:b] = _read(path, time - delay[:, None])
    return positions


def _misfit(path: FloatArray, time: FloatArray, measured: FloatArray) -> FloatArray:
    """Return the mean squared error (k,), clipped, of positions at `time` (1 or k, n); NaN in `measured` is unknown."""
    result: FloatArray = np.nanmean(np.minimum(np.abs(_read(path, time) - measured), _MAX_ERROR) ** 2, axis=1)
    return result


def _read(path: FloatArray, time: FloatArray) -> FloatArray:
    """Return simulated positions (k, n) at times (1 or k, n), s from the start of the path (k, a row every 2 ms)."""
    place = np.clip(time / _EVERY, 0, path.shape[1] - 1.001)
    whole, each = place.astype(int), np.arange(len(path))[:, None]
    below, above = path[each, whole], path[each, whole + 1]
    result: FloatArray = below + (place - whole) * (above - below)
    return result


def _dense(runs: Runs) -> Runs:
    """Return runs of the same commands, from rest, sampled every 2 ms, and longer by `REACH` at both ends."""
    times, index, start = [], [], [0]
    for a, b in runs.spans:
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


FADED = 0.05  # below this autocorrelation, errors are independent
_PLACE = 1.5  # counts: closer readings are of one place
_ROUNDED = 0.01  # counts: positions this close to whole counts are rounded ones


def scatter(noise: FloatArray | float, count: float) -> FloatArray | float:
    """Return the independent variance of a reading, rad²: of the noise (standard deviation, rad) and of rounding."""
    return noise**2 + count**2 / 12 * (1 - np.exp(-((2 * math.pi * noise / count) ** 2)))


def shared(space: Space, runs: Runs) -> tuple[FloatArray, IntArray]:
    """Return the standard deviation (l,), rad, of rounding errors that readings share, and a number (l,) of each place.

    A joint that returns to a count, or to the mirrored count on the other side of 0, probably has the same error again.
    """
    counts = runs.position / float(space.base[Param.COUNT])
    number: IntArray = np.unique(np.abs(np.round(counts)), return_inverse=True)[1]
    return _common(space, runs) * np.sign(counts), number


def weights(space: Space, runs: Runs) -> FloatArray:
    """Return the weights of errors, (l,), less for readings of one place; their squares sum to 1 for each recording."""
    count, common = float(space.base[Param.COUNT]), _common(space, runs)
    place = np.empty(len(runs.position), dtype=np.int64)
    _places(runs.position, runs.start, _PLACE * count, place)
    new = scatter(float(space.base[Param.NOISE]), count) if common else 1.0
    if common and runs.spread.any():  # an error of the time times the speed is an error of the position
        new = new + (speeds(runs) * runs.each(runs.spread)) ** 2
    shares = np.where(~runs.judged, 0.0, 1 / (new + np.bincount(place)[place] * common**2))
    sums = np.maximum(np.add.reduceat(shares, runs.start[:-1]), 1e-300)
    result: FloatArray = np.sqrt(shares / runs.each(sums))
    return result


def _common(space: Space, runs: Runs) -> float:
    """Return the standard deviation of the rounding error common to readings of one place, rad; 0 without rounding."""
    count, noise = float(space.base[Param.COUNT]), float(space.base[Param.NOISE])
    counts = runs.position / count
    if np.mean(np.abs(counts - np.round(counts)) < _ROUNDED) < 0.9:  # a part's first sample may be a mean
        return 0.0
    return count / math.sqrt(12) * math.exp(-((2 * math.pi * noise / count) ** 2) / 2)


@jit
def _places(position: FloatArray, start: IntArray, reach: float, number: IntArray) -> None:
    """Write the number of each reading's place: a reading beyond `reach` of a place's first starts a new place."""
    place = -1
    for m in range(start.shape[0] - 1):
        first = math.inf
        for k in range(start[m], start[m + 1]):
            if not abs(position[k] - first) < reach:
                place += 1
                first = position[k]
            number[k] = place


def independent(runs: Runs, simulated: FloatArray) -> float:
    """Return the effective number of independent samples: their number over the errors' correlation time."""
    parts = np.split(runs.errors(simulated), runs.start[1:-1])
    power = max(sum(float(part @ part) for part in parts), 1e-12)
    correlation = 1.0
    for lag in range(1, max(len(part) for part in parts)):
        autocorrelation = sum(float(part[lag:] @ part[:-lag]) for part in parts) / power
        if autocorrelation < FADED:
            break
        correlation += 2.0 * autocorrelation
    lengths = len(LENGTHS) if len(runs.source) else 1  # parts contain each sample once for each length
    return max(float(runs.compared.sum()) / correlation / lengths, 2.0)


def speeds(runs: Runs) -> FloatArray:
    """Return speeds (l,), rad/s, from lines through the positions around each sample; 0 at rest.

    A recording's first speed is the measured one: a line would give a later speed.
    """
    speed = runs.velocity.copy()
    kernel = np.ones(2 * AROUND + 1)
    for a, b in runs.spans:
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
    """Return the recordings cut into parts of at most each of these `lengths` (s), as runs.

    Samples that a model does not predict (held, or followed) are left out. None when no part remains.
    """
    speed = speeds(runs)
    chosen = (runs.driven == Regime.ON) | (runs.driven == Regime.OFF)
    index: list[IntArray] = []
    source: list[int] = []
    for longest in lengths:
        for recording, (a, b) in enumerate(runs.spans):
            for first, last in _stretches(chosen[a:b], runs.time[a:b], longest):
                index.append(np.arange(a + first, a + last))
                source.append(recording)
    if not index:
        return None
    order, start = np.concatenate(index), np.cumsum([0, *(len(i) for i in index)])
    return runs._replace(velocity=speed).cut(start, order, source)._replace(source=np.array(source))


def _stretches(chosen: BoolArray, time: FloatArray, longest: float) -> Iterator[tuple[int, int]]:
    """Yield first and past-the-last index of stretches of chosen samples, cut to at most `longest` s."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.astype(np.int8), [0]))))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        span = time[last - 1] - time[first]
        count = max(1, math.ceil(float(span) / longest))
        cuts = np.searchsorted(time[first:last], time[first] + span * np.arange(count) / count) + first
        for a, b in zip(cuts, [*cuts[1:], last], strict=True):
            if time[b - 1] - time[a] >= SHORTEST:
                yield int(a), int(b)
