"""The report of a comparison as one self-contained page: interactive plots, tables, provenance."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.compare.comparison import Comparison, Pair
from axbridge.compare.metrics import resample
from axbridge.compare.tables import Table, deviation_table, parameter_table, provenance_table, response_table
from axbridge.record.recording import Track

__all__ = ["COLOURS", "STYLE", "page", "table_html"]

COLOURS = {"command": "#9a9a9a", "reference": "#1b4f8f", "other": "#e0701a", "error": "#6b6b6b", "band": "#eef2f7"}

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733; max-width: 1080px; margin: 32px auto; padding: 0 24px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 32px 0 8px; }
p.lead { color: #566; margin: 0 0 16px; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 12px; border-bottom: 1px solid #dde3ea; text-align: right; vertical-align: top; }
th { color: #566; font-weight: 600; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
table.words td, table.words th { text-align: left; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
details { margin-top: 24px; } summary { cursor: pointer; font-weight: 600; }
.note { background: #fff6e5; border-left: 4px solid #e0a01a; padding: 8px 12px; margin: 12px 0; }
"""


def page(comparison: Comparison, title: str) -> str:
    """The whole page as HTML."""
    worst = comparison.pairs[0]
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(_lead(comparison))}</p>']
    for recording, label in zip((comparison.reference, comparison.other), comparison.labels, strict=True):
        if not recording.complete:
            parts.append(f'<p class="note">{escape(label)} was cut off: everything up to the cut is shown.</p>')
    for index, pair in enumerate(comparison.pairs):
        if len(comparison.pairs) > 1:
            parts.append(f"<h2>{escape(pair.name)}</h2>")
        parts.append(_figure_html(comparison, pair, first=index == 0))
        if index == 0:
            parts.append(table_html(deviation_table(comparison)))
            parts.append(f'<p class="lead">{escape(_alignment(comparison))}</p>')
        if table := response_table(comparison, pair):
            parts.append(table_html(table))
    if parameters := parameter_table(comparison):
        body = table_html(parameters, words=True)
        parts.append(f"<details><summary>Model parameters of {escape(worst.name)}</summary>{body}</details>")
    parts.append(table_html(provenance_table(comparison), words=True))
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _lead(comparison: Comparison) -> str:
    worst = comparison.pairs[0]
    which = f"worst of {len(comparison.pairs)} servos, {worst.name}" if len(comparison.pairs) > 1 else worst.name
    return (
        f"{which}: mean absolute error {worst.plain.mae:.2f}°, RMSE {worst.plain.rmse:.2f}° "
        f"({worst.plain.mse:.2f} deg²) over {worst.time[-1] - worst.time[0]:.1f} s."
    )


def _alignment(comparison: Comparison) -> str:
    pair = comparison.pairs[0]
    word = "later" if pair.shift >= 0 else "earlier"
    return (
        f"Aligned: {pair.name} of {comparison.labels[1]} is {abs(pair.shift) * 1e3:.1f} ms {word} than "
        f"{comparison.labels[0]} by the least squared error; the aligned columns have that taken out, the others not."
    )


def _figure_html(comparison: Comparison, pair: Pair, *, first: bool) -> str:
    from plotly.subplots import make_subplots

    panels = _panels(comparison, pair)
    heights = [3.0, 1.2] + [1.2] * len(panels)
    figure = make_subplots(rows=len(heights), cols=1, shared_xaxes=True, vertical_spacing=0.045, row_heights=heights)
    for name, values, style in (
        ("goal", pair.command, {"color": COLOURS["command"], "dash": "dash", "width": 1.5, "shape": "hv"}),
        (comparison.labels[0], pair.reference, {"color": COLOURS["reference"], "width": 2}),
        (comparison.labels[1], pair.other, {"color": COLOURS["other"], "width": 2}),
    ):
        if name == "goal" and (np.isnan(values).all() or comparison.labels[0] == "goal"):
            continue
        _line(figure, 1, pair.time, np.degrees(values), name, style, legend=True)
    error = np.degrees(pair.other - pair.reference)
    _line(figure, 2, pair.time, error, "error", {"color": COLOURS["error"], "width": 1.5}, legend=False)
    figure.update_yaxes(title_text="position, °", row=1, col=1)
    figure.update_yaxes(title_text="error, °", row=2, col=1)
    for row, (title, lines) in enumerate(panels, start=3):
        for side, time, values in lines:
            style = {"color": COLOURS[side], "width": 1.5}
            label = comparison.labels[0] if side == "reference" else comparison.labels[1]
            _line(figure, row, time, values, label, style, legend=False)
        figure.update_yaxes(title_text=title, row=row, col=1)
    _mark_parts(figure, pair)
    figure.update_xaxes(title_text="time, s", row=len(heights), col=1)
    figure.update_xaxes(showgrid=True, gridcolor="#e6eaef", zeroline=False)
    figure.update_yaxes(showgrid=True, gridcolor="#e6eaef", zerolinecolor="#c5ccd4", title_standoff=8)
    figure.update_layout(
        template="none",
        height=300 + 130 * (len(heights) - 1),
        margin={"l": 64, "r": 12, "t": 56, "b": 48},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#1c2733"},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 1.0, "xanchor": "right"},
        hovermode="x unified",
    )
    return str(
        figure.to_html(full_html=False, include_plotlyjs=first, config={"displaylogo": False, "responsive": True})
    )


def _mark_parts(figure: Any, pair: Pair) -> None:
    """Name the segments above the plot; beyond eight the names would touch, and only lines stay."""
    shown = [part for part in pair.parts if part.deviation.samples]
    for index, part in enumerate(shown):
        if index:
            figure.add_vline(x=part.start, line={"color": "#b8c0ca", "width": 1, "dash": "dot"})
        if len(shown) <= 8:
            figure.add_annotation(
                x=max(part.start, float(pair.time[0])), y=1.0, xref="x", yref="paper", text=escape(part.name),
                showarrow=False, xanchor="left", yanchor="bottom", font={"size": 12, "color": "#667"},
            )  # fmt: skip


def _panels(comparison: Comparison, pair: Pair) -> list[tuple[str, list[tuple[str, FloatArray, FloatArray]]]]:
    """Further plots for what both or one side knows: torque, mechanical and electrical power, load."""
    sides = (
        ("reference", comparison.reference[pair.name], comparison.zero[0]),
        ("other", comparison.other[pair.other_name], comparison.zero[1]),
    )
    panels = []
    wanted = (
        ("torque, N·m", _torque),
        ("power at the shaft, W", _shaft_power),
        ("electrical power, W", _power),
        ("load, %", _load),
    )
    for title, value in wanted:
        lines = [
            (side, pair.time, resample(track.time - zero, value(track), pair.time))
            for side, track, zero in sides
            if comparison.labels[0] != "goal" or side == "other"
        ]
        known = [line for line in lines if not np.isnan(line[2]).all()]
        if known:
            panels.append((title, known))
    return panels


def _torque(track: Track) -> FloatArray:
    return np.where(np.isnan(track.true_torque), track.torque, track.true_torque)


def _shaft_power(track: Track) -> FloatArray:
    return _torque(track) * track.velocity


def _power(track: Track) -> FloatArray:
    return track.power


def _load(track: Track) -> FloatArray:
    return track.load * 100


def _line(
    figure: Any, row: int, time: FloatArray, values: FloatArray, name: str, line: dict[str, Any], *, legend: bool
) -> None:
    figure.add_scatter(
        x=np.round(time, 5), y=np.round(values, 4), mode="lines", name=name, line=line, showlegend=legend,
        legendgroup=name, row=row, col=1,
    )  # fmt: skip


def table_html(table: Table, *, words: bool = False) -> str:
    """A table as HTML, under its title; `words` aligns left."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    kind = ' class="words"' if words else ""
    return f'<h2>{escape(table.title)}</h2><div class="scroll"><table{kind}><tr>{head}</tr>{rows}</table></div>'
