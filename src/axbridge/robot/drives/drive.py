"""The interface between a servo's set-points, limits and samples and the motor that follows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from axbridge.bus.cycle import Goal
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import ServoFlags
from axbridge.servo.setpoints import Limits, Setpoints

Capability = Literal["native", "emulated", "unsupported"]
EMULATION = {  # what a servo says about itself when it is first asked for something the host does in its place
    "wheel": "turns in wheel mode: angle limits are written to EEPROM once, and restored on close",
    "torque": "has no current sensor: torque is applied by the motor model",
    "pid": "has no velocity loop: Webots' PID runs on the host, once a step",
    "acceleration": "has no acceleration limit: the host raises and lowers its speed, once a step",
    "torque_feedback": "has no torque sensor: torque is estimated by the motor model",
}

LatestSample = Callable[[str], float]
"""The latest sample of a servo: its value in a column of `axbridge.state.SERVO_COLUMNS`."""


class Drive(Protocol):
    """One motor of a robot; its methods raise `BusError` where a servo does not answer."""

    config: ServoConfig  # the rig's entry
    flags: type[ServoFlags]  # what the bits of the servo's error byte mean
    # By what `AX_CAPABILITIES` names: what it does itself, what the host does for it, and what cannot be done
    capabilities: Mapping[str, Capability]
    limits: Limits  # highest speed, and the positions it can be sent to whatever the soft limits say
    max_torque: float  # highest torque, N·m or N
    type: Literal["rotational", "linear"]  # kind of joint
    brake: bool  # whether damping can be added to the joint
    slow_start: bool  # whether the way to a first goal is slow in a simulation, too
    on_at_start: bool  # whether the motor holds its initial position without being asked, as Webots' do

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: goal := present position first, so that nothing snaps. Returns the present position."""

    def command(self, setpoints: Setpoints, sample: LatestSample, period: float) -> Goal | None:
        """Hand over set-points before a step of `period` s; a drive on a bus returns what its cycle is to send."""

    def restore(self) -> None:
        """Undo what was changed for good in the servo (EEPROM), before the robot is let go."""
