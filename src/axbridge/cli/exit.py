"""The early end of a verb: SIGTERM taken like Ctrl-C, the exit code, and what became of motors and files, in words."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from axbridge.errors import RecordingError

if TYPE_CHECKING:
    from axbridge.config.rig import Rig

INTERRUPTED, TERMINATED = 130, 143  # exit codes, as a shell has them of a program that a signal has ended
_MOTORS = {"limp": "motors are off", "hold": "motors hold, as the rig says", "park": "motors are parked and off"}


class Stopped(Exception):
    """A verb that a signal or its user has ended early, and that has said what is left; with its exit code."""


class Terminated(KeyboardInterrupt):
    """SIGTERM has come; like Ctrl-C, no `except Exception` holds it up."""


def accept_interrupts() -> None:
    """Let SIGINT end this program, although a shell without job control starts what is behind `&` with it ignored."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def terminable() -> Iterator[list[int]]:
    """Raise `Terminated` in the block when SIGTERM or SIGHUP comes, but not in its children; yields a list for it.

    A robot that is opened inside applies the rig's safety policy first, as it does for Ctrl-C.
    """
    come: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield come
        return
    owner = os.getpid()

    def end(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        come.append(number)
        raise Terminated

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end)}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, end)
    try:
        yield come
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is end:  # else a robot that is open yet, or a script, has its own
                signal.signal(number, handler)


@contextmanager
def early_end(words: Callable[[BaseException], str], *others: type[Exception]) -> Iterator[None]:
    """Print `words` on stderr after Ctrl-C, SIGTERM or one of the `others` in the block."""
    reasons: tuple[type[BaseException], ...] = (KeyboardInterrupt, *others)
    try:
        yield
    except reasons as end:
        print(words(end), file=sys.stderr)
        raise Stopped(TERMINATED if isinstance(end, Terminated) else INTERRUPTED) from None


@contextmanager
def stopping(rig: Rig | None, left: Callable[[], str]) -> Iterator[None]:
    """After Ctrl-C or SIGTERM in the block, which leaves its robot closed, say what became of motors and files."""
    with early_end(lambda _: f"stopped: {motors_after(rig)}; {left()}"):
        yield


@contextmanager
def interruptible(path: Path | None, rig: Rig | None, asked: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """The same of a block that records, and whose recorder is closed then."""
    before = _stamp(path)
    with stopping(rig, lambda: _kept(path, before)):
        yield
    if asked():
        print(f"stopped: {motors_after(rig)}; {_kept(path, before)}", file=sys.stderr)


def motors_after(rig: Rig | None) -> str:
    """What the motors do now that a robot of this rig is closed; None: of some rig."""
    from axbridge.robot.safety.net import NETS

    if left := NETS.unconfirmed:
        return f"{', '.join(left)} may still be powered: cut the servo supply"
    return "motors are left as their rig says" if rig is None else _MOTORS[rig.safety.on_exit]


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """What tells a file from another that takes its place."""
    if path is None or not path.is_file():
        return None
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _kept(path: Path | None, before: tuple[int, int] | None) -> str:
    from axbridge.recording.stored import open_recording

    if path is None or _stamp(path) == before:
        return "nothing was recorded"
    try:
        loaded = open_recording(path)
    except RecordingError as error:
        return str(error).splitlines()[0]
    if not loaded.spans():
        return f"{path} holds no samples yet"
    end = f"{loaded.end - loaded.start:.1f} s"
    return f"{path} is whole and holds {end}" if loaded.complete else f"{path} {loaded.flaw}: {end}"
