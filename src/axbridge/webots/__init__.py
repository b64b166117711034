"""Webots' Python `controller` module on an axbridge robot: controllers run unmodified, simulated or on real servos.

`install` registers a `controller` package and its submodules for `import`; ``axbridge run SCRIPT.py --rig R`` does this
and runs the script. Names, values and messages follow Webots R2025a, and the `Servo` of releases before 7.2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from axbridge.config.rig import Rig
from axbridge.webots.devices import DEVICES, AnsiCodes, Device, Node, Sensor, snake
from axbridge.webots.joints import Brake, Motor, PositionSensor, Servo
from axbridge.webots.keyboard import Keyboard
from axbridge.webots.motion import Motion
from axbridge.webots.robot import Robot, Supervisor
from axbridge.webots.session import Session, sessions

__all__ = ["Session", "install"]

_OWN = (AnsiCodes, Brake, Keyboard, Motion, Motor, Node, PositionSensor, Robot, Servo, Supervisor)
CLASSES: dict[str, Any] = {**DEVICES, **{own.__name__: own for own in _OWN}}
HIDDEN: dict[str, Any] = {"Device": Device, "Sensor": Sensor}  # in submodules only


def install(
    rig: str | Path | Rig,
    backend: str | None = None,
    *,
    port: str | None = None,
    duration: float | None = None,
    project: Path | None = None,
) -> Session:
    """Make ``from controller import …`` import classes that drive `rig`.

    Args:
        rig: Name, path or `Rig`.
        backend: ``sim``, ``real`` or ``twin``; by default as for `axbridge.open`.
        port: Serial port; a given port implies ``real``.
        duration: Robot time after which `step` returns -1, s; None = never.
        project: Folder of the controller; by default the working directory.

    Returns:
        The session; close it when the controller has ended.

    Raises:
        RigError: no such rig, or a mistake in it.
    """
    loaded = rig if isinstance(rig, Rig) else Rig.load(rig)
    session = Session(loaded, backend, port, duration, project or Path.cwd())
    sessions[:] = [session]
    Robot.created = None
    package = ModuleType("controller", "Webots' controller API, by axbridge.")
    package.__path__ = []
    package.__dict__.update(CLASSES, __all__=sorted(CLASSES))
    sys.modules["controller"] = package
    parts = {snake(name): {name: member} for name, member in (CLASSES | HIDDEN).items()}
    for name, content in (parts | {"constants": {}, "wb": {}}).items():
        part = sys.modules[f"controller.{name}"] = ModuleType(f"controller.{name}")
        part.__dict__.update(content)
        setattr(package, name, part)
    return session


def uninstall() -> None:
    """Take the `controller` package out again."""
    for name in [name for name in sys.modules if name == "controller" or name.startswith("controller.")]:
        del sys.modules[name]
    Robot.created = None
