"""What every `Bus` does, whatever it is made of."""

import pytest

from axbridge.bus.serial import SerialBus
from axbridge.errors import BusTimeout, UsageError
from ptyline import PtyLine


@pytest.fixture
def bus():
    with PtyLine((1, 2)) as line, SerialBus(line.port) as made:
        yield made


def test_reads_come_in_the_order_asked_with_errors_in_their_place(bus):
    answers = bus.read_many([(1, 3, 1), (9, 3, 1), (2, 3, 1)])
    assert answers[0].data == b"\x01"
    assert isinstance(answers[1], BusTimeout)
    assert answers[2].data == b"\x02"


def test_what_is_written_is_read_back(bus):
    bus.write(1, 26, b"\x05\x06")
    assert bus.read(1, 26, 2).data == b"\x05\x06"


def test_a_sync_write_reaches_all_named(bus):
    bus.sync_write(30, {1: b"\x10\x01", 2: b"\x20\x02"})
    assert bus.read(1, 30, 2).data == b"\x10\x01"
    assert bus.read(2, 30, 2).data == b"\x20\x02"


def test_a_sync_write_of_nothing_is_refused(bus):
    with pytest.raises(UsageError):
        bus.sync_write(30, {})


def test_the_sample_time_lies_between_question_and_answer(bus):
    before = bus.clock.now()
    reply = bus.read(1, 36, 8)
    assert before <= reply.time <= bus.clock.now() + 1e-3
