"""Draws docs/images/walk_compare.png: a walk on the bus beside simulations of it.

    python tools/make_walks.py REAL.mcap RIG MODEL MODEL

REAL.mcap is a walk that was recorded with that rig; its goals are simulated with both models. docs/walking.md says how
the walk of the figure was recorded, and how the first model was identified.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from robot_png import png_of

from axbridge.comparison.comparison import compare
from axbridge.comparison.page import table_text
from axbridge.comparison.png import draw
from axbridge.comparison.simulate import simulate
from axbridge.comparison.walks import knee_panels, power_panels, sides_of, walk_headline, walk_table, zmp_panels
from axbridge.config.rig import Rig
from axbridge.recording.stored import open_recording

OUT = Path(__file__).resolve().parents[1] / "docs" / "images" / "walk_compare.png"


def main() -> None:
    """Compare, draw, and print the figures."""
    warnings.simplefilter("ignore")
    options = argparse.ArgumentParser()
    options.add_argument("real", type=Path)
    options.add_argument("rig")
    options.add_argument("models", nargs=2)
    chosen = options.parse_args()
    real, rig = open_recording(chosen.real), Rig.load(chosen.rig).with_engine("mujoco")
    first, second = (
        compare(real, simulate(real, rig, model), labels=("on the bus", Path(model).stem), same_clock=True)
        for model in chosen.models
    )
    sides = sides_of(first, second)
    print(walk_headline(sides))
    print(table_text(walk_table(sides)))
    panels = [*knee_panels(sides), *zmp_panels(sides)[:1], *power_panels(sides)]
    figure, axes = plt.subplots(len(panels), 1, sharex=True, figsize=(9, 9), dpi=85, layout="constrained")
    for place, panel in zip(axes, panels, strict=True):
        draw(place, replace(panel, x=panel.x if panel is panels[-1] else ""), small=True)
    axes[0].legend(loc="upper center", ncols=4, frameon=False, bbox_to_anchor=(0.5, 1.45), fontsize=9)
    OUT.write_bytes(png_of(figure))


if __name__ == "__main__":
    main()
