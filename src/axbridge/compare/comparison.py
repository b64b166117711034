"""Two recordings of the same motion side by side: how far apart, how much of it is mere lateness, and where."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.compare.metrics import (
    Deviation,
    FrequencyResponse,
    StepResponse,
    best_shift,
    deviation,
    fall_time,
    frequency_response,
    resample,
    step_response,
)
from axbridge.errors import RecordingError, UsageError
from axbridge.record.recording import Recording, Segment, Track

__all__ = ["Comparison", "Pair", "Part", "check", "compare", "following", "summary"]


@dataclass(frozen=True)
class Part:
    """One segment of an experiment on one servo.

    Attributes:
        name: The segment's name.
        start: s, on the comparison's clock.
        end: s.
        deviation: Errors in it.
        steps: Step response on both sides, where the segment had a target; reference first.
        falls: Fall time on both sides, where the segment was a fall, s.
        chirps: Frequency response on both sides, where it was a chirp.
    """

    name: str
    start: float
    end: float
    deviation: Deviation
    steps: tuple[StepResponse, StepResponse] | None = None
    falls: tuple[float, float] | None = None
    chirps: tuple[FrequencyResponse, FrequencyResponse] | None = None


@dataclass(frozen=True)
class Pair:
    """One servo in both recordings, on common times.

    Attributes:
        name: The servo (in the reference).
        other_name: The servo in the other recording.
        time: s, (n,), from the start of the overlap of both.
        reference: Position, rad, (n,).
        other: Position, rad, (n,).
        command: Position goal, rad, (n,); NaN where unknown.
        shift: How much later `other` is than `reference`, s (best fit within the limit).
        plain: Errors as they are.
        aligned: Errors with `shift` taken out.
        parts: The experiment's segments.
    """

    name: str
    other_name: str
    time: FloatArray
    reference: FloatArray
    other: FloatArray
    command: FloatArray
    shift: float
    plain: Deviation
    aligned: Deviation
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Comparison:
    """All servos that two recordings share.

    Attributes:
        reference: The recording measured against.
        other: The recording measured.
        labels: What to call them.
        zero: Time of each recording that is 0 here, s.
        pairs: By servo, worst first.
    """

    reference: Recording
    other: Recording
    labels: tuple[str, str]
    zero: tuple[float, float]
    pairs: tuple[Pair, ...]


def compare(
    reference: Recording,
    other: Recording,
    *,
    labels: tuple[str, str] = ("reference", "other"),
    limit: float = 0.2,
) -> Comparison:
    """Compare the servos that two recordings share; two recordings of one servo each are compared whatever its name.

    The clocks are set to 0 at the first segment that both name alike, else at the first sample of each.

    Args:
        reference: Measured against.
        other: Measured.
        labels: What to call them.
        limit: Largest shift tried in the alignment, s.

    Raises:
        RecordingError: no servo in common, or they do not overlap in time.
    """
    if len(reference) == len(other) == 1:
        names = [(next(iter(reference)), next(iter(other)))]
    else:
        names = [(name, name) for name in reference if name in other]
    if not names:
        raise RecordingError(
            other.path,
            f"has none of the servos {', '.join(reference)}",
            f"it has {', '.join(other) or 'none'}; compare recordings of the same rig",
        )
    zero = _zeros(reference, other)
    pairs = [_pair(reference, other, a, b, zero, limit) for a, b in names]
    pairs = [pair for pair in pairs if pair.plain.samples]
    if not pairs:
        raise RecordingError(other.path, "does not overlap with the other recording", "compare the same experiment")
    pairs.sort(key=lambda pair: -pair.plain.rmse)
    return Comparison(reference, other, labels, zero, tuple(pairs))


def following(recording: Recording, *, limit: float = 0.5) -> Comparison:
    """How well each servo followed its goals: its command is the reference.

    Raises:
        RecordingError: no servo has commands.
    """
    goals = {
        name: Track.of(name, track.time, position=np.where(track.enabled, track.command, np.nan))
        for name, track in recording.items()
        if not np.isnan(track.command).all()
    }
    if not goals:
        raise RecordingError(recording.path, "holds no commands", "give a second recording to compare with, or --rig")
    commanded = Recording(recording.path, goals, recording.events, {}, recording.metadata, recording.complete)
    return compare(commanded, recording, labels=("goal", "position"), limit=limit)


def summary(comparison: Comparison) -> dict[str, Any]:
    """The comparison as one JSON document; angles in degrees, times in s."""
    return {
        "reference": {"path": str(comparison.reference.path), "label": comparison.labels[0]},
        "other": {"path": str(comparison.other.path), "label": comparison.labels[1]},
        "complete": comparison.reference.complete and comparison.other.complete,
        "mae_deg": float(np.mean([pair.plain.mae for pair in comparison.pairs])),
        "rmse_deg": math.sqrt(float(np.mean([pair.plain.mse for pair in comparison.pairs]))),
        "mse_deg2": float(np.mean([pair.plain.mse for pair in comparison.pairs])),
        "servos": {pair.name: _pair_summary(pair, comparison.labels) for pair in comparison.pairs},
    }


_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def check(comparison: Comparison, condition: str) -> list[str]:
    """Servos on which `condition` holds, each with the value in words.

    Args:
        comparison: What to look at.
        condition: ``rmse>2``; metrics are mae, rmse, worst (degrees), mse (deg²), aligned_… of each, and shift (s).

    Raises:
        UsageError: not of that form.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*", condition)
    known = {name for metric in ("mae", "rmse", "mse", "worst") for name in (metric, f"aligned_{metric}")} | {"shift"}
    if match is None or match[1] not in known or (limit := _number(match[3])) is None:
        raise UsageError(f"{condition!r} is no condition", f"write METRIC>NUMBER; metrics: {', '.join(sorted(known))}")
    found = []
    for pair in comparison.pairs:
        value = (
            pair.shift
            if match[1] == "shift"
            else getattr(
                pair.aligned if match[1].startswith("aligned_") else pair.plain, match[1].removeprefix("aligned_")
            )
        )
        if _OPERATORS[match[2]](value, limit):
            found.append(f"{pair.name}: {match[1]} = {value:.4g}")
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _zeros(reference: Recording, other: Recording) -> tuple[float, float]:
    for mine in reference.segments:
        for theirs in other.segments:
            if mine.name == theirs.name:
                return mine.start, theirs.start
    return reference.start, other.start


def _pair(
    reference: Recording, other: Recording, mine: str, theirs: str, zero: tuple[float, float], limit: float
) -> Pair:
    a, b = reference[mine], other[theirs]
    time_a, time_b = a.time - zero[0], b.time - zero[1]
    grid = time_a[(time_a >= time_b[0]) & (time_a <= time_b[-1])] if len(b) else time_a[:0]
    position_a, position_b = _seen(time_a, a.position, grid), _seen(time_b, b.position, grid)
    shift = best_shift(grid, position_a, position_b, limit) if len(grid) else 0.0
    shifted = _seen(time_b, b.position, grid + shift)
    parts = []
    theirs_by_name = {segment.name: segment for segment in reversed(other.segments)}
    for segment in reference.segments:
        if segment.data.get("servo", mine) != mine:
            continue
        match = theirs_by_name.get(segment.name, segment)
        parts.append(_part(a, b, segment, match, zero, grid, position_a, position_b))
    return Pair(
        mine,
        theirs,
        grid,
        position_a,
        position_b,
        _command(time_a, a, grid),
        shift,
        deviation(position_a, position_b),
        deviation(position_a, shifted),
        tuple(parts),
    )


def _seen(time: FloatArray, position: FloatArray, at: FloatArray) -> FloatArray:
    """Positions at times `at`; NaN next to samples that are not known, instead of a line across the gap."""
    values = resample(time, position, at)
    unknown = np.isnan(position)
    if unknown.any() and len(at):
        after = np.clip(np.searchsorted(time, at - 1e-9), 0, len(time) - 1)
        before = np.clip(np.searchsorted(time, at + 1e-9, side="right") - 1, 0, len(time) - 1)
        values[unknown[after] | unknown[before]] = np.nan
    return values


def _part(
    a: Track,
    b: Track,
    mine: Segment,
    theirs: Segment,
    zero: tuple[float, float],
    grid: FloatArray,
    position_a: FloatArray,
    position_b: FloatArray,
) -> Part:
    start, end = mine.start - zero[0], mine.end - zero[0]
    inside = (grid >= start) & (grid < end)
    first, second = a.between(mine.start - 0.5, mine.end), b.between(theirs.start - 0.5, theirs.end)
    data = mine.data
    steps = falls = chirps = None
    if mine.name.startswith("step") and "target" in data:
        target = float(data["target"])
        steps = (
            step_response(first.time, first.position, target, mine.start),
            step_response(second.time, second.position, target, theirs.start),
        )
    elif mine.name.startswith("fall"):
        falls = (
            fall_time(first.time, first.position, mine.start),
            fall_time(second.time, second.position, theirs.start),
        )
    elif mine.name.startswith("chirp") and {"low", "high"} <= data.keys():
        chirps = (
            frequency_response(first.time, first.command, first.position, data["low"], data["high"]),
            frequency_response(second.time, second.command, second.position, data["low"], data["high"]),
        )
    return Part(mine.name, start, end, deviation(position_a[inside], position_b[inside]), steps, falls, chirps)


def _command(time: FloatArray, track: Track, grid: FloatArray) -> FloatArray:
    """The goal in force at each time: goals hold, they are not interpolated; a limp servo has none."""
    if not len(time) or not len(grid):
        return np.full(len(grid), np.nan)
    command = np.where(track.enabled, track.command, np.nan)
    return command[np.clip(np.searchsorted(time, grid, side="right") - 1, 0, len(time) - 1)]


def _pair_summary(pair: Pair, labels: tuple[str, str]) -> dict[str, Any]:
    parts = []
    for part in pair.parts:
        entry: dict[str, Any] = {
            "name": part.name,
            "start_s": part.start,
            "end_s": part.end,
            "deviation": asdict(part.deviation),
        }
        if part.steps:
            entry["step"] = {label: asdict(step) for label, step in zip(labels, part.steps, strict=True)}
        if part.falls:
            entry["fall_time_s"] = dict(zip(labels, part.falls, strict=True))
        if part.chirps:
            entry["chirp"] = {
                label: {
                    "bandwidth_hz": chirp.bandwidth,
                    "frequency_hz": chirp.frequency.tolist(),
                    "gain": chirp.gain.tolist(),
                    "phase_deg": chirp.phase.tolist(),
                }
                for label, chirp in zip(labels, part.chirps, strict=True)
            }
        parts.append(entry)
    return {
        "shift_s": pair.shift,
        "deviation": asdict(pair.plain),
        "aligned": asdict(pair.aligned),
        "segments": parts,
    }
