"""A recording's samples on common times, some rows at a time: however long it is, one servo's samples are in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.recording.recording import Recording
from axbridge.recording.tables import even_times, every_time, resampled

_CELLS = 250_000  # numbers in memory at a time


def wide_rows(
    recording: Recording, known: Mapping[str, Sequence[str]], rate: float | None = None
) -> Iterator[tuple[FloatArray, dict[tuple[str, str], FloatArray]]]:
    """The rows of `axbridge.recording.tables.wide_table`, in order and in parts.

    Args:
        recording: Whose.
        known: The columns of each servo.
        rate: Rows a second; None: a row at each time of any servo, nothing interpolated.

    Yields:
        time (m,), s, and columns (m,) by servo and name, in the order of `known`, NaN where nothing is known.

    Raises:
        UsageError: a rate that is not positive.
    """
    at = None if rate is None else even_times(recording.spans(), rate)
    times: dict[str, FloatArray] = {}
    with tempfile.TemporaryFile() as shelf:  # every column, one after the other
        for name, keys in known.items():
            track = recording[name]
            times[name] = track.time if at is None else at
            for key in keys:
                column = getattr(track, key)
                column = column if at is None else resampled(key, track.time, column, at)
                shelf.write(column.tobytes())
        at = every_time(times.values()) if at is None else at
        rows = max(1, _CELLS // (1 + sum(map(len, known.values()))))
        for first in range(0, len(at), rows):
            moments = at[first : first + rows]
            block: dict[tuple[str, str], FloatArray] = {}
            place = 0
            for name, keys in known.items():
                time = times[name]
                low, high = np.searchsorted(time, moments[0]), np.searchsorted(time, moments[-1], side="right")
                where = np.searchsorted(moments, time[low:high])
                for key in keys:
                    column = np.full(len(moments), np.nan)
                    shelf.seek(8 * (place + int(low)))
                    column[where] = np.frombuffer(shelf.read(8 * int(high - low)))
                    place += len(time)
                    block[name, key] = column
            yield moments, block
