"""The search: many short climbs of least squares from anywhere, then CMA-ES from where the best of them ended.

Where short parts of the recordings are given (`prediction.parts`), they alone are searched: errors of whole recordings
are decided by the few moments in which a sticking joint lets go, and what fits those predicts other motions worse.
Among the ends of the search, whole recordings count as well. No result depends on a clock or on how many cores there
are: the same seed ends at the same point.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import AxBridgeError, Remedy
from axbridge.fit.least_squares import polish
from axbridge.fit.prediction import COARSE, FINE, HUBER, predicted
from axbridge.fit.unknowns import Space
from axbridge.pool import WITHOUT_MAIN, workers
from axbridge.servo.columns import Param
from axbridge.sim.runs import Runs

SCREENED = 200  # random points a climb looks at before it begins
CLIMBED, CLOSE = 15, (0.012,)  # rounds of a climb, and the size of its differences, in ranges
POPULATION = 16
CROWD = 32  # of a search that fits parts: in the many dents of their error smaller populations end anywhere
KEPT, SPREAD = 4, 0.1  # climbs that are searched on, and how far around their ends, in ranges
SHARPENED, CLOSER = 2, 0.04  # ends of those that are, and how far around them
NEIGHBOURS, NEARBY = 12, 0.006  # points a result is judged by, and how far around it they are, in ranges
WAVE = 4  # climbs that are begun together
PACE = 3e7  # steps that two cores simulate in a second, about: budgets are counted in steps
AT_END = 0.02  # of its range: what is nearer to its end is there
CLIMBING = 0.5  # of the budget goes into climbs, the rest into what follows


@dataclass(frozen=True)
class Job:
    """One climb or search; picklable, and the same result wherever it runs."""

    space: Space  # what is searched
    runs: Runs  # what is fitted
    seed: int  # of everything random in it
    generations: int  # of CMA-ES
    point: FloatArray | None = None  # where to begin; None = at the best of `SCREENED` random points
    spread: float = 0.2  # initial standard deviation, in units of the ranges
    step: float = FINE  # of the simulation, s
    loss: str = "mae"  # ``mae`` (mean absolute error) or ``huber`` (squares up to `HUBER` degrees, absolute beyond)
    parts: Runs | None = None  # the recordings in short parts, fitted in their place; None = there are none
    population: int = POPULATION  # points of a generation

    @property
    def fitted(self) -> Runs:
        """What is fitted: the parts, where there are any."""
        return self.runs if self.parts is None else self.parts

    @property
    def steps(self) -> float:
        """What a point costs: steps of all that is simulated for it."""
        runs = self.fitted
        return float(np.sum(runs.time[runs.start[1:] - 1] - runs.time[runs.start[:-1]])) / self.step

    def cost(self, points: FloatArray, step: float) -> FloatArray:
        """What is minimised, of points (k, n): (k,)."""
        runs = self.fitted
        weights = None if self.parts is None else self.parts.compared  # parts differ in length
        return np.average(losses(self.space, runs, points, self.loss, step), axis=1, weights=weights)


@dataclass(frozen=True)
class StartOutcome:
    """Where a start ended."""

    loss: float  # see `losses`; the mean over points nearby
    point: FloatArray  # in the space
    rollouts: int  # how many recordings were simulated
    seed: int  # the job's
    steps: float = 0.0  # how many steps they took
    searched: bool = False  # whether it is the end of a search, and not of a climb alone


def losses(space: Space, runs: Runs, points: FloatArray, kind: str = "mae", step: float = FINE) -> FloatArray:
    """Loss of points (k, n): (k, m), one for each recording, degrees (mae) or deg² (mse, huber)."""
    error = np.degrees(np.abs(runs.errors(predicted(space.sets(points), runs, step))))
    if kind == "mse":
        error = error**2
    elif kind == "huber":
        error = np.where(error < HUBER, error**2, HUBER * (2 * error - HUBER))
    return runs.means(error)


def climb(job: Job) -> StartOutcome:
    """Where least squares end that begin at the job's point, or at the best of many at random."""
    point, points = job.point, 0
    if point is None:
        screened = np.random.default_rng(job.seed).uniform(0.0, 1.0, (SCREENED, len(job.space)))
        points += SCREENED
        point = screened[int(np.argmin(job.cost(screened, job.step)))]
    ends = [point]
    with suppress(AxBridgeError):  # from there nothing changes anything
        ends.append(polish(replace(job.space, anchored=False), job.fitted, point, CLIMBED, job.step, CLOSE))
        points += CLIMBED * (2 * len(job.space) + 5)  # at most
    return _settled(job, np.array(ends), points)


def minimise(job: Job) -> StartOutcome:
    """The point of least loss that a search by CMA-ES finds around the job's point, or around the middle."""
    import cma

    points = 0
    point = np.full(len(job.space), 0.5) if job.point is None else job.point
    options = {
        "bounds": [0.0, 1.0],
        "seed": job.seed + 1,
        "popsize": job.population,
        "maxiter": job.generations,
        "tolfun": 1e-4,
        "maxstd_boundrange": math.inf,  # cma breaks where it has to hold back one unknown alone
        "verbose": -9,
    }
    strategy = cma.CMAEvolutionStrategy(np.clip(point, 0.02, 0.98), job.spread, options)
    while not strategy.stop():
        asked = np.array(strategy.ask())
        costs = job.cost(asked, job.step)
        points += len(asked)
        strategy.tell(list(asked), [float(value) for value in costs])
    # The best point may owe its error to a slip that happens to come out right; the distribution's centre does not.
    ends = np.clip(np.array([strategy.result.xbest, strategy.result.xfavorite]), 0.0, 1.0)
    return replace(_settled(job, ends, points), searched=True)


def _settled(job: Job, ends: FloatArray, points: int) -> StartOutcome:
    """The best of some ends (k, n); where absolute errors count, by their mean over points nearby."""
    around, step = (_around(ends), FINE) if job.loss == "mae" else (ends, job.step)
    costs = job.cost(around, step).reshape(len(ends), -1).mean(axis=1)
    points += len(around)
    best = int(np.argmin(costs))
    return StartOutcome(float(costs[best]), ends[best], points * job.runs.recordings, job.seed, points * job.steps)


def _around(ends: FloatArray) -> FloatArray:
    """Points (k·`NEIGHBOURS`, n) by which ends (k, n) are judged: themselves, and some nearby, the same for all."""
    nearby = np.random.default_rng(0).normal(0.0, NEARBY, (NEIGHBOURS, ends.shape[1]))
    nearby[0] = 0.0
    return np.clip((ends[:, None] + nearby[None]).reshape(-1, ends.shape[1]), 0.0, 1.0)


# Does a function for many jobs, wherever; the results come in the order of the jobs, as they are there.
Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


@contextmanager
def executor(where: str | Mapper | None = None) -> Iterator[Mapper]:
    """What runs jobs: processes on this machine, a dask cluster (``dask://host:port``), or what is running already."""
    if callable(where):
        yield where
        return
    with workers(where, prepare=_import_cma_without_plots, context=WITHOUT_MAIN) as pool:
        yield pool


def _import_cma_without_plots() -> None:
    """Begin a process of the pool: import cma without its plotting, which is not used and slow to import."""
    for name in ("matplotlib", "scipy.stats"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # Python's sign for a module that is not there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it cannot draw
        import cma  # noqa: F401 - loaded for the jobs to come


Report = Callable[[str, float | None], None]  # what is under way, and the share that is done


def search(
    job: Job, mapper: Mapper, *, starts: int, budget: float, near: FloatArray | None = None,
    report: Report = lambda _what, _share: None,
) -> list[StartOutcome]:  # fmt: skip
    """Climb from `starts` random points, `near`, and a base of the servo's kind; search on from the best `KEPT`.

    The best is first. Climbs are begun `WAVE` at a time, however many processes there are, until they have simulated
    their share of the budget.
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
        outcomes = _searched_on(begin, outcomes, mapper, report, allowed - used)
    if not outcomes or not np.isfinite(outcomes[0].loss):
        hint = Remedy("info", "FILE", says="check the recordings: {}")
        raise AxBridgeError("the search found no parameters with a finite error", hint)
    return outcomes if job.parts is None else best_of_both(job, outcomes)


def _run(
    function: Callable[[Job], StartOutcome], jobs: Sequence[Job], mapper: Mapper, report: Report, what: str,
    share: float | None,
) -> list[StartOutcome]:  # fmt: skip
    """The outcomes of jobs; what runs is said before and after each."""
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
    """Search on with an armature that may be 0, if it ended at the lower end of its range; space and ends."""
    space = job.space.from_none
    changed = [unknown != other for unknown, other in zip(job.space.unknowns, space.unknowns, strict=True)]
    playing = job.space.base[Param.BACKLASH] > 0.0  # a rotor that turns on its own has an inertia
    if playing or not (outcomes[0].point[changed] < AT_END).any():
        return job.space, outcomes
    there = [replace(end, point=space.point(job.space.sets(end.point[None])[0]), searched=False) for end in outcomes]
    job = replace(job, space=space)
    ends = _searched_on(job, there, mapper, report)
    return space, ends if job.parts is None else best_of_both(job, ends)


def _searched_on(
    job: Job, outcomes: list[StartOutcome], mapper: Mapper, report: Report, left: float = math.inf
) -> list[StartOutcome]:
    """The same, and the ends of searches from the first of them, as far as `left` steps allow; best first."""
    ends = list(outcomes)
    for most, around, step, what in (
        (KEPT, SPREAD, COARSE, "searching on from"),
        (SHARPENED, CLOSER, FINE, "sharpening"),
    ):
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
    """The same, but first the one whose errors of parts and of whole recordings, nearby, have the smallest product."""
    several = outcomes[: 2 * KEPT]
    whole = losses(job.space, job.runs, _around(np.array([outcome.point for outcome in several])), job.loss).mean(
        axis=1
    )
    whole = whole.reshape(len(several), NEIGHBOURS).mean(axis=1)
    best = int(np.argmin([outcome.loss * error for outcome, error in zip(several, whole, strict=True)]))
    return [outcomes[best], *outcomes[:best], *outcomes[best + 1 :]]
