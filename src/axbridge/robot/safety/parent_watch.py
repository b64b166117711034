"""Notices that the parent of a `multiprocessing` child is gone: nobody is left who could end the child."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

_POLL = 0.2  # s


def watch_parent(gone: Callable[[], None]) -> None:
    """Call `gone`, in a thread, when the parent of a child of `multiprocessing` has ended; else do nothing."""
    multiprocessing = sys.modules.get("multiprocessing")
    parent = multiprocessing.parent_process() if multiprocessing is not None else None
    if parent is None:
        return

    def watch(began_by: int) -> None:
        # A brother may hold the other end of the parent's pipe open, so who began this process is asked for, too.
        while parent.is_alive() and os.getppid() == began_by:
            time.sleep(_POLL)
        gone()

    threading.Thread(target=watch, args=(os.getppid(),), name="axbridge parent", daemon=True).start()
