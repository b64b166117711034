"""Draws the picture of docs/so101.md and prints its table: a real SO-101 beside the simulated one.

    python tools/make_so101.py [FOLDER...]

The picture is of docs/real/so101. Each FOLDER more, with control.csv and state_motor.csv, is a row of the table for
benchmarks/RESULTS.md: mean absolute errors of a perfect servo, of a delay and a lag, and of the rig `so101`, degrees.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from robot_png import draw_robot, extent

import axbridge
from axbridge.comparison.comparison import Comparison, compare
from axbridge.comparison.lag import apart
from axbridge.comparison.page import COLOURS
from axbridge.comparison.simulate import simulate
from axbridge.comparison.tables import errors_beside
from axbridge.config.rig import Rig
from axbridge.config.urdf import read_shapes
from axbridge.recording.import_arms import import_arm_folder
from axbridge.recording.recording import Recording

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT / "docs" / "real" / "so101"
RIG = Rig.load("so101")
DRAWN = ("shoulder_lift", "elbow_flex", "shoulder_pan")
SHOWN = 61.0  # s
POSE = {"shoulder_lift": -0.5, "elbow_flex": 0.6, "wrist_flex": 0.5, "gripper": 0.6}


def recorded(folder: Path) -> Recording:
    """A motion of the real arm, without its gripper, which is no part of the figures."""
    found = import_arm_folder(folder, RIG)
    tracks = {name: track for name, track in found.items() if name != "gripper"}
    return Recording(found.path, tracks, found.events, {}, found.metadata)


def simulated(recording: Recording) -> Comparison:
    """What the rig makes of its goals, beside it."""
    return compare(recording, simulate(recording, RIG), same_clock=True)


def row(name: str, comparison: Comparison, again: Recording | None = None) -> str:
    """A row of the table: of each joint perfect servo / delay and lag / model, and what a repeat differs by."""
    cells, means = [], []
    errors = errors_beside(comparison)
    for servo, track in comparison.reference.items():
        known = errors.get(servo)
        if known is None:  # it was not told to move
            pair = next(pair for pair in comparison.pairs if pair.name == servo)
            rest = float(np.degrees(np.nanmean(np.abs(track.command - track.position))))
            figures = [rest, np.nan, pair.plain.mae]
        else:
            figures = [*(error.mae for error in known[:3])]
        figures += [apart(track, again)[1]] if again is not None else []
        means.append(figures)
        cells.append(" / ".join("-" if np.isnan(one) else f"{one:.2f}" for one in figures))
    cells.append(" / ".join(f"{one:.2f}" for one in np.nanmean(means, axis=0)))
    return f"| {name} | {' | '.join(cells)} |"


def draw(comparison: Comparison, path: Path) -> None:
    """The arm, and three joints of a motion: goal, real and simulated."""
    figure = plt.figure(figsize=(12, 6))
    grid = figure.add_gridspec(
        3, 2, width_ratios=(1, 1.9), left=0.0, right=0.99, top=0.9, bottom=0.09, hspace=0.3, wspace=0.1
    )
    with axbridge.open(RIG, "sim") as robot:
        for name, angle in POSE.items():
            robot[name].set_position(angle)
        for _ in range(100):
            robot.step(20)
        assert robot.simulation is not None
        assert robot.simulation.engine is not None
        poses = robot.simulation.engine.poses()
    shapes = read_shapes(RIG.urdf_path(), "visual", RIG.urdf_text())
    draw_robot(figure.add_subplot(grid[:, 0]), shapes, poses, extent(shapes, [poses], floor=True), floor=True)
    for place, name in enumerate(DRAWN):
        axes = figure.add_subplot(grid[place, 1])
        pair = next(pair for pair in comparison.pairs if pair.name == name)
        motions = pair.motions
        shown = motions.time < SHOWN
        for values, colour, label, width in (
            (motions.command, "command", "goal", 1.4),
            (motions.reference, "reference", "real arm", 1.8),
            (motions.other, "other", "simulated", 1.4),
        ):
            degrees = np.degrees(values[shown])
            axes.plot(motions.time[shown], degrees, color=COLOURS[colour], label=label, linewidth=width)
        axes.set_title(f"{name}: {pair.plain.mae:.2f}° apart on average", loc="left", fontsize=10)
        axes.set_ylabel("°", rotation=0)
        axes.tick_params(labelbottom=place == len(DRAWN) - 1)
        axes.set_xlim(0, SHOWN)
        axes.grid(color=COLOURS["grid"])
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("time, s")
    figure.legend(*axes.get_legend_handles_labels(), loc="upper right", ncols=3, frameon=False)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main(folders: list[str]) -> None:
    """Picture and table."""
    warnings.simplefilter("error")
    step, again = recorded(REAL / "step_response"), recorded(REAL / "step_response_again")
    compared = simulated(step)
    draw(compared, ROOT / "docs" / "images" / "so101.png")
    print(f"| motion | {' | '.join(step)} | mean |\n|{'---|' * (len(step) + 2)}")
    print(row("step_response", compared, again))
    for folder in map(Path, folders):
        print(row(folder.name, simulated(recorded(folder))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
