"""Identification as in Lima et al. 2009: a line for Ks (their figure 5), then two scans.

Friction is scanned on falls with the motor off (figures 7-9), then the controller's gains on steps (figures 10-12).
Beyond the paper, command latency is scanned with the gains: 20 ms of ignored latency cause a larger error than the
paper's total error. The minimum is refined by least squares, with intervals.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, Remedy
from axbridge.file_reading import reading, regular
from axbridge.fit.intervals import Uncertainty, uncertainty
from axbridge.fit.least_squares import polish
from axbridge.fit.pipeline import doubts, inputs_of, scores_of
from axbridge.fit.prediction import COARSE, predicted
from axbridge.fit.prepare import prepare
from axbridge.fit.result import Fit, KsLine, Surface
from axbridge.fit.search import losses
from axbridge.fit.unknowns import Space, space_of
from axbridge.recording.recording import Recording
from axbridge.servo.columns import Param
from axbridge.sim.runs import Regime, Runs

_GRID = 21  # points for each unknown
_LATENCIES = 12  # points for the latency
_VALLEYS = 6  # best points of the scan that are refined: valleys are narrow and curved
_BEFORE = 5  # samples at rest whose mean is the start angle of a part


def ks_line(path: Path | str) -> KsLine:
    """Fit Ks to a CSV of ``speed`` (motor side, rad/s) and ``volts`` (open circuit, V); RecordingError if invalid."""
    with (
        reading(partial(RecordingError, path), "give columns speed,volts"),
        regular(path).open(encoding="utf-8-sig", newline="") as stream,
    ):
        points = np.array([[float(row["speed"]), float(row["volts"])] for row in csv.DictReader(stream)])
    if len(points) < 2 or not np.any(points[:, 0]):
        raise RecordingError(path, "holds fewer than two points", "measure the voltage at several speeds")
    speed, volts = points.T
    ks = float(speed @ volts / (speed @ speed))
    spread = float(np.sum((volts - ks * speed) ** 2)) / (len(points) - 1)
    return KsLine(speed, volts, ks, float(np.sqrt(spread / (speed @ speed))))


def paper_procedure(
    recordings: Sequence[Recording],
    rig: Rig,
    *,
    line: KsLine | None = None,
    held_out: Sequence[Recording] = (),
    seed: int = 0,
) -> Fit:
    """Fit friction to the falls, then the gains to the steps; raise RecordingError without falls or steps."""
    begin = time.monotonic()
    problem = prepare(recordings, rig, "lima2009", held_out=held_out)
    base, every = problem.base, problem.every
    if line is not None:
        base = base.model_copy(update={"motor": base.motor.model_copy(update={"torque_constant": line.ks})})
    whole = space_of("lima2009", None, packed(base, rig))
    falls, steps = (runs_of(_parts(recordings, kind), rig) for kind in ("fall", "step"))
    names = [unknown.name for unknown in whole.unknowns]
    friction = whole.without([name for name in names if name.startswith("controller.")])
    fallen, friction_at, count = _scan(friction, falls)
    row = friction.row(friction_at)
    gains = replace(whole.without([name for name in names if name.startswith("friction.")]), base=row)
    stepped, gains_at, more = _scan(gains, steps)
    only = replace(friction.without(["sensor.latency_ms"]), base=row)
    row = gains.row(gains_at)
    bounds = _joined(uncertainty(only, falls, only.point(row)), uncertainty(gains, steps, gains_at))
    order = only.unknowns + gains.unknowns
    lost = (unknown for unknown in order if unknown.name in bounds.flat)
    simulated = predicted(row[None], every)[0]
    scores = scores_of(problem, simulated)
    return Fit(
        kind="lima2009",
        friction="M1",
        unknowns=order,
        row=row,
        base=base,
        scores=scores,
        uncertainty=bounds,
        starts=(fallen.least, stepped.least),
        warnings=(*(f"not identified: {u.name}; record {u.best_experiment}" for u in lost), *doubts(scores)),
        rollouts=count + more,
        seconds=time.monotonic() - begin,
        seed=seed,
        runs=every,
        simulated=simulated,
        rig=rig,
        inputs=inputs_of(problem),
        line=line,
        surfaces=(fallen, stepped),
    )


def _scan(space: Space, runs: Runs) -> tuple[Surface, FloatArray, int]:
    """Scan two unknowns (and latency, if it is one) and refine the best points; return scan, optimum (n,), rollouts."""
    x, y = (unknown for unknown in space.unknowns if unknown.column is not Param.LATENCY)
    share, count = np.linspace(0.0, 1.0, _GRID), len(space)
    axes = [np.full(1, 0.5)] * count
    for index, unknown in enumerate(space.unknowns):
        axes[index] = np.linspace(0.0, 1.0, _LATENCIES) if unknown.column is Param.LATENCY else share
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    mse = losses(space, runs, points.reshape(-1, count), "mse", COARSE).mean(axis=1)
    minima = _apart(mse, points.reshape(-1, count))
    polished = np.array([polish(space, runs, point, rounds=20) for point in minima])
    errors = losses(space, runs, polished, "mse").mean(axis=1)
    best, least = polished[int(np.argmin(errors))], float(errors.min())
    row, rows = space.row(best), space.sets(np.repeat(share[:, None], count, axis=1))
    others = tuple(index for index, unknown in enumerate(space.unknowns) if unknown not in {x, y})
    surface = mse.reshape(points.shape[:-1]).min(axis=others)
    at = float(row[x.column]), float(row[y.column])
    return Surface(x, y, rows[:, x.column], rows[:, y.column], surface, at, least), best, len(mse) * runs.recordings


def _apart(mse: FloatArray, points: FloatArray) -> FloatArray:
    """Return the best points (`_VALLEYS`, n) of a scan (k, n) that are not neighbours of each other, best first."""
    chosen: list[FloatArray] = []
    for index in np.argsort(mse):
        if all(np.max(np.abs(points[index] - other)) > 2.5 / _GRID for other in chosen):
            chosen.append(points[index])
        if len(chosen) == _VALLEYS:
            break
    return np.array(chosen)


def _parts(recordings: Sequence[Recording], kind: str) -> list[Recording]:
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
        raise RecordingError(path, f"no {kind} among the segments", Remedy("record", kind, says=says))
    return parts


def _joined(a: Uncertainty, b: Uncertainty) -> Uncertainty:
    from scipy.linalg import block_diag

    return Uncertainty(
        np.append(a.low, b.low), np.append(a.high, b.high), block_diag(a.correlation, b.correlation),
        np.append(a.share, b.share), a.flat + b.flat, a.alike + b.alike, a.at_end + b.at_end,
    )  # fmt: skip
