"""What each kind of motion tells, and recordings cut into short parts.

A part is simulated from what was measured at its start, so that one slip of a sticking joint costs a second, not the
rest of the recording: the error becomes smooth in the parameters, and every second of the motion counts alike. Longer
parts beside them show where the joint comes to rest after all. Stages
go from what depends on least to what depends on all: falls have no motor in them, holds and slow lifts no controller
and little inertia.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray, IntArray
from axbridge.servo.columns import Param
from axbridge.sim.runs import JOINT_MODE, Regime, Runs

LONGEST, SHORTEST = 1.0, 0.15  # s: of a part
LENGTHS = LONGEST, 3.0  # s: a fit of everything looks at both
AROUND = 4  # samples on either side that a speed is taken from
RESTING, SLOW = 0.05, 1.0  # rad/s

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Stage:
    """One stage."""

    name: str  # in progress
    tells: frozenset[Param]  # what its motions tell, of the unknowns there are
    chosen: Callable[[Runs, FloatArray], Mask]  # its samples, (l,), given the runs and `speeds`
    moved: float = math.radians(5.0)  # motion over all its parts together below which they tell nothing, rad


_FRICTION = frozenset({
    Param.COULOMB, Param.VISCOUS, Param.STRIBECK, Param.STRIBECK_SPEED, Param.LOAD, Param.LOAD_STRIBECK,
    Param.LOAD_EXTERNAL, Param.QUADRATIC,
})  # fmt: skip
_ELECTRIC = frozenset({Param.CONSTANT, Param.RESISTANCE, Param.RESISTANCE_PER_DUTY, Param.EFFICIENCY, Param.ASYMMETRY})
_CONTROLLER = frozenset({Param.SLOPE, Param.PUNCH, Param.K_THETA, Param.K_OMEGA})

STAGES = (
    Stage("falls", _FRICTION | {Param.ARMATURE, Param.OFFSET}, lambda runs, _speed: runs.driven == Regime.OFF),
    Stage("wheel mode", _ELECTRIC, lambda runs, _speed: (runs.driven == Regime.ON) & (runs.duty < JOINT_MODE)),
    Stage(
        "holds and slow lifts",
        _ELECTRIC | {Param.LOAD, Param.LOAD_STRIBECK, Param.LOAD_EXTERNAL, Param.STRIBECK, Param.RESISTANCE_PER_KELVIN},
        lambda runs, speed: (runs.driven == Regime.ON) & (runs.duty >= JOINT_MODE) & (np.abs(speed) < SLOW),
        moved=0.0,
    ),
    Stage(
        "steps",
        _CONTROLLER | {Param.LATENCY, Param.ARMATURE, Param.VISCOUS},
        lambda runs, _speed: (runs.driven == Regime.ON) & (runs.duty >= JOINT_MODE),
    ),
)


def speeds(runs: Runs) -> FloatArray:
    """Speeds (l,) from the positions: lines through the samples around each; 0 at rest, rad/s.

    A recording's first is the measured one: a line would be that of a little later.
    """
    found = runs.velocity.copy()
    kernel = np.ones(2 * AROUND + 1)
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        time, position = runs.time[a:b] - runs.time[a], runs.position[a:b] - runs.position[a]
        if b - a <= 2 * AROUND:
            continue
        n, t, p, tt, tp = (
            np.convolve(values, kernel, "same")
            for values in (np.ones(b - a), time, position, time * time, time * position)
        )
        found[a + 1 : b] = ((n * tp - t * p) / np.maximum(n * tt - t * t, 1e-12))[1:]
    return np.where(np.abs(found) < RESTING, 0.0, found)


def parts(runs: Runs, stage: Stage | None = None, lengths: Sequence[float] = (LONGEST,)) -> Runs | None:
    """The recordings in parts of at most these `lengths` (s), each a run of its own; all, or what tells of a stage.

    Of several lengths each has all the parts.

    What a model does not predict (held, or followed) is left out. None when nothing is left, or too little motion.
    """
    speed = speeds(runs)
    chosen = (runs.driven == Regime.ON) | (runs.driven == Regime.OFF)
    if stage is not None:
        chosen &= stage.chosen(runs, speed)
    index: list[IntArray] = []
    source: list[int] = []
    for longest in lengths:
        for recording, (a, b) in enumerate(zip(runs.start[:-1], runs.start[1:], strict=True)):
            for first, last in _stretches(chosen[a:b], runs.time[a:b], longest):
                index.append(np.arange(a + first, a + last))
                source.append(recording)
    if not index or sum(float(np.ptp(runs.position[i])) for i in index) < (stage.moved if stage is not None else 0.0):
        return None
    order, start = np.concatenate(index), np.cumsum([0, *(len(i) for i in index)])
    return runs._replace(velocity=speed).taken(start, order, source)


def _stretches(chosen: Mask, time: FloatArray, longest: float) -> Iterator[tuple[int, int]]:
    """Where samples are chosen without a gap, cut to `longest` s: first and past-the-last index of each."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.astype(np.int8), [0]))))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        span = time[last - 1] - time[first]
        count = max(1, math.ceil(float(span) / longest))
        cuts = np.searchsorted(time[first:last], time[first] + span * np.arange(count) / count) + first
        for a, b in zip(cuts, [*cuts[1:], last], strict=True):
            if time[b - 1] - time[a] >= SHORTEST:
                yield int(a), int(b)
