"""A warning that points to the line of the program that caused it, not into axbridge."""

from __future__ import annotations

import sys
import warnings

from axbridge.errors import ControlWarning


def warn(message: str) -> None:
    """Give a `ControlWarning` in the caller's line: the first one that is not axbridge's own."""
    level, frame = 2, sys._getframe(1)  # noqa: SLF001 - the interpreter's way to ask who called
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("axbridge."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ControlWarning, stacklevel=level)
