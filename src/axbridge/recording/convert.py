"""Write recordings for other programs: tables as CSV or Parquet, and bags of ROS 2.

A table has a row per sample, or is wide. A bag, written without ROS, is a folder with an MCAP file of CDR messages and
``metadata.yaml``. Its topics are joint states, goals and events (JSON); the URDF and the pose of a walking robot's base
if known.
"""

from __future__ import annotations

import csv
import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError, UsageError, require
from axbridge.file_reading import printable, reading
from axbridge.files import replacing, writing
from axbridge.recording.recording import Recording
from axbridge.recording.step_format import BASE
from axbridge.recording.stored import log_origin, sampled_together
from axbridge.recording.tables import HEADERS, rounded, wide_parts
from axbridge.rotations import of_roll_pitch_yaw

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


ROBOT, JOINTS, COMMANDS = "/robot_description", "/joint_states", "/joint_commands"
TRANSFORMS, EVENTS = "/tf", "/events"
WORLD = "world"
_TYPES = {
    ROBOT: "std_msgs/msg/String",
    EVENTS: "std_msgs/msg/String",
    JOINTS: "sensor_msgs/msg/JointState",
    COMMANDS: "sensor_msgs/msg/JointState",
    TRANSFORMS: "tf2_msgs/msg/TFMessage",
}
_VERSION = 8  # of the bag format; ROS 2 from Humble on reads it
_OTHER_FILES = {".bag", ".csv", ".parquet", ".mcap"}  # readers take a .bag for one of ROS 1
_NOTHING = np.empty(0)


def check_bag(folder: Path, *, force: bool) -> None:
    """Raise UsageError for a folder to which no bag can be written."""
    require("writing a bag of ROS 2", "rosbags")
    import rosbags.rosbag2  # noqa: F401

    if folder.suffix in _OTHER_FILES:
        raise UsageError(f"{folder}: a bag of ROS 2 is a folder", f"name it {folder.with_suffix('')}")
    exists = folder.exists() or folder.is_symlink()
    if exists and not _is_bag(folder):
        raise UsageError(f"{folder} is already there, and is no bag", "give another name")
    if exists and not force:
        raise UsageError(f"{folder} is already there", "give another name, or replace it with --force")


def _is_bag(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return False
    inside = list(folder.iterdir())
    return folder / "metadata.yaml" in inside and all(
        path.is_file() and path.suffix in {".yaml", ".mcap", ".db3"} for path in inside
    )


def write_ros2(recording: Recording, folder: Path | str, *, force: bool = False) -> dict[str, int]:
    """Write a bag and return its number of messages by topic; times are wall-clock times, as in the recording."""
    folder = Path(folder)
    check_bag(folder, force=force)
    with reading(partial(RecordingError, recording.path), "record or import it again"), writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # The bag is written in a temporary folder, then renamed: no incomplete bag remains after a failure.
        with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=folder.parent) as part:
            new, old = Path(part) / folder.name, Path(part) / "old"
            counts = _write_bag(new, recording)
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
    return counts


def _write_bag(folder: Path, recording: Recording) -> dict[str, int]:
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store, origin = get_typestore(Stores.ROS2_HUMBLE), log_origin(recording)
    writer = Writer(folder, version=_VERSION, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        writer.set_custom_data("recording", printable(recording.path.name))
        channels: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for time, topic, message in _messages(recording, store.types):
            if topic not in channels:
                qos = [_latched()] if topic == ROBOT else []
                channels[topic] = writer.add_connection(topic, _TYPES[topic], typestore=store, offered_qos_profiles=qos)
            writer.write(channels[topic], _logged(origin, time), store.serialize_cdr(message, _TYPES[topic]))
            counts[topic] = counts.get(topic, 0) + 1
    return counts


def _latched() -> Any:
    """Return the quality of service of the description: late subscribers receive it, too."""
    from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

    ever = QosTime(0, 0)
    last = QosHistory.KEEP_LAST, 1, QosReliability.RELIABLE, QosDurability.TRANSIENT_LOCAL
    return Qos(*last, ever, ever, QosLiveliness.AUTOMATIC, ever, avoid_ros_namespace_conventions=False)


def _logged(origin: int, time: float) -> int:
    return max(origin + round(time * 1e9), 0)


def _messages(recording: Recording, types: Mapping[str, Any]) -> Iterator[tuple[float, str, Any]]:
    """Yield (time in s, topic, message) in order of time."""
    urdf = str(recording.metadata.get("urdf", ""))
    joints = {servo["name"]: servo["joint"] for servo in recording.metadata.get("rig", {}).get("servo", [])}
    origin = log_origin(recording)

    def header(time: float, frame: str = "") -> Any:
        logged = _logged(origin, time)
        stamp = types["builtin_interfaces/msg/Time"](sec=logged // 10**9, nanosec=logged % 10**9)
        return types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)

    def states(topic: str, columns: Sequence[str], servos: Sequence[str]) -> Iterator[tuple[float, str, Any]]:
        """Yield a message for each time at which a joint has a value in the first column."""
        names = np.array([printable(joints.get(servo, servo)) for servo in servos], dtype=object)
        tables = {key: np.stack([getattr(recording[servo], key) for servo in servos], axis=1) for key in columns}
        known, times = np.isfinite(tables[columns[0]]), recording[servos[0]].time
        for row in np.flatnonzero(known.any(axis=1)):
            known_values = {key: table[row, known[row]] for key, table in tables.items()}
            values = [known_values.get(key, _NOTHING) for key in (columns[0], "velocity", "torque")]
            time, messages = float(times[row]), (value if np.isfinite(value).any() else _NOTHING for value in values)
            yield time, topic, types[_TYPES[topic]](header(time), names[known[row]].tolist(), *messages)

    def events() -> Iterator[tuple[float, str, Any]]:
        for event in recording.events:
            text = json.dumps({"time": event.time, "name": event.name, "data": event.data})
            yield event.time, EVENTS, types[_TYPES[EVENTS]](data=text)

    def bases() -> Iterator[tuple[float, str, Any]]:
        root = ET.fromstring(urdf)  # noqa: S314 - entities are not resolved from outside
        moved = {child.get("link") for child in root.findall("joint/child")}
        base = next(name for link in root.findall("link") if (name := link.get("name", "")) not in moved)
        if not all(key in recording.cycles for key in BASE):
            return
        for time, *pose in np.stack([recording.cycles[key] for key in ("time", *BASE)], axis=1).tolist():
            if not np.isnan(pose).any():
                place = types["geometry_msgs/msg/Vector3"](*pose[:3])
                turn = types["geometry_msgs/msg/Quaternion"](*of_roll_pitch_yaw(*pose[3:]))
                transform = types["geometry_msgs/msg/Transform"](translation=place, rotation=turn)
                stamped = types["geometry_msgs/msg/TransformStamped"](header(time, WORLD), base, transform)
                yield time, TRANSFORMS, types[_TYPES[TRANSFORMS]]([stamped])

    servos = [name for name in recording if name in joints] or list(recording)
    groups = sampled_together({name: recording[name].time for name in servos})
    parts = [states(JOINTS, ("position", "velocity", "torque"), servos) for servos in groups]
    parts += [*(states(COMMANDS, ("command",), servos) for servos in groups), events()]
    if urdf:
        robot = types[_TYPES[ROBOT]](data=printable(urdf, lines=True))
        parts = [iter([(recording.start, ROBOT, robot)]), *parts, bases()]
    yield from merge(*parts, key=lambda message: message[0])
