"""Facts about a port's name: kind and latency of its adapter, and the line behind it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from axbridge.errors import PortError, Remedy, plural
from axbridge.jit import LIGHTEN

Kind = Literal["ftdi", "cdc", "pty", "uart", "remote", "unknown"]

# common adapters for servos: FTDI (USB2Dynamixel, U2D2), USB2AX, ROBOTIS OpenCM and OpenRB, CH340, CP210x
_VENDORS = {0x0403, 0x16D0, 0xFFF1, 0x2F5D, 0x1A86, 0x10C4}
_LOCAL_MARGIN = 0.004  # s; wake-up time of a busy host, in addition to the adapter's latency
REMOTE_MARGIN = 0.100  # s
_FTDI_DEFAULT_TIMER = 16  # ms
_LONGEST_CHAIN = 8  # symbolic links
_START_TIME = 19  # index of the start time in /proc/PID/stat, after the program's name


@dataclass(frozen=True)
class Adapter:
    """Facts about the adapter of a port."""

    kind: Kind  # ftdi: USB2Dynamixel, U2D2; cdc: USB2AX and other ttyACM; pty: a virtual bus; remote: a pyserial URL
    latency_timer: int | None = None  # ms for which an FTDI chip collects bytes; None: no timer
    latency_file: Path | None = None  # file that sets it

    @property
    def latency(self) -> float:
        """Latency of adapter and host to assume before a measurement, s."""
        if self.kind == "remote":
            return REMOTE_MARGIN
        return (self.latency_timer or 0) * 1e-3 + _LOCAL_MARGIN


def is_remote(port: str) -> bool:
    """Return whether `port` is a URL (``socket://``, ``rfc2217://``) and not a device."""
    return "://" in port


def identify_adapter(port: str, sysfs: Path = Path("/sys/class/tty")) -> Adapter:
    """Identify the adapter from the port's name and, on Linux, its driver."""
    if is_remote(port):
        return Adapter("remote")
    device = Path(os.path.realpath(port))
    if device.parent == Path("/dev/pts"):
        return Adapter("pty")
    if not sys.platform.startswith("linux"):
        # the latency timer cannot be read here; FTDI devices have this usual name
        ftdi = "usbserial" in device.name
        return Adapter("ftdi" if ftdi else "unknown", _FTDI_DEFAULT_TIMER if ftdi else None)
    if device.name.startswith("ttyACM"):
        return Adapter("cdc")
    file = sysfs / device.name / "device" / "latency_timer"
    if file.is_file():
        return Adapter("ftdi", int(file.read_text(encoding="ascii")), file)
    return Adapter("uart" if device.name.startswith(("ttyS", "ttyAMA")) else "unknown")


def connected() -> list[str]:
    """Return the devices of the USB serial adapters; only common servo adapters if there are any."""
    from serial.tools import list_ports

    ports = [port for port in list_ports.comports() if port.vid is not None]
    known = [port for port in ports if port.vid in _VENDORS]
    return sorted(str(port.device) for port in known or ports)


def find_port() -> str:
    """Return the port for ``auto``: the only USB serial adapter, or the only common servo adapter."""
    ports = connected()
    if not ports:
        says = "plug it in, name the port (--port; in Python port=), or start a virtual one: {}"
        hint = Remedy("serve", "RIG", says=says)
        raise PortError("auto", "no USB serial adapter is connected", hint)
    if len(ports) > 1:
        raise PortError("auto", f"several adapters are connected: {', '.join(ports)}", "choose one with --port")
    return ports[0]


def lock_of(link: Path) -> Path:
    """Return the file beside a link of `axbridge serve` that its server locks while it runs."""
    return link.with_name(f".{link.name}.lock")


def line_behind(name: str) -> frozenset[str]:
    """Return marks of the line behind a port's name, if known; two lines without a common mark are different.

    Marks are a link of `axbridge serve`, the processes at a pseudo-terminal's other end, and an adapter's numbers.
    """
    if is_remote(name):
        return frozenset()
    path = Path(name)
    for _ in range(_LONGEST_CHAIN):
        if not path.is_symlink():
            break
        kept = _is_locked(lock_of(path))
        if kept is False:
            problem = "this link was left by an `axbridge serve` that has ended"
            raise PortError(name, problem, f"start it again, or remove what is left: rm {path}")
        if kept:
            return frozenset({f"link {path.absolute()}"})
        path = Path(os.path.normpath(path.parent / path.readlink()))
    if path.parent == Path("/dev/pts"):
        return frozenset(_holders_of(path.name))
    return frozenset(_usb_marks(path))


def is_served(port: str) -> bool:
    """Return whether a port is known to have `axbridge serve` behind it. False for all network ports."""
    for mark in line_behind(port):
        kind, _, rest = mark.partition(" ")
        if kind == "link":
            return True
        if kind == "process":
            with contextlib.suppress(OSError):
                words = Path("/proc", rest.split()[0], "cmdline").read_bytes().split(b"\0")
                if b"serve" in words and any(Path(os.fsdecode(word)).name == "axbridge" for word in words):
                    return True
    return False


def busy_file(process: int) -> Path:
    """Return the file in which `axbridge serve` in this process counts packets left unanswered by a busy computer.

    It has the number of packets, and the time of the latest one, s of `time.monotonic`.
    """
    return Path(tempfile.gettempdir(), f"axbridge-busy-{process}")


class BridgeAt(NamedTuple):
    """The bridge on a port: its process, the address at which other programs may read, and its program's link or ""."""

    process: int
    address: str
    link: str


def bridge_file(port: str) -> Path:
    """Return the file that `axbridge bridge` writes and locks, and `bridge_at` reads."""
    name = port if is_remote(port) else os.path.realpath(port)
    return Path(tempfile.gettempdir(), f"axbridge-bridge-{hashlib.sha256(name.encode()).hexdigest()[:16]}")


def bridge_at(port: str) -> BridgeAt | None:
    """Return the bridge on a port; None if there is none, or if it is another user's."""
    with contextlib.suppress(OSError, ValueError):
        file = bridge_file(port)
        if file.lstat().st_uid in {0, os.getuid()} and _is_locked(file):  # not left by a bridge that was killed
            process, address, link = os.fsdecode(file.read_bytes()).split("\n", 2)
            return BridgeAt(int(process), address, link)
    return None


def server_behind(port: str) -> int | None:
    """Return the process behind a pseudo-terminal, if a busy server has left packets unanswered; else None.

    The search works on Linux only and takes tens of milliseconds; 0: not found.
    """
    path = Path(os.path.realpath(port))
    if path.parent != Path("/dev/pts") or not any(Path(tempfile.gettempdir()).glob(busy_file(0).name[:-1] + "*")):
        return None
    return next((int(holder.split()[1]) for holder in _holders_of(path.name)), 0)


def unanswered_by(server: int | None, since: float) -> int:
    """Return the total number of packets that a busy `axbridge serve` has left unanswered.

    Args:
        server: Its process, from `server_behind`.
        since: Time, s of `time.monotonic`; the result is 0 if the latest of these packets is older.
    """
    with contextlib.suppress(OSError, ValueError):
        file = busy_file(server or 0)
        if file.lstat().st_uid == Path("/proc", str(server)).stat().st_uid:
            count, latest = file.read_text(encoding="ascii").split()
            return int(count) if float(latest) >= since else 0
    return 0


def too_busy(packets: int) -> str:
    """Return the message for a server that has left packets unanswered."""
    return (
        f"the computer was too busy: `axbridge serve` behind this port has left {plural(packets, 'packet')} unanswered"
    )


SERVE_PATIENTLY = f"{LIGHTEN}, or serve with --timing none, which answers late instead"


def _is_locked(file: Path) -> bool | None:
    """Return whether a process keeps a file locked; None: there is none, or it is another user's."""
    try:
        import fcntl

        lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
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
    """Yield the accessible processes that hold the master of a pseudo-terminal, with their start times."""
    for file in open_files():
        with contextlib.suppress(OSError):
            if file.path.endswith("/ptmx") and f"tty-index:\t{number}\n" in file.info():
                fields = Path("/proc", file.process, "stat").read_text().rpartition(")")[2].split()
                yield f"process {file.process} {fields[_START_TIME]}"


class OpenFile(NamedTuple):
    """A file that a process has open."""

    process: str  # its id
    descriptor: str
    path: str

    def info(self) -> str:
        """Return the kernel's description of it; OSError if the process has ended or closed it."""
        return Path("/proc", self.process, "fdinfo", self.descriptor).read_text()


def open_files() -> Iterator[OpenFile]:
    """Yield the open files of all accessible processes; a process may end during the search."""
    # Each opening of a pseudo-terminal searches here. With `Path` instead of strings it took twice as long.
    for process in filter(str.isdigit, os.listdir("/proc") if sys.platform == "linux" else ()):  # noqa: PTH208
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    path = os.readlink(f"/proc/{process}/fd/{descriptor}")  # noqa: PTH115
                    yield OpenFile(process, descriptor, path)


def _usb_marks(path: Path) -> Iterator[str]:
    from serial.tools import list_ports

    for port in list_ports.comports():
        if port.vid is not None and port.device == str(path):
            yield f"usb {port.vid:04x}:{port.pid:04x} {port.serial_number}"
