"""Search for the best parameters: short local searches by least squares from random points, then CMA-ES from the best.

If there are short parts of the recordings (`prediction.parts`), only they are searched. The error of a whole recording
depends on the few times at which a sticking joint starts to move; parameters fitted to these predict other motions
worse. For the final choice, whole recordings count as well. Results do not depend on a clock or on the number of cores:
the same seed gives the same point.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import AxBridgeError, Remedy
from axbridge.fit.least_squares import polish
from axbridge.fit.prediction import COARSE, FINE, HUBER, predicted
from axbridge.fit.unknowns import Space
from axbridge.pool import workers
from axbridge.servo.columns import Param
from axbridge.sim.runs import Runs

SCREENED = 200  # random points that are compared for the start of a local search
CLIMBED, CLOSE = 15, (0.012,)  # rounds of a local search, and the size of its differences, in ranges
POPULATION = 16
CROWD = 32  # population of a search with parts: their error has many local minima that trap smaller populations
KEPT, SPREAD = 4, 0.1  # local searches that CMA-ES continues, and its initial standard deviation, in ranges
SHARPENED, CLOSER = 2, 0.04  # results that are refined, and the initial standard deviation, in ranges
NEIGHBOURS, NEARBY = 12, 0.006  # points around a result by which it is judged, and their spread, in ranges
WAVE = 4  # local searches that run together
PACE = 3e7  # simulation steps of two cores in a second, about: budgets are counted in steps
AT_END = 0.02  # share of its range: a value this close to the end counts as at the end
CLIMBING = 0.5  # share of the budget for local searches


@dataclass(frozen=True)
class Job:
    """One local search or CMA-ES search; picklable, with the same result on each machine."""

    space: Space  # the unknowns
    runs: Runs  # the recordings
    seed: int  # of its random numbers
    generations: int  # of CMA-ES
    point: FloatArray | None = None  # start point; None = the best of `SCREENED` random points
    spread: float = 0.2  # initial standard deviation, in units of the ranges
    step: float = FINE  # of the simulation, s
    loss: str = "mae"  # ``mae`` (mean absolute error) or ``huber`` (squares up to `HUBER` degrees, absolute beyond)
    parts: Runs | None = None  # the recordings in short parts, which are fitted instead
    population: int = POPULATION  # points of a generation

    @property
    def fitted(self) -> Runs:
        """The fitted runs: the parts, if there are any."""
        return self.runs if self.parts is None else self.parts

    @property
    def steps(self) -> float:
        """Number of simulation steps for one point."""
        return self.fitted.seconds / self.step

    def cost(self, points: FloatArray, step: float) -> FloatArray:
        """Return the objective, (k,), at points (k, n)."""
        runs = self.fitted
        weights = None if self.parts is None else self.parts.compared  # parts differ in length
        return np.average(losses(self.space, runs, points, self.loss, step), axis=1, weights=weights)


@dataclass(frozen=True)
class StartOutcome:
    """Result of a start."""

    loss: float  # see `losses`; the mean over nearby points
    point: FloatArray  # in the space, (n,)
    rollouts: int  # number of simulated recordings
    seed: int  # of the job
    steps: float = 0.0  # number of simulation steps
    searched: bool = False  # whether it is a result of CMA-ES, not of a local search alone


def losses(space: Space, runs: Runs, points: FloatArray, kind: str = "mae", step: float = FINE) -> FloatArray:
    """Return the losses (k, m) of points (k, n) for each recording, degrees (mae) or deg² (mse, huber)."""
    error = np.degrees(np.abs(runs.errors(predicted(space.sets(points), runs, step))))
    if kind == "mse":
        error = error**2
    elif kind == "huber":
        error = np.where(error < HUBER, error**2, HUBER * (2 * error - HUBER))
    return runs.means(error)


def climb(job: Job) -> StartOutcome:
    """Run least squares from the job's point, or from the best of `SCREENED` random points."""
    point, points = job.point, 0
    if point is None:
        screened = np.random.default_rng(job.seed).uniform(0.0, 1.0, (SCREENED, len(job.space)))
        points += SCREENED
        point = screened[int(np.argmin(job.cost(screened, job.step)))]
    ends = [point]
    with suppress(AxBridgeError):  # at this point no unknown changes the simulation
        ends.append(polish(replace(job.space, anchored=False), job.fitted, point, CLIMBED, job.step, CLOSE))
        points += CLIMBED * (2 * len(job.space) + 5)  # at most
    return _best_of(job, np.array(ends), points)


def minimise(job: Job) -> StartOutcome:
    """Search with CMA-ES around the job's point, or around the middle of the ranges."""
    import cma

    points = 0
    point = np.full(len(job.space), 0.5) if job.point is None else job.point
    options = {
        "bounds": [0.0, 1.0],
        "seed": job.seed + 1,
        "popsize": job.population,
        "maxiter": job.generations,
        "tolfun": 1e-4,
        "maxstd_boundrange": math.inf,  # cma fails when it limits a single unknown
        "verbose": -9,
    }
    strategy = cma.CMAEvolutionStrategy(np.clip(point, 0.02, 0.98), job.spread, options)
    while not strategy.stop():
        candidates = np.array(strategy.ask())
        costs = job.cost(candidates, job.step)
        points += len(candidates)
        strategy.tell(list(candidates), [float(value) for value in costs])
    # The best point's error may be small by chance, from one slip of a joint; that of the distribution's centre is not.
    ends = np.clip(np.array([strategy.result.xbest, strategy.result.xfavorite]), 0.0, 1.0)
    return replace(_best_of(job, ends, points), searched=True)


def _best_of(job: Job, ends: FloatArray, points: int) -> StartOutcome:
    """Return the best of some results (k, n); for absolute errors, by their mean over nearby points."""
    neighbours, step = (_with_neighbours(ends), FINE) if job.loss == "mae" else (ends, job.step)
    costs = job.cost(neighbours, step).reshape(len(ends), -1).mean(axis=1)
    points += len(neighbours)
    best = int(np.argmin(costs))
    return StartOutcome(float(costs[best]), ends[best], points * job.runs.recordings, job.seed, points * job.steps)


def _with_neighbours(ends: FloatArray) -> FloatArray:
    """Return points (k·`NEIGHBOURS`, n) to judge results (k, n): each result, and nearby points at fixed offsets."""
    nearby = np.random.default_rng(0).normal(0.0, NEARBY, (NEIGHBOURS, ends.shape[1]))
    nearby[0] = 0.0
    return np.clip((ends[:, None] + nearby[None]).reshape(-1, ends.shape[1]), 0.0, 1.0)


# Applies a function to jobs; yields the results in the order of the jobs.
Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


def executor(where: str | Mapper | None = None) -> AbstractContextManager[Mapper]:
    """Return an executor of jobs: processes on this machine, a dask cluster (``dask://host:port``), or a given one."""
    return nullcontext(where) if callable(where) else workers(where, prepare=_import_cma_without_plots)


def _import_cma_without_plots() -> None:
    """Import cma in a worker process without its plotting, which is unused and slow to import."""
    for name in ("matplotlib", "scipy.stats"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None makes the import fail
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cma warns that it cannot plot
        import cma  # noqa: F401 - loaded for later jobs


Report = Callable[[str, float | None], None]  # gets the present activity, and its finished share, 0..1


def search(
    job: Job, mapper: Mapper, *, starts: int, budget: float, near: FloatArray | None = None,
    report: Report = lambda _what, _share: None,
) -> list[StartOutcome]:  # fmt: skip
    """Run local searches from `starts` random points, `near`, and a base of the servo's kind; CMA-ES from the best.

    Returns the results, best first. Local searches run `WAVE` at a time, for any number of processes, until they have
    used their share of the budget. Raises AxBridgeError if no result has a finite error.
    """
    allowed, used = budget * PACE, 0.0
    begin = replace(job, step=COARSE, population=POPULATION if job.parts is None else CROWD)
    known = [job.space.point(job.space.base)] if job.space.anchored else []
    points = [*([near] if near is not None else []), *known, *[None] * starts]
    jobs = [replace(begin, seed=job.seed + 1000 * k, point=point) for k, point in enumerate(points)]
    outcomes: list[StartOutcome] = []
    while jobs and not (outcomes and used > CLIMBING * allowed):
        done = len(outcomes)
        what = f"starts {done + 1} to {done + len(jobs[:WAVE])} of {len(points)}"
        outcomes += _run(climb, jobs[:WAVE], mapper, report, what, done / len(points))
        used = sum(outcome.steps for outcome in outcomes)
        jobs = jobs[WAVE:]
    outcomes.sort(key=lambda outcome: outcome.loss)
    if used < allowed:
        outcomes = _continued(begin, outcomes, mapper, report, allowed - used)
    if not outcomes or not np.isfinite(outcomes[0].loss):
        hint = Remedy("info", "FILE", says="check the recordings: {}")
        raise AxBridgeError("the search found no parameters with a finite error", hint)
    return outcomes if job.parts is None else best_of_both(job, outcomes)


def _run(
    function: Callable[[Job], StartOutcome], jobs: Sequence[Job], mapper: Mapper, report: Report, what: str,
    share: float | None,
) -> list[StartOutcome]:  # fmt: skip
    """Run jobs and return their outcomes; report before the first and after each."""
    report(what, share)
    outcomes = []
    for outcome in mapper(function, jobs):
        outcomes.append(outcome)
        error = math.sqrt(outcome.loss) if jobs[0].loss == "huber" else outcome.loss  # deg², or degrees
        report(f"{what}: {error:.2f}°", share)
    return outcomes


def freed(
    job: Job, outcomes: list[StartOutcome], mapper: Mapper, report: Report = lambda _what, _share: None
) -> tuple[Space, list[StartOutcome]]:
    """Search again with an armature that may be 0, if it ended at its range's lower end; return space and results."""
    space = job.space.from_none
    changed = [unknown != other for unknown, other in zip(job.space.unknowns, space.unknowns, strict=True)]
    playing = job.space.base[Param.BACKLASH] > 0.0  # with backlash the rotor moves by itself, which needs an inertia
    if playing or not (outcomes[0].point[changed] < AT_END).any():
        return job.space, outcomes
    moved = [replace(end, point=space.point(job.space.row(end.point)), searched=False) for end in outcomes]
    job = replace(job, space=space)
    ends = _continued(job, moved, mapper, report)
    return space, ends if job.parts is None else best_of_both(job, ends)


def _continued(
    job: Job, outcomes: list[StartOutcome], mapper: Mapper, report: Report, left: float = math.inf
) -> list[StartOutcome]:
    """Return the outcomes and the results of CMA-ES from the first of them, within `left` steps; best first."""
    ends = list(outcomes)
    rounds = (KEPT, SPREAD, COARSE, "searching on from"), (SHARPENED, CLOSER, FINE, "sharpening")
    for most, around, step, what in rounds:
        if left <= 0.0:
            break
        refined = replace(job, spread=around, step=step)
        cost = refined.generations * refined.population * refined.steps
        count = min(most, max(1, int(min(left, 1e300) // cost)))
        further = [replace(refined, point=end.point, seed=job.seed + 77 + k) for k, end in enumerate(ends[:count])]
        done = _run(minimise, further, mapper, report, f"{what} the best {len(further)}", None)
        left -= sum(outcome.steps for outcome in done)
        ends += done
        ends.sort(key=lambda outcome: outcome.loss)
    return ends


def best_of_both(job: Job, outcomes: list[StartOutcome]) -> list[StartOutcome]:
    """Return the outcomes with the one first whose errors on parts and on whole recordings have the least product."""
    several = outcomes[: 2 * KEPT]
    points = _with_neighbours(np.array([outcome.point for outcome in several]))
    whole = losses(job.space, job.runs, points, job.loss).mean(axis=1).reshape(len(several), NEIGHBOURS).mean(axis=1)
    best = int(np.argmin([outcome.loss * error for outcome, error in zip(several, whole, strict=True)]))
    return [outcomes[best], *outcomes[:best], *outcomes[best + 1 :]]
