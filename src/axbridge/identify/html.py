"""What an identification found: tables for the terminal, and a page with the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.compare.html import COLOURS, STYLE, table_html
from axbridge.compare.tables import Table
from axbridge.config.rig import Rig
from axbridge.files import unwritable, write_whole
from axbridge.identify.clocks import predicted
from axbridge.identify.fit import Fit
from axbridge.identify.friction_laws import LawComparison
from axbridge.identify.lima2009 import Line, Surface
from axbridge.identify.params_file import in_file
from axbridge.physics.mechanics import FloatArray
from axbridge.physics.model_columns import Param
from axbridge.record.recording import Recording
from axbridge.replay.simulate import runs_of

__all__ = ["estimate_table", "law_table", "score_table", "write_page"]


def estimate_table(fit: Fit) -> Table:
    """Values with their intervals, as they stand in the file."""
    rows = []
    for estimate in fit.estimates:
        name, scale = estimate.unknown.name, estimate.unknown.scale
        low, value, high = (
            f"{in_file(fit, name, x, scale):.4g}" for x in (estimate.low, estimate.value, estimate.high)
        )
        mark = "not told by this data" if name in fit.uncertainty.flat else ""
        rows.append((name, value, low, high, mark))
    return Table(f"{fit.kind}, friction {fit.friction}", ("parameter", "value", "95 % from", "to", ""), tuple(rows))


def score_table(fit: Fit) -> Table:
    """Errors by recording."""
    rows = tuple(
        (score.name, f"{score.mae:.2f}", f"{score.rmse:.2f}", "held out" if score.held_out else "fitted")
        for score in fit.scores
    )
    return Table("errors", ("recording", "MAE °", "RMSE °", ""), rows)


def law_table(laws: LawComparison) -> Table:
    """The friction laws side by side, and which of them chance may explain."""
    rows = []
    for score in laws.scores:
        judged = not math.isnan(score.held_out)
        mark = "chosen" if score.law == laws.chosen else "tied" if judged and score.tied else ""
        held = (f"{score.held_out:.3f}", f"{score.behind:+.4f} ± {score.error:.4f}") if judged else ("", "")
        rows.append((score.law, str(score.parameters), f"{score.fitted:.3f}", *held, f"{score.bic:.0f}", mark))
    header = ("friction law", "parameters", "fitted MAE °", "held-out MAE °", "behind the best °", "BIC", "")
    return Table(f"friction laws; chosen: {laws.rule}", header, tuple(rows))


def write_page(
    fit: Fit,
    recordings: Sequence[Recording],
    rig: Rig,
    path: Path | str,
    *,
    line: Line | None = None,
    surfaces: Sequence[Surface] = (),
    laws: LawComparison | None = None,
) -> None:
    """Write one self-contained page: parameters, errors, every recording measured and simulated, the scans.

    Args:
        fit: What was found.
        recordings: In the order of `fit.scores`.
        rig: The fit's.
        path: The page.
        line: Ks measurements, figure 5.
        surfaces: Scans, figures 7 and 11.
        laws: How the friction laws compare.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    held = [score.mae for score in fit.scores if score.held_out]
    fitted = [score.mae for score in fit.scores if not score.held_out]
    lead = f"{len(fitted)} recordings fitted: mean absolute error {np.mean(fitted):.2f}°"
    lead += f"; {len(held)} held out: {np.mean(held):.2f}°." if held else "."
    title = f"{rig.name}: {fit.kind} identified"
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(lead)}</p>']
    notes = (*([laws.note] if laws is not None and laws.note else ()), *fit.warnings)
    parts += [f'<p class="note">{escape(note)}</p>' for note in notes]
    parts.append(table_html(estimate_table(fit)))
    parts.append(table_html(score_table(fit)))
    if laws is not None:
        parts.append(table_html(law_table(laws)))
    figures: list[tuple[str, Any]] = [("Measured and simulated", _traces(fit, recordings, rig))]
    if laws is not None:
        figures.append(("Friction laws", _law_figure(laws)))
    if line is not None:
        figures.append((f"Ks = {line.ks:.6f} V·s/rad (the paper's figure 5)", _ks_figure(line)))
    titles = (
        "Mean squared error of the falls over friction",
        "Mean squared error of the steps over the gains (figure 11)",
    )
    figures += [(heading, _surface_figure(surface)) for heading, surface in zip(titles, surfaces, strict=False)]
    if surfaces:
        figures.append(("Friction over speed (as the paper's figure 7)", _friction_figure(fit)))
    if len(fit.estimates) > 2 and not surfaces:
        figures.append(("Correlation of the estimates", _correlation_figure(fit)))
    for index, (heading, figure) in enumerate(figures):
        parts.append(f"<h2>{escape(heading)}</h2>")
        config = {"displaylogo": False, "responsive": True}
        parts.append(figure.to_html(full_html=False, include_plotlyjs=index == 0, config=config))
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    page = f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"
    try:
        write_whole(path, page)
    except OSError as failure:
        raise unwritable(path, failure) from failure


def _traces(fit: Fit, recordings: Sequence[Recording], rig: Rig) -> Any:
    """All recordings as small plots, two in a row."""
    from plotly.subplots import make_subplots

    runs, direction = runs_of(recordings, rig), rig.servos[0].direction
    simulated = predicted(fit.row[None], runs)[0]
    titles = [
        f"{score.name.removesuffix('.mcap')}: {score.mae:.2f}°{' (held out)' if score.held_out else ''}"
        for score in fit.scores
    ]
    rows = -(-len(recordings) // 2)
    figure = make_subplots(
        rows=rows, cols=2, subplot_titles=titles, vertical_spacing=0.28 / max(rows, 2), horizontal_spacing=0.07
    )
    for index, (a, b) in enumerate(zip(runs.start[:-1], runs.start[1:], strict=True)):
        place = {"row": index // 2 + 1, "col": index % 2 + 1}
        for values, side, label in ((runs.position, "reference", "measured"), (simulated, "other", "simulated")):
            figure.add_scatter(
                x=np.round(runs.time[a:b], 4), y=np.round(direction * np.degrees(values[a:b]), 3), mode="lines",
                name=label,
                line={"color": COLOURS[side], "width": 1.5}, showlegend=index == 0, **place,
            )  # fmt: skip
    _style(figure, 90 + 190 * rows)
    figure.update_yaxes(title_text="°", title_standoff=4)
    figure.update_annotations(font_size=13)
    return figure


def _law_figure(laws: LawComparison) -> Any:
    import plotly.graph_objects as go

    names = [f"{score.law} ({score.parameters} parameters)" for score in laws.scores]
    figure = go.Figure()
    figure.add_bar(x=names, y=[score.fitted for score in laws.scores], name="fitted", marker_color="#b8c8da")
    if not math.isnan(laws.scores[0].held_out):
        spread = {"type": "data", "array": [score.error for score in laws.scores]}
        held = [score.held_out for score in laws.scores]
        figure.add_bar(x=names, y=held, error_y=spread, name="held out", marker_color=COLOURS["reference"])
    _style(figure, 340)
    figure.update_yaxes(title_text="mean absolute error, °")
    return figure


def _ks_figure(line: Line) -> Any:
    import plotly.graph_objects as go

    reach = np.array([0.0, float(line.speed.max())])
    figure = go.Figure()
    figure.add_scatter(x=line.speed, y=line.volts, mode="markers", name="measured", marker_color=COLOURS["reference"])
    figure.add_scatter(x=reach, y=line.ks * reach, mode="lines", name="through the origin", line_color=COLOURS["other"])
    _style(figure, 340)
    figure.update_xaxes(title_text="motor speed, rad/s")
    figure.update_yaxes(title_text="open-circuit voltage, V")
    return figure


def _surface_figure(surface: Surface) -> Any:
    import plotly.graph_objects as go

    x_scale, y_scale = surface.x.scale, surface.y.scale
    figure = go.Figure()
    figure.add_contour(
        x=surface.xs * x_scale, y=surface.ys * y_scale, z=np.log10(surface.mse.T), colorscale="Blues_r", ncontours=24,
        line_width=0.5, colorbar={"title": "log₁₀ deg²"},
    )  # fmt: skip
    figure.add_scatter(
        x=[surface.best[0] * x_scale], y=[surface.best[1] * y_scale], mode="markers+text",
        text=[f"{surface.least:.3g} deg²"], textposition="top center", showlegend=False,
        marker={"color": COLOURS["other"], "size": 11, "symbol": "cross"},
    )  # fmt: skip
    _style(figure, 420)
    for axis, unknown in (("xaxis", surface.x), ("yaxis", surface.y)):
        figure.update_layout(
            {axis: {"title": {"text": unknown.name}, "type": "log" if unknown.logarithmic else "linear"}}
        )
    return figure


def _friction_figure(fit: Fit) -> Any:
    import plotly.graph_objects as go

    speed = np.linspace(-6, 6, 241)
    torque: FloatArray = fit.row[Param.COULOMB] * np.sign(speed) + fit.row[Param.VISCOUS] * speed
    figure = go.Figure()
    figure.add_scatter(x=speed, y=torque, mode="lines", line_color=COLOURS["reference"], showlegend=False)
    _style(figure, 320)
    figure.update_xaxes(title_text="speed, rad/s")
    figure.update_yaxes(title_text="friction torque, N·m")
    return figure


def _correlation_figure(fit: Fit) -> Any:
    import plotly.graph_objects as go

    names = [estimate.unknown.name.partition(".")[2] for estimate in fit.estimates]
    figure = go.Figure()
    figure.add_heatmap(
        x=names, y=names, z=np.round(fit.uncertainty.correlation, 2), zmin=-1, zmax=1, colorscale="RdBu",
        texttemplate="%{z:.1f}", textfont={"size": 10},
    )  # fmt: skip
    _style(figure, 520)
    figure.update_layout(margin={"l": 140, "b": 110})
    figure.update_yaxes(autorange="reversed")
    return figure


def _style(figure: Any, height: int) -> None:
    figure.update_xaxes(gridcolor="#e6eaef", zeroline=False)
    figure.update_yaxes(gridcolor="#e6eaef", zerolinecolor="#c5ccd4")
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 64, "r": 12, "t": 56, "b": 48},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#1c2733"},
        legend={"orientation": "h", "y": 1.0, "yanchor": "top", "yref": "container", "x": 0.0, "xanchor": "left"},
    )
