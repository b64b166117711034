"""What `axbridge record --dry-run` shows: the goals an experiment would give, tried on the simulator."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from axbridge.arrays import FloatArray
from axbridge.comparison.png import save
from axbridge.config.rig import Rig
from axbridge.motion.experiments import Options, check, conduct
from axbridge.motion.record import period_of
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot


def dry_run(
    rig: Rig, servo: str | None, seed: int, name: str, options: Options, tick: float | None, picture: Path
) -> None:
    """Try an experiment on the simulator, say what its parts are, and draw its goals. No real servo hears of it."""
    period = period_of(rig, tick)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dry.mcap"
        with open_robot(rig, "sim", seed=seed) as robot:
            check(name, robot, servo, options)
            with Recorder(path, {}) as recorder:
                conduct(name, robot, servo, recorder, options, tick_ms=period)
        recording = open_recording(path)
        for line in _parts(recording):
            print(line)
        _draw(recording, name, picture)
    print(f"dry run: no servo moved; the goals are drawn in {picture}")


def _parts(recording: Recording) -> list[str]:
    """A line a segment: when, what, and between which goals."""
    lines = []
    for segment in recording.segments:
        spans = []
        for servo in recording:
            part = recording[servo].between(segment.start, segment.end)
            goals, duty = _goals(part)
            spans += [f"{servo} {_span(goals)}°"] if np.isfinite(goals).any() else []
            spans += [f"{servo} {_span(duty)} % duty"] if np.isfinite(duty).any() else []
        lines.append(f"{segment.start:6.2f} s  {segment.name:<20} {', '.join(spans) or 'limp'}")
    return lines


def _goals(track: Track) -> tuple[FloatArray, FloatArray]:
    """Goals, degrees, and duties of a wheel, per cent, (n,) each; NaN where there is none: a limp servo has no goal."""
    turns = np.isfinite(track.duty)
    goals = np.where(track.enabled & ~turns, np.degrees(track.command), np.nan)
    return goals, np.where(track.enabled & turns, 100 * track.duty, np.nan)


def _span(values: FloatArray) -> str:
    low, high = f"{np.nanmin(values):.0f}", f"{np.nanmax(values):.0f}"
    return low if low == high else f"{low} to {high}"


def _draw(recording: Recording, name: str, picture: Path) -> None:
    figure = Figure(figsize=(8, 4), dpi=120, layout="constrained")
    axes = figure.subplots()
    units = set()
    for servo in recording:
        for values, unit in zip(_goals(recording[servo]), ("°", "% duty"), strict=True):
            if np.isfinite(values).any():
                axes.step(recording[servo].time, values, where="post", label=f"{servo}, {unit}")
                units.add(unit)
    for segment in recording.segments:
        axes.axvline(segment.start, color="0.85", zorder=0)
    axes.set(
        xlabel="time, s",
        ylabel=f"goal, {' or '.join(sorted(units)) or '°'}",
        title=f"{name}: goals, tried on the simulator",
    )
    if units:
        axes.legend()
    save(figure, picture)
