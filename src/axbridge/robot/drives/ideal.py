"""Webots' idealised motor: a joint motor of the simulator with a velocity target and a force limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from axbridge.bus.cycle import Goal
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import ErrorFlag, ServoFlags
from axbridge.robot.drives.bus_drive import AX_CAPABILITIES
from axbridge.robot.drives.drive import Capability, LatestSample
from axbridge.servo.setpoints import Limits, Setpoints
from axbridge.sim.engines.ideal_joints import IdealJoint

IDEAL_CAPABILITIES: Mapping[str, Capability] = dict.fromkeys(AX_CAPABILITIES, "native")
_MAX_VELOCITY = _MAX_TORQUE = 10.0  # Webots' defaults of maxVelocity, maxTorque and maxForce


class IdealDrive:
    """Passes set-points to a joint of the simulated world; see `axbridge.robot.drives.drive.Drive`."""

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
