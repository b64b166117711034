"""A duplicate reply, and late replies of all other lengths: no block has enough lengths for both."""

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

ANSWER, AGAIN = 0.003, 0.0042  # s after a READ: the reply and its duplicate, before the next reply
LENGTHS = 25  # largest number of read lengths for one register


def registers():
    """Return one register per protocol and number of read lengths in its block: protocol, address and size."""
    found = {}
    for name in shipped_names(FOLDER):
        profile = FirmwareProfile.load(name)
        protocol = PROTOCOLS[profile.protocol]
        for one in profile.registers.values():
            begin, end = protocol.readable_span(one.address, one.size)
            more = min(max(one.address - begin, end - one.address - one.size), LENGTHS - 1)
            found.setdefault((protocol.name, more), (protocol, one.address, one.size, 1 + more))
    return found.values()


@contextmanager
def counting_line(protocol, lost):
    """A servo whose registers hold its count of READs; it ignores the first ones, then replies twice to each."""
    master, slave = pty.openpty()
    tty.setraw(slave)

    def serve():
        decoder, asked, later = protocol.decoder(), 0, []
        with contextlib.suppress(OSError):
            while True:
                wait = max(later[0][0] - time.monotonic(), 0.0) if later else None
                if select.select([master], [], [], wait)[0]:
                    for packet in decoder.feed(os.read(master, 4096)):
                        if packet.code == Instruction.READ and packet.id == 1:
                            asked += 1
                            length = packet.params[protocol.address_size]
                            answer = protocol.encode_status(1, 0, bytes((asked,)) * length)
                            now = time.monotonic()
                            later += [(now + wait, answer) for wait in (ANSWER, AGAIN) if asked > lost]
                later.sort()
                while later and later[0][0] <= time.monotonic():
                    os.write(master, later.pop(0)[1])

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
    ids=lambda one: getattr(one, "title", None),
)
def test_a_repeated_answer_is_no_later_one_when_late_ones_may_have_every_other_length(protocol, address, size, lengths):
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
