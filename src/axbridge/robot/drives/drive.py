"""The interface of drives, which turn set-points into commands of a motor, and the drive of ideal joints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from axbridge.bus.cycle import Goal
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import ErrorFlag, ServoFlags
from axbridge.servo.setpoints import Limits, Setpoints
from axbridge.sim.engines.ideal_joints import IdealJoint

Capability = Literal["native", "emulated", "unsupported"]
AX_CAPABILITIES: dict[str, Capability] = {
    "position": "native",
    "extended_position": "unsupported",
    "velocity": "native",
    "wheel": "emulated",
    "duty": "native",
    "torque": "emulated",
    "available_torque": "emulated",
    "pid": "emulated",
    "acceleration": "emulated",
    "torque_feedback": "emulated",
}
IDEAL_CAPABILITIES: Mapping[str, Capability] = dict.fromkeys(AX_CAPABILITIES, "native")
_MAX_VELOCITY = _MAX_TORQUE = 10.0  # Webots' defaults of maxVelocity, maxTorque and maxForce
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
    on_at_start: bool  # whether the motor holds its initial position at first, as in Webots

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: first make the present position the goal. Return the present position, rad or m."""

    def enter_position(self) -> float:
        """Enter position mode if the motor is in another; return the present position in it, rad or m, else NaN."""

    def command(self, setpoints: Setpoints, sample: LatestSample, period: float) -> Goal | None:
        """Apply set-points before a step of `period` s; a drive on a bus returns the goal that its cycle sends."""

    def restore(self) -> None:
        """Write back the EEPROM registers that were changed, before the robot is closed."""


class IdealDrive:
    """Webots' idealised motor: a joint of the simulated world with a velocity target and a force limit; see `Drive`."""

    capabilities = IDEAL_CAPABILITIES
    brake = True
    slow_start = False
    on_at_start = True
    flags: type[ServoFlags] = ErrorFlag

    def __init__(self, config: ServoConfig, joint: IdealJoint) -> None:
        self.config = config
        self._joint = joint
        velocity = _MAX_VELOCITY if config.max_velocity is None else config.max_velocity
        self.limits = Limits(-math.inf, math.inf, velocity)
        self.max_torque = _MAX_TORQUE if config.max_torque is None else config.max_torque
        self.type: Literal["rotational", "linear"] = joint.type

    def power(self, *, on: bool) -> float:
        """Switch the simulated motor. Return the present position, rad or m."""
        self._joint.powered = on
        return self._joint.position

    def enter_position(self) -> float:
        """Return NaN: an ideal joint has one mode."""
        return math.nan

    def command(self, setpoints: Setpoints, sample: LatestSample, period: float) -> Goal | None:  # noqa: ARG002 - Drive
        """Pass the set-points to the simulation."""
        self._joint.command(setpoints)
        return None

    def measure(self, start: float) -> dict[str, float]:
        """Return the joint's state after the latest physics step, by `SERVO_COLUMNS`; time 0 is `start`, s."""
        joint = self._joint
        load = joint.torque / self.max_torque if self.max_torque else 0.0
        return {
            "time": joint.time - start,
            "position": joint.position,
            "velocity": joint.speed,
            "torque": joint.torque,
            "load": load,
            "power": self.electrical_power,
            "errors": 0.0,
            "true_position": joint.position,
            "true_torque": joint.torque,
        }

    @property
    def electrical_power(self) -> float:
        """Return the power drawn now, W, as Webots computes it: torque times the consumption factor."""
        return abs(self._joint.torque) * self.config.consumption_factor

    def restore(self) -> None:
        """Do nothing: an ideal joint has no EEPROM."""
