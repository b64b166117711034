"""Listens to a pseudo-terminal and notes when bytes came, whatever the rest of the server is doing.

Where numba is installed (the `fast` extra), it is compiled and runs without Python's lock. A thread that waits for the
lock notes a packet some 20 µs late, and its answer leaves that much later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from axbridge.serve.channel import Arrival
from axbridge.serve.realtime import wake_on_time

with contextlib.suppress(ImportError):  # a system without pseudo-terminals makes no listener
    import fcntl

__all__ = ["TERMIOS2", "Listener", "termios"]

# struct termios2 of Linux: four flag words, line discipline, 19 control characters, input and output speed.
TERMIOS2 = struct.Struct("=4IB19s2I")
_TCGETS2 = 0x802C542A
_SPEED = 10  # where the output speed is in it, in words
_SLOTS, _CHUNK = 64, 4096
_COUNT, _TAKEN, _OVER = range(3)


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
        self._bytes = np.zeros((_SLOTS, _CHUNK), np.uint8)
        self._sizes = np.zeros(_SLOTS, np.int64)
        self._times = np.zeros(_SLOTS)
        self._bauds = np.zeros(_SLOTS, np.int64)
        self._marks = np.zeros(3, np.int64)
        self._hear: Callable[..., None] | None = None
        with contextlib.suppress(ImportError, OSError, RuntimeError):  # no numba, or no place for what it makes
            from axbridge.serve.pty_listener_loop import hear

            self._hear = hear
        self._thread = threading.Thread(target=self._listen, name="pty listener", daemon=True)
        self._thread.start()

    def arrivals(self) -> list[Arrival]:
        """What has come since the last call; for use when `news` is readable."""
        os.read(self.news, _SLOTS)
        found = []
        while self._marks[_TAKEN] < self._marks[_COUNT]:
            slot = int(self._marks[_TAKEN]) % _SLOTS
            data = self._bytes[slot, : self._sizes[slot]].tobytes()
            found.append(Arrival(data, float(self._times[slot]), float(self._bauds[slot]) or None))
            self._marks[_TAKEN] += 1
        return found

    def close(self, other: int) -> None:
        """Stop listening; `other` is the other end of the terminal, to wake the thread by."""
        self._marks[_OVER] = 1
        os.set_blocking(other, False)
        with contextlib.suppress(BlockingIOError):  # it is full: then the thread is not waiting for more
            os.write(other, b"\0")
        os.set_blocking(other, True)
        self._thread.join()
        os.close(self.news)
        os.close(self._tell)

    def _listen(self) -> None:
        wake_on_time()
        if hasattr(signal, "pthread_sigmask"):  # a signal would cut the read short, and end the thread
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        if self._hear is not None:
            self._hear(
                self._end, self._tell, (_TCGETS2, _SPEED), self._bytes, self._sizes, self._times, self._bauds,
                self._marks, np.zeros(2, np.int64), np.zeros(16, np.uint32),
            )  # fmt: skip
        else:
            self._hear_in_python()

    def _hear_in_python(self) -> None:
        """What `axbridge.serve.pty_listener_loop` does."""
        marks = self._marks
        while True:
            slot = int(marks[_COUNT]) % _SLOTS
            while marks[_COUNT] - marks[_TAKEN] >= _SLOTS and not marks[_OVER]:
                time.sleep(1e-3)
            data = os.read(self._end, _CHUNK)
            now = time.monotonic()
            if marks[_OVER]:
                return
            self._bytes[slot, : len(data)] = np.frombuffer(data, np.uint8)
            self._sizes[slot], self._times[slot], self._bauds[slot] = len(data), now, baud(self._end)
            marks[_COUNT] += 1
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
