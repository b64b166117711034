"""The early end of a verb: signals, exit codes, and a line about the state of motors and files."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from axbridge.errors import AxBridgeError, RecordingError

if TYPE_CHECKING:
    from axbridge.config.rig import Rig

INTERRUPTED = 130  # exit code of a shell: 128 + SIGINT
_MOTORS = {"limp": "motors are off", "hold": "motors hold, as the rig says", "park": "motors are parked and off"}


class Stopped(Exception):
    """A verb has ended early and has printed why; the argument is its exit code."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, the argument, has arrived; like Ctrl-C, it passes `except Exception`."""


def accept_interrupts() -> None:
    """Restore SIGINT's handler: a shell without job control starts background programs with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def terminable() -> Iterator[list[int]]:
    """Raise `Terminated` on SIGTERM or SIGHUP in the block; yield the list of received signals.

    Child processes keep the default action. A robot opened in the block applies the rig's safety policy first, as on
    Ctrl-C.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    owner = os.getpid()

    def end(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        received.append(number)
        raise Terminated(number)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end)}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores it
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, end)
    try:
        yield received
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is end:  # else an open robot or a script has set another handler
                signal.signal(number, handler)


@contextmanager
def early_end(words: Callable[[BaseException], str], *others: type[Exception]) -> Iterator[None]:
    """Print `words` on stderr after Ctrl-C, SIGTERM or one of the `others` in the block."""
    reasons: tuple[type[BaseException], ...] = (KeyboardInterrupt, *others)
    try:
        yield
    except reasons as end:
        print(words(end), file=sys.stderr)
        raise Stopped(128 + end.args[0] if isinstance(end, Terminated) else INTERRUPTED) from None


def stopping(rig: Rig | None, left: Callable[[], str]) -> AbstractContextManager[None]:
    """After Ctrl-C or SIGTERM in the block, print the state of the motors and `left`; the block closes its robot."""
    return early_end(lambda _: f"stopped: {motors_after(rig)}; {left()}")


@contextmanager
def interruptible(path: Path | None, rig: Rig | None, asked: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """As `stopping`, for a block that records to `path` and closes its recorder; `asked`: the block ended early."""
    before = _stamp(path)
    with stopping(rig, lambda: _recording_state(path, before)):
        try:
            yield
        except AxBridgeError:
            if _stamp(path) != before:
                print(_recording_state(path, before), file=sys.stderr)
            raise
    if asked():
        print(f"stopped: {motors_after(rig)}; {_recording_state(path, before)}", file=sys.stderr)


def motors_after(rig: Rig | None) -> str:
    """Return the state of the motors after a robot of this rig is closed; None: the rig is unknown."""
    from axbridge.robot.safety.net import NETS

    if left := NETS.unconfirmed:
        return f"{', '.join(left)} may still be powered: cut the servo supply"
    return "motors are left as their rig says" if rig is None else _MOTORS[rig.safety.on_exit]


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """Return inode and modification time, which change when the file is replaced."""
    if path is None or not path.is_file():
        return None
    return path.stat().st_ino, path.stat().st_mtime_ns


def _recording_state(path: Path | None, before: tuple[int, int] | None) -> str:
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
