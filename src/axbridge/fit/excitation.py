"""Before a fit: how well recordings identify each unknown, in the time of a few simulations."""

from __future__ import annotations

import math

import numpy as np

from axbridge.fit.least_squares import slopes
from axbridge.fit.prepare import Problem
from axbridge.fit.residuals import COARSE
from axbridge.servo.columns import Param

_WITHIN = 0.2, 0.8  # of the ranges: where the model is put, as terms that are 0 hide each other
_CLEAR = 5.0  # counts that an unknown moves by itself over its range, to be identified well


def excitation(problem: Problem) -> tuple[str, ...]:
    """A line for the recordings, and one an unknown: how far it moves them, and how far nothing else does the same.

    Linear, at the model the fit begins from: an unknown may be identified better, or worse, where the fit ends.
    """
    space, runs = problem.space, problem.runs
    slope = slopes(space, runs, np.clip(space.point(space.base), *_WITHIN), COARSE)
    normal = slope.T @ slope / runs.recordings
    inverse = np.linalg.pinv(normal, rcond=1e-10)
    count = math.degrees(float(space.base[Param.COUNT]))
    lines = [_sampled(problem)]
    for index, unknown in enumerate(space.unknowns):
        moves = math.sqrt(normal[index, index])
        alone = min(moves, 1 / math.sqrt(max(inverse[index, index], 1e-12)))
        how = "well" if alone > _CLEAR * count else "weakly" if alone > count else "not"
        line = f"{unknown.name}: {how} identified (over its range it moves the prediction by {moves:.2g}°, "
        line += f"{alone:.2g}° of it as no other value can)"
        lines.append(line if how == "well" else f"{line}; record {unknown.best_experiment}")
    return tuple(lines)


def _sampled(problem: Problem) -> str:
    """Rates, gaps and clocks of what is fitted."""
    facts = [next(iter(one.values())).facts() for one in problem.fitted]
    runs = problem.runs
    length = float(np.sum(runs.time[runs.start[1:] - 1] - runs.time[runs.start[:-1]]))
    rates = sorted({round(one.rate) for one in facts})
    rate = f"{rates[0]}" if len(rates) == 1 else f"{rates[0]} to {rates[-1]}"
    clock = "stamps restored from a coarse clock" if runs.spread.any() else "clock even"
    if runs.adrift.any():
        clock += ", moments of some commands unknown"
    gaps = sum(one.gaps for one in facts)
    count = f"{len(facts)} recording{'s' * (len(facts) > 1)}"
    return f"{count}, {length:.0f} s, {rate} Hz, gaps: {gaps}, {clock}"
