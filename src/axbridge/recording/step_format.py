"""The binary messages of a recording: the table of a step, the timing of a cycle, an event, bytes on a line.

All are CDR, ROS 2's encoding, and each channel has its ``ros2msg`` schema. ``/step`` has a `SERVO_ROW` for each servo;
its schema has a field for each servo, and its channel's metadata have the servos' original names. Servos that are not
sampled together have ``/step2``, …. ``/cycle`` has `CYCLE_FIELDS`, ``/events`` a std_msgs/String with JSON,
``/packets`` the bytes of a line.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from axbridge.file_reading import snake_case
from axbridge.state import SERVO_COLUMNS

CYCLE, EVENTS, PACKETS, STEP = "/cycle", "/events", "/packets", "/step"
SERVOS = "servos"  # key of the servos' names, JSON, in the metadata of a step channel
STEP_TYPE = "axbridge_msgs/msg/Step"
_PACKETS_SCHEMA = """float64[] time  # s, the recording's clock: when the bytes were sent or received
uint32[] size  # number of bytes of each
uint8[] source  # 0: a program, 1: the bridge itself, 2: servos, 3: a program's packet, then the changed one
uint8[] data  # the bytes of all, concatenated
"""

CYCLE_FIELDS = {
    "time": "s, the robot's clock: the end of the step",
    "requested_ms": "ms, requested length of the step",
    "actual_ms": "ms, actual length of the step",
    "late_ms": "ms, delay of the step; 0 = on time",
    "errors": "servos that did not answer",
    "base_x": "m, simulation only: position of the robot's base, forward",
    "base_y": "m, to the left",
    "base_z": "m, up",
    "base_roll": "rad, simulation only: orientation of the base",
    "base_pitch": "rad",
    "base_yaw": "rad",
    "zmp_x": "m, simulation only: the zero-moment point on the floor; unknown in the air",
    "zmp_y": "m",
    "zmp_margin": "m, distance of the zero-moment point to the nearest edge of the standing soles",
    "planned_zmp_x": "m, simulation only: the gait's planned zero-moment point, relative to the present feet",
    "planned_zmp_y": "m",
    "imu_roll": "rad, orientation of the robot's inertial unit, as it reported it",
    "imu_pitch": "rad, positive nose down",
    "imu_yaw": "rad",
    "imu_rate_x": "rad/s, angular velocity in the unit's axes",
    "imu_rate_y": "rad/s",
    "imu_rate_z": "rad/s",
    "imu_acceleration_x": "m/s^2, specific force in the unit's axes",
    "imu_acceleration_y": "m/s^2",
    "imu_acceleration_z": "m/s^2",
}
BASE = ("base_x", "base_y", "base_z", "base_roll", "base_pitch", "base_yaw")  # cycle fields of the base's pose
CYCLE_ROW = np.dtype([(name, "<f8") for name in CYCLE_FIELDS])

_CDR = b"\x00\x01\x00\x00"  # header of each message: little-endian
_RULE = "=" * 80

_COUNT = struct.Struct("<I")

Table = npt.NDArray[np.void]


class Source(IntEnum):
    """The sender of bytes on a line."""

    PROGRAM = 0
    BRIDGE = 1  # its own reads and writes
    SERVOS = 2
    CHANGED = 3  # a program's packet before a rule changed it, then the changed bytes; these follow as PROGRAM, too


class Passed(NamedTuple):
    """Bytes that were transferred together over a line."""

    time: float  # s, the recording's clock
    source: Source
    data: bytes


def packed(table: Table | np.void) -> bytes:
    """Return a message with a `SERVO_ROW` for each servo, or with one `CYCLE_ROW`."""
    return _CDR + table.tobytes()


def tables(messages: Sequence[bytes], dtype: np.dtype[Any], rows: int) -> Table:
    """Return the rows of many messages, (messages, rows); raise ValueError for a wrong length or byte order."""
    size = len(_CDR) + rows * dtype.itemsize
    text = b"".join(messages)
    if any(len(message) != size for message in messages):
        raise ValueError("a message of another length than its schema says")
    records = np.frombuffer(text, np.dtype([("head", "<u4"), ("rows", dtype, (rows,))]))
    if (records["head"] != int.from_bytes(_CDR, "little")).any():
        raise ValueError("a message in another byte order")
    return np.ascontiguousarray(records["rows"])


def packed_event(event: Mapping[str, Any]) -> bytes:
    """Return the message of an event; raise TypeError when it cannot be JSON."""
    text = json.dumps(event).encode()
    return _CDR + (len(text) + 1).to_bytes(4, "little") + text + b"\0"


def event(message: bytes) -> dict[str, Any]:
    """Return the event of a message."""
    return dict(json.loads(message[len(_CDR) + 4 :].rstrip(b"\0")))


def packed_packets(packets: Sequence[Passed]) -> bytes:
    """Return a `PACKETS` message of at least one packet."""
    times, sources, data = zip(*packets, strict=True)
    count, joined = _COUNT.pack(len(packets)), b"".join(data)
    sizes = np.array([len(each) for each in data], "<u4").tobytes()
    head = count + bytes(4) + np.array(times, "<f8").tobytes() + count + sizes + count + bytes(sources)
    return _CDR + head + bytes(-len(head) % 4) + _COUNT.pack(len(joined)) + joined


def packets(message: bytes) -> list[Passed]:
    """Return the content of a `PACKETS` message; raise ValueError when it is invalid."""
    try:
        (count,) = _COUNT.unpack_from(message, len(_CDR))
        place = len(_CDR) + 8
        times = np.frombuffer(message, "<f8", count, place).tolist()
        sizes = np.frombuffer(message, "<u4", count, place := place + 8 * count + 4).tolist()
        sources = message[(place := place + 4 * count + 4) : place + count]
        place += count
        rest = message[place + -(place - len(_CDR)) % 4 + 4 :]
        ends = np.cumsum(sizes).tolist()
        parts = [rest[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        return [Passed(*each) for each in zip(times, map(Source, sources), parts, strict=True)]
    except struct.error as failure:
        raise ValueError("packets without their number") from failure


def definition(fields: Mapping[str, str]) -> str:
    """Return the ``ros2msg`` definition of float64 fields, given as name: description."""
    return "".join(f"float64 {name}  # {what}\n" for name, what in fields.items())


SCHEMAS = {  # by topic: message type and its definition; those of steps depend on the servos
    EVENTS: ("std_msgs/msg/String", "string data\n"),
    CYCLE: ("axbridge_msgs/msg/Cycle", definition(CYCLE_FIELDS)),
    PACKETS: ("axbridge_msgs/msg/Packets", _PACKETS_SCHEMA),
}


def step_schema(servos: Sequence[str]) -> str:
    """Return the ``ros2msg`` definition of a step of these servos."""
    step = "".join(f"axbridge_msgs/Servo {name}\n" for name in _field_names(servos))
    return f"{step}{_RULE}\nMSG: axbridge_msgs/Servo\n{definition(SERVO_COLUMNS)}"


def servos_of(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Return the servos of a step channel; raise ValueError when its metadata do not name each once."""
    names = json.loads(metadata.get(SERVOS, "null"))
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError("a channel that does not name its servos")
    if len(set(names)) != len(names):
        raise ValueError("a channel that names a servo twice")
    return tuple(names)


def _field_names(servos: Sequence[str]) -> list[str]:
    """Return unique names by ROS 2's rules: lower case, a letter first, no two underscores in a row."""
    names: dict[str, None] = {}
    for servo in servos:
        stem = snake_case(servo)
        stem = stem if stem[:1].isalpha() else f"servo_{stem}".rstrip("_")
        name, number = stem, 1
        while name in names:
            number += 1
            name = f"{stem}_{number}"
        names[name] = None
    return list(names)
