"""The metadata of a recording: what must be known to understand it, and to simulate it again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from axbridge import __version__
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.recording.recording import Recording

_PACKAGES = ("numpy", "pybullet", "mujoco", "numba", "scipy", "cma", "dynamixel-sdk", "mcap")
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
    """Git revision of the folder of a file, and whether anything in that folder differs from it.

    None where git does not keep the file, or is not installed.
    """
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
            text=True,
            timeout=_PATIENCE,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def versions() -> dict[str, str]:
    """axbridge, Python and the packages that shape results."""
    found = {"axbridge": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
