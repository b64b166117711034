"""Find errors in recordings that a fit does not follow: wrong samples, or a wrong factor of angles or times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.recorded_runs import packed
from axbridge.errors import Remedy, listed
from axbridge.fit.prediction import COARSE, predicted
from axbridge.fit.result import Fit
from axbridge.fit.unknowns import Space
from axbridge.recording.imported import Column
from axbridge.recording.recording import Recording, Track
from axbridge.recording.sample_quality import PAUSE
from axbridge.sim.runs import Runs

DOUBTFUL = 1.5  # degrees: from this RMSE of a recording on, factors are tried
HALVED = 0.5  # largest remaining share of the mean absolute error for a factor to be reported
MISSED = 0.1  # from this share of missing samples on, they are reported
_EVEN, _EVEN_SHARE = 0.25, 0.9  # largest error of an even sample, in periods; least share of even samples
STAMPS = 3e-3  # s: largest normal standard deviation of time stamps; polls and replies cause about 1 ms
_QUICK, _MIN_QUICK = 1.0, 40  # rad/s: above it stamp errors exceed rounding; least number of such samples
_JUDGED, _NAMED = 4, 3  # worst recordings that are examined; recordings that are named one by one
_SCALES = 0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.8, 4.0
_PACES = tuple(np.linspace(0.95, 1.05, 41).tolist())
_FACTORS: dict[str, tuple[str, tuple[float, ...], float]] = {  # column, factors to try, least difference reported
    "a mirrored angle: positions grow the other way than goals": ("position", (-1.0,), 0.5),
    "a scaled angle: positions are {:.3g} times what goals are counted in": ("position", _SCALES, 0.03),
    "two clocks: that of the samples runs {:.4g} times as fast as that of the goals": ("time", _PACES, 0.002),
}


def sampling(recordings: Sequence[Recording]) -> tuple[str, ...]:
    """Return warnings about jumps and missing samples of recordings."""
    jumps, missing = [], []
    for recording in recordings:
        track, *_ = recording.values()
        facts, missing_share = track.facts(), _lost(track, (recording.metadata.get("stamps") or {}).get("poll_s"))
        if facts.jumps:
            jumps.append(f"{recording.path.name} {facts.jumps} (first at {facts.first_jump_at:.3f} s)")
        if missing_share > MISSED:
            missing.append(f"{recording.path.name} {100 * missing_share:.0f} %")
    remedies = {
        "positions jump faster than a servo turns: {}; leave them blank, or cut them off": jumps,
        f"samples are missing: {{}}; look at the cable ({Remedy('doctor')}), and record it again": missing,
    }
    return tuple(text.format(listed(names, _NAMED)) for text, names in remedies.items() if names)


def suspects_of(fit: Fit, recordings: Sequence[Recording]) -> tuple[str, ...]:
    """Return warnings about wrong time stamps, and about a factor that explains large errors of the fit."""
    errors = [0.0 if run.metadata.get("stamps") else _stamp_error(fit, m) for m, run in enumerate(recordings)]
    doubts, scores = [], fit.scores[: len(errors)]
    if late := [f"{run.path.name} ±{1e3 * e:.0f} ms" for run, e in zip(recordings, errors, strict=True) if e > STAMPS]:
        doubts.append(
            f"time stamps are off at random, so a fit can hardly follow: {listed(late, _NAMED)} (standard deviation); "
            "record the time of each reply in milliseconds, from a clock that runs evenly"
        )
    if all(score.rmse < DOUBTFUL for score in scores):
        return tuple(doubts)
    worst = np.argsort([-score.rmse for score in scores])[:_JUDGED]
    runs, space = fit.runs.only(sorted(worst.tolist())), fit.space
    # a fit to wrong data may end anywhere, so its start is tried as a start, too
    points = np.array([space.point(fit.row), space.point(packed(fit.base, fit.rig))])
    before, _ = _fitted("", (1.0,), 1e-2, space, runs, points)  # the gain from fitting again is not due to a factor
    trials = [(*_fitted(*factor, space, runs, points), words) for words, factor in _FACTORS.items()]
    least, value, words = min(trial for trial in trials if abs(trial[1] - 1.0) > _FACTORS[trial[2]][2])
    if least < HALVED * before:
        why = f"this looks like {words.format(1 / value)}, which leaves {100 * least / before:.0f} % of the error"
        doubts.append(f"{why}; to correct it: {import_again(recordings[0], _FACTORS[words][0], round(value, 4))}")
    return tuple(doubts)


def _fitted(
    column: str, starts: tuple[float, ...], near: float, space: Space, runs: Runs, points: FloatArray
) -> tuple[float, float]:
    """Return the least error, degrees, with a column multiplied and the unknowns fitted again, and the factor."""
    from scipy.optimize import least_squares

    def errors(guess: FloatArray) -> FloatArray:
        """Return the errors for a factor and a point plus 1: so `diff_step`, which is relative, suits all of them."""
        changed = _changed(runs, column, guess[0])
        off = np.degrees(changed.errors(predicted(space.sets(guess[None, 1:] - 1.0), changed, COARSE))[0])
        off /= abs(guess[0]) if column == "position" else 1.0  # a factor of the angle multiplies the errors, too
        return np.where(np.abs(off) < 1e4, off, 1e4)  # NaN becomes 1e4, too

    ends = []
    for point in np.clip(points, 0.01, 0.99) + 1.0:  # the point with the smaller error need not end lower
        begin = min(
            (np.append(start, point) for start in starts), key=lambda guess: float(np.abs(errors(guess)).mean())
        )
        low, high, wide = np.ones(len(begin)), np.full(len(begin), 2.0), np.full(len(begin), 0.005)
        reach = 0.6 * begin[0] if len(starts) > 1 else 1e-6
        low[0], high[0], wide[0] = begin[0] - reach, begin[0] + reach, near / 10
        end = least_squares(errors, begin, bounds=(low, high), diff_step=wide, loss="soft_l1", max_nfev=20).x
        ends.append((float(np.abs(errors(end)).mean()), float(end[0])))
    return min(ends)


def _changed(runs: Runs, column: str, factor: float) -> Runs:
    """Return the runs with the measured angles, or the times of their clock, multiplied."""
    if column != "time":
        return runs._replace(position=factor * runs.position, velocity=factor * runs.velocity)
    position, velocity = runs.position.copy(), runs.velocity.copy()
    for a, b in runs.spans:
        time = runs.time[a] + (runs.time[a:b] - runs.time[a]) * factor
        for values in (position, velocity):
            values[a:b] = np.interp(runs.time[a:b], time, values[a:b])
    return runs._replace(position=position, velocity=velocity)


def import_again(recording: Recording, column: str, factor: float) -> str:
    """Return the command that imports a log with another factor, from the recording's metadata of its import."""
    source, columns = str(recording.metadata.get("source") or "LOG.csv"), recording.metadata.get("column_map")
    columns = columns or {name: {"header": "HEADER"} for name in dict.fromkeys(("time", "position", column))}
    mapped = {name: Column(**facts) for name, facts in columns.items()}
    changed = mapped.setdefault(column, Column("HEADER"))
    if changed.zero or source.endswith(".json"):  # --column can say neither
        zero = f" - {changed.zero:g}" if changed.zero else ""
        return f"multiply {changed.header}{zero} by {factor:.6g} in the log, and import that"
    mapped[column] = changed._replace(factor=factor * changed.factor)
    return Remedy("import", source, "FILE.mcap", column=[f"{k}={c.header}:{c.factor:.6g}" for k, c in mapped.items()])


def _lost(track: Track, poll: float | None) -> float:
    """Return the share of samples that are missing or have no position; uneven samples count only for the latter."""
    steps, absent = np.diff(track.time), 0.0
    steps = steps[steps < PAUSE]
    if len(steps):
        periods = steps / (poll or np.median(steps))  # stamps of a coarse clock are not even: the poll is
        if poll or np.mean(np.abs(periods - np.round(periods)) < _EVEN) > _EVEN_SHARE:
            absent = max(0.0, float(periods.sum()) - len(steps))
    return (absent + float(np.isnan(track.position).sum())) / (absent + len(track))


def _stamp_error(fit: Fit, m: int) -> float:
    """Return the standard deviation of time stamp errors, s, from second differences of the errors; 0 = unknown."""
    runs, path = fit.runs.only([m]), fit.simulated[slice(*fit.runs.spans[m])]
    if len(path) < _MIN_QUICK:
        return 0.0
    speed = np.gradient(path, runs.time)
    apart = np.abs(np.convolve(runs.errors(path), (-0.5, 1.0, -0.5), "valid"))
    is_quick = (np.abs(speed[1:-1]) > _QUICK) & (np.convolve(runs.judged, np.ones(3), "valid") > 2.5)
    moved = np.sqrt(np.convolve(speed**2, (0.25, 1.0, 0.25), "valid"))
    return 1.4826 * float(np.median(apart[is_quick] / moved[is_quick])) if is_quick.sum() >= _MIN_QUICK else 0.0
