"""Whole turns of a wheel: counted through a dead zone, whatever the sensor says there."""

import math
import random

import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.robot.drives.shaft_speed import TurnCounter
from axbridge.servo.columns import pack
from axbridge.servo.steady import SteadyServo

PROFILE = FirmwareProfile.load("ax-12a")
SERVO = SteadyServo.of(pack(ServoModel.load("ax12", PROFILE), PROFILE.units.position))
END = math.radians(150)
VOLTS = 12.0


def sample(time, angle, speed, reading):
    """What an AX-12 says of a shaft at `angle`: where its sensor sees nothing, `reading` and no speed."""
    seen = (angle + math.pi) % (2 * math.pi) - math.pi
    inside = abs(seen) < END
    duty = SERVO.duty(0.0, VOLTS, speed)
    position, velocity = (seen, speed) if inside else (reading(seen), 0.0)
    return {"time": time, "position": position, "velocity": velocity, "load": duty, "voltage": VOLTS}.__getitem__


READINGS = {
    "the nearer end": lambda seen: math.copysign(END, seen),
    "where it went in": lambda seen: END,
    "anything": lambda seen: random.Random(seen).uniform(-END, END),
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=list(READINGS))
@pytest.mark.parametrize("speed", [4.0, -4.0, 0.5])
def test_turns_are_counted_whatever_the_sensor_says_in_the_dead_zone(reading, speed):
    counter = TurnCounter(SERVO, (-END, END), 0.0)
    off = []
    for step in range(600):
        angle = speed * step * 0.02
        off.append(abs(counter.update(sample(step * 0.02, angle, speed, reading)) - angle))
    assert sorted(off)[len(off) // 2] < 1e-9  # where the shaft is seen
    assert max(off) < (math.pi if reading is READINGS["anything"] else math.radians(5))  # never by a turn


def test_a_turn_back_within_the_dead_zone_is_no_turn():
    counter = TurnCounter(SERVO, (-END, END), 2.0)
    for step in range(300):
        angle = 2.0 + 1.0 * math.sin(step * 0.02 * 3)  # up to 3.0, beyond 2.618
        position = counter.update(sample(step * 0.02, angle, 3 * math.cos(step * 0.06), READINGS["the nearer end"]))
        assert position == pytest.approx(angle, abs=math.radians(20))
