"""The control table: bytes, addresses and access rules. Integers only; no physics, no time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from axbridge.config.profile import Area, FirmwareProfile, Register

# by size in bytes, and whether signed
FORMS = {(1, False): "B", (1, True): "b", (2, False): "H", (2, True): "h", (4, False): "I", (4, True): "i"}


class RegisterShare(NamedTuple):
    """The part of an address range that belongs to one register."""

    name: str  # "" for an address that no register uses
    offset: int  # start of the part in the range; negative: the range begins inside the register
    whole: bool  # whether the range covers the whole register
    writable: bool
    limits: tuple[int, int]  # smallest and largest writable value


class ControlTable:
    """The registers of one servo."""

    def __init__(self, profile: FirmwareProfile) -> None:
        self._profile = profile
        self.size: int = profile.size
        self.data: bytearray = bytearray(self.size)
        self._place = {name: (r.address, r.size, _plain(r)) for name, r in profile.registers.items()}
        self._at = {address: name for name, r in profile.registers.items() for address in range(r.address, r.end)}
        # Parts of the registers in a range, in order, by its address and length.
        self.shares: Callable[[int, int], tuple[RegisterShare, ...]] = cache(self._find_shares)
        self.factory_reset()
        self.power_on()

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def __getitem__(self, name: str) -> int:
        """Return the value of a register."""
        address, size, plain = self._place[name]
        if plain is None:
            return self._profile.registers[name].decode(self.data[address : address + size])
        return plain.unpack_from(self.data, address)[0]  # type: ignore[no-any-return]

    def __setitem__(self, name: str, value: int) -> None:
        """Store a value as the firmware does: without access rules, clipped or truncated to the register's size."""
        address, size, plain = self._place[name]
        if plain is None:
            register = self._profile.registers[name]
            lowest, highest = register.span
            self.data[address : address + size] = register.encode(min(max(value, lowest), highest))
        else:
            self.data[address : address + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def get(self, name: str, default: int = 0) -> int:
        """Return the value of a register, or `default` if this model does not have it."""
        return self[name] if name in self._place else default

    def factory_reset(self) -> None:
        """Write the factory values into the EEPROM area."""
        self._load(Area.EEPROM)
        self["model_number"] = self._profile.model_number
        self["firmware_version"] = self._profile.firmware_version

    def power_on(self) -> None:
        """Set the RAM area to its factory values; ``@name`` registers copy the named register."""
        ram = self._profile.eeprom_end
        self.data[ram:] = bytes(self.size - ram)
        self._load(Area.RAM)

    def start(self, name: str) -> None:
        """Reset a register to its factory value, or to the value of the register that it copies."""
        source = self._profile.registers[name].initial
        self[name] = source if isinstance(source, int) else self[source.removeprefix("@")]

    def _load(self, area: Area) -> None:
        for name, register in self._profile.registers.items():
            if register.area is area:
                self.start(name)

    def _find_shares(self, address: int, length: int) -> tuple[RegisterShare, ...]:
        shares: list[RegisterShare] = []
        position = address
        while position < address + length:
            name = self._at.get(position)
            if name is None:
                shares.append(RegisterShare("", position - address, True, False, (0, 255)))
                position += 1
                continue
            register = self._profile.registers[name]
            offset, whole = register.address - address, register.address >= address and register.end <= address + length
            shares.append(RegisterShare(name, offset, whole, register.writable, (register.minimum, register.maximum)))
            position = register.end
        return tuple(shares)

    def patched(self, share: RegisterShare, data: bytes) -> int:
        """Return a register's value after a write of `data`; bytes that the write does not cover stay."""
        name, offset = share.name, share.offset
        address, size, plain = self._place[name]
        if share.whole and plain is not None:
            return plain.unpack_from(data, offset)[0]  # type: ignore[no-any-return]
        register = self.data[address : address + size]
        for byte in range(max(-offset, 0), min(size, len(data) - offset)):
            register[byte] = data[offset + byte]
        return self._profile.registers[name].decode(register)


def _plain(register: Register) -> struct.Struct | None:
    """Return the register's `struct` format; None if sign or byte order need `Register.decode`."""
    coded = register.sign_bit or register.byteorder == "big"
    return None if coded else struct.Struct("<" + FORMS[register.size, register.signed])
