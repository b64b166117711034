"""Output files that are either whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axbridge.errors import RecordingError

__all__ = ["check_writable", "replacing", "unwritable", "write_whole"]


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and is removed when it does not.

    What is no regular file (``/dev/stdout``, a pipe) cannot be replaced: it is written to directly.

    Raises:
        OSError: the folder is not there or not writable, or the file cannot take the place.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(21, "is a folder; give the name of a file", str(target))
    if target.exists() and not target.is_file():
        yield target
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, target)  # noqa: PTH105  (atomic, and overwrites on every system)
    except OSError as failure:
        failure.filename = str(target)  # the name the user gave, not the temporary one
        failure.filename2 = None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path | str, content: str | bytes) -> None:
    """Write a file in one go, or leave what was there.

    Raises:
        OSError: it cannot be written; `filename` is `path`.
    """
    data = content.encode() if isinstance(content, str) else content
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def check_writable(*paths: Path | str | None) -> None:
    """Refuse what could not be written in the end, before long work begins; nothing is left behind.

    Raises:
        RecordingError: a file of these cannot be written.
    """
    for path in paths:
        if path is None:
            continue
        try:
            with tempfile.TemporaryFile(dir=Path(path).parent):
                if Path(path).is_dir():
                    raise IsADirectoryError(21, "is a folder; give the name of a file", str(path))
        except OSError as failure:
            raise unwritable(path, failure) from failure


def unwritable(path: Path | str, failure: OSError) -> RecordingError:
    """The error to raise for a recording, report or fit that could not be written."""
    folder = Path(path).parent
    if isinstance(failure, FileNotFoundError) and not folder.is_dir():
        return RecordingError(path, f"cannot be written: there is no folder {folder}", "make it, or choose another")
    return RecordingError(
        path, f"cannot be written: {failure.strerror or failure}", "choose a writable folder with free space"
    )
