"""How far a verb is: one line on a terminal, nothing in a pipe, nothing with ``--json``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from axbridge.jit import compiling, telling
from axbridge.reading import printable

__all__ = ["Show", "progress"]


class Show(Protocol):
    """Says what is under way."""

    def __call__(self, what: str, share: float | None = None, /) -> None:
        """Show `what`, and the share of it that is done, 0..1, where that is known."""


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Show]:
    """Show a line on stderr while the block runs: what is under way, how much of it is done, and since when.

    Args:
        what: Is under way to begin with.
        quiet: Show nothing, as with ``--json``.

    Yields:
        What changes the line.
    """
    if quiet or not sys.stderr.isatty():
        with telling(lambda _done, _total: None):
            yield lambda _what, _share=None: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}{task.fields[share]}{task.fields[kernels]}", markup=False)
    columns = SpinnerColumn(), text, TimeElapsedColumn()
    # what a verb prints meanwhile goes above the line, but into a pipe where stdout is one
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as line:
        task = line.add_task(what, total=None, share="", kernels="")

        def show(what: str, share: float | None = None, /) -> None:
            line.update(task, description=printable(what), share="" if share is None else f" {share:.0%}")

        def tell(done: int, total: int) -> None:
            line.update(task, kernels=f": {compiling(done, total)}" if total else "")

        with telling(tell):
            yield show
