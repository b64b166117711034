"""Tasks for workers, light to import, because each worker does."""

import os
import signal
import time
import warnings
from pathlib import Path


def kill_once(path):
    """Leave a mark at `path` and kill this process; with the mark there, warn and return."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        warnings.warn("late", RuntimeWarning, stacklevel=1)
        return "done"
    return os.kill(os.getpid(), signal.SIGKILL)


def kill_always(_path):
    os.kill(os.getpid(), signal.SIGKILL)


def last(path):
    """Write the process's id to `path`, and sleep."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def mark(path):
    """Leave a mark at `path` and return it."""
    Path(path).touch()
    return path


def mark_and_sleep(path):
    """Leave a mark at `path`, sleep 0.2 s, and return it."""
    mark(path)
    time.sleep(0.2)
    return path
