import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import ProfileError
from axbridge.servo.branch_free import decayed, erf
from axbridge.servo.columns import Param, pack
from axbridge.servo.friction import Friction, budget
from axbridge.servo.motor import end_current, fitted_weight, limited_current, relax
from axbridge.servo.position_laws import compliance, lagging, loop_duty, motor_duty

AX = FirmwareProfile.load("ax-12a")
COUNT = AX.units.position


def friction(speed=0.0, motor=0.0, external=0.0, **terms):
    """Return the friction budget, N·m, with these terms; all others are 0."""
    values = {"stribeck_speed": 0.2, "stribeck_exponent": 1.0, "load_external": -1.0, **terms}
    law = Friction(*(values.get(name, 0.0) for name in Friction._fields))
    return budget(law, speed, motor, external)


def test_the_step_of_the_current_is_exact_for_every_length():
    whole, _ = relax(8.0, 5e-3, 1e-3)
    half, _ = relax(8.0, 5e-3, 5e-4)
    assert whole == pytest.approx(half * half)
    assert relax(8.0, 0.0, 1e-3) == (0.0, 0.0)
    current = 0.0
    for _ in range(1000):
        current = end_current(current, 9.6, relax(8.0, 5e-3, 1e-6)[0], 8.0, 1.73, 0.0)
    assert current == pytest.approx(9.6 / 8 * (1 - math.exp(-1e-3 * 8 / 5e-3)))


@given(st.floats(0.0, 1e6))
def test_the_weight_of_the_end_speed_stays_between_midpoint_and_backward_euler(ratio):
    weight = fitted_weight(ratio)
    assert 0.5 <= weight <= 1.0
    if 1e-3 < ratio < 700:
        assert weight == pytest.approx(1 / (1 - math.exp(-ratio)) - 1 / ratio, abs=0.032)


def test_current_limits_of_the_drive():
    assert limited_current(1.0, 0.0, 0.15, 0.0, 1.0, False, 1e-3) == pytest.approx(0.15)
    assert limited_current(1.0, 0.0, 0.0, 0.5, 0.5, False, 1e-3) == 0.5
    assert limited_current(-3.0, 0.0, 0.0, 0.5, 0.5, True, 1e-3) == -1.0


def test_friction_terms_of_each_law():
    assert friction(coulomb=0.1) == 0.1
    assert friction(coulomb=0.1, stribeck=0.05) == pytest.approx(0.15)
    assert friction(speed=-0.2, coulomb=0.1, stribeck=0.05) == pytest.approx(0.1 + 0.05 / math.e)
    assert friction(motor=0.5, external=-0.5, load=0.1) == pytest.approx(0.1)
    assert friction(motor=0.5, external=-0.5, load=0.1, load_external=0.2) == pytest.approx(0.15)
    assert friction(speed=2.0, quadratic=0.01) == pytest.approx(0.04)
    own = {"load_external": 0.2, "load_external_stribeck": 0.3}  # a load with its own weight
    assert friction(external=-0.5, **own) == pytest.approx(0.25)
    assert friction(speed=-0.2, external=-0.5, **own) == pytest.approx(0.1 + 0.15 / math.e)
    assert friction(motor=0.5, external=0.5, load_stribeck=0.3, **own) == pytest.approx(0.1)


def test_terms_that_a_law_does_not_have_are_packed_as_zero():
    terms = {"coulomb": 0.1, "stribeck": 0.2, "load": 0.3, "quadratic": 0.4, "load_external": 0.5}
    for law, has in {"M1": (0, 0, -1, 0), "M4": (0.2, 0.3, -1, 0), "M6": (0.2, 0.3, 0.5, 0.4)}.items():
        row = pack(ServoModel.load("lima2009", AX, {"friction": {"law": law, **terms}}), COUNT)
        packed = [row[c] for c in (Param.STRIBECK, Param.LOAD, Param.LOAD_EXTERNAL, Param.QUADRATIC)]
        assert tuple(packed) == has


def test_compliance_has_margin_punch_slope_and_two_sides():
    def law(error):
        return compliance(error, 0.01, 0.02, 0.1, 0.2, 0.05)

    assert law(0.02) == law(-0.01) == 0.0
    assert law(0.02 + 1e-6) == pytest.approx(0.05, abs=1e-4)
    assert law(0.12) == pytest.approx(0.05 + 0.95 * 0.5)
    assert law(-0.06) == pytest.approx(-(0.05 + 0.95 * 0.5))
    assert law(1.0) == 1.0
    assert law(-1.0) == -1.0


@pytest.mark.parametrize(
    ("motor", "words"),
    [
        ({"armature": math.nan}, "motor.armature"),
        ({"armature": -1.0}, "motor.armature"),
        ({"armature": 0.0, "backlash": 0.01}, "motor.armature: backlash lets the rotor turn on its own, so it needs"),
        ({"backlash": -0.01}, "motor.backlash: must be at least 0, not -0.01"),
        ({"backlash": 1.0}, "motor.backlash: must be at most 0.2, not 1.0"),
    ],
)
def test_invalid_parameters_are_refused_by_name(motor, words):
    with pytest.raises(ProfileError, match=words):
        ServoModel.load("ax12", AX, {"motor": motor})


@given(st.floats(-1, 1), st.floats(0, 0.5))
def test_a_bridge_loses_small_duties_and_passes_full_duty(duty, dead):
    assert motor_duty(math.copysign(1.0, duty), dead) == math.copysign(1.0, duty)
    assert (motor_duty(duty, dead) == 0) == (abs(duty) <= dead)
    assert motor_duty(loop_duty(duty, dead), dead) == pytest.approx(duty, abs=1e-12)


def test_the_input_of_a_loop_is_behind_a_constant_speed_by_its_lag():
    seen, step, lag = 0.0, 1e-3, 0.01
    for k in range(200):
        seen, blur = lagging(seen, 5.0 * step * (k + 1), lag, 1.0, step)
    assert 5.0 * step * 200 - seen == pytest.approx(5.0 * lag, rel=0.06)
    assert blur == pytest.approx(math.sqrt(step / lag / 2), rel=0.1)
    assert lagging(0.3, 0.7, 0.0, 1.0, step) == (0.7, 1.0)


def test_the_series_are_exact_within_rounding():
    x = np.concatenate((np.linspace(0.0, 60.0, 5001), np.logspace(-12, 0, 500)))
    assert [decayed(value) for value in x] == pytest.approx(-np.expm1(-x), rel=1e-15, abs=0)
    x = np.linspace(-4.0, 4.0, 5001)
    assert [erf(value) for value in x] == pytest.approx([math.erf(value) for value in x], rel=1e-14)
