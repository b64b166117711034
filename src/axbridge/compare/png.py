"""The picture of a comparison: one servo large with its figures beside it, or many servos small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from axbridge.compare.comparison import Comparison, Pair
from axbridge.compare.html import COLOURS
from axbridge.compare.tables import Table, deviation_table, response_table

__all__ = ["draw"]

SMALL = 12  # at most so many servos in one picture
FIGURES = 11  # at most so many rows of figures beside one


def draw(comparison: Comparison, path: Path, title: str) -> None:
    """Draw and save a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6) if len(comparison.pairs) == 1 else (12, 8), dpi=130, facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.02, ha="left", fontsize=14, fontweight="bold", color="#1c2733")
    if len(comparison.pairs) == 1:
        _one(figure, comparison, comparison.pairs[0])
    else:
        _many(figure, comparison)
    figure.savefig(path, format="png")


def _one(figure: Any, comparison: Comparison, pair: Pair) -> None:
    grid = figure.add_gridspec(
        2, 2, width_ratios=[2.6, 1], height_ratios=[3, 1], left=0.065, right=0.985, top=0.87, bottom=0.09,
        hspace=0.12, wspace=0.06,
    )  # fmt: skip
    position = figure.add_subplot(grid[0, 0])
    error = figure.add_subplot(grid[1, 0], sharex=position)
    _traces(position, comparison, pair)
    position.set_ylabel("position, °")
    position.tick_params(labelbottom=False)
    handles, labels = position.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="upper right", bbox_to_anchor=(0.715, 0.945), ncols=3, frameon=False, fontsize=10
    )
    error.plot(pair.time, np.degrees(pair.other - pair.reference), color=COLOURS["error"], linewidth=1.2)
    error.axhline(0, color="#c5ccd4", linewidth=0.8, zorder=0)
    error.set_ylabel("error, °")
    error.set_xlabel("time, s")
    for axes in (position, error):
        _clean(axes)
        for part in pair.parts[1:]:
            axes.axvline(part.start, color="#b8c0ca", linewidth=0.9, linestyle=":")
    if len(pair.parts) <= 8:
        for part in pair.parts:
            if part.deviation.samples:
                position.annotate(
                    part.name, (max(part.start, pair.time[0]), 1.0), xycoords=("data", "axes fraction"),
                    xytext=(3, 3), textcoords="offset points", fontsize=9, color="#667788",
                )  # fmt: skip
    words = figure.add_subplot(grid[:, 1])
    words.axis("off")
    _write(words, comparison, pair)


def _write(axes: Any, comparison: Comparison, pair: Pair) -> None:
    """The figures, as a column of text at the right."""
    deviation = deviation_table(comparison)
    y = 1.0
    if response := response_table(comparison, pair):
        y = _rows(axes, _brief(response), y)
        y -= 0.035
    rows = tuple((name, value) for name, value in zip(deviation.header[1:], deviation.rows[0][1:], strict=True))
    _rows(axes, Table(deviation.title, ("", ""), rows), y)


def _brief(table: Table) -> Table:
    """What there is room for: figures of a motion or two; of more, the error of each; the page has them all."""
    rows = tuple(row for row in table.rows if row[1])
    if len(rows) <= FIGURES:
        return Table("", table.header, rows)
    errors = tuple((name, error) for name, measured, error in table.rows if not measured)
    left = len(errors) - FIGURES
    more = ((f"and {left} more", ""),) if left > 0 else ()
    return Table("", ("", ""), errors[:FIGURES] + more)


def _rows(axes: Any, table: Table, y: float) -> float:
    places = [0.0, *np.linspace(1.0, 0.73, len(table.header) - 1)[::-1]]
    if table.title:
        axes.text(0, y, table.title, fontsize=10.5, fontweight="bold", color="#1c2733", va="top")
        y -= 0.055
    for index, row in enumerate((table.header, *table.rows)):
        if not any(row):
            continue
        for place, cell in zip(places, row, strict=True):
            axes.text(
                place, y, cell, fontsize=9.5, va="top", ha="left" if place == 0 else "right",
                color="#667788" if index == 0 or place == 0 else "#1c2733",
            )  # fmt: skip
        y -= 0.048
    return y


def _many(figure: Any, comparison: Comparison) -> None:
    shown = comparison.pairs[:SMALL]
    columns = 3 if len(shown) > 4 else 2
    rows = -(-len(shown) // columns)
    grid = figure.add_gridspec(rows, columns, left=0.055, right=0.985, top=0.86, bottom=0.075, hspace=0.5, wspace=0.2)
    for index, pair in enumerate(shown):
        axes = figure.add_subplot(grid[index // columns, index % columns])
        _traces(axes, comparison, pair)
        _clean(axes)
        axes.set_title(f"{pair.name}   RMSE {pair.plain.rmse:.2f}°", fontsize=9.5, loc="left", color="#1c2733")
        axes.tick_params(labelsize=8)
        if index % columns == 0:
            axes.set_ylabel("position, °", fontsize=9)
        if index + columns >= len(shown):
            axes.set_xlabel("time, s", fontsize=9)
        if index == 0:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(handles, labels, loc="upper right", bbox_to_anchor=(0.99, 0.95), ncols=3, frameon=False)
    more = len(comparison.pairs) - len(shown)
    text = "worst first" + (f"; {more} better ones are not drawn" if more else "")
    figure.text(0.02, 0.915, text, fontsize=10, color="#667788")


def _traces(axes: Any, comparison: Comparison, pair: Pair) -> None:
    if not np.isnan(pair.command).all() and comparison.labels[0] != "goal":
        axes.step(
            pair.time, np.degrees(pair.command), where="post", color=COLOURS["command"], linewidth=1.2,
            linestyle="--", label="goal",
        )  # fmt: skip
    for values, side, label in zip(
        (pair.reference, pair.other), ("reference", "other"), comparison.labels, strict=True
    ):
        axes.plot(pair.time, np.degrees(values), color=COLOURS[side], linewidth=1.7, label=label)


def _clean(axes: Any) -> None:
    axes.grid(visible=True, color="#e6eaef", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#b8c0ca")
    axes.tick_params(color="#b8c0ca", labelcolor="#445566")
    axes.margins(x=0.01)
