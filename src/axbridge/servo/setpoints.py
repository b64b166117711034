"""Set-points of a servo, coupled motors, and Webots' motor controller.

Motors of one robot with names `base::member` are coupled; each has its own multiplier. Source: Webots Reference Manual,
Motor, "Coupled Motors". The controller is a PID whose output is a velocity, with limits of velocity and acceleration.
Source: the same page, "Position Control". The sign of the derivative is Webots' own; the manual prints it reversed.

    e = target - position,   v = P·e + I·∫e dt + D·de/dt

v is first clipped to the set velocity. Then it changes from the last step's velocity by at most acceleration·h. Webots
has the same order: a stopping joint moves on for the time that its acceleration limit needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Setpoints:
    """Last commands of a servo, after checks, clipping and multiplier. Units: rad and N·m, or m and N."""

    target: float  # target position; ±inf = velocity control; NaN = none yet
    velocity: float  # limit of the approach; in velocity control the signed set-point
    acceleration: float  # -1 = unlimited
    available_torque: float  # largest torque of the motor
    gains: tuple[float, float, float]  # P, I, D of the velocity loop
    torque: float | None = None  # set-point of torque control; None = not in torque control
    duty: float | None = None  # set-point of duty control, -1..1, which comes before all other; None = no duty control
    gains_set: int = 0  # number of times gains were set; a change resets the loop's integral
    damping: float = 0.0  # added by the brake, N·m·s/rad
    enabled: bool = False  # whether the motor is switched on
    holding: bool = False  # the target is the joint's position when torque was enabled, so it may be beyond the limits

    @property
    def endless(self) -> bool:
        """Return whether the target is infinite, which means velocity control."""
        return math.isinf(self.target)


@dataclass(frozen=True)
class Limits:
    """Lowest and highest position (infinite = unlimited) and highest speed of a motor, in its joint's units."""

    low: float
    high: float
    velocity: float

    def times(self, ratio: float) -> Limits:
        """Return the limits of a coupled motor that moves `ratio` times as far."""
        low, high = sorted((self.low * ratio, self.high * ratio))
        return Limits(low, high, self.velocity * abs(ratio))

    def is_close(self, other: Limits) -> bool:
        """Return whether both limits are equal within rounding."""
        pairs = ((self.low, other.low), (self.high, other.high), (self.velocity, other.velocity))
        return all(math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12) for first, second in pairs)


def couplings(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the motors with names ``base::member`` by base, in the given order; one motor alone is a group, too."""
    groups: dict[str, list[str]] = {}
    for name in names:
        parts = name.split("::")
        if len(parts) == 2 and all(parts):
            groups.setdefault(parts[0], []).append(name)
    return groups


def scaled(command: float, multiplier: float) -> float:
    """Return a coupled motor's share of a command; infinity is not multiplied."""
    return command if math.isinf(command) else command * multiplier


@dataclass
class VelocityController:
    """Webots' controller from target position to commanded velocity, once in each basic step. Units: rad or m, s.

    As in Webots, there is no anti-windup, and the acceleration limit applies to braking, too. So position control may
    overshoot.
    """

    p: float  # gain, 1/s
    i: float  # gain, 1/s²
    d: float  # gain
    speed: float = 0.0  # the last commanded velocity
    _integral: float = 0.0
    _error: float = 0.0

    def set_gains(self, p: float, i: float, d: float) -> None:
        """Set new gains and reset the integral and the last error, as Webots does."""
        self.p, self.i, self.d = p, i, d
        self._integral = self._error = 0.0

    def step(self, target: float, position: float, velocity: float, acceleration: float, h: float) -> float:
        """Return the velocity for the step of length `h` that begins now."""
        goal_speed = velocity if math.isinf(target) else self._run_pid(target - position, abs(velocity), h)
        self.speed = goal_speed if acceleration == -1 else towards(self.speed, goal_speed, acceleration * h)
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
        """Return the mean velocity of a massless joint for the step that begins now, without PID and braking ramp.

        The joint stops exactly at its target; in velocity control, at its soft limits.
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

    def _run_pid(self, error: float, limit: float, h: float) -> float:
        self._integral += error * h
        derivative = (error - self._error) / h
        self._error = error
        output = self.p * error + self.i * self._integral + self.d * derivative
        return max(-limit, min(limit, output))


def towards(value: float, goal: float, step: float) -> float:
    """Return `value` moved towards `goal` by at most `step`."""
    return value + max(-step, min(step, goal - value))


def braking_speed(distance: float, acceleration: float) -> float:
    """Return the highest speed from which `acceleration` stops within `distance`: √(2·a·d)."""
    return math.sqrt(2 * acceleration * abs(distance))
