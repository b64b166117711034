"""The early end of a verb: SIGTERM taken like Ctrl-C, the exit code, and what became of the motors, in words."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from axbridge.config.rig import Rig

__all__ = ["Terminated", "code_of", "motors_after", "terminable"]

_MOTORS = {"limp": "motors are off", "hold": "motors hold, as the rig says", "park": "motors are parked and off"}
_SIGNALLED = 128  # a shell adds this to the number of the signal that ended a program


class Terminated(KeyboardInterrupt):
    """SIGTERM has come; like Ctrl-C, no `except Exception` holds it up."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` in the block when SIGTERM comes.

    A robot that is opened inside applies the rig's safety policy first, as it does for Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def code_of(end: BaseException) -> int:
    """The exit code of a verb that this has ended: 143 for SIGTERM, else 130, as for Ctrl-C."""
    return _SIGNALLED + (signal.SIGTERM if isinstance(end, Terminated) else signal.SIGINT)


def motors_after(rig: Rig) -> str:
    """What the motors do once a robot of this rig is closed."""
    return _MOTORS[rig.safety.on_exit]
