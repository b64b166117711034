"""A line on which servos of Protocol 1.0 and 2.0 listen."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.known import SECOND
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.config.registers import Instruction
from axbridge.virtual.framing import Framing
from tests.support.virtual_rig import Wire, make_world

PROFILES = {1: "ax-12a", 2: "ax-12a", 11: "xl430-w250", 12: "xl430-w250"}
OLD = [v1.encode(1, Instruction.PING), v1.encode(BROADCAST, Instruction.SYNC_WRITE, bytes((25, 1, 1, 1, 2, 1)))]
NEW = [
    v2.encode(11, Instruction.PING),
    v2.encode(BROADCAST, Instruction.SYNC_READ, SECOND.read_params(132, 4) + bytes((11, 12))),
    v2.encode(
        BROADCAST, Instruction.SYNC_WRITE, SECOND.sync_write_params(116, {11: b"\xff\xff\xff\xff", 12: b"\1\3\2\1"})
    ),
]


@pytest.fixture
def wire():
    return Wire(make_world(PROFILES, PROFILES, return_delay_time=0))


def test_each_servo_answers_its_own_protocol(wire):
    assert wire(v1.encode(1, Instruction.PING)) == v1.encode(1, 0)
    assert v2.Decoder().feed(wire(v2.encode(11, Instruction.PING)))[0].id == 11
    assert wire(v1.encode(11, Instruction.PING)) == wire(v2.encode(1, Instruction.PING)) == b""


def test_a_broadcast_ping_is_for_one_protocol(wire):
    heard = wire(v2.encode(BROADCAST, Instruction.PING))
    assert [packet.id for packet in v2.Decoder().feed(heard)] == [11, 12]
    assert len(wire(v1.encode(BROADCAST, Instruction.PING))) >= 6


def test_writes_to_several_take_turns(wire):
    servos = wire.world.servos
    wire(v1.encode(BROADCAST, Instruction.SYNC_WRITE, bytes((25, 1, 1, 1, 2, 1, 11, 1))))
    assert [servos[f"s{id_}"].table["led"] for id_ in PROFILES] == [1, 1, 0, 0]
    wire(v2.encode(BROADCAST, Instruction.SYNC_WRITE, SECOND.sync_write_params(65, {1: b"\0", 11: b"\1", 12: b"\1"})))
    assert [servos[f"s{id_}"].table["led"] for id_ in PROFILES] == [1, 1, 1, 1]


def test_an_old_servo_hears_the_packet_after_one_that_looks_like_headers(wire):
    wire(v2.encode(BROADCAST, Instruction.SYNC_WRITE, SECOND.sync_write_params(116, {11: b"\xff\xff\xff\xff"})))
    assert wire(v1.encode(1, Instruction.PING)) == v1.encode(1, 0)


@settings(deadline=None)
@given(order=st.lists(st.sampled_from(OLD + NEW), max_size=8), cuts=st.lists(st.integers(0, 200), max_size=6))
def test_packets_of_both_protocols_are_found_in_order_however_they_are_cut(order, cuts):
    stream, framing = b"".join(order), Framing((1, 2))
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    heard = [each for a, b in pairwise(places) for each in framing.feed(stream[a:b])]
    assert [(each.protocol, each.size) for each in heard] == [(1 if one in OLD else 2, len(one)) for one in order]
