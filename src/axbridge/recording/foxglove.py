"""A recording as Foxglove shows it: the robot in 3D, with nothing but the file.

Topics, each in JSON: ``/robot_description`` (the URDF, once), ``/joint_states`` (position, velocity and torque of each
joint at each sample), and of a robot that walks ``/tf`` (where its base is). Schemas: Foxglove's JointStates and
FrameTransform (docs.foxglove.dev, "Schemas"), ROS' std_msgs/String.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from mcap.writer import Writer

from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, UsageError
from axbridge.files import replacing, writing
from axbridge.reading import reading
from axbridge.recording.recording import Recording
from axbridge.recording.robot_states import base_link, base_poses, joint_rows, robot_of
from axbridge.recording.stored import log_origin

__all__ = ["JOINTS", "ROBOT", "TRANSFORMS", "WORLD", "write_foxglove"]

ROBOT, JOINTS, TRANSFORMS = "/robot_description", "/joint_states", "/tf"

_NUMBER = {"type": "number"}
_STAMP = {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}
_STATE = {"name": {"type": "string"}, "position": _NUMBER, "velocity": _NUMBER, "effort": _NUMBER}
_SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    ROBOT: ("std_msgs/String", {"data": {"type": "string"}}),
    JOINTS: (
        "foxglove.JointStates",
        {"timestamp": _STAMP, "joints": {"type": "array", "items": {"type": "object", "properties": _STATE}}},
    ),
    TRANSFORMS: (
        "foxglove.FrameTransform",
        {
            "timestamp": _STAMP,
            "parent_frame_id": {"type": "string"},
            "child_frame_id": {"type": "string"},
            "translation": {"type": "object", "properties": dict.fromkeys("xyz", _NUMBER)},
            "rotation": {"type": "object", "properties": dict.fromkeys("xyzw", _NUMBER)},
        },
    ),
}
WORLD = "world"
_FIELDS = {"position": "position", "velocity": "velocity", "torque": "effort"}  # of a track -> of a joint state


def write_foxglove(recording: Recording, path: Path | str, rig: Rig | None = None) -> int:
    """Write a recording for Foxglove's 3D panel; log times are wall-clock times, as in the recording.

    Args:
        recording: What to show.
        path: The file.
        rig: The robot, where the recording does not say (imported logs).

    Returns:
        How many joint states were written.

    Raises:
        UsageError: neither the recording nor `rig` has a URDF, or no servo of the recording is in it.
        RigError: the URDF of `rig` is not there.
        RecordingError: it cannot be written; what was at `path` stays. Or the recording's own URDF is none.
    """
    with reading(partial(RecordingError, recording.path), "name its rig with --rig"):
        urdf, joints = robot_of(recording, rig)
        if not urdf or not joints:
            raise UsageError(f"{recording.path} does not say what its robot looks like", "name its rig with --rig")
        base = base_link(urdf)
    with writing(path), replacing(path) as temporary, temporary.open("wb") as stream:
        return _write(recording, urdf, base, joints, stream)


def _write(recording: Recording, urdf: str, base: str, joints: Mapping[str, str], stream: IO[bytes]) -> int:
    writer = Writer(stream)
    writer.start(profile="", library="axbridge")
    channels = {}
    for topic, (name, properties) in _SCHEMAS.items():
        text = json.dumps({"title": name, "type": "object", "properties": properties}).encode()
        schema = writer.register_schema(name, "jsonschema", text)
        channels[topic] = writer.register_channel(topic, "json", schema)
    origin, states = log_origin(recording), 0

    def put(topic: str, time: float, body: dict[str, Any]) -> None:
        logged = max(origin + round(time * 1e9), 0)
        if topic != ROBOT:
            body = {"timestamp": {"sec": logged // 10**9, "nsec": logged % 10**9}, **body}
        writer.add_message(channels[topic], logged, json.dumps(body).encode(), logged)

    put(ROBOT, recording.start, {"data": urdf})
    for time, body in _joint_states(recording, joints):
        put(JOINTS, time, body)
        states += 1
    for time, body in _transforms(recording, base):
        put(TRANSFORMS, time, body)
    writer.finish()
    return states


def _joint_states(recording: Recording, joints: Mapping[str, str]) -> Iterator[tuple[float, dict[str, Any]]]:
    """The joints whose position is known, at each sample."""
    for time, names, values in joint_rows(recording, joints, tuple(_FIELDS)):
        columns = [(_FIELDS[key], column.tolist()) for key, column in values.items()]
        states = [
            {"name": name, **{field: column[place] for field, column in columns if not math.isnan(column[place])}}
            for place, name in enumerate(names)
        ]
        yield time, {"joints": states}


def _transforms(recording: Recording, base: str) -> Iterator[tuple[float, dict[str, Any]]]:
    """Where the base is, where that was recorded."""
    for time, place, turned in base_poses(recording):
        translation = dict(zip("xyz", place, strict=True))
        rotation = dict(zip("xyzw", turned, strict=True))
        pose = {"translation": translation, "rotation": rotation}
        yield time, {"parent_frame_id": WORLD, "child_frame_id": base, **pose}
