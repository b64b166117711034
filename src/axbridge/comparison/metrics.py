"""How far apart two motions are, and what a step response is like: pure functions on arrays, in rad and s."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError, require
from axbridge.recording.sample_quality import GAP

SETTLED = math.radians(1.0)  # band around the end value; at least this, or 2 % of the step
HOLE = 0.25  # s: a longer stretch without samples, and longer than usual, is not bridged
MOVED = math.radians(1.0)  # a motion has begun when it has come this far (over three counts of an AX-12)
_HANGING = math.radians(5)  # of an arm that fell: it hangs down
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Deviation:
    """How far one motion is from another, degrees."""

    mae: float  # mean absolute error
    rmse: float
    mse: float  # deg² (the figure Lima et al. 2009 give)
    worst: float  # largest absolute error
    samples: int  # that were compared


@dataclass(frozen=True)
class StepResponse:
    """What a step response is like; a value that is not known is NaN."""

    delay: float  # from the command until it has moved 1°, s
    rise: float  # from 10 % to 90 % of the way it went, s
    overshoot: float  # beyond where it came to rest, degrees
    settling: float  # from the command until it stays within 1° or 2 % of where it came to rest, s
    steady_state_error: float  # goal minus where it came to rest, degrees


@dataclass(frozen=True)
class FrequencyResponse:
    """Response to a chirp."""

    frequency: FloatArray  # Hz, (n,)
    gain: FloatArray  # amplitude out over amplitude in, (n,)
    phase: FloatArray  # degrees, negative when it lags, (n,)
    bandwidth: float  # where the gain falls below 1/√2, Hz; NaN when it does not


def resample(time: FloatArray, values: FloatArray, at: FloatArray, *, beyond: float | None = math.nan) -> FloatArray:
    """Linear interpolation at times `at` between known samples; outside them `beyond`, None: as at their ends."""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(len(at), np.nan)
    return np.interp(at, time[known], values[known], left=beyond, right=beyond)


def holes(time: FloatArray) -> list[tuple[float, float]]:
    """Begin and end, s, of each stretch between samples that is too long for a line across."""
    spaces = np.diff(time)
    long = np.flatnonzero(spaces > max(HOLE, GAP * float(np.median(spaces)))) if len(spaces) else np.empty(0, int)
    return list(zip(time[long].tolist(), time[long + 1].tolist(), strict=True))


def deviation(reference: FloatArray, other: FloatArray) -> Deviation:
    """Errors between two motions (n,) sampled at the same times; samples that either lacks are left out."""
    error = np.degrees(other - reference)
    error = error[~np.isnan(error)]
    if not len(error):
        return Deviation(math.nan, math.nan, math.nan, math.nan, 0)
    mse = float(np.mean(error**2))
    return Deviation(float(np.mean(np.abs(error))), math.sqrt(mse), mse, float(np.max(np.abs(error))), len(error))


def moves(position: FloatArray) -> bool:
    """Whether a motion (n,), rad, is large enough to tell when it happened."""
    return bool(np.nanmax(position, initial=-np.inf) - np.nanmin(position, initial=np.inf) >= MOVED)


def best_shift(time: FloatArray, reference: FloatArray, other: FloatArray, limit: float = 0.2) -> float | None:
    """How much later `other` is than `reference`, s: the shift within ±`limit` with the least squared error.

    A grid of 2 ms first, then a parabola through the best three. None where the error is least at an end of the range,
    or the motions do not overlap, are too short, or hardly move.
    """
    if len(time) < 3 or not moves(reference):
        return None
    step = 0.002
    shifts = np.arange(-round(limit / step), round(limit / step) + 1) * step
    inner = (time >= time[0] + limit) & (time <= time[-1] - limit)  # the same samples for every shift
    for begin, end in holes(time[~np.isnan(other)]):
        inner &= (time < begin - limit) | (time > end + limit)
    if inner.sum() < 3:
        return None
    at, wanted, none = time[inner], reference[inner], np.zeros(inner.sum())
    costs = np.array([deviation(none, resample(time, other, at + shift) - wanted).mse for shift in shifts])
    if np.isnan(costs).any():
        return None
    best = int(np.argmin(costs))
    if not 0 < best < len(shifts) - 1:
        return None
    before, here, after = costs[best - 1 : best + 2]
    curvature = before - 2 * here + after
    return float(shifts[best] + (0.5 * step * (before - after) / curvature if curvature > 0 else 0.0))


def step_response(time: FloatArray, position: FloatArray, target: float, commanded: float) -> StepResponse:
    """Figures of the response to a goal set once."""
    known = ~np.isnan(position)
    time, position = time[known], position[known]
    if len(time) < 5:
        return StepResponse(*[math.nan] * 5)
    before = position[time <= commanded]
    start = float(before[-1] if len(before) else position[0])
    tail = max(3, len(position) // 10)
    rest = float(np.mean(position[-tail:]))
    way = rest - start
    if abs(way) < 2 * MOVED:
        return StepResponse(math.nan, math.nan, math.nan, math.nan, math.degrees(target - rest))
    after = time > commanded
    time = np.concatenate(([commanded], time[after]))  # where it was until then, between two samples
    done = np.concatenate(([0.0], (position[after] - start) / way))
    band = max(SETTLED / abs(way), 0.02)
    outside = np.flatnonzero(np.abs(done - 1) > band)
    settled = time[min(outside[-1] + 1, len(time) - 1)] - commanded if len(outside) else 0.0
    return StepResponse(
        delay=_crossing(time, done, MOVED / abs(way)) - commanded,
        rise=_crossing(time, done, 0.9) - _crossing(time, done, 0.1),
        overshoot=max(0.0, float(np.max(done)) - 1) * math.degrees(abs(way)),
        settling=float(settled),
        steady_state_error=math.degrees(target - rest),
    )


def frequency_response(
    time: FloatArray, command: FloatArray, position: FloatArray, low: float, high: float
) -> FrequencyResponse:
    """Gain and phase between `low` and `high` Hz, from cross spectra (Welch) of a chirp."""
    require("a frequency response", "scipy")
    from scipy.signal import csd, welch

    known = ~np.isnan(command) & ~np.isnan(position)
    time, command, position = time[known], command[known], position[known]
    if len(time) < 16:
        unknown = np.array([math.nan])
        return FrequencyResponse(unknown, unknown, unknown, math.nan)
    rate = 1 / float(np.median(np.diff(time)))
    grid = np.arange(time[0], time[-1], 1 / rate)
    given, done = resample(time, command, grid), resample(time, position, grid)
    length = min(len(grid), max(16, int(rate / low * 2)))
    given, done = given - given.mean(), done - done.mean()
    frequency, cross = csd(given, done, rate, nperseg=length)
    _, power = welch(given, rate, nperseg=length)
    chosen = (frequency >= low) & (frequency <= high) & (power > 1e-3 * power.max())
    transfer = cross[chosen] / power[chosen]
    frequency, gain = frequency[chosen], np.abs(transfer)
    phase = np.degrees(np.unwrap(np.angle(transfer)))
    if not len(frequency):  # too short or too slow to tell
        frequency, gain, phase = np.array([math.nan]), np.array([math.nan]), np.array([math.nan])
    below = np.flatnonzero(gain < math.sqrt(0.5))
    return FrequencyResponse(frequency, gain, phase, float(frequency[below[0]]) if len(below) else math.nan)


def _crossing(time: FloatArray, values: FloatArray, level: float) -> float:
    """When `values` first reaches `level`, between samples; NaN if it never does."""
    above = np.flatnonzero(values >= level)
    if not len(above):
        return math.nan
    index = int(above[0])
    if index == 0:
        return float(time[0])
    low, high = values[index - 1], values[index]
    return float(time[index - 1] + (time[index] - time[index - 1]) * (level - low) / (high - low))


def fall_time(time: FloatArray, position: FloatArray, released: float) -> float:
    """From the release until the arm first comes within `_HANGING` of hanging down (0 rad), s; NaN if it never does."""
    chosen = (time >= released) & ~np.isnan(position)
    return _crossing(time[chosen], -np.abs(position[chosen]), -_HANGING) - released


@dataclass(frozen=True)
class SegmentMotion:
    """One servo in one segment of an experiment, from half a second before it."""

    time: FloatArray  # s, (n,)
    command: FloatArray  # position goal in force, rad, (n,)
    position: FloatArray  # rad, (n,)
    sent: float  # when the segment's command was sent, s
    facts: Mapping[str, Any]  # what the experiment said about the segment


@dataclass(frozen=True)
class MetricRow:
    """One figure of a result, for a table."""

    text: str  # what it is
    unit: str  # what it is given in
    # the figure of a result and of the reference's result, in SI or degrees; NaN = not known
    value: Callable[[Any, Any], float]
    factor: float = 1.0  # from there to the unit
    digits: int = 2  # behind the point


@dataclass(frozen=True)
class Measure:
    """What is measured of one kind of segment."""

    key: str  # its name in JSON
    needs: tuple[str, ...]  # facts that the segment must have
    of: Callable[[SegmentMotion], Any]  # the result
    rows: tuple[MetricRow, ...]  # what a table shows of it
    document: Callable[[Any], Any]  # the result as JSON


def _middle_phase(result: FrequencyResponse, reference: FrequencyResponse) -> float:
    """Phase in the middle of the reference's range, on a logarithmic axis, degrees."""
    middle = math.sqrt(reference.frequency[0] * reference.frequency[-1])
    return float(np.interp(middle, result.frequency, result.phase))


MEASURES: Mapping[str, Measure] = {
    "step": Measure(
        "step",
        ("target",),
        lambda motion: step_response(motion.time, motion.position, float(motion.facts["target"]), motion.sent),
        (
            MetricRow("delay", "ms", lambda step, _: step.delay, 1e3, 0),
            MetricRow("rise time 10-90 %", "ms", lambda step, _: step.rise, 1e3, 0),
            MetricRow("overshoot", "°", lambda step, _: step.overshoot),
            MetricRow("settling time", "ms", lambda step, _: step.settling, 1e3, 0),
            MetricRow("steady-state error", "°", lambda step, _: step.steady_state_error),
        ),
        asdict,
    ),
    "fall": Measure(
        "fall_time_s",
        (),
        lambda motion: fall_time(motion.time, motion.position, motion.sent),
        (MetricRow("fall to 5°", "ms", lambda fall, _: fall, 1e3, 0),),
        float,
    ),
    "chirp": Measure(
        "chirp",
        ("low", "high"),
        lambda motion: frequency_response(
            motion.time, motion.command, motion.position, float(motion.facts["low"]), float(motion.facts["high"])
        ),
        (
            MetricRow("bandwidth (-3 dB)", "Hz", lambda chirp, _: chirp.bandwidth),
            MetricRow("phase in the middle of its range", "°", _middle_phase, digits=1),
        ),
        lambda chirp: {
            "bandwidth_hz": chirp.bandwidth,
            "frequency_hz": chirp.frequency.tolist(),
            "gain": chirp.gain.tolist(),
            "phase_deg": chirp.phase.tolist(),
        },
    ),
}  # by the kind that an experiment gives its segments


def parse_condition(text: str, metrics: Collection[str]) -> tuple[str, Callable[[float], bool]]:
    """``rmse>2`` as the metric's name, one of `metrics`, and whether a value fulfils it."""
    match = re.fullmatch(rf"\s*(\w+)\s*(>=|<=|>|<)\s*({_NUMBER})\s*", text)
    if match is None or match[1] not in metrics:
        raise UsageError(f"{text!r} is no condition", f"write METRIC>NUMBER; metrics: {', '.join(sorted(metrics))}")
    compared: Callable[[float, float], bool] = _OPERATORS[match[2]]
    limit = float(match[3])
    return match[1], lambda value: compared(value, limit)
