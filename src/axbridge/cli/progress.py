"""Progress of a verb: one line on a terminal; in a pipe a line after 1 s and every 10 s; nothing with ``--json``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from axbridge.cli.app import QUIET
from axbridge.file_reading import printable
from axbridge.jit import compiling, reporting

_FIRST, _EVERY = 1.0, 10.0  # s; first progress line in a pipe, and interval of further lines


class Show(Protocol):
    """Shows the current activity, and the share of it that is done, 0..1, if known."""

    def __call__(self, what: str, share: float | None = None, /) -> None:
        """Show activity and share."""


@contextmanager
def progress(what: str) -> Iterator[Show]:
    """Show on stderr the activity of the block, its progress and the elapsed time."""
    if QUIET.get() or sys.stderr is None:
        with reporting(lambda _done, _total: None):
            yield lambda _what, _share=None: None
        return
    if not sys.stderr.isatty():
        with _lines(what) as show:
            yield show
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Above(Console):
        """Keeps a line with a command whole, so that it can be copied from a terminal."""

        def print(self, *parts: Any, **style: Any) -> None:
            command = any("axbridge " in part.plain for part in parts if isinstance(part, Text))
            super().print(*parts, **({"soft_wrap": True} if command else {}) | style)

    activity = what
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    # other output of the verb is printed above the line, unless stdout is a pipe
    with Progress(*columns, console=Above(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as line:
        task = line.add_task(activity, total=None)
        waits = False

        def show(what: str, share: float | None = None, /) -> None:
            nonlocal waits, activity
            before, waits = waits, what.startswith("waiting for")
            if waits != before:  # the clock does not count the user's time
                line.reset(task)
            activity = printable(what) + ("" if share is None else f" {share:.0%}")
            line.update(task, description=activity)

        def report(done: int, total: int) -> None:
            line.update(task, description=compiling(done, total) if total else activity)

        with reporting(report):
            yield show


@contextmanager
def _lines(what: str) -> Iterator[Show]:
    """Yield a `Show`; a thread prints its latest values after 1 s and every 10 s."""
    began = since = time.monotonic()
    latest: tuple[str, float | None] = what, None
    first = 0.0  # share at `since`; each part starts again at 0
    over = threading.Event()

    def show(what: str, share: float | None = None, /) -> None:
        nonlocal latest, since, first
        if share is not None and (latest[1] is None or share < latest[1]):
            since, first = time.monotonic(), share
        latest = what, share

    def keep_saying() -> None:
        wait = _FIRST
        while not over.wait(wait):
            wait = _EVERY
            now, (what, share) = time.monotonic(), latest
            done, left = "" if share is None else f" {share:.0%}", ""
            if share and share > first:
                left = f", about {(now - since) * (1 - share) / (share - first):.0f} s left"
            if what:
                print(f"{printable(what)}{done}, {now - began:.0f} s so far{left}", file=sys.stderr, flush=True)

    thread = threading.Thread(target=keep_saying, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        over.set()
        thread.join()
