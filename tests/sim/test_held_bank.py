import math

import pytest

from axbridge.config.rig import Rig
from axbridge.rotations import roll_pitch_yaw
from axbridge.sim.support import held
from axbridge.units import AX
from axbridge.virtual.assembly import build_bank
from axbridge.virtual.world import World
from tests.support.page_set import WALK_READY

pytestmark = pytest.mark.slow


def served(engine="mujoco"):
    rig = Rig.load("bioloid").with_engine(engine)
    bank = build_bank(rig)
    return World(rig, bank=held(bank, rig)), bank.engine


def passes(world, seconds, step=0.01):
    end = world.now() + seconds
    while world.now() < end:
        world.sleep_until(world.now() + step)


def standing(world):
    """Counts of the rig's start pose, by servo."""
    return {
        config.name: config.zero + round(config.direction * config.position / AX.position)
        for config in world.rig.servos
    }


def switch(world, *, on, goals=None):
    for name, goal in (goals or standing(world)).items():
        servo = world.servos[name]
        servo.table["goal_position"], servo.table["torque_enable"] = goal, int(on)
        servo.push(world.now())


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


def test_a_robot_on_bent_knees_is_put_on_its_soles_before_it_is_let_go():
    """Not upright where the rig has it: from there ROBOTIS' own pose fell 5 cm on its toes."""
    world, engine = served()
    ids = {config.id: config.name for config in world.rig.servos}
    switch(world, on=True, goals={ids[number]: count for number, count in enumerate(WALK_READY, 1)})
    passes(world, 1.9)
    (_, _, held), turned = engine.base()
    assert math.degrees(roll_pitch_yaw(turned)[1]) == pytest.approx(10.0, abs=1.0)
    passes(world, 2.0)
    assert engine.base()[0][2] == pytest.approx(held, abs=0.004)
    world.close()


def test_a_robot_that_is_let_go_can_fall():
    world, engine = served()
    switch(world, on=True)
    passes(world, 2.2)
    for servo in list(world.servos.values())[1:]:  # all but one go limp: nobody holds it any more
        servo.table["torque_enable"] = 0
        servo.push(world.now())
    passes(world, 1.5)
    assert engine.base()[0][2] < 0.2
    world.close()


def test_a_robot_that_is_bolted_down_needs_no_hand():
    rig = Rig.load("bench_arm")
    bank = build_bank(rig)
    before = bank.before
    assert held(bank, rig) is bank
    assert bank.before is before
    bank.close()
