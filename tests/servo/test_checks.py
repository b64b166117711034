import math

import pytest

from axbridge.servo import checks
from axbridge.servo.setpoints import couplings


def test_only_motors_with_names_of_two_parts_are_coupled():
    names = ["leg::left", "leg::right", "leg", "a::b::c", "::x", "lone::one"]
    assert couplings(names) == {"leg": ["leg::left", "leg::right"], "lone": ["lone::one"]}


@pytest.mark.parametrize(
    ("outcome", "value", "words"),
    [
        (checks.position(100, -1, 1.51), 1.51, "too big requested position: 100 > 1.51"),
        (checks.position(-3, -1.63, 1), -1.63, "too low requested position: -3 < -1.63"),
        (checks.position(90, -2.618, 2.618), 2.618, "90 > 2.618"),  # a linear joint
        (checks.position(90, -2.618, 2.618, angle=True), 2.618, "90 > 2.618 (radians? 90° is 1.571)"),
        (checks.position(-45, -2.618, 2.618, angle=True), -2.618, "-45 < -2.618 (radians? -45° is -0.7854)"),
        (checks.position(4, -2.618, 2.618, angle=True), 2.618, "4 > 2.618"),  # less than a turn
        (checks.position(500, -2.618, 2.618, angle=True), 2.618, "500 > 2.618"),  # also too far in degrees
        (checks.position(math.nan, -1, 1), None, "NaN; the target stays"),
        (checks.position(-math.inf, -1, 1), -math.inf, ""),
        (checks.velocity(12, 10, endless=False), 10, "12 exceeds max_velocity 10"),
        (checks.velocity(-12, 10, endless=True), -10, "-12 exceeds max_velocity 10"),
        (checks.velocity(-1, 10, endless=False), None, "-1 in position control; the old one stays"),
        (checks.velocity(math.nan, 10, endless=True), None, "NaN; the old one stays"),
        (checks.acceleration(-1), -1, ""),
        (checks.acceleration(-2), None, "not -2; the old one stays"),
        (checks.available_torque(11, 10), 10, "11 exceeds max_torque 10"),
        (checks.available_torque(-1, 10), None, "not -1; the old one stays"),
        (checks.torque(-3, 2), -2, "-3 exceeds the available torque 2"),
    ],
)
def test_values_out_of_range_are_clipped_and_impossible_values_are_refused(outcome, value, words):
    stored, warning = outcome
    assert stored == value
    assert warning.endswith(words)
    assert bool(words) == bool(warning)


@pytest.mark.parametrize("bad", [(0, 0, 0), (-1, 0, 0), (1, -1, 0), (1, 0, -1), (math.nan, 0, 0), (math.inf, 0, 0)])
def test_impossible_gains_are_refused(bad):
    assert checks.gains(*bad)
    assert not checks.gains(1, 0, 0)
