"""Write output files atomically, lock files and folders, and keep standard streams open."""

from __future__ import annotations

import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from axbridge.errors import RecordingError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    _LOCKS = False
else:
    _LOCKS = True

_LEAST_FREE = 65_536  # bytes that must fit on the disk before long work


def fill_streams() -> None:
    """Open closed standard streams on the null device; otherwise a serial port would get one of their numbers."""
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:
        null = os.dup(null)
    os.close(null)


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Raise RecordingError when the block cannot write `path`: a recording, a report or a fit."""
    try:
        yield
    except BrokenPipeError:  # its reader has ended, as `head` does: no mistake
        raise
    except OSError as failure:
        reason = f"cannot be written: {failure.strerror or failure}"
        raise RecordingError(path, reason, "choose a writable folder with free space") from failure


def open_stream(path: Path | str) -> int | None:
    """Return the descriptor that ``/dev/stdout`` or ``/dev/fd/3`` names; None for another path."""
    named = re.fullmatch(r"/dev/std(in|out|err)|/(?:dev|proc/self)/fd/(\d+)", str(path))
    return named and (int(named[2]) if named[2] else ("in", "out", "err").index(named[1]))


def is_stream(path: Path | str) -> bool:
    """Return whether a path is a device, a pipe or an open stream: these are written, and never replaced."""
    return Path(path).exists() and (not Path(path).is_file() or open_stream(path) is not None)


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` when the block succeeds; a device or a pipe is written directly."""
    target, device = Path(path), is_stream(path)
    if target.is_dir():
        raise IsADirectoryError(21, "is a folder; give the name of a file", str(target))
    if (stream := open_stream(path)) is not None and target.is_file():  # by its name, `> FILE` would lose its content
        with tempfile.TemporaryDirectory() as folder, os.fdopen(os.dup(stream), "wb") as end:
            yield Path(folder, "part")
            end.write(Path(folder, "part").read_bytes())
        return
    if not device:
        target.parent.mkdir(parents=True, exist_ok=True)
    short = f"{zlib.crc32(os.fsencode(target.name)):08x}"  # the full name may already have the system's longest length
    temporary = target if device else target.with_name(f".{short}.{os.getpid()}.part")
    try:
        yield temporary
        if not device:
            os.replace(temporary, target)  # noqa: PTH105  (atomic, and overwrites on every system)
    except OSError as failure:
        failure.filename = str(target)  # the user's file name, not the temporary one
        failure.filename2 = None
        raise
    finally:
        if not device:
            temporary.unlink(missing_ok=True)


def write_whole(path: Path | str, content: str | bytes) -> None:
    """Write a file completely, else raise RecordingError; a failure leaves the old file unchanged."""
    data = content.encode(errors="replace") if isinstance(content, str) else content  # file names can have any bytes
    with writing(path), replacing(path) as temporary:
        temporary.write_bytes(data)


def claim(path: Path | str, opened: IO[bytes] | None = None) -> int:
    """Lock a file or a folder and return the descriptor for `release`; -1 on a system without such locks.

    BlockingIOError: another program has the lock, or has just replaced the file.
    """
    if not _LOCKS:
        return -1
    descriptor = os.open(path, os.O_RDONLY) if opened is None else os.dup(opened.fileno())
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # a file system without locks
        os.close(descriptor)
        return -1
    if Path(path).exists() and os.path.samestat(os.fstat(descriptor), Path(path).stat()):
        return descriptor
    os.close(descriptor)
    raise BlockingIOError(11, "was replaced a moment ago", str(path))


def release(descriptor: int) -> None:
    """Release the lock of `claim`."""
    if descriptor >= 0:
        os.close(descriptor)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Create a folder and lock it while the block runs; raise UsageError when another program has the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = claim(folder)
    except BlockingIOError:
        raise UsageError(f"another program is writing into {folder}", "give another folder, or wait for it") from None
    try:
        yield
    finally:
        release(descriptor)


def check_writable(*paths: Path | str | None) -> None:
    """Raise RecordingError before long work when a file cannot be written, also on a full disk; leave no file behind.

    A device or a pipe is opened only when it is written: another program may read every byte.
    """
    for path in paths:
        if path is None:
            continue
        with writing(path):
            if Path(path).is_dir():
                raise IsADirectoryError(21, "is a folder; give the name of a file", str(path))
            if is_stream(path):
                if not os.access(path, os.W_OK):
                    raise PermissionError(13, os.strerror(13), str(path))
                continue
            folder = next(folder for folder in Path(path).absolute().parents if folder.exists())
            with tempfile.TemporaryFile(dir=folder) as trial:
                trial.write(bytes(_LEAST_FREE))
                trial.flush()


def named_mcap(path: Path | None) -> Path | None:
    """Return the path of a recording to write; raise UsageError if its suffix is another than .mcap."""
    if path is not None and path.suffix not in ("", ".mcap"):
        hint = f"name it {path.with_suffix('.mcap')}; `axbridge convert` makes a table of it"
        raise UsageError(f"{path}: a recording is no {path.suffix} file", hint)
    return path


def check_new(*paths: Path | str | None, force: bool, sources: tuple[Path | str | None, ...] = ()) -> None:
    """Raise UsageError for a path that is given twice, is one of `sources`, or exists without `force`.

    Raise RecordingError as `check_writable`.
    """
    outputs = [path for path in paths if path is not None]
    read = [source for source in sources if source is not None and Path(source).exists()]
    for number, path in enumerate(outputs):
        if not is_stream(path) and any(Path(path).resolve() == Path(other).resolve() for other in outputs[:number]):
            raise UsageError(f"two files are to be written to {path}", "give each a name of its own")
        if Path(path).exists() and any(map(Path(path).samefile, read)):
            raise UsageError(f"{path} is both read and to be written", "give the output another name")
        if Path(path).is_file() and not (force or is_stream(path)):
            hint = "give another name, or replace it with --force (in Python, force=True)"
            raise UsageError(f"{path} is already there", hint)
    check_writable(*paths)
