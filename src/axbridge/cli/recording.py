"""What Ctrl-C leaves of a recording, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from axbridge.cli.app import Stopped

if TYPE_CHECKING:
    from axbridge.config.rig import Rig

__all__ = ["interruptible"]

_LEFT = {"limp": "motors are off", "hold": "motors hold, as the rig says", "park": "motors are parked and off"}


@contextmanager
def interruptible(path: Path | None, rig: Rig) -> Iterator[None]:
    """After Ctrl-C in the block, which leaves robot and recorder closed, say what is left of both.

    Args:
        path: The recording, if one is made.
        rig: Says what the motors do at the end.

    Raises:
        Stopped: in place of KeyboardInterrupt.
    """
    before = _stamp(path)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"stopped: {_LEFT[rig.safety.on_exit]}; {_kept(path, before)}", err=True)
        raise Stopped from None


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """What tells a file from another that takes its place."""
    if path is None or not path.is_file():
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def _kept(path: Path | None, before: tuple[int, int] | None) -> str:
    from axbridge.errors import RecordingError
    from axbridge.record.recording import open_recording

    if path is None or _stamp(path) == before:
        return "nothing was recorded"
    try:
        found = open_recording(path)
    except RecordingError as error:
        return str(error).splitlines()[0]
    if not found.spans():
        return f"{path} holds no samples yet"
    end = f"{found.end - found.start:.1f} s"
    return f"{path} is whole and holds {end}" if found.complete else f"{path} was cut off and can be read: {end}"
