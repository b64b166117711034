import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.known import PROTOCOLS, SECOND
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import FIRST
from axbridge.config.profile import FOLDER, FirmwareProfile
from axbridge.config.registers import Instruction
from axbridge.config.toml_tables import shipped_names
from axbridge.errors import UsageError

IDS = st.integers(0, v2.MAX_ID)
LIKE_HEADERS = st.lists(st.sampled_from([b"\xff", b"\xfd", b"\xff\xff\xfd", b"\0", b"\x01"]), max_size=20).map(b"".join)
DATA = st.one_of(st.binary(max_size=40), LIKE_HEADERS)
BOTH = pytest.mark.parametrize("protocol", [PROTOCOLS[1], PROTOCOLS[2]], ids=["1.0", "2.0"])
JUNK = st.binary(max_size=12).filter(lambda data: b"\xff" not in data)


def search(protocol, received, id_, length, *, echo=False, refusable=True):
    """Search for the reply to a READ."""
    return protocol.find_answer(
        received, protocol.read_frame(id_, 36, length), id_, length, echo=echo, refusable=refusable
    )


@pytest.mark.parametrize(
    ("packet", "frame"),
    [  # e-manual, "Protocol 2.0"; those of 1.0 are in tests/virtual
        (v2.encode(1, Instruction.PING), "FF FF FD 00 01 03 00 01 19 4E"),
        (v2.encode_status(1, 0, bytes((6, 4, 38))), "FF FF FD 00 01 07 00 55 00 06 04 26 65 5D"),
        (
            SECOND.group_question(Instruction.SYNC_READ, (1, 2), 132, 4)[0],
            "FF FF FD 00 FE 09 00 82 84 00 04 00 01 02 CE FA",
        ),
        (v2.encode(1, Instruction.CLEAR, b"\x01DXL\x22"), "FF FF FD 00 01 08 00 10 01 44 58 4C 22 B1 DC"),
    ],
    ids=["ping", "its answer", "sync read", "clear"],
)
def test_published_packets_are_built_byte_for_byte(packet, frame):
    assert packet == bytes.fromhex(frame)


@BOTH
@given(id_=IDS, data=st.binary(max_size=20), before=JUNK, after=JUNK)
def test_a_reply_is_found_between_junk(protocol, id_, data, before, after):
    raw = protocol.encode_status(id_, 0, data)
    result = search(protocol, before + raw + after, id_, len(data))
    if result.packet is None:  # the byte behind it may make it look like a longer, damaged packet
        assert v1.may_be_other(raw, after[:3])
    else:
        assert (result.packet.params, result.rest) == (data, before + after)


@BOTH
@given(id_=IDS, data=st.binary(max_size=20), late=st.binary(max_size=20))
def test_a_reply_is_found_before_any_other_packet(protocol, id_, data, late):
    behind = protocol.encode_status(id_, 0, late)
    result = search(protocol, protocol.encode_status(id_, 0, data) + behind, id_, len(data))
    assert (result.packet.params, result.rest) == (data, behind)


@BOTH
@given(id_=IDS, length=st.integers(1, 4), echo=st.booleans())
def test_an_echo_alone_is_no_reply(protocol, id_, length, echo):
    question = protocol.read_frame(id_, 36, length)
    assert search(protocol, question, id_, length, echo=echo).packet is None


@BOTH
def test_a_reply_needs_the_id_and_the_length_and_a_refusal_counts_only_if_none_may_come_late(protocol):
    for id_, params in ((2, b"\x01\x02"), (1, b"\x01\x02\x03"), (1, b"")):
        assert search(protocol, protocol.encode_status(id_, 0, params), 1, 2).packet is None
    refusal = protocol.encode_status(1, 4 if protocol.version == 2 else 8)
    assert search(protocol, refusal, 1, 2).packet
    assert not search(protocol, refusal, 1, 2, refusable=False).packet
    alarm = protocol.encode_status(1, v2.ALERT if protocol.version == 2 else 0x20)  # an alarm is no refusal
    assert not search(protocol, alarm, 1, 2).packet


@given(st.lists(st.tuples(IDS, st.binary(min_size=4, max_size=4)), min_size=1, max_size=5), st.data())
def test_a_damaged_fast_reply_gives_the_servos_before_the_damage(parts, data):
    blocks = [Packet(id_, 0, block) for id_, block in parts]
    frame = bytearray(v2.encode_fast_status(blocks))
    (packet,) = v2.Decoder().feed(frame)
    assert v2.fast_blocks(packet, [4] * len(blocks)) == blocks
    assert v2.fast_blocks(packet, [3]) == []  # a reply to another read
    place = data.draw(st.integers(8, len(frame) - 1))
    frame[place] ^= 1 << data.draw(st.integers(0, 7))
    (packet,) = v2.Decoder().feed(frame)
    assert not packet.intact
    assert v2.fast_blocks(packet, [4] * len(blocks)) == blocks[: (place - 8) // 8]


@given(st.binary(max_size=60), IDS, st.sampled_from(list(Instruction)), DATA, st.lists(st.integers(1, 9), max_size=40))
def test_packets_are_decoded_from_any_chunks_and_after_any_junk(junk, id_, code, params, cuts):
    frame = v2.encode(id_, code, params)
    stream = b"\xff\xfd" + frame + v2.encode_status(id_, 0x83, params)
    decoder, packets, sizes = v2.Decoder(), [], []
    decoder.feed(junk)
    decoder.reset()
    for cut in [*cuts, len(stream)]:
        packets += decoder.feed(stream[:cut])
        sizes += decoder.sizes
        stream = stream[cut:]
    assert packets == [Packet(id_, code, params), Packet(id_, 0x83, params, status=True)]
    assert (sizes[0], decoder.pending, decoder.skipped) == (len(frame), 0, len(junk) + 2)
    assert decoder.fed == decoder.skipped + sum(sizes)


def test_an_incomplete_packet_is_skipped_when_the_next_header_comes():
    for lost in ("ff ff fd 00 ff", "ff ff fd 00 01 02 00", "ff ff fd 00 01 ff ff", "ff ff"):
        received = bytes.fromhex(lost) + v2.encode(1, Instruction.PING)
        assert v2.Decoder().feed(received) == [Packet(1, Instruction.PING, b"")]


@pytest.mark.parametrize(("id_", "params"), [(-1, b""), (253, b""), (255, b""), (1, bytes(1022))])
def test_impossible_ids_and_packets_longer_than_any_buffer_are_refused(id_, params):
    with pytest.raises(UsageError, match=r"neither 0\.\.252 nor 254|at most 1021"):
        v2.encode(id_, Instruction.WRITE, params)


FULL = {3: b"\1\2", 250: b"\3\4", 7: b"\5\6"}


@pytest.mark.parametrize(
    ("protocol", "params", "blocks"),
    [
        (1, FIRST.sync_write_params(30, FULL).hex(), FULL),
        (2, SECOND.sync_write_params(30, FULL).hex(), FULL),
        (1, "1e 01 03 aa 03 bb", {3: b"\xaa"}),  # the first of two blocks for one id counts
        *((1, bad, {}) for bad in ("", "1e", "1e 00", "1e 02 03", "1e 02 03 aa", "1e 01 03 aa 04")),
        (2, "74 00 04 00 01 02 03", {}),
    ],
)
def test_blocks_of_a_sync_write_are_found_by_id_if_the_lengths_fit(protocol, params, blocks):
    packet = Packet(BROADCAST, Instruction.SYNC_WRITE, bytes.fromhex(params))
    assert PROTOCOLS[protocol].blocks(packet)[0][1] == blocks


def test_incomplete_blocks_of_bulk_packets_are_ignored():
    assert SECOND.reads(Packet(BROADCAST, Instruction.BULK_READ, b"\1\2\3")) == []
    packet = Packet(BROADCAST, Instruction.BULK_WRITE, b"\1\x74\0\4\0abcd\2\x41\0\1\0")
    assert SECOND.blocks(packet) == [(116, {1: b"abcd"})]


# -- registers of Feetech's servos


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("homing_offset", -1000, "E8 0B"),
        ("present_load", -1000, "E8 07"),
        ("goal_velocity", -2, "02 80"),
        ("present_position", -5, "05 80"),
    ],
)
def test_feetech_servos_encode_a_sign_bit_and_a_magnitude(name, value, data):
    assert FirmwareProfile.load("sts3215").register(name).encode(value) == bytes.fromhex(data)


# -- one byte lost, changed or added on the line

WORDS = {1: b"\xff\x07\0\0\0\0\x78\x1e", 2: b"\0\x08\xff\xff\0\0\x79\x1f", 3: b"\xff\xff\x04\x02\0\0\xff\0"}
ANSWERS = {"sync": WORDS, "checksum FF": {id_: bytes((0xF3 - id_, 0, 0, 0, 0, 0, 0, 1)) for id_ in WORDS}}


def damaged(received):
    """Yield these bytes with each byte removed, with each other one instead, and one added."""
    for place in range(len(received) + 1):
        yield received[:place] + received[place + 1 :]
        for stray in range(256):
            yield received[:place] + bytes((stray,)) + received[place:]
            yield received[:place] + bytes((stray,)) + received[place + 1 :]


@pytest.mark.parametrize("values", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("name", ["sts", 2, "fast"])
def test_a_damaged_group_reply_gives_no_wrong_value(name, values):
    protocol = SECOND if name == "fast" else PROTOCOLS[name]
    code = Instruction.FAST_SYNC_READ if name == "fast" else Instruction.SYNC_READ
    whole = {id_: (0, data) for id_, data in values.items()}
    received = (
        v2.encode_fast_status([Packet(id_, 0, data) for id_, data in values.items()])
        if name == "fast"
        else b"".join(protocol.encode_status(id_, 0, data) for id_, data in values.items())
    )
    assert protocol.group_answers(code, received, list(values), 8) == whole
    for got in damaged(received):
        assert protocol.group_answers(code, got, list(values), 8).items() <= whole.items(), got.hex(" ")


@pytest.mark.parametrize("values", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("name", [1, 2, "sts", "scs"])
def test_a_damaged_reply_gives_no_wrong_value_alone_or_before_another_reply(name, values):
    protocol = PROTOCOLS[name]
    question = protocol.read_frame(1, 36, 8)
    for id_, data in values.items():
        answer = protocol.encode_status(id_, 0, data)
        for behind in (b"", answer, protocol.encode_status(4, 0, b"")):
            for got in damaged(answer):
                result = protocol.find_answer(got + behind, question, id_, 8, echo=False, refusable=True).packet
                assert result is None or result.params == data, (got + behind).hex(" ")


# -- receive buffers


@pytest.mark.parametrize("name", shipped_names(FOLDER))
def test_no_packet_for_many_servos_is_longer_than_the_receive_buffer_of_a_profile(name):
    assert (FIRST.sync_write_room(4), SECOND.sync_write_room(8) >= 15) == (27, True)  # goals
    profile = FirmwareProfile.load(name)
    protocol = PROTOCOLS[profile.protocol]
    for size in (1, 2, 4, 8):
        ids = range(1, 1 + min(protocol.sync_write_room(size), 250))
        data = dict.fromkeys(ids, b"\xff\xff\xfd\xff\xff\xfd\xff\xff"[:size])
        frame = protocol.encode(BROADCAST, Instruction.SYNC_WRITE, protocol.sync_write_params(104, data))
        assert len(frame) <= profile.timing.rx_buffer


# -- torque off


def test_a_torque_off_is_broadcast_only_if_all_models_have_torque_enable_at_the_same_address():
    assert FIRST.limp_frame([1, 2]) == FIRST.limp_frame() == FIRST.write_frame(BROADCAST, 24, b"\0")
    assert SECOND.limp_frame() == SECOND.write_frame(BROADCAST, 64, b"\0")
    (packet,) = v2.Decoder().feed(SECOND.limp_frame([1, 2]))
    assert SECOND.blocks(packet) == [(64, {1: b"\0", 2: b"\0"})]
