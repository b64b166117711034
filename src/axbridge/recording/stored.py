"""Recordings in files: `open_recording` reads one, whole or cut off; `write_recording` makes one of what is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import numpy as np

from axbridge.errors import RecordingError
from axbridge.file_reading import reading, regular
from axbridge.files import replacing, writing
from axbridge.recording.mcap_file import OURS, FormatError, Message, MessageWriter, read
from axbridge.recording.metadata import check_number, checked, checked_event
from axbridge.recording.recording import Event, Recording, StoredTracks, Track
from axbridge.recording.sample_quality import LAST
from axbridge.recording.step_format import CYCLE, CYCLE_FIELDS, CYCLE_ROW, EVENTS, STEP, packed, packed_event
from axbridge.state import SERVO_COLUMNS, SERVO_ROW

_BLOCK = 1000  # steps written between two words about how far it is


def opened(recording: Recording | Path | str) -> Recording:
    """The recording itself, or the one in the file of this name."""
    return recording if isinstance(recording, Recording) else open_recording(recording)


def open_recording(path: Path | str) -> Recording:
    """Read a recording, whole or cut off (`Recording.complete` says which).

    A servo's samples become arrays when somebody asks for them: an hour of eighteen servos fits a small computer.

    Raises:
        RecordingError: no such file, not readable, no MCAP, or nothing of ours in it.
    """
    path = Path(path)
    tracks = StoredTracks()
    with reading(partial(RecordingError, path), OURS):
        try:
            with regular(path).open("rb") as stream:
                found = read(stream, tracks.add)
        except FormatError as failure:
            raise RecordingError(path, *failure.args) from failure
        if found.metadata is None:
            why = "it was cut off at its start, or another program made it"
            raise RecordingError(path, "holds nothing of axbridge's", why)
        check_number(path, len(tracks))
        metadata = checked(path, found.metadata)
        events = [checked_event(path, event) for event in found.events]
        events += [
            Event(after, "clock jumped back", {"servo": servo, "from": before})
            for servo, (before, after) in tracks.backwards.items()
        ]
        cycles = np.concatenate([np.empty(0, CYCLE_ROW), *found.cycles])
        cycles = cycles[np.abs(cycles["time"]) <= LAST]
    columns = {name: np.where(np.isfinite(cycles[name]), cycles[name], np.nan) for name in CYCLE_FIELDS}
    known = {name: column for name, column in columns.items() if not np.isnan(column).all()}
    lost = (f"{found.lost} of {found.chunks} parts",) if found.lost else ()
    events.sort(key=lambda event: event.time)
    return Recording(path, tracks, tuple(events), known, metadata, found.whole and not lost, lost)


def write_recording(
    recording: Recording, path: Path | str, progress: Callable[[int], None] = lambda _written: None
) -> Recording:
    """Write a whole, compressed file; what was at `path` stays if that fails. Returns it as it lies there.

    Its folder is made. Log times count from when it was recorded (``recorded`` in its metadata, else now).
    """
    path = Path(path)
    check_number(path, len(recording))
    with writing(path), replacing(path) as temporary, temporary.open("wb") as stream:
        writer = MessageWriter(stream, recording.metadata, chunked=True)
        for number, message in enumerate(_messages(recording)):
            if number % _BLOCK == 0:
                progress(number)
            writer.write(message)
        writer.finish()
    return open_recording(path) if path.is_file() else replace(recording, path=path, complete=True)


def log_origin(recording: Recording) -> int:
    """Log time of the robot's time 0, UTC in ns; the first sample is from when it was recorded, as its metadata say."""
    try:
        moment = datetime.fromisoformat(str(recording.metadata.get("recorded")))
    except ValueError:
        moment = datetime.now(timezone.utc)
    return round(moment.timestamp()) * 10**9 - round(recording.start * 1e9)


def _messages(recording: Recording) -> Iterator[Message]:
    """Everything in it."""
    origin = log_origin(recording)
    for event in recording.events:
        facts = {"time": event.time, "name": event.name, "data": event.data}
        yield Message(EVENTS, packed_event(facts), origin + round(event.time * 1e9))
    cycles = np.full(len(recording.cycles.get("time", ())), np.nan, CYCLE_ROW)
    for name, column in recording.cycles.items():
        cycles[name] = column
    for cycle in cycles:
        yield Message(CYCLE, packed(cycle), origin + round(cycle["time"] * 1e9))
    tracks = dict(recording.items())
    for servos in sampled_together(tracks):
        times = tracks[servos[0]].time
        for first in range(0, len(times), _BLOCK):
            some = slice(first, first + _BLOCK)
            steps = np.full((len(times[some]), len(servos)), np.nan, SERVO_ROW)
            for place, servo in enumerate(servos):
                for name in SERVO_COLUMNS:
                    steps[name][:, place] = getattr(tracks[servo], name)[some]
            for time, step in zip(times[some].tolist(), steps, strict=True):
                yield Message(STEP, packed(step), origin + round(time * 1e9), servos)


def sampled_together(tracks: dict[str, Track]) -> list[tuple[str, ...]]:
    """Servos that have their samples step by step, each before the next of any other."""
    groups: defaultdict[int, list[list[str]]] = defaultdict(list)
    for servo, track in tracks.items():
        for group in groups[len(track)]:
            first = tracks[group[0]].time
            if len(track) and (track.time[:-1] < first[1:]).all() and (first[:-1] < track.time[1:]).all():
                group.append(servo)
                break
        else:
            groups[len(track)].append([servo])
    return [tuple(group) for groups_of in groups.values() for group in groups_of]
