"""Sensors as Webots has them: a sampling period, a value held between samples, a resolution."""

from __future__ import annotations

import math

from axbridge.errors import UsageError

__all__ = ["Sampler", "rounded", "truncated"]


class Sampler:
    """A sensor enabled with a sampling period: NaN until the period has passed, then held between samples.

    Times are s, periods ms as in Webots; a period of 0 disables. A disabled sensor keeps its last value.
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
        if period:
            self.value = math.nan
        self._due = now + period / 1000 if period else math.inf

    def is_due(self, now: float) -> bool:
        """Whether a sample is to be taken at `now`."""
        return now >= self._due - 1e-9

    def offer(self, value: float, now: float) -> None:
        """Take `value` if a sample is due at `now`; keep the grid of the period."""
        if not self.is_due(now):
            return
        self.value = value
        periods = math.floor((now - self._due) * 1000 / self.period + 1e-6) + 1
        self._due += periods * self.period / 1000


def rounded(value: float, resolution: float) -> float:
    """`value` to the nearest multiple of `resolution` (0 = as it is), halves away from zero."""
    if not resolution or not math.isfinite(value):
        return value
    return math.copysign(math.floor(abs(value) / resolution + 0.5), value) * resolution


def truncated(value: float, resolution: float) -> float:
    """`value` as Webots' sensors give it: half a step added, then cut towards zero, so -0.3 at 0.1 reads -0.2."""
    if not resolution or not math.isfinite(value):
        return value
    return int(value / resolution + 0.5) * resolution
