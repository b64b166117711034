"""A folder with goals and states of an arm, as SAGE's collector for the SO-101 writes it, into a recording.

``control.csv`` has a column of goals, ``state_motor.csv`` one of positions; each cell is a list with a number a joint:
rad, and for a gripper 0 to 1 of its range. A row has one time stamp, in µs, taken before anything was sent (SAGE's
``so101_lerobot_collector.py``). Then the program writes one goal after the other, each acknowledged, and reads
position, velocity and current of one servo after the other. So each joint has times of its own.

Velocities and currents are left out: the first are differences of positions, in steps of 50 counts/s, and nothing says
in which unit either is.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError
from axbridge.file_reading import reading, regular
from axbridge.recording.imported import Columns, Warned, recording_of
from axbridge.recording.recording import Event, Recording

GRIPPER = "gripper"
_GOALS, _STATES = "control.csv", "state_motor.csv"
_TRANSACTION = 0.4e-3  # s: a packet and its answer through a USB adapter, at 1 Mbps
_READS = 3  # transactions a servo: position, velocity, current
_LARGEST = 1 << 27  # bytes of a file, unpacked: eight hours of six joints


class Joint(NamedTuple):
    """A joint of the lists.

    Attributes:
        name: Of its servo.
        ends: What 0 and 1 mean, rad; None where the numbers are rad.
    """

    name: str
    ends: tuple[float, float] | None = None


class _Rows(NamedTuple):
    time: FloatArray  # s, (n,)
    values: FloatArray  # (n, joints)
    places: list[str]  # what to call each


def is_arm_folder(path: Path) -> bool:
    """Whether a folder holds goals and states of an arm."""
    return _found(path, _GOALS) is not None and _found(path, _STATES) is not None


def import_arm_folder(
    folder: Path | str, joints: Sequence[Joint], *, warned: Warned = lambda _finding: None
) -> Recording:
    """Read ``control.csv`` and ``state_motor.csv``, packed by gzip or not; `joints` are in the order of their lists."""
    folder = Path(folder)
    goals, states = (_rows(folder, name, len(joints)) for name in (_GOALS, _STATES))
    obeyed = np.searchsorted(goals.time, states.time, side="right") - 1  # the goals that a state was read after
    if obeyed[0] < 0:
        raise RecordingError(folder, "has a state before the first goal", "copy both files of one motion")
    servos: dict[str, Columns] = {}
    for place, (name, ends) in enumerate(joints):
        low, high = ends or (0.0, 1.0)
        values = {
            "time": states.time + (len(joints) + _READS * place + 0.5) * _TRANSACTION,
            "command": low + (high - low) * goals.values[obeyed, place],
            "commanded": goals.time[obeyed] + (place + 0.5) * _TRANSACTION,
            "position": low + (high - low) * states.values[:, place],
        }
        servos[name] = Columns(values, states.places)
    motion = folder.resolve().name
    start = Event(float(states.time[0]), "segment", {"name": motion})
    return recording_of(_found(folder, _STATES) or folder, servos, motion, warned, (start,))


def _found(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _rows(folder: Path, name: str, joints: int) -> _Rows:
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
        time, values, places = zip(*rows, strict=True)
        found = _Rows(1e-6 * np.array(time), np.array(values), list(places))
        if not (np.isfinite(found.time).all() and np.isfinite(found.values).all()):
            raise RecordingError(path, "has a number that is not finite", "correct or remove that line")
        if not (np.diff(found.time) > 0).all():
            raise RecordingError(path, "has time stamps that do not rise", "put its lines in order of time")
    return found


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
