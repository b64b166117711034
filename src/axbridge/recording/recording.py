"""Recordings: what every servo was to do and did, on one clock, whether it was real or simulated.

`open_recording` reads one, also when it was cut off by a crash; `axbridge.recording.recorder.Recorder` makes one while
a robot runs; `write_recording` makes one of data that is already there (imports, simulations). Of a whole file a
servo's samples are read when somebody asks for them, so that an hour of eighteen servos fits a small computer.
"""

from __future__ import annotations

import math
import tempfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError
from axbridge.files import replacing, unwritable
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
from axbridge.recording.metadata import check_event, checked
from axbridge.recording.sample_facts import ServoFacts, Tally
from axbridge.recording.samples import in_order
from axbridge.recording.tables import HEADERS, wide_table, with_pandas

__all__ = ["Event", "Recording", "Segment", "Track", "log_origin", "open_recording", "write_recording"]

_OURS = "give a .mcap file made by `axbridge record` or `axbridge import`"
_TELL = 10_000  # messages written between two words about how far it is
STOOD_STILL = "stood still"  # event: for how many ``seconds`` a virtual bus had stood still by then
TOO_BUSY = "this computer was too busy, and the virtual bus stood still"
AGAIN = "close other programs and record it again"
_CAUGHT_UP = 0.2  # s; `axbridge.serve.bank_process` gives up a little later
_RECOVERS = 0.5  # s
_KEPT = 32 * 2**20  # bytes of samples that a file's tracks keep; those used least lately are read again when asked for


@dataclass(frozen=True)
class Track:
    """One servo's samples; every array has the length of `time`, unknown values are NaN.

    Attributes:
        name: The servo.
        time: s, strictly increasing.
        command: Position goal in force from `time` on, rad.
        commanded: When the servo had that goal, s: a little after the sample beside it.
        position: rad.
        velocity: rad/s, measured by the servo.
        load: Duty the servo reported, -1..1.
        voltage: V.
        temperature: °C.
        errors: Error byte of the latest reply.
        torque: Estimated by the motor model, N·m.
        power: Electrical, estimated by the motor model, W.
        torque_enabled: 1 driven, 0 limp.
        true_position: Simulation only: the joint before sensor and rounding, rad.
        true_torque: Simulation only: what the joint felt, N·m.
        speed_limit: Limit of the approach, rad/s; 0 = none.
        duty: Duty asked for in wheel mode, -1..1.
        torque_limit: Largest duty allowed, 0..1.
    """

    name: str
    time: FloatArray
    command: FloatArray
    commanded: FloatArray
    position: FloatArray
    velocity: FloatArray
    load: FloatArray
    voltage: FloatArray
    temperature: FloatArray
    errors: FloatArray
    torque: FloatArray
    power: FloatArray
    torque_enabled: FloatArray
    true_position: FloatArray
    true_torque: FloatArray
    speed_limit: FloatArray
    duty: FloatArray
    torque_limit: FloatArray

    @classmethod
    def of(cls, name: str, time: FloatArray, **columns: FloatArray) -> Track:
        """A track of the columns that are known."""
        unknown = np.full(len(time), np.nan)
        return cls(name, time, **{key: columns.get(key, unknown) for key in SERVO_FIELDS})

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        span = f", {self.time[0]:.2f} to {self.time[-1]:.2f} s" if len(self) else ""
        return f"<Track {self.name!r}: {len(self)} samples{span}>"

    def facts(self) -> ServoFacts:
        """Range, rate, gaps and jumps of these samples."""
        tally = Tally()
        for row in self.rows():
            tally.add(row)
        return tally.facts()

    def rows(self) -> Iterator[dict[str, float]]:
        """Sample by sample: ``time`` and what is known."""
        known = {key: getattr(self, key) for key in SERVO_FIELDS if not np.isnan(getattr(self, key)).all()}
        for index, time in enumerate(self.time.tolist()):
            body = {key: float(column[index]) for key, column in known.items()}
            yield {"time": time} | {key: value for key, value in body.items() if not math.isnan(value)}

    @property
    def enabled(self) -> npt.NDArray[np.bool_]:
        """Whether torque was on, (n,) bool; where that is not known it is taken to be."""
        return np.not_equal(self.torque_enabled, 0)

    def between(self, start: float, end: float) -> Track:
        """The samples with start <= time < end."""
        chosen = slice(*np.searchsorted(self.time, (start, end)))
        return replace(self, time=self.time[chosen], **{key: getattr(self, key)[chosen] for key in SERVO_FIELDS})


@dataclass(frozen=True)
class Event:
    """Something that happened: the start of a segment, a time-out, an abort.

    Attributes:
        time: s.
        name: ``segment``, ``aborted``, …
        data: Its facts.
    """

    time: float
    name: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Segment:
    """A stretch of an experiment, from its ``segment`` event to the next or to the end.

    Attributes:
        name: ``step``, ``fall``, …
        start: s.
        end: s.
        data: What the experiment said about it, e.g. ``servo``, ``start`` and ``target`` (rad).
    """

    name: str
    start: float
    end: float
    data: dict[str, Any]


@dataclass(frozen=True)
class Recording(Mapping[str, Track]):
    """All of one recording: a mapping of servo name to `Track`.

    Attributes:
        path: File it came from.
        tracks: By servo.
        events: In order of time.
        cycles: Timing of the control cycles: arrays of equal length, with ``time``; empty when not recorded.
        metadata: Rig, profiles, parameters, versions, experiment; see docs/recordings.md.
        complete: False when the file was cut off, or a part of it is damaged.
        lost: What is damaged, in words; the rest was read.
    """

    path: Path
    tracks: Mapping[str, Track]
    events: tuple[Event, ...] = ()
    cycles: Mapping[str, FloatArray] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    complete: bool = True
    lost: tuple[str, ...] = ()

    def __getitem__(self, servo: str) -> Track:
        return self.tracks[servo]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tracks)

    def __len__(self) -> int:
        return len(self.tracks)

    def __repr__(self) -> str:
        cut = "" if self.complete else ", cut off"
        return f"<Recording {self.path.name!r} of {', '.join(self) or 'no servo'}{cut}>"

    @property
    def flaw(self) -> str:
        """What is wrong with the file, to be said of it; empty when it is whole."""
        if self.lost:
            return f"is damaged: {', '.join(self.lost)} cannot be read"
        return "" if self.complete else "was cut off; everything up to the cut was read"

    def wide(self, rate: float | None = None) -> tuple[FloatArray, dict[tuple[str, str], FloatArray]]:
        """Every servo on common times: see `axbridge.recording.tables.wide_table`.

        Args:
            rate: Rows a second; None: a row at each sample.

        Returns:
            time (m,), s, and what is known of each servo: columns (m,) by servo and name.

        Raises:
            UsageError: a rate that is not positive.
        """
        known = {name: self.facts(name).columns for name in self}
        kept = {name: [key for key in SERVO_FIELDS if key in columns] for name, columns in known.items()}
        return wide_table({name: self.columns(name, "time", *keys) for name, keys in kept.items()}, rate)

    def to_pandas(self, rate: float | None = None) -> Any:
        """A pandas DataFrame: the time as its index, a column a servo and quantity (``shoulder.position_rad``).

        Args:
            rate: Rows a second, resampled as `wide` says; None: a row at each sample.

        Raises:
            UnsupportedOperation: pandas is not installed.
            UsageError: a rate that is not positive.
        """
        pandas = with_pandas()
        time, columns = self.wide(rate)
        named = {f"{servo}.{HEADERS[key]}": values for (servo, key), values in columns.items()}
        return pandas.DataFrame(named, index=pandas.Index(time, name=HEADERS["time"]))

    def columns(self, servo: str, *names: str) -> dict[str, FloatArray]:
        """Some columns of one servo, (n,) each, without reading the others into memory.

        Args:
            servo: Its name.
            *names: ``time`` or columns of a track; what was not recorded is NaN.

        Raises:
            KeyError: no such servo.
        """
        if isinstance(self.tracks, _StoredTracks):
            return self.tracks.columns(servo, names)
        track = self.tracks[servo]
        return {name: getattr(track, name) for name in names}

    def facts(self, servo: str) -> ServoFacts:
        """Range, rate, gaps and jumps of one servo's samples; of a whole file they are known without reading it.

        Raises:
            KeyError: no such servo.
        """
        if isinstance(self.tracks, _StoredTracks):
            return self.tracks.facts[servo]
        return self.tracks[servo].facts()

    def rows(self, servo: str) -> Iterator[dict[str, float]]:
        """One servo's samples one by one, as they were written, without reading all of them into memory.

        Raises:
            KeyError: no such servo.
        """
        if isinstance(self.tracks, _StoredTracks):
            return self.tracks.rows(servo)
        return self.tracks[servo].rows()

    def changed(self, names: Sequence[str], change: Callable[[Track], Track] = lambda track: track) -> Recording:
        """The same recording with some of its servos.

        Args:
            names: Of them.
            change: What is made of a track when somebody asks for it; its first and last time have to stay.
        """
        return replace(self, tracks=_ChangedTracks(self, names, change))

    @property
    def cycle_count(self) -> int:
        """Control cycles recorded; of a whole file known without reading them."""
        return self.cycles.count if isinstance(self.cycles, _StoredCycles) else len(self.cycles.get("time", ()))

    def spans(self) -> list[tuple[float, float]]:
        """First and last time of every servo that has samples, s."""
        return [span for name in self if (span := self.span(name)) is not None]

    def span(self, servo: str) -> tuple[float, float] | None:
        """First and last time of one servo, s; None without samples. Of a whole file no sample is read.

        Raises:
            KeyError: no such servo.
        """
        if isinstance(self.tracks, _StoredTracks):
            known = self.tracks.facts[servo]
            return (known.start, known.end) if known.samples else None
        if isinstance(self.tracks, _ChangedTracks):
            return self.tracks.span(servo)
        time = self.tracks[servo].time
        return (float(time[0]), float(time[-1])) if len(time) else None

    @property
    def start(self) -> float:
        """Time of the first sample of any servo, s."""
        return min((start for start, _ in self.spans()), default=0.0)

    @property
    def end(self) -> float:
        """Time of the last sample of any servo, s."""
        return max((end for _, end in self.spans()), default=0.0)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The experiment's parts in order; empty when it named none."""
        marks = [event for event in self.events if event.name == "segment"]
        ends = [*(event.time for event in marks[1:]), np.nextafter(self.end, np.inf)][: len(marks)]
        return tuple(
            Segment(str(mark.data.get("name", "segment")), mark.time, float(end), mark.data)
            for mark, end in zip(marks, ends, strict=True)
        )

    @property
    def stood_still(self) -> tuple[tuple[float, float], ...]:
        """Stretches that tell nothing, s: a virtual bus stood still, because its machine was too busy.

        It catches up with a short standstill. After a longer one all that follows is late: such a stretch lasts to the
        end of the part of the experiment that it is in, or half a second longer where there are no parts.
        """
        ends = [segment.end for segment in self.segments]
        standstills = [event for event in self.events if event.name == STOOD_STILL]
        spans = [
            (
                event.time - seconds,
                min((end for end in ends if end > event.time), default=event.time + _RECOVERS)
                if seconds > _CAUGHT_UP
                else event.time,
            )
            for event in standstills
            for seconds in (float(event.data.get("seconds", 0.0)),)
        ]
        found: list[tuple[float, float]] = []
        for begin, end in sorted(spans):
            if found and begin <= found[-1][1]:
                begin, end = found[-1][0], max(end, found[-1][1])  # noqa: PLW2901 - one stretch with the one before
                found.pop()
            found.append((begin, end))
        return tuple(found)

    def within_standstill(self, time: FloatArray) -> npt.NDArray[np.bool_]:
        """Which of these times, s, (n,), are in such a stretch: bool, (n,)."""
        inside = np.zeros(len(time), dtype=bool)
        for begin, end in self.stood_still:
            inside |= (time >= begin) & (time < end)
        return inside


class _StoredTracks(Mapping[str, Track]):
    """The tracks of a whole file, each read when it is asked for; the latest ones are kept, as far as `_KEPT` goes."""

    def __init__(self, file: GroupedFile) -> None:
        self.facts = file.facts
        self._file = file
        self._kept: OrderedDict[str, Track] = OrderedDict()

    def __getitem__(self, servo: str) -> Track:
        track = self._kept.pop(servo, None)
        if track is None:
            if servo not in self.facts:
                raise KeyError(servo)
            sizes = list(map(_size, self._kept.values()))
            while sizes and sum(sizes) + max(sizes) > _KEPT:  # the new one is probably as large as the others
                self._kept.popitem(last=False)
                sizes.pop(0)
            track = _track(servo, self._file.columns(SERVO_PREFIX + servo))
        self._kept[servo] = track
        return track

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, as samples: an open file does not travel."""
        return dict, (dict(self.items()),)

    def rows(self, servo: str) -> Iterator[dict[str, float]]:
        """See `Recording.rows`."""
        if servo not in self.facts:
            raise KeyError(servo)
        return self._file.rows(SERVO_PREFIX + servo)

    def columns(self, servo: str, names: tuple[str, ...]) -> dict[str, FloatArray]:
        """See `Recording.columns`."""
        if servo in self._kept:
            return {name: getattr(self._kept[servo], name) for name in names}
        if servo not in self.facts:
            raise KeyError(servo)
        read = self._file.columns(SERVO_PREFIX + servo, tuple({"time": None, **dict.fromkeys(names)}))
        time, known = in_order(read.pop("time"), read)
        return {name: time if name == "time" else known[name] for name in names}


class _ChangedTracks(Mapping[str, Track]):
    """Some tracks of a recording, each made of the recorded one when it is asked for."""

    def __init__(self, source: Recording, names: Sequence[str], change: Callable[[Track], Track]) -> None:
        self._source, self._names, self._change = source, names, change

    def __getitem__(self, servo: str) -> Track:
        if servo not in self._names:
            raise KeyError(servo)
        return self._change(self._source[servo])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        """As that of the tracks."""
        return dict, (dict(self.items()),)

    def span(self, servo: str) -> tuple[float, float] | None:
        """See `Recording.span`."""
        return self._source.span(servo)


class _StoredCycles(Mapping[str, FloatArray]):
    """The timing of a whole file's control cycles, read when somebody looks."""

    def __init__(self, file: GroupedFile) -> None:
        self.count = file.cycles
        self._file = file
        self._read: dict[str, FloatArray] | None = None

    def _columns(self) -> dict[str, FloatArray]:
        if self._read is None:
            self._read = self._file.columns(CYCLE)
        return self._read

    def __getitem__(self, name: str) -> FloatArray:
        return self._columns()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns())

    def __len__(self) -> int:
        return len(self._columns())

    def __reduce__(self) -> tuple[Any, ...]:
        """As that of the tracks."""
        return dict, (self._columns(),)


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
    """A recording without our index (cut off, or of an earlier version), read from its first byte on as far as it goes.

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
            entries = read_entries(stream)
            while (entry := _next(entries)) is not None:
                if isinstance(entry, dict):
                    ours = True
                    metadata |= entry
                elif entry is CUT_OFF:
                    complete = False
                    break
                else:
                    writer.write(entry)
                    if entry.topic.startswith(SERVO_PREFIX):
                        tallies[entry.topic.removeprefix(SERVO_PREFIX)].add(entry.body)
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
        RecordingError: the file cannot be written.
    """
    path = Path(path)
    facts: defaultdict[str, Tally] = defaultdict(Tally)
    try:
        with replacing(path) as temporary, temporary.open("wb") as stream:
            writer = GroupedWriter(stream, recording.metadata)
            origin = log_origin(recording)
            for number, (topic, body) in enumerate(_entries(recording)):
                if number % _TELL == 0:
                    progress(number)
                writer.write(Entry(topic, body, origin + round(body["time"] * 1e9)))
                if topic.startswith(SERVO_PREFIX):
                    facts[topic.removeprefix(SERVO_PREFIX)].add(body)
            writer.finish({name: tally.facts() for name, tally in facts.items()})
    except OSError as failure:
        raise unwritable(path, failure) from failure
    return open_recording(path) if path.is_file() else replace(recording, path=path, complete=True)


CUT_OFF = Entry("", {})


def _next(entries: Iterator[Entry | dict[str, Any]]) -> Entry | dict[str, Any] | None:
    """The next entry; `CUT_OFF` where the file breaks off, None at its end."""
    try:
        return next(entries, None)
    except FormatError as failure:
        if str(failure) == "cut off":
            return CUT_OFF
        raise


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


def _size(track: Track) -> int:
    """Bytes of its arrays; columns that are not known share one."""
    return sum(
        {id(column): column.nbytes for column in vars(track).values() if isinstance(column, np.ndarray)}.values()
    )


def _track(name: str, columns: dict[str, FloatArray]) -> Track:
    known = {key: columns[key] for key in SERVO_FIELDS if key in columns}
    time, known = in_order(columns.get("time", np.empty(0)), known)
    return Track.of(name, time, **known)
