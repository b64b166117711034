"""The search: stage by stage to a first point, starts of CMA-ES from there and from anywhere, the best sharpened.

Every start is a job of its own. Where short parts of the recordings are given (`axbridge.fit.stages`), they alone
are searched: errors of whole recordings are decided by the few moments in which a sticking joint lets go or does not,
and what fits those predicts other motions worse. Among the ends of the search, which fit the parts nearly alike, whole
recordings count as well.

No result here depends on a clock or on how many cores there are: the same seed ends at the same point. A search ends
when another start ends where the best has, when start after start brings nothing, or when it has simulated as much as
its budget allows.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import AxBridgeError
from axbridge.fit.residuals import predicted
from axbridge.fit.stages import STAGES, parts
from axbridge.fit.unknowns import Space
from axbridge.pool import APART, workers
from axbridge.sim.runs import Runs

SCREENED = 200  # random points a start looks at before it begins
GRID, NARROW = 33, 1e-4  # of a single unknown: points looked at, and how near to the best one is near enough, in ranges
POPULATION = 16
CROWD = 64  # of a start that fits parts: in the many dents of their error smaller populations end anywhere
SHARPENED = 2
SPREADS = 0.1, 0.2  # of starts from where the stages ended, and from anywhere, or with parts: stages end in dents, too
STAGED, STAGE_GENERATIONS = 2, 40  # starts of each stage, and how long they are
FINE, COARSE = 1e-3, 2e-3  # s: the servo's own loop runs every millisecond; the first searches make do with two
NEIGHBOURS, NEARBY = 12, 0.006  # points a result is judged by, and how far around it they are, in ranges
HUBER = 1.0  # degrees: errors beyond it count linearly
WAVE, AGREED = 2, 0.01  # starts that are begun together; ends whose errors differ by less (a share) are as good
IDLE, NOTHING = 4, 0.005  # so many starts in a row without this share of the error end the search
PACE = 3e7  # steps that two cores simulate in a second, about: budgets are counted in steps
AT_END = 0.02  # of its range: what is nearer to its end is there
SEARCHING = 0.7  # of the budget goes into starts, the rest into sharpening


@dataclass(frozen=True)
class Job:
    """One start of the search; picklable, and the same result wherever it runs."""

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
    def shorter(self) -> Job:
        """The same, but with fewer generations where there are parts: more bring nothing."""
        return self if self.parts is None else replace(self, generations=self.generations * 2 // 5)

    @property
    def steps(self) -> float:
        """What a point costs: steps of all that is simulated for it."""
        runs = self.runs if self.parts is None else self.parts
        return float(np.sum(runs.time[runs.start[1:] - 1] - runs.time[runs.start[:-1]])) / self.step

    def cost(self, points: FloatArray, step: float) -> FloatArray:
        """What is minimised, of points (k, n): (k,)."""
        runs = self.runs if self.parts is None else self.parts
        weights = None if self.parts is None else self.parts.compared  # parts differ in length
        mean: FloatArray = np.average(losses(self.space, runs, points, self.loss, step), axis=1, weights=weights)
        return mean


@dataclass(frozen=True)
class StartOutcome:
    """Where a start ended."""

    loss: float  # see `losses`; the mean over points nearby
    point: FloatArray  # in the space
    rollouts: int  # how many recordings were simulated
    seed: int  # the job's
    steps: float = 0.0  # how many steps they took
    sharpened: bool = False  # whether it began where another start had ended


def losses(space: Space, runs: Runs, points: FloatArray, kind: str = "mae", step: float = FINE) -> FloatArray:
    """Loss of points (k, n): (k, m), one for each recording, degrees (mae) or deg² (mse, huber)."""
    error = np.degrees(np.abs(runs.errors(predicted(space.sets(points), runs, step))))
    if kind == "mse":
        error = error**2
    elif kind == "huber":
        error = np.where(error < HUBER, error**2, HUBER * (2 * error - HUBER))
    return runs.means(error)


def minimise(job: Job) -> StartOutcome:
    """The point of least loss that one job finds."""
    if len(job.space) == 1:
        return _minimise_one(job)
    import cma

    rng = np.random.default_rng(job.seed)
    points = 0
    point = job.point
    if point is None:
        screened = rng.uniform(0.0, 1.0, (SCREENED, len(job.space)))
        points += SCREENED
        point = screened[int(np.argmin(job.cost(screened, job.step)))]
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
        found = job.cost(asked, job.step)
        points += len(asked)
        strategy.tell(list(asked), [float(value) for value in found])
    loss, best = float(strategy.result.fbest), np.array(strategy.result.xbest)
    if job.loss == "mae":
        # The best point may owe its error to a slip that happens to come out right; the distribution's centre does not.
        ends = np.clip(np.array([best, strategy.result.xfavorite]), 0.0, 1.0)
        nearby = _nearby(job)
        found = job.cost((ends[:, None] + nearby[None]).reshape(-1, len(job.space)), FINE)
        points += len(found)
        means = found.reshape(2, NEIGHBOURS).mean(axis=1)
        loss, best = float(means.min()), ends[int(np.argmin(means))]
    return _outcome(job, loss, best, points)


def _minimise_one(job: Job) -> StartOutcome:
    """The same for a single unknown: the best of an even grid, and Brent's method between its neighbours."""
    from scipy.optimize import minimize_scalar

    grid = np.linspace(0.0, 1.0, GRID)
    found = job.cost(grid[:, None], job.step)
    best = int(np.argmin(found))
    near = (grid[max(0, best - 1)], grid[min(GRID - 1, best + 1)])
    refined = minimize_scalar(
        lambda share: float(job.cost(np.array([[share]]), job.step)[0]),
        bounds=near, method="bounded", options={"xatol": NARROW},
    )  # fmt: skip
    loss, point = min((float(found[best]), float(grid[best])), (float(refined.fun), float(refined.x)))
    return _outcome(job, loss, np.array([point]), GRID + int(refined.nfev))


def _outcome(job: Job, loss: float, point: FloatArray, points: int) -> StartOutcome:
    return StartOutcome(loss, point, points * job.runs.recordings, job.seed, points * job.steps)


def _nearby(job: Job) -> FloatArray:
    """Where points (`NEIGHBOURS`, n) are looked at around another, the same for all; the first is that one itself."""
    found = np.random.default_rng(0).normal(0.0, NEARBY, (NEIGHBOURS, len(job.space)))
    found[0] = 0.0
    return found


A = TypeVar("A")
B = TypeVar("B")


class Mapper(Protocol):
    """Does a function for many jobs, wherever; the results come in the order of the jobs."""

    def __call__(self, function: Callable[[A], B], jobs: Sequence[A], /) -> Iterator[B]:
        """Results, as they are there."""


@contextmanager
def executor(where: str | Mapper | None = None) -> Iterator[Mapper]:
    """What runs jobs: processes on this machine, a dask cluster (``dask://host:port``), or what is running already."""
    if callable(where):
        yield where
        return
    with workers(where, prepare=_import_cma_without_plots, context=APART) as pool:
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
    job: Job,
    *,
    starts: int,
    budget: float,
    near: FloatArray | None = None,
    where: str | Mapper | None = None,
    report: Report = lambda _what, _share: None,
) -> list[StartOutcome]:
    """Fit stage by stage, run up to `starts` jobs with seeds of their own, sharpen the best `SHARPENED`; best first.

    Every other start begins where the stages ended, if the recordings have motions of any, and one more at `near`, if
    there is such a point. When another has ended where the best has, or `IDLE` in a row have brought nothing, there are
    no more. They are begun `WAVE` at a time, however many processes there are: the same seed gives the same result on
    any machine and any executor.
    """
    allowed = budget * PACE
    with executor(where) as spread:
        # parts of recordings whose commands nobody timed would need moments of their own
        staged, used = (None, 0.0) if job.runs.adrift.any() else _staged(job, spread, report)
        begin = replace(job.shorter, step=COARSE, population=POPULATION if job.parts is None else CROWD)
        points = [staged if k % 2 == 0 else None for k in range(starts)]
        seeds = [job.seed + 1000 * k for k in range(starts)]
        if near is not None:
            points, seeds = [near, *points], [job.seed + 500, *seeds]
        jobs = [
            replace(begin, seed=seed, point=point, spread=SPREADS[1 if point is None or job.parts is not None else 0])
            for seed, point in zip(seeds, points, strict=True)
        ]
        found: list[StartOutcome] = []
        while jobs and not (found and (used > SEARCHING * allowed or _idle([one.loss for one in found]))):
            done = len(found)
            ended = _run(jobs[:WAVE], spread, report, f"start {done + 1} of {len(seeds)}", done / len(seeds))
            found += ended
            used += sum(one.steps for one in ended)
            jobs = jobs[WAVE:]
        found.sort(key=lambda outcome: outcome.loss)
        if used < allowed:
            found = _sharpened(job, found, spread, report)
    if not found or not np.isfinite(found[0].loss):
        raise AxBridgeError("the search found no parameters with a finite error", "check the recordings: axbridge info")
    return found if job.parts is None else best_of_both(job, found)


def _run(jobs: Sequence[Job], spread: Mapper, report: Report, what: str, share: float | None) -> list[StartOutcome]:
    """The outcomes of jobs; what runs is said before and after each."""
    report(what, share)
    found = []
    for outcome in spread(minimise, jobs):
        found.append(outcome)
        report(f"{what}: {outcome.loss:.2f}°", share)
    return found


def opened(
    job: Job,
    found: list[StartOutcome],
    spread: Mapper,
    report: Report = lambda _what, _share: None,
) -> tuple[Space, list[StartOutcome]]:
    """A search's space and ends (best first), searched on where the best has the least armature there is.

    It is searched by its logarithm, so there always is some; a joint without any then has too strong a motor.
    """
    space = job.space.from_none
    changed = [one != other for one, other in zip(job.space.unknowns, space.unknowns, strict=True)]
    if not (found[0].point[changed] < AT_END).any():
        return job.space, found
    there = [replace(one, point=space.point(job.space.sets(one.point[None])[0]), sharpened=False) for one in found]
    job = replace(job, space=space)
    ends = _sharpened(job, there, spread, report)
    return space, ends if job.parts is None else best_of_both(job, ends)


def _sharpened(job: Job, found: list[StartOutcome], spread: Mapper, report: Report) -> list[StartOutcome]:
    """The same, and where searches end that begin at the first `SHARPENED` of them; best first."""
    finer = [
        replace(job.shorter, point=outcome.point, spread=0.04, seed=job.seed + 77 + k)
        for k, outcome in enumerate(found[:SHARPENED])
    ]
    ends = list(found)
    ends += [replace(one, sharpened=True) for one in _run(finer, spread, report, "sharpening the best", None)]
    return sorted(ends, key=lambda outcome: outcome.loss)


def _idle(losses_so_far: list[float]) -> bool:
    """Whether another start ended where the best did, or the last `IDLE` brought nothing."""
    best, *others = sorted(losses_so_far)
    if others and others[0] < (1 + AGREED) * best:
        return True
    before, last = losses_so_far[:-IDLE], losses_so_far[-IDLE:]
    return bool(before) and min(last) > (1 - NOTHING) * min(before)


def best_of_both(job: Job, found: list[StartOutcome]) -> list[StartOutcome]:
    """The same, but first the one whose errors of parts and of whole recordings have the smallest product.

    Both are means over points nearby: a slip that happens to come out right is no merit.
    """
    nearby = _nearby(job)
    around = (np.array([outcome.point for outcome in found])[:, None] + nearby[None]).reshape(-1, len(job.space))
    whole = losses(job.space, job.runs, np.clip(around, 0.0, 1.0), job.loss).mean(axis=1)
    whole = whole.reshape(len(found), NEIGHBOURS).mean(axis=1)
    best = int(np.argmin([outcome.loss * error for outcome, error in zip(found, whole, strict=True)]))
    return [found[best], *found[:best], *found[best + 1 :]]


def _staged(job: Job, spread: Mapper, report: Report) -> tuple[FloatArray | None, float]:
    """Fit a few unknowns after the other to what tells them; None when the recordings have no stage's motions.

    Also how many steps were simulated.
    """
    row = job.space.base.copy()
    done, steps = False, 0.0
    for stage in STAGES:
        cut = parts(job.runs, stage)
        space = Space(tuple(unknown for unknown in job.space.unknowns if unknown.column in stage.tells), row)
        if cut is None or not len(space):
            continue
        first = replace(job, space=space, runs=cut, parts=None, step=COARSE, generations=STAGE_GENERATIONS)
        count = STAGED if len(space) > 1 else 1  # a single unknown has no luck to depend on
        several = [replace(first, seed=job.seed + 7 + 1000 * k) for k in range(count)]
        found = _run(several, spread, report, stage.name, None)
        steps += sum(one.steps for one in found)
        row = space.sets(min(found, key=lambda outcome: outcome.loss).point[None])[0]
        done = True
    return (job.space.point(row) if done else None), steps
