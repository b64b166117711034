"""What comes through a pseudo-terminal: every byte, in order, with the time and the speed at which it was sent."""

import os
import sys
import termios
import time
import tty
from pathlib import Path

import pytest

from axbridge.virtual.channel import Listener, PtyChannel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")


@pytest.fixture
def ends():
    """Listener of a master, and the slave it hears."""
    master, slave = os.openpty()
    tty.setraw(slave)
    listener = Listener(master)
    yield listener, slave
    listener.close(slave)
    os.close(master)
    os.close(slave)


def heard(listener, count):
    arrivals = []
    while sum(len(arrival.data) for arrival in arrivals) < count:
        arrivals += listener.arrivals()
    return arrivals


def test_bytes_arrive_in_order_however_they_are_cut(ends):
    listener, slave = ends
    sent = [bytes([n % 256]) * (1 + n % 7) for n in range(200)]  # more than the listener has room for at once
    arrivals = []
    for piece in sent:
        os.write(slave, piece)
        arrivals += heard(listener, len(piece))
    assert b"".join(arrival.data for arrival in arrivals) == b"".join(sent)


def test_what_nobody_takes_yet_waits(ends):
    listener, slave = ends
    for n in range(150):
        os.write(slave, bytes([n]))
        time.sleep(1e-4)
    assert b"".join(arrival.data for arrival in heard(listener, 150)) == bytes(range(150))


def test_a_listener_that_nobody_hears_out_ends_all_the_same(ends):
    _, slave = ends
    for _ in range(150):  # more than it has room for; the fixture closes it
        os.write(slave, b"unheard")
        time.sleep(2e-3)


def test_an_arrival_says_when_and_at_which_speed_it_was_sent(ends):
    listener, slave = ends
    settings = termios.tcgetattr(slave)
    settings[4] = settings[5] = termios.B57600
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    before = time.monotonic()
    os.write(slave, b"now")
    (arrival,) = heard(listener, 3)
    assert before <= arrival.time <= time.monotonic()
    assert arrival.baud == 57600


def test_a_channel_takes_its_own_share_off_both_ways():
    channel = PtyChannel(1_000_000)
    try:
        client = os.open(channel.address, os.O_RDWR | os.O_NOCTTY)
        assert 0 < channel.transit < 0.1  # s
        before = time.monotonic()
        os.write(client, b"?")
        (arrival,) = channel.receive()
        assert before - 0.1 < arrival.time < time.monotonic()
        channel.write(b"!")
        assert os.read(client, 1) == b"!"
        os.close(client)
    finally:
        channel.close()


def test_opening_and_closing_leaves_nothing_behind():
    before = sum(1 for _ in Path("/dev/fd").iterdir())
    for _ in range(20):
        channel = PtyChannel(1_000_000)
        channel.unplug()
        channel.plug()
        channel.close()
    assert sum(1 for _ in Path("/dev/fd").iterdir()) == before
