from hypothesis import given
from hypothesis import strategies as st

from axbridge.bus.protocols.v1 import encode, find_answer, may_be_longer
from axbridge.config.instructions import Instruction

ids = st.integers(0, 253)
junk = st.binary(max_size=12).filter(lambda data: b"\xff" not in data)


@given(ids, st.binary(max_size=20), junk, junk)
def test_an_answer_is_found_between_junk(id, data, before, after):
    raw = encode(id, 0, data)
    question = encode(id, Instruction.READ, bytes((36, len(data))))
    found = find_answer(before + raw + after, question, id, len(data), echo=False, refusable=True)
    if found.packet is None:  # one byte behind it may make it look like a longer, damaged one
        assert may_be_longer(raw, after[:2])
    else:
        assert found.packet.params == data
        assert found.rest == before + after


@given(ids, st.binary(max_size=20), st.binary(max_size=20))
def test_an_answer_counts_whatever_packet_is_behind_it(id, data, late):
    question = encode(id, Instruction.READ, bytes((36, len(data))))
    behind = encode(id, 0, late)
    found = find_answer(encode(id, 0, data) + behind, question, id, len(data), echo=False, refusable=True)
    assert found.packet is not None
    assert (found.packet.params, found.rest) == (data, behind)


@given(ids, st.binary(min_size=1, max_size=20), st.data())
def test_no_change_of_one_byte_passes(id, data, draw):
    raw = encode(id, 0, data)
    at = draw.draw(st.integers(0, len(raw) - 1))
    value = draw.draw(st.integers(0, 255).filter(lambda new: new != raw[at]))
    hurt = raw[:at] + bytes((value,)) + raw[at + 1 :]
    question = encode(id, Instruction.READ, bytes((36, len(data))))
    assert find_answer(hurt, question, id, len(data), echo=False, refusable=True).packet is None


@given(ids, st.binary(min_size=1, max_size=20), st.integers(0, 255), st.data())
def test_no_stray_byte_inside_passes(id, data, stray, draw):
    raw = encode(id, 0, data)
    at = draw.draw(st.integers(4, len(raw) - 1))
    longer = raw[:at] + bytes((stray,)) + raw[at:]
    question = encode(id, Instruction.READ, bytes((36, len(data))))
    found = find_answer(longer, question, id, len(data), echo=False, refusable=True)
    assert found.packet is None or found.packet.params == data


@given(ids, st.integers(0, 49), st.integers(1, 40))
def test_an_echo_alone_is_never_an_answer(id, address, length):
    question = encode(id, Instruction.READ, bytes((address, length)))
    for echo in (False, True):
        assert find_answer(question, question, id, length, echo=echo, refusable=True).packet is None


def test_the_answer_of_another_servo_or_of_another_length_is_not_taken():
    question = encode(1, Instruction.READ, b"\x24\x02")
    for raw in (encode(2, 0, b"\x01\x02"), encode(1, 0, b"\x01\x02\x03"), encode(1, 0, b"")):
        assert find_answer(raw, question, 1, 2, echo=False, refusable=True).packet is None


def test_a_refusal_is_an_answer_unless_an_old_acknowledgement_is_owed():
    question, refusal = encode(1, Instruction.READ, b"\x60\x02"), encode(1, 0x08)
    assert find_answer(refusal, question, 1, 2, echo=False, refusable=True).packet
    assert not find_answer(refusal, question, 1, 2, echo=False, refusable=False).packet
    alarm = encode(1, 0x20)  # an overloaded servo's acknowledgement of something else
    assert not find_answer(alarm, question, 1, 2, echo=False, refusable=True).packet
