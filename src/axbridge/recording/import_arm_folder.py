"""A folder with goals and states of an arm, as SAGE's collector for the SO-101 writes it, into a recording.

``control.csv`` has goals, ``state_motor.csv`` positions: a list in each cell, rad, and for a gripper 0 to 1 of its
range. The program stamps a row, µs, writes one goal after the other, each acknowledged, and then reads one servo after
the other (``so101_lerobot_collector.py``): each joint has times of its own. Speeds and currents have no unit.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.file_reading import reading, regular
from axbridge.recording.imported import Columns, Warned, recording_of
from axbridge.recording.recording import Event, Recording

_GRIPPER = "gripper"
_GOALS, _STATES = "control.csv", "state_motor.csv"
_TRANSACTION = 0.4e-3  # s: a packet and its answer through a USB adapter, at 1 Mbps
_READS = 3  # transactions a servo: position, velocity, current
_LARGEST = 1 << 27  # bytes of a file, unpacked: eight hours of six joints


def is_arm_folder(path: Path) -> bool:
    """Whether a folder holds goals and states of an arm."""
    return _found(path, _GOALS) is not None and _found(path, _STATES) is not None


def import_arm_folder(folder: Path | str, rig: Rig, *, warned: Warned = lambda _finding: None) -> Recording:
    """Read ``control.csv`` and ``state_motor.csv``, packed by gzip or not; their lists are in the order of the rig."""
    folder, count = Path(folder), len(rig.servos)
    (given, goals, _), (taken, states, places) = (_rows(folder, name, count) for name in (_GOALS, _STATES))
    obeyed = np.searchsorted(given, taken, side="right") - 1  # the goals that a state was read after
    if obeyed[0] < 0:
        raise RecordingError(folder, "has a state before the first goal", "copy both files of one motion")
    servos: dict[str, Columns] = {}
    for place, servo in enumerate(rig.servos):
        low, high = rig.stops_of(servo) if servo.name == _GRIPPER else (0.0, 1.0)
        values = {
            "time": taken + (count + _READS * place + 0.5) * _TRANSACTION,
            "command": low + (high - low) * goals[obeyed, place],
            "commanded": given[obeyed] + (place + 0.5) * _TRANSACTION,
            "position": low + (high - low) * states[:, place],
        }
        servos[servo.name] = Columns(values, places)
    motion = folder.resolve().name
    start = Event(float(taken[0]), "segment", {"name": motion})
    return recording_of(_found(folder, _STATES) or folder, servos, motion, warned, (start,))


def _found(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _rows(folder: Path, name: str, joints: int) -> tuple[FloatArray, FloatArray, Sequence[str]]:
    """Times (n,), s, values (n, joints), and what to call each row."""
    path = _found(folder, name)
    if path is None:
        raise RecordingError(folder, f"has no {name}", "copy the whole folder")
    with reading(partial(RecordingError, path), "copy the file again"):
        with regular(path).open("rb") as stream, gzip.open(stream) if path.suffix == ".gz" else stream as unpacked:
            content = unpacked.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise RecordingError(path, "is too large", "cut it into motions")
        rows = list(_read(path, content.decode("utf-8-sig"), joints))
        if not rows:
            raise RecordingError(path, "holds no samples", "record the motion again")
        stamps, cells, places = zip(*rows, strict=True)
        time, values = 1e-6 * np.array(stamps), np.array(cells)
        if not (np.isfinite(time).all() and np.isfinite(values).all()):
            raise RecordingError(path, "has a number that is not finite", "correct or remove that line")
        if not (np.diff(time) > 0).all():
            raise RecordingError(path, "has time stamps that do not rise", "put its lines in order of time")
    return time, values, places


def _read(path: Path, text: str, joints: int) -> Iterator[tuple[float, list[float], str]]:
    reader = csv.DictReader(io.StringIO(text))
    for row in reader:
        place = f"line {reader.line_num}"
        try:
            time, values = float(row["timestamp"]), [float(value) for value in json.loads(row["positions"])]
        except (TypeError, ValueError) as failure:
            raise RecordingError(path, f"{place} has no time and numbers", "correct or remove that line") from failure
        if len(values) != joints:
            raise RecordingError(path, f"{place} has {len(values)} joints, the rig {joints}", "name that arm's rig")
        yield time, values, place
