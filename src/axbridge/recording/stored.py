"""Read, write and compress recordings in MCAP files, and read files that were cut off.

Log time is UTC in ns, as in ROS bags and camera logs. The metadata are one record, ``axbridge``, with JSON values.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from io import BytesIO
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.reader import SeekingReader
from mcap.records import Channel, Chunk, Metadata
from mcap.writer import CompressionType, Writer

from axbridge import __version__
from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError, Remedy
from axbridge.file_reading import FORMAT, reading, refuse_other_kind, regular
from axbridge.files import is_stream, replacing, writing
from axbridge.recording import step_format
from axbridge.recording.provenance import FORMAT_KEY, check_number, checked, checked_event
from axbridge.recording.recording import Event, Recording, StoredTracks
from axbridge.recording.sample_quality import LAST
from axbridge.recording.step_format import CYCLE, CYCLE_FIELDS, EVENTS, PACKETS, STEP, Passed
from axbridge.state import SERVO_COLUMNS, SERVO_ROW

_DAMAGE = (  # errors that the libraries raise for damaged bytes
    McapError, struct.error, ValueError, KeyError, TypeError, AttributeError, StopIteration, OverflowError, OSError,
    MemoryError, RecursionError, zstandard.ZstdError,
)  # fmt: skip
_GIVE_MCAP = Remedy("record", says="give a .mcap file made by {} or `import`")
_METADATA = "axbridge"
_MAGIC = b"\x89MCAP0\r\n"
_HEAD = struct.Struct("<BQ")  # of a record: kind, length
_MESSAGE = struct.Struct("<HIQQ")  # of a message: channel, sequence, log time, publish time
_MAX_RECORD = 1 << 26  # bytes: a larger record or chunk is damaged; ours have a quarter of a megabyte
_MAX_LOG_TIME = 2**64 - 1  # ns: largest log time of MCAP
_CHUNK = 256 * 1024  # bytes before compression: a damaged byte loses at most one chunk
_BATCH = 1 << 20  # bytes of messages that are decoded at once
_STEPS = 1000  # steps per block, and messages between two progress reports


def opened(recording: Recording | Path | str) -> Recording:
    """Return the recording, or read it from a file."""
    return recording if isinstance(recording, Recording) else open_recording(recording)


def opened_all(recordings: Recording | Path | str | Sequence[Recording | Path | str]) -> list[Recording]:
    """Return the recordings, or read them from their files; one alone gives a list of one."""
    alone = isinstance(recordings, Recording | Path | str)
    return list(map(opened, [recordings] if alone else recordings))  # type: ignore[arg-type]


def open_recording(path: Path | str) -> Recording:
    """Read a recording, complete or cut off (see `Recording.complete`).

    A servo's samples are converted to arrays at the access: so an hour of eighteen servos fits a small computer.

    Raises:
        RecordingError: the file does not exist, is not readable, not MCAP, or not a recording of axbridge.
    """
    path = Path(path)
    log = _Log(path)
    if path.name.startswith("sample:") and not path.exists():
        raise RecordingError(path, "is a log, and no recording yet", _imported(path))
    with reading(partial(RecordingError, path), _GIVE_MCAP):
        with regular(path).open("rb") as stream:
            _read(stream, log)
        if log.metadata is None:
            why = "it was cut off at its start, or another program made it"
            raise RecordingError(path, "is no recording of axbridge", why)
        check_number(path, len(log.tracks))
        metadata = checked(path, log.metadata)
        events = [checked_event(path, event) for event in log.events]
        for servo, (before, after) in log.tracks.backwards.items():
            events.append(Event(after, "clock jumped back", {"servo": servo, "from": before}))
    cycles = {
        name: np.concatenate([part.get(name, np.full(len(part["time"]), np.nan)) for part in log.cycles])
        for name in CYCLE_FIELDS
        if any(name in part for part in log.cycles)
    }
    lost = (f"{log.lost} of {log.chunks} parts",) if log.lost else ()
    events.sort(key=lambda event: event.time)
    return Recording(path, log.tracks, tuple(events), cycles, metadata, log.whole and not lost, lost)


def _imported(path: Path) -> Remedy:
    new = path.with_name(f"{path.stem.removeprefix('sample:')}.mcap")
    return Remedy("import", path, new, says="make a recording of it: {}")


def recorded_packets(path: Path | str) -> list[Passed]:
    """Return the bytes on a line, in order, from a recording of `axbridge bridge`; empty for other recordings.

    Raises:
        RecordingError: the file does not exist, is not readable, or not MCAP.
    """
    path = Path(path)
    log = _Log(path)
    with reading(partial(RecordingError, path), _GIVE_MCAP), regular(path).open("rb") as stream:
        messages = (data for number, data in _contents(stream, log) if log.channels[number].topic == PACKETS)
        return [passed for message in messages for passed in step_format.packets(message)]


def write_recording(
    recording: Recording, path: Path | str, progress: Callable[[int], None] = lambda _written: None
) -> Recording:
    """Write a complete, compressed file and return it as stored; on failure the old file stays.

    Log times start at the time of recording (``recorded`` in the metadata, else now).
    """
    path = Path(path)
    check_number(path, len(recording))
    with writing(path), replacing(path) as temporary, temporary.open("wb") as stream:
        writer = MessageWriter(stream, recording.metadata, chunked=True)
        for number, message in enumerate(_messages(recording)):
            if number % _STEPS == 0:
                progress(number)
            writer.write(message)
        writer.finish()
    return replace(recording, path=path, complete=True) if is_stream(path) else open_recording(path)


def log_origin(recording: Recording) -> int:
    """Return the log time of the robot's time 0, UTC in ns; the first sample has the metadata's time of recording."""
    try:
        moment = datetime.fromisoformat(str(recording.metadata.get("recorded")))
    except ValueError:
        moment = datetime.now(timezone.utc)
    return round(moment.timestamp()) * 10**9 - round(recording.start * 1e9)


def _messages(recording: Recording) -> Iterator[Message]:
    """Yield all messages of a recording."""
    origin = log_origin(recording)
    for event in recording.events:
        facts = {"time": event.time, "name": event.name, "data": event.data}
        yield Message(EVENTS, step_format.packed_event(facts), origin + round(event.time * 1e9))
    cycles = np.full(len(recording.cycles.get("time", ())), np.nan, step_format.CYCLE_ROW)
    for name, column in recording.cycles.items():
        cycles[name] = column
    for cycle in cycles:
        yield Message(CYCLE, step_format.packed(cycle), origin + round(cycle["time"] * 1e9))
    tracks = dict(recording.items())
    for servos in sampled_together({name: track.time for name, track in tracks.items()}):
        times = tracks[servos[0]].time
        for first in range(0, len(times), _STEPS):
            rows = slice(first, first + _STEPS)
            steps = np.full((len(times[rows]), len(servos)), np.nan, SERVO_ROW)
            for place, servo in enumerate(servos):
                for name in SERVO_COLUMNS:
                    steps[name][:, place] = getattr(tracks[servo], name)[rows]
            for time, step in zip(times[rows].tolist(), steps, strict=True):
                yield Message(STEP, step_format.packed(step), origin + round(time * 1e9), servos)


def sampled_together(times: Mapping[str, FloatArray]) -> list[tuple[str, ...]]:
    """Return groups of servos, by their sample times, in which each step has one sample of each servo."""
    groups: defaultdict[int, list[list[str]]] = defaultdict(list)
    for servo, time in times.items():
        for group in groups[len(time)]:
            first = times[group[0]]
            if len(time) and (time[:-1] < first[1:]).all() and (first[:-1] < time[1:]).all():
                group.append(servo)
                break
        else:
            groups[len(time)].append([servo])
    return [tuple(group) for groups_of in groups.values() for group in groups_of]


class Message(NamedTuple):
    """A message of an MCAP file."""

    topic: str  # `STEP`, `CYCLE`, `EVENTS` or `PACKETS`
    data: bytes  # by `axbridge.recording.step_format`
    logged: int  # UTC in ns
    servos: tuple[str, ...] = ()  # servos of a step


class MessageWriter:
    """Writes messages in chunks, or each immediately for a file that may be cut off at any time."""

    def __init__(self, stream: IO[bytes], metadata: Mapping[str, Any], *, chunked: bool) -> None:
        kind = CompressionType.ZSTD if chunked else CompressionType.NONE
        self._writer = Writer(stream, chunk_size=_CHUNK, compression=kind, use_chunking=chunked)
        self._writer.start(profile="ros2", library=f"axbridge {__version__}")
        texts = {key: json.dumps(value) for key, value in metadata.items()}
        self._writer.add_metadata(_METADATA, {FORMAT_KEY: str(FORMAT)} | texts)
        self._channels: dict[tuple[str, tuple[str, ...]], int] = {}

    def write(self, message: Message) -> None:
        """Append a message; declare its channel before the first one."""
        key = message.topic, message.servos
        channel = self._channels.get(key) or self._register(*key)
        logged = min(max(0, message.logged), _MAX_LOG_TIME)
        self._writer.add_message(channel, logged, message.data, logged)

    def finish(self) -> None:
        """Write the summary, which marks a complete file."""
        self._writer.finish()

    def _register(self, topic: str, servos: tuple[str, ...]) -> int:
        name, more = topic, {}
        if topic in step_format.SCHEMAS:
            kind, text = step_format.SCHEMAS[topic]
        else:
            others = sum(other == STEP for other, _ in self._channels)
            number = str(others + 1) if others else ""
            name, kind, text = topic + number, step_format.STEP_TYPE + number, step_format.step_schema(servos)
            more = {step_format.SERVOS: json.dumps(servos)}
        schema = self._writer.register_schema(kind, "ros2msg", text.encode())
        self._channels[topic, servos] = int(self._writer.register_channel(name, "cdr", schema, more))
        return self._channels[topic, servos]


def compressed(source: IO[bytes], target: IO[bytes], metadata: Mapping[str, Any]) -> None:
    """Copy a file of single messages to a file of compressed chunks."""
    writer = MessageWriter(target, metadata, chunked=True)
    channels: dict[int, _Channel] = {}
    source.seek(len(_MAGIC))
    for kind, content in _records(source, channels):
        if kind == Opcode.MESSAGE:
            number, _, logged, _ = _MESSAGE.unpack_from(content)
            topic, servos = channels[number]
            writer.write(Message(topic, content[_MESSAGE.size :], logged, servos))
        elif kind == Opcode.DATA_END:
            break
    writer.finish()


@dataclass
class _Log:
    """Content of a file."""

    path: Path
    tracks: StoredTracks = field(default_factory=StoredTracks)
    metadata: dict[str, Any] | None = None  # JSON values; None: not a recording of axbridge
    events: list[dict[str, Any]] = field(default_factory=list)  # not yet validated
    cycles: list[dict[str, FloatArray]] = field(default_factory=list)  # known columns, in blocks
    whole: bool = False  # whether the file has its end
    chunks: int = 0  # number of chunks
    lost: int = 0  # number of damaged chunks, which are left out
    channels: dict[int, _Channel] = field(default_factory=dict)  # axbridge's channels, by id


class _Channel(NamedTuple):
    """A channel of axbridge: `STEP` with its servos, `CYCLE`, `EVENTS` or `PACKETS`."""

    topic: str
    servos: tuple[str, ...] = ()


def _read(stream: IO[bytes], log: _Log) -> None:
    """Read a file up to its end or to where it was cut off."""
    waiting: defaultdict[int, list[bytes]] = defaultdict(list)
    size = 0
    for number, data in _contents(stream, log):
        if log.channels[number].topic != PACKETS:
            waiting[number].append(data)
            size += len(data)
        if size > _BATCH:
            _decode(waiting, log)
            size = 0
    _decode(waiting, log)


def _contents(stream: IO[bytes], log: _Log) -> Iterator[tuple[int, bytes]]:
    """Yield the channel and the data of each message of axbridge; add the metadata to `log`."""
    for kind, content in _parts(stream, log):
        if kind == Opcode.MESSAGE and (number := _MESSAGE.unpack_from(content)[0]) in log.channels:
            yield number, content[_MESSAGE.size :]
        elif kind == Opcode.METADATA:
            record = Metadata.read(ReadDataStream(BytesIO(content)))
            if record.name == _METADATA:
                log.metadata = {key: json.loads(value) for key, value in record.metadata.items()}


def _decode(waiting: dict[int, list[bytes]], log: _Log) -> None:
    for number, messages in waiting.items():
        topic, servos = log.channels[number]
        try:
            if topic == CYCLE:
                rows = step_format.tables(messages, step_format.CYCLE_ROW, 1)[:, 0]
                rows = rows[np.abs(rows["time"]) <= LAST]
                columns = {name: np.where(np.abs(rows[name]) <= LAST, rows[name], np.nan) for name in CYCLE_FIELDS}
                if len(rows):  # unknown columns of an hour would need thirty times the memory
                    log.cycles.append({name: v for name, v in columns.items() if not np.isnan(v).all()})
            elif topic == EVENTS:
                log.events += map(step_format.event, messages)
            else:
                log.tracks.add(servos, step_format.tables(messages, SERVO_ROW, len(servos)))
        except _DAMAGE as failure:
            why = f"holds an invalid message of {topic}: {failure}"
            raise RecordingError(log.path, why, "record it again") from failure
    waiting.clear()


def _add(channels: dict[int, _Channel], channel: Channel) -> None:
    """Add a channel if it is one of axbridge's."""
    if channel.message_encoding == "cdr" and channel.id not in channels:
        if channel.topic in {CYCLE, EVENTS, PACKETS}:
            channels[channel.id] = _Channel(channel.topic)
        elif channel.topic.startswith(STEP) and step_format.SERVOS in channel.metadata:
            channels[channel.id] = _Channel(STEP, step_format.servos_of(channel.metadata))


def _parts(stream: IO[bytes], log: _Log) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of all records, also of those in chunks; add channels and damage to `log`.

    A complete file is read by its index; without it, all records after a damaged one are lost.
    """
    summary = None
    with suppress(*_DAMAGE):  # the file is cut off, or its index is damaged
        summary = SeekingReader(stream, record_size_limit=_MAX_RECORD).get_summary()
    stream.seek(0)
    begin = stream.read(len(_MAGIC))
    if begin != _MAGIC[: len(begin)]:
        refuse_other_kind(log.path, partial(RecordingError, log.path))
        hint = _imported(log.path) if log.path.suffix == ".csv" else _GIVE_MCAP
        raise RecordingError(log.path, "this is no MCAP recording", hint)
    chunks = [] if summary is None else sorted(summary.chunk_indexes, key=lambda chunk: chunk.chunk_start_offset)
    spans = [(c.chunk_start_offset, c.chunk_start_offset + c.chunk_length) for c in chunks]
    overlap = any(start < end for (_, end), (start, _) in pairwise(spans))
    if summary is None or not chunks or overlap:
        kind = 0
        for kind, content in _records(stream, log.channels):
            if kind == Opcode.CHUNK:
                yield from _records(_unpacked(content, log), log.channels)
            elif kind == Opcode.DATA_END:
                break
            else:
                yield kind, content
        if kind == 0:
            raise RecordingError(log.path, "holds no samples: it was stopped before the first one", "record it again")
        log.whole = summary is not None and kind == Opcode.DATA_END
        return
    log.whole = True
    for index in summary.metadata_indexes:
        stream.seek(index.offset)
        yield from islice(_records(stream, log.channels), 1)
    for channel in summary.channels.values():
        _add(log.channels, channel)
    for chunk in chunks:
        stream.seek(chunk.chunk_start_offset + _HEAD.size)
        content = stream.read(max(0, min(chunk.chunk_length, _MAX_RECORD) - _HEAD.size))
        yield from _records(_unpacked(content, log), log.channels)


def _records(stream: IO[bytes], channels: dict[int, _Channel]) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of each record from the present position to the end or to an incomplete record.

    Channel records are added to `channels` instead.
    """
    while len(head := stream.read(_HEAD.size)) == _HEAD.size:
        kind, length = _HEAD.unpack(head)
        if length > _MAX_RECORD or len(content := stream.read(length)) < length:
            return
        if kind == Opcode.CHANNEL:
            _add(channels, Channel.read(ReadDataStream(BytesIO(content))))
        else:
            yield kind, content


def _unpacked(content: bytes, log: _Log) -> IO[bytes]:
    """Return the uncompressed records of a chunk; nothing of a damaged one."""
    log.chunks += 1
    with suppress(*_DAMAGE):
        chunk = Chunk.read(ReadDataStream(BytesIO(content)))
        packed, size = chunk.compression == "zstd", chunk.uncompressed_size
        # zstandard would allocate the size that the frame says, even terabytes
        plausible = size <= _MAX_RECORD and (not packed or zstandard.frame_content_size(chunk.data) in {-1, size})
        if plausible and (packed or not chunk.compression):
            data = zstandard.decompress(chunk.data, size) if packed else chunk.data
            if not chunk.uncompressed_crc or zlib.crc32(data) == chunk.uncompressed_crc:
                return BytesIO(data)
    log.lost += 1
    return BytesIO()
