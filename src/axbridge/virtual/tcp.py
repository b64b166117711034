"""A TCP port as the serial port of a virtual bus, for ``socket://`` clients and systems without pseudo-terminals."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time

from axbridge.errors import PortError, UsageError
from axbridge.virtual.channel import Arrival

_CHUNK = 4096
_TAKEN = b"axbridge: this bus has a client already; it takes another one when that has left\n"


def parse_address(text: str) -> tuple[str, int]:
    """``HOST:PORT`` into its parts; an IPv6 host stands in brackets.

    Raises:
        UsageError: it is something else.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{text!r} is no TCP address", "write HOST:PORT, as in 127.0.0.1:7000")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class TcpChannel:
    """Listens on a TCP port; one client at a time.

    Another one is sent away with a word: what it said meanwhile must not move the robot when the first one leaves.

    A socket has no baud rate: the line keeps the one it has.

    Args:
        host: Address to listen on.
        port: TCP port; 0 = any free one.

    Attributes:
        address: ``socket://HOST:PORT``, as pyserial wants it.
        transit: 0: who is at the other end, and how far, is not known.

    Raises:
        PortError: the address cannot be listened on.
    """

    def __init__(self, host: str, port: int) -> None:
        self._wanted = (host, port)
        self._listener: socket.socket | None = None
        self._client: socket.socket | None = None
        self.address = ""
        self.transit = 0.0
        self.plug()

    def descriptors(self) -> tuple[int, ...]:
        """What to wait on; nothing while it is unplugged."""
        return tuple(one.fileno() for one in (self._listener, self._client) if one is not None)

    def plug(self) -> None:
        """Listen for clients, where it does not yet."""
        if self._listener is not None:
            return
        host, port = self._wanted
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(4)
            listener.setblocking(False)
        except OSError as failure:
            listener.close()
            raise PortError(
                f"{host}:{port}", f"cannot listen: {failure.strerror or failure}", "take another address or port"
            ) from failure
        self._listener = listener
        bound = listener.getsockname()[1]
        self._wanted = (host, bound)
        self.address = f"socket://{f'[{host}]' if ':' in host else host}:{bound}"

    def unplug(self) -> None:
        """Hang up and stop listening."""
        self._hang_up()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    close = unplug

    def receive(self) -> list[Arrival]:
        """What has come from the client; takes one in, or sends it away."""
        found = list(iter(self._read, None))
        self._accept()  # after that, so that one that has left is not in the way of the next
        return found

    def _read(self) -> Arrival | None:
        if self._client is None:
            return None
        try:
            data = self._client.recv(_CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if data:
            return Arrival(data, time.monotonic(), None)
        self._hang_up()
        return None

    def _accept(self) -> None:
        assert self._listener is not None  # else nobody waits on it
        try:
            client, _ = self._listener.accept()
        except OSError:  # nobody is there, or no longer
            return
        client.setblocking(False)
        if self._client is None:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._client = client
            return
        with contextlib.suppress(OSError), client:
            client.send(_TAKEN)
            client.recv(_CHUNK)  # else closing takes the words back

    def write(self, data: bytes) -> None:
        """Hand bytes to the client; without one, or when it never reads, they are lost."""
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.send(data)

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
