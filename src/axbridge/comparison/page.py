"""Tables as text and as HTML, and the page around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from axbridge.file_reading import printable
from axbridge.files import write_whole, writing

# What the browser lets a page load: nothing but what is in it, so that it works, and says nothing, without a network.
ALONE = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_text(table: Table) -> str:
    """A table for the terminal: columns lined up."""
    lines = [tuple(map(printable, cells)) for cells in (table.header, *table.rows)]
    columns = []
    for place, cells in enumerate(zip(*lines, strict=True)):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if place else cell.ljust(width) for cell in cells])
    rows = ("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))
    return "\n".join((printable(table.title), *rows))


def table_html(table: Table, *, words: bool = False) -> str:
    """A table as HTML, under its title; `words` aligns left."""
    # a unit stays with what it is the unit of
    head = "".join(f"<th>{escape(cell).replace(' °', '&nbsp;°')}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    kind = ' class="words"' if words else ""
    inner = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"  # on paper, the head is on every page
    return f'<h2>{escape(table.title)}</h2><div class="scroll"><table{kind}>{inner}</table></div>'


def command_html(command: str) -> str:
    """A command, with a button that copies it."""
    return f'<p class="command"><code>{escape(command)}</code> <button data-copy>Copy</button></p>'


def write_page(path: Path | str, title: str, parts: Sequence[str]) -> None:
    """Write a page of parts that are HTML already."""
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    alone = f'<meta http-equiv="Content-Security-Policy" content="{ALONE}">'
    style, program = web("colours.css") + web("page.css"), ""
    if any('<div class="figure"' in part for part in parts):
        style += web("uPlot.min.css")
        program = f"<script>{web('uPlot.min.js')}</script><script>{web('plots.js')}</script>"
    if any("data-copy" in part for part in parts):
        program += f"<script>{web('copy.js')}</script>"
    head = f'<meta charset="utf-8">{view}{alone}<title>{escape(title)}</title><style>{style}</style>{program}'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    with writing(path):
        write_whole(path, f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n')


def web(name: str) -> str:
    """One of the files for browsers that every page shares."""
    return (Path(__file__).parent / "web" / name).read_text(encoding="utf-8")
