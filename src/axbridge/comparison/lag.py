"""Baselines for servo models: a perfect servo, and joints that follow with a delay and a first-order lag.

`τ·dy/dt = goal(t - delay) - y`, plus a constant offset. A goal is held until the next one, or a straight line leads to
it from the last goal, for programs that send the end of each motion. The variant with the smaller total error is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.comparison.metrics import Deviation, deviation, resample
from axbridge.errors import RecordingError, UsageError, require
from axbridge.recording.recording import Recording, Track

SAME_GOALS = 1.0  # degrees: with a larger mean difference of the goals, a motion is no repetition
LONGEST = 0.4  # s: largest delay and lag

_STEP = 2e-3  # s: step of the simulation
_BLOCK = 1 << 16  # steps: an hour in one block would take ten times as much memory
_MIN_TRAVEL = math.radians(2.0)  # of the goal: with less, delay and lag cannot be identified
_FIT_SECONDS = 60.0  # delay and lag are fitted to the first part of this length
_GRID = 7  # start values of delay and of lag that are tried


@dataclass(frozen=True)
class Lag:
    """Delay and first-order lag of a joint behind its goals."""

    delay: float  # s
    lag: float  # τ, s
    offset: float  # constant error of the joint at rest, rad
    ramped: bool  # whether straight lines join the goals; else each goal is held


def baselines(recording: Recording) -> dict[str, tuple[Deviation, Deviation]]:
    """Return the baselines of each joint with goals, by name; delays and lags are fitted to this recording."""
    with suppress(RecordingError):
        return {name: baseline(recording[name], lag) for name, lag in lags(recording).items()}
    return {}


def baseline(track: Track, lag: Lag) -> tuple[Deviation, Deviation]:
    """Return the errors of a perfect servo, and of a joint with this delay and lag, on a track with goals."""
    known = track.rows(_known(track))
    late = _Goals(known, ramped=lag.ramped).followed(lag.delay, lag.lag) + lag.offset
    return deviation(known.position, known.command), deviation(known.position, late)


def lags(recording: Recording) -> dict[str, Lag]:
    """Return delay and lag of each joint whose goals move by 2° or more; raise RecordingError if none do."""
    moving = {}
    for name in recording:
        known = _known(track := recording[name])
        if len(known) > 20 and np.ptp(track.command[known]) > _MIN_TRAVEL:
            time = track.time[known]  # only the used part is copied: an hour of all joints needs much memory
            moving[name] = [track.rows(known[: np.searchsorted(time, time[0] + _FIT_SECONDS)])]
    if not moving:
        raise RecordingError(recording.path, "has no goal that moves by 2° or more", "give a recording of a motion")
    return _best(moving)


def lag_of(tracks: Sequence[Track]) -> Lag | None:
    """Return the delay and lag that fit several recordings of a joint best; None if they have no goals."""
    known = [track.rows(rows) for track in tracks if len(rows := _known(track)) > 20]
    return _best({"": known})[""] if known else None


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


def _best(joints: Mapping[str, Sequence[Track]]) -> dict[str, Lag]:
    by_error = {}
    for ramped in (False, True):
        fitted = {name: _fitted(tracks, ramped=ramped) for name, tracks in joints.items()}
        by_error[sum(error for _, error in fitted.values())] = {name: lag for name, (lag, _) in fitted.items()}
    return by_error[min(by_error)]


def _known(track: Track) -> npt.NDArray[np.intp]:
    """Return the rows with a position and a goal while the torque is on."""
    return np.flatnonzero(~np.isnan(track.position) & ~np.isnan(track.command) & track.enabled)


def _fitted(tracks: Sequence[Track], *, ramped: bool) -> tuple[Lag, float]:
    """Return the lag that fits the tracks best, and its mean absolute error, degrees."""
    require("comparing with simpler models", "scipy")
    from scipy.optimize import least_squares

    cut = [track.between(float(track.time[0]), float(track.time[0]) + _FIT_SECONDS / len(tracks)) for track in tracks]
    goals = [_Goals(track, ramped=ramped) for track in cut]
    position = np.concatenate([track.position for track in cut])

    def residuals(point: FloatArray) -> FloatArray:
        error = np.concatenate([goal.followed(float(point[0]), float(point[1])) for goal in goals]) - position
        result: FloatArray = np.degrees(error - np.median(error))
        return result

    places = map(np.array, product(np.linspace(0.0, LONGEST / 2, _GRID), repeat=2))
    begin = min(places, key=lambda point: np.abs(residuals(point)).mean())
    point = least_squares(  # soft_l1: large errors, as of a foot that hits the floor, count linearly
        residuals, np.clip(begin, 1e-4, LONGEST - 1e-4), bounds=(0.0, LONGEST), loss="soft_l1",
        diff_step=[0.02, 0.02], x_scale=0.02, max_nfev=30,
    ).x  # fmt: skip
    error = np.concatenate([goal.followed(*point) for goal in goals]) - position
    offset = float(np.median(error))
    return Lag(float(point[0]), float(point[1]), -offset, ramped), float(np.degrees(np.abs(error - offset).mean()))


class _Goals:
    """A joint's goals as a piecewise linear function of time, and the times at which its position is known."""

    def __init__(self, track: Track, *, ramped: bool) -> None:
        time, sent = track.time - track.time[0], track.sent - track.time[0]
        changed = np.flatnonzero(np.diff(track.command) != 0) + 1
        rest = np.concatenate(([0], changed))
        end = np.maximum(time[np.concatenate((changed - 1, [-1]))], sent[rest]) if ramped else sent[rest]
        begin = sent[rest] - _STEP  # a jump is a line of one step's length
        self._sampled, self._start = time, float(track.position[0])
        self._times = np.maximum.accumulate(np.stack((begin, end), axis=1).ravel())
        goals = track.command[rest]
        self._goals = np.stack((np.concatenate(([self._start], goals[:-1])), goals), axis=1).ravel()

    def followed(self, delay: float, lag: float) -> FloatArray:
        """Return the positions (l,), rad, of a joint that follows with a delay and a lag, s."""
        from scipy.linalg.blas import dtbsv  # scipy.signal takes 27 MB more

        remaining = math.exp(-_STEP / lag) if lag > 1e-4 else 0.0  # share of the distance that remains after a step
        travel, last = np.empty_like(self._sampled), 0.0
        steps = round((LONGEST + self._sampled[-1]) / _STEP) + 2
        for begin in range(0, steps, _BLOCK):
            even = np.arange(begin - 1, min(begin + _BLOCK, steps)) * _STEP - LONGEST
            driven = (1 - remaining) * (np.interp(even[1:] - delay, self._times, self._goals) - self._start)
            driven[0] += remaining * last
            band = np.full((2, len(driven)), -remaining, order="F")  # of y[i] - remaining·y[i - 1] = driven[i]
            moved = dtbsv(1, band, driven, lower=1, diag=1)
            part = slice(*np.searchsorted(self._sampled, even[[0, -1]]))
            travel[part] = np.interp(self._sampled[part], even, np.concatenate(([last], moved)))
            last = moved[-1]
        result: FloatArray = self._start + travel
        return result
