"""What the intervals owe to constants that a fit holds: another servo, gear or supply has others.

Each constant is moved by `OFF` to either side, and the unknowns are fitted again from where they are. As far as they
go, they may be off, and the intervals allow for it: no fit of this data shows it. Where the squared error grows, the
data tell the constant, too; it then counts only as far as the error stays within `TOLERANCE` of the least (a parabola
through the three fits). Of several constants the squares add up. But any one of them may be off that far by itself, and
what the data leave open then comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.fit.search import Mapper
from axbridge.fit.uncertainty import TOLERANCE, Uncertainty, misfits, polish
from axbridge.fit.unknowns import DUTY, HOLD, STEPS, Space
from axbridge.servo.columns import Param
from axbridge.sim.runs import Runs

OFF = 0.3  # share by which a constant may be off
ROUNDS = 8  # of each fit
BETTER = 4 * TOLERANCE  # of the squared error: a constant that saves so much is likely another
_TRIED = np.linspace(-1.0, 1.0, 201)


@dataclass(frozen=True)
class Held:
    """A constant that a fit holds.

    Attributes:
        name: In words.
        columns: Of a parameter set; none = the supply, or what the joint carries.
        best_experiment: Recording it tells this constant best.
        load: Columns of `Runs.load`, where it is of those.
        off: Share by which it may be off.
    """

    name: str
    columns: tuple[Param, ...]
    best_experiment: str
    load: tuple[int, ...] = ()
    off: float = OFF


_CONSTANTS = (
    Held("resistance", (Param.RESISTANCE, Param.RESISTANCE_PER_DUTY), HOLD),
    Held("torque constant", (Param.CONSTANT,), DUTY),
    Held("dead duty", (Param.DEAD_DUTY,), HOLD),
    Held("lag", (Param.LAG,), STEPS),
    Held("supply", (), "a voltmeter at the servo"),
)
_CARRIED = (
    Held("inertia carried", (), "the same servo with a known load", load=(0,)),
    Held("weight carried", (), "the same servo with a known load", load=(1, 2, 3), off=0.1),
)


def held_in(space: Space, runs: Runs) -> tuple[Held, ...]:
    """The constants that a fit with this space holds, and that do something."""
    searched = {unknown.column for unknown in space.unknowns}
    found = [one for one in _CONSTANTS if not searched & {*one.columns}]
    found = [one for one in found if not one.columns or any(space.base[column] > 0 for column in one.columns)]
    return (*found, *_CARRIED) if len(runs.load) else tuple(found)


def _refitted(space: Space, runs: Runs, point: FloatArray, move: tuple[Held, float]) -> tuple[FloatArray, float]:
    """Where a point (n,) goes when a constant is multiplied, and the squared error there."""
    one, factor = move
    if one.columns:
        base = space.base.copy()
        base[list(one.columns)] *= factor
        space = replace(space, base=base)
    elif one.load:
        load = runs.load.copy()
        load[:, list(one.load)] *= factor
        runs = runs._replace(load=load)
    else:
        runs = runs._replace(supply=runs.supply * factor)
    found = polish(space, runs, point, rounds=ROUNDS)
    return found, float(misfits(space, runs, found[None])[0])


def allowing(
    sure: Uncertainty,
    space: Space,
    runs: Runs,
    point: FloatArray,
    constants: Sequence[Held],
    spread: Mapper = map,
) -> tuple[Uncertainty, tuple[str, ...]]:
    """Intervals of a point (n,) that allow for held constants, and in words which of them the data want otherwise.

    Args:
        sure: The intervals without.
        space: The unknowns.
        runs: What was fitted.
        point: Where the fit ended.
        constants: See `held_in`.
        spread: What runs the fits; see `axbridge.fit.search.executor`.
    """
    if not constants:
        return sure, ()
    moves = [(one, 1 + sign * one.off) for one in constants for sign in (-1, 1)]
    found = list(spread(partial(_refitted, space, runs, point), moves))
    least = float(misfits(space, runs, point[None])[0])
    down, up, wanted = [], [], []
    for one, below, above in zip(constants, found[::2], found[1::2], strict=True):
        rises = np.array([below[1], least, above[1]]) / least - 1
        rise, possible = _parabola(rises), _possible(rises)
        ways = _parabola(np.array([below[0] - point, np.zeros(len(space)), above[0] - point]))
        ways = ways[(possible.min() <= _TRIED) & (possible.max() >= _TRIED)]
        down.append(-ways.min(axis=0))
        up.append(ways.max(axis=0))
        off = one.off * float(_TRIED[int(np.argmin(rise))])
        if rise.min() < -BETTER and _refitted(space, runs, point, (one, 1 + off))[1] < (1 - BETTER) * least:
            wanted.append(
                f"the recordings would suit a {one.name} about {abs(off):.0%} {'larger' if off > 0 else 'smaller'} "
                f"than the model's; what would tell: {one.best_experiment}"
            )
    return _wider(sure, space, point, np.array(down), np.array(up)), tuple(wanted)


def _possible(rises: FloatArray) -> FloatArray:
    """Which of `_TRIED` a constant may be, from what the squared error rises by (3,) at -1, 0 and 1; 0 is always one.

    Measured against the least of the three: a parabola may dip where the error does not.
    """
    return np.append(_TRIED[_parabola(rises) <= rises.min() + TOLERANCE], 0.0)


def _parabola(values: FloatArray) -> FloatArray:
    """Through values (3, …) at -1, 0 and 1: at `_TRIED`."""
    x = _TRIED.reshape(-1, *[1] * (values.ndim - 1))
    result: FloatArray = values[1] + x * (values[2] - values[0]) / 2 + x**2 * ((values[2] + values[0]) / 2 - values[1])
    return result


def _wider(sure: Uncertainty, space: Space, point: FloatArray, down: FloatArray, up: FloatArray) -> Uncertainty:
    """The intervals wider by what each constant does (c, n); what the data tell with constants as they are stays."""
    columns = [unknown.column for unknown in space.unknowns]
    ends = np.repeat(space.base[None], 2, axis=0)
    ends[:, columns] = sure.low, sure.high
    below, above = _reach(point - space.point(ends[0]), down), _reach(space.point(ends[1]) - point, up)
    low, high = (space.sets(end[None])[0][columns] for end in (point - below, point + above))
    return replace(sure, low=low, high=high)


def _reach(own: FloatArray, moved: FloatArray) -> FloatArray:
    """How far an interval reaches (n,), given what it does by itself, and what each constant adds (c, n)."""
    result: FloatArray = np.maximum(np.sqrt(own**2 + np.sum(moved**2, axis=0)), own + moved.max(axis=0))
    return result


def in_words(constants: Sequence[Held]) -> str:
    """For a sentence: what the intervals allow for."""
    return ", ".join(f"{one.name} (±{one.off:.0%})" for one in constants)
