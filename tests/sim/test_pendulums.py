"""Mechanics for rigs without a world."""

import math

import pytest

from axbridge.sim.engines.pendulums import Pendulums
from axbridge.virtual.bus import VirtualBus
from axbridge.virtual.world import World
from tests.support.joints import left_alone
from tests.support.virtual_rig import make_rig


def test_a_free_pendulum_swings_with_the_period_of_the_textbook():
    swing = Pendulums(["a"], time_step=1e-3, length=0.1, start=[0.05])
    crossings, before, time = [], 0.05, 0.0
    while len(crossings) < 3:
        left_alone(swing, swing.time_step)
        time += swing.time_step
        now = swing.state()[0][0]
        if before > 0 >= now or before < 0 <= now:
            crossings.append(time)
        before = now
    assert crossings[2] - crossings[0] == pytest.approx(2 * math.pi * math.sqrt(0.1 / 9.80665), rel=0.002)


def test_a_rig_without_a_world_moves_all_the_same():
    world = World(make_rig(ids=(1, 2)).with_model("ax12"), timing="none")
    bus = VirtualBus(world)
    bus.sync_write(30, {1: (700).to_bytes(2, "little"), 2: (400).to_bytes(2, "little")})
    world.sleep_until(2.0)
    positions = [int.from_bytes(bus.read(id_, 36, 2).data, "little") for id_ in (1, 2)]
    world.close()
    assert positions == pytest.approx([700, 400], abs=25)
