"""Tasks whose workers are killed, and one that tells of itself; light to import, because each worker does."""

import os
import signal
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
    """Die."""
    os.kill(os.getpid(), signal.SIGKILL)


def mark(path):
    """Leave a mark at `path` and give it back."""
    Path(path).touch()
    return path
