"""A robot as it is driven for the first time: whatever ends the program, motors are off, and servos as before."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from axbridge.bus.handshake import ExpectedBus
from axbridge.bus.serial import SerialBus
from axbridge.config.rig import Rig
from axbridge.errors import BusError, BusTimeout, CorruptPacket, PortError

SHARE = 0.2  # of a servo's torque: it holds a joint that hands carry, and a finger stops it
_FREE = 5.0  # s in which the guard of a dead program lets the port go
_ATTEMPTS = 5  # on a line that loses packets
_PATIENCE = 0.02  # s: an answer that a busy computer keeps waiting is not lost


def calm(rig: Rig) -> Rig:
    """The rig with motors that are off at every end, whatever it says itself."""
    return rig.overridden({"safety": {"on_exit": "limp"}})


def silence(lines: Sequence[ExpectedBus]) -> None:
    """Switch every motor off by a broadcast, whoever is there.

    Raises:
        PortError: a port cannot be opened.
    """
    for line in lines:
        with line.open() as bus:
            _silence(bus, line)


def powered(lines: Sequence[ExpectedBus]) -> list[str]:
    """Servos that have torque, or do not say, by name; all are switched off then.

    Raises:
        PortError: a port cannot be opened.
    """
    on = []
    for line in lines:
        with _opened(line) as bus:
            for servo in line.servos:
                try:
                    torque = _read(bus, servo.id, servo.protocol.torque_enable, 1) != b"\0"
                except PortError:
                    raise
                except BusError:
                    torque = True
                if torque:
                    on.append(servo.name)
            _silence(bus, line)
    return on


@contextmanager
def torque_limits_kept(lines: Sequence[ExpectedBus]) -> Iterator[None]:
    """Give every servo the torque limit back that it had before the block: a program that is killed cannot do that.

    Raises:
        BusError: a servo cannot be asked, or a port cannot be opened.
    """
    before: list[dict[int, bytes]] = []
    for line in lines:
        with _opened(line) as bus:
            before.append({one.id: _read(bus, one.id, one.protocol.torque_limit, 2) for one in line.servos})
    try:
        yield
    finally:
        with suppress(BusError):  # it must not hide what ended the block
            for line, limits in zip(lines, before, strict=True):
                with _opened(line) as bus:
                    for protocol, ids in bus.by_protocol(limits).items():
                        for _ in range(_ATTEMPTS):
                            bus.sync_write(protocol.torque_limit, {id_: limits[id_] for id_ in ids})


def _silence(bus: SerialBus, line: ExpectedBus) -> None:
    for _ in range(_ATTEMPTS):  # nobody answers a broadcast
        for protocol in {servo.protocol for servo in line.servos}:
            bus.limp_all(protocol)


def _read(bus: SerialBus, id: int, address: int, length: int) -> bytes:
    """Ask a servo on a line that may lose packets.

    Raises:
        BusError: it never answers.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(BusTimeout, CorruptPacket):
            return bus.read(id, address, length).data
    return bus.read(id, address, length).data


def _opened(line: ExpectedBus) -> SerialBus:
    """The line, as soon as the guard of a dead program has let it go."""
    until = time.monotonic() + _FREE
    while True:
        try:
            bus = line.open()
        except PortError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
            continue
        bus.latency = max(bus.latency, _PATIENCE)
        return bus
