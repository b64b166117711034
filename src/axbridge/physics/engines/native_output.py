"""Silence what C code prints past Python's own streams."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet"]


@contextmanager
def quiet(descriptor: int) -> Iterator[None]:
    """Send file descriptor 1 (standard output) or 2 (standard error) to nowhere for the length of a block.

    A process without that descriptor (a daemon) has nothing to silence.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    try:
        kept = os.dup(descriptor)
    except OSError:
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)
        os.close(nowhere)
