"""Panels drawn by matplotlib, for pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from axbridge.comparison.plots import COLOURS, Bars, Curve, Panel, mark_rows
from axbridge.files import replacing, writing

_LETTERS = 11.0  # that have room in an inch


def picture(title: str, size: tuple[float, float], *, constrained: bool = False) -> Any:
    """An empty figure of `size` inches with its title."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=130, facecolor="white", layout="constrained" if constrained else None)
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.02, ha="left", fontsize=14, fontweight="bold", color=COLOURS["ink"])
    return figure


def save(figure: Any, path: Path | str) -> None:
    """Write a PNG.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    with writing(path), replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def draw(axes: Any, panel: Panel, *, small: bool = False) -> None:
    """Draw lines and bars of a panel; `small` is for one of many."""
    bars = [item for item in panel.items if isinstance(item, Bars)]
    for item in panel.items:
        if isinstance(item, Curve):
            _line(axes, item)
    for index, one in enumerate(bars):
        _bars(axes, one, index, len(bars))
    if any(isinstance(item, Curve) for item in panel.items):
        axes.margins(x=0.01)
    inches = axes.get_position().width * axes.figure.get_figwidth()
    for at, _ in panel.marks[1:]:
        axes.axvline(at, color=COLOURS["axis"], linewidth=0.9, linestyle=":")
    for index, row in mark_rows(panel, round(inches * _LETTERS)).items():
        at, name = panel.marks[index]
        axes.annotate(
            name, (max(at, panel.start), 1.0), xycoords=("data", "axes fraction"), xytext=(3, 3 + 11 * row),
            textcoords="offset points", fontsize=9, color=COLOURS["faint"],
        )  # fmt: skip
    size = 9 if small else 10
    axes.set_xlabel(panel.x, fontsize=size)
    axes.set_ylabel(panel.y, fontsize=size)
    if panel.title:
        axes.set_title(panel.title, fontsize=9.5, loc="left", color=COLOURS["ink"])
    axes.grid(visible=True, axis="y" if bars else "both", color=COLOURS["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(COLOURS["axis"])
    axes.tick_params(color=COLOURS["axis"], labelcolor="#445566", labelsize=8 if small else 10)


def legend(figure: Any, axes: Any, place: tuple[float, float]) -> None:
    """The legend of `axes` above the figure, its upper right corner at `place` (shares of the figure)."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="upper right", bbox_to_anchor=place, ncols=len(labels), frameon=False, fontsize=10
    )


def _line(axes: Any, line: Curve) -> None:
    axes.plot(
        line.x, line.y, color=COLOURS[line.colour], linewidth=line.width, label=line.label,
        linestyle="none" if line.points else "-", marker="o" if line.points else None,
        drawstyle="steps-post" if line.held else "default",
    )  # fmt: skip


def _bars(axes: Any, bars: Bars, index: int, count: int) -> None:
    """Bars side by side."""
    width = 0.72 / count if count > 1 else 0.6
    places = np.arange(len(bars.names)) + (index - (count - 1) / 2) * width
    axes.bar(places, bars.values, width, color=COLOURS[bars.colour], label=bars.label)
    if bars.spread is not None:
        axes.errorbar(places, bars.values, bars.spread, fmt="none", ecolor=COLOURS["ink"], elinewidth=1, capsize=3)
    axes.set_xticks(np.arange(len(bars.names)), bars.names)
