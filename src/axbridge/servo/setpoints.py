"""What a servo is asked for: the record that its front half keeps and its drive carries out."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Setpoints:
    """What a servo was last asked for, after checks, clipping and multiplier. Units: rad and N·m, or m and N.

    Attributes:
        target: Target position; ±inf = velocity control; NaN = none yet.
        velocity: Limit of the approach; in velocity control the signed set-point.
        acceleration: -1 = unlimited.
        available_torque: Cap of what the motor gives.
        torque: Torque to apply instead of position or velocity control; None = not in torque control.
        duty: Duty to turn with, -1..1, instead of all other control; None = not turning by duty.
        gains: P, I, D of the velocity loop.
        gains_set: How often gains were set; a change resets the loop's integral.
        damping: Added by the brake, N·m·s/rad.
        enabled: Whether the motor is switched on.
    """

    target: float
    velocity: float
    acceleration: float
    available_torque: float
    gains: tuple[float, float, float]
    torque: float | None = None
    duty: float | None = None
    gains_set: int = 0
    damping: float = 0.0
    enabled: bool = False

    @property
    def endless(self) -> bool:
        """Whether the target is infinite: velocity control."""
        return math.isinf(self.target)
