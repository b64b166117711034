"""What every engine does, whatever solves it: `axbridge.testing.check_engine` on each kind there is."""

import math

import numpy as np
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.sim.bank import BankServo, Command, ServoBank
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

    def advance(self, drives):
        return super().advance(drives._replace(friction=0 * drives.friction))


class _Sealed:
    """An engine that keeps to itself how its joints are worked out, so that it is asked step by step."""

    ahead = None

    def __init__(self, engine):
        self._engine = engine

    def __getattr__(self, name):
        return getattr(self._engine, name)


def test_an_engine_that_breaks_the_contract_is_told_which_promise():
    with pytest.raises(AssertionError, match="dry friction holds up to its limit: the angle of a joint"):
        check_engine(_Frictionless)


def swing(engine, model):
    """Angles of a servo that goes to 60 degrees, and then falls."""
    bank = ServoBank(engine, [BankServo("shaft", model, 1, PROFILE.units.position, 0)], [9.6])
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT, Command.GOAL]] = 1, 1, math.pi / 3
    bank.set_command(0, row, 0.0)
    angles = []
    for step in range(1, 1000):
        bank.advance(step * 1e-3)
        if step == 500:
            bank.set_command(0, np.zeros(len(Command)), bank.time)
        angles.append((bank.positions[0], *bank.state[0]))
    bank.close()
    return np.array(angles)


@pytest.mark.parametrize(("model", "allowed"), [("lima2009", 1e-9), ("ax12", 1e-9)])
def test_servos_move_alike_whether_an_engine_works_ahead_or_is_asked_step_by_step(tmp_path, model, allowed):
    urdf = write_pendulum(tmp_path / "p.urdf", 7.2e-4, 0.08)
    for make in (
        lambda: BulletEngine(Scene(urdf)),
        lambda: Pendulums(["shaft"], time_step=1 / 240),
    ):
        loaded = ServoModel.load(model, PROFILE)
        ahead, by_step = swing(make(), loaded), swing(_Sealed(make()), loaded)
        assert np.abs(ahead).max() > 0.5
        assert np.abs(ahead - by_step).max() <= allowed
