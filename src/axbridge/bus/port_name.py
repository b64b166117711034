"""What is behind the name of a port: which kind of adapter, how slow it is, and whether it is the same as before."""

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

Kind = Literal["ftdi", "cdc", "pty", "uart", "remote", "unknown"]

# Adapters people drive AX-12s with: FTDI (USB2Dynamixel, U2D2), USB2AX, ROBOTIS OpenCM and OpenRB, CH340, CP210x.
_VENDORS = {0x0403, 0x16D0, 0xFFF1, 0x2F5D, 0x1A86, 0x10C4}
_LOCAL_MARGIN = 0.004  # s: what a busy host needs to wake us up, beyond the adapter's own latency
REMOTE_MARGIN = 0.100  # s
_FTDI_DEFAULT_TIMER = 16  # ms
_LONGEST_CHAIN = 8  # links
_START_TIME = 19  # field of /proc/PID/stat behind the name of the program


@dataclass(frozen=True)
class Adapter:
    """Facts about a port, a device path or URL."""

    port: str
    kind: Kind  # ftdi: USB2Dynamixel, U2D2; cdc: USB2AX and other ttyACM; pty: a virtual bus; remote: a pyserial URL
    latency_timer: int | None = None  # ms for which an FTDI chip collects bytes; None: no such timer
    latency_file: Path | None = None  # where that can be set

    @property
    def latency(self) -> float:
        """Time to allow for the way through adapter and host, s, before any measurement."""
        if self.kind == "remote":
            return REMOTE_MARGIN
        return (self.latency_timer or 0) * 1e-3 + _LOCAL_MARGIN


def is_remote(port: str) -> bool:
    """Whether `port` is a URL (``socket://``, ``rfc2217://``) and not a device."""
    return "://" in port


def identify_adapter(port: str, sysfs: Path = Path("/sys/class/tty")) -> Adapter:
    """Look at the port's name and, on Linux, its driver."""
    if is_remote(port):
        return Adapter(port, "remote")
    device = Path(os.path.realpath(port))
    if device.parent == Path("/dev/pts"):
        return Adapter(port, "pty")
    if not sys.platform.startswith("linux"):
        # the driver's timer cannot be read here; FTDI devices are known by their usual names
        ftdi = "usbserial" in device.name
        return Adapter(port, "ftdi" if ftdi else "unknown", _FTDI_DEFAULT_TIMER if ftdi else None)
    if device.name.startswith("ttyACM"):
        return Adapter(port, "cdc")
    file = sysfs / device.name / "device" / "latency_timer"
    if file.is_file():
        return Adapter(port, "ftdi", int(file.read_text(encoding="ascii")), file)
    return Adapter(port, "uart" if device.name.startswith(("ttyS", "ttyAMA")) else "unknown")


def connected() -> list[str]:
    """Devices of the USB serial adapters there are (of kinds known for servos, if there are such)."""
    from serial.tools import list_ports

    ports = [port for port in list_ports.comports() if port.vid is not None]
    known = [port for port in ports if port.vid in _VENDORS]
    return sorted(str(port.device) for port in known or ports)


def find_port() -> str:
    """The port meant by ``auto``: the only USB serial adapter there is, or the only one of a kind known for servos."""
    ports = connected()
    if not ports:
        says = "plug it in, name the port (--port; in Python port=), or start a virtual one: {}"
        hint = Remedy("serve", "RIG", says=says)
        raise PortError("auto", "no USB serial adapter is connected", hint)
    if len(ports) > 1:
        raise PortError("auto", f"several adapters are connected: {', '.join(ports)}", "choose one with --port")
    return ports[0]


def lock_of(link: Path) -> Path:
    """The file beside a link of `axbridge serve` that is locked as long as its server runs."""
    return link.with_name(f".{link.name}.lock")


def line_behind(name: str) -> frozenset[str]:
    """Marks of what is behind a port's name, if known: a line that has none of them in common is another one.

    They are a link that `axbridge serve` keeps, the holders of a pseudo-terminal's other end, an adapter's numbers.
    """
    if is_remote(name):
        return frozenset()
    path = Path(name)
    for _ in range(_LONGEST_CHAIN):
        if not path.is_symlink():
            break
        kept = _is_kept(path)
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
    """Whether `axbridge serve` is known to be behind a port: virtual servos. False for all network ports."""
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
    """Where `axbridge serve` in this process writes how many packets its busy computer has left unanswered, and when.

    The content is a number of packets and the moment of the latest one, s of `time.monotonic`.
    """
    return Path(tempfile.gettempdir(), f"axbridge-busy-{process}")


class BridgeAt(NamedTuple):
    """The bridge that has a port: its process, and the address at which other programs may read."""

    process: int
    address: str


def bridge_file(port: str) -> Path:
    """Where `axbridge bridge` on a port writes what `bridge_at` reads."""
    name = port if is_remote(port) else os.path.realpath(port)
    return Path(tempfile.gettempdir(), f"axbridge-bridge-{hashlib.sha256(name.encode()).hexdigest()[:16]}")


def bridge_at(port: str) -> BridgeAt | None:
    """The bridge on a port; None: there is none, or it is another user's."""
    with contextlib.suppress(OSError, ValueError):
        file = bridge_file(port)
        process, address = file.read_text(encoding="ascii").split()
        if file.lstat().st_uid in {0, os.getuid()} and Path("/proc", process).exists():
            return BridgeAt(int(process), address)
    return None


def server_behind(port: str) -> int | None:
    """The process behind a pseudo-terminal, if a busy server has noted that it left packets unanswered; else None.

    Only Linux tells which one it is. To look for it takes tens of milliseconds; 0: it is not to be found.
    """
    path = Path(os.path.realpath(port))
    if path.parent != Path("/dev/pts") or not any(Path(tempfile.gettempdir()).glob(busy_file(0).name[:-1] + "*")):
        return None
    return next((int(holder.split()[1]) for holder in _holders_of(path.name)), 0)


def unanswered_by(server: int | None, since: float) -> int:
    """Packets that a busy `axbridge serve`, see `server_behind`, has left unanswered, all in all.

    Args:
        server: Its process.
        since: S of `time.monotonic`; 0 is returned where the latest of these packets came before that.
    """
    with contextlib.suppress(OSError, ValueError):
        file = busy_file(server or 0)
        if file.lstat().st_uid == Path("/proc", str(server)).stat().st_uid:
            count, latest = file.read_text(encoding="ascii").split()
            return int(count) if float(latest) >= since else 0
    return 0


def too_busy(packets: int) -> str:
    """What is said of a server that has left so many packets unanswered."""
    return (
        f"the computer was too busy: `axbridge serve` behind this port has left {plural(packets, 'packet')} unanswered"
    )


SERVE_PATIENTLY = "close other programs, or serve with --timing none, which answers late instead"


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
