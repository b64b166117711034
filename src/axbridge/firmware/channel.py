"""What clients of a virtual bus connect to: the seam between the server and pseudo-terminals or sockets."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import NamedTuple, Protocol

__all__ = ["Arrival", "Channel", "be_prompt"]

_PR_SET_TIMERSLACK = 29


class Arrival(NamedTuple):
    """Bytes from a client.

    Attributes:
        data: The bytes.
        time: When they came, s on the monotonic clock.
        baud: Bits per second that the client had set; None where it cannot.
    """

    data: bytes
    time: float
    baud: float | None


class Channel(Protocol):
    """What clients connect to.

    Attributes:
        address: Where they find it.
    """

    address: str

    def fileno(self) -> int:
        """Descriptor to wait on; -1 while there is none."""

    def receive(self) -> list[Arrival]:
        """What has come since the last call; called when the descriptor is readable."""

    def write(self, data: bytes) -> None:
        """Hand bytes to the client."""

    def plug(self) -> None:
        """Be there (again)."""

    def unplug(self) -> None:
        """Be gone, as an adapter that was pulled."""

    def close(self) -> None:
        """Let go; may be called twice."""


def be_prompt() -> None:
    """Make this thread wake up on time: on Linux without 50 µs of slack, and before others where that is allowed."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    with contextlib.suppress(OSError):  # for root, or with the rtprio limit set: these threads sleep most of the time
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
