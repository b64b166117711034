"""Import motions of arms: an episode of a LeRobot dataset (v2.0 to v3.0), or a folder of SAGE.

LeRobot normalises angles by the arm's calibration file (`lerobot/motors/motors_bus.py`): degrees from the middle of the
calibrated range (360 / 4095 per count), or -100 to 100 from end to end; grippers from 0 to 100. Until 2025 it wrote
degrees by a calibration that only the program stored (`apply_calibration`, `lerobot/common/robot_devices/motors/`).
SAGE's program stamps a row, µs, then writes the goals one by one, each with a reply, and reads the servos one by one
(``so101_lerobot_collector.py``). Each cell is a list, rad; a gripper has 0 to 1 of its range; speeds have no unit.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, RootModel

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, UsageError, plural, require
from axbridge.file_reading import printable, reading, refuse_other_kind, regular
from axbridge.recording.imported import Columns, Warned, recording_of
from axbridge.recording.provenance import validated
from axbridge.recording.recording import Event, Recording
from axbridge.recording.sample_quality import Oddity
from axbridge.units import almost_a_turn

UNITS = "deg", "rad", "normalised"
_INFO = Path("meta") / "info.json"
_STATE, _ACTION = "observation.state", "action"
_AXBRIDGE = "axbridge"  # robot type of axbridge's own datasets, in degrees of the joints
_GRIPPER = "gripper"  # LeRobot's grippers are recorded from 0 to 100, independent of the other joints' unit
_ONLY_ARM = "main_"  # before 2025, prefix of joint names in a dataset, but not in the calibration
_OTHERS = (".vel", ".effort", ".torque", ".current", ".load")
_COUNT, _MIDDLE = math.tau / 4096, 2048  # rad and counts, of the servos in LeRobot's arms
_COUNTS_PER_DEGREE = 4095 / 360  # counts
_NONE, _HINT = "is none of LeRobot's", "copy the file again"
_LARGEST = 1 << 24  # bytes of an info.json; video statistics of 10,000 episodes need less


class _Feature(BaseModel):
    names: list[str] | dict[str, list[str]] | None = None


class _Info(BaseModel):
    codebase_version: str
    robot_type: str | None = None
    fps: float = Field(gt=0, allow_inf_nan=False)
    total_episodes: int | None = None
    features: dict[str, Any]


class CalibratedJoint(BaseModel):
    """A joint in LeRobot's calibration file; LeRobot writes the same values to the servo's EEPROM."""

    id: int | None = None
    homing_offset: int = 0  # counts
    drive_mode: int = 0
    range_min: int = Field(ge=-(2**31), lt=2**31)
    range_max: int = Field(ge=-(2**31), lt=2**31)


_CalibratedJoints = RootModel[dict[str, CalibratedJoint]]


class _CalibrationBefore2025(BaseModel):
    """LeRobot's layout until 2025: lists with an entry for each motor. Its values are not in the servos' EEPROM."""

    motor_names: list[str]
    calib_mode: list[Literal["DEGREE", "LINEAR"]]
    homing_offset: list[int]  # counts
    drive_mode: list[int]
    start_pos: list[int]
    end_pos: list[int]


class _Scale(NamedTuple):
    """Conversion of a joint's values to rad: (value - zero) · factor; a description of the unit, and a doubt."""

    factor: float
    zero: float
    unit: str
    doubt: str = ""


def is_dataset(path: Path) -> bool:
    """Return whether a folder is a LeRobot dataset."""
    return (path / _INFO).is_file()


def import_dataset(
    folder: Path | str,
    episode: int = 0,
    *,
    unit: str | None = None,
    calibration: Path | str | None = None,
    warned: Warned = lambda _finding: None,
) -> Recording:
    """Read an episode: ``observation.state`` as positions, ``action`` as goals; `unit` is one of `UNITS`.

    Raises RecordingError for an invalid file, UsageError for a missing episode, unit or calibration.
    """
    folder = Path(folder)
    if unit is not None and unit not in UNITS:
        raise UsageError(f"{unit!r} is no unit of a dataset", f"units: {', '.join(UNITS)}")
    info = _info(folder / _INFO)
    calibrated = _calibrated_scales(Path(calibration), unit) if calibration is not None else None
    named = {key: _names(folder, info, key) for key in (_STATE, _ACTION)}
    if not named[_STATE]:
        raise RecordingError(folder, f"has no names for {_STATE}", "give a dataset of a robot with joints")
    scales, notes = _scales(folder, info, unit, calibrated, [*named[_STATE], *named[_ACTION]])
    with reading(partial(RecordingError, folder), "copy the dataset again"):
        source, time, columns = _rows(folder, episode, info, named)
        servos: dict[str, Columns] = {}
        for name, scale in scales.items():
            values = {
                field: (columns[key][:, named[key].index(name)] - scale.zero) * scale.factor
                for field, key in (("position", _STATE), ("command", _ACTION))
                if name in named[key]
            }
            servos[printable(name.removesuffix(".pos"))] = Columns({"time": time, **values}, "frame {}".format)
        facts = info.model_dump(include={"codebase_version", "robot_type", "fps"})
        facts |= {"dataset": folder.resolve().name, "episode": episode}
        facts["unit"] = {name: scale.unit for name, scale in scales.items()}
        motion = f"episode {episode}"
        start = Event(float(time[0]), "segment", {"name": motion})
        odd: list[Oddity] = []
        recording = recording_of(source, servos, motion, odd.append, events=(start,), lerobot=facts, notes=notes)
        in_degrees = [finding for finding in odd if unit == "rad" and "HEADER:deg" in finding.remedy]
        for finding in odd:
            if finding not in in_degrees:
                warned(finding)
        for finding in in_degrees[:1]:  # all joints of a dataset have the same unit
            warned(replace(finding, remedy="import it with --unit deg"))
        return recording


def _info(path: Path) -> _Info:
    with reading(partial(RecordingError, path), "give the folder of a LeRobot dataset, v2.0 to v3.0"):
        if regular(path).stat().st_size > _LARGEST:
            raise RecordingError(path, "is too large", "give the folder of a LeRobot dataset")
        info = validated(path, _NONE, _Info, json.loads(path.read_text(encoding="utf-8")), _HINT)
        if not info.codebase_version.startswith(("v2.", "v3.")):
            why = f"is of version {printable(info.codebase_version)}"
            raise RecordingError(path, why, "convert it to v2.0 up to v3.0 by LeRobot")
    return info


def read_calibration(path: Path) -> dict[str, CalibratedJoint]:
    """Return the joints of a LeRobot calibration file, by name.

    Raises:
        RecordingError: it is not such a file, or has the layout before 2025.
    """
    with reading(partial(RecordingError, path), "give the arm's calibration file of LeRobot"):
        refuse_other_kind(path, partial(RecordingError, path), but="a calibration of LeRobot")
        document = json.loads(regular(path).read_text(encoding="utf-8"))
        ranges = validated(path, _NONE, _CalibratedJoints, document, _HINT).root
        for name, limits in ranges.items():
            if limits.range_min >= limits.range_max:
                why = f"the range of {printable(name)} begins at {limits.range_min} and ends at {limits.range_max}"
                raise RecordingError(path, why, "calibrate the arm again")
    return ranges


def _calibrated_scales(path: Path, unit: str | None) -> dict[str, _Scale]:
    """Return the conversion of each joint of a calibration, from 2025 on or before.

    Before 2025, degrees were `(±counts + homing_offset) * 180 / 2048`.
    """
    with reading(partial(RecordingError, path), "give the arm's calibration file of LeRobot"):
        text = regular(path).read_text(encoding="utf-8")
        if '"calib_mode"' not in text:
            return {name: _range_scale(name, limits, unit) for name, limits in read_calibration(path).items()}
        early = validated(path, _NONE, _CalibrationBefore2025, json.loads(text), _HINT)
        if unit == "normalised":
            raise UsageError("LeRobot wrote degrees with a calibration from before 2025", "--unit deg")
        scales = {}
        if len({len(values) for values in vars(early).values()}) > 1:
            raise RecordingError(path, "has lists of different lengths", _HINT)
        lists = early.calib_mode, early.homing_offset, early.drive_mode, early.start_pos, early.end_pos
        for name, mode, homing, drive, start, end in zip(early.motor_names, *lists, strict=True):
            if mode == "DEGREE":
                counts = 2048 / 180 * (-1 if drive else 1)
                scales[name] = _scale(counts, -homing if not drive else homing, "deg of a calibration before 2025")
            else:
                scales[name] = _scale((end - start) / 100, start, "0 to 100 of a calibration before 2025")
        return scales


def _range_scale(name: str, limits: CalibratedJoint, unit: str | None) -> _Scale:
    """Return the conversion to rad from the servo's middle, by the calibrated range."""
    low, high = (limits.range_max, limits.range_min) if limits.drive_mode else (limits.range_min, limits.range_max)
    doubt = almost_a_turn(abs(high - low) * _COUNT)
    if name.endswith(_GRIPPER):
        return _scale((high - low) / 100, low, "0 to 100 of the calibrated range", doubt)
    if unit == "normalised":
        return _scale((high - low) / 200, 0.5 * (low + high), "-100 to 100 of the calibrated range", doubt)
    return _scale(_COUNTS_PER_DEGREE, 0.5 * (low + high), "deg from the middle of the calibrated range", doubt)


def _scale(counts: float, at_zero: float, unit: str, doubt: str = "") -> _Scale:
    """Return the conversion of a unit of `counts` counts whose 0 is at the count `at_zero`."""
    return _Scale(counts * _COUNT, (_MIDDLE - at_zero) / counts, unit, doubt)


def _names(folder: Path, info: _Info, key: str) -> list[str]:
    """Return the joints of a feature in order; [] if it is missing or has no names."""
    parts = validated(folder / _INFO, _NONE, _Feature, info.features.get(key, {}), _HINT).names or []
    names = parts if isinstance(parts, list) else [name for part in parts.values() for name in part]
    if len({name.removesuffix(".pos") for name in names}) != len(names):
        raise RecordingError(folder / _INFO, f"{key} has one name twice", "give each joint a name of its own")
    return names


def _scales(
    folder: Path, info: _Info, unit: str | None, calibrated: Mapping[str, _Scale] | None, names: Sequence[str]
) -> tuple[dict[str, _Scale], list[str]]:
    """Return the conversion of each joint's values to rad, and notes on what is left out."""
    if unit is None and info.robot_type != _AXBRIDGE:
        hint = "--unit deg or rad; LeRobot's -100 to 100: --unit normalised --calibration FILE.json"
        raise UsageError(f"{folder} does not say in which unit its joints are", hint)
    if unit == "normalised" and calibrated is None:
        why = "-100 to 100 means something only with the arm's range"
        raise UsageError(why, "add --calibration FILE.json, LeRobot's file")
    scales: dict[str, _Scale] = {}
    notes = []
    for name in dict.fromkeys(names):
        joint = name.removesuffix(".pos")
        if name.endswith(_OTHERS):
            notes.append(f"{printable(name)} is left out: it is no position")
        elif unit in {None, "rad"}:
            scales[name] = _Scale(math.radians(1.0) if unit is None else 1.0, 0.0, unit or "deg")
        elif calibrated is None and joint.endswith(_GRIPPER):
            why = "grippers are from 0 to 100 of their range; give --calibration FILE.json"
            notes.append(f"{printable(name)} is left out: {why}")
        elif calibrated is None:
            scales[name] = _Scale(math.radians(1.0), 0.0, "deg from the middle of the calibrated range")
        elif (scale := calibrated.get(joint) or calibrated.get(joint.removeprefix(_ONLY_ARM))) is None:
            raise UsageError(f"the calibration has no joint {printable(joint)}", f"it has {', '.join(calibrated)}")
        else:
            scales[name] = scale
            if scale.doubt:
                why = "LeRobot also writes this for a joint that turns without end"
                notes.append(f"{printable(joint)} {scale.doubt}; {why}")
    if not scales:
        raise UsageError(f"nothing of {folder} is a position", "; ".join(notes) or "give a dataset of a robot")
    return scales, notes


def _rows(
    folder: Path, episode: int, info: _Info, named: Mapping[str, Sequence[str]]
) -> tuple[Path, FloatArray, dict[str, FloatArray]]:
    """Return the episode's file, its times, s, (n,), and its values of each feature, (n, joints)."""
    require("reading a dataset", "pyarrow")
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    keys = [key for key in (_STATE, _ACTION) if named[key]]
    files = sorted(folder.glob("data/*/*.parquet"))
    for path in files:
        with reading(partial(RecordingError, path), "copy the dataset again; a killed LeRobot leaves half a file"):
            refuse_other_kind(path, partial(RecordingError, path), but="a Parquet file")
            # not by `read_table`, whose scanner waits for ever for some damaged files (pyarrow 26)
            with pq.ParquetFile(regular(path)) as file:
                batches = file.iter_batches(columns=["episode_index", "timestamp", *keys])
                rows = [batch.filter(pc.equal(batch["episode_index"], episode)) for batch in batches]
            table = pa.Table.from_batches(rows, rows[0].schema) if rows else None
            if table is None or not table.num_rows:
                continue
            time = _numbers(path, "timestamp", table["timestamp"].to_pylist(), ())
            columns = {key: _numbers(path, key, table[key].to_pylist(), (len(named[key]),)) for key in keys}
            return path, time, columns
    hint = f"it has {info.total_episodes}, from 0 on" if info.total_episodes is not None else "give another --episode"
    raise UsageError(f"{folder} has no episode {episode}", hint if files else "its folder data/ has no .parquet")


def _numbers(path: Path, key: str, values: Sequence[Any], shape: tuple[int, ...]) -> FloatArray:
    column: FloatArray = np.array(values, dtype=float)
    if column.shape != (len(values), *shape):
        raise RecordingError(path, f"{key} is of another shape than {_INFO} says", "copy the dataset again")
    if not np.isfinite(column).all():
        raise RecordingError(path, f"{key} has a value that is no finite number", "correct or remove that episode")
    return column


_GOALS, _STATES = "control.csv", "state_motor.csv"
_TRANSACTION = 0.4e-3  # s: a packet and its reply through a USB adapter, at 1 Mbps
_READS = 3  # transactions per servo: position, velocity, current
_LARGEST_LIST = 1 << 27  # bytes of a file, unpacked: eight hours of six joints


def is_arm_folder(path: Path) -> bool:
    """Return whether a folder has goals and states of an arm."""
    return all(_path_of(path, name) is not None for name in (_GOALS, _STATES))


def import_arm_folder(folder: Path | str, rig: Rig, *, warned: Warned = lambda _finding: None) -> Recording:
    """Read ``control.csv`` and ``state_motor.csv``, with gzip or without; their lists are in the order of the rig."""
    folder, count = Path(folder), len(rig.servos)
    (goal_times, goals, _), (state_times, states, places) = (_lists(folder, name, count) for name in (_GOALS, _STATES))
    goal_index = np.searchsorted(goal_times, state_times, side="right") - 1  # the last goals before each state
    if goal_index[0] < 0:
        raise RecordingError(folder, "has a state before the first goal", "copy both files of one motion")
    servos: dict[str, Columns] = {}
    for place, servo in enumerate(rig.servos):
        low, high = rig.specs[servo.name].stops if servo.name == _GRIPPER else (0.0, 1.0)
        values = {
            "time": state_times + (count + _READS * place + 0.5) * _TRANSACTION,
            "command": low + (high - low) * goals[goal_index, place],
            "commanded": goal_times[goal_index] + (place + 0.5) * _TRANSACTION,
            "position": low + (high - low) * states[:, place],
        }
        servos[servo.name] = Columns(values, places.__getitem__)
    motion = folder.resolve().name
    start = Event(float(state_times[0]), "segment", {"name": motion})
    return recording_of(_path_of(folder, _STATES) or folder, servos, motion, warned, events=(start,))


def _path_of(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _lists(folder: Path, name: str, joints: int) -> tuple[FloatArray, FloatArray, Sequence[str]]:
    """Return times (n,), s, values (n, joints), and the name of each row."""
    path = _path_of(folder, name)
    if path is None:
        raise RecordingError(folder, f"has no {name}", "copy the whole folder")
    stamps, cells, places = [], [], []
    with reading(partial(RecordingError, path), "copy the file again"):
        with regular(path).open("rb") as stream, gzip.open(stream) if path.suffix == ".gz" else stream as unpacked:
            content = unpacked.read(_LARGEST_LIST + 1)
        if len(content) > _LARGEST_LIST:
            raise RecordingError(path, "is too large", "cut it into motions")
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig")))
        for row in reader:
            places.append(f"line {reader.line_num}")
            try:
                stamps.append(1e-6 * float(row["timestamp"]))
                cells.append([float(value) for value in json.loads(row["positions"])])
            except (TypeError, ValueError) as failure:
                why = f"{places[-1]} has no time and numbers"
                raise RecordingError(path, why, "correct or remove that line") from failure
            if len(cells[-1]) != joints:
                why = f"{places[-1]} has {plural(len(cells[-1]), 'joint')}, the rig {joints}"
                raise RecordingError(path, why, "name its rig")
        if not stamps:
            raise RecordingError(path, "holds no samples", "record the motion again")
        time, values = np.array(stamps), np.array(cells)
        if not (np.isfinite(time).all() and np.isfinite(values).all()):
            raise RecordingError(path, "has a number that is not finite", "correct or remove that line")
        if not (np.diff(time) > 0).all():
            raise RecordingError(path, "has time stamps that do not rise", "put its lines in order of time")
    return time, values, places
