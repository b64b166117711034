"""The real robot: one serial port a bus."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

from axbridge.bus.adapter import find_port
from axbridge.bus.base import Bus
from axbridge.bus.serial import SerialBus
from axbridge.clock import WallClock
from axbridge.config.rig import Rig
from axbridge.errors import RigError, UnsupportedOperation
from axbridge.robot.backends.backend import REAL, REMOTE, Backend


def open_real(
    rig: Rig, port: str | None = None, line: Callable[..., SerialBus] = lambda _, **line: SerialBus(**line)
) -> Backend:
    """Open the port of each bus of the rig."""
    for servo in rig.servos:
        if servo.drive == "ideal":
            raise UnsupportedOperation(
                f"servo {servo.name!r} is an ideal joint, which the real backend cannot drive",
                'open it with backend="sim", or give it a Dynamixel: drive = "dynamixel"',
            )
    clock = WallClock()
    buses: dict[str, Bus] = {}
    with ExitStack() as opened:
        ports = ports_of(rig, port)
        for config, device in zip(rig.buses, ports, strict=True):
            bus = line(config.name, port=device, baud=config.baud, clock=clock)
            buses[config.name] = opened.enter_context(bus)
        closing = opened.pop_all()
    mode = REMOTE if any("://" in device for device in ports) else REAL
    return Backend("real", mode, clock, buses, closing.close)


def ports_of(rig: Rig, port: str | None = None) -> list[str]:
    """The ports of a rig's buses, in order; `port` takes the place of the first."""
    ports: list[str] = []
    for index, bus in enumerate(rig.buses):
        device = (port if index == 0 else None) or bus.port
        if device == "auto":
            device = find_port()
        for other, taken in zip(rig.buses, ports, strict=False):
            if os.path.realpath(device) == os.path.realpath(taken):
                why = f"buses {other.name!r} and {bus.name!r} are both on {device}"
                raise RigError(rig.path, f"bus.{bus.name}.port", why, "give each the port of its own adapter")
        ports.append(device)
    return ports
