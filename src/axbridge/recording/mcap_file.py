"""How a recording lies in an MCAP file: topics, JSON schemas, messages; `axbridge.recording.recording` has the rest.

One topic a servo (``/servo/NAME``), one for events (``/events``), one for the cycle's timing (``/cycle``); all messages
are JSON with a JSON schema, so that Foxglove and PlotJuggler plot them as they are. A value that is not known is left
out of the message. Log time is UTC in ns, so that a recording lines up with cameras and ROS bags; the robot's clock is
the field ``time``. Metadata is one record, ``axbridge``, whose values are JSON.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import IO, Any, NamedTuple

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Metadata, Schema
from mcap.writer import CompressionType, Writer

from axbridge import __version__
from axbridge.reading import FORMAT
from axbridge.recording.sample_facts import LAST

__all__ = [
    "CYCLE",
    "CYCLE_FIELDS",
    "DAMAGE",
    "EVENTS",
    "FORMAT_KEY",
    "HEAD",
    "LARGEST",
    "LIBRARY",
    "MAGIC",
    "MESSAGE",
    "METADATA",
    "SERVO_FIELDS",
    "SERVO_PREFIX",
    "Entry",
    "FormatError",
    "RecordWriter",
    "bodies",
    "in_text",
    "of_text",
    "read_entries",
    "records",
    "register",
    "unpack",
]

SERVO_PREFIX = "/servo/"
EVENTS = "/events"
CYCLE = "/cycle"
METADATA = "axbridge"
FORMAT_KEY = "recording_format"  # in the metadata: which format the file has
LIBRARY = f"axbridge {__version__}"
MAGIC = b"\x89MCAP0\r\n"
HEAD = struct.Struct("<BQ")  # of a record: kind, length
MESSAGE = struct.Struct("<HIQQ")  # of a message: channel, sequence, log time, publish time
LARGEST = 1 << 26  # bytes: a record or chunk that says to be larger is damaged; ours have a quarter of a megabyte
DAMAGE = (  # what damaged bytes make of the libraries
    McapError, struct.error, ValueError, KeyError, TypeError, AttributeError, StopIteration, OverflowError, OSError,
    MemoryError, RecursionError, zstandard.ZstdError,
)  # fmt: skip
_LATEST = 2**64 - 1  # ns, what a log time can hold
_NUMBERS = {float, bool}  # `SAMPLES` knows no other
_BLOCK = 1 << 20  # bytes read at once
_SAMPLES = json.JSONDecoder(parse_int=float)  # 400 digits are inf then, and no integer that nothing can hold

SERVO_FIELDS = {
    "command": "rad, position goal in force",
    "commanded": "s, the robot's clock: when that goal had been sent; before or after the sample",
    "position": "rad, as the servo reported it",
    "velocity": "rad/s, as the servo reported it",
    "load": "-1..1, duty the servo reported",
    "voltage": "V",
    "temperature": "degC",
    "errors": "error byte of the latest reply",
    "torque": "N·m, estimated by the motor model",
    "power": "W, electrical, estimated by the motor model",
    "torque_enabled": "1 driven, 0 limp",
    "true_position": "rad, simulation only: the joint, before sensor and rounding",
    "true_torque": "N·m, simulation only: what the joint felt",
    "speed_limit": "rad/s, limit of the approach (moving speed); 0 = none",
    "duty": "-1..1, duty asked for in wheel mode",
    "torque_limit": "0..1, largest duty allowed",
}
CYCLE_FIELDS = {
    "requested_ms": "ms, length of the step asked for",
    "actual_ms": "ms, length it took",
    "late_ms": "ms, how late the step was; 0 = on time",
    "errors": "servos that did not answer",
    "base_x": "m, simulation only: where the robot's base is, forward",
    "base_y": "m, to the left",
    "base_z": "m, up",
    "base_roll": "rad, simulation only: how the base lies",
    "base_pitch": "rad",
    "base_yaw": "rad",
    "zmp_x": "m, simulation only: where the floor's push acts, the zero-moment point; none in the air",
    "zmp_y": "m",
    "zmp_margin": "m, from there to the nearest edge of the soles that stand",
    "planned_zmp_x": "m, simulation only: where the gait wants the zero-moment point, as seen from where the feet are",
    "planned_zmp_y": "m",
    "imu_roll": "rad, how the robot's inertial unit is turned, by itself",
    "imu_pitch": "rad, positive nose down",
    "imu_yaw": "rad",
    "imu_rate_x": "rad/s, how fast it turns, in its own axes",
    "imu_rate_y": "rad/s",
    "imu_rate_z": "rad/s",
    "imu_acceleration_x": "m/s², what it is pushed with, in its own axes",
    "imu_acceleration_y": "m/s²",
    "imu_acceleration_z": "m/s²",
}


def _number(description: str) -> dict[str, str]:
    return {"type": "number", "description": description}


_TIME = _number("s, the robot's clock: when the sample was taken")
_SCHEMAS: dict[str, dict[str, Any]] = {
    "axbridge.ServoSample": {
        "type": "object",
        "properties": {"time": _TIME} | {name: _number(text) for name, text in SERVO_FIELDS.items()},
        "required": ["time"],
    },
    "axbridge.Event": {
        "type": "object",
        "properties": {"time": _TIME, "name": {"type": "string"}, "data": {"type": "object"}},
        "required": ["time", "name"],
    },
    "axbridge.Cycle": {
        "type": "object",
        "properties": {"time": _number("s, the robot's clock: the end of the step")}
        | {name: _number(text) for name, text in CYCLE_FIELDS.items()},
        "required": ["time"],
    },
}


class FormatError(Exception):
    """The bytes are not (or no longer) what the format says."""


class Entry(NamedTuple):
    """One message: its topic, its JSON object, when it was logged (UTC in ns), and the JSON text if it was read."""

    topic: str
    body: dict[str, Any]
    logged: int = 0
    text: bytes = b""


def in_text(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Values as a metadata record holds them."""
    return {key: json.dumps(value) for key, value in metadata.items()}


def of_text(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The values of `in_text`.

    Raises:
        ValueError: they are not JSON.
    """
    return {key: json.loads(value) for key, value in metadata.items()}


def register(writer: Writer, topic: str, schemas: dict[str, int]) -> int:
    """Declare a topic's channel, and its schema unless `schemas` has it; the channel's number."""
    name = {EVENTS: "axbridge.Event", CYCLE: "axbridge.Cycle"}.get(topic, "axbridge.ServoSample")
    if name not in schemas:
        text = json.dumps({"title": name, **_SCHEMAS[name]}).encode()
        schemas[name] = int(writer.register_schema(name, "jsonschema", text))
    return int(writer.register_channel(topic, "json", schemas[name]))


class RecordWriter:
    """Writes messages one by one, not compressed: what has been flushed survives a crash of the program."""

    def __init__(self, stream: IO[bytes], metadata: Mapping[str, Any]) -> None:
        self._writer = Writer(stream, compression=CompressionType.NONE, use_chunking=False)
        self._writer.start(profile="", library=LIBRARY)
        self._writer.add_metadata(METADATA, {FORMAT_KEY: str(FORMAT)} | in_text(metadata))
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}

    def write(self, entry: Entry) -> None:
        """Append one message; channels are declared when they first appear."""
        channel = self._channels.get(entry.topic)
        if channel is None:
            channel = self._channels[entry.topic] = register(self._writer, entry.topic, self._schemas)
        logged = min(max(0, entry.logged), _LATEST)
        self._writer.add_message(channel, logged, json.dumps(entry.body).encode(), logged)

    def finish(self) -> None:
        """Write the summary that marks a whole file."""
        self._writer.finish()


def bodies(topic: str, texts: Sequence[bytes]) -> list[dict[str, Any]]:
    """The messages of a topic; numbers that are not finite are left out, as what is not known.

    Raises:
        ValueError, RecursionError: one is no JSON, or not what its schema says.
    """
    text = b"[" + b",".join(texts) + b"]"  # one call: four times as fast
    found = json.loads(text) if topic == EVENTS else _SAMPLES.decode(text.decode())
    if len(found) != len(texts):
        raise ValueError("a message that is none")
    return [_checked(topic, body) for body in found]


def _checked(topic: str, body: Any) -> dict[str, Any]:
    if not isinstance(body, dict) or not isinstance(time := body.get("time"), (int, float)) or not abs(time) <= LAST:
        raise ValueError("no time")
    if topic == EVENTS:
        if not isinstance(body.get("name"), str) or not isinstance(body.get("data", {}), dict):
            raise ValueError("no event")
    elif not set(map(type, body.values())) <= _NUMBERS:
        raise ValueError("no numbers")
    elif not math.isfinite(sum(body.values())):
        return {key: value for key, value in body.items() if math.isfinite(value)}
    return body


def records(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Kind and content of every record from here on, up to the end or to one that is not all there.

    A footer is only there with the magic number behind it.
    """
    data, at = b"", 0
    while True:
        end = at + HEAD.size
        if end <= len(data):
            kind, length = HEAD.unpack_from(data, at)
            after = MAGIC if kind == Opcode.FOOTER else b""
            content = end
            end += length + len(after)
            if length > LARGEST:
                return
            if end <= len(data):
                if data[content + length : end] != after:
                    return
                yield kind, data[content : content + length]
                at = end
                continue
        block = stream.read(max(_BLOCK, end - len(data)))
        if not block:
            return
        data, at = data[at:] + block, 0


def read_entries(stream: IO[bytes]) -> Iterator[Entry | dict[str, Any]]:
    """Messages (`Entry`) and metadata (dicts) of a stream in their order; messages of other programs are left out.

    Raises:
        FormatError: no MCAP at all (before anything is yielded), or, after everything readable has been yielded, the
            stream ends in the middle or goes on with something else.
    """
    topics: dict[int, str] = {}
    schemas: dict[int, str] = {}
    if stream.read(len(MAGIC)) != MAGIC:
        raise FormatError("this is no MCAP recording")
    started = False
    try:
        for kind, content in _unpacked(records(stream)):
            if kind == Opcode.MESSAGE:
                channel_id, _, logged, _ = MESSAGE.unpack_from(content)
                if channel_id in topics:
                    topic, text = topics[channel_id], content[MESSAGE.size :]
                    yield Entry(topic, bodies(topic, [text])[0], logged, text)
            elif kind == Opcode.HEADER:
                started = True
            elif kind == Opcode.SCHEMA:
                schema = Schema.read(ReadDataStream(BytesIO(content)))
                schemas[schema.id] = schema.name
            elif kind == Opcode.CHANNEL:
                channel = Channel.read(ReadDataStream(BytesIO(content)))
                if channel.message_encoding == "json" and schemas.get(channel.schema_id) in _SCHEMAS:
                    topics[channel.id] = channel.topic
            elif kind == Opcode.METADATA:
                metadata = Metadata.read(ReadDataStream(BytesIO(content)))
                if metadata.name == METADATA:
                    yield of_text(metadata.metadata)
            elif kind == Opcode.FOOTER:
                return
    except DAMAGE as failure:
        raise FormatError("cut off" if started else "this is no MCAP recording") from failure
    raise FormatError("cut off" if started else "this is no MCAP recording")


def _unpacked(found: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The records, with those of a chunk in its place."""
    for kind, content in found:
        if kind == Opcode.CHUNK:
            yield from records(BytesIO(unpack(content)))
        else:
            yield kind, content


def unpack(content: bytes) -> bytes:
    """The records of a chunk.

    Raises:
        ValueError: it is damaged, or compressed in a way that is not known here.
    """
    chunk = Chunk.read(ReadDataStream(BytesIO(content)))
    if chunk.uncompressed_size > LARGEST:
        raise ValueError("larger than can be")
    if chunk.compression not in {"", "zstd"}:
        raise ValueError(f"compressed by {chunk.compression}")
    if chunk.compression and zstandard.frame_content_size(chunk.data) not in {-1, chunk.uncompressed_size}:
        raise ValueError("another size than it says")  # zstandard would believe the frame, be it terabytes
    data = zstandard.decompress(chunk.data, chunk.uncompressed_size) if chunk.compression else chunk.data
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise ValueError("changed since it was written")
    return data
