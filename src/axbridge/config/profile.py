"""A servo model as data: control table, firmware behaviour, timing and motor constants."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from axbridge.config import toml_tables
from axbridge.config.registers import (
    CURRENT_MODES,
    EEPROM_END,
    FAMILIES,
    MOST_OFFSET,
    UNITS,
    Address,
    DriveMode,
    Names,
    OperatingMode,
    UnitsName,
    Version,
)
from axbridge.errors import ErrorFlag, FeetechError, HardwareError, ProfileError, nearest
from axbridge.file_reading import snake_case
from axbridge.units import RPM, Units, bits_to_signed, from_sign_magnitude, sign_magnitude

FOLDER = "firmware_profiles"
HOT_MARGIN = 5  # °C; a servo is hot from this margin below its Temperature Limit, at which it shuts down
_INDIRECT = re.compile(r"indirect_data_(\d+)")
_ADDRESSES_1 = 256  # number of addresses in Protocol 1.0
_BIG_ENDIAN = [name for name, family in FAMILIES.items() if family.byteorder == "big"]
_M06_UNLOCKED = range(Address.TORQUE_ENABLE, Address.PRESENT_POSITION)  # writable under Lock, manual of 2006


class Area(str, Enum):
    """Memory of a register: EEPROM keeps its value without power, RAM does not."""

    EEPROM = "eeprom"
    RAM = "ram"


class Register(toml_tables.TomlTable):
    """One entry of a control table."""

    address: int = Field(ge=0, le=0xFFFF)  # first byte; up to 255 in Protocol 1.0
    size: Literal[1, 2, 4] = 1  # bytes, 1, 2 or 4
    access: Literal["r", "rw"] = "r"  # `r` or `rw`
    area: Area = Field(default=Area.RAM, strict=False)  # EEPROM or RAM
    initial: int | str = 0  # factory value, or `@name`: copied from that register at power-on
    minimum: int = Field(default=0, alias="min")  # lowest value a write may carry
    maximum: int = Field(default=255, alias="max")  # highest value a write may carry
    unit: str = ""  # unit of one count; "" for a plain number
    signed: bool = False  # two's complement
    # sign bit of a sign-magnitude value; 0: none
    sign_bit: int = Field(default=0, ge=0, le=15)
    byteorder: Literal["little", "big"] = "little"  # as in its protocol

    @property
    def end(self) -> int:
        """Return the first address after the register."""
        return self.address + self.size

    @property
    def writable(self) -> bool:
        """Return whether a WRITE may change the register."""
        return self.access == "rw"

    @property
    def span(self) -> tuple[int, int]:
        """Return the lowest and highest value that the register's bytes can represent."""
        most = (1 << (self.sign_bit or 8 * self.size - self.signed)) - 1
        return (-most if self.sign_bit else ~most if self.signed else 0), most

    def decode(self, data: bytes | bytearray) -> int:
        """Return the value of the register's bytes."""
        value = int.from_bytes(data, self.byteorder, signed=self.signed)
        return from_sign_magnitude(value, self.sign_bit) if self.sign_bit else value

    def encode(self, value: int) -> bytes:
        """Return the bytes of a value within `span`."""
        value = sign_magnitude(value, self.sign_bit) if self.sign_bit else value
        return value.to_bytes(self.size, self.byteorder, signed=self.signed)


class Behaviour(toml_tables.TomlTable):
    """Differences between Protocol 1.0 firmwares (the flags of a profile); the defaults are the AX-12A's."""

    goal_outside_limits: Literal["reject", "clamp"] = "reject"
    auto_torque_on_goal: bool = True
    auto_torque_in_wheel: bool = False
    goal_follows_present_on_torque_on: bool = True
    lock_scope: Literal["m06", "eeprom", "power_off"] = "eeprom"
    reset_0x06: Literal["respond_then_reset", "ignore"] = "respond_then_reset"
    broadcast_ping: Literal["answer", "ignore"] = "answer"
    bad_checksum: Literal["reply_0x10", "silent"] = "reply_0x10"
    short_instruction: Literal["reply_0x40", "reply_0x08"] = "reply_0x40"
    out_of_table: Literal["reply_0x08_no_params", "silent", "zeros"] = "reply_0x08_no_params"
    read_only_write: Literal["reply_0x08", "ignore"] = "reply_0x08"
    split_word_write: Literal["reply_0x08", "accept"] = "reply_0x08"
    shutdown_effect: Literal["torque_limit_zero", "torque_enable_off"] = "torque_limit_zero"
    overload_latched: bool = False
    wheel_mode: Literal["duty", "speed"] = "duty"
    multi_turn: bool = False
    speed_quirk: Literal["none", "stale", "garbage_high_bits"] = "none"

    def locks(self, address: int, length: int) -> bool:
        """Return whether Lock = 1 refuses a write of `length` bytes at `address`."""
        if self.lock_scope == "m06":
            return address not in _M06_UNLOCKED or address + length - 1 not in _M06_UNLOCKED
        return self.lock_scope == "eeprom" and address < EEPROM_END


class Timing(toml_tables.TomlTable):
    """Timing of replies, and limits of the receiver."""

    # reply delay at return delay 0, µs, by instruction name (PING, READ, WRITE; others as WRITE)
    reply_us: dict[str, float] = {"PING": 18.0, "READ": 22.0, "WRITE": 24.0}
    reply_us_per_byte: float = 6.0  # added per parameter byte of a WRITE or REG_WRITE, µs
    return_delay_us_per_unit: float = 3.16  # one unit of the return delay register, µs (documented 2.0; 3.16 measured)
    isr_period_us: float = 1000.0  # period of the motor-control interrupt, which can delay a reply, µs
    isr_length_us: float = 130.0  # length of that delay, µs
    # after its reply, the servo receives nothing for this time per changed EEPROM byte, µs
    eeprom_deaf_us_per_byte: float = 6000.0
    rx_buffer: int = 143  # longest packet accepted, bytes
    inter_byte_timeout_ms: float = 100.0  # a longer pause inside a packet discards it, ms
    baud_tolerance: float = 0.03  # largest relative baud error at which packets are received
    boot_ms: float = 100.0  # power-on to the first packet received, ms

    def eeprom_wait(self, count: int) -> float:
        """Return the pause after a write of `count` EEPROM bytes, s: 1.5 times the write time."""
        return 1.5e-6 * self.eeprom_deaf_us_per_byte * count


class Protection(toml_tables.TomlTable):
    """When the firmware reports an overload. No manual gives figures: these are a design choice."""

    overload_duty: float = Field(default=0.95, gt=0, le=1)  # share of the torque limit that counts as full torque
    # share of the no-load speed below which the shaft counts as stalled
    overload_speed: float = Field(default=0.05, ge=0, le=1)
    overload_s: float = Field(default=1.5, gt=0)  # full torque at stall for this time is an overload, s
    reset_voltage: float = Field(default=4.5, ge=0)  # below this supply the controller resets, V
    # share of its torque that the host leaves a stalled joint, unless the rig sets `stall`; 1 = all of it
    stall: float = Field(default=1.0, gt=0, le=1)


class Electrics(toml_tables.TomlTable):
    """Data-sheet figures at the output shaft."""

    nominal_voltage: float = Field(gt=0)  # voltage of the figures, V
    stall_torque: float = Field(gt=0)  # N·m
    no_load_speed: float = Field(gt=0)  # rpm


class FirmwareProfile(toml_tables.TomlTable):
    """One servo model."""

    name: str = Field(min_length=1)  # the profile's name
    description: str = ""  # text in lists of profiles
    protocol: Version = 1  # version of its protocol
    model_number: int = Field(ge=0, le=0xFFFF)  # value of the model number register
    firmware_version: int = Field(default=24, ge=0, le=255)  # value of that register
    instructions: tuple[str, ...]  # names of the supported instructions
    # family of register units. It also selects the drive (`DRIVES` in `robot/drives/known.py`) and the virtual
    # servo's firmware (`FIRMWARES` in `virtual/servo.py`)
    units_name: UnitsName = Field(alias="units")
    # control table by register name. A file may write equal neighbours as one entry with `count`
    registers: dict[str, Register]
    behaviour: Behaviour = Behaviour()  # firmware flags
    timing: Timing = Timing()  # reply timing and receiver limits
    protection: Protection = Protection()  # conditions of an overload
    electrics: Electrics  # data-sheet figures
    # motor constants, the defaults of servo models that do not set them (`axbridge.config.model`)
    motor: dict[str, float] = {}
    friction: dict[str, Any] = {}  # friction constants, likewise
    model: str = "lima2009"  # default servo model of the simulation
    path: Path = Path()  # file it came from

    @classmethod
    def load(cls, path_or_name: str | Path) -> FirmwareProfile:
        """Load a profile by name (``ax-12a``) or path.

        Raises:
            ProfileError: no such profile, or a mistake in it; names file, key and the fix.
        """
        return _load(toml_tables.find_toml(path_or_name, FOLDER, ProfileError).resolve())

    @property
    def units(self) -> Units:
        """Return the factors from counts to SI units."""
        return UNITS[self.units_name]

    @cached_property
    def size(self) -> int:
        """Return the bytes of the control table: one more than the highest address used."""
        return max(register.end for register in self.registers.values())

    @cached_property
    def pointers(self) -> dict[int, int]:
        """Return, by address of each Indirect Data byte, the address of its Indirect Address register."""
        return {
            register.address: self.registers[f"indirect_address_{match[1]}"].address
            for name, register in self.registers.items()
            if (match := _INDIRECT.fullmatch(name))
        }

    @property
    def listed(self) -> str:
        """Return the names of the registers for a message; numbered ones are grouped: ``led_1 to led_4``."""
        groups: dict[str, list[str]] = {}
        for name in self.registers:
            stem, _, number = name.rpartition("_")
            groups.setdefault(stem if number.isdecimal() else name, []).append(name)
        return ", ".join(sorted(" to ".join(dict.fromkeys((names[0], names[-1]))) for names in groups.values()))

    @property
    def eeprom_end(self) -> int:
        """Return the first RAM address."""
        return int(FAMILIES[self.protocol].addresses.TORQUE_ENABLE)

    @property
    def maker(self) -> str:
        """Return the maker; servos of two makers cannot share a line."""
        return FAMILIES[self.protocol].maker

    @property
    def names(self) -> Names:
        """Return the names of the registers that all servos have."""
        return FAMILIES[self.protocol].names

    @property
    def operating_modes(self) -> tuple[int, ...]:
        """Allowed values of Operating Mode; empty without that register. Current modes need a Goal Current."""
        if "operating_mode" not in self.registers:
            return ()
        if self.protocol != 2:
            return tuple(range(self.registers["operating_mode"].maximum + 1))
        return tuple(
            int(mode) for mode in OperatingMode if mode not in CURRENT_MODES or "goal_current" in self.registers
        )

    def turn(self, registers: Mapping[str, int]) -> tuple[int, int] | None:
        """Return the lowest and highest position that a servo with these `registers` can have after torque on, counts.

        In Position Control Mode an X servo then wraps its count into one turn, and adds its Homing Offset (e-manual,
        Present Position). None: the servo keeps its count.
        """
        if self.protocol != 2 or registers.get("operating_mode", OperatingMode.POSITION) != OperatingMode.POSITION:
            return None
        offset = registers.get("homing_offset", 0)
        if abs(offset) > MOST_OFFSET:
            offset = 0
        return offset, offset + self.units.counts

    def counts_turns(self, registers: Mapping[str, int]) -> bool:
        """Return whether a servo with these `registers` counts turns: an X servo not in Position Control Mode."""
        return self.protocol == 2 and self.turn(registers) is None

    def reach(self, registers: Mapping[str, int]) -> tuple[int, int]:
        """Return the lowest and highest goal that an X servo with these `registers` can reach, counts; see `turn`."""
        if (turn := self.turn(registers)) is not None:
            return max(turn[0], 0), min(turn[1], self.units.counts)
        goals = self.register("goal_position")
        return goals.minimum, goals.maximum

    def put_back(self, position: int, registers: Mapping[str, int]) -> int:
        """Return the position after torque on of a servo that now reads `position`, counts; see `turn`."""
        turn = self.turn(registers)
        return position if turn is None else turn[0] + (position - turn[0]) % (self.units.counts + 1)

    @property
    def p_gain(self) -> int:
        """Return the factory value of the P gain, for servos with a PID position loop."""
        name = "position_p_gain" if "position_p_gain" in self.registers else "p_gain"
        return int(self.register(name).initial)

    def has_law(self, law: str) -> bool:
        """Return whether the firmware has the registers that a position law of a model needs."""
        needed = {"compliance": {"cw_compliance_slope"}, "pid": {"p_gain", "position_p_gain"}}.get(law)
        return needed is None or not needed.isdisjoint(self.registers)

    def hot_from(self, registers: Mapping[str, int]) -> int:
        """Return the temperature from which a servo with these registers is hot, °C: `HOT_MARGIN` below its limit."""
        return registers.get("temperature_limit", int(self.register("temperature_limit").initial)) - HOT_MARGIN

    def register_name(self, word: str, prefix: str = "") -> str:
        """Return the name of a register given by name, by address or in the e-manual's words (``Goal Position``).

        Args:
            word: The typed text.
            prefix: Prefix that may be left out: ``present_`` for ``position``.

        Raises:
            ProfileError: the model has no such register.
        """
        if word.isdecimal():
            name_at = next((name for name, register in self.registers.items() if register.address == int(word)), None)
            if name_at is None:
                raise ProfileError(self.path, f"registers.{word}", f"{self.name} has no register at address {word}")
            return name_at
        name = snake_case(word)
        if name not in self.registers and prefix + name in self.registers:
            name = prefix + name
        self.register(name)
        return name

    def register(self, name: str) -> Register:
        """Return the register called `name`.

        Raises:
            ProfileError: the model has no such register; the hint lists similar names.
        """
        if name in self.registers:
            return self.registers[name]
        hint = f"{nearest(str(name), self.registers)}it has: {self.listed}"
        raise ProfileError(self.path, f"registers.{name}", f"{self.name} has no such register", hint)

    @model_validator(mode="before")
    @classmethod
    def _write_out(cls, data: Any) -> Any:
        """Expand entries with ``count``: ``led_4 = { address = 70, count = 2 }`` gives ``led_4`` and ``led_5``."""
        registers = data.get("registers") if isinstance(data, Mapping) else None
        if not isinstance(registers, Mapping):
            return data
        written: dict[str, Any] = {}
        order = {"byteorder": "big"} if data.get("protocol") in _BIG_ENDIAN else {}
        for name, entry in registers.items():
            repeated = isinstance(entry, Mapping) and "count" in entry
            for key, register in _neighbours(name, entry) if repeated else ((name, entry),):
                both = key in written and isinstance(register, Mapping)
                written[key] = {**written[key], **register} if both else register
                if order and isinstance(register, Mapping):
                    written[key] = {**written[key], **order}
        return {**data, "registers": written}

    @model_validator(mode="after")
    def _check_table(self) -> FirmwareProfile:
        taken: dict[int, str] = {}
        for name, register in self.registers.items():
            for address in range(register.address, register.end):
                if address in taken:
                    raise ValueError(f"registers.{name} overlaps {taken[address]} at address {address}")
                taken[address] = name
            if isinstance(register.initial, str) and register.initial.removeprefix("@") not in self.registers:
                raise ValueError(f"registers.{name}.initial = {register.initial!r} names no register")
            if register.minimum > register.maximum:
                raise ValueError(f"registers.{name} has min {register.minimum} above max {register.maximum}")
            lowest, highest = register.span
            if register.minimum < lowest or register.maximum > highest:
                limits = f"{register.minimum}..{register.maximum}"
                raise ValueError(f"registers.{name}: {limits} does not fit into {register.size} bytes")
        for place in FAMILIES[self.protocol].addresses:
            name = place.name.lower()
            if name not in self.registers or self.registers[name].address != place:
                owner = f"every {f'Protocol {self.protocol}.0' if self.maker == 'Dynamixel' else self.maker} servo"
                raise ValueError(f"registers.{name} is missing at address {place:d}, where {owner} has it")
        if self.protocol != 2 and self.size > _ADDRESSES_1:
            raise ValueError(f"registers: Protocol 1.0 has addresses up to {_ADDRESSES_1 - 1}")
        known = [instruction.name for instruction in FAMILIES[self.protocol].instructions]
        for name in self.instructions:
            if name not in known:
                raise ValueError(f"instructions: {name!r} is not known; choose from {', '.join(known)}")
        if "WRITE" not in self.timing.reply_us:
            raise ValueError("timing.reply_us needs WRITE, which counts for every instruction not named")
        return self


def _neighbours(name: str, entry: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the registers of an entry with ``count``; ``each`` is the increment of the factory value."""
    register = {key: value for key, value in entry.items() if key not in {"count", "each"}}
    count, each = entry["count"], entry.get("each", 0)
    address, size, initial = register.get("address"), register.get("size", 1), register.get("initial", 0)
    if (
        not all(type(number) is int for number in (count, each, address, size, initial))
        or not 0 < count <= _ADDRESSES_1
    ):
        hint = "for example { address = 168, size = 2, count = 20, initial = 208, each = 1 }"
        raise toml_tables.Misfit(f"registers.{name}", "count, each, address, size, initial must be whole numbers", hint)
    stem, underscore, number = name.rpartition("_")
    first = int(number) if underscore and number.isdecimal() else 1
    stem = stem if underscore and number.isdecimal() else name
    return [
        (f"{stem}_{first + i}", {**register, "address": address + i * size, "initial": initial + i * each})
        for i in range(count)
    ]


_loaded: dict[Path, tuple[list[tuple[Path, int]], FirmwareProfile]] = {}  # by path: times of its files, and the profile


def _load(path: Path) -> FirmwareProfile:
    """Return the profile of a file; it is read again when the file or one of its bases has changed."""
    files, profile = _loaded.get(path, ([], None))
    if profile is None or any(_changed(file) != at for file, at in files):
        chain = toml_tables.load_chain(path, FOLDER, ProfileError)
        files = [(file, _changed(file)) for file, _ in chain]
        table: dict[str, Any] = reduce(toml_tables.merged, (part for _, part in reversed(chain)), {})
        profile = toml_tables.validate(FirmwareProfile, {**table, "path": path}, path, ProfileError)
        _loaded[path] = files, profile
    return profile


def _changed(path: Path) -> int:
    """Return the time at which a file was changed, ns; 0 without the file."""
    return path.stat().st_mtime_ns if path.is_file() else 0


_SCALED = re.compile(r"([\d.]+) (us|V|deg/s\^2|mA|ms|mV/ms|rev/min\^2)$")
_FLAGS = {"error bits": ErrorFlag, "hardware error bits": HardwareError, "Feetech error bits": FeetechError}
_NAMES = {"us": "µs", "deg/s^2": "°/s²", "rev/min^2": "rev/min²"}
_OR_MS = ", or ms"  # unit of the profile registers when Drive Mode selects the time-based profile


def compliance_slope(written: int) -> int:
    """Return the counts over which the duty rises: the largest power of two not above the byte written, at least 2."""
    return max(2, 1 << max(written.bit_length() - 1, 0))


def in_units(profile: FirmwareProfile, name: str, values: Mapping[str, int]) -> str:
    """Return a register's value with its unit; "" for a plain number. Angles start at position 0 (e-manual)."""
    value, unit, units = values[name], profile.registers[name].unit, profile.units
    wheel = values.get("cw_angle_limit") == values.get("ccw_angle_limit") == 0
    if name == "moving_speed" and wheel and profile.units_name == "ax":
        return f"{bits_to_signed(value) / units.full_scale:.1%} duty"
    if name == "moving_speed" and value == 0:
        return "stands" if wheel else "full speed"
    if "bit 10 = CW" in unit and (wheel or name != "moving_speed"):
        value = bits_to_signed(value)
    if "bps" in unit:
        return f"{units.baud(value):.0f} baud"
    if unit in _FLAGS:
        return _FLAGS[unit](value).describe()
    if unit.endswith(_OR_MS):
        unit = "ms" if values.get("drive_mode", 0) & DriveMode.TIMED else unit.removesuffix(_OR_MS)
    if unit in {"degC", "ms"}:
        return f"{value} {'°C' if unit == 'degC' else unit}"
    if scaled := _SCALED.match(unit):
        return f"{value * float(scaled[1]):g} {_NAMES.get(scaled[2], scaled[2])}"
    if " rpm" in unit:
        return f"{value * units.speed / RPM:.1f} rpm"
    if " deg" in unit:
        return f"{math.degrees(value * units.position):.1f}°"
    if unit == "0.113 %":
        return f"{value / units.full_scale:.1%}"
    return f"{value / units.full_load:.1%}" if unit.startswith("0.1 %") else ""
