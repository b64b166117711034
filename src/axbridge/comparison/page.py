"""Elements of HTML pages: tables, curves that uPlot (web/) draws in the browser, and the page itself.

Long curves are reduced to the lowest and highest sample of each section; y values are stored as 16-bit integers.
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
from textwrap import wrap
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.file_reading import printable
from axbridge.files import write_whole

POINTS = 2000  # of one curve: about two for each pixel of a screen's width
_LINE_LENGTH = 80  # characters in a line of a terminal
_HEIGHT = 100.0  # pixels of a panel with share 1
_SHARES = 65534  # steps of the 16-bit range of y
_GAP = -32768  # stands for NaN
_SIGNS = ((0, 114, 178), (213, 94, 0))  # colours of the correlations 1 and -1

# Okabe and Ito's colours: they are distinct for colour-blind people, and visible on white and on black. Pages take them
# from web/colours.css.
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

# Content security policy of a page: the browser loads nothing from the network, so pages work offline and leak nothing.
ALONE = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_text(table: Table) -> str:
    """Return a table as text for a terminal, with aligned columns.

    If it is too wide, headers are folded as little as needed. Columns without room follow below, beside the first.
    """
    columns = [[*map(printable, column)] for column in zip(table.header, *table.rows, strict=True)]
    for room in range(_LINE_LENGTH, 0, -1):
        heads = [wrap(head, max([room, *map(len, cells)]), break_long_words=False) for head, *cells in columns]
        widths = (max(map(len, (*head, *cells)), default=0) for head, (_, *cells) in zip(heads, columns, strict=True))
        if sum(width + 2 for width in widths) <= _LINE_LENGTH + 2:
            break
    height = max(map(len, heads), default=0)
    for head, cells in zip(heads, columns, strict=True):
        cells[:1] = [""] * (height - len(head)) + head
    parts: list[list[list[str]]] = [[]]
    for cells in columns:
        width = max(map(len, cells))
        needed = sum(len(column[0]) + 2 for column in parts[-1]) + width
        if needed > _LINE_LENGTH and len(parts[-1]) > 1:
            parts.append(parts[0][:1])
        parts[-1].append([cell.rjust(width) if parts[0] else cell.ljust(width) for cell in cells])
    texts = ("\n".join("  ".join(row).rstrip() for row in zip(*part, strict=True)) for part in parts)
    return f"{printable(table.title)}\n" + "\n\n".join(texts)


def table_html(table: Table, *, words: bool = False) -> str:
    """Return a table as HTML with its title; `words` aligns its cells left."""
    # no line break before a unit
    head = "".join(f"<th>{escape(cell).replace(' °', '&nbsp;°')}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    kind = ' class="words"' if words else ""
    inner = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"  # print repeats a thead on each page
    return f'<h2>{escape(table.title)}</h2><div class="scroll"><table{kind}>{inner}</table></div>'


def command_html(command: str) -> str:
    """Return a shell command as HTML, with a button that copies it."""
    return f'<p class="command"><code>{escape(command)}</code> <button data-copy>Copy</button></p>'


@dataclass(frozen=True)
class Curve:
    """Values over a horizontal axis."""

    x: FloatArray  # (n,), ascending
    y: FloatArray  # (n,); NaN leaves a gap
    label: str  # its name in the legend; empty where the panel's name is enough
    colour: str  # a key of `COLOURS`
    width: float = 1.7  # of the line, points
    held: bool = False  # whether each value is held until the next one, like a goal


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    curves: tuple[Curve, ...]  # in drawing order
    x: str  # label of the horizontal axis
    y: str  # label of the vertical axis
    title: str = ""  # above the panel
    share: float = 1.0  # height relative to other panels
    marks: tuple[tuple[float, str], ...] = ()  # starts of segments: (x, name)


def fewer(panels: Sequence[Panel], points: int = POINTS, whole: Sequence[tuple[float, float]] = ()) -> list[Panel]:
    """Return panels with about `points` samples per curve at most, and all in spans `whole`; equal `x` stay equal."""
    sharing: dict[int, list[Curve]] = {}
    for panel in panels:
        for curve in panel.curves:
            sharing.setdefault(id(curve.x), []).append(curve)
    indices = {axis: _reduced(curves, points, whole) for axis, curves in sharing.items()}
    axes = {axis: curves[0].x[indices[axis]] for axis, curves in sharing.items()}

    def fewer_samples(curve: Curve) -> Curve:
        if len(axes[id(curve.x)]) == len(curve.x):
            return curve
        # held values would be wrong between the few samples that remain
        return replace(curve, x=axes[id(curve.x)], y=curve.y[indices[id(curve.x)]], held=False)

    return [replace(panel, curves=tuple(map(fewer_samples, panel.curves))) for panel in panels]


def _reduced(curves: Sequence[Curve], points: int, whole: Sequence[tuple[float, float]]) -> np.typing.NDArray[np.intp]:
    """Return the indices of samples to keep: lowest, highest and first unknown one of each curve in each section."""
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


def figure_html(panels: Sequence[Panel], name: str, axis: str = "time") -> str:
    """Return panels as one figure of a page, one below the other; `write_page` adds the program that draws it."""
    axes = {id(curve.x): curve.x for panel in panels for curve in panel.curves}  # curves share them
    places, styles = list(axes), ("label", "colour", "width", "held")
    drawn = []
    for panel in panels:
        curves = [
            {"x": places.index(id(curve.x)), "y": heights(curve.y)} | {key: getattr(curve, key) for key in styles}
            for curve in panel.curves
        ]
        drawn.append({"x": panel.x, "y": panel.y, "height": round(panel.share * _HEIGHT), "curves": curves})
    packed_axes = [packed(x.astype("<f4")) for x in axes.values()]
    figure = {"axis": axis, "axes": packed_axes, "marks": panels[0].marks, "panels": drawn}
    # a label with "</script>" must not end the script
    text = json.dumps(figure, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("</", "<\\/")
    height = sum(panel.share * _HEIGHT + 32 for panel in panels) + 66
    head = f'<div class="figure" id="{escape(name)}" style="--height:{height:.0f}px">'
    return f"{head}<script>figure({text})</script></div>"


def correlation_html(names: Sequence[str], values: FloatArray) -> str:
    """Return correlations (n, n), -1..1, as an HTML table with red, white and blue fields; NaN is empty."""
    rows = []
    for name, row in zip(names, values.tolist(), strict=True):
        cells = []
        for value in row:
            share, full = (0.0, (0, 0, 0)) if math.isnan(value) else (min(abs(value), 1.0), _SIGNS[value < 0])
            colour = "".join(f"{round(255 + (part - 255) * share):02x}" for part in full)
            text = "" if math.isnan(value) else f"{round(value, 1) + 0.0:.1f}"
            cells.append(f'<td style="background:#{colour}">{text}</td>')
        rows.append(f'<tr><td class="name">{escape(name)}</td>{"".join(cells)}</tr>')
    heads = "".join(f'<td class="name">{escape(name)}</td>' for name in names)
    return f'<div class="scroll"><table class="map">{"".join(rows[::-1])}<tr><td></td>{heads}</tr></table></div>'


def heights(values: FloatArray) -> tuple[str, float, float]:
    """Return values as encoded 16-bit steps, the lowest value, and the size of a step; web/plots.js decodes them."""
    known = values[np.isfinite(values)]
    low = float(known.min()) if len(known) else 0.0
    step = (float(known.max()) - low) / _SHARES if len(known) else 0.0
    shares = np.zeros(len(values)) if step == 0.0 else (values - low) / step
    shares = np.where(np.isfinite(values), np.round(np.nan_to_num(shares)) - 32767, _GAP).astype("<i2")
    return packed(shares), low, step


def packed(values: np.typing.NDArray[Any]) -> str:
    """Return numbers as base64 text."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def write_page(path: Path | str, title: str, parts: Sequence[str]) -> None:
    """Write a page of HTML parts; raise RecordingError if the file cannot be written."""
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
    write_whole(path, f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n')


def web(name: str) -> str:
    """Return a file of web/, which all pages share."""
    return (Path(__file__).parent / "web" / name).read_text(encoding="utf-8")
