"""The metadata of a recording: what must be known to understand it, and to simulate it again."""

from __future__ import annotations

import hashlib
import json
import platform
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from axbridge import __version__
from axbridge.config.rig import Rig

__all__ = ["describe", "versions"]

_PACKAGES = ("numpy", "pybullet", "dynamixel-sdk", "numba")


def describe(
    rig: Rig | None = None, *, backend: str = "", seed: int | None = None, experiment: str = "", **more: Any
) -> dict[str, Any]:
    """Metadata of a recording.

    Args:
        rig: Its servos' profiles and models are recorded with a hash of each; the whole rig, too.
        backend: ``real``, ``sim``, ``imported``, …
        seed: Of the simulation.
        experiment: What was done.
        **more: Further JSON values (``calibration``, ``registers``, ``source``, ``pendulum``, …).
    """
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
        facts["profiles"] = {}
        facts["models"] = {}
        for servo in rig.servos:
            if servo.drive != "dynamixel":
                continue
            profile = rig.profile_of(servo).model_dump(mode="json", by_alias=True, exclude={"path"})
            model = rig.model_of(servo).model_dump(mode="json", exclude={"path"})
            facts["profiles"][profile["name"]] = _digest(profile)
            facts["models"][servo.name] = {**model, "hash": _digest(model)}
    return facts | more


def versions() -> dict[str, str]:
    """axbridge, Python and the packages that shape results."""
    found = {"axbridge": __version__, "python": platform.python_version()}
    return found | {package: known for package in _PACKAGES if (known := _version(package))}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
