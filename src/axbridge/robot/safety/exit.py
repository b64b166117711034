"""Every way out of this process goes through `EXIT_HANDLERS`, which owns the nets: signals and the interpreter's end.

When the program ends, the lines are kept from the policy on, for good: no thread of it moves a servo any more. The
guards speak last. A signal that a handler of the program's own takes up ends nothing, or not yet: then only the main
thread, which knows of it, may command the servos.

Python runs signal handlers in its main thread, between two steps of the interpreter. While that thread is in a long
call into a C library, another one hears of a signal from the operating system, through a pipe.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any, Protocol

from axbridge.bus.line_lock import Turn
from axbridge.robot.safety.policies import Policy

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
_PARENT_POLL = 0.2  # s
_HANDLER_PATIENCE = 0.3  # s in which Python's own handler should have begun


class Net(Protocol):
    """What `axbridge.robot.safety.net.Safety` does at the end; each of them whatever the ones before have come to.

    Attributes:
        policy: Its name; to park takes seconds.
        turns: Of its real lines.
    """

    policy: Policy
    turns: Sequence[Turn]

    def interrupt(self) -> None:
        """Apply the policy; the program may go on."""

    def apply_for_good(self) -> None:
        """Apply the policy, and keep the lines from then on."""

    def dismiss_guard(self) -> None:
        """End the guard, after it has limped what the policy could not."""

    def close_lines(self) -> None:
        """Undo what was written for good, and close the ports."""


class _Handler:
    """In place of a signal's `earlier` handler, which it calls."""

    def __init__(self, earlier: Any) -> None:
        self.earlier = earlier

    def __call__(self, number: int, frame: FrameType | None) -> None:
        EXIT_HANDLERS.handle(number, frame, self)

    @property
    def deadly(self) -> bool:
        """Whether nobody's handler comes after it, so that the signal ends the process."""
        return self.earlier.deadly if isinstance(self.earlier, _Handler) else not callable(self.earlier)


class ExitHandlers:
    """Owns the nets that are armed in this process.

    Attributes:
        ending: Held by the thread that lets the program end: others wait for it before they leave a net.
        unconfirmed: Servos that neither a net nor its guard could switch off, since a net was armed last.
    """

    def __init__(self) -> None:
        self.unconfirmed: list[str] = []
        self._nets: list[Net] = []
        self._process = self._watching = self._orphaned = -1
        self.ending = threading.RLock()
        self._begun_at = 0.0  # when a signal handler here has begun with the policy

    @property
    def nets(self) -> tuple[Net, ...]:
        """The armed ones, those that park last; none in a forked child, which inherits them, but not the robots."""
        return tuple(sorted(self._nets, key=lambda net: net.policy == "park")) if os.getpid() == self._process else ()

    def add(self, net: Net) -> None:
        """Take over the interpreter's end, and in the main thread the signals."""
        if self._process != os.getpid():  # what was inherited by forking is the parent's
            self._nets.clear()
            self._process = os.getpid()
            self.ending = threading.RLock()
        if not self._nets:
            atexit.register(self.leave_for_good)
        self._nets.append(net)
        self.unconfirmed.clear()
        if net.turns and self._orphaned != os.getpid():
            self._orphaned = os.getpid()
            _watch_parent(self._end_with_parent)
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            earlier = signal.getsignal(number)
            if earlier is signal.SIG_DFL or (callable(earlier) and not isinstance(earlier, _Handler)):
                signal.signal(number, _Handler(earlier))
        if net.turns and self._watching != os.getpid() and _watch_signals(self._notice):
            self._watching = os.getpid()

    def remove(self, net: Net) -> None:
        """With the last one, give everything back."""
        if net in self._nets:
            self._nets.remove(net)
        if self._nets:
            return
        atexit.unregister(self.leave_for_good)
        if threading.current_thread() is threading.main_thread():  # else they only pass signals on from now on
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if isinstance(handler, _Handler):  # else somebody took over after us, and may call us yet
                    signal.signal(number, handler.earlier)

    def leave_for_good(self) -> None:
        """The program ends: apply every policy, and keep the lines from then on.

        A step that fails, or that one more signal interrupts, does not keep the next from being done.
        """
        if not self.nets:
            return
        with self.ending, ExitStack() as steps:  # from the last to the first
            nets = self.nets
            for net in nets:
                steps.callback(self.remove, net)
            for net in nets:
                steps.callback(net.close_lines)
            for net in nets:
                steps.callback(net.dismiss_guard)
            for net in reversed(nets):
                steps.callback(net.apply_for_good)
            _reserve(nets, threading.get_ident())

    def handle(self, number: int, frame: FrameType | None, handler: _Handler) -> None:
        """What `handler` does with a signal: as soon as no transaction is under way in this thread."""
        for turn in (turn for net in self.nets for turn in net.turns):
            if turn.mine:
                turn.afterwards(lambda: handler(number, frame))
                return
        self._begun_at = time.monotonic()
        if handler.deadly:
            self.leave_for_good()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # so that our parent sees the signal as the cause
        else:
            self._interrupt(number)
            handler.earlier(number, frame)

    def _interrupt(self, number: int) -> None:
        """Apply every policy; from now on the main thread alone may command the servos."""
        nets, why = self.nets, f"{signal.Signals(number).name} has come, and this is not the main thread"
        _reserve(nets, threading.get_ident(), why)
        for net in nets:
            net.interrupt()
        _reserve(nets, threading.main_thread().ident, why)

    def _end_with_parent(self) -> None:
        """The process that began this one is gone: end like it, by SIGTERM where the system has it."""
        if not self.nets:
            return
        if os.name == "nt":  # there a signal would end the process before any policy
            self.leave_for_good()
            os._exit(1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _notice(self, number: int) -> None:
        """A signal has come. Handle it here if the main thread does not, because it is in a library's call."""
        handler = signal.getsignal(number)
        if not isinstance(handler, _Handler):
            return
        came = time.monotonic()
        time.sleep(_HANDLER_PATIENCE)
        if self._begun_at > came - _HANDLER_PATIENCE or not self.nets:
            return
        if handler.deadly:
            import ctypes

            self.leave_for_good()
            ctypes.CDLL(None).signal(number, 0)  # the default action; Python itself sets it in the main thread only
            os.kill(os.getpid(), number)
        else:
            self._interrupt(number)


def _reserve(nets: Sequence[Net], thread: int | None, why: str | None = None) -> None:
    for net in nets:
        for turn in net.turns:
            turn.reserve(thread, why)


def _watch_parent(gone: Callable[[], None]) -> None:
    """Call `gone`, in a thread, when the parent of a child of `multiprocessing` has ended: nobody else could end it."""
    multiprocessing = sys.modules.get("multiprocessing")
    parent = multiprocessing.parent_process() if multiprocessing is not None else None
    if parent is None:
        return

    def watch(began_by: int) -> None:
        # A brother may hold the other end of the parent's pipe open, so who began this process is asked for, too.
        while parent.is_alive() and os.getppid() == began_by:
            time.sleep(_PARENT_POLL)
        gone()

    threading.Thread(target=watch, args=(os.getppid(),), name="axbridge parent", daemon=True).start()


def _watch_signals(noticed: Callable[[int], None]) -> bool:
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
    os.register_at_fork(after_in_child=lambda: _forget_signals(writing))  # or a child's signals would be taken for ours
    threading.Thread(target=_read_signals, args=(reading, noticed), name="axbridge signals", daemon=True).start()
    return True


def _forget_signals(writing: int) -> None:
    if threading.current_thread() is threading.main_thread():
        other = signal.set_wakeup_fd(-1)
        if other not in {-1, writing}:
            signal.set_wakeup_fd(other)


def _read_signals(reading: int, noticed: Callable[[int], None]) -> None:
    while True:
        for number in os.read(reading, 64):  # each in a thread: what comes next must not seem to come later
            try:
                threading.Thread(target=noticed, args=(number,), name="axbridge signal", daemon=True).start()
            except RuntimeError:  # no thread is to be had
                noticed(number)


EXIT_HANDLERS = ExitHandlers()


def still_powered() -> tuple[str, ...]:
    """The servos that may still be powered after the last nets were disarmed; empty while a new one watches."""
    return tuple(EXIT_HANDLERS.unconfirmed)
