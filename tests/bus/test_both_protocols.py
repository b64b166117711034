import random
import time

import pytest

from axbridge.bus.protocols.known import SECOND
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import Instruction, XAddress
from axbridge.errors import BusError, BusTimeout, CorruptPacket, ServoFault, StatusError, UsageError
from tests.support.pty_line import PtyLine

FAST, SLOW = Instruction.FAST_SYNC_READ, Instruction.SYNC_READ


@pytest.fixture
def line():
    with PtyLine({1: "xl330-m288", 2: "xl430-w250", 3: "ax-12a", 4: "xl330-m288"}) as made:
        made[4]._known -= {FAST}
        yield made


@pytest.fixture
def bus(line):
    with SerialBus(line.port) as made:
        made.latency = 0.05  # a busy machine may keep the responder waiting
        made.protocols.update(dict.fromkeys((1, 2, 4), SECOND))
        yield made


def codes(line):
    return [code for id_, code, *_ in line.received if id_ == BROADCAST]


def test_register_values_that_look_like_a_header_are_transferred_unchanged(line, bus):
    line.set(1, operating_mode=4, goal_position=0x00FDFFFF - (1 << 24))
    assert bus.read(1, 116, 4).data == bytes.fromhex("fffffd ff")
    assert bus.write(1, 116, bytes.fromhex("fffffd00")).error == 4  # beyond the register's range
    assert bus.write(1, 116, bytes.fromhex("fffffdff")).error == 0
    assert bus.write(1, 108, bytes.fromhex("ff7f0000 fd000000")).error == 0
    assert bus.read(1, 108, 8).data == bytes.fromhex("ff7f0000 fd000000")


def test_eeprom_writes_are_counted_at_the_addresses_of_each_protocol(bus):
    bus.write(1, XAddress.HOMING_OFFSET, bytes(4))
    bus.write(3, 24, b"\0")
    bus.write(2, 65, b"\1")
    assert (bus.eeprom_writes, bus.rewritten) == (4, {1: {20, 21, 22, 23}})
    with pytest.raises(UsageError, match="two protocols"):
        bus.sync_write(30, {1: b"\0\0", 3: b"\0\0"})


def test_a_refused_write_gives_the_reason_and_an_alert_is_no_refusal(line, bus):
    line.set(1, torque_enable=1)
    reply = bus.write(1, XAddress.OPERATING_MODE, b"\4")
    assert StatusError(reply.error).describe() == "no such register, read only, or EEPROM while torque is on"
    line.mishap = lambda packet: "drop" if packet.code == Instruction.WRITE else "ok"
    with pytest.raises(ServoFault, match="holds 03 at address 11 after writing 04"):
        bus.write(1, XAddress.OPERATING_MODE, b"\4")
    line[1].overload(0.0)
    reply = bus.read(1, 132, 4)
    assert len(reply.data) == 4
    assert (StatusError(reply.error).alert, StatusError(reply.error).number) == (True, 0)


def test_servos_are_read_by_the_best_group_read_of_their_firmware(line, bus):
    for id_ in (1, 2, 4):
        line.set(id_, present_position=100 * id_)
    requests = [(1, 132, 4), (3, 36, 2), (2, 132, 4), (4, 132, 4)]
    for _ in range(2):
        answers = bus.read_many(requests)
        assert [int.from_bytes(answer.data, "little") for answer in answers] == [100, 501, 200, 400]
    assert bus.group_codes == {1: FAST, 2: FAST, 4: SLOW}
    group_reads = codes(line)
    assert group_reads.count(Instruction.FAST_SYNC_READ) == 1 + 1 + 2 + 2  # each once, 4 twice, then two exchanges
    line.received.clear()
    bus.group_codes[1] = bus.group_codes[2] = SLOW
    bus.read_many(requests)
    assert codes(line) == [Instruction.SYNC_READ]


@pytest.mark.parametrize("fast", [True, False])
def test_a_missing_servo_does_not_hide_the_others_in_a_group_read(line, bus, fast):
    bus.group_codes.update(dict.fromkeys((1, 2, 4), SLOW))
    if fast:
        line[4]._known |= {FAST}
        bus.group_codes.update(dict.fromkeys((1, 2, 4), FAST))
    bus.latency = 0.02
    line.deaf.add(2)
    first, missing, last = bus.read_many([(1, 132, 4), (2, 132, 4), (4, 132, 4)])
    assert len(first.data) == len(last.data) == 4
    assert isinstance(missing, BusTimeout)


def test_the_support_of_group_reads_stays_unknown_while_a_servo_does_not_answer(line, bus):
    bus.latency = 0.01
    line.deaf.add(1)
    bus.read_many([(1, 132, 4), (2, 132, 4)])
    assert bus.group_codes == {2: FAST}
    line.deaf.clear()
    bus.latency = 0.05
    bus.read_many([(1, 132, 4), (2, 132, 4)])
    assert bus.group_codes == {1: FAST, 2: FAST}


PROFILES = {1: "xl430-w250", 2: "xl430-w250", 3: "ax-12a", 5: "ax-12a", 7: "sts3215", 8: "sts3215"}
PAIRS = (3, 5), (1, 2), (1, 3), (7, 8)  # of Protocol 1.0, of 2.0, of both, of Feetech
PLACES = {1: (116, 4), 2: (116, 4), 3: (36, 2), 5: (36, 2), 7: (56, 2), 8: (56, 2)}


def set_position(line, id_, turn):
    """Set a servo's register at `PLACES` to `turn`."""
    line.set(id_, **{"goal_position" if id_ < 3 else "present_position": turn})


@pytest.mark.parametrize(
    ("ids", "echo"),
    [
        *((ids, False) for ids in PAIRS),
        *(pytest.param(ids, True, marks=() if ids == (1, 3) else pytest.mark.ci) for ids in PAIRS),
    ],
)
@pytest.mark.slow
def test_a_faulty_line_neither_returns_nor_writes_wrong_values(ids, echo):
    dice = random.Random(3)

    def mishap(_):
        kinds = ["ok", "drop", "corrupt", "junk", "insert", "short", "again", "late"]
        kind = dice.choices(kinds, [76, 5, 4, 2, 1, 2, 5, 5])[0]
        return dice.uniform(0.001, 0.02) if kind == "late" else kind

    with PtyLine({id_: PROFILES[id_] for id_ in ids}, echo=echo, mishap=mishap) as line, SerialBus(line.port) as bus:
        bus.latency = 0.004
        for id_ in ids:
            bus.set_protocol(id_, line[id_].protocol)
        bus.retries = 0
        intact = 0
        led = bus.protocol(ids[0]).torque_enable + 1  # the acceleration of Feetech's servos
        for turn in range(200):
            for id_ in ids:
                set_position(line, id_, turn)
            answers = bus.read_many([(id_, *PLACES[id_]) for id_ in ids])
            if turn % 3 == 0:
                try:
                    answers.append(bus.read(ids[0], *PLACES[ids[0]]))
                    bus.write(ids[0], led, bytes((turn % 2,)))
                    assert line[ids[0]].table.data[led] == turn % 2
                except (BusTimeout, CorruptPacket, ServoFault) as error:
                    answers.append(error)
            for answer in answers:
                if not isinstance(answer, BusError):
                    assert int.from_bytes(answer.data, "little") == turn
                    intact += 1
        assert intact > 300
        assert bus.stats.junk > 0


@pytest.mark.parametrize("id_", [3, 1, 7], ids=["1.0", "2.0", "Feetech"])
@pytest.mark.slow
def test_a_reply_delayed_until_the_next_read_never_answers_it(id_):
    fates = iter(["again", "ok", *["held", "ok", "held"] * 40])
    with PtyLine({id_: PROFILES[id_]}, mishap=lambda _: next(fates)) as line, SerialBus(line.port) as bus:
        bus.latency = 0.05
        bus.set_protocol(id_, line[id_].protocol)
        bus.read(id_, 0, 2)
        time.sleep(0.005)
        bus.read(id_, 0, 2)  # the duplicate is counted
        for turn in range(60):
            time.sleep(0.007)
            set_position(line, id_, turn)
            assert int.from_bytes(bus.read(id_, *PLACES[id_]).data, "little") == turn
        assert bus.stats.of(id_).late > 20


def test_a_broadcast_is_sent_while_a_shared_reply_may_come_late(line, bus):
    """The shared reply to a fast sync read has id 254, and no servo answers a PING to this id."""
    bus.latency = 0.005
    bus.group_codes.update(dict.fromkeys((1, 2), FAST))
    line.deaf |= {1, 2}
    assert all(isinstance(answer, BusTimeout) for answer in bus.read_many([(1, 132, 4), (2, 132, 4)]))
    assert bus.action() is None
    bus.ping(4)  # when it answers, the line has received all earlier packets
    assert Instruction.ACTION in codes(line)
