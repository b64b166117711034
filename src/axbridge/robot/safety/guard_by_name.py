"""The guard for ports that have no descriptor to hand on, as on Windows: it opens them once the controller is dead.

A dead controller's ports are free again. So this guard sees death alone: a controller that hangs keeps its ports.

Usage: ``python -m axbridge.robot.safety.guard_by_name BAUD:ID,ID…:PORT …``. Standard input is the controller's pipe:
``q`` ends the watch, end-of-file without it means death. Exit code: as of `axbridge.robot.safety.guard`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import serial

from axbridge.robot.safety.guard import Descriptors, Ports, behind, end, ignore_signals, limp, parse_ids

_STDIN = 0
_OPENING = 3.0  # s to try to open a port that its owner has just left
_AGAIN = 0.05  # s between two tries


class _Opened(Descriptors):
    """How to speak on ports that pyserial has opened; they go by their index."""

    def __init__(self, ports: Sequence[Any]) -> None:
        self._ports = ports

    def send(self, port: int, data: bytes) -> None:
        one = self._ports[port]
        if one is not None:
            with contextlib.suppress(OSError):  # a SerialException is one
                one.write(data)

    def hear(self, port: int, header: bytes, patience: float, size: int = 1) -> bytes:
        until = time.monotonic() + patience
        one, heard = self._ports[port], b""
        while (
            one is not None
            and (left := until - time.monotonic()) > 0
            and not (header and header in heard[: -behind(header, size)])
        ):
            try:
                one.timeout = left
                heard += one.read(1) + one.read(one.in_waiting)
            except OSError:
                time.sleep(max(until - time.monotonic(), 0.0))
        return heard


def watch(arguments: Sequence[str]) -> int:
    """Wait for the controller's farewell or death; the exit code."""
    while signs := os.read(_STDIN, 4096):
        if b"q" in signs:
            return 0
    names, ports = [], {}
    for index, argument in enumerate(arguments):
        baud, ids, name = argument.split(":", 2)
        names.append((name, int(baud)))
        ports[index] = parse_ids(ids)
    return _act(names, ports)


def _act(names: Sequence[tuple[str, int]], ports: Ports) -> int:
    line = _Opened([_opened(name, baud) for name, baud in names])
    limp(ports, line)
    return end(ports, line, alone=True)


def _opened(name: str, baud: int) -> Any:
    """The port, or None where it cannot be had."""
    until = time.monotonic() + _OPENING
    while True:
        try:
            return serial.serial_for_url(name, baudrate=baud, timeout=0, write_timeout=1.0)
        except (OSError, ValueError):
            if time.monotonic() > until:
                return None
            time.sleep(_AGAIN)


if __name__ == "__main__":
    ignore_signals()
    sys.exit(watch(sys.argv[1:]))
