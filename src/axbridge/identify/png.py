"""The picture of an identification: every recording measured and simulated, and the friction laws side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.compare.html import COLOURS
from axbridge.config.rig import Rig
from axbridge.files import replacing, unwritable
from axbridge.identify.clocks import predicted
from axbridge.identify.fit import Fit
from axbridge.identify.friction_laws import LawComparison
from axbridge.record.recording import Recording
from axbridge.replay.simulate import runs_of

__all__ = ["write_picture"]

SHOWN = 12  # recordings in one picture
_COLUMNS = 3
_INK, _FAINT = "#1c2733", "#667788"


def write_picture(
    fit: Fit, recordings: Sequence[Recording], rig: Rig, path: Path | str, laws: LawComparison | None = None
) -> None:
    """Draw a PNG.

    Args:
        fit: What was found.
        recordings: In the order of `fit.scores`.
        rig: The fit's.
        path: The picture.
        laws: How the friction laws compare, drawn below.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = list(range(min(len(recordings), SHOWN)))
    rows = -(-len(shown) // _COLUMNS)
    below = 1 if laws is not None else 0
    figure = Figure(figsize=(11, 0.9 + 2.1 * rows + 3.0 * below), dpi=100, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        f"{rig.name}: {fit.kind}, friction {fit.friction}",
        x=0.01,
        ha="left",
        fontsize=13,
        fontweight="bold",
        color=_INK,
    )
    grid = figure.add_gridspec(rows + below, _COLUMNS, height_ratios=[2.1] * rows + [3.0] * below)
    _traces(figure, grid, fit, [recordings[k] for k in shown], rig)
    if laws is not None:
        _laws(figure.add_subplot(grid[rows, :]), laws)
    try:
        with replacing(Path(path)) as stream:
            figure.savefig(stream, format="png")
    except OSError as failure:
        raise unwritable(path, failure) from failure


def _traces(figure: Any, grid: Any, fit: Fit, recordings: Sequence[Recording], rig: Rig) -> None:
    runs, direction = runs_of(recordings, rig), rig.servos[0].direction
    simulated = predicted(fit.row[None], runs)[0]
    for index, (a, b) in enumerate(zip(runs.start[:-1], runs.start[1:], strict=True)):
        score = fit.scores[index]
        axes = figure.add_subplot(grid[index // _COLUMNS, index % _COLUMNS])
        # what was measured is wide, to be seen below a simulation that agrees
        sides = ((runs.position, "reference", "measured", 3.0), (simulated, "other", "simulated", 1.0))
        for values, side, label, width in sides:
            degrees = direction * np.degrees(values[a:b])
            axes.plot(runs.time[a:b], degrees, color=COLOURS[side], linewidth=width, label=label)
        name = score.name.removesuffix(".mcap") + (" (held out)" if score.held_out else "")
        axes.set_title(f"{name}   {score.mae:.2f}°", fontsize=9.5, loc="left", color=_INK)
        _clean(axes)
        if index == 0:
            figure.legend(*axes.get_legend_handles_labels(), loc="upper right", ncols=2, frameon=False, fontsize=9)
        if index % _COLUMNS == 0:
            axes.set_ylabel("°", fontsize=9, rotation=0)
        if index + _COLUMNS >= len(recordings):
            axes.set_xlabel("time, s", fontsize=9)


def _laws(axes: Any, laws: LawComparison) -> None:
    """Bars of the errors; the whisker is the standard error of the difference to the smallest."""
    places = np.arange(len(laws.scores))
    judged = not math.isnan(laws.scores[0].held_out)
    width = 0.36 if judged else 0.6
    fitted = [score.fitted for score in laws.scores]
    axes.bar(places - width / 2 * judged, fitted, width, color="#b8c8da", label="fitted")
    if judged:
        held = [score.held_out for score in laws.scores]
        spread = [score.error for score in laws.scores]
        axes.bar(places + width / 2, held, width, color=COLOURS["reference"], label="held out")
        axes.errorbar(places + width / 2, held, spread, fmt="none", ecolor=_INK, elinewidth=1, capsize=3)
    axes.set_xticks(
        places,
        [
            f"{s.law}{' (chosen)' if s.law == laws.chosen else ''}\n{s.parameters} parameters, BIC {s.bic:.0f}"
            for s in laws.scores
        ],
    )
    axes.set_ylabel("mean absolute error, °", fontsize=9)
    axes.set_title(f"Friction laws; chosen: {laws.rule}", fontsize=9.5, loc="left", color=_INK)
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
    _clean(axes)


def _clean(axes: Any) -> None:
    axes.grid(visible=True, axis="y", color="#e6eaef", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#b8c0ca")
    axes.tick_params(color="#b8c0ca", labelcolor="#445566", labelsize=8)
