"""A recording as a bag of ROS 2, written without ROS: a folder with an MCAP file of CDR messages and ``metadata.yaml``.

Topics: ``/joint_states`` and ``/joint_commands`` (sensor_msgs/JointState: what the servos did, and their goals), and
where they are known ``/robot_description`` (the URDF, once, for whoever subscribes later, too), ``/tf`` (where the base
of a walking robot is) and ``/events`` (each as JSON). The library rosbags writes the file and knows the messages.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from heapq import merge
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, UnsupportedOperation, UsageError
from axbridge.file_reading import printable, reading
from axbridge.files import make_folder, writing
from axbridge.recording.recording import Recording
from axbridge.recording.robot_states import JointRow, base_link, base_poses, joint_rows, robot_of
from axbridge.recording.stored import log_origin

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
    """Refuse a folder that no bag can be written to.

    Args:
        folder: Of the bag.
        force: Whether a bag that is there may be replaced. Nothing else ever is.

    Raises:
        UsageError: it has the name of a file, or is there; names it.
        UnsupportedOperation: rosbags is not installed.
    """
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
    """Write a bag; times are wall-clock times, as in the recording. In memory are one servo's samples at most.

    Args:
        recording: What to write.
        folder: Of the bag. What is there stays, unless `force` and it is a bag.
        rig: The robot, where the recording does not say. Without one, joints are called as their servos.
        rate: Joint states a second, each of all joints; None: one at each sample, of the joints sampled then.
        force: Whether a bag that is there is replaced.

    Returns:
        How many messages each topic has.

    Raises:
        UsageError: as `check_bag`; a rate that is not positive; no servo of the recording is one of the rig's.
        UnsupportedOperation: rosbags is not installed.
        RecordingError: the bag cannot be written, or the recording makes no sense.
    """
    folder = Path(folder)
    check_bag(folder, force=force)
    with reading(partial(RecordingError, recording.path), "record or import it again"):
        urdf, joints = robot_of(recording, rig)
        joints = joints or {name: name for name in recording}
        messages = _Messages(log_origin(recording), base_link(urdf) if urdf else "")
        with writing(folder):
            make_folder(folder)
            # A folder of its own beside the bag: a bag is there whole, or not at all.
            with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=folder.parent) as part:
                new, old = Path(part) / folder.name, Path(part) / "old"
                counts = _write(new, messages.of(recording, urdf, joints, rate), recording)
                if folder.exists():
                    folder.rename(old)
                new.rename(folder)
    return counts


def _write(folder: Path, messages: Iterator[tuple[float, str, int, Any]], recording: Recording) -> dict[str, int]:
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

    store = _store()
    writer = Writer(folder, version=_VERSION, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        writer.set_custom_data("recording", printable(recording.path.name))
        channels: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for _, topic, logged, message in messages:
            if topic not in channels:
                channels[topic] = writer.add_connection(
                    topic, _TYPES[topic], typestore=store, offered_qos_profiles=[_kept()] if topic == ROBOT else []
                )
            writer.write(channels[topic], logged, store.serialize_cdr(message, _TYPES[topic]))
            counts[topic] = counts.get(topic, 0) + 1
    return counts


def _store() -> Any:
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.ROS2_HUMBLE)


def _kept() -> Any:
    """The quality of service of a description: whoever subscribes later gets it, too."""
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


class _Messages:
    """Messages of ROS 2, each with its time, s, its topic and its log time, ns; in order of time."""

    def __init__(self, origin: int, base: str) -> None:
        self._origin, self._base = origin, base
        self._types: Mapping[str, Any] = _store().types

    def of(
        self, recording: Recording, urdf: str, joints: Mapping[str, str], rate: float | None
    ) -> Iterator[tuple[float, str, int, Any]]:
        joints = {name: printable(joint) for name, joint in joints.items()}
        parts = [
            self._joints(JOINTS, joint_rows(recording, joints, ("position", "velocity", "torque"), rate)),
            self._joints(COMMANDS, joint_rows(recording, joints, ("command",), rate)),
            self._events(recording),
        ]
        if urdf:
            robot = self._types[_TYPES[ROBOT]](data=printable(urdf, lines=True))
            first = (recording.start, ROBOT, self._logged(recording.start), robot)
            parts = [iter([first]), *parts, self._bases(recording)]
        return merge(*parts, key=lambda message: message[0])

    def _logged(self, time: float) -> int:
        return max(self._origin + round(time * 1e9), 0)

    def _header(self, logged: int, frame: str = "") -> Any:
        stamp = self._types["builtin_interfaces/msg/Time"](sec=logged // 10**9, nanosec=logged % 10**9)
        return self._types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)

    def _joints(self, topic: str, rows: Iterator[JointRow]) -> Iterator[tuple[float, str, int, Any]]:
        state = self._types[_TYPES[topic]]
        for time, names, values in rows:
            logged = self._logged(time)
            position = values["command" if topic == COMMANDS else "position"]
            velocity, effort = values.get("velocity", _NOTHING), values.get("torque", _NOTHING)
            yield time, topic, logged, state(self._header(logged), names, position, velocity, effort)

    def _events(self, recording: Recording) -> Iterator[tuple[float, str, int, Any]]:
        for event in recording.events:
            text = json.dumps({"time": event.time, "name": event.name, "data": event.data})
            yield event.time, EVENTS, self._logged(event.time), self._types[_TYPES[EVENTS]](data=text)

    def _bases(self, recording: Recording) -> Iterator[tuple[float, str, int, Any]]:
        types = self._types
        for time, place, turned in base_poses(recording):
            logged = self._logged(time)
            transform = types["geometry_msgs/msg/Transform"](
                translation=types["geometry_msgs/msg/Vector3"](*place),
                rotation=types["geometry_msgs/msg/Quaternion"](*turned),
            )
            stamped = types["geometry_msgs/msg/TransformStamped"](self._header(logged, WORLD), self._base, transform)
            yield time, TRANSFORMS, logged, types[_TYPES[TRANSFORMS]]([stamped])
