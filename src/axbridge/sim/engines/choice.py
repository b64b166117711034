"""Which engine a world is built with, by name; engines are imported when they are needed."""

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
    """The engines that can be had here, the one that ``auto`` means first."""
    return [name for name in _PACKAGES if _is_installed(name)]


def chosen(name: EngineName, *, ideal: bool = False) -> Literal["bullet", "mujoco", "none"]:
    """The engine meant: for ``auto`` Bullet where it is installed, else MuJoCo, else none; MuJoCo for `ideal` joints.

    Raises:
        UnsupportedOperation: it is not installed.
    """
    if name == "none":
        return "none"
    if name == "auto" and not ideal:  # one that is not used may be too large for this process: it is not looked for
        return next(filter(_is_installed, _PACKAGES), "none")
    name = "mujoco" if name == "auto" else name
    if not _is_installed(name):
        require(f"engine {name}", _PACKAGES[name])
    return name


def with_usual_engine(rig: Rig, engine: str | None = None) -> Rig:
    """The rig with this engine, else with that of ``AXBRIDGE_ENGINE``, else as it is."""
    usual = os.environ.get("AXBRIDGE_ENGINE")
    if engine or not usual or rig.world is None:
        return rig.with_engine(engine)
    try:
        return rig.with_engine(usual)
    except RigError as failure:
        why = f"AXBRIDGE_ENGINE is {usual!r}, and {failure.message}"
        raise UsageError(why, "set it to bullet, mujoco, none or auto, or unset it") from failure


def check_size(rig: Rig) -> None:
    """Refuse a rig whose robot is too large for the engine of its world; a robot without one is not.

    Raises:
        RigError: it has too many links.
    """
    if rig.world is None or len(links := rig.tree().links) <= BULLET_LINKS:
        return
    if chosen(rig.world.engine, ideal=any(servo.drive == "ideal" for servo in rig.servos)) == "bullet":
        refuse_size(rig.urdf_path(), len(links))


def build_engine(name: EngineName, scene: Scene) -> Engine:
    """A world with the engine of that name; see `chosen`."""
    found = chosen(name, ideal=bool(scene.ideal))
    if found == "mujoco":
        from axbridge.sim.engines.mujoco.engine import MujocoEngine

        return MujocoEngine(scene)
    if found == "bullet":
        from axbridge.sim.engines.bullet.engine import BulletEngine

        return BulletEngine(scene)
    from axbridge.sim.engines.pendulums import Pendulums

    if name == "auto":
        why = f"no physics engine is installed, so joints do not push each other: {install('mujoco')}"
        warnings.warn(why, RigWarning, stacklevel=2)
    return Pendulums.of(scene)
