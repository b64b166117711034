"""What a person sees while a fit runs: nothing in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axbridge.identify.search import SHARPENED, Outcome

__all__ = ["progress"]


@contextmanager
def progress(starts: int, *, quiet: bool) -> Iterator[Callable[[str, Outcome], None]]:
    """A bar over the starts of a search, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _stage, _outcome: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("searching", total=starts + SHARPENED)
        best = float("inf")

        def told(_stage: str, outcome: Outcome) -> None:
            nonlocal best
            best = min(best, outcome.loss)
            bar.update(task, advance=1, description=f"best {best:.2f}°")

        yield told
