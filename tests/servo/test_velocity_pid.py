"""The motor controller's arithmetic, argument checks, couplings and the battery: numbers only."""

import math

import pytest

from axbridge.servo import checks
from axbridge.servo.setpoints import Limits, VelocityController, couplings, scaled


def test_the_limits_of_coupled_motors_are_the_first_ones_by_the_ratio_of_their_multipliers():
    # Webots Reference Manual, Motor, "Coupled Motors": A (2), B (0.5), C (4), D (-4)
    first = Limits(-1, 2, 10)
    assert first.times(0.5 / 2) == Limits(-0.25, 0.5, 2.5)
    assert first.times(4 / 2) == Limits(-2, 4, 20)
    assert first.times(-4 / 2) == Limits(-4, 2, 20)
    assert Limits(-math.inf, math.inf, 10).times(-1) == Limits(-math.inf, math.inf, 10)
    assert first.is_close(Limits(-1 + 1e-12, 2, 10))
    assert not first.is_close(Limits(-1, 2.1, 10))


def test_only_names_of_exactly_two_parts_couple():
    names = ["leg::left", "leg::right", "leg", "a::b::c", "::x", "lone::one"]
    assert couplings(names) == {"leg": ["leg::left", "leg::right"], "lone": ["lone::one"]}


def test_infinity_is_not_multiplied():
    assert scaled(math.inf, -2) == math.inf
    assert scaled(1.5, -2) == -3


def test_acceleration_is_limited_from_the_speed_commanded_last():
    control = VelocityController(10, 0, 0)
    assert [control.step(5, 0, 10, 2, 0.5) for _ in range(3)] == [1, 2, 3]
    control.stop()
    assert control.step(5, 0, 10, 2, 0.5) == 1
    assert control.step(math.inf, 0, -4, -1, 0.5) == -4


@pytest.mark.parametrize(
    ("outcome", "value", "said"),
    [
        (checks.position(100, -1, 1.51), 1.51, "too big requested position: 100 > 1.51"),
        (checks.position(-3, -1.63, 1), -1.63, "too low requested position: -3 < -1.63"),
        (checks.position(math.nan, -1, 1), None, "NaN"),
        (checks.position(-math.inf, -1, 1), -math.inf, ""),
        (checks.velocity(12, 10, endless=False), 10, "12 exceeds max_velocity 10"),
        (checks.velocity(-12, 10, endless=True), -10, "exceeds"),
        (checks.velocity(-1, 10, endless=False), None, "negative velocity -1"),
        (checks.velocity(math.nan, 10, endless=True), None, "NaN"),
        (checks.acceleration(-1), -1, ""),
        (checks.acceleration(-2), None, "-2"),
        (checks.available_torque(11, 10), 10, "11 exceeds max_torque 10"),
        (checks.available_torque(-1, 10), None, "-1"),
        (checks.torque(-3, 2), -2, "-3 exceeds the available torque 2"),
    ],
)
def test_out_of_range_is_clipped_and_impossible_is_refused(outcome, value, said):
    assert outcome.value == value
    assert said in outcome.warning
    assert bool(said) == bool(outcome.warning)


@pytest.mark.parametrize("bad", [(0, 0, 0), (-1, 0, 0), (1, -1, 0), (1, 0, -1), (math.nan, 0, 0), (math.inf, 0, 0)])
def test_impossible_gains_are_refused(bad):
    assert checks.gains(*bad)
    assert not checks.gains(1, 0, 0)


@pytest.mark.parametrize(
    ("asked", "ends", "question"),
    [
        (90, (-2.618, 2.618), " (radians? 90° is 1.571)"),
        (-45, (-2.618, 2.618), " (radians? -45° is -0.785)"),
        (4, (-2.618, 2.618), ""),  # less than a turn: just too far
        (500, (-2.618, 2.618), ""),  # too far in degrees, too
    ],
)
def test_a_position_that_looks_like_degrees_is_asked_about(asked, ends, question):
    warning = checks.position(asked, *ends, angle=True).warning
    assert warning.endswith(f"{ends[asked > 0]:g}{question}")
    assert "radians" not in checks.position(asked, *ends).warning  # of a linear joint
