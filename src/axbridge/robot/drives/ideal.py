"""Webots' idealised motor: a joint motor of the simulator with a velocity target and a force limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from axbridge.bus.cycle import CycleServo, Goal, RawState
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import ErrorFlag
from axbridge.robot.drives.drive import CAPABILITIES, Capability, Sensed
from axbridge.servo.coupled_motors import Limits
from axbridge.servo.setpoints import Setpoints
from axbridge.sim.engines.ideal_joints import IdealJoint
from axbridge.state import ServoState, Truth

IDEAL_CAPABILITIES: Mapping[str, Capability] = dict.fromkeys(CAPABILITIES, "native")
_MAX_VELOCITY = _MAX_TORQUE = 10.0  # Webots' defaults of maxVelocity, maxTorque and maxForce


class IdealDrive:
    """Passes set-points to a joint of the simulated world; see `axbridge.robot.drives.drive.Drive`."""

    capabilities = IDEAL_CAPABILITIES
    brake = True
    is_wheel = False  # its position has whole turns anyway
    on_at_start = True

    def __init__(self, config: ServoConfig, joint: IdealJoint) -> None:
        self._joint = joint
        velocity = _MAX_VELOCITY if config.max_velocity is None else config.max_velocity
        self.limits = Limits(-math.inf, math.inf, velocity)
        self.max_torque = _MAX_TORQUE if config.max_torque is None else config.max_torque
        self.type: Literal["rotational", "linear"] = joint.type

    def power(self, *, on: bool) -> float:
        """Switch the motor row."""
        self._joint.powered = on
        return self._joint.position

    def command(self, setpoints: Setpoints, sensed: Sensed, period: float) -> Goal | None:  # noqa: ARG002 - Drive
        """Hand the set-points to the simulation."""
        self._joint.command(setpoints)
        return None

    def state(self, raw: RawState | None, start: float) -> ServoState:  # noqa: ARG002 - Drive
        """The joint after the latest physics step."""
        joint = self._joint
        nan = math.nan
        load = joint.torque / self.max_torque if self.max_torque else 0.0
        return ServoState(joint.time - start, joint.position, joint.speed, joint.torque, load, nan, nan, ErrorFlag(0))

    def position(self, raw: RawState) -> float:  # noqa: ARG002 - Drive
        """Of the joint: no bus has samples of it."""
        return self._joint.position

    def turned(self, state: ServoState) -> float:
        """The position as it was measured: an ideal joint counts its turns."""
        return state.position

    def truth(self, time: float) -> Truth:  # noqa: ARG002 - Drive
        """The joint after the latest physics step, and what its motor row used."""
        return Truth(self._joint.position, self._joint.torque)

    def cycle_servo(self, low: float, high: float) -> CycleServo | None:  # noqa: ARG002 - Drive
        """None: no bus."""
        return None

    def electrical_power(self, state: ServoState, factor: float) -> float:
        """Webots' model: torque times factor."""
        return abs(state.torque) * factor

    def restore(self) -> None:
        """Nothing is kept."""
