"""The picture of an identification: every recording measured and simulated, and the friction laws side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from axbridge.comparison.plots_png import draw, legend, picture, save
from axbridge.fit.html import law_panel, trace_panels
from axbridge.fit.result import Fit

_COLUMNS = 3


def write_picture(fit: Fit, path: Path | str) -> None:
    """Draw a PNG.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    panels = trace_panels(fit)
    rows = -(-len(panels) // _COLUMNS)
    below = 1 if fit.laws is not None else 0
    size = (11, 0.9 + 2.1 * rows + 3.0 * below)
    figure = picture(f"{fit.rig.name}: {fit.kind}, friction {fit.friction}", size, constrained=True)
    grid = figure.add_gridspec(rows + below, _COLUMNS, height_ratios=[2.1] * rows + [3.0] * below)
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(grid[index // _COLUMNS, index % _COLUMNS])
        last = index + _COLUMNS >= len(panels)
        draw(axes, replace(panel, x=panel.x if last else "", y=panel.y if not index % _COLUMNS else ""), small=True)
        if index == 0:
            legend(figure, axes, (1.0, 1.0))
    if fit.laws is not None:
        axes = figure.add_subplot(grid[rows, :])
        draw(axes, law_panel(fit.laws), small=True)
        axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
    save(figure, path)
