"""Draw a comparison as PNG: one servo large with its figures beside it, or many servos small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from axbridge.comparison.comparison import Comparison
from axbridge.comparison.page import COLOURS, Panel, Table, fewer
from axbridge.comparison.tables import acts_table, deviation_table, headline, panels_of, title_of
from axbridge.errors import require
from axbridge.files import replacing, writing

SMALL = 12  # most servos in one picture
LETTERS = 150  # letters in a line across the picture
_PER_INCH = 11.0  # letters per inch in the names of marks
_ROWS = 2  # rows of names of marks above a panel


def write_png(comparison: Comparison, path: Path | str, title: str = "", *, beside: Comparison | None = None) -> None:
    """Write the picture of a comparison, or of two candidates; raise RecordingError if it cannot be written."""
    require("a picture", "matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    alone = len(comparison.pairs) == 1
    figure = Figure(figsize=(11, 6) if alone else (12, 8), dpi=130, facecolor="white")
    FigureCanvasAgg(figure)
    title = title or title_of(comparison)
    figure.suptitle(title, x=0.02, ha="left", fontsize=14, fontweight="bold", color=COLOURS["ink"])
    if alone:
        _one(figure, comparison, beside)
    else:
        _many(figure, comparison)
    text = fill(headline(comparison, beside), LETTERS)
    figure.text(0.02, 0.94, text, fontsize=10, color=COLOURS["faint"], va="top")
    with writing(path), replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def _one(figure: Any, comparison: Comparison, beside: Comparison | None) -> None:
    pair = comparison.pairs[0]
    grid = figure.add_gridspec(
        2, 2, width_ratios=[2.6 if beside is None else 1.6, 1], height_ratios=[3, 1], left=0.065, right=0.985,
        top=0.82, bottom=0.09, hspace=0.12, wspace=0.06,
    )  # fmt: skip
    position, error = fewer(panels_of(comparison, pair, beside=beside, everything=False))
    above = figure.add_subplot(grid[0, 0])
    below = figure.add_subplot(grid[1, 0], sharex=above)
    draw(above, replace(position, x=""))
    draw(below, replace(error, marks=tuple((at, "") for at, _ in position.marks)))
    above.tick_params(labelbottom=False)
    below.axhline(0, color=COLOURS["zero"], linewidth=0.8, zorder=0)
    legend(figure, above, (0.99, 0.89))
    words = figure.add_subplot(grid[:, 1])
    words.axis("off")
    figures = deviation_table(comparison)
    alone = Table("error", ("", ""), tuple(zip(figures.header[1:], figures.rows[0][1:], strict=True)))
    _write(words, alone if beside is None else acts_table((comparison, beside)))


def _write(axes: Any, table: Table) -> None:
    """Write the figures as a column of text at the right."""
    columns = len(table.header) - 1
    places = [0.0, *np.linspace(1.0, 1.0 - 0.26 * (columns - 1), columns)[::-1]]
    axes.text(0, 1.0, table.title, fontsize=10.5, fontweight="bold", color=COLOURS["ink"], va="top")
    y = 0.945
    for index, row in enumerate((table.header, *table.rows)):
        if not any(row):
            continue
        for place, cell in zip(places, row, strict=True):
            axes.text(
                place, y, cell, fontsize=9.5, va="top", ha="left" if place == 0 else "right",
                color=COLOURS["faint"] if index == 0 or place == 0 else COLOURS["ink"],
            )  # fmt: skip
        y -= 0.048


def _many(figure: Any, comparison: Comparison) -> None:
    shown = comparison.pairs[:SMALL]
    columns = 3 if len(shown) > 4 else 2
    rows = -(-len(shown) // columns)
    grid = figure.add_gridspec(rows, columns, left=0.055, right=0.985, top=0.84, bottom=0.075, hspace=0.5, wspace=0.2)
    for index, pair in enumerate(shown):
        axes = figure.add_subplot(grid[index // columns, index % columns])
        panel = replace(
            fewer(panels_of(comparison, pair, everything=False))[0],
            title=f"{pair.name}   RMSE {pair.plain.rmse:.2f}°",
            marks=(),
            x="time, s" if index + columns >= len(shown) else "",
            y="position, °" if index % columns == 0 else "",
        )
        draw(axes, panel, small=True)
        if index == 0:
            legend(figure, axes, (0.99, 0.91))
    more = len(comparison.pairs) - len(shown)
    text = "worst first" + (f"; {more} better ones are not drawn" if more else "")
    figure.text(0.02, 0.885, text, fontsize=10, color=COLOURS["faint"])


def draw(axes: Any, panel: Panel, *, small: bool = False) -> None:
    """Draw a panel on matplotlib axes; `small` for a picture of many panels."""
    for curve in panel.curves:
        axes.plot(
            curve.x, curve.y, color=COLOURS[curve.colour], linewidth=curve.width, label=curve.label,
            linestyle="none" if curve.points else "-", marker="o" if curve.points else None,
            drawstyle="steps-post" if curve.held else "default",
        )  # fmt: skip
    axes.margins(x=0.01)
    inches = axes.get_position().width * axes.figure.get_figwidth()
    start = min(float(curve.x[0]) for curve in panel.curves)
    span = max(float(curve.x[-1]) for curve in panel.curves) - start
    for at, _ in panel.marks[1:]:
        axes.axvline(at, color=COLOURS["axis"], linewidth=0.9, linestyle=":")
    for index, row in mark_rows(panel.marks, start, span, round(inches * _PER_INCH)).items():
        at, name = panel.marks[index]
        axes.annotate(
            name, (max(at, start), 1.0), xycoords=("data", "axes fraction"), xytext=(3, 3 + 11 * row),
            textcoords="offset points", fontsize=9, color=COLOURS["faint"],
        )  # fmt: skip
    size = 9 if small else 10
    axes.set_xlabel(panel.x, fontsize=size)
    axes.set_ylabel(panel.y, fontsize=size)
    if panel.title:
        axes.set_title(panel.title, fontsize=9.5, loc="left", color=COLOURS["ink"])
    axes.grid(visible=True, color=COLOURS["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(COLOURS["axis"])
    axes.tick_params(color=COLOURS["axis"], labelcolor="#445566", labelsize=8 if small else 10)


def legend(figure: Any, axes: Any, place: tuple[float, float]) -> None:
    """Draw the legend of `axes` above the figure, its upper right corner at `place` (shares of the figure)."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="upper right", bbox_to_anchor=place, ncols=len(labels), frameon=False, fontsize=10
    )


def mark_rows(marks: Sequence[tuple[float, str]], start: float, span: float, letters: int) -> dict[int, int]:
    """Return the row above a panel for each mark's name, by index; names without room are left out."""
    row_ends = [start] * _ROWS
    free_rows = {}
    for index, (mark, name) in enumerate(marks):
        at = max(mark, start)
        until = at + (len(name) + 1) / letters * span
        free = next((row for row, row_end in enumerate(row_ends) if row_end <= at), None)
        if name and free is not None and until <= start + span:
            free_rows[index] = free
            row_ends[free] = until
    return free_rows
