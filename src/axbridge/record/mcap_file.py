"""How a recording lies in an MCAP file: topics, JSON schemas, messages; see `axbridge.record.recording` for the rest.

One topic a servo (``/servo/NAME``), one for events (``/events``), one for the cycle's timing (``/cycle``); all messages
are JSON with a JSON schema, so that Foxglove and PlotJuggler plot them as they are. A value that is not known is left
out of the message. Log time is the robot's clock, in ns. Metadata is one record, ``axbridge``, whose values are JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

import zstandard
from mcap.exceptions import McapError
from mcap.records import Channel, Footer, Header, Message, Metadata, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer

from axbridge import __version__

__all__ = ["CYCLE", "EVENTS", "SERVO_FIELDS", "SERVO_PREFIX", "Entry", "FormatError", "RecordWriter", "read_entries"]

SERVO_PREFIX = "/servo/"
EVENTS = "/events"
CYCLE = "/cycle"
METADATA = "axbridge"
CHUNK = 64 * 1024  # bytes: what a compressed file that was damaged later loses at most

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
    "axbridge.Cycle": {"type": "object", "properties": {"time": _TIME}, "required": ["time"]},
}


class FormatError(Exception):
    """The bytes are not (or no longer) what the format says."""


class Entry(NamedTuple):
    """One message: its topic and its JSON object."""

    topic: str
    body: dict[str, Any]


class RecordWriter:
    """Writes messages and metadata to a binary stream, unchunked (survives a crash) or compressed."""

    def __init__(self, stream: IO[bytes], metadata: Mapping[str, Any], *, compress: bool = False) -> None:
        self._writer = Writer(
            stream,
            chunk_size=CHUNK,
            compression=CompressionType.ZSTD if compress else CompressionType.NONE,
            use_chunking=compress,
        )
        self._writer.start(profile="", library=f"axbridge {__version__}")
        self._writer.add_metadata(METADATA, {key: json.dumps(value) for key, value in metadata.items()})
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}

    def write(self, entry: Entry) -> None:
        """Append one message; channels are declared when they first appear."""
        topic, body = entry
        channel = self._channels.get(topic)
        if channel is None:
            channel = self._channels[topic] = self._declare(topic)
        nanoseconds = max(0, round(body["time"] * 1e9))  # MCAP has no time before 0; `time` itself is exact
        self._writer.add_message(channel, nanoseconds, json.dumps(body).encode(), nanoseconds)

    def finish(self) -> None:
        """Write the summary that marks a whole file."""
        self._writer.finish()

    def _declare(self, topic: str) -> int:
        name = {EVENTS: "axbridge.Event", CYCLE: "axbridge.Cycle"}.get(topic, "axbridge.ServoSample")
        if name not in self._schemas:
            text = json.dumps({"title": name, **_SCHEMAS[name]})
            self._schemas[name] = int(self._writer.register_schema(name, "jsonschema", text.encode()))
        return int(self._writer.register_channel(topic, "json", self._schemas[name]))


def _checked(entry: Entry) -> Entry:
    """The entry, if it is what its schema says.

    Raises:
        ValueError: it is not.
    """
    topic, body = entry
    if not isinstance(body, dict) or not isinstance(body.get("time"), (int, float)):
        raise ValueError("no time")  # noqa: TRY004 - handled with the others
    if topic == EVENTS:
        if not isinstance(body.get("name"), str) or not isinstance(body.get("data", {}), dict):
            raise ValueError("no event")
    elif not all(isinstance(value, (int, float)) for value in body.values()):
        raise ValueError("no numbers")
    return entry


def read_entries(stream: IO[bytes]) -> Iterator[Entry | dict[str, Any]]:
    """Messages (`Entry`) and metadata (dicts) of a stream in their order; messages of other programs are left out.

    Raises:
        FormatError: no MCAP at all (before anything is yielded), or, after everything readable has been yielded, the
            stream ends in the middle or goes on with something else.
    """
    topics: dict[int, str] = {}
    schemas: dict[int, str] = {}
    started = finished = False
    try:
        for record in StreamReader(stream, record_size_limit=2**30).records:
            if isinstance(record, Header):
                started = True
            elif isinstance(record, Schema):
                schemas[record.id] = record.name
            elif isinstance(record, Channel):
                if record.message_encoding == "json" and schemas.get(record.schema_id) in _SCHEMAS:
                    topics[record.id] = record.topic
            elif isinstance(record, Message):
                if record.channel_id in topics:
                    yield _checked(Entry(topics[record.channel_id], json.loads(record.data)))
            elif isinstance(record, Metadata):
                if record.name == METADATA:
                    yield {key: json.loads(value) for key, value in record.metadata.items()}
            elif isinstance(record, Footer):
                finished = True
    # what damaged bytes make of the library: lengths that run out of the file, texts that are none, unknown codecs
    except (McapError, struct.error, ValueError, KeyError, OverflowError, MemoryError, zstandard.ZstdError) as failure:
        if not started:
            raise FormatError("this is no MCAP recording") from failure
        raise FormatError("cut off") from failure
    if not finished:
        raise FormatError("cut off")
