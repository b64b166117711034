"""Robust least squares on the errors of a simulation, from a nearby point.

A prior keeps an unknown near the value of a model of its kind, unless the squared error falls enough: an offset by the
usual distance (`Space.usual`) costs as much as `TOLERANCE` allows for one standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import AxBridgeError
from axbridge.fit.prediction import FINE, HUBER, predicted, weights
from axbridge.fit.unknowns import Space
from axbridge.sim.runs import Runs

DELTAS = (0.004, 0.012)  # shares of the range: differences of two sizes are averaged, as stick-slip is not smooth
TOLERANCE = 0.05  # largest relative rise of the squared error at which an unknown keeps the model's value
QUANTILE = 1.96
_BATCH = 2_000_000  # samples simulated in one call: more need memory, and are not faster
PULL = TOLERANCE / QUANTILE**2  # relative rise of the squared error for one standard error


def polish(
    space: Space, runs: Runs, point: FloatArray, rounds: int = 6, step: float = FINE, sizes: Sequence[float] = DELTAS
) -> FloatArray:
    """Minimise robust squares from a nearby point (n,): damped Gauss-Newton steps (Levenberg) until they gain nothing.

    If the space's base is a model of the servo's kind, the squares are multiplied by a factor for the distance from it.
    Raises AxBridgeError if no unknown changes the simulation.
    """
    best = point.copy()
    error = residuals(space, runs, best[None], step, robust=True)[0]
    square, anchor, damping = float(error @ error), _anchoring(space, best[None])[0], 1e-3
    home, pull = space.point(space.base), PULL / space.usual**2
    for _ in range(rounds):
        slope = slopes(space, runs, best, step, sizes, robust=True)
        if not slope.any():
            hint = "record other motions; if the angle is mirrored, import it with --column position=HEADER:-1"
            raise AxBridgeError("the servo's parameters change nothing in these recordings", hint)
        normal = anchor * slope.T @ slope + square * np.diag(pull)
        gradient = anchor * slope.T @ error + square * pull * (best - home)
        scale = np.diag(np.maximum(np.diag(normal), 1e-9 * np.trace(normal)))
        trials = [damping * factor for factor in (0.01, 1.0, 30.0, 1e3, 1e5)]
        points = np.array([np.clip(best - np.linalg.solve(normal + d * scale, gradient), 0, 1) for d in trials])
        errors = residuals(space, runs, points, step, robust=True)
        squares, anchors = np.einsum("kl,kl->k", errors, errors), _anchoring(space, points)
        chosen, before = int(np.argmin(squares * anchors)), square * anchor
        if not squares[chosen] * anchors[chosen] < before:
            break
        best, error, damping = points[chosen], errors[chosen], trials[chosen]
        square, anchor = float(squares[chosen]), anchors[chosen]
        if before - square * anchor < 1e-5 * square * anchor:
            break
    return best


def best_polished(space: Space, runs: Runs, points: Sequence[FloatArray | None], rounds: int = 6) -> FloatArray:
    """Polish each point (n,) that is not None, and return the best result."""
    ends = np.array([polish(space, runs, point, rounds) for point in points if point is not None])
    best: FloatArray = ends[int(np.argmin(misfits(space, runs, ends)))]
    return best


def misfits(space: Space, runs: Runs, points: FloatArray) -> FloatArray:
    """Return the objective of `polish`, (k,), deg², at points (k, n)."""
    result: FloatArray = np.sum(residuals(space, runs, points, robust=True) ** 2, axis=1) * _anchoring(space, points)
    return result


def _anchoring(space: Space, points: FloatArray) -> FloatArray:
    """Return the factors of the squared errors, (k,), for the distance of points (k, n) from the base."""
    offset = (points - space.point(space.base)) / space.usual
    result: FloatArray = 1 + PULL * np.sum(offset**2, axis=1)
    return result


def keep_unidentified(space: Space, runs: Runs, point: FloatArray, flat: Sequence[str]) -> FloatArray:
    """Return the point with the unknowns that the data do not identify (`flat`) at the model's values.

    The others are polished again. If the error then rises by more than `TOLERANCE`, the unknowns of `flat` are tried
    one by one in the given order.
    """
    worst = (1 + TOLERANCE) * misfits(space, runs, point[None])[0]
    fixed: tuple[str, ...] = ()
    for names in (tuple(flat), *((name,) for name in flat)):
        free = np.array([unknown.name not in fixed + names for unknown in space.unknowns])
        result = space.point(space.base)
        if free.any():
            result[free] = polish(space.without(fixed + names), runs, point[free])
        if misfits(space, runs, result[None])[0] <= worst:
            point, fixed = result, fixed + names
            if names == tuple(flat):
                break
    return point


def residuals(space: Space, runs: Runs, points: FloatArray, step: float = FINE, *, robust: bool = False) -> FloatArray:
    """Return weighted errors in degrees, (k, l); each recording has the same total weight.

    `robust` gives the Huber loss of the search: the squares of errors beyond `HUBER` grow linearly.
    """
    error = np.degrees(runs.errors(predicted(space.sets(points), runs, step)))
    if robust:
        size = np.maximum(np.abs(error), HUBER)
        far = np.copysign(np.sqrt(HUBER * (2 * size - HUBER)), error)
        error = np.where(np.abs(error) > HUBER, far, error)
    return error * weights(space, runs)


def slopes(
    space: Space, runs: Runs, point: FloatArray, step: float = FINE, sizes: Sequence[float] = DELTAS, *,
    robust: bool = False,
) -> FloatArray:  # fmt: skip
    """Return the derivatives of the residuals, (l, n): means over differences of these sizes, in ranges."""
    n, count = len(space), len(sizes)
    ends = np.broadcast_to(point, (n, count, 2, n)).copy()
    for index in range(n):
        ends[index, :, 0, index] = np.maximum(0.0, point[index] - np.array(sizes))
        ends[index, :, 1, index] = np.minimum(1.0, point[index] + np.array(sizes))
    several = max(1, _BATCH // (2 * count * len(runs.time)))
    columns = []
    for index in range(0, n, several):
        part = ends[index : index + several]
        errors = residuals(space, runs, part.reshape(-1, n), step, robust=robust).reshape(len(part), count, 2, -1)
        widths = np.array([end[:, 1, index + k] - end[:, 0, index + k] for k, end in enumerate(part)])
        columns.append(np.mean((errors[:, :, 1] - errors[:, :, 0]) / widths[..., None], axis=1))
    return np.concatenate(columns).T
