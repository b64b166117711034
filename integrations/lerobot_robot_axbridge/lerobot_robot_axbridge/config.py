"""What LeRobot's command line asks for: ``--robot.type=axbridge --robot.rig=bioloid --robot.backend=real``."""

from __future__ import annotations

from dataclasses import dataclass

from lerobot.robots import RobotConfig
from lerobot.teleoperators import TeleoperatorConfig

__all__ = ["AxbridgeConfig", "AxbridgeLimpConfig"]


@RobotConfig.register_subclass("axbridge")
@dataclass(kw_only=True)
class AxbridgeConfig(RobotConfig):
    """A rig as a robot.

    Attributes:
        rig: Its name, or its file.
        backend: ``sim``, ``real`` or ``twin``; by default ``real`` with a port, else ``sim``.
        port: Serial device in place of the rig's.
        max_relative_target: Degrees that a goal may be away from where the joint is; None: no limit.
    """

    rig: str
    backend: str | None = None
    port: str | None = None
    max_relative_target: float | None = None


@TeleoperatorConfig.register_subclass("axbridge_limp")
@dataclass(kw_only=True)
class AxbridgeLimpConfig(TeleoperatorConfig):
    """A rig whose motors stay off, to be moved by hand: its joints are the actions.

    Attributes:
        rig: Its name, or its file.
        backend: ``real``; ``sim`` hangs down.
        port: Serial device in place of the rig's.
    """

    rig: str
    backend: str = "real"
    port: str | None = None
