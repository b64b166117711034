"""Functions without branches or calls, so that a loop over many of them runs in vector registers."""

from __future__ import annotations

import math

from axbridge.plant.jit import jit

__all__ = ["decayed", "sine"]

_ENOUGH = 37.0  # exp(-37) is lost beside 1


@jit
def decayed(x: float) -> float:
    """1 - exp(-x) for x ≥ 0, within 3e-16 of it, and as exact relative to it where x is small.

    Taylor's series of expm1(y), y = -x/16, then four times expm1(2y) = e·(e + 2), which keeps small values exact.
    """
    y = min(x, _ENOUGH) * (-1 / 16)
    y2 = y * y
    y4 = y2 * y2
    low = (
        (1.0 + y * (1 / 2))
        + y2 * (1 / 6 + y * (1 / 24))
        + y4 * (1 / 120 + y * (1 / 720) + y2 * (1 / 5040 + y * (1 / 40320)))
    )
    high = (1 / 362880 + y * (1 / 3628800)) + y2 * (1 / 39916800 + y * (1 / 479001600)) + y4 * (1 / 6227020800)
    e = y * (low + y4 * y4 * high)
    e = e * (e + 2.0)
    e = e * (e + 2.0)
    e = e * (e + 2.0)
    return -e * (e + 2.0)


@jit
def sine(x: float) -> float:
    """The sine within 4e-16, and what x itself is rounded by: Taylor's series, of x less the nearest multiple of π."""
    turns = math.floor(x * (1 / math.pi) + 0.5)
    r = x - turns * math.pi
    s = r * r
    e = s * (1 / 6227020800 - s * (1 / 1307674368000 - s * (1 / 355687428096000 - s * (1 / 121645100408832000))))
    e = s * (1 / 120 - s * (1 / 5040 - s * (1 / 362880 - s * (1 / 39916800 - e))))
    odd = turns - 2.0 * math.floor(0.5 * turns)
    return (r - r * s * (1 / 6 - e)) * (1.0 - 2.0 * odd)
