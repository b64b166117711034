"""The lock of a line: a signal handler can test it, and can defer a call until the line is free.

A signal handler interrupts the main thread, so it can neither use the line nor wait for it. A line can be reserved for
one thread, so that the other threads of an ending program cannot write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axbridge.errors import BusError, RobotStopped

_POLL = 0.05  # s; poll interval of a thread that waits to write


class BusLock:
    """Lock of a line; wrap each transaction in ``with turn, turn.lock:``.

    `lock` is a separate context manager, because the interpreter enters and leaves a lock in one step: no exception
    from a signal handler can occur between its `release` and its bookkeeping.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held during a transaction
        self._free = threading.Condition(self.lock)
        self._calls: list[Callable[[], object]] = []
        self.only: int | None = None  # the only thread that may write; None: every thread
        self._why: str | None = None  # message with which other threads are refused; None: they wait
        self._holder: int | None = None  # the thread in `held`, the only one that may write

    @property
    def held_by_me(self) -> bool:
        """Whether this thread is in a transaction."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]  # noqa: SLF001 - as `threading.Condition` asks it

    def defer(self, call: Callable[[], object]) -> None:
        """Make this call in the main thread after its transaction; for signal handlers."""
        self._calls.append(call)

    def reserve(self, thread: int | None, why: str | None = None) -> None:
        """Allow writes to this thread only; None: to every thread. `why`: refuse other threads with this message."""
        if why is None or self.only is None or self._why is not None:
            self.only, self._why = thread, why

    @property
    def refused(self) -> bool:
        """Whether this thread's next write will be refused."""
        return self._why is not None and not self._may_write()

    def wait_to_write(self) -> None:
        """Wait until this thread may write; called in a transaction, and other threads can use the line meanwhile."""
        while self.only is not None and not self._may_write():
            if self._why is not None:
                raise RobotStopped(self._why, "the main thread may go on; others when Robot.resume() is called")
            self._free.wait(_POLL)

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Keep other threads off the line in the block, and allow writes, even if the line is reserved."""
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
