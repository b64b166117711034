"""One servo's samples in order of time; samples of one time become one, and no command gets lost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from axbridge.arrays import FloatArray, IntArray

COMMANDS = ("command", "torque_enabled", "duty", "speed_limit", "torque_limit")


def in_order(time: FloatArray, columns: Mapping[str, FloatArray]) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Put samples into strictly increasing time.

    Of samples of one time the last known value of each column stays, so that a goal given with the second of them is
    still there; `commanded` is when the goal that stays was first sent.
    """
    if (time[1:] > time[:-1]).all():  # as nearly always: compared, not subtracted, so nothing overflows
        return time, dict(columns)
    order = np.argsort(time, kind="stable")
    time = time[order]
    columns = {key: column[order] for key, column in columns.items()}
    fresh = np.ones(len(time), dtype=bool)
    fresh[1:] = time[1:] > time[:-1]
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(time)) - 1
    merged = {key: _last_known(column, first, last) for key, column in columns.items()}
    if "commanded" in columns:
        for group in np.flatnonzero(last > first):
            merged["commanded"][group] = _first_sent(columns, int(first[group]), int(last[group]))
    return time[first], merged


def _last_known(column: FloatArray, first: IntArray, last: IntArray) -> FloatArray:
    """Per group of rows `first`..`last` the last value that is not NaN."""
    latest = np.maximum.accumulate(np.where(np.isnan(column), -1, np.arange(len(column))))[last]
    return np.where(latest >= first, column[latest], np.nan)


def _first_sent(columns: Mapping[str, FloatArray], first: int, last: int) -> float:
    """When the commands of row `last` were sent for the first time within a group of rows."""
    kept = [columns[key] for key in COMMANDS if key in columns]
    row = last
    while row > first and all(np.array_equal(c[row - 1], c[last], equal_nan=True) for c in kept):
        row -= 1
    return float(columns["commanded"][row])
