"""The loop of `axbridge.serve.pty_listener`, compiled. Linux only; importing this needs numba (the `fast` extra)."""

from __future__ import annotations

import sys

import numpy as np
from numba import config, types

from axbridge.jit import jit

__all__ = ["hear"]

if sys.platform != "linux" or config.DISABLE_JIT:
    raise ImportError("compiled for Linux only")

_CLOCK_MONOTONIC = 1  # the clock of `time.monotonic`
_FULL = 1000  # µs to wait while nobody takes arrivals

# C functions, found by name when the machine code is loaded, so that it can be kept on disk; pointers are words
_word, _integer = types.intp, types.int32
_read = types.ExternalFunction("read", _word(_integer, _word, _word))
_write = types.ExternalFunction("write", _word(_integer, _word, _word))
_ioctl = types.ExternalFunction("ioctl", _integer(_integer, _word, _word))
_usleep = types.ExternalFunction("usleep", _integer(_integer))
_clock_gettime = types.ExternalFunction("clock_gettime", _integer(_integer, _word))


def _hear(
    end: int,
    tell: int,
    settings: tuple[int, int],
    heard: np.ndarray,
    sizes: np.ndarray,
    times: np.ndarray,
    bauds: np.ndarray,
    marks: np.ndarray,
    scratch: np.ndarray,
    terms: np.ndarray,
) -> None:
    """See `Listener`: reads into slots until `marks[2]` is set.

    Args:
        end: Descriptor to read from.
        tell: Descriptor to write a byte to after each arrival.
        settings: The ioctl that tells the client's terminal settings, and where in them the speed is.
        heard: (slots, chunk) bytes.
        sizes: (slots,) bytes in each.
        times: (slots,) s.
        bauds: (slots,) bits per second, 0 where not known.
        marks: Arrivals noted, arrivals taken, whether it is over.
        scratch: Two words.
        terms: Room for the terminal settings, 32-bit words.
    """
    slots, chunk = heard.shape
    request, speed = settings
    while True:
        slot = marks[0] % slots
        while marks[0] - marks[1] >= slots and marks[2] == 0:
            _usleep(_FULL)
        count = _read(end, heard.ctypes.data + slot * chunk, chunk)
        _clock_gettime(_CLOCK_MONOTONIC, scratch.ctypes.data)
        if count <= 0 or marks[2] != 0:
            return
        sizes[slot] = count
        times[slot] = scratch[0] + scratch[1] * 1e-9
        bauds[slot] = terms[speed] if _ioctl(end, request, terms.ctypes.data) == 0 else 0
        marks[0] += 1
        _write(tell, heard.ctypes.data, 1)


hear = jit(_hear, nogil=True, native=True)
