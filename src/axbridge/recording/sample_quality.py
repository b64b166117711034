"""Check recorded columns: rate, range, gaps and jumps; irregular clocks, wrong units and impossible values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import plural

LAST = 1e15  # s, rad, V, …: no clock or sensor has larger values, and an MCAP log time cannot store them
JUMP = math.radians(20)  # a smaller change may be noise
TOO_FAST = 40.0  # rad/s: several times the top speed of any servo of this kind
GAP = 2.5  # a spacing longer than this multiple of the usual one is a gap
PAUSE = 1.0  # s without a sample that are reported, if samples usually are much closer
LONGEST_PAUSE = 1000.0  # s: pauses between two samples of one motion are shorter
SLOW = 1.0  # s between samples: too slow to follow a motion
# Units of clocks: least value if they count from 1970 (valid until the year 5138), and the least sample period in the
# unit of the clock from which this unit is suggested.
_CLOCKS = {"ns": (1e17, 5e5), "us": (1e14, 500), "ms": (0, SLOW), "s": (0, 0)}
_SECONDS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}
_READ_AS = dict(zip((1e-9, 1e-6, 1e-3, 1.0), _SECONDS.values(), strict=True))  # by factor of the unit
FAST = 2e-5  # s between samples: no bus is as fast

# column: (largest plausible absolute value, probable cause, argument of --column that corrects it)
_LIMITS = {
    "position": (4 * math.pi, "degrees read as radians", "position=HEADER:deg"),
    "command": (4 * math.pi, "degrees read as radians", "command=HEADER:deg"),
    "velocity": (100.0, "deg/s or rpm read as rad/s", "velocity=HEADER:deg/s or velocity=HEADER:rpm"),
    "load": (2.0, "percent read as a share of 1", "load=HEADER:%"),
    "voltage": (100.0, "millivolts read as volts", "voltage=HEADER:mV"),
}
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class SampleFacts:
    """Summary of a servo's samples."""

    samples: int  # number of samples
    start: float  # time of the first, s; NaN without samples
    end: float  # time of the last, s
    columns: tuple[str, ...]  # columns with at least one known value
    lowest: float  # lowest position, rad; NaN when none is known
    highest: float  # highest position, rad
    gaps: int  # spacings longer than 2.5 times the usual one
    longest_gap: float  # longest spacing, s; 0 with fewer than two samples
    longest_gap_at: float  # start of the longest spacing, s
    jumps: int  # number of position changes faster than any servo turns
    first_jump_at: float  # time of the first jump, s

    @property
    def rate(self) -> float:
        """Mean sample rate, Hz; 0 with fewer than two samples."""
        span = self.end - self.start
        return (self.samples - 1) / span if self.samples > 1 and span > 0 else 0.0


def sample_facts(time: FloatArray, columns: Mapping[str, FloatArray]) -> SampleFacts:
    """Return the summary of a servo's samples; columns (n,)."""
    jumps, nan = _jumps(time, columns), math.nan  # before `steps`: both at once would need more memory
    steps = np.diff(time)
    widest = int(np.argmax(steps)) if len(steps) else 0
    known = tuple(key for key, column in columns.items() if not np.isnan(column).all())
    position = columns["position"] if "position" in known else np.array([nan])
    start, end = (float(time[0]), float(time[-1])) if len(time) else (nan, nan)
    gaps = int(np.sum(steps > GAP * np.median(steps))) if len(steps) else 0
    longest, at = (float(steps[widest]), float(time[widest])) if len(steps) else (0.0, nan)
    lowest, highest = float(np.fmin.reduce(position)), float(np.fmax.reduce(position))
    first = jumps[0][0] if jumps else nan
    return SampleFacts(len(time), start, end, known, lowest, highest, gaps, longest, at, len(jumps), first)


@dataclass(frozen=True)
class Oddity:
    """A probable error in a recording."""

    servo: str
    what: str  # the observation, and its place
    cause: str  # the probable cause
    remedy: str  # the next step
    severity: Severity  # `error` when the samples cannot be used unchanged, else `warning`

    def __str__(self) -> str:
        return f"{self.servo}: {self.what} (probably {self.cause})"


def findings(
    servo: str,
    time: FloatArray,
    columns: Mapping[str, FloatArray],
    row: Callable[[int], str] = lambda index: f"sample {index}",
    unit: float = 1.0,
) -> list[Oddity]:
    """Return the probable errors in one servo's samples, given in recorded order; errors come before warnings.

    `row` names the place of a sample; `unit` is the unit of the log's clock, s.
    """
    if not len(time):
        return []
    bad = np.flatnonzero(~(np.abs(time) <= LAST))
    if len(bad):
        first = float(time[bad[0]])
        short = next(short for short, (least, _) in _CLOCKS.items() if not abs(first) / unit < least)
        remedy = f"correct or remove that line, or import it with --column time=HEADER:{short}"
        what = f"the time of {row(int(bad[0]))} is {first:g} s"
        return [Oddity(servo, what, "a broken line, or another unit", remedy, "error")]
    oddities = (*_clock(time, row, unit), *_values(columns, row), *_largest_jump(time, columns))
    return sorted((Oddity(servo, *oddity) for oddity in oddities), key=lambda oddity: oddity.severity)


_Finding = tuple[str, str, str, Severity]  # the fields of an `Oddity` but its servo


def _clock(time: FloatArray, row: Callable[[int], str], unit: float) -> Iterator[_Finding]:
    steps = np.diff(time)
    back, same = np.flatnonzero(steps < 0), int(np.sum(steps == 0))
    period = float(np.median(steps[steps > 0])) if (steps > 0).any() else math.nan
    if len(back):
        i = int(back[0])
        jumps = f"{_times(len(back), 'the clock jumps back')}, at {row(i + 1)}"
        remedy = "split the log there, or sort its lines by time if they are one motion"
        cause = "two motions in one log, or lines out of order"
        yield f"{jumps} from {time[i]:g} s to {time[i + 1]:g} s", cause, remedy, "error"
    if same:
        what = f"{same} of {len(time)} samples have the time of the one before; their last known values are kept"
        cause = "a time written with too few digits, or samples written twice"
        yield what, cause, "log the time with more digits", "warning"
    if period >= SLOW or period <= FAST:
        short = next(short for short, (_, least) in _CLOCKS.items() if period / unit >= least)
        cause = f"{_SECONDS[short]} read as {_READ_AS.get(unit, 'another unit')}"
        if period <= FAST and unit == 1.0:
            cause = "seconds read as milliseconds or microseconds"
        what = f"one sample every {period:g} s" if period >= SLOW else f"one sample every {period * 1e6:g} µs"
        yield what, cause, f"import it with --column time=HEADER:{short}", "warning"
    gaps = np.flatnonzero(steps > max(PAUSE, 20 * period)).tolist()
    if gaps and period < SLOW:  # a wrong unit makes every pause too long
        i = max(gaps, key=lambda index: float(steps[index]))
        more = f", and {plural(len(gaps) - 1, 'more pause')}" if len(gaps) > 1 else ""
        what = f"no sample for {steps[i]:.6g} s before {row(i + 1)} (at {time[i]:g} s){more}"
        if steps[i] >= LONGEST_PAUSE:
            cause = "a clock that was set while it ran, or logs of different clocks joined"
            yield what, cause, "split the log there", "error"
        else:
            cause = "a servo that did not answer, or a pause between two motions"
            yield what, cause, "leave it, or split the log there", "warning"


def _values(columns: Mapping[str, FloatArray], row: Callable[[int], str]) -> Iterator[_Finding]:
    for name, values in columns.items():
        beyond = np.flatnonzero(np.abs(values) > LAST)
        if len(beyond):
            what = f"{_times(len(beyond), f'{name} is {values[beyond[0]]:.3g}')}, at {row(int(beyond[0]))}"
            cause = "a division by zero in the program that wrote it"
            yield what, cause, "correct these values or leave them blank", "error"
        if name == "position" and np.isnan(values).all():
            cause = "a servo that never answered, or a column that is not its own"
            yield "not one position is known", cause, "check its cable and id, or its column", "warning"
        size = float(np.abs(values[np.abs(values) <= LAST]).max(initial=0.0))
        limit, cause, column = _LIMITS.get(name, (math.inf, "", ""))
        if size > limit:
            angle = f"{size:.4g} rad, which is {math.degrees(size):.0f}°"
            what = f"{name} goes up to {angle if name in {'position', 'command'} else f'{size:g}'}"
            yield what, cause, f"import it with --column {column}", "warning"


def _largest_jump(time: FloatArray, columns: Mapping[str, FloatArray]) -> Iterator[_Finding]:
    jumps = _jumps(time, columns)
    if jumps and np.nanmax(np.abs(columns["position"])) <= _LIMITS["position"][0]:  # else the unit is wrong
        at, by = max(jumps, key=lambda jump: abs(jump[1]))
        what = f"{_times(len(jumps), 'the position jumps')}, by {math.degrees(by):+.0f}° at {at:.3f} s"
        cause = "a corrupt reading, a sensor that lost a turn, or motions joined without a pause"
        yield what, cause, "look at these samples; leave them blank if they are wrong", "warning"


def _jumps(time: FloatArray, columns: Mapping[str, FloatArray]) -> list[tuple[float, float]]:
    """Return (time, change) of too fast position changes; none in wheel mode, where the sensor wraps around."""
    if "position" not in columns:
        return []
    turning = ~np.isnan(columns["duty"]) if "duty" in columns else np.zeros(len(time), dtype=bool)
    known = np.isfinite(columns["position"]) & ~turning
    at, by = time[known], np.diff(columns["position"][known])
    far = np.flatnonzero(np.abs(by) > JUMP)
    by, within = by[far], at[far + 1] - at[far]
    fast = (within >= 0) & (np.abs(by) > TOO_FAST * within)
    return list(zip(at[far + 1][fast].tolist(), by[fast].tolist(), strict=True))


def _times(count: int, what: str) -> str:
    return what if count == 1 else f"{what} {count} times"
