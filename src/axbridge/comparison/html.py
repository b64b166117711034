"""Write the report of a comparison as one self-contained page: figures, curves, worst seconds, provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from axbridge.comparison import tables
from axbridge.comparison.comparison import Comparison, lacks
from axbridge.comparison.page import POINTS, fewer, figure_html, table_html, write_page
from axbridge.comparison.walks import WalkSide, walk_headline, walk_parts

_ROOM = 200_000  # bytes for all curves of a page, so that a mail can hold it
_FEWEST = 200  # least number of samples of a curve
_BYTES = 8 / 3  # of a 16-bit number in base64
_COLUMNS, _DETAILED_COLUMNS = 6, 14  # 16-bit numbers of a sample, with few and with all quantities
DETAILED = 6  # worst servos for which all quantities are drawn; for the others position and error
_SECONDS = 9  # worst seconds that are listed
_MARGIN = 0.5  # s that are shown before and after a worst second
_ALIGNED = "Aligned columns: after the shift with the least squared error is taken out."


class WorstSecond(NamedTuple):
    """A second of a servo's motion."""

    servo: str  # name of the servo
    start: float  # s, on the comparison's clock
    rmse: float  # degrees


def write_html(
    comparison: Comparison,
    path: Path | str,
    title: str = "",
    *,
    beside: Comparison | None = None,
    again: Comparison | None = None,
    walks: Sequence[WalkSide] = (),
    more: Sequence[str] = (),
    progress: Callable[[str, float], None] = lambda _what, _share: None,
) -> None:
    """Write the report as one page; `more` is HTML below the large figures. Raises RecordingError on failure."""
    two = () if beside is None else (beside,)
    judged = (comparison, *two, *(() if again is None else (again,)))
    headline = walk_headline(walks) or tables.headline(comparison, beside)
    parts = [f'<p class="headline">{escape(headline)}</p>']
    parts.append(_large_figures(comparison, beside))
    parts += [*more, *(f'<p class="note">{escape(line)}</p>' for line in (*lacks(comparison), *comparison.doubts))]
    seconds = worst_seconds(comparison if beside is None else beside)
    names = {pair.name: f"servo-{index}" for index, pair in enumerate(comparison.pairs)}
    of = "" if beside is None else f" of {beside.labels[1]}"
    parts += [f"<h2>The worst seconds{escape(of)}</h2>", _seconds_html(seconds, names)]
    if walks:
        parts += [*walk_parts(walks), "<h2>All joints, worst first</h2>"]
    whole = [(second.start, second.start + 1.0) for second in seconds]
    detailed = min(len(comparison.pairs), DETAILED)
    columns = _DETAILED_COLUMNS * detailed + _COLUMNS * (len(comparison.pairs) - detailed)
    points = min(POINTS, max(_FEWEST, round(_ROOM / _BYTES / columns)))
    for index, pair in enumerate(comparison.pairs):
        progress(f"drawing {pair.name}", index / len(comparison.pairs))
        if len(comparison.pairs) > 1:
            parts.append(f"<h2>{escape(pair.name)}</h2>")
        panels = tables.panels_of(comparison, pair, beside=beside, everything=index < DETAILED)
        parts.append(figure_html(fewer(panels, points, whole), names[pair.name]))
        if index == 0:
            parts.append(table_html(tables.deviation_table(comparison, *two)))
            parts.append(f'<p class="lead">{_ALIGNED}</p>')
            if len(comparison.pairs) > DETAILED:
                parts.append(f'<p class="lead">Torque, power and load are drawn for the {DETAILED} worst servos.</p>')
        parts += [table_html(table) for table in tables.response_tables(comparison, pair, beside)]
    if (table := tables.beside_table(tables.errors_beside(*judged), *judged)) is not None:
        parts.append(table_html(table))
    parts.append(table_html(tables.provenance_table(comparison, *two), words=True))
    write_page(path, title or tables.title_of(comparison), parts)


def _large_figures(comparison: Comparison, beside: Comparison | None) -> str:
    """Return two large figures: the RMSEs of two candidates, or the RMSE and the largest error of one."""
    worst = comparison.pairs[0]
    which = f"{worst.name}, the worst of {len(comparison.pairs)} servos" if len(comparison.pairs) > 1 else worst.name
    lead = f"{which}: {worst.seconds:.1f} s, mean absolute error {worst.plain.mae:.2f}°, {worst.plain.mse:.2f} deg²."
    if beside is not None:
        shown = [(side.pairs[0].plain.rmse, f"RMSE, {side.labels[1]}") for side in (comparison, beside)]
    else:
        shown = [(worst.plain.rmse, f"RMSE, {comparison.labels[1]}"), (worst.plain.worst, "at worst")]
    boxes = [f"<div><b>{value:.2f}°</b><span>{escape(what)}</span></div>" for value, what in shown]
    between = '<span class="arrow">→</span>' if beside is not None else ""
    return f'<div class="figures">{between.join(boxes)}</div><p class="lead">{escape(lead)}</p>'


def worst_seconds(comparison: Comparison) -> list[WorstSecond]:
    """Return the seconds with the largest errors of all servos, worst first."""
    worst_of_all: list[WorstSecond] = []
    for pair in comparison.pairs:
        motions = pair.motions
        squares = np.degrees(motions.other - motions.reference) ** 2
        known = ~np.isnan(squares)
        number = np.floor(motions.time[known]).astype(int)
        first = int(number.min())
        counts, sums = np.bincount(number - first), np.bincount(number - first, squares[known])
        there = np.flatnonzero(counts >= min(2, counts.max()))  # the first or last may have one sample only
        worst_of_all += [WorstSecond(pair.name, float(first + k), (sums[k] / counts[k]) ** 0.5) for k in there]
    return sorted(worst_of_all, key=lambda second: -second.rmse)[:_SECONDS]


def _seconds_html(seconds: Sequence[WorstSecond], names: Mapping[str, str]) -> str:
    """Return the worst seconds as buttons that zoom all curves; `names` are the ids of the servos' figures."""
    items = "</li>".join(
        f'<li><button data-axis="time" data-figure="{names[second.servo]}" data-from="{second.start - _MARGIN:g}" '
        f'data-to="{second.start + 1 + _MARGIN:g}"><b>{second.rmse:.2f}°</b> {escape(second.servo)}, '
        f"{second.start:g} to {second.start + 1:g} s</button>"
        for second in seconds
    )
    return f'<ol class="worst">{items}</ol><button data-axis="time">show all of it</button>'
