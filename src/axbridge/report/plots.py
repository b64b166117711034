"""What a report shows, described once: panels of lines, bars or maps; `plots_html` and `plots_png` draw them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from axbridge.arrays import FloatArray

__all__ = ["COLOURS", "Bars", "Curve", "Map", "Panel"]

COLOURS = {
    "command": "#9a9a9a",
    "reference": "#1b4f8f",
    "other": "#e0701a",
    "error": "#6b6b6b",
    "fitted": "#b8c8da",
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
        dashed: Whether it is.
        held: Whether each value holds until the next, like a goal.
        points: Whether the samples are marked, and not joined.
        note: Text beside the first point.
    """

    x: FloatArray
    y: FloatArray
    label: str
    colour: str
    width: float = 1.7
    dashed: bool = False
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
