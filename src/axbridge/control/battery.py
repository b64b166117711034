"""A robot's battery: energy drained by the computer and the motors, and what happens when it is empty."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Battery"]


@dataclass
class Battery:
    """Webots' battery field.

    Attributes:
        energy: Left, J.
        capacity: J at most.
        recharge: Power that flows in all the time, W.
    """

    energy: float
    capacity: float
    recharge: float

    @property
    def empty(self) -> bool:
        """Whether motors and sensors are without power."""
        return self.energy <= 0

    def drain(self, power: float, h: float) -> None:
        """Draw `power`, W, for `h` seconds; never below 0, never above the capacity."""
        self.energy = max(0.0, min(self.capacity, self.energy + (self.recharge - power) * h))
