import math

import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import Joint, Mode, Passive, State
from axbridge.sim.engines.pendulums import Pendulums
from tests.support.one_joint import command, servo_bank

AX, MX = FirmwareProfile.load("ax-12a"), FirmwareProfile.load("mx-28")
R = 8.0  # ohm


def bank_of(model="lima2009", count=1, mass=1e-3, overrides=None, profile=AX):
    engine = Pendulums([f"j{k}" for k in range(count)], time_step=1e-3, mass=mass, length=0.1)
    servo_model = ServoModel.load(model, profile, overrides)
    return servo_bank(engine, servo_model, profile=profile, supply=12.0)


def test_a_torque_limit_caps_the_duty_in_every_mode():
    for columns in ({"MODE": Mode.WHEEL_DUTY, "DUTY": -1.0}, {"GOAL": -2.0}):
        bank = bank_of()
        command(bank, TORQUE_LIMIT=0.4, **columns)
        bank.advance(0.05)
        assert bank.state[0, State.DUTY] == pytest.approx(-0.4)


def test_a_speed_set_point_is_approached_with_the_acceleration_and_held():
    bank = bank_of(profile=MX)
    command(bank, MODE=Mode.WHEEL_SPEED, SPEED=2.0, ACCELERATION=4.0)
    bank.advance(0.25)
    assert bank.state[0, State.SPEED] == pytest.approx(1.0, abs=0.1)
    bank.advance(1.0)
    assert bank.state[0, State.SPEED] == pytest.approx(2.0, abs=0.1)


def loaded_wheel(load):
    bank = bank_of(model="mx28", profile=MX, mass=0.01)
    bank.engine._weight[:] = 0.0
    bank.passive[0, Passive.FRICTION] = load
    return bank


@pytest.mark.parametrize("speed", [0.5, 3.0, -3.0])
@pytest.mark.parametrize("load", [0.0, 0.5, 1.0])
def test_a_wheel_keeps_its_speed_under_load(speed, load):
    bank = loaded_wheel(load)
    command(bank, MODE=Mode.WHEEL_SPEED, SPEED=speed, P_GAIN=32)
    bank.advance(3.0)
    assert bank.state[0, State.SPEED] == pytest.approx(speed, rel=0.01)


def test_a_wheel_that_was_blocked_does_not_catch_up():
    bank = loaded_wheel(5.0)  # N·m, more than its stall torque
    command(bank, MODE=Mode.WHEEL_SPEED, SPEED=2.0, P_GAIN=32)
    bank.advance(5.0)
    assert bank.state[0, State.SPEED] == pytest.approx(0, abs=1e-9)
    assert bank.state[0, State.DUTY] == pytest.approx(1.0)
    bank.passive[0, Passive.FRICTION] = 0.0
    start = bank.positions[0]
    bank.advance(7.0)
    assert bank.positions[0] - start == pytest.approx(4.0, abs=0.4)  # without the 10 rad of the blocked time
    assert bank.state[0, State.SPEED] == pytest.approx(2.0, rel=0.01)


def test_the_pid_law_scales_with_the_gain_register():
    overrides = {"controller": {"law": "pid", "p_duty": 1e-3}}
    for gain in (8, 32):
        bank = bank_of(overrides=overrides, profile=MX)
        command(bank, GOAL=10 * MX.units.position, P_GAIN=gain)
        bank.advance(1e-3)
        assert bank.state[0, State.DUTY] == pytest.approx(10 * gain * 1e-3, rel=0.2)


def test_energy_and_heat_follow_from_the_current():
    bank = bank_of(mass=5.0)
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=0.2)
    bank.advance(0.5)  # 5 kg balance a duty of 0.2
    before = bank.state[0].copy()
    bank.advance(10.5)
    current = bank.state[0, State.CURRENT]
    assert current == pytest.approx(0.2 * 12 / R, rel=0.02)
    power = 0.2 * 12 * current
    assert bank.state[0, State.ENERGY] - before[State.ENERGY] == pytest.approx(10 * power, rel=0.02)
    warmer = bank.state[0, State.TEMPERATURE] - before[State.TEMPERATURE]
    assert warmer == pytest.approx(4.0 * current**2 * R * (1 - math.exp(-10 / 120)), rel=0.05)


def test_a_loop_of_10_ms_runs_every_10_ms_from_its_first_run_on():
    bank = bank_of(model="lima2009-strict")
    command(bank, GOAL=0.1)
    volts, changes = 0.0, []
    for tick in range(1, 45):
        bank.advance(tick * 1e-3)
        if bank._joint[0, Joint.VOLTS] != volts:
            volts = bank._joint[0, Joint.VOLTS]
            changes.append(tick)
    assert changes == [1, 11, 21, 31, 41]


@pytest.mark.parametrize("speed", [1.0, 3.0])
def test_a_moving_speed_does_not_push_the_shaft_backwards_first(speed):
    bank = bank_of()
    command(bank, GOAL=1.0, SPEED=speed)
    lowest = 0.0
    for tick in range(1, 200):
        bank.advance(tick * 1e-3)
        lowest = min(lowest, bank.positions[0])
    assert lowest > -1e-4
    assert bank.positions[0] > 0.05
