"""What a servo is asked for, within which limits, and motors that follow each other's commands.

`base::member` motors of one robot are coupled, each by its own multiplier. Source: Webots Reference Manual, Motor,
"Coupled Motors".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Setpoints:
    """What a servo was last asked for, after checks, clipping and multiplier. Units: rad and N·m, or m and N."""

    target: float  # target position; ±inf = velocity control; NaN = none yet
    velocity: float  # limit of the approach; in velocity control the signed set-point
    acceleration: float  # -1 = unlimited
    available_torque: float  # cap of what the motor gives
    gains: tuple[float, float, float]  # P, I, D of the velocity loop
    torque: float | None = None  # torque to apply instead of position or velocity control; None = not in torque control
    duty: float | None = None  # duty to turn with, -1..1, instead of all other control; None = not turning by duty
    gains_set: int = 0  # how often gains were set; a change resets the loop's integral
    damping: float = 0.0  # added by the brake, N·m·s/rad
    enabled: bool = False  # whether the motor is switched on

    @property
    def endless(self) -> bool:
        """Whether the target is infinite: velocity control."""
        return math.isinf(self.target)


@dataclass(frozen=True)
class Limits:
    """Lowest and highest position (infinite = unlimited) and highest speed of a motor, in the units of its joint."""

    low: float
    high: float
    velocity: float

    def times(self, ratio: float) -> Limits:
        """Those of a motor that goes `ratio` times as far."""
        low, high = sorted((self.low * ratio, self.high * ratio))
        return Limits(low, high, self.velocity * abs(ratio))

    def is_close(self, other: Limits) -> bool:
        """Whether both are the same but for rounding."""
        pairs = ((self.low, other.low), (self.high, other.high), (self.velocity, other.velocity))
        return all(math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12) for one, two in pairs)


def couplings(names: Sequence[str]) -> dict[str, list[str]]:
    """Motors by the base they share in names of exactly two parts, in the order given; a lone ``a::b`` is a group."""
    groups: dict[str, list[str]] = {}
    for name in names:
        parts = name.split("::")
        if len(parts) == 2 and all(parts):
            groups.setdefault(parts[0], []).append(name)
    return groups


def scaled(command: float, multiplier: float) -> float:
    """What one motor of a coupling does about a command; infinity is not multiplied."""
    return command if math.isinf(command) else command * multiplier
