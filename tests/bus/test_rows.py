"""What a servo has measured says the same in a sample and in a register that is read by name."""

import pytest

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.rows import decoded
from axbridge.config import toml_tables
from axbridge.config.profile import FOLDER, FirmwareProfile
from axbridge.units import bits_to_signed

WORDS = [0, 1, 0x3FF, 0x400, 0x401, 0x7FF, 0x7FFF, 0x8000, 0x8001, 0xE4AB, 0xFFFF]


@pytest.mark.parametrize("name", toml_tables.shipped_names(FOLDER))
def test_a_sample_says_what_its_registers_say(name):
    profile = FirmwareProfile.load(name)
    protocol = PROTOCOLS[profile.protocol]
    begin, length = protocol.usual
    by_address = {register.address: register for register in profile.registers.values()}
    for column, form, place in protocol.sample:
        register = by_address[begin + place]
        assert register.size == int(form[-1]), column
        for word in WORDS:
            data = (word % 256**register.size).to_bytes(register.size, register.byteorder)
            sample = bytearray(length)
            sample[place : place + register.size] = data
            value = register.decode(data)
            if "bit 10 = CW" in register.unit:
                value = bits_to_signed(value)
            found = decoded(protocol, bytes(sample), column).item()
            unsigned = name.startswith(("ax", "scs")) and column == "position"  # 1023 at most: no bit is a sign
            assert found == value or (unsigned and word >= 0x8000), (column, hex(word))
