"""Choose a world's engine by name; an engine is imported only when it is used."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec
from typing import Literal, TypeAlias

from axbridge.config.rig import Rig
from axbridge.errors import RigError, RigWarning, UsageError, install, require
from axbridge.sim.engine import BULLET_LINKS, Engine, Scene, refuse_size

EngineName: TypeAlias = Literal["auto", "bullet", "mujoco", "none"]

_PACKAGES: dict[Literal["bullet", "mujoco"], str] = {"bullet": "pybullet", "mujoco": "mujoco"}


@cache
def _is_installed(name: Literal["bullet", "mujoco"]) -> bool:
    return find_spec(_PACKAGES[name]) is not None


def installed() -> list[Literal["bullet", "mujoco"]]:
    """Return the installed engines; the one for ``auto`` is first."""
    return [name for name in _PACKAGES if _is_installed(name)]


def chosen(name: EngineName, *, ideal: bool = False) -> Literal["bullet", "mujoco", "none"]:
    """Return the engine for a name; ``auto``: Bullet if installed, else MuJoCo, else none; MuJoCo for `ideal` joints.

    Raises:
        UnsupportedOperation: the engine is not installed.
    """
    if name == "none":
        return "none"
    if name == "auto" and not ideal:  # do not look for an unused engine: it may be too large for this process
        return next(filter(_is_installed, _PACKAGES), "none")
    name = "mujoco" if name == "auto" else name
    if not _is_installed(name):
        require(f"engine {name}", _PACKAGES[name])
    return name


def with_usual_engine(rig: Rig, engine: str | None = None) -> Rig:
    """Return the rig with this engine, or else with that of ``AXBRIDGE_ENGINE``, or else unchanged."""
    default = os.environ.get("AXBRIDGE_ENGINE")
    if engine or not default or rig.world is None:
        return rig.with_engine(engine)
    try:
        return rig.with_engine(default)
    except RigError as failure:
        reason = f"AXBRIDGE_ENGINE is {default!r}, and {failure.message}"
        raise UsageError(reason, "set it to bullet, mujoco, none or auto, or unset it") from failure


def check_size(rig: Rig) -> None:
    """Check that a rig's robot is not too large for the engine of its world.

    Raises:
        RigError: it has too many links.
    """
    if rig.world is None or len(links := rig.tree().links) <= BULLET_LINKS:
        return
    if chosen(rig.world.engine, ideal=any(servo.drive == "ideal" for servo in rig.servos)) == "bullet":
        refuse_size(rig.urdf_path(), len(links))


def build_engine(name: EngineName, scene: Scene) -> Engine:
    """Build a scene's world with the engine of that name; see `chosen`."""
    engine = chosen(name, ideal=bool(scene.ideal))
    if engine == "mujoco":
        from axbridge.sim.engines.mujoco.engine import MujocoEngine

        return MujocoEngine(scene)
    if engine == "bullet":
        from axbridge.sim.engines.bullet.engine import BulletEngine

        return BulletEngine(scene)
    from axbridge.sim.engines.pendulums import Pendulums

    if name == "auto":
        message = f"no physics engine is installed, so joints do not push each other: {install('mujoco')}"
        warnings.warn(message, RigWarning, stacklevel=2)
    return Pendulums.of(scene)
