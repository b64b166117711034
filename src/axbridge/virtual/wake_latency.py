"""Wake-up latency: Linux settings for a server that answers within microseconds."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys

_PR_SET_TIMERSLACK = 29
_LATENCY = "/dev/cpu_dma_latency"  # 0 written to it limits the wake-up latency of all cores to 0 µs while it is open


def wake_on_time() -> None:
    """Make this thread wake up on time. Linux only: no timer slack (50 µs), and real-time priority if permitted."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    with contextlib.suppress(OSError):  # for root, or with the rtprio limit set; these threads mostly sleep
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


class Awake:
    """Keeps idle cores from sleeping, between `hold` and `release`; has no effect without the permission.

    A core takes about 40 µs to wake, and a packet on a pseudo-terminal wakes three cores. A 240 µs transaction then
    takes half as long again. Linux: PM quality of service, for root and users that may write to the file.
    """

    def __init__(self) -> None:
        self._request = -1

    def hold(self) -> None:
        """Keep the cores awake from now on, if the system permits it."""
        if self._request >= 0 or sys.platform != "linux":
            return
        with contextlib.suppress(OSError):
            self._request = os.open(_LATENCY, os.O_WRONLY | os.O_CLOEXEC)
            os.write(self._request, struct.pack("i", 0))

    def release(self) -> None:
        """Let the cores sleep again; may be called twice."""
        if self._request >= 0:
            os.close(self._request)
            self._request = -1
