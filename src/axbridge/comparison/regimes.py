"""Where two motions of a servo differ: the worst seconds, and how far off they are in each regime of the motion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.metrics import resample
from axbridge.comparison.side_by_side import Motions
from axbridge.recording.recording import Track

_SECONDS = 9  # of the worst that are named
_FIRST = 0.1  # s after a goal
_STILL = 0.2  # s for which the goal stood before
_TURN = 0.05  # s on either side of a reversal
_SLOW, _FAST = 0.05, 0.8  # shares of the servo's highest speed: it stands, it goes as fast as it does
_MOVES = 0.2  # rad/s: a servo that is never faster has no top speed and no reversals
_LOADED = 0.05  # of its largest duty


class Stretch(NamedTuple):
    """A second or a segment of a servo's motion."""

    servo: str  # its name
    start: float  # s, on the comparison's clock
    end: float  # likewise
    rmse: float  # degrees
    name: str = ""  # of the segment; empty of a second


class RegimeError(NamedTuple):
    """How far off all servos are in one regime."""

    regime: str  # which
    seconds: float  # of all servos
    rmse: float  # degrees
    worst: float  # largest error, degrees
    servo: str  # whose that is
    at: float  # when, s on the comparison's clock


def worst_seconds(comparison: Comparison) -> list[Stretch]:
    """The seconds with the largest errors of all servos, the worst first."""
    found: list[Stretch] = []
    for pair in comparison.pairs:
        motions = pair.motions
        squares = np.degrees(motions.other - motions.reference) ** 2
        known = ~np.isnan(squares)
        number = np.floor(motions.time[known]).astype(int)
        first = int(number.min())
        counts = np.bincount(number - first)
        sums = np.bincount(number - first, squares[known])
        found += [
            Stretch(pair.name, float(first + k), float(first + k + 1), math.sqrt(sums[k] / counts[k]))
            for k in np.flatnonzero(counts).tolist()
        ]
    return sorted(found, key=lambda second: -second.rmse)[:_SECONDS]


def worst_segments(comparison: Comparison) -> list[Stretch]:
    """The segments with the largest errors of all servos, the worst first; none where there is but one."""
    found = [
        Stretch(pair.name, part.start, part.end, part.deviation.rmse, part.name)
        for pair in comparison.pairs
        for part in pair.parts
        if part.deviation.samples
    ]
    several = len({part.start for part in found}) > 1
    return sorted(found, key=lambda part: -part.rmse)[:_SECONDS] if several else []


def errors_by_regime(comparison: Comparison) -> list[RegimeError]:
    """The errors of all servos in each regime that occurs; a moment may be of several."""
    parts: dict[str, list[tuple[str, FloatArray, FloatArray, float]]] = {}
    for pair in comparison.pairs:
        motions = pair.motions
        if len(motions.time) < 3:
            continue
        error = np.degrees(motions.other - motions.reference)
        period = float(np.median(np.diff(motions.time)))
        for regime, inside in _regimes(comparison.reference[pair.name], motions).items():
            chosen = inside & ~np.isnan(error)
            if chosen.any():
                parts.setdefault(regime, []).append((pair.name, motions.time[chosen], error[chosen], period))
    return [_error(regime, found) for regime, found in parts.items()]


def _error(regime: str, parts: Iterable[tuple[str, FloatArray, FloatArray, float]]) -> RegimeError:
    errors = np.concatenate([error for _, _, error, _ in parts])
    servo, time, error, _ = max(parts, key=lambda part: float(np.abs(part[2]).max()))
    worst = int(np.argmax(np.abs(error)))
    seconds = sum(len(error) * period for _, _, error, period in parts)
    return RegimeError(
        regime, seconds, math.sqrt(float(np.mean(errors**2))), abs(float(error[worst])), servo, float(time[worst])
    )


def _regimes(track: Track, motions: Motions) -> Mapping[str, BoolArray]:
    """Which of the times (n,) belong to which regime of the reference's motion."""
    time, at = motions.time, motions.reference_time
    known = ~np.isnan(motions.reference)
    if known.sum() < 3:
        return {}
    speed = np.interp(time, time[known], np.gradient(motions.reference[known], time[known]))
    fastest = float(np.abs(speed).max())
    index = np.clip(np.searchsorted(track.time, at, side="right") - 1, 0, len(track) - 1)
    driven, goal = track.enabled[index], motions.command
    changed = np.flatnonzero(~np.isclose(goal[1:], goal[:-1], rtol=0, atol=1e-4) & ~np.isnan(goal[1:])) + 1
    fresh = changed[np.diff(time[changed], prepend=-math.inf) > _STILL]
    released = np.flatnonzero(driven[:-1] & ~driven[1:]) + 1
    found = {
        f"first {1e3 * _FIRST:.0f} ms after a goal": driven & _near(time, time[fresh], 0.0, _FIRST),
        "release": ~driven & _near(time, time[released], 0.0, math.inf),
    }
    if fastest > _MOVES:
        moving = np.flatnonzero(np.abs(speed) > _SLOW * fastest)
        turned = moving[1:][np.sign(speed[moving[1:]]) != np.sign(speed[moving[:-1]])]
        found |= {
            "reversal": driven & _near(time, time[turned], _TURN, _TURN),
            "top speed": driven & (np.abs(speed) > _FAST * fastest),
        }
    load = resample(track.time, track.load, at)
    found["hold under load"] = driven & (np.abs(speed) < max(_SLOW * fastest, 0.02)) & (np.abs(load) > _LOADED)
    return found


def _near(time: FloatArray, moments: FloatArray, before: float, after: float) -> BoolArray:
    """Which times (n,) are so many seconds before or after one of these moments (m,), both ascending."""
    first = np.searchsorted(moments, time - after, side="left")
    near: BoolArray = np.searchsorted(moments, time + before, side="right") > first
    return near
