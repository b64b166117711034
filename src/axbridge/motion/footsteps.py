"""Which foot stands where: the plan of a walk, before any leg moves."""

from __future__ import annotations

import math
from dataclasses import dataclass

SIDES = ("left", "right")
_OTHER = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Foothold:
    """Where a foot stands on the floor.

    Attributes:
        x: Ahead of where the walk begins, m.
        y: To the left of it, m.
        turn: Turned to the left, rad.
    """

    x: float
    y: float
    turn: float

    def moved(self, ahead: float, left: float, turn: float = 0.0) -> Foothold:
        """So much ahead and to the left, as seen from here, then turned."""
        c, s = math.cos(self.turn), math.sin(self.turn)
        return Foothold(self.x + c * ahead - s * left, self.y + s * ahead + c * left, self.turn + turn)


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        side: The foot that is lifted.
        start: Where it stood.
        end: Where it is set down.
        standing: Where the other one stands.
    """

    side: str
    start: Foothold
    end: Foothold
    standing: Foothold


def footsteps(count: int, ahead: float, left: float, turn: float, apart: float) -> list[Step]:
    """Steps that lead ahead, to the side, round a bend, or all of it; one more closes the feet."""
    middle = Foothold(0.0, 0.0, 0.0)
    side = "left" if left > 0 or (left == 0 and turn > 0) else "right"  # the foot on that side opens
    half = {"left": apart / 2, "right": -apart / 2}
    feet = {name: middle.moved(0.0, half[name]) for name in SIDES}
    steps = []
    for number in range(count + 1):
        other = _OTHER[side]
        if number == count:
            middle = feet[other].moved(0.0, -half[other])
        else:
            opens = number % 2 == 0
            middle = middle.moved(ahead, left if opens else 0.0, turn if opens else 0.0)
        end = middle.moved(0.0, half[side])
        steps.append(Step(side, feet[side], end, feet[other]))
        feet[side] = end
        side = other
    return steps
