"""What a model has to beat: a perfect servo, and joints that follow with a delay and a first-order lag.

`τ·dy/dt = goal(t - delay) - y`, plus what the joint is off at rest. A goal is held until the next one, or it lies on a
line from the one before, as where programs send where a motion shall end: what all joints together follow better.
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

SAME_GOALS = 1.0  # degrees: a motion whose goals differ by more on average is no repeat
LONGEST = 0.4  # s: of delay and lag

_STEP = 2e-3  # s: of the simulation
_AT_ONCE = 1 << 16  # steps: an hour in one piece would take ten times as much memory
_STILL = math.radians(2.0)  # a goal that moves less tells nothing
_ENOUGH = 60.0  # s of a motion that delay and lag are found from
_GRID = 7


@dataclass(frozen=True)
class Lag:
    """How a joint follows its goals."""

    delay: float  # s
    lag: float  # τ, s
    offset: float  # how far the joint is off at rest, rad
    ramped: bool  # whether goals are taken to lie on lines from one to the next


def baselines(recording: Recording) -> dict[str, tuple[Deviation, Deviation]]:
    """The baselines of each joint that had goals, with delays and lags as suit this recording."""
    with suppress(RecordingError):
        return {name: baseline(recording[name], lag) for name, lag in lags(recording).items()}
    return {}


def baseline(track: Track, lag: Lag) -> tuple[Deviation, Deviation]:
    """How far off a perfect servo, and a joint with this delay and lag, are over a track with goals."""
    known = track.rows(_known(track))
    late = _Goals(known, ramped=lag.ramped).followed(lag.delay, lag.lag) + lag.offset
    return deviation(known.position, known.command), deviation(known.position, late)


def lags(recording: Recording) -> dict[str, Lag]:
    """Delay and lag of each joint of a recording whose goals move by 2° or more."""
    moving = {}
    for name in recording:
        known = _known(track := recording[name])
        if len(known) > 20 and np.ptp(track.command[known]) > _STILL:
            time = track.time[known]  # the rest is not copied: an hour of all joints is much
            moving[name] = [track.rows(known[: np.searchsorted(time, time[0] + _ENOUGH)])]
    if not moving:
        raise RecordingError(recording.path, "has no goal that moves by 2° or more", "give a recording of a motion")
    return _best(moving)


def lag_of(tracks: Sequence[Track]) -> Lag | None:
    """The one delay and lag that suit several recordings of a joint; None where they tell it no goals."""
    known = [track.rows(rows) for track in tracks if len(rows := _known(track)) > 20]
    return _best({"": known})[""] if known else None


def apart(track: Track, repeat: Recording) -> tuple[float, float]:
    """Mean differences of goals and of positions, degrees, to the same joint, or the only one, of another recording.

    Both begin with their first samples. Infinite where goals are not known.
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
    """Refuse a recording whose joints did not all get the goals that they got in another, at the same times."""
    others = [apart(track, repeat)[0] for track in recording.values() if track.name in repeat]
    if not max(others, default=math.inf) < SAME_GOALS:
        why = f"{repeat.path} is no repeat of {recording.path}"
        raise UsageError(why, "give one with the same goals at the same times")


def _best(joints: Mapping[str, Sequence[Track]]) -> dict[str, Lag]:
    found = {}
    for ramped in (False, True):
        fitted = {name: _fitted(tracks, ramped=ramped) for name, tracks in joints.items()}
        found[sum(error for _, error in fitted.values())] = {name: lag for name, (lag, _) in fitted.items()}
    return found[min(found)]


def _known(track: Track) -> npt.NDArray[np.intp]:
    """Rows with a position and with a goal in force, while the torque is on."""
    return np.flatnonzero(~np.isnan(track.position) & ~np.isnan(track.command) & track.enabled)


def _fitted(tracks: Sequence[Track], *, ramped: bool) -> tuple[Lag, float]:
    """The lag that suits tracks best, and its mean absolute error, degrees."""
    require("comparing with simpler models", "scipy")
    from scipy.optimize import least_squares

    cut = [track.between(float(track.time[0]), float(track.time[0]) + _ENOUGH / len(tracks)) for track in tracks]
    goals = [_Goals(track, ramped=ramped) for track in cut]
    position = np.concatenate([track.position for track in cut])

    def residuals(point: FloatArray) -> FloatArray:
        error = np.concatenate([one.followed(float(point[0]), float(point[1])) for one in goals]) - position
        result: FloatArray = np.degrees(error - np.median(error))
        return result

    places = map(np.array, product(np.linspace(0.0, LONGEST / 2, _GRID), repeat=2))
    begin = min(places, key=lambda point: np.abs(residuals(point)).mean())
    point = least_squares(  # large errors, as of a foot that hits the floor, count linearly
        residuals, np.clip(begin, 1e-4, LONGEST - 1e-4), bounds=(0.0, LONGEST), loss="soft_l1",
        diff_step=[0.02, 0.02], x_scale=0.02, max_nfev=30,
    ).x  # fmt: skip
    error = np.concatenate([one.followed(*point) for one in goals]) - position
    offset = float(np.median(error))
    return Lag(float(point[0]), float(point[1]), -offset, ramped), float(np.degrees(np.abs(error - offset).mean()))


class _Goals:
    """A joint's goals as lines from one to the next, and the times at which its position is known."""

    def __init__(self, track: Track, *, ramped: bool) -> None:
        time, sent = track.time - track.time[0], track.sent - track.time[0]
        changed = np.flatnonzero(np.diff(track.command) != 0) + 1
        rest = np.concatenate(([0], changed))
        there = np.maximum(time[np.concatenate((changed - 1, [-1]))], sent[rest]) if ramped else sent[rest]
        begin = sent[rest] - _STEP  # a jump is a line, too
        self._wanted, self._start = time, float(track.position[0])
        self._times = np.maximum.accumulate(np.stack((begin, there), axis=1).ravel())
        goals = track.command[rest]
        self._goals = np.stack((np.concatenate(([self._start], goals[:-1])), goals), axis=1).ravel()

    def followed(self, delay: float, lag: float) -> FloatArray:
        """Positions (l,) of a joint that follows with a delay and a lag, s."""
        from scipy.linalg.blas import dtbsv  # scipy.signal takes 27 MB more

        kept = math.exp(-_STEP / lag) if lag > 1e-4 else 0.0  # of the way that is left, in a step
        way, last = np.empty_like(self._wanted), 0.0
        steps = round((LONGEST + self._wanted[-1]) / _STEP) + 2
        for begin in range(0, steps, _AT_ONCE):
            even = np.arange(begin - 1, min(begin + _AT_ONCE, steps)) * _STEP - LONGEST
            asked = (1 - kept) * (np.interp(even[1:] - delay, self._times, self._goals) - self._start)
            asked[0] += kept * last
            came = dtbsv(1, np.full((2, len(asked)), -kept, order="F"), asked, lower=1, diag=1)  # y[i] - kept·y[i - 1]
            part = slice(*np.searchsorted(self._wanted, even[[0, -1]]))
            way[part] = np.interp(self._wanted[part], even, np.concatenate(([last], came)))
            last = came[-1]
        result: FloatArray = self._start + way
        return result
