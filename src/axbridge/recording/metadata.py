"""The metadata that a recording may have, with the kind of each value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from axbridge.errors import RecordingError
from axbridge.file_reading import check_format, printable
from axbridge.recording.recording import Event
from axbridge.recording.sample_quality import LAST

FORMAT_KEY = "recording_format"  # in the metadata: which format the file has
_MOST = 1000  # servos: about four buses on which every id is taken


_Schema = TypeVar("_Schema", bound=BaseModel)


class _Said(BaseModel):
    """A table of which some keys are known; the others may be anything."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class _RecordedJoint(_Said):
    name: str
    joint: str


class _RecordedRig(_Said):
    name: str = ""
    servo: list[_RecordedJoint] = []


class _Pendulum(_Said):
    mass: float = Field(gt=0)
    length: float = Field(gt=0)
    vin: float = Field(default=12.0, gt=0)


class _Load(_Said):
    inertia: float = Field(gt=0)


class _RecordedGait(_Said):
    steps: int = Field(default=1, ge=0, le=1_000_000)
    period: float = Field(default=1.0, gt=0)
    lower: float = 0.0


class _RecordedGoal(_Said):
    time_estimated: bool = False


class _Metadata(_Said):
    """The keys that somebody reads; see `axbridge.recording.provenance.describe` for what they are."""

    backend: str | None = None
    experiment: str | None = None
    recorded: str | None = None
    source: str | None = None
    urdf: str | None = None
    rig: _RecordedRig | None = None
    models: dict[str, dict[str, Any]] | None = None
    profiles: dict[str, str] | None = None
    versions: dict[str, str] | None = None
    registers: dict[str, dict[str, int]] | None = None
    pendulum: _Pendulum | None = None
    load: _Load | None = None
    gait: _RecordedGait | None = None
    goal: _RecordedGoal | None = None
    notes: list[str] | None = None


class _RecordedSegment(_Said):
    name: str = ""
    kind: str = ""
    servo: str | None = None
    start: float | None = None
    target: float = 0.0
    low: float = 0.0
    high: float = 0.0
    limit: float = 0.0


class _RecordedRegister(_Said):
    servo: str
    name: str
    value: int = Field(ge=-(2**31), lt=2**32)


class _RecordedEvent(_Said):
    time: float = Field(ge=-LAST, le=LAST)
    name: str
    data: dict[str, Any] = {}


_EVENTS: dict[str, type[_Said]] = {"segment": _RecordedSegment, "register": _RecordedRegister}


def checked(path: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as they are; what is null is left out, and the number of the format."""
    said = {key: value for key, value in metadata.items() if value is not None}
    check_format(said.pop(FORMAT_KEY, 1), partial(RecordingError, path))
    validated(path, "its metadata make no sense", _Metadata, said)
    return said


def checked_event(path: Path, said: Mapping[str, Any]) -> Event:
    """An event as it is; one that somebody reads must have what they look for."""
    event = validated(path, "holds an event that makes no sense", _RecordedEvent, said)
    if event.name in _EVENTS:
        validated(path, f"its event {event.name!r} at {event.time:g} s makes no sense", _EVENTS[event.name], event.data)
    return Event(event.time, event.name, event.data)


def check_number(path: Path, servos: int) -> None:
    """Refuse more servos than a robot has; readers do much for each."""
    if servos > _MOST:
        why = f"holds {servos} servos, and {_MOST} are the most that a recording has"
        raise RecordingError(path, why, "give a log whose servos have one name each, on every line")


def validated(
    path: Path, what: str, schema: type[_Schema], said: Any, hint: str = "record or import it again"
) -> _Schema:
    """What a file says, as an object of `schema`."""
    try:
        return schema.model_validate(said)
    except ValidationError as failure:
        first = failure.errors()[0]
        where, message = ".".join(map(str, first["loc"])), str(first["msg"])
        raise RecordingError(path, printable(f"{what}: {where}: {message[0].lower()}{message[1:]}"), hint) from None
