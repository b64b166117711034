"""The metadata of a recording: what must be known to understand it, and to simulate it again; and their check."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from axbridge import __version__
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.file_reading import check_format, misfit_in_words, printable
from axbridge.recording.recording import Event, Recording
from axbridge.recording.sample_quality import LAST

_PACKAGES = ("numpy", "pybullet", "mujoco", "numba", "scipy", "cma", "dynamixel-sdk", "mcap")
FORMAT_KEY = "recording_format"  # in the metadata: which format the file has
_MOST = 1000  # servos: about four buses on which every id is taken
_PATIENCE = 2.0  # s for git: a folder on a slow disk is recorded without its revision


def describe(
    rig: Rig | None = None, *, backend: str = "", seed: int | None = None, experiment: str = "", **more: Any
) -> dict[str, Any]:
    """Metadata of a recording."""
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
        if revision := revision_of(rig.path):
            facts["rig_revision"] = revision
        if rig.world is not None:
            facts["urdf"] = rig.urdf_text()
        facts["profiles"] = {}
        facts["models"] = {}
        for servo in rig.dynamixels:
            profile = rig.profile_of(servo).model_dump(mode="json", by_alias=True, exclude={"path"})
            model = rig.model_of(servo).model_dump(mode="json", exclude={"path"})
            facts["profiles"][profile["name"]] = _digest(profile)
            facts["models"][servo.name] = {**model, "hash": _digest(model)}
    return facts | more


def origin_in_words(facts: Mapping[str, Any]) -> str:
    """Where samples come from, by metadata or `Robot.origin`: ``simulated (bullet)``, ``virtual servos``."""
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
    """The rig that a recording was made with, with its URDF, from the recording itself."""
    table = recording.metadata.get("rig")
    if not isinstance(table, dict):
        raise RecordingError(recording.path, "does not say which robot it is of", "name it: --rig")
    try:
        rig = Rig.model_validate({**table, "path": recording.path})
    except ValueError as failure:
        raise RecordingError(recording.path, "holds no rig that this version knows", "name it: --rig") from failure
    text = recording.metadata.get("urdf")
    return rig.with_urdf(text) if isinstance(text, str) else rig


def origin_of(path: Path) -> dict[str, Any]:
    """Where an imported log comes from: ``source`` (its name) and ``source_sha256``."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return {"source": path.name, "source_sha256": digest.hexdigest()}


def revision_of(path: Path) -> dict[str, Any] | None:
    """Git revision of a file's folder, and whether anything there differs from it; None where git does not keep it."""
    if not path.is_file():
        return None
    folder = path.resolve().parent
    kept = _git(folder, "ls-files", "--error-unmatch", "--", path.resolve().name)
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    if kept is None or commit is None or changes is None:
        return None
    return {"commit": commit.strip(), "dirty": bool(changes.strip())}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says; None when it fails. It only reads: no lock is taken."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            errors="replace",  # names of files are any bytes
            timeout=_PATIENCE,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def versions() -> dict[str, str]:
    """axbridge, Python and the packages that shape results."""
    by_package = {"axbridge": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            by_package[package] = version(package)
    return by_package


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


_Schema = TypeVar("_Schema", bound=BaseModel)


class _Said(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False)  # keys that nobody reads may be anything


class _Joint(_Said):
    name: str
    joint: str


class _Rig(_Said):
    name: str = ""
    servo: list[_Joint] = []


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
    """The keys that somebody reads; see `describe` for what they are."""

    backend: str | None = None
    engine: str | None = None
    servos: str | None = None
    experiment: str | None = None
    recorded: str | None = None
    source: str | None = None
    urdf: str | None = None
    rig: _Rig | None = None
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
        where = ".".join(map(str, first["loc"]))
        raise RecordingError(path, printable(f"{what}: {where}: {misfit_in_words(first)}"), hint) from None
