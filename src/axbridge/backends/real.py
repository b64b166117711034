"""The real robot: one serial port a bus."""

from __future__ import annotations

from contextlib import ExitStack

from serial.tools import list_ports

from axbridge.backends.backend import REAL, REMOTE, Backend
from axbridge.bus.base import Bus
from axbridge.bus.serial import SerialBus
from axbridge.clock import WallClock
from axbridge.errors import PortError
from axbridge.rig import BusConfig, Rig

__all__ = ["find_port", "open_real"]

# Adapters people drive AX-12s with: FTDI (USB2Dynamixel, U2D2), USB2AX, ROBOTIS OpenCM and OpenRB, CH340, CP210x.
_ADAPTERS = {0x0403, 0x16D0, 0xFFF1, 0x2F5D, 0x1A86, 0x10C4}


def find_port() -> str:
    """The serial device of the only adapter plugged in.

    Raises:
        PortError: none, or more than one; the message lists them.
    """
    ports = [port.device for port in list_ports.comports() if port.vid in _ADAPTERS]
    if len(ports) == 1:
        return ports[0]
    found = f"found {', '.join(sorted(ports))}" if ports else "found no USB adapter"
    raise PortError(
        "auto", found, "name one: --port /dev/ttyUSB0, or without hardware: `axbridge serve RIG` prints a port"
    )


def open_real(rig: Rig, port: str | None = None) -> Backend:
    """Open the port of each bus of the rig.

    Args:
        rig: Its buses name their ports; ``auto`` takes the only adapter there is.
        port: Takes the place of the first bus's port.

    Raises:
        PortError: a port is missing, ambiguous, busy or no serial line; none is left open.
    """
    clock = WallClock()
    buses: dict[str, Bus] = {}
    with ExitStack() as opened:
        ports = [_port_of(bus, port if index == 0 else None) for index, bus in enumerate(rig.buses)]
        for config, device in zip(rig.buses, ports, strict=True):
            buses[config.name] = opened.enter_context(SerialBus(device, config.baud, clock=clock))
        closing = opened.pop_all()
    mode = REMOTE if any("://" in device for device in ports) else REAL
    return Backend("real", mode, clock, buses, closing.close)


def _port_of(config: BusConfig, given: str | None) -> str:
    port = given or config.port
    return find_port() if port == "auto" else port
