"""Errors between two motions and figures of responses: pure functions on arrays, in rad and s."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError
from axbridge.recording.recording import Track
from axbridge.recording.sample_quality import GAP

SETTLED = math.radians(1.0)  # half width of the band around the end value: the larger of this and 2 % of the step
HOLE = 0.25  # s: a longer gap between samples, if longer than usual, is not interpolated
MOVED = math.radians(1.0)  # a motion starts at this distance (over three counts of an AX-12)
_HANGING = math.radians(5)  # distance from 0 rad at which a fallen arm hangs down
_SMOOTHING = np.hanning(9)  # weights of neighbouring frequencies, against noise
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Deviation:
    """Errors between two motions, degrees."""

    mae: float  # mean absolute error
    rmse: float
    mse: float  # mean squared error, deg² (as in Lima et al. 2009)
    worst: float  # largest absolute error
    samples: int  # number of compared samples


@dataclass(frozen=True)
class StepResponse:
    """Figures of a step response; unknown values are NaN."""

    delay: float  # from the command to the first 1° of motion, s
    rise: float  # from 10 % to 90 % of the travel, s
    overshoot: float  # beyond the end value, degrees
    # from the command until it stays within 1° or 2 % of the travel of the end value, s; NaN if it moves on at the end
    settling: float
    steady_state_error: float  # goal minus end value, degrees


@dataclass(frozen=True)
class FrequencyResponse:
    """Response to a chirp."""

    frequency: FloatArray  # Hz, (n,)
    gain: FloatArray  # output amplitude / input amplitude, (n,)
    phase: FloatArray  # degrees, negative for a lag, (n,)
    bandwidth: float  # frequency from which the gain is below 1/√2, Hz; NaN if it never is


def resample(time: FloatArray, values: FloatArray, at: FloatArray, *, beyond: float | None = math.nan) -> FloatArray:
    """Interpolate the known samples linearly at times `at`; outside them return `beyond`, or the end value if None."""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(len(at), np.nan)
    return np.interp(at, time[known], values[known], left=beyond, right=beyond)


def holes(time: FloatArray) -> list[tuple[float, float]]:
    """Return begin and end, s, of each gap between samples that is too long for interpolation."""
    spaces = np.diff(time)
    long = np.flatnonzero(spaces > max(HOLE, GAP * float(np.median(spaces)))) if len(spaces) else np.empty(0, int)
    return list(zip(time[long].tolist(), time[long + 1].tolist(), strict=True))


def deviation(reference: FloatArray, other: FloatArray) -> Deviation:
    """Return the errors between two motions (n,), rad, at the same times; samples unknown in either are left out."""
    error = np.degrees(other - reference)
    error = error[~np.isnan(error)]
    if not len(error):
        return Deviation(math.nan, math.nan, math.nan, math.nan, 0)
    mse = float(np.mean(error**2))
    return Deviation(float(np.mean(np.abs(error))), math.sqrt(mse), mse, float(np.max(np.abs(error))), len(error))


def moves(position: FloatArray) -> bool:
    """Return whether a motion (n,), rad, is large enough to determine its time shift."""
    return bool(np.nanmax(position, initial=-np.inf) - np.nanmin(position, initial=np.inf) >= MOVED)


def best_shift(time: FloatArray, reference: FloatArray, other: FloatArray, limit: float = 0.2) -> float | None:
    """Return how much later `other` is than `reference`, s: the shift within ±`limit` with the least squared error.

    A grid of 2 ms is searched, then refined by a parabola through the best three. None if the best shift is at an end
    of the range, or if the motions do not overlap, are too short, or hardly move.
    """
    if len(time) < 3:
        return None
    inner = (time >= time[0] + limit) & (time <= time[-1] - limit)  # the same samples for every shift
    for begin, end in holes(time[~np.isnan(other)]):
        inner &= (time < begin - limit) | (time > end + limit)
    if inner.sum() < 3 or not moves(reference[inner]):
        return None
    step = 0.002
    shifts = np.arange(-round(limit / step), round(limit / step) + 1) * step
    at, wanted, none = time[inner], reference[inner], np.zeros(inner.sum())
    costs = np.array([deviation(none, resample(time, other, at + shift) - wanted).mse for shift in shifts])
    if np.isnan(costs).any():
        return None
    best = int(np.argmin(costs))
    if not 0 < best < len(shifts) - 1 or not moves(resample(time, other, at + shifts[best])):
        return None
    before, here, after = costs[best - 1 : best + 2]
    curvature = before - 2 * here + after
    return float(shifts[best] + (0.5 * step * (before - after) / curvature if curvature > 0 else 0.0))


def step_response(time: FloatArray, position: FloatArray, target: float, commanded: float) -> StepResponse:
    """Return the figures of the response to one goal `target`, rad, which was sent at `commanded`, s."""
    known = ~np.isnan(position)
    time, position = time[known], position[known]
    if len(time) < 5:
        return StepResponse(*[math.nan] * 5)
    before = position[time <= commanded]
    start = float(before[-1] if len(before) else position[0])
    tail = max(3, len(position) // 10)
    rest = float(np.mean(position[-tail:]))
    travel = rest - start
    if abs(travel) < 2 * MOVED:
        return StepResponse(math.nan, math.nan, math.nan, math.nan, math.degrees(target - rest))
    after = time > commanded
    time = np.concatenate(([commanded], time[after]))  # until the command the joint is at its start position
    done = np.concatenate(([0.0], (position[after] - start) / travel))
    band = max(SETTLED / abs(travel), 0.02)
    outside = np.flatnonzero(np.abs(done - 1) > band)
    settled = int(outside[-1]) + 1 if len(outside) else 0
    return StepResponse(
        delay=_crossing(time, done, MOVED / abs(travel)) - commanded,
        rise=_crossing(time, done, 0.9) - _crossing(time, done, 0.1),
        overshoot=max(0.0, float(np.max(done)) - 1) * math.degrees(abs(travel)),
        settling=math.nan if settled > len(time) - tail else float(time[settled] - commanded),
        steady_state_error=math.degrees(target - rest),
    )


def frequency_response(
    time: FloatArray, command: FloatArray, position: FloatArray, low: float, high: float
) -> FrequencyResponse:
    """Return gain and phase between `low` and `high` Hz, from the smoothed cross spectrum of a chirp.

    Parts of it (Welch's method) would cut off its slowest oscillations: gains up to 30 % too high.
    """
    known, unknown = ~np.isnan(command) & ~np.isnan(position), np.array([math.nan])
    time, command, position = time[known], command[known], position[known]
    if len(time) < 16:
        return FrequencyResponse(unknown, unknown, unknown, math.nan)
    rate = 1 / float(np.median(np.diff(time)))
    grid = np.arange(time[0], time[-1], 1 / rate)
    size = 2 * len(grid)  # with zeros behind the motion: otherwise its begin would follow its end
    sampled = (resample(time, values, grid) for values in (command, position))
    given, done = (np.fft.rfft(values - values.mean(), size) for values in sampled)
    products = done * given.conj(), np.abs(given) ** 2
    cross, power = (np.convolve(product, _SMOOTHING, "same") for product in products)
    frequency = np.fft.rfftfreq(size, 1 / rate)
    chosen = (frequency >= low) & (frequency <= high) & (power > 1e-3 * power.max())
    transfer = cross[chosen] / power[chosen]
    frequency, gain = frequency[chosen], np.abs(transfer)
    phase = np.degrees(np.unwrap(np.angle(transfer)))
    if not len(frequency):  # the recording is too short or its sample rate too low
        return FrequencyResponse(unknown, unknown, unknown, math.nan)
    below = np.flatnonzero(gain < math.sqrt(0.5))
    return FrequencyResponse(frequency, gain, phase, float(frequency[below[0]]) if len(below) else math.nan)


def _crossing(time: FloatArray, values: FloatArray, level: float) -> float:
    """Return the time at which `values` first reaches `level`, interpolated; NaN if it never does."""
    above = np.flatnonzero(values >= level)
    if not len(above):
        return math.nan
    around = slice(max(int(above[0]) - 1, 0), int(above[0]) + 1)
    return float(np.interp(level, values[around], time[around]))


def fall_time(time: FloatArray, position: FloatArray, released: float) -> float:
    """Return the time from the release until the arm first is within 5° of 0 rad (hanging down), s; NaN if never."""
    chosen = (time >= released) & ~np.isnan(position)
    return _crossing(time[chosen], -np.abs(position[chosen]), -_HANGING) - released


@dataclass(frozen=True)
class MetricRow:
    """One figure of a result, as a row of a table."""

    text: str  # its name
    unit: str  # the unit in the table
    # the figure from a result and the reference's result, in SI units or degrees; NaN = unknown
    value: Callable[[Any, Any], float]
    factor: float = 1.0  # from SI to `unit`
    digits: int = 2  # decimal places


@dataclass(frozen=True)
class Measure:
    """The figures of one kind of segment."""

    key: str  # name in JSON
    needs: tuple[str, ...]  # keys that the segment's data must have
    # returns the result, from the servo's track, the time of the segment's command, s, and its data
    of: Callable[[Track, float, Mapping[str, Any]], Any]
    rows: tuple[MetricRow, ...]  # rows of a table
    document: Callable[[Any], Any]  # returns the result as JSON


def _middle_phase(result: FrequencyResponse, reference: FrequencyResponse) -> float:
    """Return the phase, degrees, at the geometric middle of the reference's frequency range."""
    middle = math.sqrt(reference.frequency[0] * reference.frequency[-1])
    return float(np.interp(middle, result.frequency, result.phase))


MEASURES: Mapping[str, Measure] = {
    "step": Measure(
        "step",
        ("target",),
        lambda track, sent, facts: step_response(track.time, track.position, float(facts["target"]), sent),
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
        lambda track, sent, _: fall_time(track.time, track.position, sent),
        (MetricRow("fall to 5°", "ms", lambda fall, _: fall, 1e3, 0),),
        float,
    ),
    "chirp": Measure(
        "chirp",
        ("low", "high"),
        lambda track, _, facts: frequency_response(
            track.time, track.command, track.position, *sorted(float(facts[key]) for key in ("low", "high"))
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
}  # by the segment's `kind`


def parse_condition(text: str, metrics: Collection[str]) -> tuple[str, Callable[[float], bool]]:
    """Parse a condition like ``rmse>2``: return the metric, one of `metrics`, and a predicate of its value."""
    match = re.fullmatch(rf"\s*(\w+)\s*(>=|<=|>|<)\s*({_NUMBER})\s*", text)
    if match is None or match[1] not in metrics:
        raise UsageError(f"{text!r} is no condition", f"write METRIC>NUMBER; metrics: {', '.join(sorted(metrics))}")
    compared: Callable[[float, float], bool] = _OPERATORS[match[2]]
    limit = float(match[3])
    return match[1], lambda value: compared(value, limit)
