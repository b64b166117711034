"""Wake-up latency: settings of Linux for a server that answers within microseconds."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys

_PR_SET_TIMERSLACK = 29
_LATENCY = "/dev/cpu_dma_latency"  # open with a 0 in it: no core sleeps deeper than it can wake from in 0 µs


def wake_on_time() -> None:
    """Make this thread wake up on time. Linux only: no timer slack (50 µs), and a priority where that is allowed."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    with contextlib.suppress(OSError):  # for root, or with the rtprio limit set: these threads sleep most of the time
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


class Awake:
    """Keeps idle cores from sleeping, between `hold` and `release`; does nothing without the right to.

    A core takes some 40 µs to wake, and a packet on a pseudo-terminal wakes three: a 240 µs transaction is half as long
    again. (Linux: PM quality of service, for root and who may write to `/dev/cpu_dma_latency`.)
    """

    def __init__(self) -> None:
        self._request = -1

    def hold(self) -> None:
        """Keep the processor awake from now on, where the system lets us."""
        if self._request >= 0 or sys.platform != "linux":
            return
        with contextlib.suppress(OSError):
            self._request = os.open(_LATENCY, os.O_WRONLY | os.O_CLOEXEC)
            os.write(self._request, struct.pack("i", 0))

    def release(self) -> None:
        """No longer; may be called twice."""
        if self._request >= 0:
            os.close(self._request)
            self._request = -1
