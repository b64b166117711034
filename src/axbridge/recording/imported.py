"""Make recordings from columns of imported logs: check, sort by time, trim, and mark segments."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError, UsageError
from axbridge.recording.provenance import check_number, describe, origin_of
from axbridge.recording.recording import Event, Recording, Track, in_order
from axbridge.recording.sample_quality import Oddity, findings

KINDS = "step", "fall", "lift", "hold", "rest", "sine", "chirp", "duty"
_BETWEEN = "between"  # name of the part between two marked segments
_CHANGED = 1e-9  # rad


Warned = Callable[[Oddity], None]  # called with each doubtful finding that does not prevent the import


class Column(NamedTuple):
    """A column of a log, and its conversion to SI: (value - zero) · factor."""

    header: str
    factor: float = 1.0
    zero: float = 0.0


class Columns(NamedTuple):
    """One servo's samples in the order of the log."""

    values: dict[str, FloatArray]  # by name, in SI units, (n,) each; `time` is one of them; NaN = unknown
    place: Callable[[int], str] = "sample {}".format  # names a sample by its index, for messages


def recording_of(
    path: Path,
    servos: Mapping[str, Columns],
    experiment: str,
    warned: Warned,
    columns: Mapping[str, Column] | None = None,
    events: tuple[Event, ...] = (),
    **metadata: Any,
) -> Recording:
    """Return a recording of these samples, with the map of a log's columns as metadata.

    Raises RecordingError for columns that cannot be used.
    """
    check_number(path, len(servos))
    clock = 1.0 if columns is None else columns["time"].factor
    if columns is not None:
        metadata["column_map"] = {name: column._asdict() for name, column in columns.items()}
    tracks: dict[str, Track] = {}
    for name, (values, place) in servos.items():
        time, others = values["time"], {key: column for key, column in values.items() if key != "time"}
        for finding in findings(name, time, others, place, clock):
            if finding.severity == "error":
                raise RecordingError(path, str(finding), finding.remedy)
            warned(finding)
        time, others = in_order(time, others)
        tracks[name] = Track.of(name, time, **others)
    facts = describe(backend="imported", experiment=experiment, **origin_of(path), **metadata)
    return Recording(path, tracks, events, {}, facts)


class Mark(NamedTuple):
    """A segment of a log: its name, start and end on the log's clock, s."""

    name: str
    start: float
    end: float


def parse_mark(text: str) -> Mark:
    """Parse ``NAME=START:END``, s; either time may be left out. Raises UsageError."""
    match = re.fullmatch(r"([^=]+)=(-?\d+\.?\d*)?:(-?\d+\.?\d*)?", text)
    if match is None:
        raise UsageError(f"{text!r} is no segment", "write NAME=START:END in s, e.g. fall-90=1.2:3.5")
    mark = Mark(match[1], float(match[2] or -math.inf), float(match[3] or math.inf))
    if not mark.start < mark.end:
        raise UsageError(f"segment {mark.name} ends before it starts", "write NAME=START:END in s")
    return mark


def _recorded_span(recording: Recording) -> str:
    return f"the log is from {recording.start:g} to {recording.end:g} s"


def trimmed(recording: Recording, start: float | None, end: float | None) -> Recording:
    """Return the part between two times on the log's clock, s (None: no limit); UsageError if it has no sample."""
    if start is None and end is None:
        return recording
    low, high = -math.inf if start is None else start, math.inf if end is None else end
    if math.isnan(low) or math.isnan(high):
        raise UsageError("nan is no time", "give seconds on the log's clock")
    tracks = {name: track.between(low, np.nextafter(high, math.inf)) for name, track in recording.items()}
    remaining = {name: track for name, track in tracks.items() if len(track)}
    if not remaining:
        raise UsageError(f"no sample lies between {low:g} and {high:g} s", _recorded_span(recording))
    ongoing = [event for event in recording.events if event.name == "segment" and event.time < low][-1:]
    events = [replace(event, time=low) for event in ongoing]
    events += [event for event in recording.events if low <= event.time <= high]
    return replace(recording, tracks=remaining, events=tuple(events))


def marked(recording: Recording, marks: Sequence[Mark]) -> Recording:
    """Return the recording with these segments; the name of a segment begins with its kind.

    A step begins when its goal changes, and a fall when torque is switched off, or with the mark if that is unknown.
    Raises UsageError or RecordingError for marks that do not suit the recording.
    """
    if not marks:
        return recording
    if len(recording) != 1:
        raise UsageError(f"segments are marked in logs of one servo; this one has {len(recording)}", "leave them out")
    (track,) = recording.values()
    events: list[Event] = []
    for mark in sorted(marks, key=lambda mark: mark.start):
        if events and mark.start < events[-1].time - _CHANGED:
            raise UsageError(f"segment {mark.name} begins before the one before it ends", "let them follow each other")
        part = track.between(mark.start, mark.end)
        if len(part) < 2:
            raise UsageError(f"segment {mark.name} holds fewer than two samples", _recorded_span(recording))
        of_kind = next((known for known in KINDS if mark.name.lower().startswith(known)), "")
        start, facts = float(part.time[0]), dict[str, float]()
        if of_kind == "step":
            start, facts = _step(recording, track, part, mark)
        elif of_kind == "fall":
            start, track = _fall(track, part)
        data: dict[str, Any] = {"name": mark.name, "kind": of_kind, "servo": track.name, **facts}
        if events and events[-1].time >= start - _CHANGED:
            events.pop()  # no samples between the two segments
        events.append(Event(start, "segment", data))
        if mark.end <= track.time[-1]:
            events.append(Event(mark.end, "segment", {"name": _BETWEEN}))
    return replace(recording, tracks={track.name: track}, events=tuple(events))


def _step(recording: Recording, track: Track, part: Track, mark: Mark) -> tuple[float, dict[str, float]]:
    """Return the time of a step's change of goal, s, and its start and target, rad."""
    before = track.between(-math.inf, float(part.time[0]))
    goals = np.concatenate((before.command[-1:], part.command))
    known = ~np.isnan(goals)
    changed = np.flatnonzero(np.abs(np.diff(goals[known])) > _CHANGED)
    if not len(changed):
        hint = "let it begin before the goal changes, and say which column that is: --column command=HEADER:deg"
        raise RecordingError(recording.path, f"segment {mark.name} is a step, but its goal does not change", hint)
    times = np.concatenate((before.time[-1:], part.time))[known]
    first, last = goals[known][[0, -1]]
    return float(times[changed[0] + 1]), {"start": float(first), "target": float(last)}


def _fall(track: Track, part: Track) -> tuple[float, Track]:
    """Return the start of a fall, s, and the track with torque off in it if the log has no torque enable."""
    limp = np.flatnonzero(part.torque_enabled == 0)
    if len(limp):
        return float(part.time[limp[0]]), track
    if not np.isnan(track.torque_enabled).all() and not np.isnan(part.torque_enabled).all():
        return float(part.time[0]), track  # the log says that torque was on
    inside = (track.time >= part.time[0]) & (track.time <= part.time[-1])
    enabled = np.where(inside, 0.0, np.where(np.isnan(track.torque_enabled), 1.0, track.torque_enabled))
    return float(part.time[0]), replace(track, torque_enabled=enabled)
