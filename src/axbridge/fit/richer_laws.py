"""What the intervals of a fit owe to its friction law: richer laws that the residuals ask for are tried from its end.

An interval says how far a value may lie from its estimate if the law is right. If a law with more terms follows the
recordings better, the truth may be its: then its intervals count, too. Whether it does is decided by the Bayesian
information criterion: better by more than its terms would be by chance. Errors last, so not every sample counts as one;
how long they last is measured (`independent`). A law is tried only where a linear model of what its terms do to the
residuals promises enough (`asked`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.fit.intervals import Uncertainty, flat_of, uncertainty
from axbridge.fit.least_squares import misfits, polish, residuals, slopes
from axbridge.fit.residuals import COARSE, independent, predicted
from axbridge.fit.search import Job, Mapper, Report, minimise
from axbridge.fit.unknowns import Space, enriched, richer_than
from axbridge.servo.columns import Param
from axbridge.sim.runs import Runs

ROUNDS = 12
SPREAD = 0.1  # of the search for each law, in ranges
ASKING = 0.5  # of what the criterion wants of a law: what a linear model must promise of it


@dataclass(frozen=True)
class Richer:
    """A richer law that the recordings call for, or do not rule out."""

    law: str  # its name
    space: Space  # its unknowns
    sure: Uncertainty  # their intervals


def criterion(runs: Runs, simulated: FloatArray, unknowns: int, count: float) -> float:
    """Bayesian information criterion of a simulation (l,), with so many samples that tell something of their own."""
    error = np.degrees(runs.errors(simulated))
    square = float(error @ error) / float(runs.compared.sum())
    return count * math.log(max(square, 1e-12)) + unknowns * math.log(count)


def begun_from(row: FloatArray) -> FloatArray:
    """A parameter set (len(Param),) of a simpler law as one of a richer law, that moves alike."""
    found = row.copy()
    if found[Param.LOAD_EXTERNAL] < 0.0:
        found[Param.LOAD_EXTERNAL] = found[Param.LOAD]  # the same weights, said by their own parameters
        found[Param.LOAD_EXTERNAL_STRIBECK] = found[Param.LOAD_STRIBECK]
    return found


def richer_law(
    space: Space, law: str, runs: Runs, point: FloatArray, *, generations: int, seed: int, spread: Mapper,
    report: Report = lambda _what, _share: None,
) -> Richer | None:  # fmt: skip
    """The law that follows the recordings best among those that contain a fit's; None when the fit's own does."""
    if not richer_than(law):
        return None
    own = polish(space, runs, point, rounds=ROUNDS)  # squares choose, so the law itself has to have the least of them
    plain = predicted(space.sets(own[None]), runs)[0]
    spaces = asked(space, law, runs, own, independent(runs, plain))
    if not spaces:
        return None
    report(f"richer friction laws: {', '.join(spaces)}", None)
    row = space.sets(own[None])[0]
    jobs = [
        Job(wider, runs, seed, generations, wider.point(_begin(row, wider)), SPREAD, COARSE, loss="huber")
        for wider in spaces.values()
    ]
    ends = dict(zip(spaces, spread(_ended, jobs), strict=True))
    gains = {}
    for name, wider in spaces.items():
        simulated = predicted(wider.sets(ends[name][None]), runs)[0]
        count = independent(runs, simulated)
        gains[name] = criterion(runs, plain, len(space), count) - criterion(runs, simulated, len(wider), count)
    best = max(gains, key=lambda name: gains[name])
    if gains[best] <= 0:
        return None
    return Richer(best, spaces[best], uncertainty(spaces[best], runs, ends[best], spread))


def asked(space: Space, law: str, runs: Runs, point: FloatArray, count: float) -> dict[str, Space]:
    """The richer laws, and their unknowns, that residuals at a point ask for; as many samples count as one each."""
    row, error = space.sets(point[None])[0], residuals(space, runs, point[None], robust=True)[0]
    found = {}
    for name in richer_than(law):
        wider = enriched(space, name)
        slope = slopes(wider, runs, wider.point(_begin(row, wider)), robust=True)
        own = slope[:, [unknown in space.unknowns for unknown in wider.unknowns]]
        without, with_it = (error - one @ np.linalg.lstsq(one, error)[0] for one in (own, slope))
        gain = count * math.log(float(without @ without) / float(with_it @ with_it))
        if gain > ASKING * (len(wider) - len(space)) * math.log(count):
            found[name] = wider
    return found


def widened(sure: Uncertainty, space: Space, richer: Richer) -> Uncertainty:
    """Intervals that hold under either law; what the richer one does not identify has none."""
    low, high, share = sure.low.copy(), sure.high.copy(), sure.share.copy()
    other = richer.sure
    for index, unknown in enumerate(space.unknowns):
        if unknown in richer.space.unknowns:
            there = richer.space.unknowns.index(unknown)
            low[index] = min(low[index], other.low[there])
            high[index] = max(high[index], other.high[there])
            share[index] = max(share[index], other.share[there])
    return replace(sure, low=low, high=high, share=share, flat=flat_of(space, share))


def _begin(row: FloatArray, richer: Space) -> FloatArray:
    """A parameter set (len(Param),) of a simpler law with a little of all that a richer one adds.

    At the ends of their ranges terms do hardly anything, so a search would not find out of there.
    """
    found = begun_from(row)
    found[Param.VISCOUS] = max(found[Param.VISCOUS], 1e-3)
    searched = {unknown.column for unknown in richer.unknowns}
    if Param.STRIBECK in searched and row[Param.STRIBECK] == 0.0:
        found[Param.STRIBECK], found[Param.STRIBECK_SPEED] = 0.3 * row[Param.COULOMB], 0.3
        found[Param.COULOMB] *= 0.85
    if Param.LOAD in searched and row[Param.LOAD] == 0.0:
        found[Param.LOAD] = 0.05
    return found


def _ended(job: Job) -> FloatArray:
    """The better of the ends of least squares, and of a search before them."""
    assert job.point is not None
    ends = np.array([polish(job.space, job.runs, one, rounds=ROUNDS) for one in (job.point, minimise(job).point)])
    best: FloatArray = ends[int(np.argmin(misfits(job.space, job.runs, ends)))]
    return best
