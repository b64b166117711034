"""The report of a comparison as one self-contained page: interactive plots, tables, provenance."""

from __future__ import annotations

from html import escape
from pathlib import Path

from axbridge.compare.comparison import Comparison, lacks, shift_text
from axbridge.compare.tables import (
    deviation_table,
    panels_of,
    parameter_table,
    provenance_table,
    response_table,
    title_of,
)
from axbridge.report.page import table_html, write_page
from axbridge.report.plots_html import figure_html

__all__ = ["write_html"]


def write_html(comparison: Comparison, path: Path | str, title: str = "") -> None:
    """Write the report as one page.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    worst = comparison.pairs[0]
    parts = [f'<p class="lead">{escape(_lead(comparison))}</p>']
    parts += [f'<p class="note">{escape(line)}</p>' for line in lacks(comparison)]
    for recording, label in zip((comparison.reference, comparison.other), comparison.labels, strict=True):
        if not recording.complete:
            parts.append(f'<p class="note">{escape(label)} was cut off: everything up to the cut is shown.</p>')
    for index, pair in enumerate(comparison.pairs):
        if len(comparison.pairs) > 1:
            parts.append(f"<h2>{escape(pair.name)}</h2>")
        panels = panels_of(comparison, pair)
        parts.append(figure_html(panels, first=index == 0, height=300 + 130 * (len(panels) - 1)))
        if index == 0:
            parts.append(table_html(deviation_table(comparison)))
            parts.append(f'<p class="lead">{escape(_alignment(comparison))}</p>')
        if table := response_table(comparison, pair):
            parts.append(table_html(table))
    if parameters := parameter_table(comparison):
        body = table_html(parameters, words=True)
        parts.append(f"<details><summary>Model parameters of {escape(worst.name)}</summary>{body}</details>")
    parts.append(table_html(provenance_table(comparison), words=True))
    write_page(path, title or title_of(comparison), parts)


def _lead(comparison: Comparison) -> str:
    worst = comparison.pairs[0]
    which = f"worst of {len(comparison.pairs)} servos, {worst.name}" if len(comparison.pairs) > 1 else worst.name
    return (
        f"{which}: mean absolute error {worst.plain.mae:.2f}°, RMSE {worst.plain.rmse:.2f}° "
        f"({worst.plain.mse:.2f} deg²) over {worst.time[-1] - worst.time[0]:.1f} s."
    )


def _alignment(comparison: Comparison) -> str:
    pair = comparison.pairs[0]
    if pair.shift is None:
        return f"Shift of {pair.name}: {shift_text(comparison, pair)}."
    word = "later" if pair.shift >= 0 else "earlier"
    return (
        f"Aligned: {pair.name} of {comparison.labels[1]} is {abs(pair.shift) * 1e3:.1f} ms {word} than "
        f"{comparison.labels[0]} by the least squared error; the aligned columns have that taken out, the others not."
    )
