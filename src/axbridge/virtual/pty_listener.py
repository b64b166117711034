"""Listens to a pseudo-terminal and notes when bytes came, whatever the rest of the server is doing."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import threading
import time
from collections import deque
from typing import Any

from axbridge.virtual.channel import Arrival
from axbridge.virtual.realtime import wake_on_time

with contextlib.suppress(ImportError):  # a system without pseudo-terminals makes no listener
    import fcntl


# struct termios2 of Linux: four flag words, line discipline, 19 control characters, input and output speed.
TERMIOS2 = struct.Struct("=4IB19s2I")
_TCGETS2 = 0x802C542A
_MOST, _CHUNK = 64, 4096  # arrivals that wait to be taken; bytes of one
_FULL = 1e-3  # s to wait while nobody takes them


class Listener:
    """A thread in a blocking read of one end of the terminal.

    It never sees what a client takes back: a TCOFLUSH right after a write (pypot flushes before every packet) discards
    bytes that the kernel has not moved to this end yet.

    Args:
        end: Descriptor to read from; stays the caller's.

    Attributes:
        news: Descriptor that is readable when there are arrivals.
    """

    def __init__(self, end: int) -> None:
        self.news, self._tell = os.pipe()
        self._end = end
        self._found: deque[Arrival] = deque()
        self._over = False
        self._thread = threading.Thread(target=self._listen, name="pty listener", daemon=True)
        self._thread.start()

    def arrivals(self) -> list[Arrival]:
        """What has come since the last call; for use when `news` is readable."""
        os.read(self.news, _MOST)
        return [self._found.popleft() for _ in range(len(self._found))]

    def close(self, other: int) -> None:
        """Stop listening; `other` is the other end of the terminal, to wake the thread by."""
        self._over = True
        os.set_blocking(other, False)
        with contextlib.suppress(BlockingIOError):  # it is full: then the thread is not waiting for more
            os.write(other, b"\0")
        os.set_blocking(other, True)
        self._thread.join()
        os.close(self.news)
        os.close(self._tell)

    def _listen(self) -> None:
        wake_on_time()
        if hasattr(signal, "pthread_sigmask"):  # signals are for the main thread
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            while len(self._found) >= _MOST and not self._over:
                time.sleep(_FULL)
            data = os.read(self._end, _CHUNK)
            now = time.monotonic()
            if self._over:
                return
            self._found.append(Arrival(data, now, baud(self._end) or None))
            os.write(self._tell, b"!")


def termios(descriptor: int) -> tuple[Any, ...] | None:
    """The fields of `TERMIOS2`; None where the system does not tell."""
    try:
        return TERMIOS2.unpack(fcntl.ioctl(descriptor, _TCGETS2, bytes(TERMIOS2.size)))
    except OSError:
        return None


def baud(descriptor: int) -> int:
    """Bits per second that the client has set; 0 where the system does not tell."""
    fields = termios(descriptor)
    return int(fields[7]) if fields else 0
