"""Names that will go: they say so when they are used, for as long as docs/stability.md promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from typing_extensions import deprecated

__all__ = ["Deprecated"]

T = TypeVar("T", bound=Callable[..., Any])


class Deprecated:
    """Decorates a function, method or class that will go: each use is a `DeprecationWarning` at the user's line.

    Args:
        since: The version that deprecated it.
        gone: The first version without it; the tests fail when that is reached and it is still there.
        use: What to write instead.
    """

    marked: ClassVar[dict[str, Deprecated]] = {}  # by name, all of them

    def __init__(self, *, since: str, gone: str, use: str) -> None:
        self.since = since
        self.gone = gone
        self.use = use

    def __call__(self, thing: T) -> T:
        """The same, with a warning at each call and a line in its documentation."""
        name = f"{thing.__module__}.{thing.__qualname__}"
        said = (
            f"{thing.__qualname__} is deprecated since axbridge {self.since} and goes with {self.gone}: use {self.use}"
        )
        marked: T = deprecated(said)(thing)
        marked.__doc__ = (
            f"{thing.__doc__ or ''}\n\nDeprecated since {self.since}, gone with {self.gone}: use {self.use}."
        )
        self.marked[name] = self
        return marked
