"""How sure a fit is: intervals, correlations, and directions in which the data do not care.

Gauss-Newton at the optimum, with differences as wide as the intervals they lead to. Residuals of a simulated motion
are far from independent (a model error lasts), so the covariance is the sandwich `H⁻¹ (Σ gₖ gₖᵀ) H⁻¹` over blocks of
`BLOCK` seconds. Recordings that disagree about a parameter show what the model lacks: the intervals are at least as
wide as the jackknife over recordings says, or over `GROUPS` groups of them. They are also at least as wide as rounding
makes them, which errs alike in all readings of a joint at rest and does not show in how they differ. No model is the
servo: whatever raises the squared error by less than `TOLERANCE` of it counts as possible, too. What the simulation's
own step does to the estimates, and the millisecond in which the servo's loop may pick up a command, are added.

For the same reason an unknown leaves the value of a model of its kind only for a squared error that is worth it: to be
off by the usual distance (`Space.usual`) costs what the tolerance allows one standard error. What the data tell
moves hardly less far for it; what they do not tell stays. The intervals are those of the data alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.errors import AxBridgeError
from axbridge.fit.clocks import predicted
from axbridge.fit.rounding import shared, weights
from axbridge.fit.search import FINE, HUBER, Mapper
from axbridge.fit.unknowns import Space
from axbridge.servo.columns import Param
from axbridge.sim.runs import Runs

BLOCK = 0.25  # s
GROUPS = 12  # of recordings, which the jackknife leaves out in turn: its cost grows as they do, not as their square
STEPS = (0.004, 0.012)  # of the range: two sizes of difference, averaged, because stick-slip makes the motion jagged
WIDENED, WIDTHS = 2, (0.004, 0.25)  # how often slopes are taken again, and how wide their differences are
LOOP = 0.5e-3  # s: standard deviation of the moment within the servo's loop at which a command acts
TOLERANCE = 0.05
QUANTILE = 1.96
PULL = TOLERANCE / QUANTILE**2
CAPPED = 3.0  # residuals beyond so many median deviations are held there: they tell of the model, not of the noise
FLAT = 0.2  # the data do not tell an unknown when its standard error is this share of its range
NOTHING_CHANGES = "the servo's parameters change nothing in these recordings"
ALIKE = 0.95  # the data do not tell two unknowns apart when they correlate more


@dataclass(frozen=True)
class Uncertainty:
    """Of a fit with n unknowns.

    Attributes:
        low: Lower ends of the 95 % intervals, SI, (n,).
        high: Upper ends, (n,).
        correlation: (n, n).
        share: Standard error as a share of the range searched, (n,).
        flat: Names the data do not tell.
        alike: Pairs of names the data do not tell apart, with their correlation.
        at_end: Names that ended at an end of their range.
    """

    low: FloatArray
    high: FloatArray
    correlation: FloatArray
    share: FloatArray
    flat: tuple[str, ...]
    alike: tuple[tuple[str, str, float], ...]
    at_end: tuple[str, ...]


def polish(space: Space, runs: Runs, point: FloatArray, rounds: int = 6, step: float = FINE) -> FloatArray:
    """Robust least squares from a point that is close: damped Gauss-Newton steps (Levenberg) as long as they help.

    The squares are weighed by how far the point is from the space's base, where that is a model of the servo's kind.

    Raises:
        AxBridgeError: no unknown changes anything.
    """
    best = point.copy()
    error = _robust(space, runs, best[None], step)[0]
    square, apart, damping = float(error @ error), _apart(space, best[None])[0], 1e-3
    home, pull = space.point(space.base), PULL / space.usual**2
    for _ in range(rounds):
        slope = _slopes(space, runs, best, step, _robust)
        if not slope.any():
            raise AxBridgeError(NOTHING_CHANGES, "record other motions")
        normal = apart * slope.T @ slope + square * np.diag(pull)
        gradient = apart * slope.T @ error + square * pull * (best - home)
        scale = np.diag(np.maximum(np.diag(normal), 1e-9 * np.trace(normal)))
        trials = [damping * factor for factor in (0.01, 1.0, 30.0, 1e3)]
        points = np.array([np.clip(best - np.linalg.solve(normal + d * scale, gradient), 0, 1) for d in trials])
        errors = _robust(space, runs, points, step)
        squares, ways = np.einsum("kl,kl->k", errors, errors), _apart(space, points)
        chosen, before = int(np.argmin(squares * ways)), square * apart
        if not squares[chosen] * ways[chosen] < before:
            break
        best, error, damping = points[chosen], errors[chosen], trials[chosen]
        square, apart = float(squares[chosen]), ways[chosen]
        if before - square * apart < 1e-5 * square * apart:
            break
    return best


def misfits(space: Space, runs: Runs, points: FloatArray) -> FloatArray:
    """What `polish` minimises, (k,), of points (k, n), deg²."""
    result: FloatArray = np.sum(_robust(space, runs, points) ** 2, axis=1) * _apart(space, points)
    return result


def _apart(space: Space, points: FloatArray) -> FloatArray:
    """What squared errors are multiplied by, (k,), for points (k, n) that are away from the base."""
    away = (points - space.point(space.base)) / space.usual
    result: FloatArray = 1 + PULL * np.sum(away**2, axis=1)
    return result


def flat_of(space: Space, share: FloatArray) -> tuple[str, ...]:
    """Names of what the data do not tell, by standard errors (n,): they know no more than the base does, or nothing."""
    limits = np.minimum(FLAT, space.usual)
    return tuple(one.name for one, error, limit in zip(space.unknowns, share, limits, strict=True) if error > limit)


def reaching(sure: Uncertainty, space: Space, point: FloatArray, other: FloatArray) -> Uncertainty:
    """Intervals of a point (n,) that reach as far as another one that follows the data as well."""
    values = space.sets(other[None])[0][[unknown.column for unknown in space.unknowns]]
    share = np.maximum(sure.share, np.abs(other - point) / QUANTILE)
    low, high = np.minimum(sure.low, values), np.maximum(sure.high, values)
    return replace(sure, low=low, high=high, share=share, flat=flat_of(space, share))


def left_alone(space: Space, runs: Runs, point: FloatArray, flat: Sequence[str]) -> FloatArray:
    """The point with what the data do not tell (`flat`) as the model has it, and the rest polished again.

    Where that would follow the data worse than `TOLERANCE` allows, as many of them as it does, in the order given.
    """
    worst = (1 + TOLERANCE) * misfits(space, runs, point[None])[0]
    kept: tuple[str, ...] = ()
    for names in (tuple(flat), *((name,) for name in flat)):
        free = np.array([unknown.name not in kept + names for unknown in space.unknowns])
        found = space.point(space.base)
        if free.any():
            found[free] = polish(space.without(kept + names), runs, point[free])
        if misfits(space, runs, found[None])[0] <= worst:
            point, kept = found, kept + names
            if names == tuple(flat):
                break
    return point


def uncertainty(
    space: Space,
    runs: Runs,
    point: FloatArray,
    spread: Mapper = map,
    report: Callable[[int, int], None] = lambda _done, _count: None,
) -> Uncertainty:
    """Intervals of the unknowns at a point (len(space),).

    Args:
        space: The unknowns.
        runs: What was fitted.
        point: Where the fit ended.
        spread: What runs the jackknife's fits; see `axbridge.fit.search.executor`.
        report: Called after each of them, with how many are done and how many there are.
    """
    error = _residuals(space, runs, point[None])[0]
    bound = CAPPED * 1.4826 * float(np.median(np.abs(error[runs.judged]))) + 1e-9
    error = np.clip(error, -bound, bound)
    slope = _slopes(space, runs, point)
    for _ in range(WIDENED):
        covariance, inverse = _covariance(runs, slope, error)
        slope = _wide_slopes(space, runs, point, slope, covariance + _tolerated(error) * inverse)
    covariance, inverse = _covariance(runs, slope, error)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-16))
    correlation = covariance / np.outer(deviation, deviation)
    deviation = np.maximum(deviation, _jackknife(space, runs, point, spread, report))
    rounding, reading = shared(space, runs)
    rounding = np.degrees(rounding) * weights(space, runs)
    deviation = np.maximum(deviation, _of_shared(slope, rounding, reading, inverse))
    finer = polish(space, runs, point, rounds=2, step=FINE / 2)
    latency = np.array([LOOP / (u.high - u.low) if u.column is Param.LATENCY else 0.0 for u in space.unknowns])
    timing = _of_shared(slope, LOOP * _delayed(space, runs, point), _commands(runs), inverse)
    wrong = _tolerated(error) * np.diag(inverse)
    deviation = np.sqrt(deviation**2 + (finer - point) ** 2 + latency**2 + timing**2 + wrong)
    names = [unknown.name for unknown in space.unknowns]
    ends = (np.clip(point - QUANTILE * deviation, 0, 1), np.clip(point + QUANTILE * deviation, 0, 1))
    columns = [unknown.column for unknown in space.unknowns]
    low, high = (space.sets(end[None])[0][columns] for end in ends)
    return Uncertainty(
        low,
        high,
        correlation,
        deviation,
        flat_of(space, deviation),
        tuple(
            (names[i], names[j], float(correlation[i, j]))
            for i in range(len(space))
            for j in range(i)
            if abs(correlation[i, j]) > ALIKE
        ),
        tuple(name for name, share in zip(names, point, strict=True) if share < 0.005 or share > 0.995),
    )


def _covariance(runs: Runs, slope: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The sandwich (n, n) of slopes (l, n) and errors (l,) in blocks of time, and the inverse of the normal matrix."""
    block = np.concatenate(
        [
            index * 10_000 + ((runs.time[a:b] - runs.time[a]) / BLOCK).astype(int)
            for index, (a, b) in enumerate(zip(runs.start[:-1], runs.start[1:], strict=True))
        ]
    )
    _, first = np.unique(block, return_index=True)
    scores = np.add.reduceat(slope * error[:, None], first, axis=0)
    normal, unknowns = slope.T @ slope, slope.shape[1]
    inverse: FloatArray = np.linalg.pinv(normal + 1e-10 * np.trace(normal) / unknowns * np.eye(unknowns))
    covariance: FloatArray = inverse @ (scores.T @ scores) @ inverse * len(first) / max(1, len(first) - unknowns)
    return covariance, inverse


def _tolerated(error: FloatArray) -> float:
    """What the inverse of the normal matrix is multiplied by for the variance that `TOLERANCE` allows."""
    return TOLERANCE * float(error @ error) / QUANTILE**2


def _jackknife(
    space: Space, runs: Runs, point: FloatArray, spread: Mapper, report: Callable[[int, int], None]
) -> FloatArray:
    """Standard errors from what the estimates do when each group of recordings in turn is left out, (n,).

    Groups are of neighbours: recordings given one after the other are often alike, and then err alike.
    Scaled so that `QUANTILE` of them is Student's interval for so few groups. 0 for a single recording.
    """
    from scipy.special import stdtrit  # scipy.stats has it, too, but takes half a second to import

    groups = np.array_split(np.arange(runs.recordings), min(GROUPS, runs.recordings))
    count = len(groups)
    if count < 2:
        return np.zeros(len(space))
    left = [[int(k) for other in groups if other is not group for k in other] for group in groups]
    found = []
    for moved in spread(partial(_refitted, space, runs, point), left):
        found.append(moved)
        report(len(found), count)
    points = np.array(found)
    deviation = np.sqrt((count - 1) / count * np.sum((points - points.mean(axis=0)) ** 2, axis=0))
    result: FloatArray = deviation * float(stdtrit(count - 1, 0.975)) / QUANTILE
    return result


def _refitted(space: Space, runs: Runs, point: FloatArray, kept: list[int]) -> FloatArray:
    """Where the estimates (n,) go from a point with these recordings alone."""
    return polish(space, runs.only(kept), point, rounds=3)


def _residuals(space: Space, runs: Runs, points: FloatArray, step: float = FINE) -> FloatArray:
    """Errors in degrees, (k, l), each recording weighted alike."""
    error = np.degrees(runs.errors(predicted(space.sets(points), runs, step)))
    result: FloatArray = error * weights(space, runs)
    return result


def _robust(space: Space, runs: Runs, points: FloatArray, step: float = FINE) -> FloatArray:
    """The same, with errors beyond `HUBER` counted as the search does: the squares grow linearly there."""
    error = np.degrees(runs.errors(predicted(space.sets(points), runs, step)))
    size = np.maximum(np.abs(error), HUBER)
    far = np.copysign(np.sqrt(HUBER * (2 * size - HUBER)), error)
    result: FloatArray = np.where(np.abs(error) > HUBER, far, error) * weights(space, runs)
    return result


def _delayed(space: Space, runs: Runs, point: FloatArray) -> FloatArray:
    """What a second of latency adds to the residuals, (l,)."""
    rows = np.repeat(space.sets(point[None]), 2, axis=0)
    rows[:, Param.LATENCY] += -2 * LOOP, 2 * LOOP
    early, late = predicted(rows, runs)
    found: FloatArray = np.degrees(late - early) / (4 * LOOP) * weights(space, runs)
    return found


def _commands(runs: Runs) -> IntArray:
    """A number (l,) for every sample, the same for those of one command."""
    fresh = np.zeros(len(runs.time), dtype=bool)
    fresh[runs.start[:-1]] = True
    for column in (runs.goal, runs.driven, runs.duty, runs.speed_limit, runs.cap):
        fresh[1:] |= np.diff(column) != 0.0
    return np.cumsum(fresh)


def _of_shared(slope: FloatArray, error: FloatArray, number: IntArray, inverse: FloatArray) -> FloatArray:
    """Standard errors (n,) from an error (l,) that is the same for all samples of a number (l,), times a normal one."""
    scores = np.zeros((int(number.max()) + 1, slope.shape[1]))
    np.add.at(scores, number, slope * error[:, None])
    result: FloatArray = np.sqrt(np.sum((scores @ inverse) ** 2, axis=0))
    return result


def _wide_slopes(space: Space, runs: Runs, point: FloatArray, slope: FloatArray, covariance: FloatArray) -> FloatArray:
    """Derivatives of the residuals (l, n) again, from differences as wide as a covariance (n, n) says is open.

    The motion is jagged in the parameters: close differences show slopes where, further off, nothing happens, and make
    the intervals too narrow along what the data do not tell apart.
    """
    variances, directions = np.linalg.eigh(covariance)
    columns = slope @ directions
    for index, direction in enumerate(directions.T):
        width = min(max(math.sqrt(max(0.0, variances[index])), WIDTHS[0]), WIDTHS[1])
        reach = np.maximum(np.abs(direction), 1e-12)
        below = min(width, float(np.min(np.where(direction > 0, point, 1 - point) / reach)))
        above = min(width, float(np.min(np.where(direction > 0, 1 - point, point) / reach)))
        if below + above < STEPS[0]:  # in a corner of the ranges
            continue
        errors = _residuals(space, runs, np.array([point - below * direction, point + above * direction]))
        columns[:, index] = (errors[1] - errors[0]) / (below + above)
    result: FloatArray = columns @ directions.T
    return result


def _slopes(
    space: Space, runs: Runs, point: FloatArray, size: float = FINE, residuals: Callable[..., FloatArray] = _residuals
) -> FloatArray:
    """Derivatives of the residuals, (l, n)."""
    columns = []
    for index in range(len(space)):
        parts = []
        for step in STEPS:
            ends = np.repeat(point[None], 2, axis=0)
            ends[0, index] = max(0.0, point[index] - step)
            ends[1, index] = min(1.0, point[index] + step)
            below, above = residuals(space, runs, ends, size)
            parts.append((above - below) / (ends[1, index] - ends[0, index]))
        columns.append(np.mean(parts, axis=0))
    return np.stack(columns, axis=1)
