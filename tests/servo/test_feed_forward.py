"""The goal that makes a servo be where a plan wants it."""

import math

import numpy as np
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import State
from axbridge.servo.steady import goal_offset
from axbridge.sim.engines.pendulums import Pendulums
from tests.support.one_joint import command, factory, servo_bank

GRAVITY = 9.80665
PROFILES = {name: FirmwareProfile.load(name) for name in ("ax-12a", "mx-28")}
TICK = 4e-3  # s between two goals
COUNT, SUPPLY, MASS, LENGTH = math.radians(300) / 1023, 11.1, 0.5, 0.12  # 0.59 N·m with the arm level


def servo(profile, model, **changes):
    return ServoModel.load(model, PROFILES[profile], changes)


def swung(model, profile, goals, start):
    """Angles of a servo with a heavy arm, rad, after every `TICK` of goals, rad."""
    engine = Pendulums(["arm"], time_step=1e-3, mass=MASS, length=LENGTH, start=[start])
    bank = servo_bank(engine, model, profile=profile, supply=SUPPLY)
    command(bank, P_GAIN=32, **factory(PROFILES["ax-12a"]))
    found = []
    for tick, goal in enumerate(goals):
        bank.set_goal(0, goal, 0.0, tick * TICK)
        bank.advance((tick + 1.001) * TICK)
        found.append(float(bank.state[0, State.ANGLE]))
    return np.array(found)


@pytest.mark.parametrize(
    ("profile", "model", "changes", "within"),
    [
        ("ax-12a", "lima2009", {}, 0.3),
        ("ax-12a", "lima2009", {"motor": {"armature": 0.0092}}, 0.3),
        ("ax-12a", "lima2009", {"friction": {"coulomb": 0.1}}, 0.8),
        ("ax-12a", "ax12", {"sensor": {"latency_ms": 0.0}}, 0.6),
        ("mx-28", "mx28", {"sensor": {"latency_ms": 0.0}}, 0.3),
    ],
)
def test_a_servo_that_is_led_is_where_it_should_be_under_a_load_that_turns_it_back(profile, model, changes, within):
    """A heavy arm from 20 to 100 degrees and back in 1.6 s; degrees, root mean square."""
    model, profile = servo(profile, model, **changes), PROFILES[profile]
    time = np.arange(1, 601) * TICK
    swing, rate = math.radians(40), 2 * math.pi / 1.6
    angle = math.radians(60) + swing * np.sin(rate * time)
    speed, faster = swing * rate * np.cos(rate * time), -swing * rate**2 * np.sin(rate * time)
    load = MASS * LENGTH**2 * faster + MASS * GRAVITY * LENGTH * np.sin(angle)
    goals = angle + goal_offset(model, profile, SUPPLY, speed, faster, load)
    later = time > 0.8  # it started at rest
    off = [np.degrees(swung(model, profile, sent, angle[0]) - angle)[later] for sent in (goals, angle)]
    led, alone = (np.sqrt(np.mean(error**2)) for error in off)
    assert led < within
    assert led < 0.3 * alone


def test_a_stiff_servo_at_rest_is_led_by_what_its_law_says():
    """0.6 N·m at the horn of an `ax12`: 0.585 A, and 0.23 of the duty with 3.3 + 4.7·0.23 ohm."""
    at_rest = np.zeros(2)
    found = goal_offset(servo("ax-12a", "ax12"), PROFILES["ax-12a"], SUPPLY, at_rest, at_rest, np.array([0.6, -0.6]))
    current = 0.6 / (0.5944 * 0.006796 * 254)
    duty = current * 3.305 / (SUPPLY - 4.695 * current)
    punch = (32 / 1023 - 0.0775) / (1 - 0.0775)
    wanted = COUNT + 32 * COUNT * (duty - punch) / (1 - punch)
    assert found == pytest.approx([wanted, -wanted], rel=1e-3)
    assert math.degrees(wanted) == pytest.approx(2.9, abs=0.2)
