import os
import signal
import socket
import subprocess
import sys
import termios
import time
import tty
from contextlib import closing, suppress
from pathlib import Path

import pytest

from axbridge.virtual.channel import Listener, PtyChannel, TcpChannel
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")


@pytest.fixture
def ends():
    """Return the listener of a master, and its slave."""
    master, slave = os.openpty()
    tty.setraw(slave)
    listener = Listener(master)
    yield listener, slave
    listener.close(slave)
    os.close(master)
    os.close(slave)


def test_all_bytes_arrive_in_order_with_their_time_and_baud_rate(ends):
    listener, slave = ends
    settings = termios.tcgetattr(slave)
    settings[4] = settings[5] = termios.B57600
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    sent = [bytes([n]) * 10 * (1 + n % 7) for n in range(150)]  # more than the listener's buffer holds
    before = time.monotonic()
    for piece in sent:
        os.write(slave, piece)
        time.sleep(1e-4)
    arrivals = []
    while sum(len(arrival.data) for arrival in arrivals) < len(b"".join(sent)):
        arrivals += listener.arrivals()
    assert b"".join(arrival.data for arrival in arrivals) == b"".join(sent)
    assert all(before <= arrival.time <= time.monotonic() and arrival.baud == 57600 for arrival in arrivals)
    for _ in range(150):  # the fixture closes a listener with unread bytes
        os.write(slave, 7 * b"unheard")
        time.sleep(2e-3)


LOCKING = """
import fcntl, os, signal, sys, termios, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` ignores it
os.setuid(int(sys.argv[2]))
port = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.ioctl(port, termios.TIOCEXCL)
print("locked", flush=True)
time.sleep(60)
"""
NOBODY = 65534


def locking(address):
    """A client of a non-root user that opens the port exclusively, as rustypot and serialport-rs do."""
    command = [sys.executable, "-I", "-S", "-c", LOCKING, address, str(NOBODY)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="root becomes another user")
def test_a_port_is_not_exclusive_after_its_client_was_killed():
    with closing(PtyChannel(1_000_000)) as channel:
        os.chown(channel.address, NOBODY, -1)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
            with locking(channel.address) as client:
                assert client.stdout.readline() == "locked\n"
                with locking(channel.address) as second:
                    assert second.stdout.readline() == ""
                    assert "busy" in second.stderr.read()
                client.send_signal(number)


def test_a_channel_subtracts_its_own_delay_in_both_directions():
    with closing(PtyChannel(1_000_000)) as channel:
        client = os.open(channel.address, os.O_RDWR | os.O_NOCTTY)
        assert 0 < channel.transit < 0.1  # s
        before = time.monotonic()
        os.write(client, b"?")
        (arrival,) = channel.receive()
        assert before - 0.1 < arrival.time < time.monotonic()
        channel.write(b"!")
        assert os.read(client, 1) == b"!"
        os.close(client)


def test_closing_releases_all_descriptors():
    before = sum(1 for _ in Path("/dev/fd").iterdir())
    for _ in range(20):
        channel = PtyChannel(1_000_000)
        channel.unplug()
        channel.plug()
        channel.close()
    assert sum(1 for _ in Path("/dev/fd").iterdir()) == before


@pytest.fixture
def channel():
    with closing(TcpChannel("127.0.0.1", 0)) as channel:
        yield channel


def connected(channel):
    """Return a client of a channel or of a served bus, by its address."""
    host, port = channel.address.removeprefix("socket://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=10)


def heard(channel):
    """Return the bytes that come within 50 ms while the line is free."""
    data, end = b"", time.monotonic() + 0.05
    while time.monotonic() < end:
        data += b"".join(arrival.data for arrival in channel.receive())
    return data


def test_waiting_bytes_are_limited_and_discarded_with_their_client(channel):
    with connected(channel) as first:
        channel.hold()
        first.setblocking(False)
        for _ in range(50):  # 5 MB, while the line is busy
            with suppress(BlockingIOError):
                first.send(bytes(100_000))
            channel.hold()
        assert channel.waits
        assert [len(arrival.data) for arrival in channel.receive()] == [4096]
        with connected(channel) as second:
            channel.hold()
            assert b"has a client already" in second.recv(4096)
        assert len(heard(channel)) < 70_000
        first.send(bytes(8000))
        until(lambda: channel.hold() or channel.waits)
    until(lambda: channel.hold() or channel.left)
    assert heard(channel) == b""


def test_a_packet_of_a_client_that_leaves_at_once_is_received(channel):
    with connected(channel) as client:
        client.sendall(b"packet")
    assert heard(channel) == b"packet"
    with connected(channel) as client:
        client.sendall(b"next")
        assert heard(channel) == b"next"
