"""Argument checks of a motor's commands: each returns the value to store and a warning.

Values out of range are clipped. Impossible values are refused, and the old value stays. Units: rad and N·m, or m and N
for a linear joint. A value that is not a number raises UsageError.
"""

from __future__ import annotations

import math
from typing import SupportsFloat, cast

import numpy as np

from axbridge.errors import UsageError

# The value to store, or None for a refused one, which leaves the old value; and why it differs from the request, or "".
Checked = tuple[float | None, str]


def number(value: object, what: str) -> float:
    """Return a set-point as a float; UsageError for text, a complex number, None and a number too large for a float."""
    if type(value) is float:  # the usual case: the general check takes five times as long
        return value
    try:
        if hasattr(value, "__float__") and not isinstance(value, complex):  # isinstance(…, SupportsFloat) takes 20 µs
            return float(cast(SupportsFloat, value))
    except (TypeError, ValueError, OverflowError):
        pass
    raise UsageError(f"{what} must be a number, not {repr(value)[:40]}", "give a number; nothing was sent or changed")


def seed(value: object) -> int:
    """Return a seed of random numbers; UsageError unless it is a whole number of 0 or more."""
    if isinstance(value, int | np.integer) and value >= 0:
        return int(value)
    raise UsageError(f"a seed is a whole number of 0 or more, not {value!r}", "write seed=1")


def position(request: float, low: float, high: float, *, angle: bool = False) -> Checked:
    """Check a target position: clip it to `low`..`high`; an infinite one (velocity control) passes.

    For an `angle`, the warning suggests radians when the value looks like degrees.
    """
    value = float(request)
    if low <= value <= high or math.isinf(value):
        return value, ""
    if math.isnan(value):
        return None, "position must not be NaN; the target stays"
    warning = f"too {'big' if value > high else 'low'} requested position: {value:g} "
    warning += f"> {high:g}" if value > high else f"< {low:g}"
    if angle and is_no_angle(value, low, high) and low <= (meant := math.radians(value)) <= high:
        warning += f" (radians? {value:g}° is {meant:.4g})"
    return high if value > high else low, warning


def is_no_angle(request: float, low: float, high: float) -> bool:
    """Return whether a target outside `low`..`high`, rad, is more than a turn: probably degrees or counts."""
    return abs(request) > 2 * math.pi and not low <= request <= high and not math.isinf(request)


def velocity(request: float, maximum: float, *, endless: bool) -> Checked:
    """Check a velocity set-point: clip it to ±`maximum`; negative only in velocity control (`endless`)."""
    if request < 0 and not endless:
        return None, f"negative velocity {request:g} in position control; the old one stays"
    return _clipped(request, maximum, "velocity", f"max_velocity {maximum:g}")


def acceleration(request: float) -> Checked:
    """Check an acceleration limit; -1 = none."""
    if math.isnan(request) or (request < 0 and request != -1):
        return None, f"acceleration must be positive, or -1 for unlimited, not {request:g}; the old one stays"
    return -1.0 if math.isinf(request) else float(request), ""


def available_torque(request: float, maximum: float) -> Checked:
    """Check a torque limit: clip it to `maximum`."""
    if math.isnan(request) or request < 0:
        return None, f"available torque must be positive, not {request:g}; the old one stays"
    return _clipped(request, maximum, "available torque", f"max_torque {maximum:g}")


def torque(request: float, available: float) -> Checked:
    """Check a torque set-point: clip it to ±`available`."""
    return _clipped(request, available, "torque", f"the available torque {available:g}")


def duty(request: float) -> Checked:
    """Check a duty: clip it to -1..1."""
    return _clipped(request, 1.0, "duty", "full duty, 1")


def _clipped(request: float, largest: float, what: str, limit: str) -> Checked:
    if math.isnan(request):
        return None, f"{what} must not be NaN; the old one stays"
    if abs(request) > largest:
        return math.copysign(largest, request), f"requested {what} {request:g} exceeds {limit}"
    return float(request), ""


def gains(p: float, i: float, d: float) -> str:
    """Return why these gains are refused; "" when they are valid."""
    if any(math.isnan(gain) for gain in (p, i, d)):
        return f"control gains must not be NaN: {p:g}, {i:g}, {d:g}; the old ones stay"
    if not 0 < p < math.inf:
        return f"the P gain must be positive, not {p:g}; the old gains stay"
    if not (0 <= i < math.inf and 0 <= d < math.inf):
        return f"the I and D gains must not be negative: {i:g}, {d:g}; the old gains stay"
    return ""
