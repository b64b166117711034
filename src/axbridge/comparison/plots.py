"""What a report shows, described once: panels of lines, bars or maps; `plots_html` and `plots_png` draw them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from axbridge.arrays import FloatArray

POINTS = 4000  # of one line: two for each of the pixels a screen has across
_ROWS = 2  # of names of marks above a panel

# Okabe and Ito's, which people who do not tell red from green tell apart, and which show on white and on black.
COLOURS = {
    "command": "#a8a8a8",
    "reference": "#0072b2",
    "other": "#d55e00",
    "third": "#009e73",
    "error": "#7a7a7a",
    "fitted": "#56b4e9",  # wide, below a line that follows it
    "ink": "#1c2733",
    "faint": "#667788",
    "axis": "#b8c0ca",
    "grid": "#e6eaef",
    "zero": "#c5ccd4",
}


@dataclass(frozen=True)
class Curve:
    """Values over a horizontal axis.

    Attributes:
        x: (n,).
        y: (n,); NaN leaves a gap.
        label: What it is; lines of one label share an entry in the legend.
        colour: A key of `COLOURS`.
        width: Points.
        held: Whether each value holds until the next, like a goal.
        points: Whether the samples are marked, and not joined.
        note: Text beside the first point.
    """

    x: FloatArray
    y: FloatArray
    label: str
    colour: str
    width: float = 1.7
    held: bool = False
    points: bool = False
    note: str = ""


@dataclass(frozen=True)
class Bars:
    """A value for each name.

    Attributes:
        names: (n,).
        values: (n,).
        label: What they are.
        colour: A key of `COLOURS`.
        spread: Half the length of the whisker of each, (n,); None = none.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    label: str
    colour: str
    spread: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Map:
    """Values over two axes.

    Attributes:
        x: (n,), numbers or names.
        y: (m,).
        z: (m, n).
        label: What the values are.
        written: Whether each value is written into its field, and the colours reach from -1 to 1; else contours.
    """

    x: FloatArray | tuple[str, ...]
    y: FloatArray | tuple[str, ...]
    z: FloatArray
    label: str
    written: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        items: What is drawn, in this order.
        x: Name of the horizontal axis.
        y: Of the vertical one.
        title: Above it.
        share: Its height beside that of other panels.
        marks: Where parts begin: (x, name).
        logarithmic: Which axes are: of ``x``, ``y``.
    """

    items: tuple[Curve | Bars | Map, ...]
    x: str
    y: str
    title: str = ""
    share: float = 1.0
    marks: tuple[tuple[float, str], ...] = ()
    logarithmic: frozenset[str] = field(default_factory=frozenset)

    @property
    def start(self) -> float:
        """Smallest x of its lines; NaN when there are none."""
        return min((float(np.min(item.x)) for item in self.items if isinstance(item, Curve)), default=np.nan)

    @property
    def span(self) -> float:
        """Width of its lines; NaN when there are none."""
        return (
            max((float(np.max(item.x)) for item in self.items if isinstance(item, Curve)), default=np.nan) - self.start
        )


def mark_rows(panel: Panel, letters: int) -> dict[int, int]:
    """In which row above a panel each mark's name stands, so that no two touch and none reaches beyond the panel.

    Args:
        panel: Its marks, ascending.
        letters: How many letters have room side by side.

    Returns:
        Rows by index of the mark, 0 the lowest; a mark whose name has no room, or is empty, is not in it.
    """
    start, end = panel.start, panel.start + panel.span
    taken = [start] * _ROWS
    found = {}
    for index, (mark, name) in enumerate(panel.marks):
        at = max(mark, start)
        until = at + (len(name) + 1) / letters * panel.span
        free = next((row for row, reach in enumerate(taken) if reach <= at), None)
        if name and free is not None and until <= end:
            found[index] = free
            taken[free] = until
    return found


def thinned(x: FloatArray, y: FloatArray, points: int) -> tuple[FloatArray, FloatArray]:
    """A line (n,) with about `points` points that looks the same: lowest and highest of each stretch, and gaps."""
    if len(x) <= points:
        return x, y
    kept = {0, len(x) - 1}
    edges = np.linspace(0, len(x), max(points // 2, 1) + 1).astype(int)
    unknown = np.isnan(y)
    low, high = np.where(unknown, np.inf, y), np.where(unknown, -np.inf, y)
    for start, end in pairwise(edges.tolist()):
        kept |= {start + int(np.argmin(low[start:end])), start + int(np.argmax(high[start:end]))}
        if unknown[start:end].any():
            kept.add(start + int(np.argmax(unknown[start:end])))
    chosen = np.array(sorted(kept))
    return x[chosen], y[chosen]


def fewer(panel: Panel) -> Panel:
    """The panel with `POINTS` points a line at most: it looks the same on a screen, and needs less memory."""
    items: list[Curve | Bars | Map] = []
    for item in panel.items:
        if isinstance(item, Curve) and len(item.x) > POINTS:
            x, y = thinned(item.x, item.y, POINTS)
            items.append(replace(item, x=x, y=y, held=False))  # between what is left of many points, nothing holds
        else:
            items.append(item)
    return replace(panel, items=tuple(items))
