"""Present an identification: tables for the terminal, panels, and a page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np

from axbridge.comparison.page import Curve, Panel, Table, correlation_html, fewer, figure_html, table_html
from axbridge.comparison.page import write_page as write_parts
from axbridge.comparison.recorded_runs import servo_of
from axbridge.errors import plural
from axbridge.fit.result import Fit, LawComparison, Score, in_file
from axbridge.sim.runs import Regime

_UNITS = {  # of values in a parameter file; other values are shares, or have the unit in their name
    "motor.torque_constant": "V·s/rad", "motor.resistance": "ohm", "motor.resistance_per_duty": "ohm",
    "motor.resistance_per_kelvin": "1/K", "motor.armature": "kg·m²", "motor.backlash": "rad", "motor.max_current": "A",
    "friction.coulomb": "N·m", "friction.output": "N·m", "friction.viscous": "N·m·s/rad", "friction.stribeck": "N·m",
    "friction.stribeck_speed": "rad/s", "friction.quadratic": "N·m·s²/rad²", "controller.slope": "rad",
    "controller.k_theta": "V/rad", "controller.k_omega": "V·s/rad", "sensor.angle_offset": "rad",
}  # fmt: skip
_POINTS = 600  # of a curve: a page with many recordings must stay small enough to send


def estimate_table(fit: Fit) -> Table:
    """Return the values and their intervals, in the units of the parameter file."""
    rows: list[tuple[str, ...]] = []
    for estimate in fit.estimates:
        name = estimate.unknown.name
        values: tuple[float, ...] = (estimate.value, estimate.low, estimate.high)
        mark = "these recordings do not identify it" if name in fit.uncertainty.flat else ""
        if fit.truth is not None:
            hidden = float(fit.truth[estimate.unknown.column])
            values = (hidden, *values)
            mark = mark or ("comes back" if estimate.low <= hidden <= estimate.high else "missed")
        figures = [f"{in_file(fit, estimate.unknown, value):.4g}" for value in values]
        rows.append((name, *figures, _UNITS.get(name, ""), mark))
    heads = ("parameter", *(() if fit.truth is None else ("hidden",)), "value", "95 % from", "to", "unit", "")
    return Table(f"{fit.kind}, friction {fit.friction}", heads, tuple(rows))


def score_table(fit: Fit) -> Table:
    """Return the errors by recording, with those of simpler models and of a repetition if known."""
    columns: tuple[tuple[str, Callable[[Score], float]], ...] = (
        ("MAE °", lambda score: score.mae), ("RMSE °", lambda score: score.rmse),
        ("perfect servo °", lambda score: score.perfect), ("delay and lag °", lambda score: score.lagging),
        ("repeat °", lambda score: score.floor), ("between searches °", lambda score: score.chance),
    )  # fmt: skip
    shown = [(head, of) for head, of in columns if not all(math.isnan(of(score)) for score in fit.scores)]
    rows = []
    for score in fit.scores:
        errors = ("" if math.isnan(of(score)) else f"{of(score):.2f}" for _, of in shown)
        rows.append((score.name, *errors, "held out" if score.held_out else "fitted"))
    return Table("errors", ("recording", *(head for head, _ in shown), ""), tuple(rows))


def law_table(laws: LawComparison) -> Table:
    """Return the comparison of the friction laws."""
    rows = []
    for score in laws.scores:
        judged = not math.isnan(score.held_out_mae_deg)
        mark = "chosen" if score.law == laws.chosen else "tied" if judged and score.tied else ""
        behind = f"{score.behind_deg:+.4f} ± {score.behind_standard_error_deg:.4f}"
        held = (f"{score.held_out_mae_deg:.3f}", behind) if judged else ("", "")
        rows.append((score.law, str(score.parameters), f"{score.mae_deg:.3f}", *held, f"{score.bic:.0f}", mark))
    header = ("friction law", "parameters", "fitted MAE °", "held-out MAE °", "behind the best °", "BIC", "")
    return Table(f"friction laws; chosen: {laws.rule}", header, tuple(rows))


def trace_panels(fit: Fit) -> list[Panel]:
    """Return a panel with the measured and the simulated motion for each recording, in the order of `fit.scores`."""
    runs = fit.runs
    measured = np.where(runs.known, runs.position, np.nan) if len(runs.known) else runs.position
    simulated = np.where(runs.driven == Regime.FOLLOWED, np.nan, fit.simulated)  # FOLLOWED repeats the measurement
    panels = []
    for score, (a, b) in zip(fit.scores, runs.spans, strict=True):
        time, direction = runs.time[a:b], servo_of(score.name.rpartition(" ")[2], fit.rig).direction
        angles = (direction * np.degrees(values[a:b]) for values in (measured, simulated))
        # the measurement is wide, so that it is visible below a simulation that agrees
        styles = ("measured", "fitted", 5.0), ("simulated", "other", 1.6)
        lines = tuple(Curve(time, y, *style) for y, style in zip(angles, styles, strict=True))
        title = f"{score.name.removesuffix('.mcap')}: {score.mae:.2f}°{' (held out)' if score.held_out else ''}"
        panels.append(Panel(lines, "time, s", "position, °", title))
    return panels


def residual_panel(trace: Panel) -> Panel:
    """Return the residuals, measured minus simulated: noise if the model is right, else a pattern."""
    measured, simulated = trace.curves
    return Panel((Curve(measured.x, measured.y - simulated.y, "", "error", width=1.0),), "time, s", "residual, °")


def write_page(fit: Fit, path: Path | str) -> None:
    """Write a self-contained page: parameters, errors, each recording measured and simulated."""
    fitted, held = fit.errors(held_out=False), fit.errors(held_out=True)
    lead = f"{plural(len(fitted), 'recording')} fitted: mean absolute error {np.mean(fitted):.2f}°"
    lead += f"; {len(held)} held out: {np.mean(held):.2f}°." if held else "."
    parts = [f'<p class="headline">{escape(lead)}</p>', f'<p class="lead">Verdict: {escape(str(fit.verdict))}</p>']
    notes = (fit.condition, *([fit.laws.note] if fit.laws is not None and fit.laws.note else ()), *fit.warnings)
    parts += [f'<p class="note">{escape(note)}</p>' for note in notes]
    parts += [table_html(table) for table in (estimate_table(fit), score_table(fit))]
    if fit.laws is not None:
        parts.append(table_html(law_table(fit.laws)))
    parts.append("<h2>Measured and simulated, and what is left between them</h2>")
    figures = []
    for index, trace in enumerate(trace_panels(fit)):
        panels = fewer([replace(trace, x="", share=1.4), replace(residual_panel(trace), share=0.7)], _POINTS)
        figure = figure_html(panels, f"trace-{index}", axis=f"trace-{index}")
        figures.append(f"<figure><figcaption>{escape(trace.title)}</figcaption>{figure}</figure>")
    parts.append(f'<div class="grid">{"".join(figures)}</div>')
    if len(fit.unknowns) > 2:
        names = [unknown.name.partition(".")[2] for unknown in fit.unknowns]
        shown = correlation_html(names, fit.uncertainty.correlation)
        parts.append(f"<h2>Correlation of the estimates</h2>{shown}")
    write_parts(path, f"{fit.rig.name}: {fit.kind} identified", parts)
