"""How sure a fit is: intervals, correlations, and what the data do not separate.

Gauss-Newton at the optimum, with differences as wide as the intervals they lead to. A model error lasts, so the
covariance is the sandwich `H⁻¹ (Σ gₖ gₖᵀ) H⁻¹` over blocks of `BLOCK` seconds. It is at least that of rounding, which
errs alike in all readings of a joint at rest, and at least what the jackknife over recordings says. What raises the
squared error by less than `TOLERANCE` of it counts as possible. Added are what the simulation's step does, and the
millisecond in which the servo's loop may pick up a command.

*Constants that a fit holds* (`marginalise_constants`): each is moved to either side, and the unknowns are fitted again.
The intervals reach as far as they move while the squared error stays within `TOLERANCE` of the least (a parabola
through the three fits). The squares of several constants add up; the uncertainty of the data is added.
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
GROUPS = 12  # of recordings, which the jackknife leaves out in turn: its cost grows as they do, not as their square
WIDENED, WIDTHS = 2, (0.004, 0.25)  # how often slopes are taken again, and how wide their differences are
LOOP = 0.5e-3  # s: standard deviation of the moment within the servo's loop at which a command acts
CAPPED = 3.0  # larger residuals, in median deviations, are held there: they tell of the model, not of the noise
FLAT = 0.2  # the data do not identify an unknown when its standard error is this share of its range
ALIKE = 0.95  # the data do not separate two unknowns when they correlate more
OFF = 0.3  # share by which a constant may be off
ROUNDS = 8  # of each fit with a constant moved
BETTER = 4 * TOLERANCE  # of the squared error: a constant that saves so much is likely another
_TRIED = np.linspace(-1.0, 1.0, 201)


@dataclass(frozen=True)
class Uncertainty:
    """Of a fit with n unknowns."""

    low: FloatArray  # lower ends of the 95 % intervals, SI, (n,)
    high: FloatArray  # upper ends, (n,)
    correlation: FloatArray  # (n, n)
    share: FloatArray  # standard error as a share of the range searched, (n,)
    flat: tuple[str, ...]  # names that the data do not identify
    alike: tuple[tuple[str, str, float], ...]  # pairs of names that the data do not separate, with their correlation
    at_end: tuple[str, ...]  # names that ended at an end of their range


def flat_of(space: Space, share: FloatArray) -> tuple[str, ...]:
    """Names of what the data do not identify, by standard errors (n,): no better known than in the base."""
    limits = np.minimum(FLAT, space.usual)
    return tuple(u.name for u, error, limit in zip(space.unknowns, share, limits, strict=True) if error > limit)


def widen_to(bounds: Uncertainty, space: Space, point: FloatArray, other: FloatArray) -> Uncertainty:
    """Intervals of a point (n,) that reach as far as another one that follows the data as well."""
    values = space.sets(other[None])[0][[unknown.column for unknown in space.unknowns]]
    share = np.maximum(bounds.share, np.abs(other - point) / QUANTILE)
    low, high = np.minimum(bounds.low, values), np.maximum(bounds.high, values)
    return replace(bounds, low=low, high=high, share=share, flat=flat_of(space, share))


def uncertainty(space: Space, runs: Runs, point: FloatArray, mapper: Mapper = map) -> Uncertainty:
    """Intervals of the unknowns at a point (len(space),) where a fit of these runs, or parts of runs, ended."""
    error = residuals(space, runs, point[None])[0]
    coarser = error - residuals(space, runs, point[None], FINE / 2)[0]
    usual = CAPPED * 1.4826 * float(np.median(np.abs(error[runs.judged])))
    bound = np.maximum(usual, HUBER * weights(space, runs))  # below that, a fit counts squares
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
    moments = np.repeat(space.sets(point[None]), 2, axis=0)
    moments[:, Param.LATENCY] += -2 * LOOP, 2 * LOOP
    early, late = predicted(moments, runs)
    delayed = np.degrees(late - early) / 4 * weights(space, runs)  # by the moment within the loop
    timing = _of_shared(slope, delayed, _commands(runs), inverse)
    deviation = np.sqrt(
        deviation**2 + variance * np.diag(inverse) + (inverse @ slope.T @ coarser) ** 2 + latency**2 + timing**2
    )
    names = [unknown.name for unknown in space.unknowns]
    ends = (np.clip(point - QUANTILE * deviation, 0, 1), np.clip(point + QUANTILE * deviation, 0, 1))
    columns = [unknown.column for unknown in space.unknowns]
    low, high = (space.sets(end[None])[0][columns] for end in ends)
    pairs = ((i, j) for i in range(len(space)) for j in range(i) if abs(correlation[i, j]) > ALIKE)
    return Uncertainty(
        low, high, correlation, deviation, flat_of(space, deviation),
        tuple((names[i], names[j], float(correlation[i, j])) for i, j in pairs),
        tuple(name for name, share in zip(names, point, strict=True) if share < 0.005 or share > 0.995),
    )  # fmt: skip


def _covariance(runs: Runs, slope: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The sandwich (n, n) of slopes (l, n) and errors (l,) in blocks of time, and the inverse of the normal matrix."""
    blocks = ((runs.time - runs.time.min()) / BLOCK).astype(int)  # parts that overlap tell the same
    number = np.unique(_cut_from(runs) * 1_000_000 + blocks, return_inverse=True)[1]
    scores, normal, unknowns = _sums(slope, error, number), slope.T @ slope, slope.shape[1]
    inverse: FloatArray = np.linalg.pinv(normal + 1e-10 * np.trace(normal) / unknowns * np.eye(unknowns))
    covariance: FloatArray = inverse @ (scores.T @ scores) @ inverse * len(scores) / max(1, len(scores) - unknowns)
    return covariance, inverse


def _cut_from(runs: Runs) -> IntArray:
    """The number (l,) of the recording that each sample belongs to."""
    return np.repeat(runs.source if len(runs.source) else np.arange(runs.recordings), np.diff(runs.start))


def _sums(slope: FloatArray, error: FloatArray, number: IntArray) -> FloatArray:
    """The sums (k, n) of slopes (l, n) times errors (l,) over the samples of each number."""
    scores = np.zeros((int(number.max()) + 1, slope.shape[1]))
    np.add.at(scores, number, slope * error[:, None])
    return scores


def _jackknife(space: Space, runs: Runs, point: FloatArray, mapper: Mapper) -> FloatArray:
    """Standard errors from what the estimates do when each group of recordings in turn is left out, (n,).

    Groups are of neighbours: recordings given one after the other are often alike, and then err alike.
    """
    groups = np.array_split(np.arange(runs.recordings), min(GROUPS, runs.recordings))
    if len(groups) < 2:
        return point * 0
    left = [[int(k) for other in groups if other is not group for k in other] for group in groups]
    return _student(np.array(list(mapper(partial(_without, space, runs, point), left))))


def _without(space: Space, runs: Runs, point: FloatArray, kept: list[int]) -> FloatArray:
    """Where the estimates (n,) go from a point with these recordings alone."""
    return polish(space, runs.only(kept), point, rounds=3)


def _left_out(runs: Runs, slope: FloatArray, error: FloatArray, inverse: FloatArray) -> FloatArray:
    """Standard errors (n,) as of `_jackknife`, for parts; to first order, because `polish` did not find the point."""
    number = _cut_from(runs)
    groups = min(GROUPS, int(number.max()) + 1)
    moves = _sums(slope, error, number * groups // (int(number.max()) + 1)) @ inverse
    return _student(moves * groups / (groups - 1)) if groups > 1 else moves[0] * 0


def _student(points: FloatArray) -> FloatArray:
    """Standard errors (n,) of estimates that each lack one group (k, n), so that `QUANTILE` are Student's interval."""
    from scipy.special import stdtrit  # scipy.stats has it, too, but takes half a second to import

    count = len(points)
    deviation = np.sqrt((count - 1) / count * np.sum((points - points.mean(axis=0)) ** 2, axis=0))
    result: FloatArray = deviation * float(stdtrit(count - 1, 0.975)) / QUANTILE
    return result


def _commands(runs: Runs) -> IntArray:
    """A number (l,) for every sample, the same for those of one command."""
    fresh = np.zeros(len(runs.time), dtype=bool)
    fresh[runs.start[:-1]] = True
    for column in (runs.goal, runs.driven, runs.duty, runs.speed_limit, runs.cap):
        fresh[1:] |= np.diff(column) != 0.0
    return np.cumsum(fresh)


def _of_shared(slope: FloatArray, error: FloatArray, number: IntArray, inverse: FloatArray) -> FloatArray:
    """Standard errors (n,) from an error (l,) that is the same for all samples of a number (l,), times a normal one."""
    result: FloatArray = np.sqrt(np.sum((_sums(slope, error, number) @ inverse) ** 2, axis=0))
    return result


def _wide_slopes(space: Space, runs: Runs, point: FloatArray, slope: FloatArray, covariance: FloatArray) -> FloatArray:
    """Derivatives of the residuals (l, n) again, from differences as wide as a covariance (n, n) says is open.

    The motion is jagged in the parameters: close differences show slopes where, further off, nothing happens.
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
    """A constant that a fit holds."""

    name: str  # in words
    columns: tuple[Param, ...]  # of a parameter set; none = the supply, or what the joint carries
    best_experiment: str  # recording it identifies this constant best
    load: tuple[int, ...] = ()  # columns of `Runs.load`, where it is of those
    off: float = OFF  # share by which it may be off


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
    """The constants that a fit with this space holds, and that do something."""
    searched = {unknown.column for unknown in space.unknowns}
    constants = [c for c in _CONSTANTS if not searched & {*c.columns}]
    constants = [c for c in constants if not c.columns or any(space.base[column] > 0 for column in c.columns)]
    return (*constants, *_CARRIED) if len(runs.load) else tuple(constants)


class Wanted(NamedTuple):
    """A constant that the recordings want otherwise: by which factor, and where the fit then ends."""

    constant: Constant
    factor: float
    point: FloatArray


def moved(space: Space, runs: Runs, constant: Constant, factor: float) -> tuple[Space, Runs]:
    """A fit's space and runs with a constant multiplied."""
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
    """Where a point (n,) goes when a constant is multiplied, and the squared error there."""
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
    """Intervals of a point (n,) that allow for held constants, and which of them the data want otherwise."""
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
    """Which of `_TRIED` a constant may be, given what the squared error rises by (3,) at -1, 0 and 1."""
    # against the least of the three: a parabola may dip where the error does not
    return np.append(_TRIED[_parabola(rises) <= rises.min() + TOLERANCE], 0.0)


def _parabola(values: FloatArray) -> FloatArray:
    """Through values (3, …) at -1, 0 and 1: at `_TRIED`."""
    x = _TRIED.reshape(-1, *[1] * (values.ndim - 1))
    result: FloatArray = values[1] + x * (values[2] - values[0]) / 2 + x**2 * ((values[2] + values[0]) / 2 - values[1])
    return result


def _wider(bounds: Uncertainty, space: Space, point: FloatArray, down: FloatArray, up: FloatArray) -> Uncertainty:
    """The intervals wider by what each constant does (c, n); what the data tell with constants as they are stays."""
    columns = [unknown.column for unknown in space.unknowns]
    own = np.repeat(space.base[None], 2, axis=0)
    own[:, columns] = bounds.low, bounds.high
    ends = []
    for row, sign, added in zip(own, (-1.0, 1.0), (down, up), strict=True):
        width = sign * (space.point(row) - point)
        reach = np.maximum(np.sqrt(width**2 + np.sum(added**2, axis=0)), width + added.max(axis=0))
        ends.append(space.sets((point + sign * reach)[None])[0][columns])
    return replace(bounds, low=ends[0], high=ends[1])
