"""The interface of drives: a drive turns a servo's set-points into commands of its motor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from axbridge.bus.cycle import Goal
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import ServoFlags
from axbridge.servo.setpoints import Limits, Setpoints

Capability = Literal["native", "emulated", "unsupported"]
EMULATION = {  # log message of a servo when a function that the host emulates is used first
    "wheel": "turns in wheel mode: angle limits are written to EEPROM once, and restored on close",
    "torque": "has no current sensor: torque is applied by the motor model",
    "pid": "has no velocity loop: Webots' PID runs on the host, once a step",
    "acceleration": "has no acceleration limit: the host raises and lowers its speed, once a step",
    "torque_feedback": "has no torque sensor: torque is estimated by the motor model",
}

LatestSample = Callable[[str], float]
"""Returns the value of a servo's latest sample in a column of `axbridge.state.SERVO_COLUMNS`."""


class Drive(Protocol):
    """One motor of a robot; its methods raise `BusError` when a servo does not answer."""

    config: ServoConfig  # the rig's entry
    flags: type[ServoFlags]  # what the bits of the servo's error byte mean
    # For each name of `AX_CAPABILITIES`: whether the servo does it, the host emulates it, or neither can
    capabilities: Mapping[str, Capability]
    limits: Limits  # highest speed, and the range of positions that the motor accepts, apart from the soft limits
    max_torque: float  # highest torque, N·m or N
    type: Literal["rotational", "linear"]  # kind of joint
    brake: bool  # whether damping can be added to the joint
    slow_start: bool  # whether the motion to the first goal is slow in a simulation, too
    on_at_start: bool  # whether the motor holds its initial position before any command, as in Webots

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: first make the present position the goal. Return the present position, rad or m."""

    def command(self, setpoints: Setpoints, sample: LatestSample, period: float) -> Goal | None:
        """Apply set-points before a step of `period` s; a drive on a bus returns the goal that its cycle sends."""

    def restore(self) -> None:
        """Write back the EEPROM registers that were changed, before the robot is closed."""
