"""Replay of recordings: a page that contains them, so that it needs neither a server nor a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.comparison.page import heights, packed
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.recording.recording import Recording, Track
from axbridge.recording.step_format import BASE
from axbridge.rotations import of_roll_pitch_yaw
from axbridge.view.description import described, page

_ROOM = 1_500_000  # bytes for all samples of a page: small enough for a mail
_BYTES = 8 / 3  # a sample: two bytes, in base64
_MORE = 9  # columns of a recording apart from servos: the time, which takes two, and the base
_COLUMNS = {
    "goal": "command", "position": "position", "load": "load", "voltage": "voltage", "temperature": "temperature",
    "on": "torque_enabled",
}  # fmt: skip
_BESIDE = {"position": "position"}  # columns of the recordings after the first


def replay_page(rig: Rig, recordings: Sequence[Recording], labels: Sequence[str] = ()) -> str:
    """Return the page of recordings, aligned at their starts; all but the first are drawn as ghosts."""
    first = recordings[0]
    names = [servo.name for servo in rig.servos if servo.name in first and len(first[servo.name])]
    for recording in recordings:
        if not any(len(recording[name]) for name in names if name in recording):
            other = f"it has none of {', '.join(names)}"
            hint = "give the rig it was made with: --rig" if recording is first else other
            raise RecordingError(recording.path, f"holds nothing of rig {rig.name}", hint)
    columns = (len(_COLUMNS) + (len(recordings) - 1) * len(_BESIDE)) * len(names)
    most = max(200, int(_ROOM / _BYTES / (columns + _MORE * len(recordings))))
    entries = [
        _described(recording, names, label or recording.path.name, most, _BESIDE if number else _COLUMNS)
        for number, (recording, label) in enumerate(zip(recordings, labels or [""] * len(recordings), strict=True))
    ]
    title = " beside ".join(entry["label"] for entry in entries)
    notes = [f"{recording.path.name} {recording.flaw}" for recording in recordings if recording.flaw]
    every = max(math.ceil(len(first[names[0]]) / most), 1)
    notes += [f"of {every} samples one is here"] if every > 1 else []
    description = {
        **described(rig, names, {name: _ends(rig, name, first[name]) for name in names}),
        "kind": "recording", "notes": [title, *notes],
        "recordings": entries, "flags": _flags(first),
    }  # fmt: skip
    return page(f"{title} – axbridge", description, live=False)


def _described(
    recording: Recording, names: Sequence[str], label: str, most: int, columns: dict[str, str]
) -> dict[str, Any]:
    """Return one recording: samples of each servo at the times of the servo that has most samples."""
    start = recording.start
    tracks = {name: recording[name] for name in names if name in recording}
    time = max((track.time for track in tracks.values()), key=len)
    time = time[:: max(math.ceil(len(time) / most), 1)]
    values_of: dict[str, list[Any]] = {what: [None] * len(names) for what in columns}
    for place, name in enumerate(names):
        if name in tracks and len(tracks[name]):
            rows = _nearest(tracks[name].time, time)
            for what, column in columns.items():
                values = getattr(tracks[name], column)[rows]
                values_of[what][place] = None if np.isnan(values).all() else heights(values)
    times = packed((time - start).astype("<f4"))
    return {"label": label, "times": times, "columns": values_of, "base": _base(recording, time)}


def _nearest(time: FloatArray, at: FloatArray) -> IntArray:
    return np.searchsorted((time[1:] + time[:-1]) / 2, at)


def _base(recording: Recording, at: FloatArray) -> list[Any] | None:
    """Return the position and quaternion of a simulated robot's base at these times, or None."""
    if not all(name in recording.cycles for name in BASE):
        return None
    rows = _nearest(recording.cycles["time"], at)
    x, y, z, *angles = (recording.cycles[name][rows] for name in BASE)
    if np.isnan(x).all():
        return None
    turns = np.array([of_roll_pitch_yaw(*each) for each in zip(*angles, strict=True)])
    return [heights(part) for part in (x, y, z, *turns.T)]


def _ends(rig: Rig, name: str, track: Track) -> tuple[float, float]:
    """Return the ends of a servo's slider, rad: its limits, or the recorded range."""
    servo = next(servo for servo in rig.servos if servo.name == name)
    if servo.min_position or servo.max_position:
        return servo.min_position, servo.max_position
    known = track.position[np.isfinite(track.position)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (-math.pi, math.pi)
    return min(low, high - 0.1), max(high, low + 0.1)


def _flags(recording: Recording) -> list[tuple[float, str]]:
    """Return events and starts of segments with their times, s from the start."""
    flags = []
    for event in recording.events:
        text = str(event.data.get("name", "segment")) if event.name == "segment" else event.name
        flags.append((round(event.time - recording.start, 3), text))
    return sorted(flags)
