"""Wheels roll on Bullet's floor, and what drags drags: a contact at rest need not stay where it is."""

import numpy as np
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.physics.bank import BankServo, Command, Mode, ServoBank, State
from axbridge.physics.engine import Scene
from axbridge.physics.engines.bullet import BulletEngine
from tests.support.cart import RADIUS, write_cart

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")


def drive(urdf, duty, *, time_step=1 / 240, fixed=False):
    """Two wheels driven for 2 s: mean speed, rad/s, and torque, N·m, of one, and the cart's speed, m/s, in the last half."""
    engine = BulletEngine(Scene(urdf, time_step=time_step, fixed_base=fixed, ground=not fixed, base_height=1e-4))
    model = ServoModel.load("ax12", PROFILE)
    bank = ServoBank(
        engine, [BankServo(name, model, 1, PROFILE.units.position, 0) for name in ("left", "right")], [11.1]
    )
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT, Command.MODE, Command.DUTY]] = 1, 1, Mode.WHEEL_DUTY, duty
    for index in range(2):
        bank.set_command(index, row, 0.0)
    bank.advance(1.0)
    before, angle = engine.base(), bank.positions[0]
    torques = []
    while bank.time < 2.0 - 1e-9:
        bank.advance(bank.time + 0.01)
        torques.append(bank.state[0, State.TORQUE])
    turned = bank.positions[0] - angle
    gone = 0.0 if fixed else engine.base()[0][0] - before[0][0]
    bank.close()
    return turned, np.mean(torques), gone


@pytest.mark.parametrize("time_step", [1 / 240, 1e-3])
@pytest.mark.parametrize("duty", [0.2, 0.5])
def test_wheels_roll_as_fast_as_they_turn_in_the_air(tmp_path, duty, time_step):
    urdf = write_cart(tmp_path / "cart.urdf", friction=0.0)
    free, _, _ = drive(urdf, duty, fixed=True)
    turned, torque, gone = drive(urdf, duty, time_step=time_step)
    assert turned == pytest.approx(free, rel=0.03)
    assert abs(torque) < 0.005
    assert gone == pytest.approx(RADIUS * turned, rel=0.04)


def test_a_skid_that_drags_costs_what_its_friction_does(tmp_path):
    """However slowly it is dragged: it slips, and does not hold."""
    free, _, _ = drive(write_cart(tmp_path / "free.urdf", friction=0.0), 0.2)
    urdf = write_cart(tmp_path / "cart.urdf", friction=0.5)
    for duty in (0.1, 0.2):
        turned, torque, gone = drive(urdf, duty)
        # Half of the friction of a third of the weight on each wheel; to drag it ahead lightens it.
        assert torque == pytest.approx(0.5 * 0.5 * 2.0 * RADIUS, abs=0.007)
        assert gone == pytest.approx(RADIUS * turned, rel=0.05)
    assert turned < free
