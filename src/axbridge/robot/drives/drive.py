"""The seam between a servo's front half (set-points, limits, sampling) and what turns them into motion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from axbridge.bus.cycle import CycleServo, Goal, RawState
from axbridge.servo.coupled_motors import Limits
from axbridge.servo.setpoints import Setpoints
from axbridge.state import ServoState, Truth

Capability = Literal["native", "emulated", "unsupported"]
CAPABILITIES = (
    "position", "extended_position", "velocity", "wheel", "duty", "torque", "available_torque", "pid", "acceleration",
    "torque_feedback",
)  # fmt: skip
EMULATION = {  # what a servo says about itself when it is first asked for something the host does in its place
    "wheel": "turns in wheel mode: angle limits are written to EEPROM once, and restored on close",
    "torque": "has no current sensor: torque is applied by the motor model",
    "pid": "has no velocity loop: Webots' PID runs on the host, once a step",
    "acceleration": "has no acceleration limit: the host raises and lowers its speed, once a step",
    "torque_feedback": "has no torque sensor: torque is estimated by the motor model",
}


class Sensed(Protocol):
    """Where a drive finds the last sample; SI units are worked out when they are asked for."""

    @property
    def state(self) -> ServoState:
        """The last sample."""


class Drive(Protocol):
    """One motor of a robot.

    Attributes:
        capabilities: By `CAPABILITIES`: what it does itself, what the host does for it, and what cannot be done.
        limits: Highest speed, and the positions it can be sent to whatever the soft limits say.
        max_torque: Highest torque, N·m or N.
        type: Kind of joint.
        brake: Whether damping can be added to the joint.
        is_wheel: Whether it turns endlessly now, and counts its turns.
        on_at_start: Whether the motor holds its initial position without being asked, as Webots' do.
    """

    capabilities: Mapping[str, Capability]
    limits: Limits
    max_torque: float
    type: Literal["rotational", "linear"]
    brake: bool
    on_at_start: bool

    @property
    def is_wheel(self) -> bool:
        """Whether the servo turns endlessly now."""

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: goal := present position first, so that nothing snaps. Returns the present position.

        Raises:
            BusError: it does not answer.
        """

    def command(self, setpoints: Setpoints, sensed: Sensed, period: float) -> Goal | None:
        """Hand over set-points before a step of `period` s; a drive on a bus returns what its cycle is to send.

        Raises:
            BusError: a change of mode needed a register that could not be written.
        """

    def state(self, raw: RawState | None, start: float) -> ServoState:
        """The sample just taken, in SI units; `start` is the robot's time 0 on the backend's clock."""

    def position(self, raw: RawState) -> float:
        """The position alone of a sample of a bus: a controller asks for little else."""

    def turned(self, state: ServoState) -> float:
        """The position of a sample with its whole turns, rad; give each sample of a wheel once, in order."""

    def truth(self, time: float) -> Truth:
        """The joint as it was at `time`, s on the backend's clock: that of the last sample."""

    def cycle_servo(self, low: float, high: float) -> CycleServo | None:
        """The servo as its bus cycle knows it, limited to positions `low`..`high`; None without a bus."""

    def electrical_power(self, state: ServoState, factor: float) -> float:
        """Power drawn at `state`, W; `factor` is Webots' consumption factor."""

    def restore(self) -> None:
        """Undo what was changed for good in the servo (EEPROM), before the robot is let go.

        Raises:
            BusError: it does not answer.
        """
