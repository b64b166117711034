"""Tasks for workers, light to import, because each worker does."""

import os
import signal
import time
from pathlib import Path


def kill_once(path):
    """Leave a mark at `path` and die; with the mark there, be done."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return "done"
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def kill_always(_path):
    os.kill(os.getpid(), signal.SIGKILL)


def last(path):
    """Write the process's id to `path`, and take long."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def mark(path):
    """Leave a mark at `path` and give it back."""
    Path(path).touch()
    return path
