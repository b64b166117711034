"""Panels drawn by plotly's program in the browser, for pages that need no network.

The figure is written as the JSON that program reads: building it through plotly's Python objects takes minutes for a
robot of 25 servos.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.plots import COLOURS, POINTS, Bars, Curve, Map, Panel, mark_rows, thinned

_LEFT, _BOTTOM, _GAP, _ROW = 52, 46, 38, 16  # pixels: beside and below the panels, between two, a row of text
_NARROW = 44  # letters that fit side by side above a panel on a telephone

# The colours of axes and words follow the page (`report.page`), light, dark or printed; those of data stay.
_PROGRAM = """
const drawn = [];
function draw(id, data, layout) { drawn.push([id, layout.height, data, layout]); }
addEventListener("DOMContentLoaded", () => drawn.forEach(([id, , data, layout]) =>
  Plotly.newPlot(id, data, layout, {displaylogo: false, responsive: true, modeBarButtons: [
    ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]]})));
addEventListener("beforeprint", () => drawn.forEach(([id, height]) => {
  const alone = !document.getElementById(id).closest(".grid");
  Plotly.relayout(id, {autosize: false, width: alone ? 680 : 325, height: Math.min(height, 720)});
}));
addEventListener("afterprint", () => drawn.forEach(([id, height]) =>
  Plotly.relayout(id, {autosize: true, width: null, height: height})));
"""


def figure_html(
    panels: Sequence[Panel], *, name: str, program: bool = False, unit: float = 100.0, points: int = POINTS
) -> str:
    """Panels one below the other, with one horizontal axis, as one interactive figure.

    Args:
        panels: From the top.
        name: Of the figure, once in a page.
        program: Whether to bring the program that draws all figures: the page's first does.
        unit: Height of a panel of share 1, pixels.
        points: Most points of a line; of a longer one, the lowest and the highest of each stretch are drawn.
    """
    rows = mark_rows(panels[0], _NARROW)
    head = 15 + _ROW * bool(panels[0].y) + _ROW * (1 + max(rows.values(), default=-1))
    inner = sum(panel.share for panel in panels) * unit + _GAP * (len(panels) - 1)
    layout: dict[str, Any] = {
        "height": round(head + inner + _BOTTOM),
        "margin": {"l": _LEFT, "r": 12, "t": head, "b": _BOTTOM},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": COLOURS["ink"]},
        "showlegend": False,
        "hovermode": "x unified" if len(panels) > 1 else "closest",
        "hoversubplots": "axis",
        "barmode": "group",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": COLOURS["axis"], "activecolor": COLOURS["faint"]},
        "annotations": [],
        "shapes": _marks(panels[0]),
        "xaxis": _axis(panels[-1].x, "x" in panels[0].logarithmic) | {"anchor": _axis_name("y", len(panels) - 1)},
    }
    if panels[0].marks:  # their names, which may reach beyond the lines, do not widen the axis
        layout["xaxis"]["range"] = [panels[0].start, panels[0].start + panels[0].span]
    data: list[dict[str, Any]] = []
    top = 1.0
    for index, panel in enumerate(panels):
        bottom = max(0.0, top - panel.share * unit / inner)
        axis = _axis("", "y" in panel.logarithmic) | {"domain": [bottom, top], "anchor": "x", "hoverformat": ".4~g"}
        above = _ROW * (1 + max(rows.values(), default=-1)) if index == 0 and rows else 5  # clear of the ticks
        layout["annotations"].append(_words(panel.y, x=0, xref="paper", y=top, xshift=-_LEFT + 4, yshift=above))
        for item in panel.items:
            drawn = (
                _line(item, points)
                if isinstance(item, Curve)
                else _bars(item)
                if isinstance(item, Bars)
                else _map(item)
            )
            data.append(drawn | {"xaxis": "x", "yaxis": _axis_name("y", index)})
        if not all(isinstance(item, Curve) for item in panel.items):  # names, or many digits, beside the axes
            axis["automargin"] = layout["xaxis"]["automargin"] = True
        if any(isinstance(item, Map) and item.written for item in panel.items):
            axis["autorange"] = "reversed"
        layout[_axis_name("yaxis", index)] = axis
        top = bottom - _GAP / inner
    layout["annotations"] += [
        _words(panels[0].marks[index][1], x=max(panels[0].marks[index][0], panels[0].start), xref="x", y=1,
               yshift=_ROW * row, faint=True)
        for index, row in rows.items()
    ]  # fmt: skip
    figure = f"draw({json.dumps(name)}, {_json(data)}, {_json(layout)})"
    page_part = f'<div class="figure">{_legend(panels)}<div id="{escape(name)}"></div><script>{figure}</script></div>'
    return program_html() + page_part if program else page_part


def program_html() -> str:
    """The program that draws all figures of a page; comes before the first of them."""
    return f"<script>{_plotly()}</script><script>{_PROGRAM}</script>"


def grid_html(figures: Sequence[tuple[str, str]]) -> str:
    """Figures with their captions, side by side where there is room."""
    parts = (f"<figure><figcaption>{escape(caption)}</figcaption>{figure}</figure>" for caption, figure in figures)
    return f'<div class="grid">{"".join(parts)}</div>'


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _json(value: Any) -> str:
    """JSON that no text in it can end the script with."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("</", "<\\/")


def _numbers(values: FloatArray) -> dict[str, str]:
    """An array as plotly's program takes it: a third the size of its digits, and NaN is a gap."""
    packed = np.ascontiguousarray(values, dtype="<f4")
    found = {"dtype": "f4", "bdata": base64.b64encode(packed.tobytes()).decode()}
    return found if packed.ndim == 1 else found | {"shape": ", ".join(map(str, packed.shape))}


def _axis_name(kind: str, index: int) -> str:
    return kind if index == 0 else f"{kind}{index + 1}"


def _axis(title: str, logarithmic: bool) -> dict[str, Any]:
    return {
        "title": {"text": escape(title), "standoff": 6},
        "gridcolor": COLOURS["grid"],
        "zerolinecolor": COLOURS["zero"],
        "zeroline": True,
        "showgrid": True,
    } | ({"type": "log"} if logarithmic else {})


def _words(text: str, *, faint: bool = False, **place: Any) -> dict[str, Any]:
    font = {"size": 12, "color": COLOURS["faint"]} if faint else {"size": 13, "color": COLOURS["ink"]}
    return place | {
        "text": escape(text), "yref": "paper", "showarrow": False, "xanchor": "left", "yanchor": "bottom",
        "align": "left", "font": font,
    }  # fmt: skip


def _marks(panel: Panel) -> list[dict[str, Any]]:
    """Lines where parts begin, through all panels."""
    return [
        {
            "type": "line", "x0": at, "x1": at, "xref": "x", "y0": 0, "y1": 1, "yref": "paper", "layer": "below",
            "line": {"color": COLOURS["axis"], "width": 1, "dash": "dot"},
        }
        for at, _ in panel.marks[1:]
    ]  # fmt: skip


def _legend(panels: Sequence[Panel]) -> str:
    """What each colour is, in the page's own text: it wraps, and never lies on a button."""
    labels = {item.label: COLOURS[item.colour] for p in panels for item in p.items if not isinstance(item, Map)}
    labels.pop("", None)
    if len(labels) < 2:
        return ""
    keys = "".join(f'<span><i style="background:{colour}"></i>{escape(text)}</span>' for text, colour in labels.items())
    return f'<p class="legend">{keys}</p>'


def _line(line: Curve, points: int) -> dict[str, Any]:
    colour = COLOURS[line.colour]
    x, y = thinned(line.x, line.y, points)
    drawn: dict[str, Any] = {
        "type": "scatter",
        "x": _numbers(x),
        "y": _numbers(y),
        "name": escape(line.label),
        "mode": "markers+text" if line.note else "markers" if line.points else "lines",
    }
    if line.points:
        drawn["marker"] = {"color": colour} | ({"size": 11, "symbol": "cross"} if line.note else {})
    else:
        held = line.held and len(x) == len(line.x)  # between what is left of many points, nothing holds
        drawn["line"] = {"color": colour, "width": line.width, "shape": "hv" if held else "linear"}
    if line.note:
        drawn |= {"text": [escape(line.note)], "textposition": "top center"}
    return drawn


def _bars(bars: Bars) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "type": "bar",
        "x": [escape(name).replace("\n", "<br>") for name in bars.names],
        "y": _numbers(np.array(bars.values)),
        "name": escape(bars.label),
        "marker": {"color": COLOURS[bars.colour]},
    }
    if bars.spread is not None:
        drawn["error_y"] = {"type": "data", "array": _numbers(np.array(bars.spread)), "color": COLOURS["faint"]}
    return drawn


def _map(shown: Map) -> dict[str, Any]:
    x, y = (list(axis) if isinstance(axis, tuple) else _numbers(axis) for axis in (shown.x, shown.y))
    drawn: dict[str, Any] = {"x": x, "y": y, "z": _numbers(shown.z)}
    if shown.written:
        return drawn | {
            "type": "heatmap", "zmin": -1, "zmax": 1, "colorscale": "RdBu", "texttemplate": "%{z:.1f}",
            "textfont": {"size": 10},
        }  # fmt: skip
    return drawn | {
        "type": "contour", "colorscale": "Cividis", "reversescale": True, "ncontours": 24, "line": {"width": 0.5},
        "colorbar": {"title": {"text": escape(shown.label)}},
    }  # fmt: skip
