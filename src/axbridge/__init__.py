"""axbridge: one Servo API for Dynamixel and Feetech servos, real or simulated with their registers.

A first program. With ``backend="real", port="/dev/ttyUSB0"`` it drives real servos:

>>> import axbridge
>>> with axbridge.open("bench_arm", backend="sim") as robot:
...     arm = robot["shoulder"]
...     arm.set_position(0.6)  # rad
...     while robot.time < 1.0 and robot.step(20) != -1:  # ms
...         angle = arm.position  # rad, as the servo measured it at the end of this step
...     print(f"{angle:.1f} rad after {robot.time:.2f} s")
0.6 rad after 1.00 s

Units are SI: rad, rad/s, N·m, V, °C, s; the period of `step` is in ms. Commands act in the next step. Readings are
those of the last step. Leaving the block switches every motor off.

Names to look up with ``help(axbridge.NAME)``:

- A robot: `open` creates a `Robot` from a `Rig` (a name, a path or an object). `Robot.step`, `Robot.goto` and
  `Robot.positions` move and read all servos. ``axbridge rig list`` lists the included rigs.
- A servo: ``robot["shoulder"]`` is a `Servo`. Commands: `Servo.set_position`, `set_velocity`, `set_torque`, `goto`,
  `torque_off`. Readings: `Servo.position`, `velocity`, `torque`, `load`, `voltage`, `temperature`, `errors`, or all of
  them as `Servo.state`. Set-points: `Servo.target_position`, `velocity_limit`, `available_torque`. The control modes
  that the servo itself supports: `Servo.capabilities`.
- Recordings: `record` runs an experiment with a servo and returns a `Recording`. `compare` computes the differences
  between two recordings. `simulate` plays the commands of a recording through a model. `identify` fits a model to
  several. `open_recording` reads a recording, `Recording.to_pandas` converts it to a table, `Recorder` and
  `RobotRecorder` record your own program. `samples` has the included recordings.
- Motion: `play` a `Move`, `teach` a move by hand, `walk` with a `Gait`;
  ``axbridge.motion.energy.least_energy`` finds the motion that takes the least energy.
- A simulation: `Robot.simulation` sets faults and returns the true state.
- Webots: `axbridge.webots` runs Webots controllers unmodified.
- Errors: all are `AxBridgeError`, with a hint for the next step. A clipped or refused value is a `ControlWarning`.

More: docs/tutorial.md, the six programs in examples/, and ``axbridge --help`` for the command line. Names are imported
at their first use, so importing axbridge is quick and needs no physics engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axbridge.bus.base import Bus as Bus
    from axbridge.comparison.comparison import compare as compare
    from axbridge.comparison.simulate import simulate as simulate
    from axbridge.config.model import ServoModel as ServoModel
    from axbridge.config.profile import FirmwareProfile as FirmwareProfile
    from axbridge.config.rig import Rig as Rig
    from axbridge.errors import AxBridgeError as AxBridgeError
    from axbridge.errors import BusError as BusError
    from axbridge.errors import BusTimeout as BusTimeout
    from axbridge.errors import ControlWarning as ControlWarning
    from axbridge.errors import CorruptPacket as CorruptPacket
    from axbridge.errors import ErrorFlag as ErrorFlag
    from axbridge.errors import MoveError as MoveError
    from axbridge.errors import PortError as PortError
    from axbridge.errors import ProfileError as ProfileError
    from axbridge.errors import RecordingError as RecordingError
    from axbridge.errors import RigError as RigError
    from axbridge.errors import RobotStopped as RobotStopped
    from axbridge.errors import ServoFault as ServoFault
    from axbridge.errors import SimulationDiverged as SimulationDiverged
    from axbridge.errors import UnknownServo as UnknownServo
    from axbridge.errors import UnsupportedOperation as UnsupportedOperation
    from axbridge.errors import UsageError as UsageError
    from axbridge.fit.pipeline import identify as identify
    from axbridge.motion.experiments import record as record
    from axbridge.motion.gait import Gait as Gait
    from axbridge.motion.moves import Move as Move
    from axbridge.motion.player import play as play
    from axbridge.motion.teaching import teach as teach
    from axbridge.motion.walking import walk as walk
    from axbridge.recording import sample_logs
    from axbridge.recording.recorder import Recorder as Recorder
    from axbridge.recording.recording import Recording as Recording
    from axbridge.recording.robot_recorder import RobotRecorder as RobotRecorder
    from axbridge.recording.stored import open_recording as open_recording
    from axbridge.robot.open import open_robot
    from axbridge.robot.robot import Robot as Robot
    from axbridge.robot.servo import Servo as Servo
    from axbridge.robot.simulation import Simulation as Simulation
    from axbridge.state import ServoState as ServoState
    from axbridge.state import StepReport as StepReport

    open, samples = open_robot, sample_logs  # noqa: A001 - the public names

__version__ = "0.1.0"

_HOMES = {  # a literal: tools/import_graph.py reads it
    "bus.base": ("Bus",),
    "comparison.comparison": ("compare",),
    "comparison.simulate": ("simulate",),
    "config.model": ("ServoModel",),
    "config.profile": ("FirmwareProfile",),
    "config.rig": ("Rig",),
    "errors": (
        "AxBridgeError", "BusError", "BusTimeout", "ControlWarning", "CorruptPacket", "ErrorFlag", "MoveError",
        "PortError", "ProfileError", "RecordingError", "RigError", "RobotStopped", "ServoFault",
        "SimulationDiverged", "UnknownServo", "UnsupportedOperation", "UsageError",
    ),
    "fit.pipeline": ("identify",),
    "motion.gait": ("Gait",),
    "motion.moves": ("Move",),
    "motion.player": ("play",),
    "motion.experiments": ("record",),
    "motion.teaching": ("teach",),
    "motion.walking": ("walk",),
    "recording.recorder": ("Recorder",),
    "recording.recording": ("Recording",),
    "recording.robot_recorder": ("RobotRecorder",),
    "recording.sample_logs": ("samples",),
    "recording.stored": ("open_recording",),
    "robot.open": ("open",),
    "robot.robot": ("Robot",),
    "robot.servo": ("Servo",),
    "robot.simulation": ("Simulation",),
    "state": ("ServoState", "StepReport"),
}  # fmt: skip
_HOME = dict(sorted((name, home) for home, names in _HOMES.items() for name in names))

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'axbridge' has no attribute {name!r}")
    home = import_module(f"axbridge.{_HOME[name]}")
    value = home if name == "samples" else getattr(home, "open_robot" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
