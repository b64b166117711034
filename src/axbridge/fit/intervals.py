"""Uncertainty of a fit: intervals, correlations, and unknowns that the data do not separate.

Gauss-Newton at the optimum, with finite differences as wide as the resulting intervals. Model errors are correlated in
time, so the covariance is the sandwich `H⁻¹ (Σ gₖ gₖᵀ) H⁻¹` over blocks of `BLOCK` seconds. It is at least that of
rounding, whose error is the same in all readings of a joint at rest, and at least that of the jackknife over
recordings. Values that raise the squared error by less than the share `TOLERANCE` count as possible. Added are the
error of the simulation's step, and the millisecond within which the servo's loop may read a command.

*Constants of a fit* (`marginalise_constants`): each is changed in both directions, and the unknowns are fitted again.
The intervals include the unknowns' changes while the squared error stays within `TOLERANCE` of the least (a parabola
through the three fits). The squares of several constants, and of the data's uncertainty, are added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.fit.least_squares import DELTAS, PULL, QUANTILE, TOLERANCE, misfits, polish, residuals, slopes
from axbridge.fit.prediction import FINE, HUBER, predicted, shared, weights
from axbridge.fit.search import Mapper
from axbridge.fit.unknowns import DUTY, HOLD, STEPS, Space
from axbridge.servo.columns import Param
from axbridge.sim.runs import Runs

BLOCK = 0.25  # s
GROUPS = 12  # groups of recordings for the jackknife: the cost grows with the recordings, not with their square
WIDENED, WIDTHS = 2, (0.004, 0.25)  # repetitions of the derivatives; least and greatest width of their differences
LOOP = 0.5e-3  # s: standard deviation of the time within the servo's loop at which a command acts
CAPPED = 3.0  # residuals are clipped to this number of median deviations: larger ones are model errors, not noise
FLAT = 0.2  # from this standard error on, as a share of its range, an unknown is not identified
ALIKE = 0.95  # from this correlation on, two unknowns are not separated
OFF = 0.3  # possible error of a constant, as a share of it
ROUNDS = 8  # of each fit with a changed constant
BETTER = 4 * TOLERANCE  # a constant that reduces the squared error by this share probably has another value
_TRIED = np.linspace(-1.0, 1.0, 201)  # changes of a constant, in units of its `off`


@dataclass(frozen=True)
class Uncertainty:
    """Uncertainty of a fit with n unknowns."""

    low: FloatArray  # lower ends of the 95 % intervals, SI, (n,)
    high: FloatArray  # upper ends, (n,)
    correlation: FloatArray  # (n, n)
    share: FloatArray  # standard error as a share of the searched range, (n,)
    flat: tuple[str, ...]  # names of unknowns that the data do not identify
    alike: tuple[tuple[str, str, float], ...]  # pairs of names that the data do not separate, with their correlation
    at_end: tuple[str, ...]  # names of unknowns at an end of their range


def flat_of(space: Space, share: FloatArray) -> tuple[str, ...]:
    """Return the names of unknowns that the data do not identify, from their standard errors (n,), in ranges."""
    limits = np.minimum(FLAT, space.usual)
    return tuple(u.name for u, error, limit in zip(space.unknowns, share, limits, strict=True) if error > limit)


def widen_to(bounds: Uncertainty, space: Space, point: FloatArray, other: FloatArray) -> Uncertainty:
    """Return the intervals of a point (n,), widened to include another point (n,) that fits the data as well."""
    values, share = space.values(other), np.maximum(bounds.share, np.abs(other - point) / QUANTILE)
    low, high = np.minimum(bounds.low, values), np.maximum(bounds.high, values)
    return replace(bounds, low=low, high=high, share=share, flat=flat_of(space, share))


def uncertainty(space: Space, runs: Runs, point: FloatArray, mapper: Mapper = map) -> Uncertainty:
    """Return the intervals of the unknowns at the optimum (len(space),) of these runs, or parts of runs."""
    error = residuals(space, runs, point[None])[0]
    coarser = error - residuals(space, runs, point[None], FINE / 2)[0]
    usual = CAPPED * 1.4826 * float(np.median(np.abs(error[runs.judged])))
    bound = np.maximum(usual, HUBER * weights(space, runs))  # below it, a fit minimises squares
    error = np.clip(error, -bound, bound)
    variance = PULL * float(error @ error)
    slope = slopes(space, runs, point)
    for _ in range(WIDENED):
        covariance, inverse = _covariance(runs, slope, error)
        slope = _wide_slopes(space, runs, point, slope, covariance + variance * inverse)
    covariance, inverse = _covariance(runs, slope, error)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-16))
    correlation = covariance / np.outer(deviation, deviation)
    apart = _left_out(runs, slope, error, inverse) if len(runs.source) else _jackknife(space, runs, point, mapper)
    deviation = np.maximum(deviation, apart)
    rounding, reading = shared(space, runs)
    rounding = np.degrees(rounding) * weights(space, runs)
    deviation = np.maximum(deviation, _of_shared(slope, rounding, reading, inverse))
    latency = np.array([LOOP / (u.high - u.low) if u.column is Param.LATENCY else 0.0 for u in space.unknowns])
    moments = np.repeat(space.row(point)[None], 2, axis=0)
    moments[:, Param.LATENCY] += -2 * LOOP, 2 * LOOP
    early, late = predicted(moments, runs)
    delayed = np.degrees(late - early) / 4 * weights(space, runs)  # effect of the time within the loop
    timing = _of_shared(slope, delayed, _commands(runs), inverse)
    deviation = np.sqrt(
        deviation**2 + variance * np.diag(inverse) + (inverse @ slope.T @ coarser) ** 2 + latency**2 + timing**2
    )
    names = [unknown.name for unknown in space.unknowns]
    low, high = (space.values(point + sign * QUANTILE * deviation) for sign in (-1, 1))
    pairs = ((i, j) for i in range(len(space)) for j in range(i) if abs(correlation[i, j]) > ALIKE)
    return Uncertainty(
        low, high, correlation, deviation, flat_of(space, deviation),
        tuple((names[i], names[j], float(correlation[i, j])) for i, j in pairs),
        tuple(name for name, share in zip(names, point, strict=True) if share < 0.005 or share > 0.995),
    )  # fmt: skip


def _covariance(runs: Runs, slope: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sandwich (n, n) of slopes (l, n) and errors (l,) in blocks of time, and the inverse normal matrix."""
    blocks = ((runs.time - runs.time.min()) / BLOCK).astype(int)  # the same for parts that overlap
    number = np.unique(_cut_from(runs) * 1_000_000 + blocks, return_inverse=True)[1]
    scores, normal, unknowns = _sums(slope, error, number), slope.T @ slope, slope.shape[1]
    inverse: FloatArray = np.linalg.pinv(normal + 1e-10 * np.trace(normal) / unknowns * np.eye(unknowns))
    covariance: FloatArray = inverse @ (scores.T @ scores) @ inverse * len(scores) / max(1, len(scores) - unknowns)
    return covariance, inverse


def _cut_from(runs: Runs) -> IntArray:
    """Return the number of each sample's recording, (l,)."""
    return runs.each(runs.source if len(runs.source) else np.arange(runs.recordings))


def _sums(slope: FloatArray, error: FloatArray, number: IntArray) -> FloatArray:
    """Return the sums (k, n) of slopes (l, n) times errors (l,) over the samples of each number (l,)."""
    scores = np.zeros((int(number.max()) + 1, slope.shape[1]))
    np.add.at(scores, number, slope * error[:, None])
    return scores


def _jackknife(space: Space, runs: Runs, point: FloatArray, mapper: Mapper) -> FloatArray:
    """Return standard errors (n,) from the estimates without each group of recordings in turn.

    Groups consist of neighbours: consecutive recordings are often similar, so their errors are, too.
    """
    groups = np.array_split(np.arange(runs.recordings), min(GROUPS, runs.recordings))
    if len(groups) < 2:
        return point * 0
    left = [[int(k) for other in groups if other is not group for k in other] for group in groups]
    return _student(np.array(list(mapper(partial(_without, space, runs, point), left))))


def _without(space: Space, runs: Runs, point: FloatArray, kept: list[int]) -> FloatArray:
    """Return the estimates (n,) from these recordings alone, started at a point."""
    return polish(space, runs.only(kept), point, rounds=3)


def _left_out(runs: Runs, slope: FloatArray, error: FloatArray, inverse: FloatArray) -> FloatArray:
    """Return standard errors (n,) as `_jackknife`, for parts; to first order, as `polish` did not find the point."""
    number = _cut_from(runs)
    groups = min(GROUPS, int(number.max()) + 1)
    moves = _sums(slope, error, number * groups // (int(number.max()) + 1)) @ inverse
    return _student(moves * groups / (groups - 1)) if groups > 1 else moves[0] * 0


def _student(points: FloatArray) -> FloatArray:
    """Return standard errors (n,) of jackknife estimates (k, n); times `QUANTILE` they are Student's interval."""
    from scipy.special import stdtrit  # scipy.stats takes half a second longer to import

    count = len(points)
    deviation = np.sqrt((count - 1) / count * np.sum((points - points.mean(axis=0)) ** 2, axis=0))
    result: FloatArray = deviation * float(stdtrit(count - 1, 0.975)) / QUANTILE
    return result


def _commands(runs: Runs) -> IntArray:
    """Return the number of each sample's command, (l,)."""
    fresh = np.zeros(len(runs.time), dtype=bool)
    fresh[runs.start[:-1]] = True
    for column in (runs.goal, runs.driven, runs.duty, runs.speed_limit, runs.cap):
        fresh[1:] |= np.diff(column) != 0.0
    return np.cumsum(fresh)


def _of_shared(slope: FloatArray, error: FloatArray, number: IntArray, inverse: FloatArray) -> FloatArray:
    """Return standard errors (n,) from errors (l,) that are fully correlated among the samples of each number (l,)."""
    result: FloatArray = np.sqrt(np.sum((_sums(slope, error, number) @ inverse) ** 2, axis=0))
    return result


def _wide_slopes(space: Space, runs: Runs, point: FloatArray, slope: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the derivatives of the residuals (l, n), from differences as wide as a covariance (n, n).

    The motion is not smooth in the parameters: small differences show slopes that larger ones do not have.
    """
    variances, directions = np.linalg.eigh(covariance)
    columns = slope @ directions
    for index, direction in enumerate(directions.T):
        width = min(max(math.sqrt(max(0.0, variances[index])), WIDTHS[0]), WIDTHS[1])
        reach = np.maximum(np.abs(direction), 1e-12)
        below = min(width, float(np.min(np.where(direction > 0, point, 1 - point) / reach)))
        above = min(width, float(np.min(np.where(direction > 0, 1 - point, point) / reach)))
        if below + above < DELTAS[0]:  # in a corner of the ranges
            continue
        errors = residuals(space, runs, np.array([point - below * direction, point + above * direction]))
        columns[:, index] = (errors[1] - errors[0]) / (below + above)
    result: FloatArray = columns @ directions.T
    return result


@dataclass(frozen=True)
class Constant:
    """A parameter that a fit does not search."""

    name: str  # in words
    columns: tuple[Param, ...]  # of a parameter set; none = the supply voltage or the joint's load
    best_experiment: str  # the experiment that identifies this constant best
    load: tuple[int, ...] = ()  # columns of `Runs.load`, for a constant of the load
    off: float = OFF  # possible error, as a share


_CONSTANTS = (
    Constant("resistance", (Param.RESISTANCE, Param.RESISTANCE_PER_DUTY), HOLD),
    Constant("torque constant", (Param.CONSTANT,), DUTY),
    Constant("dead duty", (Param.DEAD_DUTY,), HOLD),
    Constant("lag", (Param.LAG,), STEPS),
    Constant("supply", (), "a voltmeter at the servo"),
)
_CARRIED = (
    Constant("inertia carried", (), "the same servo with a known load", load=(0,)),
    Constant("weight carried", (), "the same servo with a known load", load=(1, 2, 3), off=0.1),
)


def constants_of(space: Space, runs: Runs) -> tuple[Constant, ...]:
    """Return the constants that this space does not search and that are not 0."""
    searched = {unknown.column for unknown in space.unknowns}
    constants = [c for c in _CONSTANTS if not searched & {*c.columns}]
    constants = [c for c in constants if not c.columns or any(space.base[column] > 0 for column in c.columns)]
    return (*constants, *_CARRIED) if len(runs.load) else tuple(constants)


class Wanted(NamedTuple):
    """A constant for which another value fits better: its factor, and the optimum (n,) with it."""

    constant: Constant
    factor: float
    point: FloatArray


def moved(space: Space, runs: Runs, constant: Constant, factor: float) -> tuple[Space, Runs]:
    """Return a fit's space and runs with a constant multiplied by a factor."""
    if constant.columns:
        base = space.base.copy()
        base[list(constant.columns)] *= factor
        space = replace(space, base=base)
    elif constant.load:
        load = runs.load.copy()
        load[:, list(constant.load)] *= factor
        runs = runs._replace(load=load)
    else:
        runs = runs._replace(supply=runs.supply * factor)
    return space, runs


def _refitted(space: Space, runs: Runs, point: FloatArray, move: tuple[Constant, float]) -> tuple[FloatArray, float]:
    """Return the optimum (n,) near a point (n,) with a constant multiplied, and its squared error."""
    space, runs = moved(space, runs, *move)
    refitted = polish(space, runs, point, rounds=ROUNDS)
    return refitted, float(misfits(space, runs, refitted[None])[0])


def marginalise_constants(
    bounds: Uncertainty,
    space: Space,
    runs: Runs,
    point: FloatArray,
    constants: Sequence[Constant],
    mapper: Mapper = map,
) -> tuple[Uncertainty, tuple[Wanted, ...]]:
    """Return the intervals of a point (n,) with errors of constants included, and the constants with better values."""
    moves = [(c, 1 + sign * c.off) for c in constants for sign in (-1, 1)]
    refits = list(mapper(partial(_refitted, space, runs, point), moves))
    least = float(misfits(space, runs, point[None])[0])
    signs = [1 if above[1] < below[1] else -1 for below, above in zip(refits[::2], refits[1::2], strict=True)]
    halfway = [(c, 1 + sign * c.off / 2) for c, sign in zip(constants, signs, strict=True)]
    halves = list(mapper(partial(_refitted, space, runs, point), halfway))
    down, up, wanted = [], [], []
    for c, below, above, sign, half in zip(constants, refits[::2], refits[1::2], signs, halves, strict=True):
        possible = _tolerable(np.array([below[1], least, above[1]]) / least - 1)
        moves_to = _parabola(np.array([below[0] - point, np.zeros(len(space)), above[0] - point]))
        moves_to = moves_to[(possible.min() <= _TRIED) & (possible.max() >= _TRIED)]
        down.append(-moves_to.min(axis=0))
        up.append(moves_to.max(axis=0))
        whole = above if sign > 0 else below
        if min(half[1], whole[1]) < (1 - BETTER) * least:
            x = float(_TRIED[int(np.argmin(_parabola(np.array([least, half[1], whole[1]]))))])
            factor = 1 + sign * c.off * (1 + x) / 2
            wanted.append(Wanted(c, factor, _refitted(space, runs, point, (c, factor))[0]))
    return _wider(bounds, space, point, np.array(down), np.array(up)), tuple(wanted)


def _tolerable(rises: FloatArray) -> FloatArray:
    """Return the possible changes in `_TRIED`, from the relative rise of the squared error (3,) at -1, 0 and 1."""
    # relative to the least of the three, because the parabola's minimum may be below all errors
    return np.append(_TRIED[_parabola(rises) <= rises.min() + TOLERANCE], 0.0)


def _parabola(values: FloatArray) -> FloatArray:
    """Return a parabola through values (3, …) at -1, 0 and 1, at each of `_TRIED`."""
    x = _TRIED.reshape(-1, *[1] * (values.ndim - 1))
    result: FloatArray = values[1] + x * (values[2] - values[0]) / 2 + x**2 * ((values[2] + values[0]) / 2 - values[1])
    return result


def _wider(bounds: Uncertainty, space: Space, point: FloatArray, down: FloatArray, up: FloatArray) -> Uncertainty:
    """Return the intervals widened by each constant's effect (c, n) in both directions; none becomes narrower."""
    columns = [unknown.column for unknown in space.unknowns]
    own = np.repeat(space.base[None], 2, axis=0)
    own[:, columns] = bounds.low, bounds.high
    ends = []
    for row, sign, added in zip(own, (-1.0, 1.0), (down, up), strict=True):
        width = sign * (space.point(row) - point)
        reach = np.maximum(np.sqrt(width**2 + np.sum(added**2, axis=0)), width + added.max(axis=0))
        ends.append(space.values(point + sign * reach))
    return replace(bounds, low=ends[0], high=ends[1])
