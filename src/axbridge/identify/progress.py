"""What a person sees while a fit runs: nothing in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axbridge.identify.search import SHARPENED, Outcome

__all__ = ["progress"]


@contextmanager
def progress(starts: int, *, laws: int = 1, quiet: bool) -> Iterator[Callable[[str, Outcome], None]]:
    """A bar over the starts of a search, or of one for each of several friction laws, on a terminal only.

    Beside it stands the best error of what the search is at.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _stage, _outcome: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(
            "searching", total=laws * (starts + SHARPENED) + laws - 1
        )  # all but the first begin near a simpler one, too
        best: dict[str, float] = {}  # stages, starts and sharpening minimise different errors

        def told(stage: str, outcome: Outcome) -> None:
            best[stage] = min(best.get(stage, float("inf")), outcome.loss)
            counted = stage.endswith(("start", "sharpened"))
            bar.update(task, advance=counted, description=f"{stage}: best {best[stage]:.2f}°")

        yield told
