"""The effect of the friction law on a fit: comparison of all laws, and intervals that include a richer law.

*Comparison* (`compare_laws`): a fit with each of M1-M6, started at the end of the best law that it contains, and judged
on held-out recordings. Among the laws whose error is less than `SURE` standard errors above the smallest, the one with
the fewest parameters is chosen. The standard error is that of the difference over stretches of `STRETCH` seconds,
because a motion that one law predicts badly is difficult for all. Without held-out recordings the Bayesian information
criterion (BIC) decides.

*Richer law* (`richer_law`): if a law with more terms fits better by the BIC, its intervals are included, too. Errors
are correlated in time, so the BIC counts independent samples (`independent`). A law is tried only if a linear model of
its terms' effect on the residuals predicts enough gain (`promising`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.fit.intervals import Uncertainty, flat_of, uncertainty
from axbridge.fit.least_squares import best_polished, polish, residuals, slopes
from axbridge.fit.prediction import COARSE, independent, predicted
from axbridge.fit.prepare import Problem
from axbridge.fit.result import Fit, LawComparison, LawScore
from axbridge.fit.search import Job, Mapper, Report, executor, minimise
from axbridge.fit.unknowns import FRICTION_LAWS, Space, enriched, richer_than
from axbridge.servo.columns import Param
from axbridge.sim.runs import Runs

STRETCH = 0.5  # s: errors of a simulated motion rarely last longer
ROUNDS = 12  # of least squares
SPREAD = 0.1  # initial standard deviation of the search for each law, in ranges
ASKING = 0.5  # share of the gain that the BIC needs: a linear model must predict at least this share
_BY_ERROR = "fewest parameters among those within two standard errors of the smallest held-out error"
_BY_CRITERION = "smallest BIC, as no recording was held out"


@dataclass(frozen=True)
class Richer:
    """A richer law that fits the recordings better, or that they do not rule out."""

    law: str  # its name
    space: Space  # its unknowns
    bounds: Uncertainty  # their intervals


def criterion(runs: Runs, simulated: FloatArray, unknowns: int, count: float) -> float:
    """Return the Bayesian information criterion of a simulation (l,) with `count` independent samples."""
    error = np.degrees(runs.errors(simulated))
    square = float(error @ error) / float(runs.compared.sum())
    return count * math.log(max(square, 1e-12)) + unknowns * math.log(count)


def start_from(row: FloatArray) -> FloatArray:
    """Return a parameter set (len(Param),) of a richer law with the same motion as one of a simpler law."""
    start = row.copy()
    if start[Param.LOAD_EXTERNAL] < 0.0:
        start[Param.LOAD_EXTERNAL] = start[Param.LOAD]  # a separate parameter with the same value
        start[Param.LOAD_EXTERNAL_STRIBECK] = start[Param.LOAD_STRIBECK]
    return start


def richer_law(
    space: Space, law: str, runs: Runs, point: FloatArray, *, generations: int, seed: int, mapper: Mapper,
    report: Report = lambda _what, _share: None,
) -> Richer | None:  # fmt: skip
    """Return the best of the laws that contain a fit's law, by the BIC; None when the fit's own law is best."""
    if not richer_than(law):
        return None
    own = polish(space, runs, point, rounds=ROUNDS)  # the BIC compares squares, so each law needs its least squares
    row = space.row(own)
    plain = predicted(row[None], runs)[0]
    spaces = promising(space, law, runs, own, independent(runs, plain))
    if not spaces:
        return None
    report(f"richer friction laws: {', '.join(spaces)}", None)
    jobs = [
        Job(wider, runs, seed, generations, wider.point(_start_row(row, wider)), SPREAD, COARSE, loss="huber")
        for wider in spaces.values()
    ]
    ends = dict(zip(spaces, mapper(_optimum, jobs), strict=True))
    gains = {}
    for name, wider in spaces.items():
        simulated = predicted(wider.sets(ends[name][None]), runs)[0]
        count = independent(runs, simulated)
        gains[name] = criterion(runs, plain, len(space), count) - criterion(runs, simulated, len(wider), count)
    best = max(gains, key=lambda name: gains[name])
    if gains[best] <= 0:
        return None
    return Richer(best, spaces[best], uncertainty(spaces[best], runs, ends[best], mapper))


def promising(space: Space, law: str, runs: Runs, point: FloatArray, count: float) -> dict[str, Space]:
    """Return the richer laws and their unknowns that residuals at a point suggest; `count`: independent samples."""
    row, error = space.row(point), residuals(space, runs, point[None], robust=True)[0]
    laws = {}
    for name in richer_than(law):
        wider = enriched(space, name)
        slope = slopes(wider, runs, wider.point(_start_row(row, wider)), robust=True)
        own = slope[:, [unknown in space.unknowns for unknown in wider.unknowns]]
        without, with_it = (error - basis @ np.linalg.lstsq(basis, error)[0] for basis in (own, slope))
        gain = count * math.log(float(without @ without) / float(with_it @ with_it))
        if gain > ASKING * (len(wider) - len(space)) * math.log(count):
            laws[name] = wider
    return laws


def allowing_for(fit: Fit, richer: Richer | None) -> Fit:
    """Return the fit with intervals valid under a richer law, too; unknowns that it does not identify have none."""
    if richer is None:
        return replace(fit, allowed="")
    bounds, other, theirs = fit.uncertainty, richer.bounds, richer.space.unknowns
    low, high, share = bounds.low.copy(), bounds.high.copy(), bounds.share.copy()
    here, there = np.array([(k, theirs.index(u)) for k, u in enumerate(fit.unknowns) if u in theirs]).T
    low[here] = np.minimum(low[here], other.low[there])
    high[here] = np.maximum(high[here], other.high[there])
    share[here] = np.maximum(share[here], other.share[there])
    wide = replace(bounds, low=low, high=high, share=share, flat=flat_of(fit.space, share))
    lost = [name for name in wide.flat if name not in bounds.flat]
    warnings = (f"identified by law {fit.friction} alone, not by {richer.law}: {name}" for name in lost)
    return replace(fit, allowed=richer.law, uncertainty=wide, warnings=(*fit.warnings, *warnings))


def _start_row(row: FloatArray, richer: Space) -> FloatArray:
    """Return a start (len(Param),) for a richer law: its new terms are not 0, where their derivatives vanish."""
    start = start_from(row)
    start[Param.VISCOUS] = max(start[Param.VISCOUS], 1e-3)
    searched = {unknown.column for unknown in richer.unknowns}
    if Param.STRIBECK in searched and row[Param.STRIBECK] == 0.0:
        start[Param.STRIBECK], start[Param.STRIBECK_SPEED] = 0.3 * row[Param.COULOMB], 0.3
        start[Param.COULOMB] *= 0.85
    if Param.LOAD in searched and row[Param.LOAD] == 0.0:
        start[Param.LOAD] = 0.05
    return start


def _optimum(job: Job) -> FloatArray:
    """Return the better result of least squares alone, and of least squares after a search."""
    return best_polished(job.space, job.runs, [job.point, minimise(job).point], rounds=ROUNDS)


def compare_laws(
    prepared: Callable[..., Problem], fitting: Callable[..., Fit], *, budget: float, where: str | Mapper | None = None,
    report: Report = lambda _what, _share: None,
) -> Fit:  # fmt: skip
    """Fit each friction law with an equal share of the budget, and return the fit of the law that the data support.

    `prepared` and `fitting`: `prepare` and `fit_model` with the arguments that all laws share.
    """
    fits: dict[str, Fit] = {}
    laws = len(FRICTION_LAWS)
    with executor(where) as mapper:
        for law in FRICTION_LAWS:
            simpler = [fit for name, fit in fits.items() if set(FRICTION_LAWS[name]) < set(FRICTION_LAWS[law])]
            squares = [sum(score.rmse**2 for score in fit.scores if not score.held_out) for fit in simpler]
            near = start_from(simpler[int(np.argmin(squares))].row) if simpler else None
            fits[law] = fitting(
                prepared(friction=law, near=near), budget=budget / laws, richer=False, where=mapper,
                report=lambda what, share, law=law: report(f"{law}: {what}", (len(fits) + (share or 0.0)) / laws),
            )  # fmt: skip
    most = fits[max(fits)]  # M6 has the most terms
    count = sum(not score.held_out for score in most.scores)
    fitted, rest = most.runs.only(range(count)), range(count, most.runs.recordings)
    count_of = independent(fitted, most.simulated[: len(fitted.time)])
    stretches = {law: _stretches(fit.runs, fit.simulated, rest) for law, fit in fits.items()} if rest else {}
    best = min(stretches, key=lambda law: float(stretches[law].mean())) if stretches else None
    scores = []
    for law, fit in fits.items():
        unknowns = len(fit.unknowns)
        behind = stretches[law] - stretches[best] if best is not None else np.full(1, math.nan)
        scores.append(
            LawScore(
                law, unknowns, float(np.mean(fit.errors(held_out=False))),
                float(stretches[law].mean()) if stretches else math.nan, float(behind.mean()),
                float(behind.std(ddof=1) / math.sqrt(len(behind))) if len(behind) > 1 else 0.0,
                criterion(fitted, fit.simulated[: len(fitted.time)], unknowns, count_of),
            )
        )  # fmt: skip
    chosen = chosen_law(scores)
    tied = {score.law: score.held_out_mae_deg for score in scores if score.law in richer_than(chosen) and score.tied}
    richer = min(tied, key=lambda law: tied[law], default=None)  # the data do not rule it out
    allowed = None if richer is None else Richer(richer, fits[richer].space, fits[richer].uncertainty)
    fit = allowing_for(fits[chosen], allowed)
    return replace(fit, laws=LawComparison(tuple(scores), chosen, _BY_ERROR if stretches else _BY_CRITERION))


def chosen_law(scores: Sequence[LawScore]) -> str:
    """Return the tied law with the fewest parameters; without held-out recordings the law with the least BIC."""
    if any(math.isnan(score.held_out_mae_deg) for score in scores):
        return min(scores, key=lambda score: score.bic).law
    tied = [score for score in scores if score.tied]
    return min(tied, key=lambda score: (score.parameters, score.held_out_mae_deg)).law


def _stretches(runs: Runs, simulated: FloatArray, chosen: Sequence[int]) -> FloatArray:
    """Return the mean absolute error of each stretch of the chosen recordings, degrees, (s,)."""
    error = np.abs(np.degrees(runs.errors(simulated)))
    means = []
    for recording in chosen:
        a, b = runs.spans[recording]
        known = runs.judged[a:b]
        number = ((runs.time[a:b] - runs.time[a]) / STRETCH).astype(int)[known]
        part = error[a:b][known]
        means += [float(part[number == stretch].mean()) for stretch in np.unique(number)]
    return np.array(means)
