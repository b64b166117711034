"""Output files that are either whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axbridge.errors import RecordingError, UsageError

__all__ = ["check_new", "check_writable", "make_folder", "replacing", "unwritable", "write_whole"]


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and is removed when it does not.

    Its folder is made. What is no regular file (``/dev/stdout``, a pipe) cannot be replaced: it is written to directly.

    Raises:
        OSError: the folder cannot be made or is not writable, or the file cannot take the place.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(21, "is a folder; give the name of a file", str(target))
    device = target.exists() and not target.is_file()
    if not device:
        make_folder(target)
    temporary = target if device else target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        if not device:
            os.replace(temporary, target)  # noqa: PTH105  (atomic, and overwrites on every system)
    except OSError as failure:
        failure.filename = str(target)  # the name the user gave, not the temporary one
        failure.filename2 = None
        raise
    finally:
        if not device:
            temporary.unlink(missing_ok=True)


def write_whole(path: Path | str, content: str | bytes) -> None:
    """Write a file in one go, or leave what was there.

    Raises:
        OSError: it cannot be written; `filename` is `path`.
    """
    data = content.encode() if isinstance(content, str) else content
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def make_folder(path: Path | str) -> None:
    """Make the folder of a file, and those it lies in.

    Raises:
        OSError: it cannot be made.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)


def check_writable(*paths: Path | str | None) -> None:
    """Refuse what could not be written in the end, before long work begins; nothing is left behind.

    Raises:
        RecordingError: a file of these cannot be written.
    """
    for path in paths:
        if path is None:
            continue
        folder = next(folder for folder in Path(path).absolute().parents if folder.exists())
        try:
            with tempfile.TemporaryFile(dir=folder):
                if Path(path).is_dir():
                    raise IsADirectoryError(21, "is a folder; give the name of a file", str(path))
        except OSError as failure:
            raise unwritable(path, failure) from failure


def check_new(*paths: Path | str | None, force: bool, sources: tuple[Path | str | None, ...] = ()) -> None:
    """Refuse output that cannot be written, would destroy an input, or (unless forced) a file that is there.

    Args:
        *paths: Files to be written; None stands for none.
        force: Whether an existing file may be replaced.
        sources: Files that are read; these are never replaced.

    Raises:
        UsageError: a file is there, or is a source, or two of them are one.
        RecordingError: a file cannot be written.
    """
    asked = [path for path in paths if path is not None]
    for number, path in enumerate(asked):
        device = Path(path).exists() and not Path(path).is_file()
        if not device and any(Path(path).resolve() == Path(other).resolve() for other in asked[:number]):
            raise UsageError(f"two files are to be written to {path}", "give each a name of its own")
        if not Path(path).exists():
            continue
        if any(source is not None and Path(source).exists() and Path(path).samefile(source) for source in sources):
            raise UsageError(f"{path} is both read and to be written", "give the output another name")
        if Path(path).is_file() and not force:
            raise UsageError(f"{path} is already there", "give another name, or replace it with --force")
    check_writable(*paths)


def unwritable(path: Path | str, failure: OSError) -> RecordingError:
    """The error to raise for a recording, report or fit that could not be written."""
    return RecordingError(
        path, f"cannot be written: {failure.strerror or failure}", "choose a writable folder with free space"
    )
