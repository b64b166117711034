"""A recording as a bag of ROS 2, written without ROS: a folder with an MCAP file of CDR messages and ``metadata.yaml``.

Topics: ``/joint_states`` and ``/joint_commands`` (sensor_msgs/JointState: what the servos did, and their goals), and
where they are known ``/robot_description`` (the URDF, once, for late subscribers, too), ``/tf`` (where the base
of a walking robot is) and ``/events`` (each as JSON). The library rosbags writes the file and knows the messages.
"""

from __future__ import annotations

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
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, UnsupportedOperation, UsageError
from axbridge.file_reading import printable, reading
from axbridge.files import make_folder, writing
from axbridge.recording.recording import Recording
from axbridge.recording.step_format import BASE
from axbridge.recording.stored import log_origin, sampled_together
from axbridge.recording.tables import even_times, resampled
from axbridge.rotations import of_roll_pitch_yaw

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
_VERSION = 8  # of the bag; ROS 2 since Humble reads it
_OTHER_FILES = {".csv", ".parquet", ".mcap"}
_NOTHING = np.empty(0)


def check_bag(folder: Path, *, force: bool) -> None:
    """Refuse a folder that no bag can be written to."""
    try:
        import rosbags.rosbag2  # noqa: F401
    except ImportError as failure:
        raise UnsupportedOperation(
            "writing a bag of ROS 2 needs rosbags, which is not installed", "python -m pip install rosbags"
        ) from failure
    if folder.suffix in _OTHER_FILES:
        raise UsageError(f"{folder}: a bag of ROS 2 is a folder", f"name it {folder.with_suffix('')}")
    if not folder.exists() and not folder.is_symlink():
        return
    if not _is_bag(folder):
        raise UsageError(f"{folder} is already there, and is no bag", "give another name")
    if not force:
        raise UsageError(f"{folder} is already there", "give another name, or replace it with --force")


def _is_bag(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return False
    inside = list(folder.iterdir())
    return folder / "metadata.yaml" in inside and all(
        path.is_file() and path.suffix in {".yaml", ".mcap", ".db3"} for path in inside
    )


def write_ros2(
    recording: Recording, folder: Path | str, rig: Rig | None = None, rate: float | None = None, *, force: bool = False
) -> dict[str, int]:
    """Write a bag; times are wall-clock times, as in the recording."""
    folder = Path(folder)
    check_bag(folder, force=force)
    with reading(partial(RecordingError, recording.path), "record or import it again"):
        urdf, joints = _robot_of(recording, rig)
        messages = _messages(recording, urdf, joints or {name: name for name in recording}, rate)
        with writing(folder):
            make_folder(folder)
            # A folder of its own beside the bag: a bag is there whole, or not at all.
            with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=folder.parent) as part:
                new, old = Path(part) / folder.name, Path(part) / "old"
                counts = _write(new, messages, recording)
                if folder.exists():
                    folder.rename(old)
                new.rename(folder)
    return counts


def _write(folder: Path, messages: Iterator[tuple[float, str, Any]], recording: Recording) -> dict[str, int]:
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

    store, origin = _store(), log_origin(recording)
    writer = Writer(folder, version=_VERSION, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        writer.set_custom_data("recording", printable(recording.path.name))
        channels: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for time, topic, message in messages:
            if topic not in channels:
                channels[topic] = writer.add_connection(
                    topic, _TYPES[topic], typestore=store, offered_qos_profiles=[_kept()] if topic == ROBOT else []
                )
            writer.write(channels[topic], _logged(origin, time), store.serialize_cdr(message, _TYPES[topic]))
            counts[topic] = counts.get(topic, 0) + 1
    return counts


def _store() -> Any:
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.ROS2_HUMBLE)


def _kept() -> Any:
    """The quality of service of a description: a late subscriber gets it, too."""
    from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

    any_time = QosTime(0, 0)
    return Qos(
        QosHistory.KEEP_LAST,
        1,
        QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL,
        any_time,
        any_time,
        QosLiveliness.AUTOMATIC,
        any_time,
        avoid_ros_namespace_conventions=False,
    )


def _logged(origin: int, time: float) -> int:
    return max(origin + round(time * 1e9), 0)


def _messages(
    recording: Recording, urdf: str, joints: Mapping[str, str], rate: float | None
) -> Iterator[tuple[float, str, Any]]:
    """Messages with their times, s, and topics, in order of time."""
    types, origin = _store().types, log_origin(recording)

    def header(time: float, frame: str = "") -> Any:
        logged = _logged(origin, time)
        stamp = types["builtin_interfaces/msg/Time"](sec=logged // 10**9, nanosec=logged % 10**9)
        return types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)

    def states(topic: str, columns: Sequence[str]) -> Iterator[tuple[float, str, Any]]:
        for time, names, values in _joint_rows(recording, joints, columns, rate):
            rest = [values.get(key, _NOTHING) for key in ("velocity", "torque")]
            yield time, topic, types[_TYPES[topic]](header(time), names, values[columns[0]], *rest)

    def events() -> Iterator[tuple[float, str, Any]]:
        for event in recording.events:
            text = json.dumps({"time": event.time, "name": event.name, "data": event.data})
            yield event.time, EVENTS, types[_TYPES[EVENTS]](data=text)

    def bases() -> Iterator[tuple[float, str, Any]]:
        base = _base_link(urdf)
        if not all(key in recording.cycles for key in BASE):
            return
        for time, *pose in np.stack([recording.cycles[key] for key in ("time", *BASE)], axis=1).tolist():
            if not np.isnan(pose).any():
                transform = types["geometry_msgs/msg/Transform"](
                    translation=types["geometry_msgs/msg/Vector3"](*pose[:3]),
                    rotation=types["geometry_msgs/msg/Quaternion"](*of_roll_pitch_yaw(*pose[3:])),
                )
                stamped = types["geometry_msgs/msg/TransformStamped"](header(time, WORLD), base, transform)
                yield time, TRANSFORMS, types[_TYPES[TRANSFORMS]]([stamped])

    parts = [states(JOINTS, ("position", "velocity", "torque")), states(COMMANDS, ("command",)), events()]
    if urdf:
        robot = types[_TYPES[ROBOT]](data=printable(urdf, lines=True))
        parts = [iter([(recording.start, ROBOT, robot)]), *parts, bases()]
    yield from merge(*parts, key=lambda message: message[0])


def _joint_rows(
    recording: Recording, joints: Mapping[str, str], columns: Sequence[str], rate: float | None
) -> Iterator[tuple[float, list[str], dict[str, FloatArray]]]:
    """Each time at which a joint has a value in the first of `columns`, which joints these are, and what is known."""
    tracks = {name: recording[name] for name in joints}
    even = None if rate is None else even_times(recording.spans(), rate)
    groups = sampled_together(tracks) if even is None else [tuple(tracks)]
    parts = []
    for servos in groups:
        some = [tracks[servo] for servo in servos]
        names = np.array([printable(joints[servo]) for servo in servos], dtype=object)
        time = some[0].time if even is None else even
        tables = {
            key: np.stack(
                [
                    getattr(track, key) if even is None else resampled(key, track.time, getattr(track, key), even)
                    for track in some
                ],
                axis=1,
            )
            for key in columns
        }
        parts.append(_rows(time, names, tables))
    return merge(*parts, key=lambda row: row[0])


def _rows(
    time: FloatArray, names: Any, tables: Mapping[str, FloatArray]
) -> Iterator[tuple[float, list[str], dict[str, FloatArray]]]:
    known = np.isfinite(next(iter(tables.values())))
    for row in np.flatnonzero(known.any(axis=1)):
        values = {key: table[row, known[row]] for key, table in tables.items()}
        yield (
            float(time[row]), names[known[row]].tolist(),
            {key: value for key, value in values.items() if not np.isnan(value).all()},
        )  # fmt: skip


def _robot_of(recording: Recording, rig: Rig | None = None) -> tuple[str, dict[str, str]]:
    """The URDF of a recording's robot, and the joint of each of its servos; both empty where it does not say."""
    if rig is not None:
        urdf, joints = rig.urdf_text(), {servo.name: servo.joint for servo in rig.servos}
    else:
        urdf = str(recording.metadata.get("urdf", ""))
        servos = recording.metadata.get("rig", {}).get("servo", [])
        joints = {servo["name"]: servo["joint"] for servo in servos}
    known = {name: joints[name] for name in recording if name in joints}
    if joints and not known:
        raise UsageError(
            f"no servo of {recording.path} ({', '.join(recording)}) is one of the rig's ({', '.join(joints)})",
            "name another rig with --rig",
        )
    return urdf, known


def _base_link(urdf: str) -> str:
    """The link that no joint moves."""
    root = ET.fromstring(urdf)  # noqa: S314 - entities are not resolved from outside
    moved = {child.get("link") for child in root.findall("joint/child")}
    return next(name for link in root.findall("link") if (name := link.get("name", "")) not in moved)
