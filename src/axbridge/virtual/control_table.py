"""The control table: bytes, addresses and the rules of who may write what. Integers only; no physics, no time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from axbridge.config.profile import Area, FirmwareProfile, Register


class RegisterShare(NamedTuple):
    """One register's share of an address range; `name` is "" and `register` None for an address no register uses.

    Attributes:
        offset: Where the share starts in the range (negative: the range begins inside the register).
        whole: Whether the range covers all of it.
    """

    name: str
    offset: int
    size: int
    whole: bool
    writable: bool
    minimum: int
    maximum: int
    register: Register | None


class ControlTable:
    """The registers of one servo.

    Attributes:
        data: All bytes, addresses 0 to `size` - 1.
        shares: The registers that a range touches, in order, by its address and length.
    """

    def __init__(self, profile: FirmwareProfile) -> None:
        self._profile = profile
        self.size: int = profile.size
        self.data: bytearray = bytearray(self.size)
        self._place = {name: (r.address, r.size, r.signed) for name, r in profile.registers.items()}
        self._coded = {name: r for name, r in profile.registers.items() if r.sign_bit or r.byteorder == "big"}
        self._at = {address: name for name, r in profile.registers.items() for address in range(r.address, r.end)}
        self.shares: Callable[[int, int], tuple[RegisterShare, ...]] = cache(self._find_shares)
        self.factory_reset()
        self.power_on()

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def __getitem__(self, name: str) -> int:
        """Value of a register."""
        address, size, signed = self._place[name]
        if self._coded and (register := self._coded.get(name)):
            return register.decode(self.data[address : address + size])
        value = self.data[address]
        if size == 2:
            value |= self.data[address + 1] << 8
        elif size == 4:
            value = int.from_bytes(self.data[address : address + 4], "little")
        return value - (1 << 8 * size) if signed and value >> 8 * size - 1 else value

    def __setitem__(self, name: str, value: int) -> None:
        """Store a value as it is, by the firmware's own hand: no rule is checked."""
        address, size, _ = self._place[name]
        if self._coded and (register := self._coded.get(name)):
            lowest, highest = register.span
            self.data[address : address + size] = register.encode(min(max(value, lowest), highest))
            return
        self.data[address] = value & 0xFF
        if size == 2:
            self.data[address + 1] = value >> 8 & 0xFF
        elif size == 4:
            self.data[address : address + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")

    def get(self, name: str, default: int = 0) -> int:
        """Value of a register, or `default` when this model has no such register."""
        return self[name] if name in self._place else default

    def factory_reset(self) -> None:
        """Write the factory values into the EEPROM area."""
        self._load(Area.EEPROM)
        self["model_number"] = self._profile.model_number
        self["firmware_version"] = self._profile.firmware_version

    def power_on(self) -> None:
        """Give the RAM area its factory values; ``@name`` registers copy the register they name."""
        ram = self._profile.eeprom_end
        self.data[ram:] = bytes(self.size - ram)
        self._load(Area.RAM)

    def start(self, name: str) -> None:
        """Reset a register to its factory value or that of the register it copies."""
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
                shares.append(RegisterShare("", position - address, 1, True, False, 0, 255, None))
                position += 1
                continue
            one = self._profile.registers[name]
            offset, whole = one.address - address, one.address >= address and one.end <= address + length
            shares.append(RegisterShare(name, offset, one.size, whole, one.writable, one.minimum, one.maximum, one))
            position = one.end
        return tuple(shares)

    def patched(self, share: RegisterShare, data: bytes) -> int:
        """What a register is to hold after a write of `data`: as it is, with those bytes replaced that they cover."""
        name, offset, size = share[:3]
        if share.whole and name not in self._coded:
            return int.from_bytes(data[offset : offset + size], "little", signed=self._place[name][2])
        assert share.register is not None  # an address without a register is not writable
        if share.whole:
            return share.register.decode(data[offset : offset + size])
        address = self._place[name][0]
        register = self.data[address : address + size]
        for byte in range(max(-offset, 0), min(size, len(data) - offset)):
            register[byte] = data[offset + byte]
        return share.register.decode(register)
