"""Compare two recordings of the same motion: their error, the part of it that a time shift explains, and its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.comparison.lag import baselines
from axbridge.comparison.metrics import HOLE, MEASURES, Deviation, parse_condition
from axbridge.comparison.recorded_runs import goals_hint
from axbridge.comparison.side_by_side import Pair, Sides, pair_of
from axbridge.errors import RecordingError, UsageError
from axbridge.recording.recording import Recording
from axbridge.recording.sample_quality import findings
from axbridge.recording.stored import opened
from axbridge.recording.tables import data_frame
from axbridge.servo import checks


@dataclass(frozen=True)
class Comparison:
    """All servos that two recordings share.

    Attributes:
        reference: The reference recording.
        other: The recording whose errors are measured.
        labels: Names of both for tables and pages.
        limit: Largest shift tried in the alignment, s.
        pairs: One for each servo, largest error first.
        missing: The reason, by servo, for each one that could not be compared.
        doubts: Errors in the samples that make figures doubtful, in words, each with a label.
    """

    reference: Recording
    other: Recording
    labels: tuple[str, str]
    limit: float
    pairs: tuple[Pair, ...]
    missing: dict[str, str]
    doubts: tuple[str, ...]

    def __repr__(self) -> str:
        apart = ", ".join(f"{pair.name} {pair.plain.rmse:.2f}°" for pair in self.pairs)
        return f"<Comparison of {self.labels[0]} with {self.labels[1]}, rms error: {apart or 'nothing compared'}>"

    @cached_property
    def baselines(self) -> dict[str, tuple[Deviation, Deviation]]:
        """Errors of a perfect servo, and of a delay with a lag, by servo; empty when the goals are the reference."""
        return {} if self.labels[0] == "goal" else baselines(self.reference)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; its index is the time on the comparison's clock, s.

        Its columns are the goal and both positions of each servo, rad: ``shoulder.command_rad``,
        ``shoulder.reference_rad`` and ``shoulder.other_rad``; NaN where a servo was not compared.

        Raises:
            UnsupportedOperation: pandas is not installed.
        """
        headers = {key: f"{key}_rad" for key in ("command", "reference", "other")}
        sides = {}
        for pair in self.pairs:
            motions = pair.motions._asdict()
            sides[pair.name] = {key: motions[key] for key in ("time", *headers)}
        return data_frame(sides, headers)


def compare(
    reference: Recording | str | Path,
    other: Recording | str | Path,
    *,
    labels: tuple[str, str] = ("reference", "other"),
    limit: float = 0.2,
    same_clock: bool = False,
    progress: Callable[[str, float], None] = lambda _what, _share: None,
) -> Comparison:
    """Compare the servos that two recordings share; the names may differ if both have one servo.

    The clocks are aligned at equal commands: the first command of each segment with the same name in both. Without
    such segments, they are aligned at the first samples.

    Args:
        reference: The reference: a recording or its file.
        other: The recording whose errors are measured, or its file.
        labels: Names of both for tables and pages.
        limit: Largest shift tried in the alignment, s.
        same_clock: Whether both have times of the same clock already.
        progress: Called before each servo with the present activity and the finished share, 0..1.

    Raises:
        RecordingError: no servo in common, no overlap in time, or a file that is not a recording.
        UsageError: labels that are not two, or a limit that is not positive.
    """
    if not checks.number(limit, "limit") > 0:
        raise UsageError(f"a limit of {limit:g} s allows no shift", "give seconds, as limit=0.2")
    if isinstance(labels, str) or len(labels) != 2:
        raise UsageError(f"labels={labels!r} are not two names", 'write labels=("real", "sim")')
    reference, other = _sampled(opened(reference)), _sampled(opened(other))
    if len(reference) == len(other) == 1:
        names = [(next(iter(reference)), next(iter(other)))]
    else:
        names = [(name, name) for name in reference if name in other]
    if not names:
        hint = f"it has {', '.join(other) or 'none'}; compare recordings of the same rig"
        raise RecordingError(other.path, f"has none of the servos {', '.join(reference)}", hint)
    missing: dict[str, str] = {}
    for side, label, against in ((reference, labels[1], other), (other, labels[0], reference)):
        if len(names) < len(side):
            missing |= {name: f"{label} has no such servo" for name in side if name not in against}
    sides = Sides(reference, other, same_clock=same_clock)
    return _compared(sides, names, labels, limit, missing, progress)


def _compared(
    sides: Sides,
    names: Sequence[tuple[str, str]],
    labels: tuple[str, str],
    limit: float,
    missing: dict[str, str],
    progress: Callable[[str, float], None],
) -> Comparison:
    reference, other = sides.reference, sides.other
    doubts, pairs = [], []
    for recording, label in zip((reference, other), labels, strict=True):
        doubts += [f"{label} {recording.flaw}"] if recording.flaw else []
        doubts += [
            f"{label}: {event.data.get('servo')}: the clock jumped back to {event.time:g} s; samples are sorted by time"
            for event in recording.events
            if event.name == "clock jumped back"
        ]
    for index, (servo, other_servo) in enumerate(names):
        progress(f"comparing {servo}", index / len(names))
        tracks = sides.tracks(servo, other_servo)
        for track, label in zip(tracks, labels, strict=True):
            oddities = findings(track.name, track.time, track.columns)
            doubts += [f"{label}: {oddity}" for oddity in oddities if oddity.severity == "error"]
            if np.isnan(track.position).all():
                missing[servo] = f"{label} has no position of it"
        if servo in missing:
            continue
        pair = pair_of(sides, (servo, other_servo), tracks, limit)
        if pair.plain.samples:
            pairs.append(pair)
        else:
            missing[servo] = f"{labels[0]} and {labels[1]} have no position of it at the same time"
    if not pairs:
        facts = "; ".join(f"{name}: {why}" for name, why in missing.items())
        raise RecordingError(other.path, f"nothing can be compared: {facts}", "compare the same experiment")
    pairs.sort(key=lambda pair: -pair.plain.rmse)
    return Comparison(reference, other, labels, limit, tuple(pairs), missing, tuple(doubts))


def following(
    recording: Recording, *, progress: Callable[[str, float], None] = lambda _what, _share: None
) -> Comparison:
    """Compare each servo's position with its own goals, which are the reference."""
    tracks = _sampled(recording).items()
    commanded = [name for name, track in tracks if (~np.isnan(track.command) & track.enabled).any()]
    if not commanded:
        raise RecordingError(recording.path, "holds no commands", f"{goals_hint(recording)}, or compare two recordings")
    sides = Sides(recording, recording, same_clock=True, goals=True)
    return _compared(sides, [(name, name) for name in commanded], ("goal", "position"), 0.2, {}, progress)


def _sampled(recording: Recording) -> Recording:
    if not recording:
        raise RecordingError(recording.path, recording.flaw, "record it again")
    return recording


def lacks(comparison: Comparison) -> list[str]:
    """Return what was not compared, in words: missing servos, and motions that end early or have gaps."""
    lines = [f"{name}: not compared: {why}" for name, why in comparison.missing.items()]
    first, second = comparison.labels
    incomplete = (pair for pair in comparison.pairs if not pair.coverage.whole)
    partial = sorted(incomplete, key=lambda pair: pair.coverage.share)
    for pair in partial[:1]:
        covered = pair.coverage
        facts = [f"{covered.share:.1%} of {first} was compared"]
        if covered.hole > HOLE:
            facts.append(f"{second} lacks {covered.hole:.2f} s of it at a stretch")
        if covered.beyond > HOLE:
            facts.append(f"{second} has {covered.beyond:.2f} s that {first} lacks")
        if len(partial) > 1:
            facts.append(f"{len(partial) - 1} more of its servos lack as much, or less")
        lines.append(f"{pair.name}: {'; '.join(facts)}")
    return lines


def shift_text(comparison: Comparison, pair: Pair) -> str:
    """Return how much earlier or later the other recording is, in words, or why that is unknown."""
    if pair.shift is not None:
        return f"{abs(pair.shift) * 1e3:.1f} ms {'earlier' if pair.shift < 0 else 'later'}"
    return "hardly moves" if pair.aligned is not None else f"not found within ±{comparison.limit * 1e3:.0f} ms"


def summary(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as one JSON document; angles in degrees, times in s."""
    return {
        "reference": {"path": str(comparison.reference.path), "label": comparison.labels[0]},
        "other": {"path": str(comparison.other.path), "label": comparison.labels[1]},
        "complete": comparison.reference.complete and comparison.other.complete,
        "whole": not lacks(comparison),
        "missing": comparison.missing,
        "shift_limit_s": comparison.limit,
        "mae_deg": float(np.mean([pair.plain.mae for pair in comparison.pairs])),
        "rmse_deg": math.sqrt(float(np.mean([pair.plain.mse for pair in comparison.pairs]))),
        "mse_deg2": float(np.mean([pair.plain.mse for pair in comparison.pairs])),
        "servos": {pair.name: _pair_summary(pair, comparison.labels) for pair in comparison.pairs},
    }


METRICS = {name for metric in ("mae", "rmse", "mse", "worst") for name in (metric, f"aligned_{metric}")} | {"shift"}


def check(comparison: Comparison, condition: str) -> list[str]:
    """Return the servos that fulfil `condition`, or whose value is unknown, each with its value in words."""
    metric, holds = parse_condition(condition, METRICS)
    failures = []
    for pair in comparison.pairs:
        errors = pair.aligned if metric.startswith("aligned_") or metric == "shift" else pair.plain
        if errors is None:
            failures.append(f"{pair.name}: {metric} is not known: shift {shift_text(comparison, pair)}")
        elif metric != "shift" or pair.shift is not None:  # a servo that hardly moves has no shift
            value: float = getattr(pair if metric == "shift" else errors, metric.removeprefix("aligned_"))
            if holds(value):
                failures.append(f"{pair.name}: {metric} = {value:.4g}")
            elif math.isnan(value):
                failures.append(f"{pair.name}: {metric} is not known: no samples are left")
    return failures


def _pair_summary(pair: Pair, labels: tuple[str, str]) -> dict[str, Any]:
    parts = []
    for part in pair.parts:
        entry: dict[str, Any] = {
            "name": part.name,
            "kind": part.kind,
            "start_s": part.start,
            "end_s": part.end,
            "deviation": asdict(part.deviation),
        }
        if part.results is not None:
            measure = MEASURES[part.kind]
            documents = (measure.document(result) for result in part.results)
            entry[measure.key] = dict(zip(labels, documents, strict=True))
        parts.append(entry)
    return {
        "shift_s": pair.shift,
        "coverage": asdict(pair.coverage),
        "deviation": asdict(pair.plain),
        "aligned": None if pair.aligned is None else asdict(pair.aligned),
        "segments": parts,
    }
