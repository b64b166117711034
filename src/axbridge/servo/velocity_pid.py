"""Webots' motor controller: a PID that sets a velocity, limited in speed and in acceleration.

Source: Webots Reference Manual, Motor, "Position Control", with the engine's sign of the derivative; the manual prints
it reversed.

    e = target - position,   v = P·e + I·∫e dt + D·de/dt

v is first cut to the set velocity, then moves from the velocity of the step before by at most acceleration·h. Webots
has this order, too: a joint that is to stop goes on for as long as its acceleration needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class VelocityController:
    """Target position in, commanded velocity out, once a basic step. Units: rad or m, s.

    There is no anti-windup, and the acceleration limit holds for braking, too, so position control may overshoot: both
    as in Webots.

    Attributes:
        p: Gain, 1/s.
        i: Gain, 1/s².
        d: Gain.
        speed: Velocity commanded last.
    """

    p: float
    i: float
    d: float
    speed: float = 0.0
    _integral: float = 0.0
    _error: float = 0.0

    def set_gains(self, p: float, i: float, d: float) -> None:
        """Take new gains and forget the integral and the last error, as Webots does."""
        self.p, self.i, self.d = p, i, d
        self._integral = self._error = 0.0

    def stop(self) -> None:
        """Command no velocity; the integral and the last error stay."""
        self.speed = 0.0

    def step(self, target: float, position: float, velocity: float, acceleration: float, h: float) -> float:
        """The velocity for the step that begins now."""
        wanted = velocity if math.isinf(target) else self._positional(target - position, abs(velocity), h)
        self.speed = wanted if acceleration == -1 else towards(self.speed, wanted, acceleration * h)
        return self.speed

    def step_kinematic(
        self,
        target: float,
        position: float,
        velocity: float,
        acceleration: float,
        limits: tuple[float, float],
        h: float,
    ) -> float:
        """The mean velocity of a joint without mass for the step that begins now: no PID, no braking ramp.

        It stops dead on its target; in velocity control at its soft limits.
        """
        if target == position:
            self.speed = 0.0
            return 0.0
        endless = math.isinf(target)
        self.speed = towards(self.speed, velocity if endless else abs(velocity), acceleration * h)
        if endless:
            end = min(max(position + self.speed * h, min(limits[0], position)), max(limits[1], position))
        elif target > position:
            end = min(position + self.speed * h, target)
        else:
            end = max(position - self.speed * h, target)
        return (end - position) / h

    def _positional(self, error: float, limit: float, h: float) -> float:
        self._integral += error * h
        derivative = (error - self._error) / h
        self._error = error
        output = self.p * error + self.i * self._integral + self.d * derivative
        return max(-limit, min(limit, output))


def towards(value: float, goal: float, step: float) -> float:
    """`value` moved towards `goal` by at most `step`."""
    return value + max(-step, min(step, goal - value))


def braking_speed(distance: float, acceleration: float) -> float:
    """Highest speed from which `acceleration` still stops within `distance`: √(2·a·d)."""
    return math.sqrt(2 * acceleration * abs(distance))
