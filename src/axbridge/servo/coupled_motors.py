"""Motors coupled by name: `base::member` motors of one robot follow each other, each by its own multiplier.

Source: Webots Reference Manual, Motor, "Coupled Motors".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

_DELIMITER = "::"


@dataclass(frozen=True)
class Limits:
    """What a motor may be asked for, in the units of its joint.

    Attributes:
        low: Lowest position; -inf = unlimited.
        high: Highest position; inf = unlimited.
        velocity: Highest speed.
    """

    low: float
    high: float
    velocity: float


def base_name(name: str) -> str | None:
    """The part before ``::`` of a name of exactly two parts; None for other names, which do not couple."""
    parts = name.split(_DELIMITER)
    return parts[0] if len(parts) == 2 and all(parts) else None


def couplings(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Motors by the base name they share, in the order given; a lone ``a::b`` is a group of one."""
    groups: dict[str, tuple[str, ...]] = {}
    for name in names:
        base = base_name(name)
        if base is not None:
            groups[base] = (*groups.get(base, ()), name)
    return groups


def scaled(command: float, multiplier: float) -> float:
    """What one motor of a coupling does about a command; infinity is not multiplied."""
    return command if math.isinf(command) else command * multiplier


def sibling_limits(
    limits: Mapping[str, Limits], multipliers: Mapping[str, float]
) -> tuple[dict[str, Limits], list[str]]:
    """Rewrite the limits of a coupling so that they are the first motor's, scaled."""
    first, *others = limits
    leader = limits[first]
    result = {first: leader}
    warnings = []
    for name in others:
        ratio = multipliers[name] / multipliers[first]
        ends = sorted((leader.low * ratio, leader.high * ratio))
        wanted = replace(leader, low=ends[0], high=ends[1], velocity=leader.velocity * abs(ratio))
        result[name] = wanted
        if not _same(wanted, limits[name]):
            warnings.append(
                f"limits of {name!r} become {wanted.low:g}..{wanted.high:g}, velocity {wanted.velocity:g}: "
                f"those of {first!r} times {ratio:g}"
            )
    return result, warnings


def _same(a: Limits, b: Limits) -> bool:
    pairs = ((a.low, b.low), (a.high, b.high), (a.velocity, b.velocity))
    return all(x == y or math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12) for x, y in pairs)
