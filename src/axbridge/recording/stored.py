"""Recordings in files: `open_recording` reads one, whole or cut off; `write_recording` makes one of what is there.

Of a whole file a servo's samples are read when somebody asks for them, so that an hour of eighteen servos fits a small
computer.
"""

from __future__ import annotations

import math
import tempfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError
from axbridge.files import replacing, writing
from axbridge.reading import reading
from axbridge.recording.mcap_file import (
    CYCLE,
    EVENTS,
    SERVO_FIELDS,
    SERVO_PREFIX,
    Entry,
    FormatError,
    read_entries,
)
from axbridge.recording.mcap_grouped import GroupedFile, GroupedWriter
from axbridge.recording.metadata import check_event, check_number, checked
from axbridge.recording.recording import CountedCycles, Event, Recording, Track, TrackSource
from axbridge.recording.sample_facts import ServoFacts, Tally
from axbridge.recording.samples import in_order

__all__ = ["log_origin", "open_recording", "write_recording"]

_OURS = "give a .mcap file made by `axbridge record` or `axbridge import`"
_TELL = 10_000  # messages written between two words about how far it is
_KEPT = 32 * 2**20  # bytes of samples that a file's tracks keep; those used least lately are read again when asked for


class _StoredTracks(TrackSource):
    """The tracks of a whole file, each read when it is asked for; the latest ones are kept, as far as `_KEPT` goes."""

    def __init__(self, file: GroupedFile) -> None:
        self._facts = file.facts
        self._file = file
        self._kept: OrderedDict[str, Track] = OrderedDict()
        self._room = _KEPT

    def __getitem__(self, servo: str) -> Track:
        track = self._kept.pop(servo, None)
        if track is None:
            if servo not in self._facts:
                raise KeyError(servo)
            size = _size(self._facts[servo])
            while self._kept and self._room < size:
                self._room += _size(self._facts[self._kept.popitem(last=False)[0]])
            track = _track(servo, self._file.columns(SERVO_PREFIX + servo))
            self._room -= size
        self._kept[servo] = track
        return track

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def facts(self, servo: str) -> ServoFacts:
        """See `Recording.facts`."""
        return self._facts[servo]

    def span(self, servo: str) -> tuple[float, float] | None:
        """See `Recording.span`."""
        known = self._facts[servo]
        return (known.start, known.end) if known.samples else None

    def rows(self, servo: str) -> Iterator[dict[str, float]]:
        """See `Recording.rows`."""
        if servo not in self._facts:
            raise KeyError(servo)
        return self._file.rows(SERVO_PREFIX + servo)

    def columns(self, servo: str, names: tuple[str, ...]) -> dict[str, FloatArray]:
        """See `Recording.columns`."""
        if servo in self._kept:
            return {name: getattr(self._kept[servo], name) for name in names}
        if servo not in self._facts:
            raise KeyError(servo)
        read = self._file.columns(SERVO_PREFIX + servo, tuple({"time": None, **dict.fromkeys(names)}))
        time, known = in_order(read.pop("time"), read)
        return {name: time if name == "time" else known[name] for name in names}


class _StoredCycles(CountedCycles):
    """The timing of a whole file's control cycles, read when somebody looks."""

    def __init__(self, file: GroupedFile) -> None:
        self.count = file.cycles
        self._file = file

    @cached_property
    def _columns(self) -> dict[str, FloatArray]:
        return self._file.columns(CYCLE)

    def __getitem__(self, name: str) -> FloatArray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __reduce__(self) -> tuple[Any, ...]:
        """As that of the tracks."""
        return dict, (self._columns,)


def open_recording(path: Path | str) -> Recording:
    """Read a recording, whole or cut off (`Recording.complete` says which).

    Raises:
        RecordingError: no such file, not readable, no MCAP, or nothing of ours in it.
    """
    path = Path(path)
    with reading(partial(RecordingError, path), _OURS):
        try:
            file, complete = GroupedFile.open(path), True
            if file is None:
                file, complete = _scanned(path)
            metadata = checked(path, file.metadata)
            events = [Event(body["time"], body["name"], body.get("data", {})) for body in file.rows(EVENTS)]
        except FormatError as failure:
            raise RecordingError(path, str(failure), _OURS) from failure
        for event in events:
            check_event(path, event.time, event.name, event.data)
        events += [
            Event(facts.backwards_to, "clock jumped back", {"servo": name, "from": facts.backwards_from})
            for name, facts in file.facts.items()
            if facts.backwards
        ]
        events.sort(key=lambda event: event.time)
        tracks, cycles = _StoredTracks(file), _StoredCycles(file)
    return Recording(path, tracks, tuple(events), cycles, metadata, complete and not file.lost, file.lost)


def _scanned(path: Path) -> tuple[GroupedFile, bool]:
    """A recording without our index (it was cut off), read from its first byte on as far as it goes.

    Returns:
        A grouped copy of it in a temporary file, and whether it was whole.

    Raises:
        FormatError: no MCAP.
        RecordingError: nothing of ours in it.
        OSError: it cannot be read, or there is no space for the copy.
    """
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    metadata: dict[str, Any] = {}
    ours, complete = False, True
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - `GroupedFile` closes it
    try:
        writer = GroupedWriter(copy, {})
        with path.open("rb") as stream:
            try:
                for entry in read_entries(stream):
                    if isinstance(entry, dict):
                        ours = True
                        metadata |= entry
                        continue
                    writer.write(entry)
                    if entry.topic.startswith(SERVO_PREFIX):
                        tallies[entry.topic.removeprefix(SERVO_PREFIX)].add(entry.body)
            except FormatError as failure:
                if str(failure) != "cut off":
                    raise
                complete = False
        writer.finish({name: tally.facts() for name, tally in tallies.items()})
        file = GroupedFile(copy, path)
    except BaseException:
        copy.close()
        raise
    if not ours:
        raise RecordingError(
            path, "holds nothing of axbridge's", "it was cut off at its start, or another program made it"
        )
    file.metadata = metadata
    return file, complete


def write_recording(
    recording: Recording, path: Path | str, progress: Callable[[int], None] = lambda _written: None
) -> Recording:
    """Write a whole, compressed file; what was at `path` stays if that fails. Returns it as it lies there.

    Its folder is made. Log times count from when it was recorded (``recorded`` in its metadata, else now).

    Args:
        recording: What to write.
        path: The file.
        progress: Told how many messages are written; a million take some 10 s.

    Raises:
        RecordingError: the file cannot be written, or there are more than 1000 servos.
    """
    path = Path(path)
    check_number(path, len(recording))
    facts: defaultdict[str, Tally] = defaultdict(Tally)
    with writing(path), replacing(path) as temporary, temporary.open("wb") as stream:
        writer = GroupedWriter(stream, recording.metadata)
        origin = log_origin(recording)
        for number, (topic, body) in enumerate(_entries(recording)):
            if number % _TELL == 0:
                progress(number)
            writer.write(Entry(topic, body, origin + round(body["time"] * 1e9)))
            if topic.startswith(SERVO_PREFIX):
                facts[topic.removeprefix(SERVO_PREFIX)].add(body)
        writer.finish({name: tally.facts() for name, tally in facts.items()})
    return open_recording(path) if path.is_file() else replace(recording, path=path, complete=True)


def log_origin(recording: Recording) -> int:
    """Log time of the robot's time 0, UTC in ns; the first sample is from when it was recorded, as its metadata say."""
    try:
        moment = datetime.fromisoformat(str(recording.metadata.get("recorded")))
    except ValueError:
        moment = datetime.now(timezone.utc)
    return round(moment.timestamp()) * 10**9 - round(recording.start * 1e9)


def _entries(recording: Recording) -> Iterator[tuple[str, dict[str, Any]]]:
    """Topic and message of everything in it."""
    for event in recording.events:
        yield EVENTS, {"time": event.time, "name": event.name, "data": event.data}
    for index in range(len(recording.cycles.get("time", ()))):
        row = {key: float(column[index]) for key, column in recording.cycles.items()}
        yield CYCLE, {key: value for key, value in row.items() if not math.isnan(value)}
    for name, track in recording.tracks.items():
        for row in track.rows():
            yield SERVO_PREFIX + name, row


def _size(facts: ServoFacts) -> int:
    """Bytes of a track's arrays: time, what is known, and one for all that is not."""
    return 8 * facts.samples * (len(facts.columns) + 2)


def _track(name: str, columns: dict[str, FloatArray]) -> Track:
    known = {key: columns[key] for key in SERVO_FIELDS if key in columns}
    time, known = in_order(columns.get("time", np.empty(0)), known)
    return Track.of(name, time, **known)
