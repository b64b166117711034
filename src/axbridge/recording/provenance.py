"""The metadata of a recording, with which it can be understood and simulated again, and their validation."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from axbridge import __version__
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, UsageError
from axbridge.file_reading import check_format, misfit_in_words, printable
from axbridge.recording.recording import Event, Recording
from axbridge.recording.sample_quality import LAST

_PACKAGES = ("numpy", "pybullet", "mujoco", "numba", "scipy", "cma", "dynamixel-sdk", "mcap")
FORMAT_KEY = "recording_format"  # in the metadata: the number of the file's format
_MAX_SERVOS = 1000  # about four buses on which every id is in use


def describe(
    rig: Rig | None = None, *, backend: str = "", seed: int | None = None, experiment: str = "", **more: Any
) -> dict[str, Any]:
    """Return the metadata of a recording; `more` has further keys."""
    facts: dict[str, Any] = {
        "backend": backend,
        "experiment": experiment,
        "recorded": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    if seed is not None:
        facts["seed"] = seed
    if rig is not None:
        facts["rig"] = rig.model_dump(mode="json", by_alias=True, exclude={"path"})
        if rig.world is not None:
            facts["urdf"] = rig.urdf_text()
        facts |= {"profiles": {}, "models": {}}
        for servo in rig.dynamixels:
            spec = rig.specs[servo.name]
            profile = spec.profile.model_dump(mode="json", by_alias=True, exclude={"path"})
            model = spec.model.model_dump(mode="json", exclude={"path"})
            facts["profiles"][profile["name"]] = _digest(profile)
            facts["models"][servo.name] = {**model, "hash": _digest(model)}
    return facts | more


def origin_in_words(facts: Mapping[str, Any]) -> str:
    """Return the source of samples, from metadata or `Robot.origin`: ``simulated (bullet)``, ``virtual servos``."""
    backend, engine = facts.get("backend"), facts.get("engine")
    servos = "virtual servos" if facts.get("servos") == "virtual" else "real servos"
    if backend == "sim":
        return f"simulated ({engine})" if engine else "simulated"
    if virtual := facts.get("virtual"):
        return f"{servos}, and simulated ones ({engine}): {virtual}"
    if backend == "twin":
        return f"{servos}, with a simulation ({engine}) beside them"
    return servos if backend == "real" else str(backend or "")


def rig_of(recording: Recording) -> Rig:
    """Return the rig and its URDF from a recording's metadata; raise RecordingError when it has no valid rig."""
    table = recording.metadata.get("rig")
    if not isinstance(table, dict):
        raise RecordingError(recording.path, "does not say which robot it is of", "name it: --rig")
    try:
        rig = Rig.model_validate({**table, "path": recording.path})
    except ValueError as failure:
        raise RecordingError(recording.path, "holds a rig that this version cannot read", "name it: --rig") from failure
    text = recording.metadata.get("urdf")
    return rig.with_urdf(text) if isinstance(text, str) else rig


def origin_of(path: Path) -> dict[str, Any]:
    """Return the source of an imported log: ``source`` (its file name) and ``source_sha256``."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return {"source": path.name, "source_sha256": digest.hexdigest()}


def check_different(recordings: Iterable[Recording]) -> None:
    """Raise UsageError if two files are equal: the same samples twice narrow the intervals, or test nothing."""
    seen: dict[str, Path] = {}
    for path in (recording.path for recording in recordings):
        first = seen.setdefault(origin_of(path)["source_sha256"], path)
        if first is not path:
            what = "is given twice" if first.resolve() == path.resolve() else f"is a copy of {first}"
            raise UsageError(f"{path} {what}", "give each recording once")


def versions() -> dict[str, str]:
    """Return the versions of axbridge, Python and the packages on which results depend."""
    by_package = {"axbridge": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            by_package[package] = version(package)
    return by_package


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


_Schema = TypeVar("_Schema", bound=BaseModel)


class _Table(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False)  # keys without a reader can have any value


class _Joint(_Table):
    name: str
    joint: str


def _table(**keys: Any) -> type[_Table]:
    """Return the schema of a table: type and default of each key, ``...`` without a default."""
    return create_model("_Table", __base__=_Table, **keys)


_POSITIVE = Annotated[float, Field(gt=0)]
_METADATA = _table(  # the keys that axbridge reads; `describe` writes most of them
    **dict.fromkeys(("backend", "engine", "servos", "experiment", "recorded", "source", "urdf"), (str, "")),
    rig=(_table(name=(str, ""), servo=(list[_Joint], [])), None),
    models=(dict[str, dict[str, Any]], {}),
    profiles=(dict[str, str], {}),
    versions=(dict[str, str], {}),
    registers=(dict[str, dict[str, int]], {}),
    pendulum=(_table(mass=(_POSITIVE, ...), length=(_POSITIVE, ...), vin=(_POSITIVE, 12.0)), None),
    load=(_table(inertia=(_POSITIVE, ...)), None),
    gait=(
        _table(steps=(Annotated[int, Field(ge=0, le=1_000_000)], 1), period=(_POSITIVE, 1.0), lower=(float, 0.0)),
        None,
    ),
    goal=(_table(time_estimated=(bool, False)), None),
    notes=(list[str], []),
)
_EVENT_DATA = {
    "segment": _table(
        **dict.fromkeys(("name", "kind"), (str, "")),
        **dict.fromkeys(("target", "low", "high"), (float, 0.0)),
        servo=(str | None, None),
        start=(float | None, None),
    ),
    "register": _table(servo=(str, ...), name=(str, ...), value=(Annotated[int, Field(ge=-(2**31), lt=2**32)], ...)),
}


class _RecordedEvent(_Table):
    time: float = Field(ge=-LAST, le=LAST)
    name: str
    data: dict[str, Any] = {}


def checked(path: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without null values and the format's number; raise RecordingError when they are invalid."""
    known = {key: value for key, value in metadata.items() if value is not None}
    check_format(known.pop(FORMAT_KEY, 1), partial(RecordingError, path))
    validated(path, "has invalid metadata", _METADATA, known)
    return known


def checked_event(path: Path, table: Mapping[str, Any]) -> Event:
    """Return an event; raise RecordingError when a segment or register event lacks what its readers need."""
    event = validated(path, "holds an invalid event", _RecordedEvent, table)
    if event.name in _EVENT_DATA:
        what = f"holds an invalid event {event.name!r} at {event.time:g} s"
        validated(path, what, _EVENT_DATA[event.name], event.data)
    return Event(event.time, event.name, event.data)


def check_number(path: Path, servos: int) -> None:
    """Raise RecordingError for more than 1,000 servos: a corrupt log, whose reading would take very long."""
    if servos > _MAX_SERVOS:
        why = f"holds {servos} servos, and {_MAX_SERVOS} are the most that a recording has"
        raise RecordingError(path, why, "give a log whose servos have one name each, on every line")


def validated(
    path: Path, what: str, schema: type[_Schema], content: Any, hint: str = "record or import it again"
) -> _Schema:
    """Return the content of a file as an object of `schema`; raise RecordingError when it does not fit."""
    try:
        return schema.model_validate(content)
    except ValidationError as failure:
        first = failure.errors()[0]
        key = ".".join(map(str, first["loc"]))  # "" if the whole content is no table
        words = ": ".join(filter(None, (what, key, misfit_in_words(first))))
        raise RecordingError(path, printable(words), hint) from None
