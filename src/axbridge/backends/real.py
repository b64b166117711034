"""The real robot: one serial port a bus."""

from __future__ import annotations

from contextlib import ExitStack

from axbridge.backends.backend import REAL, REMOTE, Backend
from axbridge.bus.adapter import find_port
from axbridge.bus.base import Bus
from axbridge.bus.serial import SerialBus
from axbridge.clock import WallClock
from axbridge.rig import BusConfig, Rig

__all__ = ["open_real"]


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
            buses[config.name] = bus = opened.enter_context(SerialBus(device, config.baud, clock=clock))
            bus.prepare()
        closing = opened.pop_all()
    mode = REMOTE if any("://" in device for device in ports) else REAL
    return Backend("real", mode, clock, buses, closing.close)


def _port_of(config: BusConfig, given: str | None) -> str:
    port = given or config.port
    return find_port() if port == "auto" else port
