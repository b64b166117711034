import os
import select
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest

from axbridge.bus.handshake import Expected, handshake, require
from axbridge.bus.port_name import busy_file
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import LATE_WINDOW, SerialBus
from axbridge.config.profile import FOLDER, FirmwareProfile
from axbridge.config.registers import Instruction
from axbridge.config.toml_tables import shipped_names
from axbridge.errors import BusTimeout, CorruptPacket, PortError
from tests.support.pty_line import PtyLine
from tests.support.waiting import until


def test_an_echo_that_starts_after_open_is_detected(line, bus):
    assert not bus.echo
    line.echo = True
    (reply,) = bus.read_many([(1, 36, 2)])
    assert int.from_bytes(reply.data, "little") == 501


@pytest.mark.parametrize(
    ("late", "address"),
    [
        (0.22, 30),
        (0.22, 36),
        ((0.22, 16), 36),
    ],  # s: midway between the wait for a reply and the last moment of a late one
    ids=["another register", "the same one", "a refusal"],
)
def test_a_late_reply_never_answers_the_next_read(line, bus, late, address):
    bus.latency = 0.1
    fates = iter([late])
    line.mishap = lambda _: next(fates, 0.005)  # s: a read is waiting when the late reply comes
    (lost,) = bus.read_many([(1, 36, 2)])
    assert isinstance(lost, BusTimeout)
    line.tables[1][address : address + 2] = (777).to_bytes(2, "little")  # changed after the late reply was sent
    reads = 0
    while not bus.stats.of(1).late:
        reads += 1
        assert reads < 5000
        (reply,) = bus.read_many([(1, address, 2)])
        assert int.from_bytes(reply.data, "little") == 777


@pytest.mark.parametrize(
    ("profile", "address", "data", "extra"),
    [("ax-12a", 25, b"\1", 1), ("ax-12a", 26, b"\1", 1), ("sts3215", 44, b"\6\1", 2), ("sts3215", 46, b"\7\2", 2)],
)  # `extra`: how much a bit error adds to the length of the packet
def test_a_write_of_damaged_length_changes_no_other_register_when_it_is_repeated(profile, address, data, extra):
    with PtyLine({1: profile}) as line, SerialBus(line.port) as bus:
        bus.set_protocol(1, PROTOCOLS[FirmwareProfile.load(profile).protocol])
        damaged = iter([extra])
        record = line._script.damage

        def damage(frame):
            record(frame)
            return frame[:3] + bytes((frame[3] + next(damaged, 0),)) + frame[4:] if frame[4:5] == b"\3" else frame

        line._script.damage = damage
        beyond = address + len(data)
        before = bus.read(1, beyond, 2).data
        bus.write(1, address, data)
        assert next(damaged, None) is None
        assert (bus.read(1, address, len(data)).data, bus.read(1, beyond, 2).data) == (data, before)


@pytest.mark.parametrize(("pause", "lost"), [(1.2 * LATE_WINDOW, 1), (0.0, 3)], ids=["seldom", "often"])
def test_a_line_that_stalls_for_longer_than_any_time_out_returns_no_old_reply(line, bus, pause, lost):
    bus.retries = 0
    bus.latency = 0.003
    end = time.monotonic() + 4 * LATE_WINDOW  # then all delayed replies come, in order
    line.mishap = lambda _: max(end - time.monotonic(), 0.0)
    reads = answered = 0
    while answered < 50:
        reads += 1
        assert reads < 5000
        line.tables[1][36:38] = (reads % 1024).to_bytes(2, "little")
        try:
            reply = bus.read(1, 36, 8)
        except (BusTimeout, CorruptPacket):
            time.sleep(pause)
            continue
        answered += 1
        assert int.from_bytes(reply.data[:2], "little") == reads % 1024
    assert reads > 50 + lost


@pytest.mark.parametrize("addresses", [[36], [30, 32, 36]], ids=["one register", "three registers by turns"])
def test_a_reply_delivered_twice_never_answers_a_read_that_waits(line, bus, addresses, monkeypatch):
    monkeypatch.setattr("axbridge.bus.serial.DUPLICATE_REPLY_WINDOW", 60.0)  # s: longer than a busy machine needs
    bus.latency = 0.1
    line.mishap = lambda _: "earlier"
    for turn in range(12):  # 24 reads of servo 1: as many as there are lengths
        reads = [(id_, addresses[(turn + id_) % len(addresses)], 2) for id_ in (1, 1, 2)]
        for id_ in (1, 2):
            for place, address in enumerate((30, 36, 32)):
                line.tables[id_][address : address + 2] = (turn * 8 + place * 2 + id_).to_bytes(2, "little")
        for (id_, address, _), answer in zip(reads, bus.read_many(reads), strict=True):
            assert int.from_bytes(answer.data, "little") == turn * 8 + (30, 36, 32).index(address) * 2 + id_
    assert bus.stats.of(1).late > 12


def test_a_servo_that_is_read_rarely_gets_no_longer_reads_than_requested(line, bus, monkeypatch):
    monkeypatch.setattr("axbridge.bus.serial.DUPLICATE_REPLY_WINDOW", 0.0)
    for _ in range(3):
        bus.read(1, 36, 8)
    assert {(code, params) for _, code, params, _ in line.received[-3:]} == {(2, bytes((36, 8)))}


@pytest.mark.parametrize("fate", ["again", 0.035])  # s: the acknowledgement comes while the next write waits
def test_a_late_or_repeated_acknowledgement_never_confirms_another_write(line, bus, fate):
    fates = iter([fate, *["drop"] * 3]) if fate != "again" else repeat("again")
    line.mishap = lambda packet: next(fates, "ok") if packet.code == Instruction.WRITE else "ok"
    bus.write(1, 25, b"\x01")
    waiting = select.poll()
    waiting.register(bus.port.fd, select.POLLIN)
    assert fate != "again" or bus.stats.of(1).late or waiting.poll(2000)
    line.deaf.add(1)
    with pytest.raises(BusTimeout):
        bus.write(1, 25, b"\x00")


def test_a_whole_table_is_read_again_after_a_loss_without_reading_past_its_end(line, bus):
    bus.latency = 0.05
    fates = iter(["drop"])
    line.mishap = lambda _: next(fates, "ok")
    lost, reply = bus.read_many([(1, 0, 50)] * 2)
    assert isinstance(lost, BusTimeout)
    assert reply.data == bytes(line.tables[1])
    line.mishap = lambda _: "again"
    for position in range(300, 320):  # a duplicate is not returned either
        line.tables[1][36:38] = position.to_bytes(2, "little")
        assert int.from_bytes(bus.read(1, 0, 50).data[36:38], "little") == position


def test_a_write_waits_longer_each_time_as_a_read_does(line, bus):
    bus.latency = 0.02
    line.mishap = lambda _: 0.06  # s
    assert bus.write(1, 25, b"\x01").error == 0
    assert line.tables[1][25] == 1
    assert bus.read(1, 25, 1).data == b"\x01"


def test_a_request_that_arrives_damaged_is_repeated(line, bus):
    refusals = iter([16])
    line.mishap = lambda _: next(refusals, "ok")
    assert bus.read(1, 36, 2).data == bytes(line.tables[1][36:38])
    refusals = iter([16] * 3)
    with pytest.raises(CorruptPacket):
        bus.read(1, 36, 2)


def test_waiting_for_a_reply_uses_no_processor_time(bus):
    bus.latency = 0.4
    started, used = time.monotonic(), time.thread_time()
    bus.read_many([(9, 36, 8)])
    assert time.monotonic() - started > 0.4
    assert time.thread_time() - used < 0.1  # a polling implementation uses 91 to 96 % of a core


def test_a_sync_write_returns_the_time_at_which_the_servos_have_it(line, bus):
    """The driver accepts the bytes immediately; their transfer on the line takes another millisecond."""
    started = bus.clock.now()
    arrived = bus.sync_write(30, dict.fromkeys(range(1, 19), b"\1\0\2\0"))
    assert arrived - started > (8 + 18 * 5) * 10 / bus.baud
    bus.ping(1)  # directly behind the SYNC_WRITE
    assert line.tables[2][30:34] == b"\1\0\2\0"


def test_a_closed_bus_is_not_opened_again_by_a_change_of_the_baud_rate(bus):
    bus.close()
    for call in (lambda: bus.set_baud(500_000), lambda: bus.ping(1), lambda: bus.sync_write(25, {1: b"\1"})):
        with pytest.raises(PortError, match="closed"):
            call()
    assert bus.closed


def test_an_interrupt_ends_the_wait_for_a_reply(line, bus):
    bus.latency = 20.0
    line.deaf.add(2)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            bus.read_many([(1, 36, 8), (2, 36, 8), (3, 36, 8)])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 10  # s, not the latency of 20 s


@pytest.mark.parametrize("echo", [False, True], ids=["as its bytes go out", "while its echo is waited for"])
def test_the_reply_to_an_interrupted_read_does_not_answer_the_next_read(line, monkeypatch, echo):
    line.echo = echo
    fates = [0.03, 0.03]  # s: the old reply comes first
    with SerialBus(line.port) as bus:
        bus.latency = 0.1
        bus.read(1, 36, 8)
        time.sleep(0.01)
        line.mishap = lambda packet: fates.pop(0) if fates and packet.code == Instruction.READ else "ok"
        write = os.write

        def interrupted(fd, data):
            count = write(fd, data)
            if fd == bus.port.fd:
                raise KeyboardInterrupt
            return count

        def waiting(_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(*((bus.port, "receive", waiting) if echo else (os, "write", interrupted)))
            with pytest.raises(KeyboardInterrupt):
                bus.read_many([(1, 36, 8)])
        time.sleep(0.002)
        line.tables[1][36:38] = (600).to_bytes(2, "little")
        assert int.from_bytes(bus.read(1, 36, 8).data[:2], "little") == 600


def test_each_time_out_reports_a_virtual_bus_that_was_too_busy(bus):
    servo = Expected("", 9, FirmwareProfile.load("ax-12a"))
    bus.retries = 0
    before = bus.read_many([(9, 0, 3)])
    try:
        busy_file(os.getpid()).write_text(f"3 {time.monotonic()}", encoding="ascii")  # as `axbridge serve` does
        timeouts = [*before, *bus.read_many([(9, 0, 3)])]
        for call in (
            lambda: bus.instruct(9, Instruction.ACTION),
            lambda: bus.instruct(9, Instruction.ACTION),  # waits for a late acknowledgement first, and sends a PING
            lambda: require(handshake(bus, [servo]), "here"),
        ):
            with pytest.raises(BusTimeout) as timeout:
                call()
            timeouts.append(timeout.value)
    finally:
        busy_file(os.getpid()).unlink()
    assert ["has left 3 packets unanswered" in timeout.hint for timeout in timeouts] == [False, *[True] * 4]


def test_an_instruction_waits_while_another_thread_uses_the_line(line, bus):
    bus.latency, locked = 0.005, threading.Event()
    line.deaf |= {1}
    with pytest.raises(BusTimeout):
        bus.read(1, 36, 2)

    def listen():
        with bus.turn, bus.turn.lock:
            locked.set()
            bus.port.receive(time.monotonic() + 0.1)

    with ThreadPoolExecutor(1) as other:
        listening = other.submit(listen)
        locked.wait()
        with pytest.raises(BusTimeout):
            bus.instruct(1, Instruction.ACTION)  # it also waits until no late reply can come
        listening.result()


# ---- duplicates while late replies of all other lengths may come: no block has lengths for both

# s after a READ: its reply, and the duplicate. It comes long before the end of DUPLICATE_REPLY_WINDOW, before which the
# bus sends no READ, and before the next reply of a bus that does not wait.
TWICE = 0.004, 0.005
LENGTHS = 25  # most lengths of the READs for one register


def registers_by_lengths():
    """Return profile, address, size and number of READ lengths: one register of each protocol for each number."""
    cases = {}
    for name in shipped_names(FOLDER):
        profile = FirmwareProfile.load(name)
        protocol = PROTOCOLS[profile.protocol]
        for register in profile.registers.values():
            begin, end = protocol.readable_span(register.address, register.size)
            extra = min(max(register.address - begin, end - register.address - register.size), LENGTHS - 1)
            cases.setdefault((protocol.name, extra), (name, register.address, register.size, 1 + extra))
    return cases.values()


@pytest.mark.parametrize(("profile", "address", "size", "lengths"), registers_by_lengths())
def test_a_duplicate_answers_no_later_read_while_late_replies_of_all_other_lengths_are_due(
    profile, address, size, lengths
):
    lost, reads = lengths - 1, 0
    protocol = PROTOCOLS[FirmwareProfile.load(profile).protocol]

    def mishap(packet):
        """Answer each READ after the first `lost` twice, with the number of the READ in all registers."""
        nonlocal reads
        reads += packet.code == Instruction.READ
        if packet.code != Instruction.READ or reads <= lost:
            return "drop"
        answer = protocol.encode_status(1, 0, bytes((reads,)) * packet.params[protocol.address_size])
        return lambda due, _: [(due + wait, answer) for wait in TWICE]

    with PtyLine({1: profile}, mishap=mishap) as line, SerialBus(line.port) as bus:
        bus.set_protocol(1, protocol)
        bus.latency, bus.retries = 0.0, 0
        for number in range(1, lost + 1):
            with pytest.raises((BusTimeout, CorruptPacket)):
                bus.read(1, address, size)
            until(lambda number=number: reads == number)  # the line takes two READs at once for one
        bus.latency = 0.5
        for number in range(lost + 1, lost + 4):
            assert bus.read(1, address, size).data == bytes((number,)) * size
