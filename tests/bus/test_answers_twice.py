"""Duplicates of replies while late replies of all other lengths may come: no block has enough lengths for both."""

import contextlib
import os
import pty
import select
import threading
import time
import tty
from contextlib import contextmanager

import pytest

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.config.profile import FOLDER, FirmwareProfile
from axbridge.config.registers import Instruction
from axbridge.config.toml_tables import shipped_names
from axbridge.errors import BusTimeout, CorruptPacket

ANSWER, AGAIN = 0.003, 0.0042  # s after a READ: its reply, and the duplicate, before the next reply
LENGTHS = 25  # most lengths of the READs for one register


def registers():
    """Return protocol, address, size and number of READ lengths: one register of each protocol for each number."""
    cases = {}
    for name in shipped_names(FOLDER):
        profile = FirmwareProfile.load(name)
        protocol = PROTOCOLS[profile.protocol]
        for register in profile.registers.values():
            begin, end = protocol.readable_span(register.address, register.size)
            extra = min(max(register.address - begin, end - register.address - register.size), LENGTHS - 1)
            cases.setdefault((protocol.name, extra), (protocol, register.address, register.size, 1 + extra))
    return cases.values()


@contextmanager
def counting_line(protocol, lost):
    """Simulate a servo whose registers all have the number of READs so far; it answers twice after the first `lost`."""
    master, slave = pty.openpty()
    tty.setraw(slave)

    def serve():
        decoder, reads, pending = protocol.decoder(), 0, []
        with contextlib.suppress(OSError):
            while True:
                wait = max(pending[0][0] - time.monotonic(), 0.0) if pending else None
                if select.select([master], [], [], wait)[0]:
                    for packet in decoder.feed(os.read(master, 4096)):
                        if packet.code == Instruction.READ and packet.id == 1:
                            reads += 1
                            length = packet.params[protocol.address_size]
                            answer = protocol.encode_status(1, 0, bytes((reads,)) * length)
                            now = time.monotonic()
                            pending += [(now + wait, answer) for wait in (ANSWER, AGAIN) if reads > lost]
                pending.sort()
                while pending and pending[0][0] <= time.monotonic():
                    os.write(master, pending.pop(0)[1])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield os.ttyname(slave)
    finally:
        os.close(slave)
        thread.join(1.0)
        os.close(master)


@pytest.mark.parametrize(
    ("protocol", "address", "size", "lengths"),
    registers(),
    ids=lambda case: getattr(case, "title", None),
)
def test_a_duplicate_answers_no_later_read_while_late_replies_of_all_other_lengths_are_due(
    protocol, address, size, lengths
):
    lost = lengths - 1
    with counting_line(protocol, lost) as port, SerialBus(port, retries=0) as bus:
        bus.set_protocol(1, protocol)
        bus.latency = 0.0
        for _ in range(lost):
            with pytest.raises((BusTimeout, CorruptPacket)):
                bus.read(1, address, size)
        bus.latency = 0.05
        for number in range(lost + 1, lost + 4):
            assert bus.read(1, address, size).data == bytes((number,)) * size
