"""The lock of a line: a signal handler can test it, and can defer a call until the line is free.

A signal handler interrupts the main thread: it can neither use the line nor wait for it. A line can be reserved for one
thread, so that no other thread of a program that ends writes any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axbridge.errors import BusError, RobotStopped

_POLL = 0.05  # s between two polls of a thread that waits until it may write


class BusLock:
    """Wrap each transaction in ``with turn, turn.lock:``.

    Two context managers: the interpreter enters and leaves a lock in one step, so no exception from a signal handler
    can come between its `release` and its record of it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  # of the thread whose turn it is
        self._free = threading.Condition(self.lock)
        self._calls: list[Callable[[], object]] = []
        self.only: int | None = None  # the thread that alone may write
        self._why: str | None = None  # others are refused with these words; None: they wait
        self._holder: int | None = None  # the thread in `held`: it may write, others may not

    @property
    def held_by_me(self) -> bool:
        """Whether this thread is in a transaction."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]  # noqa: SLF001 - as `threading.Condition` asks it

    def defer(self, call: Callable[[], object]) -> None:
        """Let the main thread make this call as soon as it has left the transaction it is in; for signal handlers."""
        self._calls.append(call)

    def reserve(self, thread: int | None, why: str | None = None) -> None:
        """From now on this thread alone may write; None: every thread again."""
        if why is None or self.only is None or self._why is not None:
            self.only, self._why = thread, why

    @property
    def refused(self) -> bool:
        """Whether this thread's next write is refused."""
        return self._why is not None and not self._may_write()

    def wait_to_write(self) -> None:
        """Wait until this thread may write; call it in a transaction, which others can come into meanwhile."""
        while self.only is not None and not self._may_write():
            if self._why is not None:
                raise RobotStopped(self._why, "the main thread may go on; others when Robot.resume() is called")
            self._free.wait(_POLL)

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Keep other threads off the line, and write, whomever it is reserved for."""
        with self:
            if not self.lock.acquire(timeout=patience):
                raise BusError("another thread does not leave the line", "cut the servo supply")
            before, self._holder = self._holder, threading.get_ident()
            try:
                yield
            finally:
                self._holder = before
                self.lock.release()

    def _may_write(self) -> bool:
        return threading.get_ident() in {self.only, self._holder}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._calls and threading.current_thread() is threading.main_thread():
            while self._calls and not self.held_by_me:
                self._calls.pop(0)()
