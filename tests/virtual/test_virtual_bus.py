"""The in-process bus: the same servos, in simulated time."""

import pytest

from axbridge.errors import BusTimeout, ErrorFlag, PortError
from axbridge.virtual.bus import VirtualBus
from tests.support.virtual_rig import make_world


def test_a_transaction_takes_the_time_of_its_bytes_and_the_servos_delay():
    world = make_world(return_delay_time=0)
    with VirtualBus(world) as bus:
        reply = bus.read(1, 36, 8)
    assert reply.time == pytest.approx(80e-6)
    # 8 bytes there, 14 back, 22 µs of firmware, at most two interrupts of 130 µs
    assert 242e-6 - 1e-9 <= world.now() <= 242e-6 + 260e-6


def test_without_timing_nothing_takes_time():
    world = make_world(timing="none")
    with VirtualBus(world) as bus:
        bus.read(1, 36, 8)
        bus.write(1, 12, b"\x3d\x8b")
        bus.write(1, 25, b"\x01")
    assert world.now() == 0


def test_a_late_reply_is_no_answer_to_the_next_question():
    world = make_world(return_delay_time=0)
    bus = VirtualBus(world)
    world.inject("late=1:4ms")
    with pytest.raises(BusTimeout):
        bus.ping(1)
    world.inject("none")
    world.sleep_until(world.now() + 0.01)
    assert bus.write(1, 30, b"\xa0\x0f").error == ErrorFlag.RANGE  # the goal is refused


def test_no_such_bus_names_those_there_are():
    with pytest.raises(PortError, match="main"):
        VirtualBus(make_world(), "left")


def test_the_same_seed_gives_the_same_times():
    def run(seed):
        world = make_world(ids=(1, 2, 3), seed=seed)
        bus = VirtualBus(world)
        for _ in range(50):
            for id_ in (1, 2, 3):
                bus.read(id_, 36, 8)
        return world.now()

    assert run(1) == run(1) != run(2)
