"""The search: stage by stage to a first point, starts of CMA-ES from there and from anywhere, the best sharpened.

Every start is a job of its own. Where short parts of the recordings are given (`axbridge.identify.stages`), they alone
are searched: errors of whole recordings are decided by the few moments in which a sticking joint lets go or does not,
and what fits those predicts other motions worse.
"""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import AxBridgeError, UnsupportedOperation, UsageError
from axbridge.identify.clocks import predicted
from axbridge.identify.stages import STAGES, parts
from axbridge.identify.unknowns import Space
from axbridge.replay.runs import Runs

__all__ = [
    "COARSE",
    "FINE",
    "HUBER",
    "SHARPENED",
    "Job",
    "Mapper",
    "Outcome",
    "executor",
    "losses",
    "minimise",
    "search",
]

SCREENED = 200  # random points a start looks at before it begins
POPULATION = 16
SHARPENED = 4
SPREADS = 0.1, 0.2  # of starts from where the stages ended, and from anywhere
STAGED, STAGE_GENERATIONS = 2, 40  # starts of each stage, and how long they are
FINE, COARSE = 1e-3, 2e-3  # s: the servo's own loop runs every millisecond; the first searches make do with two
NEIGHBOURS, NEARBY = 12, 0.006  # points a result is judged by, and how far around it they are, in ranges
HUBER = 1.0  # degrees: errors beyond it count linearly
PATIENCE = 10.0  # s that a dask scheduler has to answer: it may be starting, too


@dataclass(frozen=True)
class Job:
    """One start of the search; picklable, and the same result wherever it runs.

    Attributes:
        space: What is searched.
        runs: What is fitted.
        seed: Of everything random in it.
        generations: Of CMA-ES.
        point: Where to begin; None = at the best of `SCREENED` random points.
        spread: Initial standard deviation, in units of the ranges.
        step: Of the simulation, s.
        loss: ``mae`` (mean absolute error) or ``huber`` (squares up to `HUBER` degrees, absolute beyond).
        parts: The recordings in short parts, fitted in their place; None = there are none.
    """

    space: Space
    runs: Runs
    seed: int
    generations: int
    point: FloatArray | None = None
    spread: float = 0.2
    step: float = FINE
    loss: str = "mae"
    parts: Runs | None = None

    def cost(self, points: FloatArray, step: float) -> FloatArray:
        """What is minimised, of points (k, n): (k,)."""
        runs = self.runs if self.parts is None else self.parts
        weights = None if self.parts is None else self.parts.compared  # parts differ in length
        mean: FloatArray = np.average(losses(self.space, runs, points, self.loss, step), axis=1, weights=weights)
        return mean


@dataclass(frozen=True)
class Outcome:
    """Where a start ended.

    Attributes:
        loss: See `losses`; the mean over points nearby.
        point: In the space.
        rollouts: How many recordings were simulated.
        seed: The job's.
    """

    loss: float
    point: FloatArray
    rollouts: int
    seed: int


def losses(space: Space, runs: Runs, points: FloatArray, kind: str = "mae", step: float = FINE) -> FloatArray:
    """Loss of points (k, n): (k, m), one for each recording, degrees (mae) or deg² (mse, huber)."""
    error = np.degrees(np.abs(runs.errors(predicted(space.sets(points), runs, step))))
    if kind == "mse":
        error = error**2
    elif kind == "huber":
        error = np.where(error < HUBER, error**2, HUBER * (2 * error - HUBER))
    return runs.means(error)


def minimise(job: Job) -> Outcome:
    """The point of least loss that one job finds."""
    import cma

    rng = np.random.default_rng(job.seed)
    done = 0
    point = job.point
    if point is None:
        points = rng.uniform(0.0, 1.0, (SCREENED, len(job.space)))
        done += SCREENED * job.runs.recordings
        point = points[int(np.argmin(job.cost(points, job.step)))]
    options = {
        "bounds": [0.0, 1.0],
        "seed": job.seed + 1,
        "popsize": POPULATION,
        "maxiter": job.generations,
        "tolfun": 1e-4,
        "maxstd_boundrange": math.inf,  # cma breaks where it has to hold back a single unknown
        "verbose": -9,
    }
    strategy = cma.CMAEvolutionStrategy(np.clip(point, 0.02, 0.98), job.spread, options)
    while not strategy.stop():
        asked = np.array(strategy.ask())
        found = job.cost(asked, job.step)
        done += len(asked) * job.runs.recordings
        strategy.tell(list(asked), [float(value) for value in found])
    if job.loss != "mae":
        return Outcome(float(strategy.result.fbest), np.array(strategy.result.xbest), done, job.seed)
    # The best point may owe its error to a slip that happens to come out right; the distribution's centre does not.
    points = np.clip(np.array([strategy.result.xbest, strategy.result.xfavorite]), 0.0, 1.0)
    nearby = rng.normal(0.0, NEARBY, (NEIGHBOURS, len(job.space)))
    nearby[0] = 0.0
    around = (points[:, None] + nearby[None]).reshape(-1, len(job.space))
    found = job.cost(around, FINE).reshape(2, NEIGHBOURS).mean(axis=1)
    done += len(around) * job.runs.recordings
    chosen = int(np.argmin(found))
    return Outcome(float(found[chosen]), points[chosen], done, job.seed)


Mapper = Callable[[Callable[[Job], Outcome], Iterable[Job]], Iterator[Outcome]]


@contextmanager
def executor(where: str | Mapper | None = None) -> Iterator[Mapper]:
    """What runs jobs: processes on this machine, a dask cluster (``dask://host:port``), or what is running already.

    Raises:
        UnsupportedOperation: dask.distributed is not installed.
        UsageError: no such kind of executor, or no cluster there.
    """
    if callable(where):
        yield where
        return
    if where is None:
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _import_cma_without_plots) as pool:
            yield pool.map
        return
    if not where.startswith("dask://"):
        raise UsageError(f"{where!r} is no executor", "write dask://HOST:PORT, or leave it out for local processes")
    try:
        from distributed import Client
    except ImportError as failure:
        raise UnsupportedOperation(
            "running on a dask cluster needs dask.distributed", "python -m pip install distributed"
        ) from failure
    address = where.removeprefix("dask://")
    try:
        client = Client(f"tcp://{address}", timeout=PATIENCE)
    except OSError as failure:
        raise UsageError(f"no dask scheduler answers at {address}", "start one, or leave --executor out") from failure
    with client:

        def spread(function: Callable[[Job], Outcome], jobs: Iterable[Job]) -> Iterator[Outcome]:
            return iter(client.gather([client.submit(function, job, pure=False) for job in jobs]))

        yield spread


def _import_cma_without_plots() -> None:
    """Begin a process of the pool: import cma without its plotting, which is not used and slow to import."""
    for name in ("matplotlib", "scipy.stats"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # Python's sign for a module that is not there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it cannot draw
        import cma  # noqa: F401 - loaded for the jobs to come


def search(
    job: Job,
    *,
    starts: int,
    budget: float,
    near: FloatArray | None = None,
    where: str | Mapper | None = None,
    report: Callable[[str, Outcome], None] = lambda _stage, _outcome: None,
) -> list[Outcome]:
    """Fit stage by stage, run `starts` jobs with seeds of their own, sharpen the best `SHARPENED`; best first.

    Every other start begins where the stages ended, if the recordings have motions of any, and one more at `near`, if
    there is such a point. The same seed gives the same result on any executor, unless the budget runs out: then what is
    under way is finished and nothing more is begun.

    Args:
        job: Space, data and first seed.
        starts: How many.
        budget: s.
        near: A point from which the solution is not far.
        where: See `executor`.
        report: Called after each, with what it was: a stage's name, ``start`` or ``sharpened``.

    Raises:
        UnsupportedOperation, UsageError: see `executor`.
    """
    began = time.monotonic()
    found: list[Outcome] = []
    width = max(2, os.cpu_count() or 2)
    with executor(where) as spread:
        # parts of recordings whose commands nobody timed would need moments of their own
        staged = None if job.runs.adrift.any() else _staged(job, spread, report)
        if job.parts is not None:  # they make the error smooth: half as many do
            job = replace(job, generations=job.generations // 2)
        begin = replace(job, step=COARSE)
        points = [staged if k % 2 == 0 else None for k in range(starts)]
        seeds = [job.seed + 1000 * k for k in range(starts)]
        if near is not None:
            points, seeds = [near, *points], [job.seed + 500, *seeds]
        for first in range(0, len(points), width):
            if first and time.monotonic() - began > budget * 0.7:
                break
            jobs = [
                replace(begin, seed=seed, point=point, spread=SPREADS[0 if point is not None else 1])
                for seed, point in zip(seeds[first : first + width], points[first : first + width], strict=True)
            ]
            for outcome in spread(minimise, jobs):
                found.append(outcome)
                report("start", outcome)
        found.sort(key=lambda outcome: outcome.loss)
        if time.monotonic() - began < budget * 0.8:
            finer = [
                replace(job, point=outcome.point, spread=0.04, seed=job.seed + 77 + k)
                for k, outcome in enumerate(found[:SHARPENED])
            ]
            for outcome in spread(minimise, finer):
                found.append(outcome)
                report("sharpened", outcome)
            found.sort(key=lambda outcome: outcome.loss)
    if not found or not np.isfinite(found[0].loss):
        raise AxBridgeError("the search found no parameters with a finite error", "check the recordings: axbridge info")
    return found


def _staged(job: Job, spread: Mapper, report: Callable[[str, Outcome], None]) -> FloatArray | None:
    """Fit a few unknowns after the other to what tells them; None when the recordings have no stage's motions."""
    row = job.space.base.copy()
    done = False
    for stage in STAGES:
        told = parts(job.runs, stage)
        space = Space(tuple(unknown for unknown in job.space.unknowns if unknown.column in stage.tells), row)
        if told is None or not len(space):
            continue
        first = replace(job, space=space, runs=told, parts=None, step=COARSE, generations=STAGE_GENERATIONS)
        jobs = [replace(first, seed=job.seed + 7 + 1000 * k) for k in range(STAGED)]
        found = list(spread(minimise, jobs))
        for outcome in found:
            report(stage.name, outcome)
        row = space.sets(min(found, key=lambda outcome: outcome.loss).point[None])[0]
        done = True
    return job.space.point(row) if done else None
