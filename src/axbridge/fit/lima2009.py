"""Identification as in Lima et al. 2009, in two scans.

Friction is scanned on falls with the motor off (figures 7-9), then the controller's gains on steps (figures 10-12).
Beyond the paper, command latency is scanned with the gains: 20 ms of ignored latency cause a larger error than the
paper's total error. The minimum is refined by least squares, with intervals.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, Remedy
from axbridge.fit.intervals import Uncertainty, uncertainty
from axbridge.fit.least_squares import polish
from axbridge.fit.prediction import COARSE, predicted
from axbridge.fit.prepare import Problem
from axbridge.fit.result import Fit, doubts, scores_of
from axbridge.fit.search import losses
from axbridge.fit.unknowns import Space, space_of
from axbridge.recording.recording import Recording
from axbridge.servo.columns import Param
from axbridge.sim.runs import Regime, Runs

_GRID = 21  # points for each unknown
_LATENCIES = 12  # points for the latency
_VALLEYS = 6  # best points of the scan that are refined: valleys are narrow and curved
_BEFORE = 5  # samples at rest whose mean is the start angle of a part


def paper_procedure(problem: Problem, seed: int = 0) -> Fit:
    """Fit friction to the falls, then the gains to the steps; raise RecordingError without falls or steps."""
    begin, rig = time.monotonic(), problem.rig
    whole = space_of("lima2009", None, packed(problem.base, rig))
    falls, steps = (runs_of(_parts(problem.fitted, kind, rig), rig) for kind in ("fall", "step"))
    names = [unknown.name for unknown in whole.unknowns]
    friction = whole.without([name for name in names if name.startswith("controller.")])
    friction_at, fallen, count = _scan(friction, falls)
    row = friction.row(friction_at)
    gains = replace(whole.without([name for name in names if name.startswith("friction.")]), base=row)
    gains_at, stepped, more = _scan(gains, steps)
    only = replace(friction.without(["sensor.latency_ms"]), base=row)
    row = gains.row(gains_at)
    bounds = _joined(uncertainty(only, falls, only.point(row)), uncertainty(gains, steps, gains_at))
    order = only.unknowns + gains.unknowns
    simulated = predicted(row[None], problem.every)[0]
    scores = scores_of(problem, simulated)
    flat = (unknown for unknown in order if unknown.name in bounds.flat)
    lost = (f"not identified: {unknown.name}; record {unknown.best_experiment}" for unknown in flat)
    return Fit.of(
        problem, order, row, bounds, scores=scores, simulated=simulated, starts=(fallen, stepped),
        warnings=(*lost, *doubts(scores)), rollouts=count + more, seconds=time.monotonic() - begin, seed=seed,
    )  # fmt: skip


def _scan(space: Space, runs: Runs) -> tuple[FloatArray, float, int]:
    """Scan two unknowns (and latency, if it is one) and refine the best points.

    Returns the optimum (n,), its mean squared error, deg², and the number of rollouts.
    """
    axes = [np.linspace(0.0, 1.0, _LATENCIES if u.column is Param.LATENCY else _GRID) for u in space.unknowns]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(space))
    mse = losses(space, runs, points, "mse", COARSE).mean(axis=1)
    polished = np.array([polish(space, runs, point, rounds=20) for point in _apart(mse, points)])
    errors = losses(space, runs, polished, "mse").mean(axis=1)
    return polished[int(np.argmin(errors))], float(errors.min()), len(mse) * runs.recordings


def _apart(mse: FloatArray, points: FloatArray) -> FloatArray:
    """Return the best points (`_VALLEYS`, n) of a scan (k, n) that are not neighbours of each other, best first."""
    chosen: list[FloatArray] = []
    for index in np.argsort(mse):
        if all(np.max(np.abs(points[index] - other)) > 2.5 / _GRID for other in chosen):
            chosen.append(points[index])
        if len(chosen) == _VALLEYS:
            break
    return np.array(chosen)


def _parts(recordings: Sequence[Recording], kind: str, rig: Rig) -> list[Recording]:
    """Return the segments of one kind as separate recordings that start at rest."""
    parts = []
    for recording in recordings:
        for segment in recording.segments:
            if segment.data.get("kind") != kind:
                continue
            for name, track in recording.items():
                before = track.between(segment.start - 0.5, segment.start - 1e-6)
                part = track.between(float(before.time[-1]) if len(before) else segment.start, segment.end)
                if len(part) < 5:
                    continue
                position, regime = part.position.copy(), part.torque_enabled.copy()
                rest = before.position[-_BEFORE:]
                if len(rest) and np.ptp(rest) < np.radians(1.0):
                    position[0] = float(np.mean(rest))  # one sample has noise and rounding
                    regime[0] = Regime.HELD  # until the segment's command acts, latency later
                parts.append(replace(recording, tracks={name: replace(part, position=position, torque_enabled=regime)}))
    if not parts:
        says = "the paper's procedure needs falls and steps: {}, or --segment of `import`; --method cma does without"
        path = recordings[0].path if recordings else "recordings"
        raise RecordingError(path, f"no {kind} among the segments", Remedy("record", kind, rig=rig.path, says=says))
    return parts


def _joined(a: Uncertainty, b: Uncertainty) -> Uncertainty:
    from scipy.linalg import block_diag

    return Uncertainty(
        np.append(a.low, b.low), np.append(a.high, b.high), block_diag(a.correlation, b.correlation),
        np.append(a.share, b.share), a.flat + b.flat, a.alike + b.alike, a.at_end + b.at_end,
    )  # fmt: skip
