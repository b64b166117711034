"""Duplicates of replies while late replies of all other lengths may come: no block has enough lengths for both."""

import pytest

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.config.profile import FOLDER, FirmwareProfile
from axbridge.config.registers import Instruction
from axbridge.config.toml_tables import shipped_names
from axbridge.errors import BusTimeout, CorruptPacket
from tests.support.pty_line import PtyLine
from tests.support.waiting import until

# s after a READ: its reply, and the duplicate. It comes long before the end of DUPLICATE_REPLY_WINDOW, before which the
# bus sends no READ, and before the next reply of a bus that does not wait.
TWICE = 0.004, 0.005
LENGTHS = 25  # most lengths of the READs for one register


def registers():
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


@pytest.mark.parametrize(("profile", "address", "size", "lengths"), registers())
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
