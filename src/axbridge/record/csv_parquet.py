"""Recordings as tables: one row a sample, for spreadsheets, pandas and plotting tools."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np

from axbridge.errors import UnsupportedOperation
from axbridge.files import replacing, unwritable, write_whole
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
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    known = _known(recording)
    writer.writerow(["servo", *(HEADERS[key] for key in known)])
    for name, track in recording.tracks.items():
        columns = [getattr(track, key).tolist() for key in known]
        for row in zip(*columns, strict=True):
            writer.writerow([name, *("" if math.isnan(value) else repr(value) for value in row)])
    try:
        write_whole(path, text.getvalue())
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
            "python -m pip install 'axbridge[parquet]', or convert to .csv",
        ) from failure
    known = _known(recording)
    columns = {"servo": pa.array([name for name, track in recording.tracks.items() for _ in range(len(track))])}
    for key in known:
        values = [getattr(track, key) for track in recording.tracks.values()]
        joined = np.concatenate(values) if values else np.empty(0)
        columns[HEADERS[key]] = pa.array(joined, mask=np.isnan(joined))
    try:
        with replacing(path) as temporary:
            pq.write_table(pa.table(columns), str(temporary))
    except OSError as failure:
        raise unwritable(path, failure) from failure


def _known(recording: Recording) -> list[str]:
    """Columns in which at least one servo has a value."""
    tracks = recording.tracks.values()
    return [key for key in HEADERS if any(not np.isnan(getattr(track, key)).all() for track in tracks) or key == "time"]
