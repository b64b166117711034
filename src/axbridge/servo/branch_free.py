"""Functions without branches or calls, so that the compiler can inline them into a kernel."""

from __future__ import annotations

import math

from axbridge.jit import jit

_LARGEST_X = 37.0  # 1 - exp(-37) rounds to 1


@jit
def decayed(x: float) -> float:
    """Return 1 - exp(-x) for x ≥ 0, with an error below 3e-16; for small x the relative error is as small.

    Taylor's series of expm1(y), y = -x/16, then four times expm1(2y) = e·(e + 2), which keeps small values exact.
    """
    y = min(x, _LARGEST_X) * (-1 / 16)
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
    """Return sin(x) within 4e-16, besides the rounding of x: Taylor's series of x minus the nearest multiple of π."""
    turns = math.floor(x * (1 / math.pi) + 0.5)
    r = x - turns * math.pi
    s = r * r
    e = s * (1 / 6227020800 - s * (1 / 1307674368000 - s * (1 / 355687428096000 - s * (1 / 121645100408832000))))
    e = s * (1 / 120 - s * (1 / 5040 - s * (1 / 362880 - s * (1 / 39916800 - e))))
    odd = turns - 2.0 * math.floor(0.5 * turns)
    return (r - r * s * (1 / 6 - e)) * (1.0 - 2.0 * odd)


@jit
def erf(x: float) -> float:
    """Return the error function within 1e-14 for |x| ≤ 4: a polynomial in x² through Chebyshev nodes (mpmath)."""
    u = x * x * (1 / 8) - 1.0
    e = u * -4.461685451537265e-08
    e = u * (-2.0907480664485068e-07 + u * (1.5025706497805747e-07 + e))
    e = u * (-2.5504790474201778e-06 + u * (6.243356501786123e-07 + e))
    e = u * (-1.841467349958465e-05 + u * (7.2297437613821044e-06 + e))
    e = u * (-0.00011777389781220357 + u * (4.7437560640449226e-05 + e))
    e = u * (-0.0006129202594121136 + u * (0.00027584292755275936 + e))
    e = u * (-0.0025782331270215427 + u * (0.0012924610709774494 + e))
    e = u * (-0.008606218602606526 + u * (0.004853602671797829 + e))
    e = u * (-0.022473568774278918 + u * (0.014349587142508053 + e))
    e = u * (-0.045765110393282064 + u * (0.03306063442659595 + e))
    e = u * (-0.07472786574638322 + u * (0.05988690482683432 + e))
    e = u * (-0.10771044252853698 + u * (0.09020899411923695 + e))
    e = u * (-0.17657623330137173 + u * (0.131675116894573 + e))
    return x * (0.35353099564340534 + e)
