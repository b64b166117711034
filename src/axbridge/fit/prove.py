"""A fit of data whose truth is known: which parameters come back from recordings with these goals.

The truth is drawn at random, and does what the recordings' commands ask. Its positions, with their noise and rounding
and at times as uneven, take the place of what was measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.fit.parts import speeds
from axbridge.fit.prepare import Problem, resting_noise
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts

WITHIN = 0.25, 0.75  # of the ranges: a truth of which nobody knows anything
STEP = 0.5e-3  # s: half of a fit's own


def hidden(problem: Problem, seed: int) -> tuple[Problem, FloatArray]:
    """The problem with data of a hidden truth, nothing of it held out, and that truth: (len(Param),)."""
    rng = np.random.default_rng(seed)
    space, runs, usual = problem.space, problem.runs, problem.space.usual
    near = space.point(space.base) + np.where(np.isfinite(usual), usual, 0.0) * rng.normal(size=len(space))
    drawn = np.where(np.isfinite(usual), np.clip(near, 0.05, 0.95), rng.uniform(*WITHIN, len(space)))
    row = space.sets(drawn[None])[0]
    count = float(row[Param.COUNT])
    position = rollouts(row[None], runs, STEP)[0] + rng.normal(0.0, resting_noise(runs), len(runs.time))
    if len(runs.spread):
        late = np.repeat(runs.spread, np.diff(runs.start)) * rng.normal(size=len(runs.time))
        position += speeds(runs) * late
    seen = runs._replace(position=count * np.round(position / count))
    return replace(problem, runs=seen, every=seen, held_out=(), floors=()), row
