"""What every engine does, whatever solves it: `axbridge.testing.check_engine` on each kind there is."""

import math

import numpy as np
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import Command, Passive
from axbridge.sim.bank import BankServo, ServoBank
from axbridge.sim.engine import Scene
from axbridge.sim.engines.bullet.engine import BulletEngine
from axbridge.sim.engines.mujoco.engine import MujocoEngine
from axbridge.sim.engines.pendulums import Pendulums
from axbridge.testing import check_engine
from tests.support.one_joint import write_pendulum

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")


@pytest.mark.parametrize("engine", [BulletEngine, MujocoEngine])
def test_an_engine_keeps_every_promise(engine):
    assert len(check_engine(engine)) >= 20


class _Frictionless(BulletEngine):
    """An engine that forgets dry friction."""

    def advance(self, drives, first, count):
        slippery = drives.passive.copy()
        slippery[:, Passive.FRICTION] = 0.0
        super().advance(drives._replace(passive=slippery), first, count)


def test_an_engine_that_breaks_the_contract_is_told_which_promise():
    with pytest.raises(AssertionError, match="dry friction holds up to its limit: the angle of a joint"):
        check_engine(_Frictionless)


def swing(engine, model, steps):
    """Angles of a servo that goes to 60 degrees, and then falls; the bank is asked for so many steps at a time, s."""
    bank = ServoBank(engine, [BankServo("shaft", model, 1, PROFILE.units.position, 0)], [9.6])
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT, Command.GOAL]] = 1, 1, math.pi / 3
    bank.set_command(0, row, 0.0)
    bank.set_command(0, np.zeros(len(Command)), 0.5)
    angles, step = [], engine.time_step
    for end in range(steps, round(1.0 / step), steps):
        bank.advance((end + 0.01) * step)
        if end % 20 == 0:
            angles.append((bank.positions[0], *bank.state[0]))
    bank.close()
    return np.array(angles)


@pytest.mark.parametrize("model", ["lima2009", "ax12"])
@pytest.mark.parametrize("make", [BulletEngine, MujocoEngine, None])
def test_servos_move_alike_however_many_steps_an_engine_is_asked_for(tmp_path, make, model):
    urdf, loaded = write_pendulum(tmp_path / "p.urdf", 7.2e-4, 0.08), ServoModel.load(model, PROFILE)
    one, many = (
        swing(make(Scene(urdf)) if make else Pendulums(["shaft"], time_step=1 / 240), loaded, steps)
        for steps in (1, 20)
    )
    assert np.abs(one).max() > 0.5
    assert one.tobytes() == many.tobytes()
