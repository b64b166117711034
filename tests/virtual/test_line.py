from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.known import SECOND
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.protocols.v1 import Decoder, encode, whole_packet
from axbridge.config.registers import Instruction
from axbridge.virtual.collision import Transmission, overlay
from axbridge.virtual.framing import Framing
from axbridge.virtual.world import World
from tests.support.virtual_rig import FakeBank, Wire, make_rig, make_world

PING_1 = encode(1, 1)
PONG_1 = encode(1, 0)


@pytest.mark.parametrize(("baud", "register"), [(1_000_000, 1), (500_000, 3), (57_600, 34), (9_600, 207)])
def test_a_byte_takes_ten_bit_times(baud, register):
    world = World(make_rig((1,), return_delay_time=0).with_buses(baud=baud), bank=FakeBank())
    (reply,) = Wire(world).deliveries(PING_1)
    servo_baud = 2e6 / (register + 1)
    earliest = 60 / baud + 18e-6 + 60 / servo_baud
    assert earliest - 1e-9 <= reply.due <= earliest + 0.3e-3
    assert reply.data == PONG_1


@pytest.mark.parametrize(("off", "received"), [(1.02, True), (0.98, True), (1.05, False), (0.5, False)])
def test_a_servo_receives_at_a_baud_rate_within_three_percent(off, received):
    world = make_world()
    world.lines["main"].baud = 1_000_000 * off
    assert bool(Wire(world)(PING_1)) is received


def test_some_replies_wait_for_the_control_loop():
    world = make_world(return_delay_time=0)
    wire, delays = Wire(world, patience=0.00137), []
    for _ in range(400):
        start = world.now()
        (reply,) = wire.deliveries(PING_1)
        delays.append(reply.due - start - 120e-6)
    prompt = sum(delay < 20e-6 for delay in delays) / len(delays)
    assert min(delays) == pytest.approx(18e-6)
    assert 0.65 < prompt < 0.9  # three quarters, as measured on an AX-12
    assert max(delays) < 300e-6


def test_a_pause_inside_a_packet_discards_it():
    world = make_world()
    line = world.lines["main"]
    line.send(PING_1[:4], 0.0)
    line.send(PING_1[4:], 0.11)
    assert not line.collect(0.2)
    line.send(PING_1[:4], 0.3)
    line.send(PING_1[4:], 0.39)
    world.sleep_until(0.5)
    assert [delivery.data for delivery in line.collect(0.5)] == [PONG_1]


@pytest.mark.parametrize("before", [b"\0\x12\xff\xff", encode(9, 0, b"\x20\1")], ids=["junk", "the answer of another"])
def test_bytes_before_a_packet_are_skipped(before):
    assert Wire(make_world(ids=(1, 2)))(before + PING_1) == PONG_1


@pytest.mark.parametrize(("servos", "size", "led"), [(67, 142, 1), (68, 144, 0)])
def test_a_packet_longer_than_the_servos_buffer_is_ignored(servos, size, led):
    wire = Wire(make_world(ids=(1,)))
    packet = encode(BROADCAST, 0x83, b"\x19\x01" + b"".join(bytes((id_, 1)) for id_ in range(1, servos + 1)))
    assert len(packet) == size
    assert not wire(packet)
    assert wire.world.servos["s1"].table["led"] == led


def test_a_packet_sent_during_a_reply_damages_both():
    world = make_world(return_delay_time=0)
    line = world.lines["main"]
    line.send(PING_1, 0.0)
    line.collect(60e-6)
    line.send(PING_1, 100e-6)  # the reply began at about 78 µs
    world.sleep_until(0.01)
    assert not line.collect(0.01)
    line.send(PING_1, 0.01)
    assert [delivery.data for delivery in (line.collect(0.02))] == [PONG_1]


def test_broadcast_ping_of_equal_delays_is_the_wired_and():
    world = make_world(ids=(1, 2), return_delay_time=0)
    for interrupts in world.lines["main"]._interrupts.values():
        interrupts._length = 0.0
    received = Wire(world)(encode(BROADCAST, 1))
    assert received == bytes(a & b for a, b in zip(encode(1, 0), encode(2, 0), strict=True))


def test_broadcast_ping_of_different_delays_gets_through():
    world = make_world(ids=(1, 2))
    world.servos["s2"].table["return_delay_time"] = 0
    world.servos["s2"].configure()
    received = Wire(world)(encode(BROADCAST, 1))
    assert [packet.id for packet in Decoder().feed(received)] == [2, 1]


@pytest.mark.parametrize(("profile", "place", "middle"), [("ax-12a", 0x24, 512), ("sts3215", 0x38, 2048)])
def test_replies_of_two_servos_with_one_id_are_damaged_where_they_differ(profile, place, middle):
    world = make_world((1, 2), profile, return_delay_time=0)
    world.inject("collision:1")
    world.sleep_until(0.05)
    world.lines["main"].servos[-1].firmware.stuck = 100
    replies = {Wire(world)(encode(1, 2, bytes((place, 2)))) for _ in range(50)}
    assert any(len(reply) == 8 and int.from_bytes(reply[5:7], "little") not in {middle, 100} for reply in replies)


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=4))
def test_frames_apart_arrive_untouched(frames):
    start, sent = 0.0, []
    for data in frames:
        sent.append(Transmission(start, data, 1e6))
        start = sent[-1].end + 1e-6
    assert overlay(sent, 1e6) == sent


@given(st.integers(0, 254), st.integers(0, 255), st.binary(max_size=40), st.integers(0, 3))
def test_a_whole_packet_is_what_the_decoder_makes_of_it(id_, code, params, flip):
    frame = bytearray(encode(id_, code, params))
    frame[-1] ^= flip
    assert [whole_packet(bytes(frame))] == Decoder().feed(frame)
    assert whole_packet(bytes(frame) + b"\0") is None


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=120))
@pytest.mark.slow
def test_after_any_junk_and_a_pause_the_next_packet_is_answered(junk):
    wire = Wire(make_world(ids=(200,), timing="none"))
    wire(junk)
    wire.wait(0.2)
    servo = wire.world.servos["s200"]
    assert wire(encode(servo.id, 1))[-6:] == encode(servo.id, servo.alarms.bits)


PROFILES = {1: "ax-12a", 2: "ax-12a", 11: "xl430-w250", 12: "xl430-w250"}
OLD = [v1.encode(1, Instruction.PING), v1.encode(BROADCAST, Instruction.SYNC_WRITE, bytes((25, 1, 1, 1, 2, 1)))]
NEW = [
    v2.encode(11, Instruction.PING),
    v2.encode(BROADCAST, Instruction.SYNC_READ, SECOND.read_params(132, 4) + bytes((11, 12))),
    v2.encode(
        BROADCAST, Instruction.SYNC_WRITE, SECOND.sync_write_params(116, {11: b"\xff\xff\xff\xff", 12: b"\1\3\2\1"})
    ),
]


def test_each_servo_of_a_line_with_both_protocols_receives_its_own():
    wire = Wire(make_world(PROFILES, PROFILES, return_delay_time=0))
    assert wire(v1.encode(1, Instruction.PING)) == v1.encode(1, 0)
    assert v2.Decoder().feed(wire(v2.encode(11, Instruction.PING)))[0].id == 11
    assert wire(v1.encode(11, Instruction.PING)) == wire(v2.encode(1, Instruction.PING)) == b""
    received = wire(v2.encode(BROADCAST, Instruction.PING))
    assert [packet.id for packet in v2.Decoder().feed(received)] == [11, 12]
    assert len(wire(v1.encode(BROADCAST, Instruction.PING))) >= 6
    tables = [servo.table for servo in wire.world.servos.values()]
    wire(v1.encode(BROADCAST, Instruction.SYNC_WRITE, bytes((25, 1, 1, 1, 2, 1, 11, 1))))
    assert [table["led"] for table in tables] == [1, 1, 0, 0]
    wire(v2.encode(BROADCAST, Instruction.SYNC_WRITE, SECOND.sync_write_params(65, {1: b"\0", 11: b"\1", 12: b"\1"})))
    assert [table["led"] for table in tables] == [1, 1, 1, 1]
    wire(v2.encode(BROADCAST, Instruction.SYNC_WRITE, SECOND.sync_write_params(116, {11: b"\xff\xff\xff\xff"})))
    assert wire(v1.encode(1, Instruction.PING)) == v1.encode(1, 0)  # after a packet with header bytes


@settings(deadline=None)
@given(order=st.lists(st.sampled_from(OLD + NEW), max_size=8), cuts=st.lists(st.integers(0, 200), max_size=6))
def test_packets_of_both_protocols_are_found_in_order_in_chunks_of_any_size(order, cuts):
    stream, framing = b"".join(order), Framing((1, 2))
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    received = [each for a, b in pairwise(places) for each in framing.feed(stream[a:b])]
    assert [(got.protocol, got.size) for got in received] == [(1 if sent in OLD else 2, len(sent)) for sent in order]
