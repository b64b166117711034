"""Registers of a line's servos, as far as the passed packets show them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.bus.rows import decoded
from axbridge.config.profile import FirmwareProfile, Register
from axbridge.config.registers import DriveMode, Instruction

_WRITES = {Instruction.WRITE, Instruction.REG_WRITE}


@dataclass
class Known:
    """One servo: the rig's limits in counts, and the known bytes of its registers."""

    name: str
    id: int
    profile: FirmwareProfile
    protocol: Protocol
    positions: tuple[int, int] | None = None  # lowest and highest goal; None: no limits in the rig
    top_speed: int | None = None  # counts of its speed register; None: no limit in the rig
    top_torque: int | None = None  # counts of its torque limit and of a duty; likewise
    top_current: int | None = None  # counts of Goal Current; likewise
    top_temperature: int = 255  # °C: above it the bridge switches the torque off
    voltages: tuple[int, int] = (0, 255)  # 0.1 V: outside of it, likewise
    stall: float = 1.0  # share of its torque that a blocked servo keeps; 1: all
    still: int = 0  # counts of speed, below which a servo that pushes hard stands still
    slow: int = 1  # counts: speed limit on the way to a far goal
    near: int = 0  # counts between goal and joint; above it the goal is far
    far_goal: int | None = None  # present far goal; the servo moves to it slowly
    wanted_speed: int = 0  # counts: the program's speed limit, restored later
    least_time: int = 0  # ms: shortest duration of a motion with a time-based profile
    step_end: int | None = None  # counts: farthest end of the goals in Feetech's step mode
    cap: int | None = None  # counts: torque limit of a blocked servo, or one that must stay off
    wanted_torque: int = 0  # counts: the program's torque limit, restored later
    blocked: tuple[int, int] | None = None  # position, and direction of the goal, when it was blocked
    pushes_since: float | None = None  # s (monotonic): start of pushing without motion
    kept_off: bool = False  # temperature or supply is beyond its limit
    flags: int = 0  # reported alarms
    polled_at: float = -math.inf  # s (monotonic): latest sample
    missed: int = 0  # polls of the bridge without a reply since then
    checked_at: float = -math.inf  # s (monotonic): latest read of torque and alarm by the bridge
    held: dict[int, int] = field(default_factory=dict)  # known bytes, by address
    _parts: dict[tuple[int, int], list[Part]] = field(default_factory=dict)  # by address and size

    def __post_init__(self) -> None:
        names = self.protocol.names
        ruled = {"goal_position", "goal_velocity", "goal_current", "goal_time", "torque_enable"}
        ruled |= {names.speed, names.torque}
        registers = self.profile.registers.items()
        self.ruled = [(name, register) for name, register in registers if name in ruled and register.writable]

    def note(self, address: int, data: bytes) -> None:
        """Store bytes of the control table from `address` on."""
        self.held.update(enumerate(data, address))

    def data(self, address: int, length: int) -> bytes | None:
        """Return bytes of the control table; None if one is unknown."""
        data = [self.held.get(place) for place in range(address, address + length)]
        return None if None in data else bytes(data)  # type: ignore[arg-type]

    def value(self, name: str) -> int | None:
        """Return the value of a register; None if it is unknown, or not of this model."""
        register = self.profile.registers.get(name)
        data = None if register is None else self.data(register.address, register.size)
        return None if register is None or data is None else register.decode(data)

    @property
    def baud(self) -> float:
        """Baud rate by its register; NaN if it is unknown."""
        value = self.value("baud_rate")
        return math.nan if value is None else self.profile.units.baud(value)

    @property
    def endless_goal(self) -> int | None:
        """Address of the goal in a mode without a position goal, as in wheel mode; None otherwise or if unknown."""
        mode = self.data(*self.protocol.mode)
        goal = None if mode is None else self.protocol.endless_goal(mode)
        return None if goal is None else goal[0]

    @property
    def is_relative(self) -> bool:
        """Whether a goal is relative to the position: Feetech's step mode."""
        return self.endless_goal == self.protocol.goal_position[0]

    @property
    def is_endless(self) -> bool:
        """Whether it is in wheel, current or duty mode."""
        return self.endless_goal not in {None, self.protocol.goal_position[0]}

    @property
    def is_time_based(self) -> bool:
        """Whether its speed register holds a time: an X servo with a time-based profile (e-manual, Drive Mode)."""
        return bool((self.value("drive_mode") or 0) & DriveMode.TIMED)

    @property
    def goal_enables_torque(self) -> bool:
        """Whether a goal switches its torque on."""
        if "drive_mode" in self.profile.registers:
            return bool((self.value("drive_mode") or 0) & DriveMode.TORQUE_ON_BY_GOAL)
        return self.profile.behaviour.auto_torque_on_goal

    @property
    def speed_limit(self) -> int | None:
        """Highest permitted speed now, counts; None: no limit."""
        slow = self.slow if self.far_goal is not None else None
        return min((limit for limit in (self.top_speed, slow) if limit is not None), default=None)

    @property
    def torque_limit(self) -> int | None:
        """Highest permitted torque limit now, counts; None: no limit."""
        return min((limit for limit in (self.top_torque, self.cap) if limit is not None), default=None)

    def changed(self) -> dict[str, int]:
        """Return the program's values, within the rig's limits, of RAM that the bridge has changed."""
        names, values, speed, torque = self.protocol.names, dict[str, int](), self.wanted_speed, self.wanted_torque
        if self.far_goal is not None or self.least_time:
            top = None if self.is_time_based else self.top_speed
            values[names.speed] = speed if top is None else min(speed or top, top)
        if self.cap is not None and self.profile.register(names.torque).address >= self.profile.eeprom_end:
            values[names.torque] = torque if self.top_torque is None else min(torque, self.top_torque)
        return values

    @property
    def goal(self) -> int | None:
        """Goal position, counts; None if unknown."""
        return self.step_end if self.is_relative else self.value("goal_position")

    def step_room(self) -> tuple[int, int]:
        """Return lowest and highest possible position at the end of its steps so far, counts."""
        ends = [end for end in (self.value("present_position"), self.step_end) if end is not None]
        return min(ends, default=0), max(ends, default=0)

    def sample(self) -> dict[str, int] | None:
        """Return position, speed, load, voltage and temperature as last read; None if they are not all known."""
        data = self.data(*self.protocol.usual)
        if data is None:
            return None
        return {name: int(decoded(self.protocol, data, name)[0]) for name, _, _ in self.protocol.sample}

    def parts(self, address: int, size: int) -> list[Part]:
        """Return the ruled registers of which a write of `size` bytes has at least one byte."""
        key = address, size
        if (parts := self._parts.get(key)) is None:
            places = {target: place for place, target in enumerate(self.targets(address, size))}
            ruled = (Part(*rule, tuple(map(places.get, range(rule[1].address, rule[1].end)))) for rule in self.ruled)
            parts = [part for part in ruled if set(part.places) != {None}]
            if self.profile.pointers.keys().isdisjoint(range(address, address + size)):
                self._parts[key] = parts
        return parts

    def targets(self, address: int, size: int) -> list[int | None]:
        """Return the address on which each byte of a write acts; None if its pointer is unknown."""
        written = range(address, address + size)
        return [*written] if self.profile.pointers.keys().isdisjoint(written) else [*map(self.target, written)]

    def target(self, address: int) -> int | None:
        """Return the address that a byte written to `address` acts on; None if its pointer is unknown."""
        pointer = self.profile.pointers.get(address)
        if pointer is None:
            return address
        data = self.data(pointer, 2)
        return None if data is None else int.from_bytes(data, "little")


class Part(NamedTuple):
    """A register that a write changes, and the place of each of its bytes in the written data; None: not written."""

    name: str
    register: Register
    places: tuple[int | None, ...]


class Write(NamedTuple):
    """One write of a packet: the servo's id, and where address and data are in the parameters."""

    id: int
    address: int
    at: int  # index of the address
    begin: int  # index of the data
    data: bytes


def _writes(protocol: Protocol, packet: Packet) -> Iterator[Write]:
    """Yield a packet's writes in order; none if the lengths do not fit."""
    params, width = packet.params, protocol.address_size

    def number(place: int) -> int:
        return int.from_bytes(params[place : place + width], "little")

    if packet.code in _WRITES and len(params) > width:
        yield Write(packet.id, number(0), 0, width, params[width:])
    elif packet.code == Instruction.SYNC_WRITE and len(params) > 2 * width:
        size = number(width) + 1
        if size > 1 and not (len(params) - 2 * width) % size:
            for place in range(2 * width, len(params), size):
                yield Write(params[place], number(0), 0, place + 1, params[place + 1 : place + size])
    elif packet.code == Instruction.BULK_WRITE and protocol.address_size == 2:
        place = 0
        while place + 5 <= len(params):
            end = place + 5 + number(place + 3)
            if end <= len(params):
                yield Write(params[place], number(place + 1), place + 1, place + 5, params[place + 5 : end])
            place = end


class Table:
    """All servos of a line by id, updated by the packets that are sent to them."""

    def __init__(self, servos: list[Known]) -> None:
        self.servos = {servo.id: servo for servo in servos}
        self._by_version: dict[int, Protocol] = {servo.protocol.version: servo.protocol for servo in reversed(servos)}
        self._registered: dict[int, list[tuple[int, bytes]]] = {}  # from REG_WRITE until ACTION

    def addressed(self, id: int, protocol: Protocol) -> list[Known]:
        """Return the servos that a write to this id addresses."""
        if id == BROADCAST:
            return [servo for servo in self.servos.values() if servo.protocol.version == protocol.version]
        return [self.servos[id]] if id in self.servos else []

    def protocol(self, version: int, id: int) -> Protocol | None:
        """Return the protocol of the servos that receive a packet with headers of this version; None without any."""
        own = self.servos.get(id)
        return own.protocol if own is not None and own.protocol.version == version else self._by_version.get(version)

    def writes(self, protocol: Protocol, packet: Packet) -> Iterator[tuple[Known, Write]]:
        """Yield a packet's writes in order, each with a servo that it addresses."""
        for write in _writes(protocol, packet):
            for servo in self.addressed(write.id, protocol):
                yield servo, write

    def sent(self, protocol: Protocol, packet: Packet) -> None:
        """Update the tables for a packet to the servos."""
        if packet.code == Instruction.ACTION:
            for servo in self.addressed(packet.id, protocol):
                for address, data in self._registered.pop(servo.id, ()):
                    self._write(servo, address, data)
        kept = protocol.resets.get(packet.params) if packet.code == Instruction.FACTORY_RESET else None
        if kept is not None and (kept or packet.id != BROADCAST):
            for servo in self.addressed(packet.id, protocol):
                for register in map(servo.profile.register, {"id", "baud_rate"}.difference(kept)):
                    servo.note(register.address, register.encode(int(register.initial)))
        for servo, write in self.writes(protocol, packet):
            if packet.code == Instruction.REG_WRITE:
                self._registered[servo.id] = [(write.address, write.data)]
            else:
                self._write(servo, write.address, write.data)

    def _write(self, servo: Known, address: int, data: bytes) -> None:
        servo.note(address, data)
        span = range(address, address + len(data))
        if not servo.profile.pointers.keys().isdisjoint(span):
            for target, byte in zip(servo.targets(address, len(data)), data, strict=True):
                if target is not None:
                    servo.held[target] = byte
        goal, protocol = servo.protocol.goal_position[0], servo.protocol
        if protocol.torque_enable in span and servo.value("torque_enable") == 0:
            servo.step_end = None  # it is limp: the next step begins at the joint
        if protocol.goal_enables_torque and goal in span and servo.endless_goal is None and not servo.flags:
            servo.note(protocol.torque_enable, b"\1")

    def move(self, servo: Known, id: int) -> None:
        """Note that a servo has another id now."""
        del self.servos[servo.id]
        self.servos[id], servo.id = servo, id

    def mark_unknown(self) -> None:
        """Mark torque and registered writes as unknown, after the bridge itself has written."""
        for servo in self.servos.values():
            servo.held.pop(servo.protocol.torque_enable, None)
        self._registered.clear()
