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
        made.latency, made.retry_timeout_factor = 0.02, 3  # a busy machine may delay the responder by 0.18 s
        yield made
