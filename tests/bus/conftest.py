import pytest

from axbridge.bus.serial import SerialBus
from tests.support.pty_line import PtyLine


@pytest.fixture
def line():
    with PtyLine((1, 2, 3)) as made:
        yield made


@pytest.fixture
def bus(line):
    with SerialBus(line.port) as made:
        made.latency = 0.02  # a busy machine may keep the responder waiting
        yield made
