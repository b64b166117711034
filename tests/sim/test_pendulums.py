"""Uncoupled joints without an engine: their loads and falls, compared with those of an engine."""

from contextlib import closing

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.errors import RigError
from axbridge.sim.bank import ServoBank
from axbridge.virtual.assembly import build_bank
from axbridge.virtual.world import World
from tests.support.ideal_world import Bench


def bank_of(rig, engine, **start) -> ServoBank:
    posed = Rig.load(rig).with_engine(engine)
    return build_bank(posed.with_servos(lambda servo: {"position": start.get(servo.name, servo.position)}))


@pytest.mark.parametrize("rig", ["so101", "koch", "head_gripper", "leg", "pan_tilt", "bench_arm"])
def test_without_an_engine_each_joint_has_the_load_of_an_engine_at_the_start(rig):
    with closing(bank_of(rig, "none")) as uncoupled, closing(bank_of(rig, "mujoco")) as coupled:
        assert uncoupled.joints == coupled.joints
        assert uncoupled.engine.kinds == coupled.engine.kinds
        assert uncoupled.engine.limits == coupled.engine.limits
        assert uncoupled.engine.load() == pytest.approx(coupled.engine.load(), abs=1e-6)


@pytest.mark.parametrize("start", [-1.2, 0.4, 1.2])
def test_a_limp_arm_falls_without_an_engine_as_with_an_engine(start):
    limp = [bank_of("bench_arm", engine, shoulder=start) for engine in ("none", "mujoco")]
    with closing(limp[0]) as uncoupled, closing(limp[1]) as coupled:
        for time in (0.1, 0.3, 0.6):
            for bank in limp:
                bank.advance(time)
            assert uncoupled.positions == pytest.approx(coupled.positions, abs=0.004)
        assert np.abs(uncoupled.positions[0] - start) > 0.2


def test_a_robot_without_an_engine_moves_no_other_joint_and_stays_on_its_base():
    with closing(World(Rig.load("bioloid").with_engine("none"))) as world:
        assert world.engine_name == "none"
        assert world.engine.base() is None
        before = world.bank.positions.copy()
        world.place("left_knee", 1.0)
        moved = np.flatnonzero(np.abs(world.bank.positions - before) > 1e-9)
        assert [world.engine.joints[j] for j in moved] == ["left_knee"]


def test_an_ideal_joint_without_an_engine_is_refused(tmp_path):
    rig = Rig.load(Bench(tmp_path).rig({}))
    with pytest.raises(RigError, match="without an engine nothing can move 'j0', an ideal joint"):
        rig.with_engine("none")
