"""A robot as it is driven for the first time: whatever ends the program, motors are off, and servos as before."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from axbridge.bus.commission import read_register
from axbridge.bus.handshake import ExpectedBus
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import Address
from axbridge.config.rig import Rig
from axbridge.errors import BusError, PortError
from axbridge.packets import BROADCAST

__all__ = ["SHARE", "calm", "powered", "silence", "torque_limits_kept"]

SHARE = 0.2  # of a servo's torque: it holds a joint that hands carry, and a finger stops it
_FREE = 5.0  # s in which the guard of a dead program lets the port go
_ATTEMPTS = 5


def calm(rig: Rig) -> Rig:
    """The rig with motors that are off at every end, whatever it says itself."""
    return rig.overridden({"safety": {"on_exit": "limp"}})


def silence(lines: Sequence[ExpectedBus]) -> None:
    """Switch every motor off by a broadcast, whoever is there.

    Raises:
        PortError: a port cannot be opened.
    """
    for line in lines:
        with SerialBus(line.port, line.baud) as bus:
            for _ in range(_ATTEMPTS):
                bus.write(BROADCAST, Address.TORQUE_ENABLE, b"\0")


def powered(lines: Sequence[ExpectedBus]) -> list[str]:
    """Servos that have torque, or do not say, by name; all are switched off then.

    Raises:
        PortError: a port cannot be opened.
    """
    on = []
    for line in lines:
        with _opened(line) as bus:
            for servo in line.servos:
                for _ in range(_ATTEMPTS):
                    try:
                        torque = read_register(bus, servo.id, servo.profile.register("torque_enable"))
                    except PortError:
                        raise
                    except BusError:
                        continue
                    break
                else:
                    torque = 1
                if torque:
                    on.append(servo.name)
            bus.write(BROADCAST, Address.TORQUE_ENABLE, b"\0")
    return on


@contextmanager
def torque_limits_kept(lines: Sequence[ExpectedBus]) -> Iterator[None]:
    """Give every servo the torque limit back that it had before the block: a program that is killed cannot do that.

    Raises:
        BusError: a servo cannot be asked, or a port cannot be opened.
    """
    before: list[dict[int, bytes]] = []
    for line in lines:
        with SerialBus(line.port, line.baud) as bus:
            register = Address.TORQUE_LIMIT
            before.append({servo.id: bus.read(servo.id, register, 2).data for servo in line.servos})
    try:
        yield
    finally:
        with suppress(BusError):  # it must not hide what ended the block
            for line, limits in zip(lines, before, strict=True):
                with _opened(line) as bus:
                    bus.sync_write(Address.TORQUE_LIMIT, limits)


def _opened(line: ExpectedBus) -> SerialBus:
    """The line, as soon as the guard of a dead program has let it go."""
    until = time.monotonic() + _FREE
    while True:
        try:
            return SerialBus(line.port, line.baud)
        except PortError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
