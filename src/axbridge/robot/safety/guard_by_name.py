"""The guard for ports that have no descriptor to hand on, as on Windows: it opens them once the controller is dead.

A dead controller's ports are free again. So this guard sees death alone: a controller that hangs keeps its ports.

Usage: ``python -m axbridge.robot.safety.guard_by_name SERVO…``, as of `axbridge.robot.safety.guard`, where a port is
``BAUD:NAME``. Standard input is the controller's pipe: ``q`` ends the watch, end-of-file without it means death.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import serial

from axbridge.robot.safety.guard import Line, end, ignore_signals, limp, parse

_STDIN = 0
_OPENING = 3.0  # s to try to open a port that its owner has just left
_AGAIN = 0.05  # s between two tries


class _Opened(Line):
    """How to speak on ports that pyserial opens."""

    def __init__(self, ports: Iterable[str]) -> None:
        self._ports = {port: _opened(port) for port in ports}

    def send(self, port: str, data: bytes) -> None:
        one = self._ports[port]
        if one is not None:
            with contextlib.suppress(OSError):  # a SerialException is one
                one.write(data)

    def receive(self, port: str, patience: float) -> bytes:
        one = self._ports[port]
        if one is not None:
            with contextlib.suppress(OSError):
                one.timeout = patience
                return bytes(one.read(1) + one.read(one.in_waiting))
        time.sleep(patience)
        return b""


def watch(arguments: Sequence[str]) -> int:
    """Wait for the controller's farewell or death; the exit code."""
    while signs := os.read(_STDIN, 4096):
        if b"q" in signs:
            return 0
    servos = [parse(argument) for argument in arguments]
    line = _Opened({servo.port for servo in servos})
    limp(servos, line)
    return end(servos, line, alone=True)


def _opened(port: str) -> Any:
    """The port, or None where it cannot be had."""
    baud, _, name = port.partition(":")
    until = time.monotonic() + _OPENING
    while True:
        try:
            return serial.serial_for_url(name, baudrate=int(baud), timeout=0, write_timeout=1.0)
        except (OSError, ValueError):
            if time.monotonic() > until:
                return None
            time.sleep(_AGAIN)


if __name__ == "__main__":
    ignore_signals()
    sys.exit(watch(sys.argv[1:]))
