"""The speed that a servo will have while its next command acts, for torque control."""

from __future__ import annotations

import math

from axbridge.config.model import MotorParams

_FRESH = 0.6  # weight of the newest sample; with latency, unfiltered compensation of back-EMF would swing for ever
_AIM = 0.65  # of a step: right in its middle on average, and still within some per cent at its end
_RECENT = 0.1  # s: samples further apart say nothing about acceleration
_HEAVY, _LIGHT = 0.25, 0.6  # change of speed in a step, over the final one: forecast fully below, not at all above
_FADING = 0.9  # a step, of the largest change of speed seen


class SpeedForecast:
    """The speed expected while a duty acts, for torque control: back-EMF changes with it during a whole step.

    A heavy load goes on accelerating as in the last step, so its speed is looked ahead over latency and step. A load so
    light that one step brings it to its final speed cannot be forecast; then the filtered speed is taken as it is.
    """

    def __init__(self, motor: MotorParams, latency: float) -> None:
        self._softness = motor.resistance / (motor.efficiency * motor.output_constant**2)  # rad/s a N·m, at most
        self._latency = latency
        self._time = -math.inf
        self._measured = self._speed = self._acceleration = self._jump = 0.0

    def update(self, time: float, velocity: float, torque: float, period: float) -> float:
        """Take a sample; the speed to compensate, rad/s."""
        passed = time - self._time
        if not 0 < passed < _RECENT:
            self._speed, self._acceleration, self._jump = velocity, 0.0, 0.0
        else:
            change = velocity - self._measured
            self._speed += _FRESH * (velocity - self._speed)
            self._acceleration += _FRESH * (change / passed - self._acceleration)
            self._jump = max(abs(change), _FADING * self._jump)
        self._time, self._measured = time, velocity
        lightness = self._jump / max(self._softness * abs(torque), 1e-9)
        trust = max(0.0, min(1.0, (_LIGHT - lightness) / (_LIGHT - _HEAVY)))
        lag = period * (1 - _FRESH) / _FRESH
        return self._speed + trust * self._acceleration * (self._latency + _AIM * period + lag)
