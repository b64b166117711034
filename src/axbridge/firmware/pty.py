"""A pseudo-terminal as the serial port of a virtual bus."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

if sys.platform != "win32":
    import fcntl
    import pty
    import termios
    import tty

from axbridge.errors import PortError, UsageError
from axbridge.firmware.channel import Arrival, be_prompt

__all__ = ["PtyChannel"]

# struct termios2 of Linux: four flag words, line discipline, 19 control characters, input and output speed.
_TERMIOS2 = struct.Struct("=4IB19s2I")
_TCGETS2, _TCSETS2 = 0x802C542A, 0x402C542B
_CBAUD, _BOTHER = 0o010017, 0o010000
_CHUNK = 4096
_MOST_UNREAD = 2048  # bytes


class _Ends(NamedTuple):
    """Descriptors of one pseudo-terminal, and the pipe on which its reader says that something has come."""

    master: int
    slave: int
    news: int
    tell: int


class PtyChannel:
    """One pseudo-terminal; clients open its slave end like any serial port.

    It keeps the slave open itself, so that clients may come and go. A pseudo-terminal takes any speed and transports
    bytes in no time: both are the line's business, which is told the client's speed.

    A thread of its own sits in a blocking read all the time, so that bytes get the time at which they came, whatever
    the server is doing. It cannot save what a client takes back: a TCOFLUSH right after a write (pypot flushes before
    every packet) discards bytes that the kernel has not moved to this end yet.

    Args:
        baud: Speed that a client finds when it sets none.
        link: Symbolic link to keep pointing at the slave; None = none.

    Attributes:
        address: Path of the slave.

    Raises:
        UsageError: `link` is taken.
        PortError: the system has no pseudo-terminals.
    """

    def __init__(self, baud: float, link: Path | None = None) -> None:
        self._initial_baud = int(baud)
        self._link = link
        self._lock = -1
        self._ends: _Ends | None = None
        self._reader: threading.Thread | None = None
        self._arrived: deque[Arrival] = deque()
        self.address = ""
        if link is not None:
            self._claim(link)
        self.plug()

    def fileno(self) -> int:
        """Descriptor to wait on; -1 while unplugged."""
        return self._ends.news if self._ends else -1

    def plug(self) -> None:
        """Open the pseudo-terminal (again) and point the link at it."""
        if self._ends is not None:
            return
        try:
            master, slave = pty.openpty()
        except (NameError, OSError) as failure:
            raise PortError("pty", f"no pseudo-terminal: {failure}", "serve on TCP: --tcp 127.0.0.1:PORT") from failure
        tty.setraw(slave)
        _set_baud(slave, self._initial_baud)
        self._ends = ends = _Ends(master, slave, *os.pipe())
        self.address = os.ttyname(slave)
        self._reader = threading.Thread(target=self._read_on, args=(ends,), name="pty reader", daemon=True)
        self._reader.start()
        if self._link is not None:
            temporary = self._link.with_name(f".{self._link.name}.{os.getpid()}")
            temporary.symlink_to(self.address)
            temporary.replace(self._link)

    def unplug(self) -> None:
        """Pull the adapter: clients see the port hang up."""
        ends, self._ends = self._ends, None
        if ends is None or self._reader is None:
            return
        os.write(ends.slave, b"\0")  # wakes the reader, which then finds that it is over
        self._reader.join()
        self._arrived.clear()
        for descriptor in ends:
            os.close(descriptor)

    def receive(self) -> list[Arrival]:
        """What has come from the client since the last call."""
        if self._ends is not None:
            os.read(self._ends.news, 64)
        arrived = []
        while self._arrived:
            arrived.append(self._arrived.popleft())
        return arrived

    def write(self, data: bytes) -> None:
        """Hand bytes to the client; what does not fit because it never reads is lost, as in a real adapter."""
        if self._ends is not None and _unread(self._ends.slave) < _MOST_UNREAD:
            with contextlib.suppress(OSError):
                os.write(self._ends.master, data)

    def _read_on(self, ends: _Ends) -> None:
        """The reader."""
        be_prompt()
        while True:
            data = os.read(ends.master, _CHUNK)
            if self._ends is not ends:
                return
            self._arrived.append(Arrival(data, time.monotonic(), _baud(ends.master)))
            os.write(ends.tell, b"!")

    def close(self) -> None:
        """Close the pseudo-terminal and take the link away; may be called twice."""
        self.unplug()
        if self._lock >= 0 and self._link is not None:
            self._link.unlink(missing_ok=True)
            _lock_path(self._link).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def _claim(self, link: Path) -> None:
        if link.exists() and not link.is_symlink():
            raise UsageError(f"{link} is in the way of the link", "give another --link")
        try:
            self._lock = os.open(_lock_path(link), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            raise UsageError(
                f"another `axbridge serve` keeps the link {link}", "stop it, or give another --link"
            ) from None
        except OSError as failure:
            raise UsageError(f"cannot make the link {link}: {failure.strerror}", "give a writable folder") from failure


def _lock_path(link: Path) -> Path:
    return link.with_name(f".{link.name}.lock")


def _unread(slave: int) -> int:
    """Bytes that wait for the client; a write beyond the kernel's buffer of 4096 would block."""
    return int.from_bytes(fcntl.ioctl(slave, termios.FIONREAD, bytes(4)), sys.byteorder)


def _termios(descriptor: int) -> tuple[Any, ...] | None:
    try:
        return _TERMIOS2.unpack(fcntl.ioctl(descriptor, _TCGETS2, bytes(_TERMIOS2.size)))
    except OSError:
        return None


def _baud(descriptor: int) -> float | None:
    """Bits per second that the client has set; None where the system does not tell."""
    fields = _termios(descriptor)
    return float(fields[7]) if fields else None


def _set_baud(descriptor: int, baud: int) -> None:
    if fields := _termios(descriptor):
        control = (fields[2] & ~_CBAUD) | _BOTHER
        packed = _TERMIOS2.pack(*fields[:2], control, *fields[3:6], baud, baud)
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, _TCSETS2, packed)
