"""Time as the bus and the robot see it: wall time on a real line, simulated time in the simulator."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock in seconds."""

    def now(self) -> float:
        """Seconds since the clock's own start."""

    def sleep_until(self, due: float) -> None:
        """Return once `now() >= due`; at once when that has passed."""


class WallClock:
    """Monotonic wall time; every wall clock of a process tells the same."""

    def now(self) -> float:
        """Seconds since some moment in the past."""
        return time.monotonic()

    def sleep_until(self, due: float) -> None:
        """Sleep; the operating system's wake-up is the accuracy (about 0.1 ms on Linux)."""
        while (left := due - self.now()) > 0:
            time.sleep(left)
