"""Protocol 2.0 packets: published ones byte for byte, and dynamixel-sdk as the other side of a line made of bytes."""

import pytest
from dynamixel_sdk import COMM_SUCCESS, GroupBulkRead, GroupSyncRead, GroupSyncWrite
from dynamixel_sdk.protocol2_packet_handler import Protocol2PacketHandler
from hypothesis import given
from hypothesis import strategies as st

from axbridge.bus.protocols import v2
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.config.instructions import Instruction
from axbridge.errors import UsageError

IDS = st.integers(0, v2.MAX_ID)
LIKE_HEADERS = st.lists(st.sampled_from([b"\xff", b"\xfd", b"\xff\xff\xfd", b"\0", b"\x01"]), max_size=20).map(b"".join)
DATA = st.one_of(st.binary(max_size=40), LIKE_HEADERS)
CODES = st.sampled_from(list(Instruction))


class Wire:
    """What dynamixel-sdk takes for a port: it keeps what is written, and reads what a servo would answer."""

    def __init__(self, answer=b""):
        self.written, self._answer, self.is_using = b"", answer, False

    def clearPort(self):
        pass

    def getBaudRate(self):
        return 1_000_000

    def writePort(self, packet):
        self.written += bytes(packet)
        return len(packet)

    def readPort(self, count):
        taken, self._answer = self._answer[:count], self._answer[count:]
        return list(taken)

    def setPacketTimeout(self, count):
        pass

    setPacketTimeoutMillis = setPacketTimeout  # noqa: N815

    def isPacketTimeout(self):
        return not self._answer


@pytest.mark.parametrize(
    ("packet", "frame"),
    [  # e-manual, "Protocol 2.0"
        (v2.encode(1, Instruction.PING), "FF FF FD 00 01 03 00 01 19 4E"),
        (v2.encode_status(1, 0, bytes((6, 4, 38))), "FF FF FD 00 01 07 00 55 00 06 04 26 65 5D"),
        (
            v2.encode(BROADCAST, Instruction.SYNC_READ, v2.sync_read_params(132, 4, (1, 2))),
            "FF FF FD 00 FE 09 00 82 84 00 04 00 01 02 CE FA",
        ),
        (v2.encode(1, Instruction.CLEAR, b"\x01DXL\x22"), "FF FF FD 00 01 08 00 10 01 44 58 4C 22 B1 DC"),
    ],
    ids=["ping", "its answer", "sync read", "clear"],
)
def test_published_packets_are_built_byte_for_byte(packet, frame):
    assert packet == bytes.fromhex(frame)


@given(IDS, DATA.filter(lambda data: b"\xff\xff\xfd" not in data))  # dynamixel-sdk 4.1.0 forgets to stuff in Python
def test_a_write_is_what_dynamixel_sdk_sends(id_, data):
    wire = Wire()
    Protocol2PacketHandler().writeTxOnly(wire, id_, 116, len(data), data)
    assert v2.encode(id_, Instruction.WRITE, v2.write_params(116, data)) == wire.written


@given(IDS, st.integers(0, 127), st.binary(max_size=40))
def test_dynamixel_sdk_reads_a_status_packet_as_it_was_meant(id_, error, data):
    wire = Wire(v2.encode_status(id_, error, data))
    found, result, said = Protocol2PacketHandler().readRx(wire, id_, len(data))
    assert (bytes(found), result, said) == (data, COMM_SUCCESS, error)


@given(st.dictionaries(IDS, st.binary(min_size=4, max_size=4), min_size=1, max_size=6))
def test_groups_of_dynamixel_sdk_and_ours_are_the_same_bytes(data):
    wire, handler = Wire(), Protocol2PacketHandler()
    group = GroupSyncWrite(wire, handler, 116, 4)
    for id_, block in data.items():
        group.addParam(id_, block)
    group.txPacket()
    frame = v2.encode(BROADCAST, Instruction.SYNC_WRITE, v2.sync_write_params(116, data))
    assert frame == wire.written
    (packet,) = v2.Decoder().feed(frame)
    assert v2.sync_write_blocks(packet.params) == data

    wire = Wire()
    bulk = GroupBulkRead(wire, handler)
    for id_ in data:
        bulk.addParam(id_, 132, 4)
    bulk.txPacket()
    asked = [(id_, 132, 4) for id_ in data]
    (packet,) = v2.Decoder().feed(wire.written)
    assert v2.bulk_read_requests(packet.params) == asked


@given(st.dictionaries(IDS, st.binary(min_size=4, max_size=4), min_size=1, max_size=6))
def test_dynamixel_sdk_takes_the_answer_to_a_fast_read(data):
    answer = v2.encode_fast_status([v2.Block(id_, 0, block) for id_, block in data.items()])
    group = GroupSyncRead(Wire(answer), Protocol2PacketHandler(), 132, 4)
    for id_ in data:
        group.addParam(id_)
    assert group.fastSyncRead() == COMM_SUCCESS
    assert {id_: bytes(group.data_dict[id_]) for id_ in data} == data


@given(st.lists(st.tuples(IDS, st.integers(0, 255), st.binary(max_size=8)), min_size=1, max_size=6))
def test_blocks_of_a_fast_answer_come_back(parts):
    blocks = [v2.Block(*part) for part in parts]
    (packet,) = v2.Decoder().feed(v2.encode_fast_status(blocks))
    assert packet.intact
    assert v2.fast_blocks(packet, [len(block.data) for block in blocks]) == blocks


@given(st.lists(st.tuples(IDS, st.binary(min_size=4, max_size=4)), min_size=2, max_size=5), st.data())
def test_a_damaged_fast_answer_gives_the_servos_before_the_damage(parts, data):
    blocks = [v2.Block(id_, 0, block) for id_, block in parts]
    frame = bytearray(v2.encode_fast_status(blocks))
    place = data.draw(st.integers(8, len(frame) - 1))
    frame[place] ^= 1 << data.draw(st.integers(0, 7))
    (packet,) = v2.Decoder().feed(frame)
    assert not packet.intact
    assert v2.fast_blocks(packet, [4] * len(blocks)) == blocks[: (place - 8) // 8]


@given(IDS, CODES, DATA, st.lists(st.integers(1, 9), max_size=40))
def test_packets_come_back_however_they_are_cut(id_, code, params, cuts):
    stream = v2.encode(id_, code, params) + v2.encode_status(id_, 0x83, params)
    decoder, packets = v2.Decoder(), []
    for cut in cuts:
        packets += decoder.feed(stream[:cut])
        stream = stream[cut:]
    packets += decoder.feed(stream)
    assert packets == [Packet(id_, code, params), Packet(id_, 0x83, params, status=True)]
    assert decoder.pending == decoder.skipped == 0


@given(IDS, CODES, DATA, st.data())
def test_a_changed_bit_is_noticed(id_, code, params, data):
    frame = bytearray(v2.encode(id_, code, params))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert not any(packet.intact for packet in v2.Decoder().feed(frame))


@given(st.binary(max_size=60), IDS, CODES, DATA)
def test_whatever_was_on_the_line_before_a_later_packet_is_found(junk, id_, code, params):
    frame = v2.encode(id_, code, params)
    decoder = v2.Decoder()
    decoder.feed(junk)
    decoder.reset()
    assert decoder.feed(b"\xff\xfd" + frame) == [Packet(id_, code, params)]
    assert decoder.fed == len(junk) + 2 + len(frame)


def test_a_header_without_an_end_is_given_up_for_the_next_one():
    ping = v2.encode(1, Instruction.PING)
    for lost in (
        b"\xff\xff\xfd\x00\xff",
        b"\xff\xff\xfd\x00\x01\x02\x00",
        b"\xff\xff\xfd\x00\x01\xff\xff",
        b"\xff\xff",
    ):
        assert v2.Decoder().feed(lost + ping) == [Packet(1, Instruction.PING, b"")]


def test_a_packet_says_how_long_it_was_on_the_line():
    decoder = v2.Decoder()
    frame = v2.encode(1, Instruction.WRITE, v2.write_params(116, b"\xff\xff\xfd\x00"))
    decoder.feed(b"\x01\x02" + frame)
    assert decoder.sizes == [len(frame)]
    assert decoder.ends == [2 + len(frame)]


@pytest.mark.parametrize("id_", [-1, 253, 255])
def test_ids_that_no_servo_may_have_are_refused(id_):
    with pytest.raises(UsageError, match=r"neither 0\.\.252 nor 254"):
        v2.encode(id_, Instruction.PING)


def test_a_packet_longer_than_any_buffer_is_refused():
    with pytest.raises(UsageError, match="at most 1021"):
        v2.encode(1, Instruction.WRITE, bytes(1022))


def test_blocks_that_do_not_fit_are_none():
    assert v2.sync_write_blocks(b"\x74\0\4\0\1\2\3") == {}
    assert v2.bulk_read_requests(b"\1\2\3") == []
    assert v2.bulk_write_blocks(b"\1\x74\0\4\0abcd\2\x41\0\1\0") == [(1, 116, b"abcd")]
