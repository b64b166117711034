import math
from functools import partial

import numpy as np
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import Command, Passive
from axbridge.sim.bank import BankServo, ServoBank
from axbridge.sim.engine import Scene
from axbridge.sim.engines.choice import build_engine
from axbridge.sim.engines.pendulums import Pendulums
from axbridge.testing import check_engine
from tests.support.one_joint import order, paper_servo, watched, write_pendulum

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")


ENGINES = ["bullet", "mujoco"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_keeps_every_promise(engine):
    assert len(check_engine(partial(build_engine, engine))) >= 19


def frictionless(scene):
    """An engine that forgets dry friction."""
    engine = build_engine("mujoco", scene)
    advance = engine.advance

    def slipping(drives, first, count):
        slippery = drives.passive.copy()
        slippery[:, Passive.FRICTION] = 0.0
        advance(drives._replace(passive=slippery), first, count)

    engine.advance = slipping
    return engine


def test_the_error_names_the_promise_that_an_engine_breaks():
    with pytest.raises(AssertionError, match="dry friction holds up to its limit: the angle of a joint"):
        check_engine(frictionless)


@pytest.mark.parametrize(
    ("engine", "time_step", "allowed"),  # degrees, root mean square
    [
        ("bullet", 1 / 240, 0.3),
        pytest.param("bullet", 1e-3, 0.1, marks=pytest.mark.ci),
        ("mujoco", 1 / 240, 0.02),
        pytest.param("mujoco", 1e-3, 0.02, marks=pytest.mark.ci),
    ],
)
@pytest.mark.parametrize(
    ("inertia", "armature"),
    [
        *((1e-5, 0.0), (1e-5, 0.004), (7.2e-4, 0.0), (5e-3, 0.004)),
        *(pytest.param(*other, marks=pytest.mark.ci) for other in ((7.2e-4, 0.004), (5e-3, 0.0))),
    ],
)
def test_steps_and_falls_follow_the_papers_equations(tmp_path, inertia, armature, engine, time_step, allowed):
    if inertia + armature < 1e-4:
        allowed = max(allowed, 0.05)  # so light a link has its speed within a physics step
    weight = 0.081 * min(1.0, inertia / 7.2e-4)
    urdf = write_pendulum(tmp_path / "p.urdf", inertia, weight)
    model = ServoModel.load("lima2009", PROFILE, {"motor": {"armature": armature}})
    for goal, start in ((math.pi / 2, 0.0), *((None, math.radians(angle)) for angle in (45, 90, 135))):
        world = build_engine(engine, Scene(urdf, time_step=time_step, start={"shaft": start}))
        bank = ServoBank(world, [BankServo("shaft", model, 1, PROFILE.units.position, 0)], [9.6])
        order(bank, goal)
        times, (angles,), _ = watched(bank, 0.8)
        bank.close()
        motion, truth, _ = paper_servo(
            inertia, weight, armature=armature, goal=goal, start=start, duration=times[-1], samples=2000
        )
        error = np.degrees(angles - np.interp(times, motion, truth))
        assert math.sqrt(np.mean(error**2)) <= allowed, (goal, start)


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
@pytest.mark.parametrize("engine", [*ENGINES, None])
def test_servos_move_alike_however_many_steps_an_engine_is_asked_for(tmp_path, engine, model):
    urdf, loaded = write_pendulum(tmp_path / "p.urdf", 7.2e-4, 0.08), ServoModel.load(model, PROFILE)
    single, many = (
        swing(build_engine(engine, Scene(urdf)) if engine else Pendulums(["shaft"], time_step=1 / 240), loaded, steps)
        for steps in (1, 20)
    )
    assert np.abs(single).max() > 0.5
    assert single.tobytes() == many.tobytes()
