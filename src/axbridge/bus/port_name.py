"""What is behind the name of a port: names go to other devices, and a lost port is opened again by its name.

The next USB adapter gets the first free ``/dev/ttyUSB``, the next pseudo-terminal the first free number. What was a
virtual bus may then be another robot, or somebody's terminal.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from axbridge.bus.adapter import is_remote
from axbridge.errors import PortError

_LONGEST_CHAIN = 8  # links
_START_TIME = 19  # field of /proc/PID/stat behind the name of the program


def lock_of(link: Path) -> Path:
    """The file beside a link of `axbridge serve` that is locked as long as its server runs."""
    return link.with_name(f".{link.name}.lock")


def line_behind(name: str) -> frozenset[str]:
    """Marks of what is behind a port's name: a line that has none of them in common is another one.

    A link that `axbridge serve` keeps is its own mark, whichever server keeps it now. A pseudo-terminal is known by the
    processes that hold its other end, a USB adapter by its maker, product and serial number. Empty: nothing is known.
    """
    if is_remote(name):
        return frozenset()
    path = Path(name)
    for _ in range(_LONGEST_CHAIN):
        if not path.is_symlink():
            break
        kept = _is_kept(path)
        if kept is not None:
            if not kept:
                raise PortError(
                    name,
                    "this link was left by an `axbridge serve` that has ended",
                    f"start it again, or remove what is left: rm {path}",
                )
            return frozenset({f"link {path.absolute()}"})
        path = Path(os.path.normpath(path.parent / path.readlink()))
    if path.parent == Path("/dev/pts"):
        return frozenset(_holders_of(path.name))
    return frozenset(_usb_marks(path))


def _is_kept(link: Path) -> bool | None:
    """Whether the server of a link still runs; None: no server has made it, or another user's."""
    try:
        import fcntl

        lock = os.open(lock_of(link), os.O_RDONLY | os.O_CLOEXEC)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _holders_of(number: str) -> Iterator[str]:
    """Processes that hold the master of a pseudo-terminal, with their start; of those we may look into."""
    for link in open_files():
        with contextlib.suppress(OSError):
            if link.readlink().name != "ptmx":
                continue
            process = link.parents[1]
            if f"tty-index:\t{number}\n" in (process / "fdinfo" / link.name).read_text():
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                yield f"process {process.name} {fields[_START_TIME]}"


def open_files() -> Iterator[Path]:
    """``/proc/PID/fd/N`` of all processes that we may look into; they end meanwhile, as they like."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield from list((process / "fd").iterdir())


def _usb_marks(path: Path) -> Iterator[str]:
    from serial.tools import list_ports

    for port in list_ports.comports():
        if port.vid is not None and port.device == str(path):
            yield f"usb {port.vid:04x}:{port.pid:04x} {port.serial_number}"
