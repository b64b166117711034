"""What kind of adapter a port is, and what that means for time-outs: no I/O on the port itself."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from axbridge.errors import PortError

Kind = Literal["ftdi", "cdc", "pty", "uart", "remote", "unknown"]

# Adapters people drive AX-12s with: FTDI (USB2Dynamixel, U2D2), USB2AX, ROBOTIS OpenCM and OpenRB, CH340, CP210x.
_VENDORS = {0x0403, 0x16D0, 0xFFF1, 0x2F5D, 0x1A86, 0x10C4}
_LOCAL_MARGIN = 0.004  # s: what a busy host needs to wake us up, beyond the adapter's own latency
_REMOTE_MARGIN = 0.100  # s
_FTDI_DEFAULT_TIMER = 16  # ms


@dataclass(frozen=True)
class Adapter:
    """Facts about a port.

    Attributes:
        port: Device path or URL.
        kind: ``ftdi`` (USB2Dynamixel, U2D2), ``cdc`` (USB2AX and other ttyACM), ``pty`` (virtual bus), ``uart``,
            ``remote`` (a pyserial URL), or ``unknown``.
        latency_timer: Milliseconds an FTDI chip collects bytes before it hands them over; None: no such timer.
        latency_file: Where that timer can be set; None likewise.
    """

    port: str
    kind: Kind
    latency_timer: int | None = None
    latency_file: Path | None = None

    @property
    def latency(self) -> float:
        """Time to allow for the way through adapter and host, s, before any measurement."""
        if self.kind == "remote":
            return _REMOTE_MARGIN
        timer = self.latency_timer if self.latency_timer is not None else 0
        return timer * 1e-3 + _LOCAL_MARGIN


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
    found = connected()
    if len(found) == 1:
        return found[0]
    if not found:
        raise PortError(
            "auto",
            "no USB serial adapter is connected",
            "plug the adapter in, name the port with --port, or start a virtual bus with `axbridge serve RIG`",
        )
    raise PortError("auto", f"several adapters are connected: {', '.join(found)}", "choose one with --port")
