"""Draws the moving picture of the front page: a robot and its ghost walk, and a comparison closes after `identify`.

    python tools/make_animation.py

Left, the Bioloid with its rig's own servos (`ax12`), and as its ghost the same gait with the servos of the paper
(`lima2009`), both in the simulator. Right, what `axbridge demo` recorded: a virtual AX-12 on a pseudo-terminal, and the
simulator with the published and then with the identified model.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from robot_png import draw_robot, extent

from axbridge.arrays import FloatArray
from axbridge.comparison.page import COLOURS
from axbridge.config.rig import Rig
from axbridge.config.urdf import Shape, read_shapes
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.rotations import LinkPose

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "images" / "animation.gif"
DEMO = ROOT / "out" / "animation"
FRAMES, PAUSE = 72, 100  # pictures, and ms of each
DRAWN, CLOSED = 0.5, 0.75  # shares of the film: the published model is drawn, the identified one is there
GHOST = "#56b4e9"
COLOURS_OF_GIF = 64

Moments = list[tuple[float, dict[str, LinkPose]]]


def walked(rig: Rig) -> Moments:
    """Where every link is, at each step of a walk."""
    moments: Moments = []
    with open_robot(rig, "sim") as robot:
        simulation = robot.simulation
        assert simulation is not None
        assert simulation.engine is not None
        engine = simulation.engine
        robot.observe(lambda _report, _states: moments.append((robot.time, engine.poses())))
        walk(robot, Gait(steps=6))
    return moments


def demonstrated() -> tuple[FloatArray, list[FloatArray], list[float]]:
    """Time, s; angle of the servo, of both models, degrees; how far off both models are, degrees."""
    command = [sys.executable, "-m", "axbridge", "demo", "--out", str(DEMO), "--force", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said = json.loads(done.stdout)
    files = said["files"]
    tracks = []
    for name in ("real", "sim", "identified"):
        found = open_recording(files[name])
        tracks += [found[servo] for servo in found]
    time = np.linspace(0, min(track.time[-1] for track in tracks), 300)
    angles = [np.degrees(np.interp(time, track.time, track.position)) for track in tracks]
    return time, angles, [said["mae_deg"], said["identified"]["mae_deg"]]


def at(moments: Moments, share: float) -> dict[str, LinkPose]:
    """The robot when this share of the walk is over."""
    return moments[round(share * (len(moments) - 1))][1]


def draw_both(
    axes: Any, shapes: list[Shape], robot: Mapping[str, LinkPose], ghost: Mapping[str, LinkPose], window: Any
) -> None:
    """The robot in front of its ghost."""
    draw_robot(axes, shapes, ghost, window)
    (drawn,) = axes.collections
    drawn.set(facecolors=GHOST, edgecolors=GHOST, alpha=0.7)
    draw_robot(axes, shapes, robot, window, floor=True)


def draw_curves(axes: Any, time: FloatArray, angles: list[FloatArray], errors: list[float], share: float) -> None:
    """The servo, and a model that follows it better and better."""
    there = slice(0, max(2, round(len(time) * min(1.0, share / DRAWN))))
    closed = float(np.clip((share - DRAWN) / (CLOSED - DRAWN), 0, 1))
    closed = closed * closed * (3 - 2 * closed)
    model = (1 - closed) * angles[1] + closed * angles[2]
    axes.plot(time[there], angles[0][there], color=COLOURS["reference"], linewidth=3.2, label="virtual AX-12, measured")
    axes.plot(time[there], model[there], color=COLOURS["other"], linewidth=1.6, label="simulator")
    axes.set(xlim=(time[0], time[-1]), ylim=(np.min(angles) - 5, np.max(angles) + 5), xlabel="s", ylabel="degrees")
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    if share < DRAWN:
        said = "axbridge compare"
    elif closed < 1:
        said = "axbridge identify …"
    else:
        said = f"axbridge identify: {errors[0]:.1f}° → {errors[1]:.1f}° off"
    axes.set_title(said, family="monospace", fontsize=10, loc="left", color=COLOURS["ink"])


def main() -> None:
    """Draw every picture, and put them together."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rig = Rig.load("bioloid")
    shapes = read_shapes(rig.urdf_path(), "visual", rig.urdf_text())
    mine, paper = walked(rig), walked(rig.with_model("lima2009"))
    time, angles, errors = demonstrated()
    shares = np.linspace(0, 1, FRAMES)
    window = extent(shapes, [at(moments, share) for moments in (mine, paper) for share in shares[::6]], floor=True)
    pictures = []
    for share in shares:
        figure = Figure(figsize=(8.6, 4.0), dpi=100, facecolor="white")
        FigureCanvasAgg(figure)
        left = figure.add_axes((0.0, 0.0, 0.5, 0.93))
        draw_both(left, shapes, at(mine, share), at(paper, share), window)
        figure.text(0.012, 0.935, "axbridge walk --rig bioloid", family="monospace", fontsize=10, color=COLOURS["ink"])
        draw_curves(figure.add_axes((0.57, 0.12, 0.41, 0.79)), time, angles, errors, share)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png")
        pictures.append(Image.open(drawn).convert("RGB"))
    palette = pictures[-1].quantize(COLOURS_OF_GIF)
    still = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    pauses = [PAUSE] * (FRAMES - 1) + [2500]
    still[0].save(OUT, save_all=True, append_images=still[1:], duration=pauses, loop=0, optimize=True)
    print(f"wrote {OUT.relative_to(ROOT)}: {FRAMES} pictures, {OUT.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
