"""The early end of a verb: SIGTERM taken like Ctrl-C, the exit code, and what became of the motors, in words."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from axbridge.cli.app import UNTOUCHED, Stopped

if TYPE_CHECKING:
    from axbridge.config.rig import Rig


_MOTORS = {"limp": "motors are off", "hold": "motors hold, as the rig says", "park": "motors are parked and off"}
_SIGNALLED = 128  # a shell adds this to the number of the signal that ended a program


class Terminated(KeyboardInterrupt):
    """SIGTERM has come; like Ctrl-C, no `except Exception` holds it up."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` in the block when SIGTERM comes.

    A robot that is opened inside applies the rig's safety policy first, as it does for Ctrl-C. A process that is forked
    in the block ends as if there was none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    owner = os.getpid()

    def end(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def early_end(words: Callable[[BaseException], str], *others: type[Exception]) -> Iterator[None]:
    """Print `words` on stderr after Ctrl-C, SIGTERM or one of the `others` in the block."""
    reasons: tuple[type[BaseException], ...] = (KeyboardInterrupt, *others)
    try:
        with terminable():
            yield
    except reasons as end:
        print(words(end), file=sys.stderr)
        number = signal.SIGTERM if isinstance(end, Terminated) else signal.SIGINT
        raise Stopped(_SIGNALLED + number) from None


@contextmanager
def stopping(rig: Rig | None, left: Callable[[], str]) -> Iterator[None]:
    """After Ctrl-C or SIGTERM in the block, which leaves its robot closed, say what became of motors and files."""
    with early_end(lambda _: f"stopped: {motors_after(rig)}; {left()}"):
        yield


@contextmanager
def unharmed() -> Iterator[None]:
    """After Ctrl-C or SIGTERM in a verb that moves no motor, say so; its processes have ended by then."""
    with early_end(lambda _: ("\n" if sys.stderr.isatty() else "") + f"stopped: {UNTOUCHED}"):
        yield


def motors_after(rig: Rig | None) -> str:
    """What the motors do now that a robot of this rig is closed; None: of some rig."""
    from axbridge.robot.safety.exit import still_powered

    if left := still_powered():
        return f"{', '.join(left)} may still be powered: cut the servo supply"
    return "motors are left as their rig says" if rig is None else _MOTORS[rig.safety.on_exit]
