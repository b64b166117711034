"""The smoothest way from rest to rest: the path whose jerk, squared and summed over time, is least.

Source: Flash and Hogan 1985, "The coordination of arm movements", equation for one dimension between two points.
"""

from __future__ import annotations

import math

from axbridge.errors import UsageError

PEAK = 1.875  # highest speed over the mean speed
_SOFTLY, _SHORTEST = math.radians(60), 0.5  # rad/s at most, s at least, where nobody has said how fast


def eased(share: float) -> float:
    """Share of the way, 0..1, after this share of the time; 0 before the start, 1 after the end."""
    u = min(max(share, 0.0), 1.0)
    return u * u * u * (10 + u * (6 * u - 15))


def shortest(distance: float, top_speed: float) -> float:
    """Time, s, that a distance (rad) needs at least when the speed (rad/s) may not exceed `top_speed`."""
    if not top_speed > 0:
        raise UsageError(f"a joint that may turn at {top_speed:g} rad/s gets nowhere", "raise its max_velocity")
    return 0.0 if math.isinf(top_speed) else PEAK * abs(distance) / top_speed


def gentle(distance: float, top_speed: float) -> float:
    """Time, s, for a distance (rad) at 60°/s at most, and at no more than `top_speed` (rad/s)."""
    return max(_SHORTEST, shortest(distance, min(top_speed, _SOFTLY)))
