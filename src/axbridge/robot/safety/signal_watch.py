"""Notices signals that Python cannot take up, because the main thread is in a long call into a C library.

Python runs signal handlers in its main thread, between two steps of the interpreter. The operating system's part of a
handler runs at once, and writes the signal's number to a pipe; a thread reads it there.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable


def watch_signals(noticed: Callable[[int], None]) -> bool:
    """Call `noticed` with the number of each signal that has a handler in Python, each in a thread; for good.

    Does nothing where somebody else hears of signals in this way already, as asyncio is, outside the main thread, or
    on a system that does not fork; says whether it watches.
    """
    if not hasattr(os, "register_at_fork"):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    other = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if other != -1:
        signal.set_wakeup_fd(other)
        os.close(reading)
        os.close(writing)
        return False
    os.register_at_fork(after_in_child=lambda: _stop(writing))  # or a child's signals would be taken for ours
    threading.Thread(target=_read, args=(reading, noticed), name="axbridge signals", daemon=True).start()
    return True


def _stop(writing: int) -> None:
    if threading.current_thread() is threading.main_thread():
        other = signal.set_wakeup_fd(-1)
        if other not in {-1, writing}:
            signal.set_wakeup_fd(other)


def _read(reading: int, noticed: Callable[[int], None]) -> None:
    while True:
        for number in os.read(reading, 64):  # each in a thread: what comes next must not seem to come later
            try:
                threading.Thread(target=noticed, args=(number,), name="axbridge signal", daemon=True).start()
            except RuntimeError:  # no thread is to be had
                noticed(number)
