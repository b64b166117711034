"""Whole turns of a wheel whose potentiometer does not see all of a turn: counted from samples, through the dead zone.

An AX-12 reads 300 of 360 degrees. Where it reads nothing, the motor model says how fast the shaft goes on: the torque
that the load takes is what it was when the shaft was seen last, and the speed follows from duty and supply.
"""

from __future__ import annotations

import math

from axbridge.robot.drives.drive import Sample
from axbridge.servo.steady import SteadyServo

_TURN = 2 * math.pi
_MARGIN = 0.05  # rad: noise, and a shaft that is pushed a little
_NEAR, _FAR = 2, 9  # readings that agree with the one before
_CREEP = 0.06  # rad/s: where the friction of motion begins, either way
_HALVINGS = 20  # of the range of speeds: 1e-5 rad/s


class TurnCounter:
    """The angle of a wheel with its whole turns.

    In the dead zone an AX-12 may say anything. So a reading counts when it agrees with those before it, as a shaft that
    turns no faster than the motor can would have it: three in a row, and ten in a row when it is far from where the
    model expects the shaft. Till then the model says where it is. The turns are right as long as the model is off by
    less than half a turn when the shaft is seen again, and less than half a turn passes from sample to sample.

    Attributes:
        position: rad, with whole turns.
    """

    def __init__(self, servo: SteadyServo, seen: tuple[float, float], start: float) -> None:
        self.position = start
        self._servo = servo
        self._low, self._high = seen
        self._time = math.nan
        self._reading = start
        self._agreed = _FAR  # readings in a row that went along with the one before
        self._torque = 0.0  # that the load took when the shaft was last seen, N·m

    def update(self, sample: Sample) -> float:
        """Count a sample of a driven wheel; its angle, rad."""
        time, position, load, voltage = map(sample, ("time", "position", "load", "voltage"))
        passed = time - self._time if time > self._time else 0.0
        reach = abs(voltage) / self._servo.motor.constant * passed + _MARGIN
        self._agreed = self._agreed + 1 if abs(position - self._reading) <= reach else 0
        self._time, self._reading = time, position
        expected = self.position + passed * speed_under(self._servo, load, voltage, self._torque)
        ahead = round((expected - (self._high + self._low + _TURN) / 2) / _TURN)
        begin, end = self._high + ahead * _TURN, self._low + (ahead + 1) * _TURN  # the dead zone nearest to it
        if not self._low < position < self._high:
            self.position = min(max(expected, begin), end)
            return self.position
        read = position + round((expected - position) / _TURN) * _TURN
        if self._agreed >= (_NEAR if abs(read - expected) <= end - begin + _MARGIN else _FAR):
            self.position = read
            self._torque = self._servo.torque(load, voltage, sample("velocity"))
        else:
            self.position = expected
        return self.position


def speed_under(servo: SteadyServo, duty: float, voltage: float, torque: float) -> float:
    """Speed, rad/s, at which a motor gives `torque` (N·m) at a steady duty: 0 where friction holds it."""
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
