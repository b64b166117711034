"""Recordings as files for spreadsheets, pandas and plotting tools: a row a sample, or wide.

Of a long table one servo is in memory at a time, of a wide one all.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import UnsupportedOperation
from axbridge.files import replacing, unwritable
from axbridge.record.recording import Recording
from axbridge.record.tables import HEADERS, rounded

__all__ = ["Written", "write_csv", "write_parquet"]


@dataclass(frozen=True)
class Written:
    """What a file holds.

    Attributes:
        rows: Without the line of headers.
        columns: That of the time, and of the servos' names, included.
    """

    rows: int
    columns: int


@dataclass(frozen=True)
class _Block:
    """Rows of a table: the servo they belong to (None: every column says), and columns (n,) in order."""

    servo: str | None
    columns: list[FloatArray]


def write_csv(recording: Recording, path: Path | str, *, wide: bool = False, rate: float | None = None) -> Written:
    """Write a table; unknown values are empty, numbers have the digits that carry something.

    Args:
        recording: What to write.
        path: The file.
        wide: False: a row a sample and servo, in order of servo and time. True: a row a moment, a column a servo and
            quantity (`axbridge.record.tables.wide_table`).
        rate: Of a wide table: rows a second; None: a row at each sample.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
        UsageError: a rate that is not positive.
    """
    headers, keys, blocks = _table(recording, wide=wide, rate=rate)
    rows = 0
    try:
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(headers)
            for block in blocks:
                name = [] if block.servo is None else [block.servo]
                texts = (map(rounded, itertools.repeat(key), column.tolist())
                         for key, column in zip(keys, block.columns, strict=True))  # fmt: skip
                for row in zip(*texts, strict=True):
                    writer.writerow([*name, *row])
                    rows += 1
    except OSError as failure:
        raise unwritable(path, failure) from failure
    return Written(rows, len(headers))


def write_parquet(recording: Recording, path: Path | str, *, wide: bool = False, rate: float | None = None) -> Written:
    """The table of `write_csv` as Parquet, its numbers as they were recorded.

    Raises:
        UnsupportedOperation: pyarrow is not installed.
        RecordingError: it cannot be written; what was at `path` stays.
        UsageError: a rate that is not positive.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as failure:
        raise UnsupportedOperation(
            "writing Parquet needs pyarrow, which is not installed",
            "python -m pip install pyarrow, or convert to .csv",
        ) from failure
    headers, keys, blocks = _table(recording, wide=wide, rate=rate)
    names = headers[: len(headers) - len(keys)]
    kinds = pa.schema(
        [*((name, pa.string()) for name in names), *((name, pa.float64()) for name in headers[len(names) :])]
    )
    rows = 0
    try:
        with replacing(path) as temporary, pq.ParquetWriter(str(temporary), kinds) as writer:
            for block in blocks:
                count = len(block.columns[0])
                columns: list[Any] = [] if block.servo is None else [pa.array([block.servo] * count, pa.string())]
                columns += [pa.array(column, mask=np.isnan(column)) for column in block.columns]
                writer.write_table(pa.Table.from_arrays(columns, schema=kinds))
                rows += count
    except OSError as failure:
        raise unwritable(path, failure) from failure
    return Written(rows, len(headers))


def _table(recording: Recording, *, wide: bool, rate: float | None) -> tuple[list[str], list[str], Iterator[_Block]]:
    """Headers, what each column of numbers is, and the rows."""
    if wide:
        time, columns = recording.wide(rate)
        headers = [HEADERS["time"], *(f"{servo}.{HEADERS[key]}" for servo, key in columns)]
        keys = ["time", *(key for _, key in columns)]
        return headers, keys, iter([_Block(None, [time, *columns.values()])])
    found = {key for name in recording for key in recording.facts(name).columns}
    known = [key for key in HEADERS if key in found or key == "time"]
    blocks = (_Block(name, [getattr(track, key) for key in known]) for name, track in recording.tracks.items())
    return ["servo", *(HEADERS[key] for key in known)], known, blocks
