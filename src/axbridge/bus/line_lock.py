"""The lock of a line: a signal handler can test it, and can defer a call until the line is free.

A signal handler interrupts the main thread, so it can neither use the line nor wait for it. A line can be reserved for
one thread, so that no other thread writes while a program ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axbridge.errors import BusError, RobotStopped

_POLL = 0.05  # s between two tests of a thread that waits until it may write


class BusLock:
    """Lock of transactions: wrap each one in ``with turn, turn.lock:``.

    It needs two context managers. The interpreter enters and leaves `lock` itself in one step, so an exception from a
    signal handler cannot separate its release from the record of the release.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held by the thread in a transaction
        self._free = threading.Condition(self.lock)
        self._calls: list[Callable[[], object]] = []  # deferred
        self.only: int | None = None  # id of the only thread that may write; None: all may
        self._why: str | None = None  # message of the error for other threads; None: they wait
        self._holder: int | None = None  # id of the thread in `held`, which may write

    @property
    def held_by_me(self) -> bool:
        """Return whether this thread is in a transaction."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]  # noqa: SLF001 - as `threading.Condition` asks it

    def defer(self, call: Callable[[], object]) -> None:
        """Make this call in the main thread when its current transaction ends; for signal handlers."""
        self._calls.append(call)

    def reserve(self, thread: int | None, why: str | None = None) -> None:
        """Allow only this thread to write from now on; None: every thread. With `why`, others get an error."""
        if why is None or self.only is None or self._why is not None:
            self.only, self._why = thread, why

    @property
    def refused(self) -> bool:
        """Return whether this thread's next write raises `RobotStopped`."""
        return self._why is not None and not self._may_write()

    def wait_to_write(self) -> None:
        """Wait until this thread may write, with the transaction's lock free; raise `RobotStopped` if refused."""
        while self.only is not None and not self._may_write():
            if self._why is not None:
                raise RobotStopped(self._why, "the main thread may go on; others when Robot.resume() is called")
            self._free.wait(_POLL)

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Hold the lock, and allow writes even if reserved for another thread; wait at most `patience` s."""
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
