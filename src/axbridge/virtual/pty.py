"""A pseudo-terminal as the serial port of a virtual bus."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

try:
    import fcntl
    import pty
    import termios
    import tty
except ImportError as failure:  # as on Windows
    _MISSING = f"this system has none ({failure})"
else:
    _MISSING = ""

from axbridge.bus.port_name import lock_of
from axbridge.errors import PortError, UsageError
from axbridge.virtual.channel import Arrival
from axbridge.virtual.pty_listener import TERMIOS2, Listener
from axbridge.virtual.pty_listener import termios as settings
from axbridge.virtual.realtime import Awake

_TCSETS2 = 0x402C542B
_CBAUD, _BOTHER = 0o010017, 0o010000
_MOST_UNREAD = 2048  # bytes
_TRIALS = 200
_CLAIMS, _CLAIM_PAUSE = 5, 0.02  # attempts to lock a link, and the pause between them, s
_OTHERWISE = "serve on TCP: --tcp 127.0.0.1:7000"


class _Ends(NamedTuple):
    """One pseudo-terminal, and who listens to its master."""

    master: int
    slave: int
    listener: Listener


class PtyChannel:
    """One pseudo-terminal; clients open its slave end like any serial port.

    It keeps the slave open itself, so that clients may come and go. A pseudo-terminal takes any speed and transports
    bytes in no time: both are the line's business, which gets the client's speed.

    Args:
        baud: Speed that a client finds when it sets none.
        link: Symbolic link to keep pointing at the slave; None = none.

    Attributes:
        address: Path of the slave.
        transit: How long bytes take from `write` to the client, s, at best: measured when it is opened.

    Raises:
        UsageError: `link` is taken.
        PortError: the system has no pseudo-terminals.
    """

    def __init__(self, baud: float, link: Path | None = None) -> None:
        if _MISSING:
            raise PortError("pty", f"no pseudo-terminal: {_MISSING}", _OTHERWISE)
        self._initial_baud = int(baud)
        self._link = link
        self._lock = -1
        self._ends: _Ends | None = None
        self.address = ""
        self.transit = self._delay = 0.0  # out and in
        if link is not None:
            self._claim(link)
        self.plug()

    def descriptors(self) -> tuple[int, ...]:
        """What to wait on; nothing while it is unplugged."""
        return (self._ends.listener.news,) if self._ends else ()

    def plug(self) -> None:
        """Open the pseudo-terminal (again) and point the link at it."""
        if self._ends is not None:
            return
        try:
            master, slave = pty.openpty()
        except OSError as failure:
            raise PortError("pty", f"no pseudo-terminal: {failure}", _OTHERWISE) from failure
        tty.setraw(slave)
        _set_baud(slave, self._initial_baud)
        client = Listener(slave)
        self.transit = _transit(master, client)
        client.close(master)
        listener = Listener(master)
        self._delay = _transit(slave, listener)
        self._ends = _Ends(master, slave, listener)
        self.address = os.ttyname(slave)
        if self._link is not None:
            temporary = self._link.with_name(f".{self._link.name}.{os.getpid()}")
            temporary.symlink_to(self.address)
            temporary.replace(self._link)

    def unplug(self) -> None:
        """Pull the adapter: clients see the port hang up."""
        ends, self._ends = self._ends, None
        if ends is not None:
            if self._link is not None:
                self._link.unlink(missing_ok=True)  # the number may be another's next
            ends.listener.close(ends.slave)
            os.close(ends.master)
            os.close(ends.slave)

    def receive(self) -> list[Arrival]:
        """What has come from the client since the last call."""
        if self._ends is None:
            return []
        return [each._replace(time=each.time - self._delay) for each in self._ends.listener.arrivals()]

    def write(self, data: bytes) -> None:
        """Hand bytes to the client; what does not fit because it never reads is lost, as in a real adapter."""
        if self._ends is not None and _unread(self._ends.slave) < _MOST_UNREAD:
            with contextlib.suppress(OSError):
                os.write(self._ends.master, data)

    def close(self) -> None:
        """Close the pseudo-terminal and take the link away; may be called twice."""
        self.unplug()
        if self._lock >= 0 and self._link is not None:
            lock_of(self._link).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def _claim(self, link: Path) -> None:
        if link.exists() and not link.is_symlink():
            raise UsageError(f"{link} is in the way of the link", "give another --link")
        try:
            self._lock = os.open(lock_of(link), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            _lock_now(self._lock)
            link.unlink(missing_ok=True)  # of a server that was killed
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            raise UsageError(
                f"another `axbridge serve` keeps the link {link}", "stop it, or give another --link"
            ) from None
        except OSError as failure:
            raise UsageError(f"cannot make the link {link}: {failure.strerror}", "give a writable folder") from failure


def _lock_now(file: int) -> None:
    """Lock it; clients lock it for a moment to find out whether the server runs.

    Raises:
        BlockingIOError: another server has locked it.
    """
    for attempt in range(_CLAIMS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt == _CLAIMS - 1:
                raise
            time.sleep(_CLAIM_PAUSE)
        else:
            return


def _unread(slave: int) -> int:
    """Bytes that wait for the client; a write beyond the kernel's buffer of 4096 would block."""
    return int.from_bytes(fcntl.ioctl(slave, termios.FIONREAD, bytes(4)), sys.byteorder)


def _transit(end: int, listener: Listener) -> float:
    """The shortest time, s, from a write to this end until it is noticed at the other: the machine's own."""
    awake = Awake()
    awake.hold()
    taken = []
    for _ in range(_TRIALS):
        begun = time.monotonic()
        os.write(end, b"\0")
        taken += [arrival.time - begun for arrival in listener.arrivals()]
    awake.release()
    return min(taken)


def _set_baud(descriptor: int, baud: int) -> None:
    if fields := settings(descriptor):
        control = (fields[2] & ~_CBAUD) | _BOTHER
        packed = TERMIOS2.pack(*fields[:2], control, *fields[3:6], baud, baud)
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, _TCSETS2, packed)
