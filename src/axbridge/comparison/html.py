"""The report of a comparison as one self-contained page: interactive plots, tables, provenance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from axbridge.comparison.comparison import Comparison, lacks, shift_text
from axbridge.comparison.findings import headline
from axbridge.comparison.page import table_html, write_page
from axbridge.comparison.plots import POINTS, Panel, fewer
from axbridge.comparison.plots_html import figure_html, program_html
from axbridge.comparison.tables import (
    acts_table,
    deviation_table,
    panels_of,
    parameter_table,
    provenance_table,
    response_tables,
    title_of,
)
from axbridge.comparison.walk_html import walk_headline, walk_parts
from axbridge.comparison.walks import WalkSide

ALL_POINTS = 80_000  # of all lines of a page: it stays small enough to be sent
FEWEST = 300  # of one line
DETAILED = 6  # servos, the worst, of which all quantities are drawn; of the others position and error


def write_html(
    comparison: Comparison,
    path: Path | str,
    title: str = "",
    *,
    beside: Comparison | None = None,
    walks: Sequence[WalkSide] = (),
    replay: str = "",
    progress: Callable[[str, float], None] = lambda _what, _share: None,
) -> None:
    """Write the report as one page.

    Args:
        comparison: What is reported.
        path: The page.
        title: Instead of what is compared.
        beside: Of the same one servo with another candidate, which is drawn and measured beside it.
        walks: What is compared, where it is walks; a part about them comes first. See `axbridge.comparison.walks`.
        replay: A part that shows the motion, see `axbridge.view.replay_page`.
        progress: Told what is under way and which share is done, before each servo.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    worst = comparison.pairs[0]
    found = walk_headline(walks) or headline(comparison, beside)
    parts = [f'<p class="headline">{escape(found)}</p>']
    if beside is None:
        parts.append(f'<p class="lead">{escape(_lead(comparison))}</p>')
    parts += [f'<p class="note">{escape(line)}</p>' for line in lacks(comparison)]
    for recording, label in zip((comparison.reference, comparison.other), comparison.labels, strict=True):
        if recording.flaw:
            parts.append(f'<p class="note">{escape(label)} {escape(recording.flaw)}.</p>')
    if walks:
        parts += [program_html(), *walk_parts(walks), "<h2>All joints, worst first</h2>"]
    figures: list[list[Panel]] = []
    for index, pair in enumerate(comparison.pairs):
        progress(f"drawing {pair.name}", index / len(comparison.pairs))
        panels = panels_of(comparison, pair, beside=beside, everything=index < DETAILED)
        figures.append([fewer(panel) for panel in panels])
    points = min(POINTS, max(FEWEST, ALL_POINTS // sum(len(panel.items) for panels in figures for panel in panels)))
    for index, (pair, panels) in enumerate(zip(comparison.pairs, figures, strict=True)):
        if len(comparison.pairs) > 1:
            parts.append(f"<h2>{escape(pair.name)}</h2>")
        parts.append(figure_html(panels, name=f"servo-{index}", program=index == 0 and not walks, points=points))
        if beside is not None:
            parts.append(table_html(acts_table((comparison, beside))))
            continue
        if index == 0:
            parts.append(table_html(deviation_table(comparison)))
            parts.append(f'<p class="lead">{escape(_alignment(comparison))}</p>')
            if len(figures) > DETAILED:
                parts.append(f'<p class="lead">Torque, power and load are drawn for the {DETAILED} worst servos.</p>')
            parts += [replay] * bool(replay)
        parts += [table_html(table) for table in response_tables(comparison, pair)]
    more = () if beside is None else (beside,)
    if parameters := parameter_table(comparison, *more):
        body = table_html(parameters, words=True)
        parts.append(f"<details><summary>Model parameters of {escape(worst.name)}</summary>{body}</details>")
    parts.append(table_html(provenance_table(comparison, *more), words=True))
    write_page(path, title or title_of(comparison), parts, replays=bool(replay))


def _lead(comparison: Comparison) -> str:
    worst = comparison.pairs[0]
    which = f"worst of {len(comparison.pairs)} servos, {worst.name}" if len(comparison.pairs) > 1 else worst.name
    return (
        f"{which}: mean absolute error {worst.plain.mae:.2f}°, RMSE {worst.plain.rmse:.2f}° "
        f"({worst.plain.mse:.2f} deg²) over {worst.seconds:.1f} s."
    )


def _alignment(comparison: Comparison) -> str:
    pair = comparison.pairs[0]
    if pair.shift is None:
        return f"Shift of {pair.name}: {shift_text(comparison, pair)}."
    return (
        f"Aligned: {pair.name}, {comparison.labels[1]}, is {shift_text(comparison, pair)} than {comparison.labels[0]} "
        f"by the least squared error; the aligned columns have that taken out, the others not."
    )
