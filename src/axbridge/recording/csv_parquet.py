"""Write recordings as CSV or Parquet for spreadsheets, pandas and plotting tools: a row per sample, or wide."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import require
from axbridge.file_reading import printable
from axbridge.files import replacing, writing
from axbridge.recording.recording import Recording
from axbridge.recording.tables import HEADERS, rounded, wide_parts

_CELLS = 250_000  # numbers in memory at once
_Block = tuple[str | None, list[FloatArray]]  # rows of a table: servo (None in a wide table), and columns (n,)


def write_csv(recording: Recording, path: Path | str, *, wide: bool = False, rate: float | None = None) -> int:
    """Write a table and return its number of rows; unknown values are empty, insignificant digits are left out."""
    headers, keys, blocks = _table(recording, wide=wide, rate=rate)
    rows = 0
    with writing(path), replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(headers)
        for servo, columns in blocks:
            name = [] if servo is None else [printable(servo)]
            texts = (map(rounded, itertools.repeat(key), column.tolist())
                     for key, column in zip(keys, columns, strict=True))  # fmt: skip
            for row in zip(*texts, strict=True):
                writer.writerow([*name, *row])
                rows += 1
    return rows


def write_parquet(recording: Recording, path: Path | str, *, wide: bool = False, rate: float | None = None) -> int:
    """Write the table of `write_csv` as Parquet, with unrounded numbers; return its number of rows."""
    require("writing Parquet (.csv needs nothing)", "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    headers, keys, blocks = _table(recording, wide=wide, rate=rate)
    kinds = [pa.string()] * (len(headers) - len(keys)) + [pa.float64()] * len(keys)
    schema, rows = pa.schema(list(zip(headers, kinds, strict=True))), 0
    with writing(path), replacing(path) as temporary, pq.ParquetWriter(str(temporary), schema) as writer:
        for servo, columns in blocks:
            cells: list[Any] = [] if servo is None else [[servo] * len(columns[0])]
            cells += [pa.array(column, mask=np.isnan(column)) for column in columns]
            writer.write_table(pa.table(cells, schema=schema))
            rows += len(columns[0])
    return rows


def _table(recording: Recording, *, wide: bool, rate: float | None) -> tuple[list[str], list[str], Iterator[_Block]]:
    """Return the headers, the quantity of each numeric column, and the blocks of rows."""
    if wide:
        known = {name: track.known for name, track in recording.items()}
        headers = [f"{printable(name)}.{HEADERS[key]}" for name, keys in known.items() for key in list(keys)[1:]]
        every = ["time", *(key for keys in known.values() for key in list(keys)[1:])]
        parts = wide_parts(known, rate, max(1, _CELLS // len(every)))
        return [HEADERS["time"], *headers], every, ((None, [time, *values.values()]) for time, values in parts)
    names = {key for track in recording.values() for key in track.known} | {"time"}
    every = [key for key in HEADERS if key in names]
    rows = max(1, _CELLS // len(every))
    blocks = (
        (name, [getattr(track, key)[first : first + rows] for key in every])
        for name, track in recording.tracks.items()
        for first in range(0, len(track), rows)
    )
    return ["servo", *(HEADERS[key] for key in every)], every, blocks
