"""A pseudo-terminal as the serial port of a virtual bus."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

from axbridge.errors import PortError, UsageError

__all__ = ["PtyChannel"]

# struct termios2 of Linux: four flag words, line discipline, 19 control characters, input and output speed.
_TERMIOS2 = struct.Struct("=4IB19s2I")
_TCGETS2, _TCSETS2 = 0x802C542A, 0x402C542B
_CBAUD, _BOTHER = 0o010017, 0o010000
_CHUNK = 4096


class PtyChannel:
    """One pseudo-terminal; clients open its slave end like any serial port.

    It keeps the slave open itself, so that clients may come and go. A pseudo-terminal takes any speed and transports
    bytes in no time: both are the line's business, which asks for the client's speed.

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
        self._master = self._slave = -1
        self.address = ""
        if link is not None:
            self._claim(link)
        self.plug()

    def fileno(self) -> int:
        """Descriptor to wait on; -1 while unplugged."""
        return self._master

    def plug(self) -> None:
        """Open the pseudo-terminal (again) and point the link at it."""
        if self._master >= 0:
            return
        try:
            import pty
            import tty

            self._master, self._slave = pty.openpty()
        except (ImportError, OSError) as failure:
            raise PortError("pty", f"no pseudo-terminal: {failure}", "serve on TCP: --tcp 127.0.0.1:PORT") from failure
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.address = os.ttyname(self._slave)
        self._set_baud(self._initial_baud)
        if self._link is not None:
            temporary = self._link.with_name(f".{self._link.name}.{os.getpid()}")
            temporary.symlink_to(self.address)
            temporary.replace(self._link)

    def unplug(self) -> None:
        """Pull the adapter: clients see the port hang up."""
        for descriptor in (self._master, self._slave):
            if descriptor >= 0:
                os.close(descriptor)
        self._master = self._slave = -1

    def baud(self) -> float | None:
        """Bits per second that the client has set; None where the system does not tell."""
        fields = self._termios()
        return float(fields[7]) if fields else None

    def read(self) -> bytes:
        """What has come from the client, b"" if nothing."""
        try:
            return os.read(self._master, _CHUNK)
        except OSError:  # nothing there, or the client has just gone
            return b""

    def write(self, data: bytes) -> None:
        """Hand bytes to the client; what does not fit because it never reads is lost, as in a real adapter."""
        with contextlib.suppress(OSError):
            os.write(self._master, data)

    def close(self) -> None:
        """Close the pseudo-terminal and take the link away; may be called twice."""
        self.unplug()
        if self._lock >= 0 and self._link is not None:
            self._link.unlink(missing_ok=True)
            _lock_path(self._link).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def _termios(self) -> tuple[int, int, int, int, int, bytes, int, int] | None:
        import fcntl

        try:
            return _TERMIOS2.unpack(fcntl.ioctl(self._master, _TCGETS2, bytes(_TERMIOS2.size)))
        except OSError:
            return None

    def _set_baud(self, baud: int) -> None:
        import fcntl

        if fields := self._termios():
            control = (fields[2] & ~_CBAUD) | _BOTHER
            packed = _TERMIOS2.pack(*fields[:2], control, *fields[3:6], baud, baud)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._slave, _TCSETS2, packed)

    def _claim(self, link: Path) -> None:
        import fcntl

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
