"""Whose turn it is on a line: a lock that a signal handler can ask, and that calls it back when the line is free.

A signal handler runs in the middle of whatever the main thread does. When that is a transaction, talking on the same
line would break it, and waiting for it would wait for ever. So the handler leaves a call for the transaction's end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Turn"]


class Turn:
    """Wrap each transaction in ``with turn, turn.lock:``.

    Two context managers, because the lock's own is one step for the interpreter: no exception from a signal handler can
    come between its `release` and its record of it.

    Attributes:
        lock: Held by the thread whose turn it is; may be taken several times by the same thread.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._calls: list[Callable[[], None]] = []

    @property
    def mine(self) -> bool:
        """Whether this thread is in a transaction."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]  # noqa: SLF001 - as `threading.Condition` asks it

    def afterwards(self, call: Callable[[], None]) -> None:
        """Let the main thread make this call as soon as it has left the transaction it is in; for signal handlers."""
        self._calls.append(call)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._calls and threading.current_thread() is threading.main_thread():
            while self._calls and not self.mine:
                self._calls.pop(0)()
