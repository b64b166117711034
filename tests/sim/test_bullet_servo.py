"""A servo on a joint of PyBullet: its stop, its supply, its latency, and the strict model."""

import math

import numpy as np
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import Mode, State
from axbridge.sim.engine import Scene
from axbridge.sim.engines.bullet.engine import BulletEngine
from tests.support.one_joint import command, factory, servo_bank, write_pendulum

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")


def pendulum(tmp_path, inertia, weight_moment, time_step, *, start=0.0, model="lima2009", **motor):
    servo_model = ServoModel.load(model, PROFILE, {"motor": motor})
    urdf = write_pendulum(tmp_path / "pendulum.urdf", inertia, weight_moment)
    world = BulletEngine(Scene(urdf, time_step=time_step, start={"shaft": start}))
    return servo_bank(world, servo_model, profile=PROFILE)


def watched(bank, duration):
    """Times, angles and speeds of the next `duration` seconds, as they come out of each substep."""
    seen, end = [(bank.time, bank.positions[0], bank.speeds[0])], bank.time + duration
    while bank.time < end - 1e-9:
        bank.advance(bank.time + 1.001e-3)
        seen.append((bank.time, bank.positions[0], bank.speeds[0]))
    return np.array(seen).T


def trace(bank, duration):
    seen = watched(bank, duration)
    bank.close()
    return seen


@pytest.mark.parametrize("time_step", [1 / 240, 1e-3])
@pytest.mark.parametrize("inertia", [1e-5, 5e-4, 5e-3, 2e-2])
def test_full_duty_presses_a_joint_on_its_stop_and_lets_go_of_it_at_once(tmp_path, inertia, time_step):
    """It is not thrown back, and what the stop took is not owed by the motor when it turns the other way."""
    urdf = write_pendulum(tmp_path / "arm.urdf", inertia, 1e-4)
    world = BulletEngine(Scene(urdf, time_step=time_step, stops={"shaft": (-1.0, 1.0)}))
    bank = servo_bank(world, ServoModel.load("ax12", PROFILE), profile=PROFILE, supply=11.1)
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=1.0)
    _, angles, speeds = watched(bank, 1.0)
    assert angles.max() < 1.0 + 1e-6
    assert speeds[np.argmax(angles > 0.99) :].min() > -1e-3
    assert abs(angles[-1] - 1.0) < 1e-6
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=-1.0)
    _, back, _ = watched(bank, 0.3)
    bank.close()
    world = BulletEngine(Scene(urdf, time_step=time_step, start={"shaft": 1.0}))  # the same without a stop behind it
    free = servo_bank(world, ServoModel.load("ax12", PROFILE), profile=PROFILE, supply=11.1)
    command(free, MODE=Mode.WHEEL_DUTY, DUTY=-1.0)
    _, expected, _ = watched(free, 0.3)
    free.close()
    assert back[-1] == pytest.approx(expected[-1], abs=0.01)


def test_a_command_acts_after_the_models_latency(tmp_path):
    bank = pendulum(tmp_path, 7.2e-4, 0.0001, 1 / 240, model="ax12")
    command(bank, GOAL=1.0, **factory(PROFILE))
    bank.advance(0.0195)
    assert bank.state[0, State.DUTY] == 0
    bank.advance(0.022)
    assert bank.state[0, State.DUTY] == 1
    bank.close()


def test_a_brown_out_weakens_the_servo_at_once(tmp_path):
    bank = pendulum(tmp_path, 7.2e-4, 0.081, 1 / 240)
    command(bank, GOAL=1.0, **factory(PROFILE))
    bank.advance(0.5)
    bank.supply[0] = 0.0
    bank.advance(0.9)
    assert abs(bank.positions[0]) < 0.1
    assert bank.state[0, State.VOLTAGE] == 0
    bank.close()


def test_the_strict_model_overshoots_and_falls_as_in_simtwo(tmp_path):
    bank = pendulum(tmp_path, 7.2e-4, 0.081, 1e-3, model="lima2009-strict")
    command(bank, GOAL=math.pi / 2)
    _, angles, _ = trace(bank, 1.0)
    assert math.degrees(angles.max()) - 90 == pytest.approx(3.8, abs=0.3)
    for start, expected in ((45, 0.30), (90, 0.40), (135, 0.55)):
        bank = pendulum(tmp_path, 7.2e-4, 0.081, 1e-3, start=math.radians(start), model="lima2009-strict")
        command(bank, TORQUE=0)
        times, angles, _ = trace(bank, 0.8)
        assert times[np.argmax(angles < math.radians(5))] == pytest.approx(expected, abs=0.02)
