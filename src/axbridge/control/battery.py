"""A robot's battery: energy drained by the computer and the motors, until it is empty for good."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Battery"]


@dataclass
class Battery:
    """Webots' battery field. Nothing fills it: in Webots only a Charger node does, and no rig has one.

    Attributes:
        energy: Left, J.
    """

    energy: float

    @property
    def empty(self) -> bool:
        """Whether motors and sensors are without power."""
        return self.energy <= 0

    def drain(self, power: float, h: float) -> None:
        """Draw `power`, W, for `h` seconds; never below 0."""
        self.energy = max(0.0, self.energy - power * h)
