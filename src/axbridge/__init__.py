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
    from axbridge.bus.base import Bus
    from axbridge.config.model import ServoModel
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
        RobotStopped,
        ServoFault,
        SimulationDiverged,
        UnknownServo,
        UnsupportedOperation,
        UsageError,
    )
    from axbridge.motion.gait import Gait
    from axbridge.motion.moves import Move
    from axbridge.motion.player import play
    from axbridge.motion.teaching import teach
    from axbridge.motion.walking import walk
    from axbridge.record.recorder import Recorder
    from axbridge.record.recording import Recording, open_recording
    from axbridge.record.robot_recorder import RobotRecorder
    from axbridge.robot.open import open_robot as open  # noqa: A004 - `axbridge.open` is the public name
    from axbridge.robot.robot import Robot, StepReport
    from axbridge.robot.servo import Servo
    from axbridge.robot.simulation import Simulation
    from axbridge.robot.state import ServoState, Truth
    from axbridge.virtual.bus import VirtualBus
    from axbridge.virtual.world import World

__version__ = "0.1.0"

_HOME = {
    "AxBridgeError": "errors",
    "Bus": "bus.base",
    "BusError": "errors",
    "BusTimeout": "errors",
    "ControlWarning": "errors",
    "CorruptPacket": "errors",
    "ErrorFlag": "errors",
    "FirmwareProfile": "config.profile",
    "Gait": "motion.gait",
    "Move": "motion.moves",
    "MoveError": "errors",
    "PortError": "errors",
    "ProfileError": "errors",
    "Recorder": "record.recorder",
    "Recording": "record.recording",
    "RecordingError": "errors",
    "Rig": "config.rig",
    "RigError": "errors",
    "Robot": "robot.robot",
    "RobotRecorder": "record.robot_recorder",
    "RobotStopped": "errors",
    "Servo": "robot.servo",
    "ServoFault": "errors",
    "ServoModel": "config.model",
    "ServoState": "robot.state",
    "Simulation": "robot.simulation",
    "SimulationDiverged": "errors",
    "StepReport": "robot.robot",
    "Truth": "robot.state",
    "UnknownServo": "errors",
    "UnsupportedOperation": "errors",
    "UsageError": "errors",
    "VirtualBus": "virtual.bus",
    "World": "virtual.world",
    "open": "robot.open",
    "open_recording": "record.recording",
    "play": "motion.player",
    "teach": "motion.teaching",
    "walk": "motion.walking",
}

__all__ = [
    "AxBridgeError",
    "Bus",
    "BusError",
    "BusTimeout",
    "ControlWarning",
    "CorruptPacket",
    "ErrorFlag",
    "FirmwareProfile",
    "Gait",
    "Move",
    "MoveError",
    "PortError",
    "ProfileError",
    "Recorder",
    "Recording",
    "RecordingError",
    "Rig",
    "RigError",
    "Robot",
    "RobotRecorder",
    "RobotStopped",
    "Servo",
    "ServoFault",
    "ServoModel",
    "ServoState",
    "Simulation",
    "SimulationDiverged",
    "StepReport",
    "Truth",
    "UnknownServo",
    "UnsupportedOperation",
    "UsageError",
    "VirtualBus",
    "World",
    "open",
    "open_recording",
    "play",
    "teach",
    "walk",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'axbridge' has no attribute {name!r}")
    value = getattr(import_module(f"axbridge.{_HOME[name]}"), "open_robot" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
