"""Choose a world's engine by name; engines are imported when they are needed."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Literal, TypeAlias

from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.sim.engine import BULLET_LINKS, Engine, Scene, refuse_size

EngineName: TypeAlias = Literal["auto", "bullet", "mujoco"]

_PACKAGES: dict[Literal["bullet", "mujoco"], str] = {"bullet": "pybullet", "mujoco": "mujoco"}
_INSTALLED_BY = {"bullet": "pip install pybullet", "mujoco": "pip install 'mujoco<4'"}


@cache
def _is_installed(name: Literal["bullet", "mujoco"]) -> bool:
    return find_spec(_PACKAGES[name]) is not None


def installed() -> list[Literal["bullet", "mujoco"]]:
    """The engines that can be had here, the one that ``auto`` means first."""
    return [name for name in _PACKAGES if _is_installed(name)]


def chosen(name: EngineName, *, ideal: bool = False) -> Literal["bullet", "mujoco"]:
    """The engine meant: for ``auto`` Bullet where it is installed, else MuJoCo; MuJoCo for `ideal` joints.

    Raises:
        UsageError: it is not installed.
    """
    if name == "auto" and not ideal:
        first = next(filter(_is_installed, _PACKAGES), None)  # one that is not used may be too large for this process
        if first is None:
            raise UsageError("no physics engine is installed, so nothing can be simulated", _INSTALLED_BY["mujoco"])
        return first
    name = "mujoco" if name == "auto" else name
    if not _is_installed(name):
        raise UsageError(f'engine = "{name}" is not installed here', f"{_INSTALLED_BY[name]}, or take another")
    return name


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
    if chosen(name, ideal=bool(scene.ideal)) == "mujoco":
        from axbridge.sim.engines.mujoco.engine import MujocoEngine

        return MujocoEngine(scene)
    from axbridge.sim.engines.bullet.engine import BulletEngine

    return BulletEngine(scene)
