"""axbridge: one Servo API for Dynamixel AX-12 servos, on the bus or simulated down to their registers.

>>> import axbridge
>>> with axbridge.open("bench_arm", backend="sim") as robot:
...     robot["shoulder"].set_position(0.6)
...     robot.step(20)
0.0

Names are loaded when first used, so that importing axbridge is quick and needs no PyBullet.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axbridge.config.profile import FirmwareProfile
    from axbridge.config.rig import Rig
    from axbridge.errors import (
        AxBridgeError,
        BusError,
        BusTimeout,
        ControlWarning,
        CorruptPacket,
        ErrorFlag,
        MoveError,
        PortError,
        ProfileError,
        RecordingError,
        RigError,
        ServoFault,
        SimulationDiverged,
        UnknownServo,
        UnsupportedOperation,
        UsageError,
    )
    from axbridge.motion.moves import Move
    from axbridge.motion.player import play
    from axbridge.motion.teaching import teach
    from axbridge.robot.open import open_robot as open  # noqa: A004 - `axbridge.open` is the public name
    from axbridge.robot.robot import Robot
    from axbridge.robot.servo import Servo
    from axbridge.robot.state import ServoState

__version__ = "0.1.0"

_HOME = {
    "AxBridgeError": "errors",
    "BusError": "errors",
    "BusTimeout": "errors",
    "ControlWarning": "errors",
    "CorruptPacket": "errors",
    "ErrorFlag": "errors",
    "FirmwareProfile": "config.profile",
    "Move": "motion.moves",
    "MoveError": "errors",
    "PortError": "errors",
    "ProfileError": "errors",
    "RecordingError": "errors",
    "Rig": "config.rig",
    "RigError": "errors",
    "Robot": "robot.robot",
    "Servo": "robot.servo",
    "ServoFault": "errors",
    "ServoState": "robot.state",
    "SimulationDiverged": "errors",
    "UnknownServo": "errors",
    "UnsupportedOperation": "errors",
    "UsageError": "errors",
    "open": "robot.open",
    "play": "motion.player",
    "teach": "motion.teaching",
}

__all__ = [
    "AxBridgeError",
    "BusError",
    "BusTimeout",
    "ControlWarning",
    "CorruptPacket",
    "ErrorFlag",
    "FirmwareProfile",
    "Move",
    "MoveError",
    "PortError",
    "ProfileError",
    "RecordingError",
    "Rig",
    "RigError",
    "Robot",
    "Servo",
    "ServoFault",
    "ServoState",
    "SimulationDiverged",
    "UnknownServo",
    "UnsupportedOperation",
    "UsageError",
    "open",
    "play",
    "teach",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'axbridge' has no attribute {name!r}")
    value = getattr(import_module(f"axbridge.{_HOME[name]}"), "open_robot" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
