"""Single keys from standard input, without waiting: a terminal's, or the characters of a pipe."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axbridge.errors import UsageError

YES, MOVE, SKIP, AGAIN, BACK, QUIT = "y", "w", "s", "r", "b", "q"
END = "\x04"  # standard input has ended
_PAUSE = 0.02  # s between two looks for a key


class Ended(Exception):
    """The user has had enough."""


def ask(
    key: Callable[[], str],
    what: str,
    keys: str = "",
    meanwhile: Callable[[], object] = lambda: time.sleep(_PAUSE),
    *,
    but: str = "",
) -> str:
    """Ask, and wait for a key: one of `keys`, or any where that is empty, `but` not these."""
    while key() not in {"", END}:  # struck too often: no motor moves because of that
        pass
    print(what, flush=True)
    while True:
        struck = key().lower()
        if struck == END:
            raise Ended("no more keys can be read")
        if struck == QUIT:
            raise Ended
        if struck and struck in (keys or struck) and struck not in but:
            return struck
        if not struck:
            meanwhile()


@contextmanager
def pressed() -> Iterator[Callable[[], str]]:
    """Yield a function that returns the next key pressed, or ""; line ends of a pipe do not count.

    A terminal passes on single keys inside the block, and shows none of them. After its end it is as before.
    """
    try:
        number = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # no standard input at all
        yield lambda: END
        return
    terminal = os.isatty(number)

    def key() -> str:
        while select.select([number], [], [], 0)[0]:
            data = os.read(number, 1)
            if not data:
                return END
            if terminal or data not in b"\r\n":
                return data.decode("latin-1")
        return ""

    if not terminal:
        yield key
        return
    try:
        import termios
        import tty
    except ImportError as failure:  # as on Windows
        raise UsageError(
            f"single keys cannot be read from a terminal here ({failure})", "pipe them in, or do without: see --help"
        ) from failure
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield key
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
