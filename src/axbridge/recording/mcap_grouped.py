"""Whole recordings: an MCAP file whose chunks hold one topic each, so that one servo can be read without the others.

`GroupedWriter` writes one, `GroupedFile` reads it. A second metadata record says what each servo's samples are like; it
and the events are found through the file's index, without reading a sample. Memory: one chunk a topic.
"""

from __future__ import annotations

import json
import math
import weakref
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.reader import SeekingReader
from mcap.records import Channel, ChunkIndex, Metadata, MetadataIndex
from mcap.writer import Writer

from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError
from axbridge.reading import FORMAT, printable, regular
from axbridge.recording.mcap_file import (
    CYCLE,
    DAMAGE,
    EVENTS,
    FORMAT_KEY,
    HEAD,
    LARGEST,
    LIBRARY,
    MAGIC,
    MESSAGE,
    METADATA,
    SERVO_PREFIX,
    Entry,
    bodies,
    in_text,
    of_text,
    records,
    register,
    unpack,
)
from axbridge.recording.metadata import check_number
from axbridge.recording.sample_facts import ServoFacts, Tally

__all__ = ["Columns", "GroupedFile", "GroupedWriter", "regroup"]

_CHUNK = 256 * 1024  # bytes before compression: what a file that was damaged later loses at most, of one topic
_FACTS = "axbridge.recording.samples"
_ROWS = 1000  # rows put into arrays at once
_SMALLEST = 64  # bytes: magic, header, footer


class GroupedWriter:
    """Writes a whole file by mcap's own writer, which ends a chunk when it is full.

    A topic's messages wait here until they fill one, and go in together. Only the last chunks hold several topics.

    Args:
        stream: A binary file, empty.
        metadata: JSON values.
    """

    def __init__(self, stream: IO[bytes], metadata: Mapping[str, Any]) -> None:
        self._stream = stream
        self._writer = Writer(stream, chunk_size=_CHUNK)
        self._writer.start(profile="", library=LIBRARY)
        self._writer.add_metadata(METADATA, {FORMAT_KEY: str(FORMAT)} | in_text(metadata))
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, bytes]]] = {}
        self._sizes: dict[str, int] = {}  # bytes that wait

    def write(self, entry: Entry) -> None:
        """Append a message."""
        self.append(entry.topic, min(max(0, entry.logged), 2**64 - 1), entry.text or json.dumps(entry.body).encode())

    def append(self, topic: str, logged: int, text: bytes) -> None:
        """Append a message: when it was logged, and its JSON."""
        if topic not in self._channels:
            self._channels[topic] = register(self._writer, topic, self._schemas)
            self._waiting[topic], self._sizes[topic] = deque(), 0
        self._waiting[topic].append((logged, text))
        self._sizes[topic] += len(text)
        if self._sizes[topic] >= _CHUNK:
            began = self._stream.tell()
            while self._waiting[topic] and self._stream.tell() == began:  # it grows when a chunk ends
                self._pass_on(topic)

    def finish(self, facts: Mapping[str, ServoFacts]) -> None:
        """Write what is left, what the samples are like by servo, and the index."""
        for topic, waiting in self._waiting.items():
            while waiting:
                self._pass_on(topic)
        self._writer.add_metadata(_FACTS, in_text({name: known.document() for name, known in facts.items()}))
        self._writer.finish()

    def _pass_on(self, topic: str) -> None:
        logged, text = self._waiting[topic].popleft()
        self._sizes[topic] -= len(text)
        self._writer.add_message(self._channels[topic], logged, text, logged)


def regroup(source: IO[bytes], target: IO[bytes], metadata: Mapping[str, Any], facts: Mapping[str, ServoFacts]) -> None:
    """Write a file of `RecordWriter` anew, grouped and compressed; messages are copied as they are.

    Raises:
        OSError: the target cannot be written.
    """
    writer = GroupedWriter(target, metadata)
    topics: dict[int, str] = {}
    source.seek(len(MAGIC))
    for kind, content in records(source):
        if kind == Opcode.CHANNEL:
            channel = Channel.read(ReadDataStream(BytesIO(content)))
            topics[channel.id] = channel.topic
        elif kind == Opcode.MESSAGE:
            channel_id, _, logged, _ = MESSAGE.unpack_from(content)
            writer.append(topics[channel_id], logged, content[MESSAGE.size :])
        elif kind == Opcode.DATA_END:
            break
    writer.finish(facts)


class Columns:
    """Rows of numbers into arrays, some at a time: the memory is that of the arrays.

    Args:
        wanted: Only these; by default whatever the rows hold.
    """

    def __init__(self, wanted: tuple[str, ...] | None = None) -> None:
        self._wanted = wanted
        self._rows: list[dict[str, float]] = []
        self._packed = 0
        self._columns = {key: array("d") for key in wanted or ()}  # which grow where they lie

    def add(self, row: dict[str, float]) -> None:
        """Append a row; what it does not hold is NaN."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self._pack()

    def done(self) -> dict[str, FloatArray]:
        """Every column, (n,)."""
        self._pack()
        return {key: np.frombuffer(column) if column else np.empty(0) for key, column in self._columns.items()}

    def _pack(self) -> None:
        rows, self._rows = self._rows, []
        if self._wanted is None:
            for key in dict.fromkeys(key for row in rows for key in row):
                if key not in self._columns:
                    self._columns[key] = array("d", [math.nan]) * self._packed
        for key, column in self._columns.items():
            column.extend([row.get(key, math.nan) for row in rows])
        self._packed += len(rows)


class GroupedFile:
    """A file of `GroupedWriter`, open for reading; a file that takes its place later does not disturb it.

    Attributes:
        metadata: JSON values.
        facts: What the samples are like, by servo.
        cycles: How many control cycles were recorded.
        lost: What is damaged, in words; it is left out.
    """

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        """Read the index.

        Args:
            stream: The file.
            path: What to call it.

        Raises:
            ValueError: this is no such file, or its index is damaged.
            RecordingError: it is whole, and makes no sense.
        """
        self._stream, self._path = stream, path
        if stream.seek(0, SEEK_END) < _SMALLEST:
            raise ValueError("no index")
        stream.seek(0)
        try:
            summary = SeekingReader(stream, record_size_limit=LARGEST).get_summary()
            if summary is None or summary.statistics is None:
                raise ValueError("no index")
            self._chunks: dict[str, list[ChunkIndex]] = {}
            end = 0
            for chunk in sorted(summary.chunk_indexes, key=lambda one: one.chunk_start_offset):
                if chunk.chunk_start_offset < end or chunk.chunk_length > LARGEST:
                    raise ValueError("no index")  # one chunk, named again and again
                end = chunk.chunk_start_offset + chunk.chunk_length
                for channel in chunk.message_index_offsets:
                    self._chunks.setdefault(summary.channels[channel].topic, []).append(chunk)
            self._numbers = {channel.topic: number for number, channel in summary.channels.items()}
            counts = summary.statistics.channel_message_counts
            self.cycles = sum(counts[number] for number, channel in summary.channels.items() if channel.topic == CYCLE)
            metadata = {index.name: self._metadata(index) for index in summary.metadata_indexes}
            check_number(path, len(metadata[_FACTS]))
            self.facts = {name: ServoFacts.of(known) for name, known in metadata[_FACTS].items()}
            self.metadata = metadata[METADATA]
        except DAMAGE as failure:
            raise ValueError("no index") from failure
        if {SERVO_PREFIX + name for name in self.facts} != self._chunks.keys() - {CYCLE, EVENTS}:
            raise ValueError("no index")
        self.lost = tuple(self._leave_out_what_is_damaged())
        weakref.finalize(self, stream.close)

    @classmethod
    def open(cls, path: Path) -> GroupedFile | None:
        """The file, or None where it is none of these, its index is damaged, or it was cut off.

        Raises:
            OSError: it cannot be read.
            RecordingError: it is whole, and makes no sense.
        """
        stream = regular(path).open("rb")
        try:
            return cls(stream, path)
        except ValueError:
            stream.close()
            return None
        except BaseException:
            stream.close()
            raise

    def _leave_out_what_is_damaged(self) -> Iterator[str]:
        """Forget the chunks that cannot be read, and say of which topic they are."""
        for topic, chunks in self._chunks.items():
            whole = [chunk for chunk in chunks if self._is_whole(chunk)]
            if len(whole) == len(chunks):
                continue
            self._chunks[topic] = whole
            name = topic.removeprefix(SERVO_PREFIX)
            yield f"{len(chunks) - len(whole)} of {len(chunks)} parts of {printable(name)}"
            if topic == CYCLE:
                self.cycles = sum(1 for _ in self.rows(topic))
            elif topic != EVENTS:
                tally = Tally()
                for row in self.rows(topic):
                    tally.add(row)
                self.facts[name] = tally.facts()

    def _is_whole(self, chunk: ChunkIndex) -> bool:
        try:
            self._contents(chunk)
        except DAMAGE:
            return False
        return True

    def rows(self, topic: str) -> Iterator[dict[str, Any]]:
        """A topic's messages in the order they were written.

        Raises:
            RecordingError: one is not what its schema says.
        """
        for chunk in self._chunks.get(topic, ()):
            found = records(BytesIO(self._contents(chunk)))
            texts = [
                content[MESSAGE.size :]
                for kind, content in found
                if kind == Opcode.MESSAGE and MESSAGE.unpack_from(content)[0] == self._numbers[topic]
            ]
            for first in range(0, len(texts), _ROWS):  # not all at once: a chunk of 64 MB makes millions of rows
                try:
                    yield from bodies(topic, texts[first : first + _ROWS])
                except DAMAGE as failure:
                    why = f"holds a message of {topic} that makes no sense: {failure}"
                    raise RecordingError(self._path, why, "record it again") from failure

    def columns(self, topic: str, wanted: tuple[str, ...] | None = None) -> dict[str, FloatArray]:
        """A topic's numbers by column, (n,) each."""
        columns = Columns(wanted)
        for row in self.rows(topic):
            columns.add(row)
        return columns.done()

    def _contents(self, index: ChunkIndex) -> bytes:
        """The records of a chunk.

        Raises:
            ValueError, …: those of `DAMAGE`: the chunk is damaged.
        """
        self._stream.seek(index.chunk_start_offset + HEAD.size)
        return unpack(self._stream.read(max(0, index.chunk_length - HEAD.size)))

    def _metadata(self, index: MetadataIndex) -> dict[str, Any]:
        self._stream.seek(index.offset + HEAD.size)
        return of_text(Metadata.read(ReadDataStream(self._stream)).metadata)
