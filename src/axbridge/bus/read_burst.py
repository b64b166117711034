"""The reads of a control cycle in one compiled call. Linux only; importing this needs numba (the `fast` extra).

A read costs 8 µs of processor time instead of 10 µs in Python; 7 µs of that are the system calls
(`benchmarks/bus_read.py`). What that is worth: a 50 Hz loop over 18 servos takes 20 to 40 % less of a core, and an
exchange at 1 Mbps ends about 0.4 ms earlier (`benchmarks/bus_cycle.py`: `cpu_share`, `p50_ms`; with and without numba).
The loop stops at the first answer that is not exactly the expected one: what it means is for `SerialBus` to find out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
from numba import config, types

from axbridge.jit import jit
from axbridge.protocols.answers import SUM_OK

__all__ = ["Burst"]

if sys.platform != "linux" or config.DISABLE_JIT:
    raise ImportError("compiled for Linux only")

_FRAME = 8  # bytes of a READ
_MOST = 128  # reads in one call
_CHUNK = 4096
_CLOCK_MONOTONIC, _POLLIN = 1, 1  # Linux: the clock of `time.monotonic`; bytes to read

# C functions, found by name when the machine code is loaded, so that it can be kept on disk; pointers are words
_word, _integer = types.intp, types.int32
_write = types.ExternalFunction("write", _word(_integer, _word, _word))
_read = types.ExternalFunction("read", _word(_integer, _word, _word))
_poll = types.ExternalFunction("poll", _integer(_word, _word, _integer))
_clock_gettime = types.ExternalFunction("clock_gettime", _integer(_integer, _word))


class Burst:
    """Asks one servo after another, each as soon as the one before it has answered. For one thread at a time."""

    def __init__(self) -> None:
        self._heard = np.zeros(_MOST * (0xFF + 6) + _CHUNK, np.uint8)
        self._sent = np.zeros(_MOST)
        self._scratch = np.zeros(3, np.int64)  # a struct timespec, a struct pollfd
        self(0, (), 0.0, 0.0)  # compiles or loads

    def __call__(
        self, fd: int, frames: Sequence[bytes], patience: float, byte: float
    ) -> tuple[list[tuple[bytes, float]], bytes, float | None]:
        """Send these READs, and wait for each answer but the last as long as it takes on the wire, and `patience`.

        The last one is for the caller to wait for: there is time to look at the others until it comes. Signals are not
        kept waiting: they end the wait, as a missing answer does.

        Args:
            fd: The port.
            frames: READ packets; those beyond the 128th are left.
            patience: s.
            byte: Time of a byte on the wire, s.

        Returns:
            The good answers, each with the time its question had been sent (s, `time.monotonic`); what was heard
            after the next question; the time of that one, None when the port did not take it.
        """
        asked = frames[:_MOST]
        questions = np.frombuffer(b"".join(asked), np.uint8)
        good, end, rest = _ASK_ALL(fd, questions, patience, byte, self._heard, self._sent, self._scratch)
        raw = self._heard[: end + max(rest, 0)].tobytes()
        answers = []
        first = 0
        for frame, sent in zip(asked, self._sent[:good].tolist(), strict=False):
            after = first + frame[6] + 6
            answers.append((raw[first:after], sent))
            first = after
        return answers, raw[end:], None if rest < 0 else float(self._sent[good])


def _ask_all(
    fd: int,
    frames: np.ndarray,
    patience: float,
    byte: float,
    heard: np.ndarray,
    sent: np.ndarray,
    scratch: np.ndarray,
) -> tuple[int, int, int]:
    """How many good answers, how many bytes they are, and how many came besides: -1 when nothing was asked besides."""
    end = 0
    count = len(frames) // _FRAME
    for index in range(count):
        first = index * _FRAME
        scratch[2] = fd | _POLLIN << 32
        again = index == 0 or frames[first + 2] == frames[first + 2 - _FRAME]
        if again and _poll(scratch.ctypes.data + 16, 1, 0) != 0:  # the same servo's reply, delivered twice
            return index, end, -1
        if _write(fd, frames.ctypes.data + first, _FRAME) != _FRAME:
            return index, end, -1
        _clock_gettime(_CLOCK_MONOTONIC, scratch.ctypes.data)
        sent[index] = scratch[0] + scratch[1] * 1e-9
        if index == count - 1:
            return index, end, 0
        need = frames[first + 6] + 6
        wait = math.ceil((patience + (_FRAME + need) * byte) * 1e3)
        came = 0
        while came < need:  # a terminal may hand an answer over in two pieces
            if _poll(scratch.ctypes.data + 16, 1, wait) != 1:
                return index, end, came
            piece = _read(fd, heard.ctypes.data + end + came, _CHUNK)
            if piece <= 0:
                return index, end, came
            came += piece
        if came != need:
            return index, end, came
        total = 0
        echo = need == _FRAME
        for i in range(need):
            total += heard[end + i]
            echo = echo and heard[end + i] == frames[first + i]
        headed = heard[end] == 0xFF and heard[end + 1] == 0xFF
        fits = heard[end + 2] == frames[first + 2] and heard[end + 3] == frames[first + 6] + 2
        if echo or not headed or not fits or total & 0xFF != SUM_OK:
            return index, end, came
        end += need
    return 0, 0, -1


_ASK_ALL = jit(_ask_all, nogil=True, native=True)
