"""Which friction law do the recordings call for? A fit by each of M1-M6, judged on recordings none of them has seen.

Each law begins where the best of the laws it contains ended, so that it fits at least as well, and does not lose for
having been searched less. The law with the smallest held-out error would often win by chance: laws with more terms fit
what happens to be in the data. So the fewest parameters win among all laws whose held-out error chance may explain: not
`SURE` standard errors above the smallest. The standard error is that of the difference, over stretches of `STRETCH`
seconds: what is hard for one law to predict is hard for all. Without held-out recordings the Bayesian information
criterion decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.fit.pipeline import allowing_for
from axbridge.fit.residuals import independent
from axbridge.fit.result import Fit, LawComparison, LawScore
from axbridge.fit.richer_laws import Richer, begun_from, criterion
from axbridge.fit.search import Mapper, Report, executor
from axbridge.fit.unknowns import FRICTION_LAWS, richer_than
from axbridge.sim.runs import Runs

STRETCH = 0.5  # s: errors of a simulated motion mostly last no longer
_BY_ERROR = "fewest parameters among those within two standard errors of the smallest held-out error"
_BY_CRITERION = "smallest BIC, as no recording was held out"


def compare_laws(
    fitting: Callable[..., Fit], *, budget: float, where: str | Mapper | None = None,
    report: Report = lambda _what, _share: None,
) -> Fit:  # fmt: skip
    """Fit with each friction law, each with its share of the budget, and take the law the data support.

    `fitting` is `axbridge.fit.pipeline.fit_model` with the recordings and all else that is the same for each law.
    """
    fits: dict[str, Fit] = {}
    with executor(where) as running:
        for law in FRICTION_LAWS:

            def after(what: str, share: float | None, law: str = law) -> None:
                done = len(fits) + (share or 0.0)
                report(f"{law}: {what}", done / len(FRICTION_LAWS))

            fits[law] = fitting(
                friction=law, budget=budget / len(FRICTION_LAWS), near=_near(law, fits), richer=False, where=running,
                report=after,
            )  # fmt: skip
    most = fits[max(fits)]  # terms
    count = sum(not score.held_out for score in most.scores)
    fitted, rest = most.runs.only(range(count)), range(count, most.runs.recordings)
    count_of = independent(fitted, most.simulated[: len(fitted.time)])
    new = {law: _stretches(fit.runs, fit.simulated, rest) for law, fit in fits.items()} if rest else {}
    best = min(new, key=lambda law: float(new[law].mean())) if new else None
    scores = []
    for law, fit in fits.items():
        unknowns = len(fit.estimates)
        behind = new[law] - new[best] if best is not None else np.full(1, math.nan)
        scores.append(
            LawScore(
                law, unknowns, float(np.mean(fit.errors(held_out=False))),
                float(new[law].mean()) if new else math.nan, float(behind.mean()),
                float(behind.std(ddof=1) / math.sqrt(len(behind))) if len(behind) > 1 else 0.0,
                criterion(fitted, fit.simulated[: len(fitted.time)], unknowns, count_of),
            )
        )  # fmt: skip
    chosen = chosen_law(scores)
    tied = {score.law: score.held_out_mae_deg for score in scores if score.law in richer_than(chosen) and score.tied}
    richer = min(tied, key=lambda law: tied[law], default=None)  # chance may explain that it is not better
    allowed = None if richer is None else Richer(richer, fits[richer].space, fits[richer].uncertainty)
    fit = allowing_for(fits[chosen], allowed)
    return replace(fit, laws=LawComparison(tuple(scores), chosen, _BY_ERROR if new else _BY_CRITERION))


def chosen_law(scores: Sequence[LawScore]) -> str:
    """See the head of this file."""
    if any(math.isnan(score.held_out_mae_deg) for score in scores):
        return min(scores, key=lambda score: score.bic).law
    return min(
        (score for score in scores if score.tied), key=lambda score: (score.parameters, score.held_out_mae_deg)
    ).law


def _stretches(runs: Runs, simulated: FloatArray, chosen: Sequence[int]) -> FloatArray:
    """Mean absolute error of each stretch of the chosen recordings, degrees, (s,)."""
    error = np.abs(np.degrees(runs.errors(simulated)))
    found = []
    for recording in chosen:
        a, b = runs.start[recording], runs.start[recording + 1]
        known = runs.judged[a:b]
        number = ((runs.time[a:b] - runs.time[a]) / STRETCH).astype(int)[known]
        part = error[a:b][known]
        found += [float(part[number == stretch].mean()) for stretch in np.unique(number)]
    return np.array(found)


def _near(law: str, fits: Mapping[str, Fit]) -> FloatArray | None:
    """The parameter set (len(Param),) of the best fit by a law that this one contains; None when there is none."""
    simpler = [fit for name, fit in fits.items() if set(FRICTION_LAWS[name]) < set(FRICTION_LAWS[law])]
    if not simpler:
        return None
    best = min(simpler, key=lambda fit: sum(score.rmse**2 for score in fit.scores if not score.held_out))
    return begun_from(best.row)
