import socket
import time
from contextlib import closing, suppress

import pytest

from axbridge.virtual.channel import TcpChannel
from tests.support.waiting import until


@pytest.fixture
def channel():
    with closing(TcpChannel("127.0.0.1", 0)) as channel:
        yield channel


def connected(channel):
    host, port = channel.address.removeprefix("socket://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=5)


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
