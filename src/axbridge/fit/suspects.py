"""What is wrong with recordings that a fit does not follow: wrong samples, and one factor more that explains them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.recorded_runs import packed
from axbridge.errors import Remedy, listed
from axbridge.fit.prediction import COARSE, predicted
from axbridge.fit.result import Fit
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
_JUDGED, _NAMED = 4, 3  # recordings that are looked at (the worst), and that are named one by one
_SCALES = 0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.8, 4.0
_PACES = tuple(np.linspace(0.95, 1.05, 41).tolist())
_FACTORS: dict[str, tuple[str, tuple[float, ...], float]] = {  # by column: factors to try, and the least worth a word
    "a mirrored angle: positions grow the other way than goals": ("position", (-1.0,), 0.5),
    "a scaled angle: positions are {:.3g} times what goals are counted in": ("position", _SCALES, 0.03),
    "two clocks: that of the samples runs {:.4g} times as fast as that of the goals": ("time", _PACES, 0.002),
}


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
    remedies = {
        f"positions jump faster than a servo turns: {{}}; blank them, or cut them off ({Remedy('info')})": jumps,
        f"samples are missing: {{}}; look at the cable ({Remedy('doctor')}), and record it again": missing,
    }
    return tuple(text.format(listed(names, _NAMED)) for text, names in remedies.items() if names)


def suspects_of(fit: Fit, recordings: Sequence[Recording]) -> tuple[str, ...]:
    """What the fitted recordings look like: stamps that are off, and what explains that the fit follows them badly."""
    off = [0.0 if run.metadata.get("stamps") else _stamp_error(fit, m) for m, run in enumerate(recordings)]
    doubts, scores = [], fit.scores[: len(off)]
    if late := [f"{run.path.name} ±{1e3 * by:.0f} ms" for run, by in zip(recordings, off, strict=True) if by > STAMPS]:
        doubts.append(
            f"time stamps are off at random, so a fit can hardly follow: {listed(late, _NAMED)} (standard deviation); "
            "write down when each answer came, in milliseconds, from a clock that does not stand still in between"
        )
    if all(score.rmse < DOUBTFUL for score in scores):
        return tuple(doubts)
    worst = np.argsort([-score.rmse for score in scores])[:_JUDGED]
    runs, space = fit.runs.only(sorted(worst.tolist())), fit.space
    # a fit to bad data may have led anywhere, so where it began is a place to begin at, too
    points = np.array([space.point(fit.row), space.point(packed(fit.base, fit.rig))])
    before, _ = _fitted("", (1.0,), 1e-2, space, runs, points)  # what more of a search is worth is no factor's
    tried = [(*_fitted(*factor, space, runs, points), words) for words, factor in _FACTORS.items()]
    least, value, words = min(trial for trial in tried if abs(trial[1] - 1.0) > _FACTORS[trial[2]][2])
    if least < HALVED * before:
        why = f"this looks like {words.format(1 / value)}, which leaves {100 * least / before:.0f} % of the error"
        doubts.append(f"{why}: bring it right: {import_again(recordings[0], _FACTORS[words][0], round(value, 4))}")
    return tuple(doubts)


def _fitted(
    column: str, tried: tuple[float, ...], near: float, space: Space, runs: Runs, points: FloatArray
) -> tuple[float, float]:
    """The least error, degrees, with a column multiplied and the unknowns fitted to that, and the factor of it."""
    from scipy.optimize import least_squares

    def errors(guess: FloatArray) -> FloatArray:
        """Of a factor, and of shares of the ranges, taken as 1 to 2: differences are then as wide for all of them."""
        changed = _changed(runs, column, guess[0])
        off = np.degrees(changed.errors(predicted(space.sets(guess[None, 1:] - 1.0), changed, COARSE))[0])
        off /= abs(guess[0]) if column == "position" else 1.0  # a factor of the angle makes errors as much larger
        return np.where(np.abs(off) < 1e4, off, 1e4)  # also where it left the finite range

    guesses = [np.append(start, np.clip(point, 0.01, 0.99) + 1.0) for start in tried for point in points]
    begin = min(guesses, key=lambda guess: float(np.abs(errors(guess)).mean()))
    low, high, wide = np.ones(len(begin)), np.full(len(begin), 2.0), np.full(len(begin), 0.005)
    reach = 0.6 * begin[0] if len(tried) > 1 else 1e-6
    low[0], high[0], wide[0] = begin[0] - reach, begin[0] + reach, near / 10
    end = least_squares(errors, begin, bounds=(low, high), diff_step=wide, loss="soft_l1", max_nfev=20).x
    return float(np.abs(errors(end)).mean()), float(end[0])


def _changed(runs: Runs, column: str, factor: float) -> Runs:
    """What was measured, with its angles or the times of its clock multiplied."""
    if column != "time":
        return runs._replace(position=factor * runs.position, velocity=factor * runs.velocity)
    position, velocity = runs.position.copy(), runs.velocity.copy()
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        time = runs.time[a] + (runs.time[a:b] - runs.time[a]) * factor
        for values in (position, velocity):
            values[a:b] = np.interp(runs.time[a:b], time, values[a:b])
    return runs._replace(position=position, velocity=velocity)


def import_again(recording: Recording, column: str, factor: float) -> str:
    """The command that imports a log with another factor, as far as the recording knows how it was imported."""
    known = (recording.metadata.get("column_map") or {}).get(column) or {}
    text = f"{column}={known.get('header', 'HEADER')}:{factor * float(known.get('factor', 1.0)):.6g}"
    return Remedy("import", recording.metadata.get("source") or "LOG.csv", "FILE.mcap", column=text)


def _lost(track: Track, poll: float | None) -> float:
    """Share of samples that are not there, or have no position; of samples that are not even, the latter alone."""
    steps, absent = np.diff(track.time), 0.0
    steps = steps[steps < PAUSE]
    if len(steps):
        periods = steps / (poll or np.median(steps))  # stamps of a coarse clock are not even: the poll is
        if poll or np.mean(np.abs(periods - np.round(periods)) < _UNEVEN) > _MOST:
            absent = max(0.0, float(periods.sum()) - len(steps))
    return (absent + float(np.isnan(track.position).sum())) / (absent + len(track))


def _stamp_error(fit: Fit, m: int) -> float:
    """Standard deviation of errors of time stamps, s, by those of samples less their neighbours'; 0 = not known."""
    runs, path = fit.runs.only([m]), fit.simulated[fit.runs.start[m] : fit.runs.start[m + 1]]
    if len(path) < _ENOUGH:
        return 0.0
    speed = np.gradient(path, runs.time)
    apart = np.abs(np.convolve(runs.errors(path), (-0.5, 1.0, -0.5), "valid"))
    quick = (np.abs(speed[1:-1]) > _QUICK) & (np.convolve(runs.judged, np.ones(3), "valid") > 2.5)
    moved = np.sqrt(np.convolve(speed**2, (0.25, 1.0, 0.25), "valid"))
    return 1.4826 * float(np.median(apart[quick] / moved[quick])) if quick.sum() >= _ENOUGH else 0.0
