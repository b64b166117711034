"""Set-points of a servo, coupled motors, and Webots' motor controller.

`base::member` motors of one robot are coupled, each by its own multiplier. Source: Webots Reference Manual, Motor,
"Coupled Motors". The controller is a PID that sets a velocity, limited in speed and in acceleration. Source: there,
"Position Control", with the engine's sign of the derivative; the manual prints it reversed.

    e = target - position,   v = P·e + I·∫e dt + D·de/dt

v is first cut to the set velocity, then moves from the velocity of the step before by at most acceleration·h. Webots
has this order, too: a joint that is to stop goes on for as long as its acceleration needs.
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
    available_torque: float  # cap of what the motor gives
    gains: tuple[float, float, float]  # P, I, D of the velocity loop
    torque: float | None = None  # torque to apply instead of position or velocity control; None = not in torque control
    duty: float | None = None  # duty to turn with, -1..1, instead of all other control; None = not turning by duty
    gains_set: int = 0  # how often gains were set; a change resets the loop's integral
    damping: float = 0.0  # added by the brake, N·m·s/rad
    enabled: bool = False  # whether the motor is switched on
    holding: bool = False  # the target is where the joint was when torque came on: it may be beyond the limits

    @property
    def endless(self) -> bool:
        """Whether the target is infinite: velocity control."""
        return math.isinf(self.target)


@dataclass(frozen=True)
class Limits:
    """Lowest and highest position (infinite = unlimited) and highest speed of a motor, in the units of its joint."""

    low: float
    high: float
    velocity: float

    def times(self, ratio: float) -> Limits:
        """Those of a motor that goes `ratio` times as far."""
        low, high = sorted((self.low * ratio, self.high * ratio))
        return Limits(low, high, self.velocity * abs(ratio))

    def is_close(self, other: Limits) -> bool:
        """Whether both are the same but for rounding."""
        pairs = ((self.low, other.low), (self.high, other.high), (self.velocity, other.velocity))
        return all(math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12) for first, second in pairs)


def couplings(names: Sequence[str]) -> dict[str, list[str]]:
    """Motors by the base they share in names of exactly two parts, in the order given; a lone ``a::b`` is a group."""
    groups: dict[str, list[str]] = {}
    for name in names:
        parts = name.split("::")
        if len(parts) == 2 and all(parts):
            groups.setdefault(parts[0], []).append(name)
    return groups


def scaled(command: float, multiplier: float) -> float:
    """What one motor of a coupling does about a command; infinity is not multiplied."""
    return command if math.isinf(command) else command * multiplier


@dataclass
class VelocityController:
    """Target position in, commanded velocity out, once a basic step. Units: rad or m, s.

    There is no anti-windup, and the acceleration limit holds for braking, too, so position control may overshoot: both
    as in Webots.
    """

    p: float  # gain, 1/s
    i: float  # gain, 1/s²
    d: float  # gain
    speed: float = 0.0  # velocity commanded last
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
