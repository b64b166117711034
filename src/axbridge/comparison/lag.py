"""Baselines for servo models: a perfect servo, and joints that follow with a delay and a first-order lag.

`τ·dy/dt = goal(t - delay) - y`, plus a constant offset; a goal is held until the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.comparison.metrics import Deviation, deviation, resample
from axbridge.errors import UsageError, require
from axbridge.recording.recording import Recording, Track

SAME_GOALS = 1.0  # degrees: with a larger mean difference of the goals, a motion is no repetition
LONGEST = 0.4  # s: largest delay and lag

_STEP = 2e-3  # s: step of the simulation
_BLOCK = 1 << 16  # steps: an hour in one block would take ten times as much memory
_MIN_TRAVEL = math.radians(2.0)  # of the goal: with less, delay and lag cannot be identified
_MIN_SAMPLES = 20
_FIT_SECONDS = 60.0  # delay and lag are fitted to the first part of this length
_GRID = 7  # start values of delay and of lag that are tried


class Lag(NamedTuple):
    """Delay and first-order lag of a joint behind its goals."""

    delay: float  # s
    lag: float  # τ, s
    offset: float  # constant error of the joint at rest, rad


def baselines(recording: Recording) -> dict[str, tuple[Deviation, Deviation]]:
    """Return the baselines of each joint whose goals move by 2° or more, with its own lag."""
    errors = {}
    for name in recording:
        track = recording[name]
        goals = track.command[_known(track)]
        lag = lag_of([track]) if len(goals) and np.ptp(goals) > _MIN_TRAVEL else None
        if lag is not None:
            errors[name] = baseline(track, lag)
    return errors


def baseline(track: Track, lag: Lag) -> tuple[Deviation, Deviation]:
    """Return the errors of a perfect servo, and of a joint with this delay and lag, on a track with goals."""
    known = track.rows(_known(track))
    late = _followed(known, lag.delay, lag.lag) + lag.offset
    return deviation(known.position, known.command), deviation(known.position, late)


def lag_of(tracks: Sequence[Track]) -> Lag | None:
    """Return the delay and lag that fit several recordings of a joint best; None if they have no goals."""
    require("comparing with simpler models", "scipy")
    from scipy.optimize import least_squares

    cut = []
    for track in tracks:
        rows = _known(track)
        if len(rows) > _MIN_SAMPLES:
            time = track.time[rows]
            cut.append(track.rows(rows[: np.searchsorted(time, time[0] + _FIT_SECONDS / len(tracks))]))
    if not cut:
        return None

    def errors(point: FloatArray) -> FloatArray:
        return np.concatenate([_followed(track, *point.tolist()) - track.position for track in cut])

    def residuals(point: FloatArray) -> FloatArray:
        result: FloatArray = np.degrees((error := errors(point)) - np.median(error))
        return result

    places = map(np.array, product(np.linspace(0.0, LONGEST / 2, _GRID), repeat=2))
    begin = min(places, key=lambda point: np.abs(residuals(point)).mean())
    point = least_squares(  # soft_l1: large errors, as of a foot that hits the floor, count linearly
        residuals, np.clip(begin, 1e-4, LONGEST - 1e-4), bounds=(0.0, LONGEST), loss="soft_l1",
        diff_step=[0.02, 0.02], x_scale=0.02, max_nfev=30,
    ).x  # fmt: skip
    delay, lag = point.tolist()
    return Lag(delay, lag, -float(np.median(errors(point))))


def _known(track: Track) -> npt.NDArray[np.intp]:
    """Return the rows with a position and a goal while the torque is on."""
    return np.flatnonzero(~np.isnan(track.position) & ~np.isnan(track.command) & track.enabled)


def _followed(track: Track, delay: float, lag: float) -> FloatArray:
    """Return the positions (l,), rad, of a joint that follows a track's goals late, s."""
    from scipy.linalg.blas import dtbsv  # scipy.signal takes 27 MB more

    time, start = track.time - track.time[0], track.position[0]
    changed = np.concatenate(([0], np.flatnonzero(np.diff(track.command)) + 1))
    sent, goals = track.sent[changed] - track.time[0], track.command[changed] - start
    edges = np.maximum.accumulate(np.stack((sent - _STEP, sent), axis=1).ravel())  # a jump takes a step
    levels = np.stack((np.concatenate(([0.0], goals[:-1])), goals), axis=1).ravel()
    remaining = math.exp(-_STEP / lag) if lag > 1e-4 else 0.0  # share of the distance after a step
    travel, last = np.empty_like(time), 0.0
    steps = round((LONGEST + time[-1]) / _STEP) + 2
    for begin in range(0, steps, _BLOCK):
        even = np.arange(begin - 1, min(begin + _BLOCK, steps)) * _STEP - LONGEST
        driven = (1 - remaining) * np.interp(even[1:] - delay, edges, levels)
        driven[0] += remaining * last
        band = np.full((2, len(driven)), -remaining, order="F")  # of y[i] - remaining·y[i - 1] = driven[i]
        moved = dtbsv(1, band, driven, lower=1, diag=1)
        part = slice(*np.searchsorted(time, even[[0, -1]]))
        travel[part] = np.interp(time[part], even, np.concatenate(([last], moved)))
        last = moved[-1]
    result: FloatArray = start + travel
    return result


def apart(track: Track, repeat: Recording) -> tuple[float, float]:
    """Return the mean differences of goals and positions, degrees, to the same (or the only) joint of `repeat`.

    Both are aligned at their first samples. The first is infinite when goals are unknown.
    """
    other = repeat.get(track.name, next(iter(repeat.values())) if len(repeat) == 1 else None)
    if other is None or np.isnan(track.command).all() or np.isnan(other.command).all():
        return math.inf, math.nan
    late = track.time[0] - other.time[0]
    kept = track.time <= other.time[-1] + late
    goals, positions = (
        np.degrees(np.nanmean(np.abs(resample(other.time + late, theirs, track.time, beyond=None)[kept] - ours[kept])))
        for theirs, ours in ((other.command, track.command), (other.position, track.position))
    )
    return float(goals), float(positions)


def check_repeat(recording: Recording, repeat: Recording) -> None:
    """Raise UsageError unless the joints of both recordings had the same goals at the same times."""
    others = [apart(track, repeat)[0] for track in recording.values() if track.name in repeat]
    if not max(others, default=math.inf) < SAME_GOALS:
        why = f"{repeat.path} is no repeat of {recording.path}"
        raise UsageError(why, "give one with the same goals at the same times")
