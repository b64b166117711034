"""Tables as text and as HTML, and the page around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from axbridge.files import unwritable, write_whole

__all__ = ["Table", "table_html", "table_text", "write_page"]

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


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_text(table: Table) -> str:
    """A table for the terminal: columns lined up."""
    lines = [table.header, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join((first, *rest)).rstrip()

    return "\n".join((table.title, *(line(cells) for cells in lines)))


def table_html(table: Table, *, words: bool = False) -> str:
    """A table as HTML, under its title; `words` aligns left."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    kind = ' class="words"' if words else ""
    return f'<h2>{escape(table.title)}</h2><div class="scroll"><table{kind}><tr>{head}</tr>{rows}</table></div>'


def write_page(path: Path | str, title: str, parts: Sequence[str]) -> None:
    """Write a page of parts that are HTML already.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    try:
        write_whole(path, f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n')
    except OSError as failure:
        raise unwritable(path, failure) from failure
