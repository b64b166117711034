"""What `axbridge record --dry-run` shows: the goals an experiment would give, tried on the simulator."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from axbridge.config.rig import Rig
    from axbridge.record.experiments import Options
    from axbridge.record.recording import Recording

__all__ = ["dry_run"]


def dry_run(
    rig: Rig, servo: str | None, seed: int, name: str, options: Options, tick: float | None, picture: Path
) -> None:
    """Try an experiment on the simulator, say what its parts are, and draw its goals. No real servo hears of it.

    Raises:
        AxBridgeError: the experiment cannot be done; the error that recording it would raise.
        RecordingError: the picture cannot be written.
    """
    from axbridge.record.experiments import check, conduct
    from axbridge.record.recorder import Recorder
    from axbridge.record.recording import open_recording
    from axbridge.robot.open import open_robot

    period = rig.robot.basic_time_step_ms if tick is None else tick
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
            goals = np.degrees(part.command[np.isfinite(part.command) & part.enabled])
            if len(goals):
                low, high = f"{goals.min():.0f}", f"{goals.max():.0f}"
                spans.append(f"{servo} {low}°" if low == high else f"{servo} {low} to {high}°")
        lines.append(f"{segment.start:6.2f} s  {segment.name:<20} {', '.join(spans) or 'no goal'}")
    return lines


def _draw(recording: Recording, name: str, picture: Path) -> None:
    from matplotlib.figure import Figure

    from axbridge.files import replacing, unwritable

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for servo in recording:
        track = recording[servo]
        goals = np.where(track.enabled, np.degrees(track.command), np.nan)  # a limp servo has no goal
        axes.step(track.time, goals, where="post", label=servo)
    for segment in recording.segments:
        axes.axvline(segment.start, color="0.85", zorder=0)
    axes.set(xlabel="time, s", ylabel="goal, °", title=f"{name}: goals, tried on the simulator")
    axes.legend()
    try:
        with replacing(picture) as temporary:
            figure.savefig(temporary, format="png", dpi=120)
    except OSError as failure:
        raise unwritable(picture, failure) from failure
