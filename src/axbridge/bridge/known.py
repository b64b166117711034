"""What is known of the registers of a line's servos, from the packets that passed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import Instruction

_WRITES = {Instruction.WRITE, Instruction.REG_WRITE}
_TIME_BASED = 4  # bit of Drive Mode
GROUP_READS = {Instruction.SYNC_READ, Instruction.BULK_READ, Instruction.FAST_SYNC_READ, Instruction.FAST_BULK_READ}


@dataclass
class Known:
    """One servo: the rig's limits in counts, and the bytes of its registers, as far as they were seen."""

    name: str
    id: int
    profile: FirmwareProfile
    protocol: Protocol
    positions: tuple[int, int] | None = None  # lowest and highest goal; None: the rig has no limits
    top_speed: int | None = None  # counts of its speed register; None: the rig has no limit
    top_torque: int | None = None  # counts of its torque limit, likewise
    slow: int = 1  # counts of the speed limit on the way to a goal that is far from the joint
    near: int = 0  # counts: a goal that is farther away is far
    far_goal: int | None = None  # the far goal that it is on its way to, slowly
    wanted_speed: int = 0  # what the program wants its speed limit to be then
    held: dict[int, int] = field(default_factory=dict)  # by address

    def __post_init__(self) -> None:
        names = self.protocol.names
        ruled = {"goal_position", "goal_velocity", names.speed, names.torque}
        self.ruled = [(name, one) for name, one in self.profile.registers.items() if name in ruled and one.writable]

    def note(self, address: int, data: bytes) -> None:
        """These bytes are in its table from `address` on."""
        self.held.update(enumerate(data, address))

    def data(self, address: int, length: int) -> bytes | None:
        """What the table holds there; None where a byte was never seen."""
        data = [self.held.get(place) for place in range(address, address + length)]
        return None if None in data else bytes(data)  # type: ignore[arg-type]

    def value(self, name: str) -> int | None:
        """The value of a register; None while it is not known, or where there is none."""
        register = self.profile.registers.get(name)
        data = None if register is None else self.data(register.address, register.size)
        return None if register is None or data is None else register.decode(data)

    @property
    def endless(self) -> bool | None:
        """Whether it follows no position, as a wheel; None while its mode is not known."""
        mode = self.data(*self.protocol.mode)
        return None if mode is None else self.protocol.endless_goal(mode) is not None

    @property
    def timed(self) -> bool:
        """Whether its speed register holds a time: an X servo with a time-based profile (e-manual, Drive Mode)."""
        return self.protocol.address_size == 2 and bool((self.value("drive_mode") or 0) & _TIME_BASED)

    def places(self, address: int, begin: int, end: int) -> dict[int | None, int]:
        """Where in a packet's parameters is the byte that acts on an address, for a write to `address` of such data."""
        written = range(address, address + end - begin)
        if self.profile.pointers.keys().isdisjoint(written):
            return dict(zip(written, range(begin, end), strict=True))
        return {self.target(place): begin + number for number, place in enumerate(written)}

    def target(self, address: int) -> int | None:
        """The address that a byte written to `address` acts on; None: an indirect one that was never seen."""
        pointer = self.profile.pointers.get(address)
        if pointer is None:
            return address
        data = self.data(pointer, 2)
        return None if data is None else int.from_bytes(data, "little")


class Write(NamedTuple):
    """One write of a packet: whom it is for, and where in the parameters its address and its data are."""

    id: int
    address: int
    at: int  # of the address
    begin: int  # of the data
    end: int


def writes(protocol: Protocol, packet: Packet) -> Iterator[Write]:
    """What a packet writes, in order; nothing where the lengths do not fit."""
    params, width = packet.params, protocol.address_size

    def number(place: int) -> int:
        return int.from_bytes(params[place : place + width], "little")

    if packet.code in _WRITES and len(params) > width:
        yield Write(packet.id, number(0), 0, width, len(params))
    elif packet.code == Instruction.SYNC_WRITE and len(params) > 2 * width:
        size = number(width) + 1
        if size > 1 and not (len(params) - 2 * width) % size:
            for place in range(2 * width, len(params), size):
                yield Write(params[place], number(0), 0, place + 1, place + size)
    elif packet.code == Instruction.BULK_WRITE and protocol.address_size == 2:
        place = 0
        while place + 5 <= len(params):
            end = place + 5 + number(place + 3)
            if end <= len(params):
                yield Write(params[place], number(place + 1), place + 1, place + 5, end)
            place = end


class Table:
    """All servos of a line by id; takes in the packets of both directions."""

    def __init__(self, servos: list[Known]) -> None:
        self.servos = {servo.id: servo for servo in servos}
        self._asked: dict[int, tuple[int, int]] = {}  # address and length of the latest READ, by id
        self._registered: dict[int, list[tuple[int, bytes]]] = {}  # by REG_WRITE, until the ACTION

    def meant(self, id: int, protocol: Protocol) -> list[Known]:
        """The servos that a write to this id is for."""
        if id == BROADCAST:
            return [servo for servo in self.servos.values() if servo.protocol.version == protocol.version]
        return [self.servos[id]] if id in self.servos else []

    def protocol(self, version: int, id: int) -> Protocol | None:
        """What the servos speak that hear a packet with headers of this version; None: there are none."""
        spoken = [one.protocol for one in self.servos.values() if one.protocol.version == version]
        own = self.servos.get(id)
        return own.protocol if own is not None and own.protocol in spoken else next(iter(spoken), None)

    def sent(self, protocol: Protocol, packet: Packet) -> None:
        """A packet goes to the servos."""
        if packet.code == Instruction.READ and len(packet.params) == 2 * protocol.address_size:
            width = protocol.address_size
            first, count = packet.params[:width], packet.params[width:]
            self._asked[packet.id] = int.from_bytes(first, "little"), int.from_bytes(count, "little")
        elif packet.code in GROUP_READS and packet.id == BROADCAST:
            self._asked |= {id_: (address, length) for id_, address, length in protocol.reads(packet)}
        elif packet.code == Instruction.ACTION:
            for servo in self.meant(packet.id, protocol):
                for address, data in self._registered.pop(servo.id, ()):
                    servo.note(address, data)
        for one in writes(protocol, packet):
            data = packet.params[one.begin : one.end]
            for servo in self.meant(one.id, protocol):
                if packet.code == Instruction.REG_WRITE:
                    self._registered[servo.id] = [(one.address, data)]
                    continue
                for place, byte in enumerate(data, one.address):
                    servo.note(place, bytes((byte,)))
                    if (target := servo.target(place)) is not None and target != place:
                        servo.note(target, bytes((byte,)))

    def answered(self, packet: Packet) -> None:
        """A packet came from a servo."""
        asked = self._asked.get(packet.id)
        if asked is not None and packet.id in self.servos and packet.params and len(packet.params) == asked[1]:
            self.servos[packet.id].note(asked[0], packet.params)

    def forget(self) -> None:
        """Nothing is known of torque and goals any more: the bridge itself has written them."""
        for servo in self.servos.values():
            servo.held.pop(servo.protocol.torque_enable, None)
        self._registered.clear()
