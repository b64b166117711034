"""Sensors as Webots has them: a sampling period, NaN before the first sample, a value held between samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from axbridge.robot.robot import Robot

Quantity = Literal["position", "torque"]
Value = TypeVar("Value")


class Sampler(Generic[Value]):
    """A sensor enabled with a sampling period: NaN until the period has passed, then held between samples.

    Times are s, periods ms as in Webots; a period of 0 disables. A disabled sensor keeps its last value.

    Attributes:
        period: ms; 0 = disabled.
        value: The last sample; NaN before the first.
        due: When the next sample is taken, s; inf when disabled.
    """

    def __init__(self) -> None:
        self.period = 0
        self.value: Value | float = math.nan
        self.due = math.inf

    def enable(self, period: int, now: float) -> None:
        """Sample every `period` ms from `now` on; 0 disables."""
        self.period = period
        if period:
            self.value = math.nan
        self.due = now + period / 1000 if period else math.inf

    def offer(self, value: Value, now: float) -> None:
        """Take `value` if a sample is due at `now`; keep the grid of the period."""
        if now < self.due - 1e-9:
            return
        self.value = value
        periods = math.floor((now - self.due) * 1000 / self.period + 1e-6) + 1
        self.due += periods * self.period / 1000


class Sensors:
    """The sensors that a controller has asked for; each starts disabled."""

    def __init__(self) -> None:
        self._samplers: dict[tuple[str, str], tuple[Callable[[Robot], Any], Sampler[Any]]] = {}

    def of(self, name: str, quantity: str, read: Callable[[Robot], Any]) -> Sampler[Any]:
        """The one sampler of a quantity that a servo or device has, and what reads it."""
        return self._samplers.setdefault((name, quantity), (read, Sampler()))[1]

    @property
    def due(self) -> float:
        """When the next sample is taken, s; inf when all are disabled."""
        return min((sampler.due for _, sampler in self._samplers.values()), default=math.inf)

    def take(self, robot: Robot) -> None:
        """Take the samples that are due now."""
        for read, sampler in self._samplers.values():
            sampler.offer(read(robot), robot.time)


def truncated(value: float, resolution: float) -> float:
    """`value` as Webots' sensors give it: half a step added, then cut towards zero, so -0.3 at 0.1 reads -0.2.

    A value that was rounded to the nearest step before, as a servo's is, comes out as it would have without that.
    """
    if not resolution or not math.isfinite(value):
        return value
    return int(value / resolution + 0.5) * resolution
