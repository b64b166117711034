import numpy as np
import pytest

from axbridge.bus.protocols import v2
from axbridge.bus.protocols.known import SECOND
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.v1 import encode
from axbridge.config.registers import Instruction
from tests.support.virtual_rig import Host, Wire, make_world

OK_0, OK_1, PING_0, PING_1 = "FF FF 00 02 00 FD", "FF FF 01 02 00 FC", "FF FF 00 02 01 FC", "FF FF 01 02 01 FB"
GOLDEN = {  # by profile, id: instruction and status packets, by topic
    ("ax-12a", 1): {
        "ping": [(PING_1, OK_1)],
        "temperature": [("FF FF 01 04 02 2B 01 CC", "FF FF 01 03 00 1E DD")],
        "a new id counts after the answer": [("FF FF 01 04 03 03 00 F4", OK_1), (PING_1, ""), (PING_0, OK_0)],
        "action without a registered instruction": [("FF FF 01 02 05 F7", "FF FF 01 02 40 BC")],
        "a registered goal, and an action for all": [("FF FF 01 05 04 1E F4 01 E2", OK_1), ("FF FF FE 02 05 FA", "")],
        "no reboot": [("FF FF 01 02 08 F4", "FF FF 01 02 40 BC")],
        "no bulk read": [("FF FF FE 09 92 00 02 01 1E 02 02 24 1D", "")],
        "unknown instruction": [("FF FF 01 02 7F 7D", "FF FF 01 02 40 BC"), ("FF FF FE 02 7F 80", "")],
        "bad checksum for the own id": [("FF FF 01 02 01 00", "FF FF 01 02 10 EC")],
        "bad checksum for all or another": [("FF FF FE 02 01 00", ""), ("FF FF 02 02 01 00", "")],
        "too few parameters": [(encode(1, code, b"\x1e").hex(), "FF FF 01 02 40 BC") for code in (2, 3, 4)],
        "a read past the table has no data": [(encode(1, 2, b"\x31\x02").hex(), encode(1, 8).hex())],
        "a question before the answer": [((encode(1, 2, b"\0\x32") + encode(1, 1)).hex(), ""), (PING_1, OK_1)],
        "several registers in one write": [
            (encode(1, 3, b"\x1e\xf4\x01\xff\x03").hex(), OK_1),
            (encode(1, 2, b"\x1e\x04").hex(), encode(1, 0, b"\xf4\x01\xff\x03").hex()),
        ],
    },
    ("ax-12a", 5): {"a broadcast ping is answered with the own id": [("FF FF FE 02 01 FE", "FF FF 05 02 00 F8")]},
    ("ax-12a", 7): {"an id by broadcast is taken in silence": [("FF FF FE 04 03 03 01 F6", ""), (PING_1, OK_1)]},
    ("ax-12a", 0): {
        "set baud 1": [("FF FF 00 04 03 04 01 F3", OK_0)],
        "another baud": [(encode(0, 3, b"\x04\x03").hex(), OK_0), (PING_0, "")],
        "a factory reset answers with the old id": [("FF FF 00 02 06 F7", OK_0), (PING_1, OK_1)],
        "status return level 0 is acknowledged, then silent": [
            ("FF FF 00 04 03 10 00 E8", OK_0),
            ("FF FF 00 04 02 2B 01 CD", ""),
            ("FF FF 00 04 03 19 01 DE", ""),
            (PING_0, OK_0),
        ],
    },
    ("ax-12", 0): {
        "voltage limits": [("FF FF 00 05 03 0C 64 AA DD", OK_0)],
        "punch while locked": [("FF FF 00 04 03 2F 01 C8", OK_0), ("FF FF 00 05 03 30 40 00 87", "FF FF 00 02 08 F5")],
    },
    ("mx-28", 1): {"reboot": [("FF FF 01 02 08 F4", OK_1)]},
    ("xl330-m288", 1): {
        "ping tells model and firmware": [("FF FF FD 00 01 03 00 01 19 4E", v2.encode_status(1, 0, b"\xb0\x04\x34").hex())],
        "a damaged packet": [("FF FF FD 00 01 03 00 01 19 4F", v2.encode_status(1, 3).hex())],
        "more than a packet holds": [(v2.encode(254, 0x8A, SECOND.read_params(132, 65535) + b"\1").hex(), "")],
        "unknown instruction": [(v2.encode(1, 0x77).hex(), v2.encode_status(1, 2).hex())],
        "no register": [(v2.encode(1, 2, SECOND.read_params(14, 2)).hex(), v2.encode_status(1, 7).hex())],
        "past the table": [(v2.encode(1, 2, SECOND.read_params(220, 20)).hex(), v2.encode_status(1, 7).hex())],
        "gaps between registers read 0": [
            (v2.encode(1, 2, SECOND.read_params(64, 5)).hex(), v2.encode_status(1, 0, b"\0\0\0\0\2").hex())
        ],
    },
    ("sts3215", 1): {
        "ping": [(PING_1, OK_1)],
        "model 777": [("FF FF 01 04 02 03 02 F3", "FF FF 01 04 00 09 03 EE")],
        "position 2048": [("FF FF 01 04 02 38 02 BE", "FF FF 01 04 00 00 08 F2")],
        "goal 1000": [("FF FF 01 05 03 2A E8 03 E1", OK_1)],
        "silence": [("FF FF 01 02 7F 7D", ""), ("FF FF 01 02 01 00", "")],
        "more than a packet holds": [(encode(1, 2, b"\0\xff").hex(), OK_1)],
    },
    ("scs0009", 1): {
        "words are big-endian: model 1284": [("FF FF 01 04 02 03 02 F3", "FF FF 01 04 00 05 04 F1")],
        "position 512": [("FF FF 01 04 02 38 02 BE", "FF FF 01 04 00 02 00 F8")],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("profile", "id_", "exchanges"),
    [
        pytest.param(*servo, packets, id=f"{servo[0]}, {name}")
        for servo, all_ in GOLDEN.items()
        for name, packets in all_.items()
    ],
)
def test_golden_packets(profile, id_, exchanges):
    wire = Wire(make_world((id_,), profile), patience=0.03)
    for request, reply in exchanges:
        wire.expect(request, reply)
        wire.wait(0.2)


@pytest.mark.parametrize(
    ("profile", "level", "reads", "writes"),
    [
        *(("ax-12a", 0, False, False), ("ax-12a", 1, True, False)),
        *(("xl330-m288", 0, False, False), ("xl330-m288", 1, True, False), ("xl330-m288", 2, True, True)),
        *(("sts3215", 0, True, False), ("sts3215", 1, True, True)),
    ],
)
def test_status_return_level_sets_which_instructions_are_answered(profile, level, reads, writes):
    host = Host(make_world(profile=profile, return_delay_time=0))
    host.write("status_return_level", level)
    assert host.ask(Instruction.PING)
    at = host.servo.profile.registers["torque_enable"]
    assert (host.write("torque_enable", 1) is not None) is writes
    assert bool(host.ask(Instruction.READ, host.servo.protocol.read_params(at.address, 1))) is reads
    assert host.servo.table["torque_enable"] == 1


# -- several servos ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "ids", "code", "params", "answers"),
    [
        ("mx-28", (1, 2), Instruction.BULK_READ, "00 02 02 24 01 01 2b", {2: "0008", 1: "1e"}),
        ("mx-28", (1, 2), Instruction.BULK_READ, "00 02 09 24 02 01 24", {}),  # 1 waits for 9
        ("xl330-m288", (1, 2, 3), Instruction.SYNC_READ, "8400 0400 03 01", {3: "00080000", 1: "00080000"}),
        ("xl330-m288", (1, 2), Instruction.SYNC_READ, "8400 0400 01 09 02", {1: "00080000"}),
        ("xl330-m288", (1, 2), Instruction.BULK_READ, "02 0700 0100 01 9000 0200", {2: "02", 1: "3200"}),
        ("sts3215", (1, 2, 3), 0x82, "38 02 03 01", {3: "0008", 1: "0008"}),
        ("scs0009", (1, 2), 0x82, "38 02 01 02", {}),
        ("sts3215", (2, 1, 9), Instruction.PING, "", {1: "", 2: "", 9: ""}),
        ("sts3250", (2, 1, 9), Instruction.PING, "", {1: "", 2: "", 9: ""}),
        ("scs0009", (2, 1, 9), Instruction.PING, "", {}),
    ],
)
@pytest.mark.parametrize("timing", ["wire", "none"])
def test_a_group_read_is_answered_in_its_order_until_a_servo_is_missing(profile, ids, code, params, answers, timing):
    host = Host(make_world(ids, profile, timing, return_delay_time=0), ids[0])
    received = [packet for packet in host.ask(code, bytes.fromhex(params), BROADCAST) if packet.intact]
    assert [(packet.id, packet.params) for packet in received] == [
        (id_, bytes.fromhex(a)) for id_, a in answers.items()
    ]


def test_a_broadcast_ping_of_protocol_2_is_answered_by_id_with_gaps():
    world = make_world((7, 2, 4), "xl330-m288", return_delay_time=0)
    line = world.lines["main"]
    line.send(v2.encode(BROADCAST, Instruction.PING), world.now())
    sent_at = line.host_free
    world.sleep_until(sent_at + 0.1)
    answers = line.collect(sent_at + 0.1)
    assert [v2.Decoder().feed(answer.data)[0].id for answer in answers] == [2, 4, 7]
    byte = line.seconds(1)
    gaps = np.diff([sent_at, *(answer.due for answer in answers)]) - 14 * byte - 50e-6
    assert gaps == pytest.approx([2 * 3 * byte, 3 * byte, 2 * 3 * byte])


@pytest.mark.parametrize("timing", ["wire", "none"])
def test_a_fast_read_is_one_packet_that_ends_at_a_missing_servo(timing):
    host = Host(make_world((1, 2, 3), "xl330-m288", timing, return_delay_time=0))
    (answer,) = host.ask(Instruction.FAST_SYNC_READ, SECOND.read_params(132, 4) + bytes((3, 1)), id=BROADCAST)
    assert v2.fast_blocks(answer, [4, 4]) == [Packet(3, 0, b"\0\x08\0\0"), Packet(1, 0, b"\0\x08\0\0")]
    (answer,) = host.ask(Instruction.FAST_BULK_READ, bytes.fromhex("0207000100 0190000200"), id=BROADCAST)
    assert v2.fast_blocks(answer, [1, 2]) == [Packet(2, 0, b"\2"), Packet(1, 0, b"\x32\0")]
    received = host.wire(
        v2.encode(BROADCAST, Instruction.FAST_SYNC_READ, SECOND.read_params(132, 4) + bytes((1, 9, 2)))
    )
    whole = v2.encode_fast_status([Packet(id_, 0, b"\0\x08\0\0") for id_ in (1, 9, 2)])
    assert received == whole[: 8 + 8]
    host.world.inject("drop#1:read:2")  # the reply has the id of all
    asked = SECOND.read_params(132, 4) + bytes((1, 2))
    assert host.ask(Instruction.FAST_SYNC_READ, asked, id=BROADCAST) == []
