"""What pages are made of: tables, curves that uPlot (web/) draws in the browser, and the page around them.

Of a long line are drawn the lowest and the highest sample of each stretch, heights as 16-bit shares of their range.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.file_reading import printable
from axbridge.files import write_whole, writing

POINTS = 2000  # of one line: two for each of the pixels a screen has across
_HEIGHT = 100.0  # pixels of a panel of share 1
_SHARES = 65534  # steps of a height
_GAP = -32768

# Okabe and Ito's, which people who do not tell red from green tell apart, and which show on white and on black. Of a
# page, web/page.css has them.
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

# What the browser lets a page load: nothing but what is in it, so that it works, and says nothing, without a network.
ALONE = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_text(table: Table) -> str:
    """A table for the terminal: columns lined up."""
    lines = [tuple(map(printable, cells)) for cells in (table.header, *table.rows)]
    columns = []
    for place, cells in enumerate(zip(*lines, strict=True)):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if place else cell.ljust(width) for cell in cells])
    rows = ("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))
    return "\n".join((printable(table.title), *rows))


def table_html(table: Table, *, words: bool = False) -> str:
    """A table as HTML, under its title; `words` aligns left."""
    # a unit stays with what it is the unit of
    head = "".join(f"<th>{escape(cell).replace(' °', '&nbsp;°')}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    kind = ' class="words"' if words else ""
    inner = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"  # on paper, the head is on every page
    return f'<h2>{escape(table.title)}</h2><div class="scroll"><table{kind}>{inner}</table></div>'


def command_html(command: str) -> str:
    """A command, with a button that copies it."""
    return f'<p class="command"><code>{escape(command)}</code> <button data-copy>Copy</button></p>'


@dataclass(frozen=True)
class Curve:
    """Values over a horizontal axis."""

    x: FloatArray  # (n,), ascending
    y: FloatArray  # (n,); NaN leaves a gap
    label: str  # what it is; empty where the panel's own name says it
    colour: str  # a key of `COLOURS`
    width: float = 1.7  # points
    held: bool = False  # whether each value holds until the next, like a goal
    points: bool = False  # whether the samples are marked, and not joined


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    curves: tuple[Curve, ...]  # what is drawn, in this order
    x: str  # name of the horizontal axis
    y: str  # of the vertical one
    title: str = ""  # above it
    share: float = 1.0  # its height beside that of other panels
    marks: tuple[tuple[float, str], ...] = ()  # where parts begin: (x, name)


def fewer(panels: Sequence[Panel], points: int = POINTS, whole: Sequence[tuple[float, float]] = ()) -> list[Panel]:
    """Panels of about `points` samples a line at most, which look the same; lines on one axis keep the same samples."""
    sharing: dict[int, list[Curve]] = {}
    for panel in panels:
        for curve in panel.curves:
            sharing.setdefault(id(curve.x), []).append(curve)
    kept = {axis: _kept(curves, points, whole) for axis, curves in sharing.items()}
    axes = {axis: curves[0].x[kept[axis]] for axis, curves in sharing.items()}

    def fewer_samples(curve: Curve) -> Curve:
        if len(axes[id(curve.x)]) == len(curve.x):
            return curve
        # between what is left of many samples, nothing holds
        return replace(curve, x=axes[id(curve.x)], y=curve.y[kept[id(curve.x)]], held=False)

    return [replace(panel, curves=tuple(map(fewer_samples, panel.curves))) for panel in panels]


def _kept(curves: Sequence[Curve], points: int, whole: Sequence[tuple[float, float]]) -> np.typing.NDArray[np.intp]:
    """Which samples stay: of each stretch the lowest and highest of every line, and one of its gap."""
    x = curves[0].x
    if len(x) <= points:
        return np.arange(len(x))
    kept = {0, len(x) - 1}
    edges = np.linspace(0, len(x), max(points // (2 * len(curves)), 1) + 1).astype(int)
    for curve in curves:
        unknown = np.isnan(curve.y)
        low, high = np.where(unknown, np.inf, curve.y), np.where(unknown, -np.inf, curve.y)
        for start, end in pairwise(edges.tolist()):
            kept |= {start + int(np.argmin(low[start:end])), start + int(np.argmax(high[start:end]))}
            if unknown[start:end].any():
                kept.add(start + int(np.argmax(unknown[start:end])))
    for begin, end in whole:
        kept.update(range(*np.searchsorted(x, (begin, end))))
    return np.array(sorted(kept))


def numbers(panels: Sequence[Panel]) -> int:
    """How many columns of numbers a figure has."""
    curves = [curve for panel in panels for curve in panel.curves]
    return len(curves) + 2 * len({id(curve.x) for curve in curves})  # a place is four bytes, a height two


def figure_html(panels: Sequence[Panel], name: str, axis: str = "time") -> str:
    """Panels one below the other as one figure of a page; `write_page` brings the program that draws it."""
    axes: dict[int, str] = {}
    for panel in panels:
        for curve in panel.curves:
            if id(curve.x) not in axes:
                axes[id(curve.x)] = packed(curve.x.astype("<f4"))
    places = {key: place for place, key in enumerate(axes)}
    figure: dict[str, Any] = {
        "axis": axis,
        "axes": list(axes.values()),
        "marks": panels[0].marks,
        "panels": [
            {
                "x": panel.x,
                "y": panel.y,
                "height": round(panel.share * _HEIGHT),
                "curves": [
                    {
                        "x": places[id(curve.x)],
                        "y": heights(curve.y),
                        "label": curve.label,
                        "colour": curve.colour,
                        "width": curve.width,
                        **({"held": 1} if curve.held else {}),
                        **({"points": 1} if curve.points else {}),
                    }
                    for curve in panel.curves
                ],
            }
            for panel in panels
        ],
    }
    # no text in it can end the script
    text = json.dumps(figure, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("</", "<\\/")
    height = sum(panel.share * _HEIGHT + 32 for panel in panels) + 66
    return (
        f'<div class="figure" id="{escape(name)}" style="--height:{height:.0f}px"><script>figure({text})</script></div>'
    )


def map_html(x: Sequence[str], y: Sequence[str], z: FloatArray, titles: tuple[str, str], *, signed: bool) -> str:
    """Values over two axes as fields of colour, the first row at the bottom."""
    wide, left, below = 600 / z.shape[1], 130, 60
    high = min(wide, 420 / z.shape[0])
    height = high * z.shape[0]
    low, span = float(np.nanmin(z)), max(float(np.nanmax(z) - np.nanmin(z)), 1e-12)
    parts = []
    for row, values in enumerate(z.tolist()):
        top = height - (row + 1) * high
        for column, value in enumerate(values):
            place = f'x="{left + column * wide:.1f}" y="{top:.1f}"'
            size = f'width="{wide + 0.3:.1f}" height="{high + 0.3:.1f}"'
            parts.append(f'<rect {place} {size} fill="{_field(value, low, span, signed=signed)}"/>')
            if signed and not math.isnan(value):
                middle = f'x="{left + (column + 0.5) * wide:.1f}" y="{top + high / 2 + 4:.1f}"'
                parts.append(f'<text {middle} text-anchor="middle" class="on">{round(value, 1) + 0.0:.1f}</text>')
    for names, along in ((x, True), (y, False)):
        every = max(1, len(names) // 6) if not signed else 1
        for index in range(0, len(names), every):
            middle = f"{left + (index + 0.5) * wide:.1f} {height + 12:.1f}"
            spot = (
                f'transform="translate({middle}) rotate({-30 if signed else 0})"'
                if along
                else f'x="{left - 6}" y="{height - (index + 0.5) * high + 4:.1f}"'
            )
            anchor = "end" if signed or not along else "middle"
            parts.append(f'<text {spot} text-anchor="{anchor}">{escape(names[index])}</text>')
    parts.append(f'<text x="{left + 300}" y="{height + below - 6:.0f}" text-anchor="middle">{escape(titles[0])}</text>')
    parts.append(f'<text x="0" y="12">{escape(titles[1])}</text>')
    return f'<svg class="map" viewBox="0 0 {left + 600} {height + below:.0f}">{"".join(parts)}</svg>'


def _field(value: float, low: float, span: float, *, signed: bool) -> str:
    """The colour of a value."""
    if math.isnan(value):
        return "none"
    if signed:  # from red over white to blue
        ends, share = ((213, 94, 0) if value < 0 else (0, 114, 178)), min(abs(value), 1.0)
        ends_from = (255, 255, 255)
    else:
        ends, ends_from, share = (0, 34, 78), (253, 234, 69), (value - low) / span
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(ends_from, ends, strict=True))


def heights(values: FloatArray) -> tuple[str, float, float]:
    """Values as shares of their range, the lowest, and what one share is; see web/plots.js."""
    known = values[np.isfinite(values)]
    low = float(known.min()) if len(known) else 0.0
    step = (float(known.max()) - low) / _SHARES if len(known) else 0.0
    shares = np.zeros(len(values)) if step == 0.0 else (values - low) / step
    shares = np.where(np.isfinite(values), np.round(np.nan_to_num(shares)) - 32767, _GAP).astype("<i2")
    return packed(shares), low, step


def packed(values: np.typing.NDArray[Any]) -> str:
    """Numbers as they stand in a page."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def write_page(path: Path | str, title: str, parts: Sequence[str]) -> None:
    """Write a page of parts that are HTML already."""
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    alone = f'<meta http-equiv="Content-Security-Policy" content="{ALONE}">'
    style, program = web("colours.css") + web("page.css"), ""
    if any('<div class="figure"' in part for part in parts):
        style += web("uPlot.min.css")
        program = f"<script>{web('uPlot.min.js')}</script><script>{web('plots.js')}</script>"
    if any("data-copy" in part for part in parts):
        program += f"<script>{web('copy.js')}</script>"
    head = f'<meta charset="utf-8">{view}{alone}<title>{escape(title)}</title><style>{style}</style>{program}'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    with writing(path):
        write_whole(path, f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n')


def web(name: str) -> str:
    """One of the files for browsers that every page shares."""
    return (Path(__file__).parent / "web" / name).read_text(encoding="utf-8")
