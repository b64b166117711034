"""Numbers in registers, and blocks of several servos, where families put them differently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.v1 import sync_write_blocks, sync_write_params
from axbridge.config.instructions import Instruction
from axbridge.config.profile import FirmwareProfile


@pytest.mark.parametrize("profile", ["sts3215", "sts3250", "scs0009"])
@given(data=st.data())
def test_a_register_says_what_was_put_into_it(profile, data):
    registers = FirmwareProfile.load(profile).registers
    at = registers[data.draw(st.sampled_from(sorted(registers)))]
    value = data.draw(st.integers(*at.span))
    assert at.decode(at.encode(value)) == value


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("homing_offset", -1000, "E8 0B"),
        ("present_load", -1000, "E8 07"),
        ("goal_velocity", -2, "02 80"),
        ("present_position", -5, "05 80"),
    ],
)
def test_signs_of_feetech_servos_are_a_bit_beside_a_magnitude(name, value, data):
    assert FirmwareProfile.load("sts3215").register(name).encode(value) == bytes.fromhex(data)


@pytest.mark.parametrize("name", ["sts", "scs"])
@given(values=st.lists(st.tuples(st.integers(0, 252), st.binary(min_size=8, max_size=8)), min_size=1, max_size=20))
def test_what_servos_answer_together_is_told_apart(name, values):
    protocol = PROTOCOLS[name]
    heard = b"".join(protocol.encode_status(id_, 0, data) for id_, data in values)
    found = protocol.group_answers(Instruction.SYNC_READ, heard, [id_ for id_, _ in values], 8)
    assert found == {id_: (0, data) for id_, data in values}


FULL = {3: b"\1\2", 250: b"\3\4", 7: b"\5\6"}


@pytest.mark.parametrize(
    ("params", "blocks"),
    [
        (sync_write_params(30, FULL).hex(), FULL),
        ("1e 01 03 aa 03 bb", {3: b"\xaa"}),  # of two blocks for one id the first counts
        *((bad, {}) for bad in ("", "1e", "1e 00", "1e 02 03", "1e 02 03 aa", "1e 01 03 aa 04")),
    ],
)
def test_blocks_of_a_sync_write_are_found_by_id_where_lengths_fit(params, blocks):
    assert sync_write_blocks(bytes.fromhex(params)) == blocks
