"""Columns of somebody else's log into a recording: checked, put in order of time, and described."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from axbridge.arrays import FloatArray
from axbridge.errors import RecordingError
from axbridge.recording.metadata import check_number
from axbridge.recording.provenance import describe, origin_of
from axbridge.recording.recording import Event, Recording, Track, in_order
from axbridge.recording.sample_quality import Oddity, findings

Warned = Callable[[Oddity], None]  # called with everything odd that can be used all the same


class Columns(NamedTuple):
    """One servo's samples in the order of the log."""

    values: Mapping[str, FloatArray]  # by name, in SI units, (n,) each; `time` is one of them; NaN = unknown
    places: Sequence[str]  # what to call each sample, for the reader to find it


def recording_of(
    path: Path,
    servos: Mapping[str, Columns],
    experiment: str,
    warned: Warned,
    events: tuple[Event, ...] = (),
    **metadata: Any,
) -> Recording:
    """A recording of these columns."""
    check_number(path, len(servos))
    tracks: dict[str, Track] = {}
    for name, (values, places) in servos.items():
        columns = {key: column for key, column in values.items() if key != "time"}
        for finding in findings(name, values["time"], columns, places.__getitem__):
            if finding.severity == "error":
                raise RecordingError(path, str(finding), finding.remedy)
            warned(finding)
        time, columns = in_order(values["time"], columns)
        tracks[name] = Track.of(name, time, **columns)
    facts = describe(backend="imported", experiment=experiment, **origin_of(path), **metadata)
    return Recording(path, tracks, events, {}, facts)
