"""Recordings as tables: one row a sample, for spreadsheets, pandas and plotting tools.

One servo is in memory at a time.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from axbridge.errors import UnsupportedOperation
from axbridge.files import replacing, unwritable
from axbridge.record.recording import Recording

__all__ = ["HEADERS", "write_csv", "write_parquet"]

HEADERS = {
    "time": "time_s",
    "command": "command_rad",
    "commanded": "commanded_s",
    "position": "position_rad",
    "velocity": "velocity_rad_s",
    "load": "load",
    "voltage": "voltage_V",
    "temperature": "temperature_C",
    "errors": "errors",
    "torque": "torque_Nm",
    "torque_enabled": "torque_enabled",
    "power": "power_W",
    "true_position": "true_position_rad",
    "true_torque": "true_torque_Nm",
    "speed_limit": "speed_limit_rad_s",
    "duty": "duty",
    "torque_limit": "torque_limit",
}


def write_csv(recording: Recording, path: Path | str) -> None:
    """One row a sample and servo, in order of servo and time; unknown values are empty, numbers exact.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    known = _known(recording)
    try:
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["servo", *(HEADERS[key] for key in known)])
            for name, track in recording.tracks.items():
                columns = [getattr(track, key).tolist() for key in known]
                for row in zip(*columns, strict=True):
                    writer.writerow([name, *("" if math.isnan(value) else repr(value) for value in row)])
    except OSError as failure:
        raise unwritable(path, failure) from failure


def write_parquet(recording: Recording, path: Path | str) -> None:
    """The table of `write_csv` as Parquet.

    Raises:
        UnsupportedOperation: pyarrow is not installed.
        RecordingError: it cannot be written; what was at `path` stays.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as failure:
        raise UnsupportedOperation(
            "writing Parquet needs pyarrow, which is not installed",
            "python -m pip install pyarrow, or convert to .csv",
        ) from failure
    known = _known(recording)
    kinds = pa.schema([("servo", pa.string()), *((HEADERS[key], pa.float64()) for key in known)])
    try:
        with replacing(path) as temporary, pq.ParquetWriter(str(temporary), kinds) as writer:
            for name, track in recording.tracks.items():
                values = [getattr(track, key) for key in known]
                columns = [
                    pa.array([name] * len(track)),
                    *(pa.array(column, mask=np.isnan(column)) for column in values),
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=kinds))
    except OSError as failure:
        raise unwritable(path, failure) from failure


def _known(recording: Recording) -> list[str]:
    """Columns in which at least one servo has a value."""
    found = {key for name in recording for key in recording.facts(name).columns}
    return [key for key in HEADERS if key in found or key == "time"]
