"""A servo on a joint of PyBullet: its stop, and the strict model."""

import math
from functools import partial

import numpy as np
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import Mode
from axbridge.sim.engine import Scene
from axbridge.sim.engines.bullet.engine import BulletEngine
from tests.support.one_joint import command, servo_bank, write_pendulum

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")


def bank_on(urdf, time_step=1e-3, model="ax12", supply=11.1, **scene):
    world = BulletEngine(Scene(urdf, time_step=time_step, **scene))
    return servo_bank(world, ServoModel.load(model, PROFILE), profile=PROFILE, supply=supply)


def watched(bank, duration):
    """Times, angles and speeds of the next `duration` seconds, as they come out of each substep."""
    seen, end = [(bank.time, bank.positions[0], bank.speeds[0])], bank.time + duration
    while bank.time < end - 1e-9:
        bank.advance(bank.time + 1.001e-3)
        seen.append((bank.time, bank.positions[0], bank.speeds[0]))
    return np.array(seen).T


@pytest.mark.parametrize("time_step", [1 / 240, 1e-3])
@pytest.mark.parametrize("inertia", [1e-5, 5e-4, 5e-3, 2e-2])
def test_full_duty_presses_a_joint_on_its_stop_and_lets_go_of_it_at_once(tmp_path, inertia, time_step):
    """It is not thrown back, and what the stop took is not owed by the motor when it turns the other way."""
    urdf = write_pendulum(tmp_path / "arm.urdf", inertia, 1e-4)
    bank = bank_on(urdf, time_step, stops={"shaft": (-1.0, 1.0)})
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=1.0)
    _, angles, speeds = watched(bank, 1.0)
    assert angles.max() < 1.0 + 1e-6
    assert speeds[np.argmax(angles > 0.99) :].min() > -1e-3
    assert abs(angles[-1] - 1.0) < 1e-6
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=-1.0)
    _, back, _ = watched(bank, 0.3)
    bank.close()
    free = bank_on(urdf, time_step, start={"shaft": 1.0})  # the same without a stop behind it
    command(free, MODE=Mode.WHEEL_DUTY, DUTY=-1.0)
    _, expected, _ = watched(free, 0.3)
    free.close()
    assert back[-1] == pytest.approx(expected[-1], abs=0.01)


def test_the_strict_model_overshoots_and_falls_as_in_simtwo(tmp_path):
    strict = partial(
        bank_on, write_pendulum(tmp_path / "pendulum.urdf", 7.2e-4, 0.081), model="lima2009-strict", supply=9.6
    )
    bank = strict()
    command(bank, GOAL=math.pi / 2)
    _, angles, _ = watched(bank, 1.0)
    bank.close()
    assert math.degrees(angles.max()) - 90 == pytest.approx(3.8, abs=0.3)
    for start, expected in ((45, 0.30), (90, 0.40), (135, 0.55)):
        bank = strict(start={"shaft": math.radians(start)})
        command(bank, TORQUE=0)
        times, angles, _ = watched(bank, 0.8)
        bank.close()
        assert times[np.argmax(angles < math.radians(5))] == pytest.approx(expected, abs=0.02)
