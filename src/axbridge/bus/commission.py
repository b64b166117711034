"""Registers set to what a rig wants, with as little EEPROM wear as possible: read first, write what differs, verify."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from axbridge.bus.base import Bus
from axbridge.config.profile import Area, FirmwareProfile, Register
from axbridge.errors import BusError, BusTimeout, CorruptPacket, ServoFault, UsageError

__all__ = ["apply_registers", "read_register", "write_register"]

_DEAF_SPARE = 1.5  # 6 ms a byte is a measured mean; 8.5 ms is the EEPROM's data-sheet figure


def read_register(bus: Bus, id: int, register: Register) -> int:
    """Value of one register.

    Raises:
        ServoFault: the servo refused the read.
        BusTimeout, CorruptPacket, PortError: as `Bus.read`.
    """
    reply = bus.read(id, register.address, register.size)
    if len(reply.data) != register.size:
        raise ServoFault(id, reply.error, f"it has no register at address {register.address}")
    return int.from_bytes(reply.data, "little", signed=register.signed)


def write_register(bus: Bus, id: int, profile: FirmwareProfile, name: str, value: int) -> int:
    """Set one register if it differs, and verify; returns the EEPROM bytes written (0: nothing to do, or RAM).

    After an EEPROM write the servo is given its deaf time (6 ms a byte).

    Raises:
        ProfileError: this model has no such register.
        UsageError: the register cannot be written, or not with this value.
        ServoFault: the servo refused the write, or holds another value afterwards.
        BusTimeout, CorruptPacket, PortError: as `Bus.write`.
    """
    register = profile.register(name)
    if not register.writable:
        raise UsageError(f"{name} can only be read", "`axbridge servo info ID` lists the registers")
    if not register.minimum <= value <= register.maximum:
        raise UsageError(f"{name} takes {register.minimum}..{register.maximum}, not {value}")
    if read_register(bus, id, register) == value:
        return 0
    reply = bus.write(id, register.address, value.to_bytes(register.size, "little", signed=register.signed))
    worn = register.size if register.area is Area.EEPROM else 0
    if worn:
        deaf = worn * profile.timing.eeprom_deaf_us_per_byte * 1e-6 * _DEAF_SPARE
        bus.clock.sleep_until(bus.clock.now() + deaf)
    if name == "status_return_level":
        bus.silent = bus.silent - {id} if value == 2 else bus.silent | {id}
    holder = value if name == "id" else id
    found = _read_patiently(bus, holder, register)
    if found != value:
        flags = reply.error if reply else 0
        raise ServoFault(id, flags, f"{name} is {found} after writing {value}: the servo refused it")
    return worn


def _read_patiently(bus: Bus, id: int, register: Register) -> int:
    """Read once more when the servo was still deaf."""
    with contextlib.suppress(BusTimeout, CorruptPacket):
        return read_register(bus, id, register)
    bus.clock.sleep_until(bus.clock.now() + 0.03)
    return read_register(bus, id, register)


def apply_registers(
    bus: Bus, id: int, profile: FirmwareProfile, values: Mapping[str, int]
) -> tuple[int, dict[str, BusError]]:
    """Set several registers as `write_register` does, whatever fails on the way.

    Returns:
        EEPROM bytes written, and the registers that failed, by name.

    Raises:
        ProfileError, UsageError: as `write_register`; nothing was written then.
        PortError: the line is gone.
    """
    for name, value in values.items():
        register = profile.register(name)
        if not register.writable or not register.minimum <= value <= register.maximum:
            raise UsageError(
                f"{name} = {value} cannot be written to a {profile.name}",
                f"it takes {register.minimum}..{register.maximum}" if register.writable else "it can only be read",
            )
    worn = 0
    errors: dict[str, BusError] = {}
    for name, value in values.items():
        try:
            worn += write_register(bus, id, profile, name, value)
        except (BusTimeout, CorruptPacket, ServoFault) as error:
            errors[name] = error
    return worn, errors
