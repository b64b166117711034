"""Recordings: what every servo was told and did, on one clock, whether it was real or simulated.

`open_recording` reads one, also when it was cut off by a crash; `axbridge.record.recorder.Recorder` makes one while a robot
runs; `write_recording` makes one of data that is already there (imports, simulations).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError
from axbridge.files import replacing, unwritable
from axbridge.record.mcap_file import (
    CYCLE,
    EVENTS,
    SERVO_FIELDS,
    SERVO_PREFIX,
    Entry,
    FormatError,
    RecordWriter,
    read_entries,
)

__all__ = ["Event", "Recording", "Segment", "Track", "increasing", "open_recording", "write_recording"]


@dataclass(frozen=True)
class Track:
    """One servo's samples; every array has the length of `time`, unknown values are NaN.

    Attributes:
        name: The servo.
        time: s, strictly increasing.
        command: Position goal in force from `time` on, rad.
        commanded: When that goal had been sent, s: a little after the sample beside it.
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

    @property
    def enabled(self) -> npt.NDArray[np.bool_]:
        """Whether torque was on, (n,) bool; where that is not known it is taken to be."""
        return np.not_equal(self.torque_enabled, 0)

    def between(self, start: float, end: float) -> Track:
        """The samples with start <= time < end."""
        chosen = (self.time >= start) & (self.time < end)
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
        complete: False when the file was cut off.
    """

    path: Path
    tracks: dict[str, Track]
    events: tuple[Event, ...] = ()
    cycles: dict[str, FloatArray] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    complete: bool = True

    def __getitem__(self, servo: str) -> Track:
        return self.tracks[servo]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tracks)

    def __len__(self) -> int:
        return len(self.tracks)

    @property
    def start(self) -> float:
        """Time of the first sample of any servo, s."""
        return min((float(track.time[0]) for track in self.tracks.values() if len(track)), default=0.0)

    @property
    def end(self) -> float:
        """Time of the last sample of any servo, s."""
        return max((float(track.time[-1]) for track in self.tracks.values() if len(track)), default=0.0)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The experiment's parts in order; empty when it named none."""
        marks = [event for event in self.events if event.name == "segment"]
        ends = [*(event.time for event in marks[1:]), np.nextafter(self.end, np.inf)][: len(marks)]
        return tuple(
            Segment(str(mark.data.get("name", "segment")), mark.time, float(end), mark.data)
            for mark, end in zip(marks, ends, strict=True)
        )


def open_recording(path: Path | str) -> Recording:
    """Read a recording, whole or cut off (`Recording.complete` says which).

    Raises:
        RecordingError: no such file, not readable, no MCAP, or nothing of ours in it.
    """
    path = Path(path)
    rows: dict[str, list[dict[str, Any]]] = {}
    cycles: list[dict[str, Any]] = []
    events: list[Event] = []
    metadata: dict[str, Any] = {}
    ours, complete = False, True
    try:
        with path.open("rb") as stream:
            entries = read_entries(stream)
            while (entry := _next(entries)) is not None:
                if isinstance(entry, dict):
                    ours = True
                    metadata |= entry
                elif entry is CUT_OFF:
                    complete = False
                    break
                elif entry.topic == EVENTS:
                    events.append(Event(entry.body["time"], entry.body["name"], entry.body.get("data", {})))
                elif entry.topic == CYCLE:
                    cycles.append(entry.body)
                else:
                    rows.setdefault(entry.topic.removeprefix(SERVO_PREFIX), []).append(entry.body)
    except FormatError as failure:
        raise RecordingError(
            path, str(failure), "give a .mcap file made by `axbridge record` or `axbridge import`"
        ) from failure
    except OSError as failure:
        raise RecordingError(path, failure.strerror or str(failure), "check the name and its permissions") from failure
    if not ours:
        raise RecordingError(
            path, "holds nothing of axbridge's", "it was cut off at its start, or another program made it"
        )
    events.sort(key=lambda event: event.time)
    tracks = {name: _track(name, samples) for name, samples in rows.items()}
    return Recording(path, tracks, tuple(events), _columns(cycles), metadata, complete)


def write_recording(recording: Recording, path: Path | str) -> Recording:
    """Write a whole, compressed file; what was at `path` stays if that fails. Returns it as it lies there.

    Raises:
        RecordingError: the file cannot be written.
    """
    path = Path(path)
    try:
        with replacing(path) as temporary, temporary.open("wb") as stream:
            writer = RecordWriter(stream, recording.metadata, compress=True)
            for entry in sorted(_entries(recording), key=lambda entry: entry.body["time"]):
                writer.write(entry)
            writer.finish()
    except OSError as failure:
        raise unwritable(path, failure) from failure
    return replace(recording, path=path, complete=True)


CUT_OFF = Entry("", {})


def _next(entries: Iterator[Entry | dict[str, Any]]) -> Entry | dict[str, Any] | None:
    """The next entry; `CUT_OFF` where the file breaks off, None at its end."""
    try:
        return next(entries, None)
    except FormatError as failure:
        if str(failure) == "cut off":
            return CUT_OFF
        raise


def _entries(recording: Recording) -> Iterator[Entry]:
    for event in recording.events:
        yield Entry(EVENTS, {"time": event.time, "name": event.name, "data": event.data})
    for index in range(len(recording.cycles.get("time", ()))):
        yield Entry(CYCLE, {key: float(column[index]) for key, column in recording.cycles.items()})
    for name, track in recording.tracks.items():
        known = {key: getattr(track, key) for key in SERVO_FIELDS if not np.isnan(getattr(track, key)).all()}
        for index, time in enumerate(track.time.tolist()):
            body = {key: float(column[index]) for key, column in known.items()}
            yield Entry(SERVO_PREFIX + name, {"time": time} | {k: v for k, v in body.items() if not math.isnan(v)})


def _track(name: str, samples: list[dict[str, Any]]) -> Track:
    columns = _columns(samples)
    time = columns["time"]
    fresh = increasing(time)
    known = {key: columns[key][fresh] for key in SERVO_FIELDS if key in columns}
    return Track.of(name, time[fresh], **known)


def increasing(time: FloatArray) -> npt.NDArray[np.intp]:
    """Indices that put `time` (n,) in strictly increasing order; a sample reported twice counts once."""
    order = np.argsort(time, kind="stable")
    ordered = time[order]
    return order[np.concatenate(([True], ordered[1:] > ordered[:-1]))]  # compared, not subtracted: no overflow


def _columns(rows: list[dict[str, Any]]) -> dict[str, FloatArray]:
    keys = {key: None for row in rows for key in row}
    return {key: np.array([row.get(key, np.nan) for row in rows], dtype=np.float64) for key in keys}
