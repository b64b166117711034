"""What a model predicts for recordings of which nobody wrote down when their commands went out.

The moment belongs to each recording and to no model, so it is no unknown of the fit: each parameter set gets, for each
such recording, the moment that suits it best (variable projection). One simulation serves them all: it is read every
2 ms, and the samples are laid over it, a little earlier or later.
"""

from __future__ import annotations

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import Runs

REACH = 0.06  # s: how far a moment may be from where the import put it; servos take 17 to 50 ms
_EVERY = 0.002  # s: how often the simulation is read
_COARSE, _FINE = 0.004, 0.001  # s: moments tried
_CAPPED = 0.05  # rad: larger errors count no more in choosing the moment


def predicted(rows: FloatArray, runs: Runs, step: float = 1e-3) -> FloatArray:
    """Positions (k, l), rad, by parameter sets (k, len(Param)): `rollouts`, at the best moment where none is known."""
    if not runs.adrift.any():
        return rollouts(rows, runs, step)
    return _aligned(rows, runs, step)[0]


def shifts(row: FloatArray, runs: Runs) -> FloatArray:
    """By how much (m,) the commands of each recording went out later than it says, s, if a parameter set is right."""
    return _aligned(row[None], runs, 1e-3)[1][0] if runs.adrift.any() else np.zeros(runs.recordings)


def _aligned(rows: FloatArray, runs: Runs, step: float) -> tuple[FloatArray, FloatArray]:
    found, late = np.empty((len(rows), len(runs.time))), np.zeros((len(rows), runs.recordings))
    known, adrift = np.flatnonzero(runs.adrift == 0), np.flatnonzero(runs.adrift)
    if len(known):
        found[:, np.repeat(runs.adrift == 0, np.diff(runs.start))] = rollouts(rows, runs.only(known.tolist()), step)
    judged, dense = runs.judged, _dense(runs.only(adrift.tolist()))
    simulated = rollouts(rows, dense, step)
    for number, m in enumerate(adrift):
        a, b = runs.start[m], runs.start[m + 1]
        path = simulated[:, dense.start[number] : dense.start[number + 1]]
        time = runs.time[a:b] - dense.time[dense.start[number]]
        measured = np.where(judged[a:b], runs.position[a:b], np.nan)
        tried = np.arange(-REACH, REACH + _FINE / 2, _COARSE)
        late[:, m] = tried[np.argmin([_misfit(path, time - later, measured) for later in tried], axis=0)]
        near = np.arange(-_COARSE + _FINE, _COARSE - _FINE / 2, _FINE)
        errors = [_misfit(path, time - (late[:, m] + further)[:, None], measured) for further in near]
        late[:, m] += near[np.argmin(errors, axis=0)]
        found[:, a:b] = _read(path, time - late[:, m][:, None])
    return found, late


def _misfit(path: FloatArray, time: FloatArray, measured: FloatArray) -> FloatArray:
    """Mean squared error (k,) of positions read at `time`, (n,) or (k, n), large ones capped; NaN is not known."""
    result: FloatArray = np.nanmean(np.minimum(np.abs(_read(path, time) - measured), _CAPPED) ** 2, axis=1)
    return result


def _read(path: FloatArray, time: FloatArray) -> FloatArray:
    """Simulated positions (k, n) at times (n,) or (k, n) after the first of the path (k, every 2 ms)."""
    place = np.clip(time / _EVERY, 0, path.shape[1] - 1.001)
    whole = place.astype(int)
    part = place - whole
    if time.ndim == 1:
        below, above = path[:, whole], path[:, whole + 1]
    else:
        below, above = np.take_along_axis(path, whole, 1), np.take_along_axis(path, whole + 1, 1)
    result: FloatArray = below + part * (above - below)
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
