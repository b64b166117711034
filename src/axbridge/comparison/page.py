"""Tables as text and as HTML, and the page around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from axbridge.file_reading import printable
from axbridge.files import write_whole, writing

# What the browser lets a page load: nothing but what is in it, so that it works, and says nothing, without a network.
ALONE = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

# What a replay inside the page needs beside that: its client unpacks itself. Still nothing comes from elsewhere.
_REPLAY = f"{ALONE}; worker-src blob:; connect-src data:".replace(
    "'unsafe-inline'", "'unsafe-inline' 'unsafe-eval' blob:", 1
)

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2733; --faint: #556270; --rule: #dde3ea; --zero: #aeb7c0;
  --note: #fff6e5; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e3e8ee; --faint: #a3afbb; --rule: #333c46;
  --zero: #66727e; --note: #3a2f16; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1080px;
  margin: 32px auto; padding: 0 24px; }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 8px; } h2 { font-size: 17px; margin: 32px 0 8px; }
p.headline { font-size: 18px; margin: 0 0 8px; }
p.lead { color: var(--faint); margin: 0 0 16px; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 12px; border-bottom: 1px solid var(--rule); text-align: right; vertical-align: top;
  white-space: nowrap; }
th { color: var(--faint); font-weight: 600; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
table.words td, table.words th { text-align: left; }
table.words td:not(:first-child) { white-space: normal; min-width: 18ch; overflow-wrap: break-word; }
.scroll { overflow-x: auto;  /* a shadow at the edge says that there is more */
  background: linear-gradient(to right, var(--paper) 40%, transparent) left / 40px 100% no-repeat local,
    linear-gradient(to left, var(--paper) 40%, transparent) right / 40px 100% no-repeat local,
    linear-gradient(to right, var(--zero), transparent) left / 12px 100% no-repeat scroll,
    linear-gradient(to left, var(--zero), transparent) right / 12px 100% no-repeat scroll; }
details { margin-top: 24px; } summary { cursor: pointer; font-weight: 600; }
.note { background: var(--note); border-left: 4px solid #e0a01a; padding: 8px 12px; margin: 12px 0; }
.replay iframe { width: 100%; height: min(70vh, 560px); border: 1px solid var(--rule); border-radius: 4px; }
.figure { margin: 8px 0; }
.legend { margin: 0; display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px; color: var(--ink); }
.legend i { display: inline-block; width: 22px; height: 4px; border-radius: 2px; margin-right: 6px;
  vertical-align: middle; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 16px 24px; }
figure { margin: 0; min-width: 0; } figcaption { font-size: 14px; font-weight: 600; }
.js-plotly-plot :is([class*="tick"], .g-xtitle, .annotation-text-g, .colorbar, .hoverlayer .legend) text
  { fill: var(--ink) !important; }
.js-plotly-plot .gridlayer path { stroke: var(--rule) !important; }
.js-plotly-plot .zerolinelayer path { stroke: var(--zero) !important; }
.js-plotly-plot .shapelayer path { stroke: var(--zero) !important; }
.js-plotly-plot .hoverlayer .legend .bg { fill: var(--paper) !important; }
@media screen and (prefers-color-scheme: dark) {  /* the darkest of the colours, lighter */
  .js-plotly-plot path.js-line[style*="rgb(0, 114, 178)"] { stroke: #3c9fe0 !important; }
  .legend i[style*="#0072b2"] { background: #3c9fe0 !important; } }
@media (max-width: 600px) { body { margin: 16px auto; padding: 0 14px; } h1 { font-size: 20px; }
  p.headline { font-size: 16px; }
  table { font-size: 12.5px; } th, td { padding: 4px 6px; }
  th:not(:first-child) { white-space: normal; }
  table.words td:not(:first-child) { min-width: 13ch; } }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --faint: #444; --rule: #ccc; --zero: #999;
  --note: #fff; }
  @page { margin: 14mm; } body { margin: 0; padding: 0; max-width: none; font-size: 12px; } table { font-size: 11px; }
  .scroll { overflow: visible; background: none; } th, td { padding: 2px 6px; white-space: normal; }
  .grid { grid-template-columns: 1fr 1fr; } .replay { display: none; } .modebar { display: none; }
  .figure, figure, tr, .note { break-inside: avoid; } h2, figcaption, tr:first-child { break-after: avoid; } }
"""


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_text(table: Table) -> str:
    """A table for the terminal: columns lined up."""
    lines = [tuple(map(printable, cells)) for cells in (table.header, *table.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join((first, *rest)).rstrip()

    return "\n".join((printable(table.title), *(line(cells) for cells in lines)))


def table_html(table: Table, *, words: bool = False) -> str:
    """A table as HTML, under its title; `words` aligns left."""
    # a unit stays with what it is the unit of
    head = "".join(f"<th>{escape(cell).replace(' °', '&nbsp;°')}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    kind = ' class="words"' if words else ""
    inner = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"  # on paper, the head is on every page
    return f'<h2>{escape(table.title)}</h2><div class="scroll"><table{kind}>{inner}</table></div>'


def write_page(path: Path | str, title: str, parts: Sequence[str], *, replays: bool = False) -> None:
    """Write a page of parts that are HTML already; `replays` lets one of them be a replay.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    alone = f'<meta http-equiv="Content-Security-Policy" content="{_REPLAY if replays else ALONE}">'
    head = f'<meta charset="utf-8">{view}{alone}<title>{escape(title)}</title><style>{STYLE}</style>'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    with writing(path):
        write_whole(path, f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n')
