"""A served robot that stands free is held while it is limp, put down when its motors come on, and let go."""

import pytest

from axbridge.config.rig import Rig
from axbridge.serve.hand import HeldBank, held
from axbridge.virtual.assembly import build_bank
from axbridge.virtual.world import World

pytestmark = pytest.mark.slow


def served(engine="mujoco"):
    rig = Rig.load("bioloid").with_engine(engine)
    bank = build_bank(rig, model="ax12")
    return World(rig, bank=held(bank)), bank.engine


def passes(world, seconds, step=0.01):
    end = world.now() + seconds
    while world.now() < end:
        world.sleep_until(world.now() + step)


def switch(world, *, on):
    for name, servo in world.servos.items():
        config = next(config for config in world.rig.servos if config.name == name)
        goal = config.zero + round(config.direction * config.position / servo.profile.units.position)
        servo.table["goal_position"], servo.table["torque_enable"] = goal, int(on)
        servo._push(world.now())


def test_a_limp_robot_is_held_and_stands_by_itself_once_its_motors_are_on():
    world, engine = served()
    start = engine.base()[0][2]
    passes(world, 1.0)
    assert engine.base()[0][2] == pytest.approx(start + 0.02, abs=0.003)  # lifted; without a hand it lies by now
    switch(world, on=True)
    passes(world, 2.0)
    assert engine.base()[0][2] == pytest.approx(start, abs=0.006)
    passes(world, 1.0)
    assert engine.base()[0][2] > 0.24  # on its own feet
    switch(world, on=False)
    passes(world, 0.5)
    assert engine.base()[0][2] == pytest.approx(start + 0.02, abs=0.003)  # caught
    world.close()


def test_a_robot_that_is_let_go_can_fall():
    world, engine = served()
    switch(world, on=True)
    passes(world, 2.2)
    for servo in list(world.servos.values())[1:]:  # all but one go limp: nobody holds it any more
        servo.table["torque_enable"] = 0
        servo._push(world.now())
    passes(world, 1.5)
    assert engine.base()[0][2] < 0.2
    world.close()


def test_a_robot_that_is_bolted_down_needs_no_hand():
    bank = build_bank(Rig.load("bench_arm"))
    assert held(bank) is bank
    assert not isinstance(held(bank), HeldBank)
    bank.close()
