"""Draw a comparison as PNG: one servo large with its figures beside it, or many servos small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

from axbridge.comparison.comparison import Comparison
from axbridge.comparison.page import COLOURS, Panel, fewer
from axbridge.comparison.tables import deviation_table, headline, panels_of, title_of
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
    first = (_single if alone else _many)(figure, comparison, beside)
    handles, labels = first.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="upper right", bbox_to_anchor=(0.99, 0.89 if alone else 0.91), ncols=len(labels),
        frameon=False, fontsize=10,
    )  # fmt: skip
    text = fill(headline(comparison, beside), LETTERS)
    figure.text(0.02, 0.94, text, fontsize=10, color=COLOURS["faint"], va="top")
    with writing(path), replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def _single(figure: Any, comparison: Comparison, beside: Comparison | None) -> Any:
    """Draw position, error and figures of the only servo; return the axes of the position."""
    grid = figure.add_gridspec(
        2, 2, width_ratios=[2.6 if beside is None else 1.6, 1], height_ratios=[3, 1], left=0.08, right=0.985,
        top=0.82, bottom=0.09, hspace=0.12, wspace=0.06,
    )  # fmt: skip
    position, error = fewer(panels_of(comparison, comparison.pairs[0], beside=beside, everything=False))
    above = figure.add_subplot(grid[0, 0])
    below = figure.add_subplot(grid[1, 0], sharex=above)
    draw(above, replace(position, x=""))
    draw(below, replace(error, marks=tuple((at, "") for at, _ in position.marks)))
    above.tick_params(labelbottom=False)
    figure.align_ylabels([above, below])
    below.axhline(0, color=COLOURS["zero"], linewidth=0.8, zorder=0)
    words = figure.add_subplot(grid[:, 1])
    words.axis("off")
    table = deviation_table(comparison, *(() if beside is None else (beside,)))
    for row, (name, *cells) in enumerate(zip(table.header, *table.rows, strict=True)):
        words.text(0, 1 - 0.06 * row, name, fontsize=9, va="top", color=COLOURS["faint"])
        for column, cell in enumerate(reversed(cells)):
            words.text(1 - 0.35 * column, 1 - 0.06 * row, cell, fontsize=9, va="top", ha="right", color=COLOURS["ink"])
    return above


def _many(figure: Any, comparison: Comparison, _beside: Comparison | None) -> Any:
    """Draw the positions of the servos with the largest errors; return the axes of the first."""
    shown = comparison.pairs[:SMALL]
    columns = 3 if len(shown) > 4 else 2
    rows = -(-len(shown) // columns)
    grid = figure.add_gridspec(rows, columns, left=0.055, right=0.985, top=0.84, bottom=0.075, hspace=0.5, wspace=0.2)
    for index, pair in enumerate(shown):
        panel = replace(
            fewer(panels_of(comparison, pair, everything=False))[0],
            title=f"{pair.name}   RMSE {pair.plain.rmse:.2f}°",
            marks=(),
            x="time, s" if index + columns >= len(shown) else "",
            y="position, °" if index % columns == 0 else "",
        )
        draw(figure.add_subplot(grid[index // columns, index % columns]), panel, size=8)
    more = len(comparison.pairs) - len(shown)
    text = "worst first" + (f"; {more} better ones are not drawn" if more else "")
    figure.text(0.02, 0.885, text, fontsize=10, color=COLOURS["faint"])
    return figure.axes[0]


def draw(axes: Any, panel: Panel, size: int = 10) -> None:
    """Draw a panel, with letters of `size` points; names of marks without room are left out."""
    for curve in panel.curves:
        axes.plot(
            curve.x, curve.y, color=COLOURS[curve.colour], linewidth=curve.width, label=curve.label,
            drawstyle="steps-post" if curve.held else "default",
        )  # fmt: skip
    axes.margins(x=0.01)
    start = min(float(curve.x[0]) for curve in panel.curves)
    span = max(float(curve.x[-1]) for curve in panel.curves) - start
    letters = axes.get_position().width * axes.figure.get_figwidth() * _PER_INCH
    row_ends = [start] * _ROWS
    for mark, name in panel.marks:
        at = max(mark, start)
        until = at + (len(name) + 1) / letters * span
        row = next((row for row, row_end in enumerate(row_ends) if row_end <= at), None)
        if mark > start:
            axes.axvline(mark, color=COLOURS["axis"], linewidth=0.9, linestyle=":")
        if name and row is not None and until <= start + span:
            row_ends[row] = until
            axes.annotate(
                name, (at, 1.0), xycoords=("data", "axes fraction"), xytext=(3, 3 + 11 * row),
                textcoords="offset points", fontsize=9, color=COLOURS["faint"],
            )  # fmt: skip
    axes.set_xlabel(panel.x, fontsize=size)
    axes.set_ylabel(panel.y, fontsize=size)
    axes.set_title(panel.title, fontsize=9.5, loc="left", color=COLOURS["ink"])
    axes.grid(visible=True, color=COLOURS["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(COLOURS["axis"])
    axes.tick_params(color=COLOURS["axis"], labelcolor="#445566", labelsize=size)
