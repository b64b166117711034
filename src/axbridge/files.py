"""Output files that are either whole or not there, and the streams that no file may take the place of."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from axbridge.errors import RecordingError, UsageError

try:
    import fcntl
except ImportError:  # as on Windows
    _LOCKS = False
else:
    _LOCKS = True


def fill_streams() -> None:
    """Open closed standard streams as empty files; else a serial port would get the number of one of them."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere <= 2:
        nowhere = os.dup(nowhere)
    os.close(nowhere)


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Say of a file, a recording, report or fit, that it could not be written, where a block fails to."""
    try:
        yield
    except OSError as failure:
        why = f"cannot be written: {failure.strerror or failure}"
        raise RecordingError(path, why, "choose a writable folder with free space") from failure


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A temporary path that takes the place of `path` when the block ends well; what is no file is written directly."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(21, "is a folder; give the name of a file", str(target))
    device = target.exists() and not target.is_file()
    if not device:
        make_folder(target)
    short = f"{zlib.crc32(os.fsencode(target.name)):08x}"  # a name may be as long as the system takes already
    temporary = target if device else target.with_name(f".{short}.{os.getpid()}.part")
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
    """Write a file in one go, or leave what was there."""
    data = content.encode(errors="replace") if isinstance(content, str) else content  # names of files are any bytes
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def make_folder(path: Path | str) -> None:
    """Make the folder of a file, and those it lies in."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)


def claim(path: Path | str, opened: IO[bytes] | None = None) -> int:
    """Take a file or a folder until the descriptor is given to `release`; -1 where the system knows no such locks."""
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
    """Give back what `claim` took."""
    if descriptor >= 0:
        os.close(descriptor)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make a folder, and let nobody else write into it as long as the block runs."""
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
    """Refuse what could not be written in the end, before long work begins; nothing is left behind."""
    for path in paths:
        if path is None:
            continue
        folder = next(folder for folder in Path(path).absolute().parents if folder.exists())
        with writing(path), tempfile.TemporaryFile(dir=folder):
            if Path(path).is_dir():
                raise IsADirectoryError(21, "is a folder; give the name of a file", str(path))


def check_new(*paths: Path | str | None, force: bool, sources: tuple[Path | str | None, ...] = ()) -> None:
    """Refuse output that cannot be written, would destroy an input, or (unless forced) a file that is there."""
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
