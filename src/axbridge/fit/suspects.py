"""What is wrong with recordings that a fit does not follow: wrong samples, and one unknown more that explains them.

An angle that is mirrored or has another scale, and a clock that runs at another pace than the commands': each is one
factor more. Where a model follows its recordings badly, each of them is tried with the model's unknowns fitted again.
What leaves less than `HALVED` of the error is named, with the command that imports the log right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.recorded_runs import packed
from axbridge.fit.residuals import COARSE, predicted
from axbridge.fit.result import Fit
from axbridge.fit.search import losses
from axbridge.fit.unknowns import Space
from axbridge.recording.recording import Recording, Track
from axbridge.recording.sample_quality import PAUSE
from axbridge.sim.runs import Runs

DOUBTFUL = 1.5  # degrees: RMSE of a recording from which on the factors are tried
HALVED = 0.5  # of the mean absolute error that a factor may leave at most
MISSED = 0.1  # share of samples that are not there
_UNEVEN, _MOST = 0.25, 0.9  # periods that a sample of an even row may be off, and share of those that are not more
STAMPS = 3e-3  # s: standard deviation of time stamps; polls and replies make about one
_QUICK, _ENOUGH = 1.0, 40  # rad/s from which a wrong stamp makes a larger error than a count does, and samples as quick
_ROUNDS = 20  # of the fits with a factor
_HOPELESS = 5.0  # times the error of the other point to begin at
_ASTRAY = 1e4  # degrees: what a simulation counts that left the finite range
_JUDGED, _NAMED = 4, 3  # recordings that are looked at (the worst), and that are named one by one


class _Factor(NamedTuple):
    """Something that is a factor off: what it looks like, factors to try, and the least one, off 1, worth a word."""

    column: str
    words: Callable[[float], str]
    changed: Callable[[Runs, float], Runs]
    tried: tuple[float, ...]
    near: float


def sampling(recordings: Sequence[Recording]) -> tuple[str, ...]:
    """Jumps and missing samples of recordings, in words; nothing of those that are as they should be."""
    jumps, missing = [], []
    for recording in recordings:
        track, *_ = recording.values()
        facts, lost = track.facts(), _lost(track, (recording.metadata.get("stamps") or {}).get("poll_s"))
        if facts.jumps:
            jumps.append(f"{recording.path.name} {facts.jumps} (first at {facts.first_jump_at:.3f} s)")
        if lost > MISSED:
            missing.append(f"{recording.path.name} {100 * lost:.0f} %")
    blank = "leave these samples blank, or cut them off (axbridge info)"
    remedies = (
        (jumps, "positions jump faster than a servo turns", blank),
        (missing, "samples are missing", "look at the cable (axbridge doctor), and record it again"),
    )
    return tuple(f"{what}: {_listed(found)}; {remedy}" for found, what, remedy in remedies if found)


def looks_like(fit: Fit, recordings: Sequence[Recording]) -> tuple[str, ...]:
    """What the fitted recordings look like: stamps that are off, and what explains that the fit follows them badly."""
    off = [(one.path.name, _stamp_error(fit, m)) for m, one in enumerate(recordings) if not one.metadata.get("stamps")]
    late = _listed([f"{name} ±{1e3 * spread:.0f} ms" for name, spread in off if spread > STAMPS])
    found, scores = [_STAMPED.format(late)] if late else [], fit.scores[: len(recordings)]
    if all(score.rmse < DOUBTFUL for score in scores):
        return tuple(found)
    worst = np.argsort([-score.rmse for score in scores])[:_JUDGED]
    runs, space = fit.runs.only(sorted(worst.tolist())), fit.space
    # a fit to bad data may have led anywhere, so where it began is a place to begin at, too
    points = np.array([space.point(fit.row), space.point(packed(fit.base, fit.rig))])
    _, before = _fitted(_NONE, space, runs, points)  # a search may end early: what more of it is worth is no factor's
    tried = [(factor, *_fitted(factor, space, runs, points)) for factor in _FACTORS]
    factor, value, least = min(
        (one for one in tried if abs(one[1] - 1.0) > one[0].near), key=lambda one: one[2], default=(_NONE, 1.0, before)
    )
    if least < HALVED * before:
        share = f"which leaves {100 * least / before:.0f} % of the error"
        remedy = import_again(recordings[0], factor.column, round(value, 4))
        found.append(f"this looks like {factor.words(value)}, {share}: bring it right: {remedy}")
    return tuple(found)


def _fitted(factor: _Factor, space: Space, runs: Runs, points: FloatArray) -> tuple[float, float]:
    """The factor that leaves the least error with the unknowns fitted to it, and that error, degrees."""
    from scipy.optimize import least_squares

    def shrunk(value: float) -> float:  # a factor of the angle makes errors as much smaller
        return abs(value) if factor.column == "position" else 1.0

    def errors(value: float, several: FloatArray) -> FloatArray:
        result: FloatArray = losses(space, factor.changed(runs, value), several, step=COARSE).mean(axis=1)
        return result / shrunk(value)

    def residuals(guess: FloatArray) -> FloatArray:
        changed = factor.changed(runs, float(guess[0]))
        found: FloatArray = np.degrees(changed.errors(predicted(space.sets(guess[None, 1:] - 1.0), changed, COARSE))[0])
        result: FloatArray = np.nan_to_num(found / shrunk(float(guess[0])), nan=_ASTRAY)
        return np.clip(result, -_ASTRAY, _ASTRAY)

    table = np.array([errors(value, points) for value in factor.tried])
    best = (1.0, math.inf)
    for point, column in zip(points, table.T, strict=True):
        if column.min() > _HOPELESS * table.min():
            continue
        value = factor.tried[int(np.argmin(column))]
        # shares of the ranges are taken as 1 to 2: differences are then as wide for all of them
        begin = np.concatenate(([value], np.clip(point, 0.01, 0.99) + 1.0))
        reach = 0.6 * abs(value) if len(factor.tried) > 1 else 1e-6
        low, high = (np.array([value + side * reach, *np.full(len(point), end)]) for side, end in ((-1, 1.0), (1, 2.0)))
        wide = np.array([factor.near / 10, *np.full(len(point), 0.005)])
        fitted = least_squares(residuals, begin, bounds=(low, high), diff_step=wide, loss="soft_l1", max_nfev=_ROUNDS)
        value = float(fitted.x[0])
        best = min(best, (value, float(errors(value, fitted.x[None, 1:] - 1.0)[0])), key=lambda one: one[1])
    return best


def _lost(track: Track, poll: float | None) -> float:
    """Share of samples that are not there, or have no position; of samples that are not even, the latter alone.

    Stamps of a coarse clock are not even: what is known of them is how often the servo was asked (`poll`, s).
    """
    steps, absent = np.diff(track.time), 0.0
    steps = steps[steps < PAUSE]
    if len(steps):
        periods = steps / (poll or np.median(steps))
        if poll or np.mean(np.abs(periods - np.round(periods)) < _UNEVEN) > _MOST:
            absent = max(0.0, float(periods.sum()) - len(steps))
    return (absent + float(np.isnan(track.position).sum())) / (absent + len(track))


def _stamp_error(fit: Fit, m: int) -> float:
    """Standard deviation of the error of time stamps, s, that shows from sample to sample; 0 = not known.

    The error of a sample less the mean of its neighbours' has none of what the model gets wrong for longer.
    """
    a, b = fit.runs.start[m], fit.runs.start[m + 1]
    time, error = fit.runs.time[a:b], fit.runs.errors(fit.simulated)[a:b]
    judged = fit.runs.judged[a:b]
    if len(time) < _ENOUGH:
        return 0.0
    speed = np.gradient(fit.simulated[a:b], time)
    apart = error[1:-1] - (error[:-2] + error[2:]) / 2
    moved = np.sqrt(speed[1:-1] ** 2 + (speed[:-2] ** 2 + speed[2:] ** 2) / 4)
    quick = (np.abs(speed[1:-1]) > _QUICK) & judged[1:-1] & judged[:-2] & judged[2:]
    if quick.sum() < _ENOUGH:
        return 0.0
    return 1.4826 * float(np.median(np.abs(apart[quick]) / moved[quick]))


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more


def _turned(runs: Runs, factor: float) -> Runs:
    return runs._replace(position=factor * runs.position, velocity=factor * runs.velocity)


def _paced(runs: Runs, factor: float) -> Runs:
    """What was measured, if its clock runs at `factor` of the pace of the commands' clock."""
    position, velocity = runs.position.copy(), runs.velocity.copy()
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        begin = runs.time[a]
        seen = begin + (runs.time[a:b] - begin) * factor
        position[a:b] = np.interp(runs.time[a:b], seen, runs.position[a:b])
        velocity[a:b] = np.interp(runs.time[a:b], seen, runs.velocity[a:b])
    return runs._replace(position=position, velocity=velocity)


def import_again(recording: Recording, column: str, factor: float) -> str:
    """The command that imports a log with another factor, as far as the recording knows how it was imported."""
    known: dict[str, Any] = (recording.metadata.get("column_map") or {}).get(column) or {}
    text = f"{column}={known.get('header', 'HEADER')}:{factor * float(known.get('factor', 1.0)):.6g}"
    return f"axbridge import {recording.metadata.get('source') or 'LOG.csv'} FILE.mcap --column {text}"


_STAMPED = (
    "time stamps are off at random, so a fit can hardly follow: {} (standard deviation); write down when each answer "
    "came, in milliseconds, from a clock that does not stand still in between"
)
_SCALES = 0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.8, 4.0
_NONE = _Factor("", lambda _value: "", lambda runs, _value: runs, (1.0,), 1.0)
_FACTORS = (
    _Factor(
        "position", lambda _value: "a mirrored angle: positions grow the other way than goals", _turned, (-1.0,), 0.5
    ),
    _Factor(
        "position",
        lambda value: f"a scaled angle: positions are {1 / value:.3g} times what goals are counted in",
        _turned,
        _SCALES,
        0.03,
    ),
    _Factor(
        "time",
        lambda value: (
            f"two clocks: that of the samples runs {100 * abs(1 / value - 1):.1f} % "
            f"{'fast' if value < 1 else 'slow'} beside that of the goals"
        ),
        _paced,
        tuple(np.round(np.linspace(0.95, 1.05, 41), 5).tolist()),
        0.002,
    ),
)
