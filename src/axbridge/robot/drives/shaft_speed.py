"""Shaft speed by the motor model: forecast for the next command, and in the potentiometer's dead zone.

An AX-12 reads 300 of 360 degrees. In the dead zone the motor model gives the speed: the load torque is that of the last
valid reading, and the speed follows from duty and supply.
"""

from __future__ import annotations

import math

from axbridge.config.model import MotorParams
from axbridge.robot.drives.drive import LatestSample
from axbridge.servo.steady import SteadyServo

_TURN = 2 * math.pi
_MARGIN = 0.05  # rad: noise, and a shaft that is pushed a little
_EDGE = 0.02  # rad from an end of the range: in the dead zone the potentiometer may report that end
_INVALID_TIME = 0.2  # s after a wrong position: Present Speed is a difference of positions (answers.ros.org 211471)
_NEAR, _FAR = 2, 9  # consecutive readings that must agree with the one before
_CREEP = 0.06  # rad/s: below it static friction acts
_HALVINGS = 20  # of the range of speeds: a resolution of 1e-5 rad/s
_FRESH = 0.6  # weight of the newest sample; with latency, unfiltered compensation of back-EMF would oscillate
_AIM = 0.65  # of a step: right in its middle on average, and within some per cent at its end
_RECENT = 0.1  # s: samples further apart give no acceleration
_HEAVY, _LIGHT = 0.25, 0.6  # speed change in a step over the final one: full forecast below, none above
_FADING = 0.9  # decay of the largest speed change, per step


class SpeedForecast:
    """Forecasts the speed while a duty acts, for torque control: back-EMF changes with the speed during a step.

    A heavy load keeps accelerating as in the last step, so its speed is extrapolated over latency and step. A light
    load reaches its final speed within one step and cannot be forecast; then the filtered speed is used.
    """

    def __init__(self, motor: MotorParams, latency: float) -> None:
        self._softness = motor.resistance / (motor.efficiency * motor.output_constant**2)  # rad/s a N·m, at most
        self._latency = latency
        self._time = -math.inf
        self._measured = self._speed = self._acceleration = self._jump = 0.0

    def update(self, time: float, velocity: float, torque: float, period: float) -> float:
        """Add a sample; return the speed whose back-EMF is compensated, rad/s."""
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


class TurnCounter:
    """Counts the angle of a wheel with its whole turns from samples, through the dead zone.

    In the dead zone an AX-12 may report any position. A reading is accepted when consecutive readings differ by no more
    than the motor's top speed allows: three in a row, or ten if they are far from the model's angle. Until then the
    angle is the model's. The count is right while the model's error at the end of the dead zone and the motion between
    two samples are below half a turn.
    """

    def __init__(self, servo: SteadyServo, seen: tuple[float, float], start: float) -> None:
        self.position = start  # with whole turns, rad
        self.speed = 0.0  # by the motor model, rad/s
        self.is_invalid = False  # whether reported speed and load are: in the dead zone, and shortly after it
        self._servo = servo
        self._low, self._high = seen
        self._has_dead_zone = seen[0] + _TURN - seen[1] > _MARGIN  # an MX measures the whole turn
        self._clear_at = -math.inf  # s; from then on reported speeds are valid
        self._time = math.nan
        self._reading = start
        self._agreed = _FAR  # consecutive readings that agreed with the one before
        self._torque = 0.0  # load torque at the last valid reading, N·m

    def update(self, sample: LatestSample, duty: float) -> float:
        """Add a sample of a wheel that is driven with a `duty`; return its angle, rad."""
        time, position, load, voltage = map(sample, ("time", "position", "load", "voltage"))
        passed = time - self._time if time > self._time else 0.0
        reach = abs(voltage) / self._servo.motor.constant * passed + _MARGIN
        self._agreed = self._agreed + 1 if abs(position - self._reading) <= reach else 0
        self._time, self._reading = time, position
        if self._has_dead_zone and not (self._low + _EDGE < position < self._high - _EDGE and self._agreed >= _NEAR):
            self._clear_at = time + _INVALID_TIME
        self.is_invalid = time < self._clear_at
        self.speed = speed_under(self._servo, duty if self.is_invalid else load, voltage, self._torque)
        expected = self.position + passed * self.speed
        ahead = round((expected - (self._high + self._low + _TURN) / 2) / _TURN)
        begin, end = self._high + ahead * _TURN, self._low + (ahead + 1) * _TURN  # the dead zone nearest to it
        if not self._low < position < self._high:
            self.position = min(max(expected, begin), end)
            return self.position
        read = position + round((expected - position) / _TURN) * _TURN
        if self._agreed >= (_NEAR if abs(read - expected) <= end - begin + _MARGIN else _FAR):
            self.position = read
            if not self.is_invalid:
                self._torque = self._servo.torque(load, voltage, sample("velocity"))
        else:
            self.position = expected
        return self.position


def speed_under(servo: SteadyServo, duty: float, voltage: float, torque: float) -> float:
    """Return the speed, rad/s, at which a motor gives `torque` (N·m) at a steady duty; 0 if friction holds it."""
    if servo.torque(duty, voltage, _CREEP) <= torque <= servo.torque(duty, voltage, -_CREEP):
        return 0.0
    high = abs(voltage) / servo.motor.constant
    low = -high
    for _ in range(_HALVINGS):  # the torque falls with the speed
        speed = (low + high) / 2
        if servo.torque(duty, voltage, speed) > torque:
            low = speed
        else:
            high = speed
    return (low + high) / 2
