"""Host-side control arithmetic, without I/O: what Webots' controllers expect a motor and its sensors to do."""

from __future__ import annotations

import math

from axbridge.errors import UsageError

__all__ = ["Sampler"]


class Sampler:
    """A sensor enabled with a sampling period: NaN until the period has passed, then held between samples.

    Times are s, periods ms as in Webots; a period of 0 disables.
    """

    def __init__(self) -> None:
        self.period = 0
        self.value = math.nan
        self._due = math.inf

    def enable(self, period: int, now: float) -> None:
        """Sample every `period` ms from `now` on; 0 disables.

        Raises:
            UsageError: a negative period.
        """
        if period < 0:
            raise UsageError(f"sampling period {period} ms is negative")
        self.period = period
        self.value = math.nan
        self._due = now + period / 1000 if period else math.inf

    def offer(self, value: float, now: float) -> None:
        """Take `value` if a sample is due at `now`; keep the grid of the period."""
        if now < self._due - 1e-9:
            return
        self.value = value
        periods = math.floor((now - self._due) * 1000 / self.period + 1e-6) + 1
        self._due += periods * self.period / 1000
