"""Every exit of a process that Python can detect: signals, the interpreter's end, the end of its parent process.

Python runs signal handlers in its main thread, between two instructions of the interpreter. While that thread is in a
long call into a C library, another thread receives the signal through a pipe.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from axbridge.bus.line_lock import BusLock

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
_PARENT_POLL = 0.2  # s
_MAIN_POLL = 0.05  # s
_HANDLER_PATIENCE = 0.3  # s in which Python's handler in the main thread should start


@dataclass(frozen=True)
class _Handler:
    """Replaces a signal's `earlier` handler and calls it; without one, the signal ends the process."""

    earlier: Any
    handle: Callable[[int, FrameType | None, _Handler], None]

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.handle(number, frame, self)


class Exits:
    """Calls `leave` before the process ends, and `interrupt` at a signal that the program itself handles.

    A signal during a transaction on a bus is handled after the transaction; `turns` returns the locks of the buses.
    """

    def __init__(
        self, leave: Callable[[], None], interrupt: Callable[[int], None], turns: Callable[[], Sequence[BusLock]]
    ) -> None:
        self._leave, self._interrupt, self._turns = leave, interrupt, turns
        self._handled_at = 0.0  # start of the latest signal handler, monotonic, s
        # Ids of the process where exits, signals and the main thread are watched: a forked child has another id.
        self._process = self._watching = self._watched = -1

    def install(self) -> None:
        """Hook the interpreter's end and, in the main thread, signals; with real buses, start the watching threads."""
        if self._process != os.getpid():
            self._process = os.getpid()
            atexit.register(self._leave)
            # A child of `multiprocessing` calls only threading's hooks, last registered first. CPython 3.9 to 3.14.
            with contextlib.suppress(AttributeError, RuntimeError):  # missing, or the interpreter is ending
                threading._register_atexit(self._leave)  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
        threads = bool(self._turns())
        if threads and self._watched != os.getpid():
            self._watched = os.getpid()
            _watch_parent(self._end_with_parent)
            _watch_main_thread(self._leave)
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            earlier = signal.getsignal(number)
            if earlier is signal.SIG_DFL or (callable(earlier) and not isinstance(earlier, _Handler)):
                signal.signal(number, _Handler(earlier, self._handle))
        if threads and self._watching != os.getpid() and _watch_signals(self._notice):
            self._watching = os.getpid()

    def uninstall(self) -> None:
        """Remove the hooks: the process ends as without them."""
        self._process = -1
        atexit.unregister(self._leave)
        if threading.current_thread() is threading.main_thread():  # elsewhere the handlers stay and pass signals on
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if isinstance(handler, _Handler):  # else a later handler replaced it, and may still call it
                    signal.signal(number, handler.earlier)

    def _handle(self, number: int, frame: FrameType | None, handler: _Handler) -> None:
        for turn in self._turns():
            if turn.held_by_me:
                turn.defer(lambda: handler(number, frame))
                return
        self._handled_at = time.monotonic()
        if callable(handler.earlier):
            self._interrupt(number)
            handler.earlier(number, frame)
        else:
            self._leave()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # so that the exit status names the signal

    def _notice(self, number: int) -> None:
        """Handle a signal in this thread if the main thread does not, because it is in a library call."""
        handler = signal.getsignal(number)
        if not isinstance(handler, _Handler):
            return
        received_at = time.monotonic()
        time.sleep(_HANDLER_PATIENCE)
        if self._handled_at > received_at - _HANDLER_PATIENCE or self._process != os.getpid():
            return
        if callable(handler.earlier):
            self._interrupt(number)
        else:
            import ctypes

            self._leave()
            ctypes.CDLL(None).signal(number, 0)  # the default action; Python can set it only in the main thread
            os.kill(os.getpid(), number)

    def _end_with_parent(self) -> None:
        """End this process after its parent has ended, by SIGTERM if the system has it."""
        if self._process != os.getpid():
            return
        if os.name == "nt":  # a signal would end the process without any handler
            self._leave()
            os._exit(1)
        os.kill(os.getpid(), signal.SIGTERM)


def _watch_parent(gone: Callable[[], None]) -> None:
    """Call `gone`, in a thread, when the parent of a child of `multiprocessing` has ended."""
    multiprocessing = sys.modules.get("multiprocessing")
    parent = multiprocessing.parent_process() if multiprocessing is not None else None
    if parent is None:
        return

    def watch(began_by: int) -> None:
        # A sibling process may hold the parent's pipe open, so the parent's id is checked, too.
        while parent.is_alive() and os.getppid() == began_by:
            time.sleep(_PARENT_POLL)
        gone()

    threading.Thread(target=watch, args=(os.getppid(),), name="axbridge parent", daemon=True).start()


def _watch_main_thread(ended: Callable[[], None]) -> None:
    """Call `ended`, in a thread, when the main thread has ended, or an exception has left its outermost frame.

    After that Python calls `sys.excepthook`, waits for threads and pools, and runs `atexit` hooks; each can take long.
    At an interactive prompt an exception does not end the process.
    """
    main = threading.main_thread()
    program = _outermost(main)

    def alive() -> bool:
        if getattr(threading, "_SHUTTING_DOWN", False) or not main.is_alive():  # set before pools are joined
            return False
        failed = getattr(sys, "last_traceback", None)  # may be of an exception that the program has caught
        prompt = sys.flags.inspect > 0 or hasattr(sys, "ps1") or "PYTHONINSPECT" in os.environ
        return prompt or failed is None or failed.tb_frame.f_code is not program or _outermost(main) is program

    def watch() -> None:
        while alive():
            time.sleep(_MAIN_POLL)
        ended()

    if alive():  # else a thread has opened the robot after the main thread's end
        threading.Thread(target=watch, name="axbridge main thread", daemon=True).start()


def _outermost(thread: threading.Thread) -> CodeType | None:
    """Return the code of a thread's outermost frame; None when it has ended."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - as documented
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return None if frame is None else frame.f_code


def _watch_signals(noticed: Callable[[int], None]) -> bool:
    """Call `noticed` with the number of each signal that has a handler in Python, each in a thread, permanently.

    Must be called in the main thread. Return False if the wake-up descriptor is already used, as by asyncio, or on a
    system without fork.
    """
    if not hasattr(os, "register_at_fork"):
        return False
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    other = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if other != -1:
        signal.set_wakeup_fd(other)
        os.close(reading)
        os.close(writing)
        return False
    os.register_at_fork(after_in_child=lambda: _reset_signals(writing))  # else a child's signals would arrive here
    threading.Thread(target=_read_signals, args=(reading, noticed), name="axbridge signals", daemon=True).start()
    return True


def _reset_signals(writing: int) -> None:
    if threading.current_thread() is threading.main_thread():
        other = signal.set_wakeup_fd(-1)
        if other not in {-1, writing}:
            signal.set_wakeup_fd(other)


def _read_signals(reading: int, noticed: Callable[[int], None]) -> None:
    while True:
        for number in os.read(reading, 64):  # each in a thread: one signal must not delay the next
            try:
                threading.Thread(target=noticed, args=(number,), name="axbridge signal", daemon=True).start()
            except RuntimeError:  # no thread can be started
                noticed(number)
