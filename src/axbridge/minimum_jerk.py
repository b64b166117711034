"""Minimum-jerk trajectories from rest to rest: the integral of the squared jerk over time is least.

Source: Flash and Hogan 1985, "The coordination of arm movements", equation for one dimension between two points.
"""

from __future__ import annotations

import math

from axbridge.errors import UsageError

PEAK = 1.875  # highest speed over the mean speed
_GENTLE_SPEED, _GENTLE_TIME = math.radians(60), 0.5  # rad/s at most, s at least, when no speed is given


def eased(share: float) -> float:
    """Return the share of the distance, 0..1, after this share of the time; 0 before the start, 1 after the end."""
    u = min(max(share, 0.0), 1.0)
    return u * u * u * (10 + u * (6 * u - 15))


def shortest(distance: float, top_speed: float) -> float:
    """Return the shortest time, s, for a distance (rad) with at most `top_speed` (rad/s); UsageError if that is 0."""
    if not top_speed > 0:
        raise UsageError(f"a joint with a top speed of {top_speed:g} rad/s cannot move", "raise its max_velocity")
    return 0.0 if math.isinf(top_speed) else PEAK * abs(distance) / top_speed


def gentle(distance: float, top_speed: float) -> float:
    """Return the time, s, for a distance (rad) with at most 60°/s and `top_speed` (rad/s); at least 0.5 s."""
    return max(_GENTLE_TIME, shortest(distance, min(top_speed, _GENTLE_SPEED)))
