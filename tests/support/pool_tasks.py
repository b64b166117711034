"""Tasks for workers, light to import, because each worker does."""

import os
import signal
import time
import warnings
from pathlib import Path


def warn(_path):
    warnings.warn("late", RuntimeWarning, stacklevel=1)
    return "done"


def kill(_path):
    os.kill(os.getpid(), signal.SIGKILL)


def last(path):
    """Write the process's id to `path`, and take long."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def mark(path):
    """Leave a mark at `path` and give it back."""
    Path(path).touch()
    return path
