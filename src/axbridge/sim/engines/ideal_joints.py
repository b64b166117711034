"""Joints without a Dynamixel: a motor row that brings a joint to a speed by at most a torque; the engine moves it.

Source: Webots Reference Manual, Motor, Servo and JointParameters.
"""

from __future__ import annotations

import math
from typing import Literal

from axbridge.config.rig_tables import ServoConfig
from axbridge.config.urdf import JointFacts
from axbridge.servo.setpoints import Setpoints, VelocityController

_UNLIMITED = 1e6  # N·m: most torque of a motor that nothing limits


class IdealJoint:
    """One ideal joint: its controller, and what the engine is asked to do with it. Units: rad, N·m, or m, N."""

    def __init__(self, config: ServoConfig) -> None:
        self.name: str = config.name
        self.joint: str = config.joint
        self.type: Literal["rotational", "linear"] = "rotational"  # as the URDF has it
        self.stops: tuple[float, float] = (  # lowest and highest position; ±inf = none
            (config.min_stop, config.max_stop) if config.min_stop < config.max_stop else (-math.inf, math.inf)
        )
        self.stiffness: float = config.spring_constant
        self.friction: float = config.static_friction
        self.kinematic: bool = False  # it moves nothing with a mass; then no torque decides where it goes
        self.powered: bool = True  # the motor may push: at first it is on, holding the initial position
        self.position: float = config.position  # after the latest physics step, as are the others
        self.speed: float = 0.0
        self.torque: float = 0.0  # what the motor row used in that step, without spring, damper and user torque
        self.time: float = 0.0  # end of that step, s
        self._limits = config.soft_limits
        self._kinematic_speed = 0.0
        self._own_damping = config.damping_constant
        self._controller = VelocityController(*config.control_pid)
        self._setpoints: Setpoints | None = None
        self._gains_set = 0

    def attach(self, facts: JointFacts, *, weightless: bool) -> None:
        """Learn what the URDF says: its damping and friction add to the rig's. A joint may move nothing with a mass."""
        self.type = "linear" if facts.linear else "rotational"
        self.kinematic = weightless
        self._own_damping += facts.damping
        self.friction += facts.friction
        if math.isinf(self.stops[0]):
            self.stops = facts.low, facts.high

    def sense(self, position: float, speed: float, torque: float, time: float) -> None:
        self.position, self.speed, self.torque, self.time = position, speed, torque, time

    def command(self, setpoints: Setpoints) -> None:
        self._setpoints = setpoints
        if setpoints.gains_set != self._gains_set:
            self._gains_set = setpoints.gains_set
            self._controller.set_gains(*setpoints.gains)

    def control(self, h: float) -> None:
        """Compute the speed to command for the basic step of `h` seconds that begins now."""
        wanted = self._setpoints
        self._kinematic_speed = 0.0
        if wanted is None or not self._drives(wanted):
            self._controller.stop()
        elif self.kinematic and wanted.torque is None:
            most = wanted.available_torque  # Webots takes the figure as an acceleration
            faster = wanted.acceleration == -1 or wanted.acceleration > most
            self._kinematic_speed = self._controller.step_kinematic(
                wanted.target, self.position, wanted.velocity, most if faster else wanted.acceleration, self._limits, h
            )
        elif wanted.torque is None:
            self._controller.step(wanted.target, self.position, wanted.velocity, wanted.acceleration, h)

    @property
    def damping(self) -> float:
        return self._own_damping + (self._setpoints.damping if self._setpoints else 0.0)

    @property
    def row(self) -> tuple[float, float]:
        """Speed target of the motor row, and the most torque it may use."""
        wanted = self._setpoints
        if self.kinematic:
            return self._kinematic_speed, _UNLIMITED
        if wanted is None or wanted.torque is not None or not self._drives(wanted):
            return 0.0, self.friction
        return self._controller.speed, max(self.friction, wanted.available_torque)

    @property
    def user_torque(self) -> float:
        """Torque laid on beside the motor row (`set_torque`)."""
        wanted = self._setpoints
        return wanted.torque if wanted is not None and wanted.torque is not None and self.powered else 0.0

    def _drives(self, wanted: Setpoints) -> bool:
        return self.powered and wanted.available_torque > 0 and not math.isnan(wanted.target)
