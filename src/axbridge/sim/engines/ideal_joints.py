"""Ideal joints, without a servo: the engine's motor row brings a joint to a target speed with a limited torque.

Source: Webots Reference Manual, Motor, Servo and JointParameters.
"""

from __future__ import annotations

import math
from typing import Literal

from axbridge.config.rig_tables import ServoConfig
from axbridge.config.urdf import JointFacts
from axbridge.servo.setpoints import Setpoints, VelocityController

_UNLIMITED = 1e6  # N·m: torque of a motor without a limit


class IdealJoint:
    """One ideal joint: its controller, and the engine's inputs for it. Units: rad and N·m, or m and N."""

    def __init__(self, config: ServoConfig) -> None:
        self.name: str = config.name
        self.joint: str = config.joint
        self.type: Literal["rotational", "linear"] = "rotational"  # from the URDF
        self.stops: tuple[float, float] = (  # lowest and highest position; ±inf = none
            (config.min_stop, config.max_stop) if config.min_stop < config.max_stop else (-math.inf, math.inf)
        )
        self.stiffness: float = config.spring_constant
        self.friction: float = config.static_friction
        self.kinematic: bool = False  # it moves no mass, so its motion does not depend on a torque
        self.powered: bool = True  # the motor is on; at the start it holds the initial position
        self.position: float = config.position  # after the latest physics step, as the next three
        self.speed: float = 0.0
        self.torque: float = 0.0  # of the motor row in that step, without spring, damper and user torque
        self.time: float = 0.0  # end of that step, s
        self._limits = config.soft_limits
        self._kinematic_speed = 0.0
        self._own_damping = config.damping_constant
        self._controller = VelocityController(*config.control_pid)
        self._setpoints: Setpoints | None = None
        self._gains_set = 0

    def attach(self, facts: JointFacts, *, weightless: bool) -> None:
        """Set the URDF's data of the joint; its damping and friction are added to the rig's. `weightless`: no mass."""
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
        """Compute the target speed for the basic step of `h` seconds that begins now."""
        goal = self._setpoints
        self._kinematic_speed = 0.0
        if goal is None or not self._is_driven(goal):
            self._controller.speed = 0.0  # the integral and the last error stay
        elif self.kinematic and goal.torque is None:
            largest = goal.available_torque  # Webots uses this number as an acceleration
            faster = goal.acceleration == -1 or goal.acceleration > largest
            self._kinematic_speed = self._controller.step_kinematic(
                goal.target, self.position, goal.velocity, largest if faster else goal.acceleration, self._limits, h
            )
        elif goal.torque is None:
            self._controller.step(goal.target, self.position, goal.velocity, goal.acceleration, h)

    @property
    def damping(self) -> float:
        return self._own_damping + (self._setpoints.damping if self._setpoints else 0.0)

    @property
    def row(self) -> tuple[float, float]:
        """Return the motor row's target speed and its torque limit."""
        goal = self._setpoints
        if self.kinematic:
            return self._kinematic_speed, _UNLIMITED
        if goal is None or goal.torque is not None or not self._is_driven(goal):
            return 0.0, self.friction
        return self._controller.speed, max(self.friction, goal.available_torque)

    @property
    def user_torque(self) -> float:
        """Return the torque of `set_torque`, which is added to the motor row's."""
        goal = self._setpoints
        return goal.torque if goal is not None and goal.torque is not None and self.powered else 0.0

    def _is_driven(self, goal: Setpoints) -> bool:
        return self.powered and goal.available_torque > 0 and not math.isnan(goal.target)
