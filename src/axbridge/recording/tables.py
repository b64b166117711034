"""Combine samples to one wide table: a row for each time, a column for each servo and quantity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError, require
from axbridge.recording.sample_quality import GAP
from axbridge.servo import checks

_COLUMNS = {
    # by field: its header, and its significant decimal places: a microsecond, and a hundredth or less of a servo's
    # resolution (5 mrad, 0.01 rad/s, 0.1 % of duty, 0.1 V, 1 °C)
    "time": ("time_s", 6),
    "command": ("command_rad", 6),
    "commanded": ("commanded_s", 6),
    "position": ("position_rad", 6),
    "velocity": ("velocity_rad_s", 5),
    "load": ("load", 5),
    "voltage": ("voltage_V", 3),
    "temperature": ("temperature_C", 2),
    "errors": ("errors", 0),
    "torque": ("torque_Nm", 5),
    "torque_enabled": ("torque_enabled", 0),
    "power": ("power_W", 5),
    "true_position": ("true_position_rad", 6),
    "true_torque": ("true_torque_Nm", 5),
    "speed_limit": ("speed_limit_rad_s", 5),
    "duty": ("duty", 5),
    "torque_limit": ("torque_limit", 5),
}
HEADERS = {key: header for key, (header, _) in _COLUMNS.items()}

_HELD = {"command", "commanded", "torque_enabled", "speed_limit", "duty", "torque_limit", "errors"}
_MAX_ROWS = 50_000_000
_SAME = 1e-9  # s: times this close are equal


def rounded(key: str, value: float) -> str:
    """Return a value of column `key` with its significant digits; "" if it is unknown."""
    if math.isnan(value):
        return ""
    text = f"{value:.{_COLUMNS[key][1]}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def wide_parts(
    servos: Mapping[str, Mapping[str, FloatArray]], rate: float | None = None, rows: int = _MAX_ROWS
) -> Iterator[tuple[FloatArray, dict[tuple[str, str], FloatArray]]]:
    """Yield samples of several servos on common times, in blocks of `rows` rows; at least one block, maybe empty.

    With a `rate` (Hz), measurements are interpolated, but not across a gap (more than 2.5 times the usual spacing) and
    not beyond the ends. Goals and settings are held until the next. A row has all error bits since the row before it.
    """
    times = {name: columns["time"] for name, columns in servos.items()}
    at = np.unique(np.concatenate([np.empty(0), *times.values()])) if rate is None else _even_times(times, rate)
    places = {name: np.searchsorted(at, time) if rate is None else np.arange(len(at)) for name, time in times.items()}
    table = {
        (name, key): values if rate is None else _resampled(key, times[name], values, at)
        for name, columns in servos.items()
        for key, values in columns.items()
        if key != "time"
    }
    for first in range(0, max(1, len(at)), rows):
        part = {key: np.full(len(at[first : first + rows]), np.nan) for key in table}
        for (name, key), values in table.items():
            chosen = slice(*np.searchsorted(places[name], (first, first + rows)))
            part[name, key][places[name][chosen] - first] = values[chosen]
        yield at[first : first + rows], part


def data_frame(
    servos: Mapping[str, Mapping[str, FloatArray]], headers: Mapping[str, str], rate: float | None = None
) -> Any:
    """Return `wide_parts` as a pandas DataFrame; raise UnsupportedOperation without pandas."""
    require("a DataFrame", "pandas")
    import pandas as pd

    ((time, columns),) = wide_parts(servos, rate)
    named = {f"{servo}.{headers[key]}": values for (servo, key), values in columns.items()}
    return pd.DataFrame(named, index=pd.Index(time, name=HEADERS["time"]))


def _even_times(sampled: Mapping[str, FloatArray], rate: float) -> FloatArray:
    """Return even times from the first to the last sample of all, s, (m,); raise UsageError for an invalid rate."""
    rate = checks.number(rate, "a rate")
    if not 0 < rate < math.inf:
        raise UsageError(f"a rate of {rate:g} rows a second makes no table", "give a positive rate, as 50")
    ends = [time[[0, -1]] for time in sampled.values() if len(time)]
    if not ends:
        return np.empty(0)
    start, end = np.min(ends), np.max(ends)
    count = (end - start) * rate
    if count > _MAX_ROWS:
        raise UsageError(f"{rate:g} rows a second make {count:.3g} rows in {end - start:g} s", "give a lower rate")
    return start + np.arange(math.floor(count + 1e-6) + 1) / rate


def _resampled(key: str, time: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    """Return a column (n,) at other times (m,), as described in `wide_parts`."""
    known = np.isfinite(values)
    time, end, values = time[known], time[-1] if len(time) else -math.inf, values[known]
    if not len(time):
        return np.full(len(at), np.nan)
    if key not in _HELD:
        return _interpolated(time, values, at)
    index = np.searchsorted(time, at + _SAME, side="right") - 1
    held = np.where((index >= 0) & (at <= end + _SAME), values[index], np.nan)
    return _with_every_bit(time, values, at, held) if key == "errors" else held


def _interpolated(time: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    result: FloatArray = np.interp(at, time, values)
    result[(at < time[0] - _SAME) | (at > time[-1] + _SAME)] = np.nan
    if len(time) < 2:
        return result
    spacing = np.diff(time)
    before = np.clip(np.searchsorted(time, at, side="right") - 1, 0, len(spacing) - 1)
    inside = (at > time[before] + _SAME) & (at < time[before + 1] - _SAME)
    result[inside & (spacing[before] > GAP * np.median(spacing))] = np.nan
    return result


def _with_every_bit(time: FloatArray, values: FloatArray, at: FloatArray, held: FloatArray) -> FloatArray:
    """Return values with all error bits since the row before."""
    row = np.searchsorted(at, time - _SAME)
    later = (row < len(at)) & (values != 0)
    bits = np.nan_to_num(held).astype(np.int64)
    np.bitwise_or.at(bits, row[later], values[later].astype(np.int64))
    return np.where(np.isnan(held), np.nan, bits)
