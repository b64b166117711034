"""Panels drawn by plotly, for pages that need no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from axbridge.report.plots import COLOURS, Bars, Curve, Map, Panel

__all__ = ["figure_html"]

NAMED = 8  # marks that have room for their names


def figure_html(panels: Sequence[Panel], *, first: bool, columns: int = 1, height: int = 340) -> str:
    """Panels as one interactive figure.

    Args:
        panels: In rows of `columns`; in a single column they share their horizontal axis.
        first: Whether it is the page's first figure, which brings the program that draws them all.
        columns: How many side by side.
        height: Of the whole, pixels.
    """
    from plotly.subplots import make_subplots

    rows = -(-len(panels) // columns)
    figure = make_subplots(
        rows=rows, cols=columns, shared_xaxes=columns == 1 and rows > 1, subplot_titles=[p.title for p in panels],
        row_heights=[panel.share for panel in panels[::columns]], horizontal_spacing=0.07,
        vertical_spacing=0.045 if columns == 1 else 0.28 / max(rows, 2),
    )  # fmt: skip
    named: set[str] = set()
    for index, panel in enumerate(panels):
        place = {"row": index // columns + 1, "col": index % columns + 1}
        for item in panel.items:
            if isinstance(item, Curve):
                _line(figure, item, place, legend=item.label not in named)
            elif isinstance(item, Bars):
                _bars(figure, item, place)
            else:
                _map(figure, item, place)
            named.add(item.label)
        last = columns > 1 or index == len(panels) - 1
        figure.update_xaxes(
            title_text=panel.x if last else "", type="log" if "x" in panel.logarithmic else None, **place
        )
        figure.update_yaxes(title_text=panel.y, type="log" if "y" in panel.logarithmic else None, **place)
        if any(isinstance(item, Map) and item.written for item in panel.items):
            figure.update_yaxes(autorange="reversed", automargin=True, **place)
            figure.update_xaxes(automargin=True, **place)
    figure.update_annotations(font_size=13)
    _mark(figure, panels[0])
    figure.update_xaxes(showgrid=True, gridcolor=COLOURS["grid"], zeroline=False)
    figure.update_yaxes(showgrid=True, gridcolor=COLOURS["grid"], zerolinecolor=COLOURS["zero"], title_standoff=6)
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 64, "r": 12, "t": 56, "b": 48},
        font={"family": "system-ui, sans-serif", "size": 13, "color": COLOURS["ink"]},
        legend={"orientation": "h", "y": 1.0, "yanchor": "top", "yref": "container", "x": 1.0, "xanchor": "right"},
        hovermode="x unified" if columns == 1 and rows > 1 else "closest",
    )
    config = {"displaylogo": False, "responsive": True}
    return str(figure.to_html(full_html=False, include_plotlyjs=first, config=config))


def _line(figure: Any, line: Curve, place: dict[str, int], *, legend: bool) -> None:
    colour = COLOURS[line.colour]
    style = {"color": colour, "width": line.width}
    if line.dashed:
        style["dash"] = "dash"
    if line.held:
        style["shape"] = "hv"
    figure.add_scatter(
        x=np.round(line.x, 5), y=np.round(line.y, 4 if np.nanmax(np.abs(line.y), initial=0) > 1 else 7),
        mode="markers+text" if line.note else "markers" if line.points else "lines", name=line.label,
        line=None if line.points else style, text=[line.note] if line.note else None, textposition="top center",
        marker={"color": colour, "size": 11, "symbol": "cross"} if line.note else {"color": colour},
        showlegend=legend and bool(line.label), legendgroup=line.label, **place,
    )  # fmt: skip


def _bars(figure: Any, bars: Bars, place: dict[str, int]) -> None:
    spread = None if bars.spread is None else {"type": "data", "array": list(bars.spread)}
    figure.add_bar(
        x=[name.replace("\n", "<br>") for name in bars.names], y=list(bars.values), error_y=spread, name=bars.label,
        marker_color=COLOURS[bars.colour], **place,
    )  # fmt: skip


def _map(figure: Any, shown: Map, place: dict[str, int]) -> None:
    if shown.written:
        figure.add_heatmap(
            x=list(shown.x), y=list(shown.y), z=shown.z, zmin=-1, zmax=1, colorscale="RdBu", texttemplate="%{z:.1f}",
            textfont={"size": 10}, **place,
        )  # fmt: skip
        return
    figure.add_contour(
        x=shown.x, y=shown.y, z=shown.z, colorscale="Blues_r", ncontours=24, line_width=0.5,
        colorbar={"title": shown.label}, showlegend=False, **place,
    )  # fmt: skip


def _mark(figure: Any, panel: Panel) -> None:
    """Name the parts above the figure; of many, the names would touch, and only lines stay."""
    for index, (at, name) in enumerate(panel.marks):
        if index:
            figure.add_vline(x=at, line={"color": COLOURS["axis"], "width": 1, "dash": "dot"})
        if len(panel.marks) <= NAMED:
            figure.add_annotation(
                x=max(at, panel.start), y=1.0, xref="x", yref="paper", text=escape(name), showarrow=False,
                xanchor="left", yanchor="bottom", font={"size": 12, "color": COLOURS["faint"]},
            )  # fmt: skip
