"""Clocks of the bus and the robot: wall time on a real line, simulated time in the simulator."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock in seconds."""

    def now(self) -> float:
        """Return the time since the clock's own start, s."""

    def sleep_until(self, due: float) -> None:
        """Wait until `now() >= due`, s; return at once when that time has passed."""


class WallClock:
    """Monotonic wall time; all wall clocks of a process show the same time."""

    def now(self) -> float:
        """Return the time since an arbitrary moment in the past, s."""
        return time.monotonic()

    def sleep_until(self, due: float) -> None:
        """Sleep until `due`, s; accuracy is the operating system's wake-up delay (about 0.1 ms on Linux)."""
        while (left := due - self.now()) > 0:
            time.sleep(left)
