"""A protocol as its users see it: packets, and which registers a cycle, a hold and a shut-down use.

Code that drives a line takes what differs from the protocol object; it does not test which protocol it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from axbridge.bus.protocols import v1
from axbridge.bus.protocols.packet import BROADCAST, ByteStream, Packet, Search
from axbridge.config.registers import (
    CALIBRATION,
    CONVENTIONS,
    EEPROM_END,
    GROUP_READS,
    PRESENT,
    SYNC_READS,
    TABLE_SIZE,
    Address,
    Instruction,
    Version,
)
from axbridge.errors import ErrorFlag, Remedy, ServoFlags, StatusError, UsageError

Span = tuple[int, int]  # registers: from where on, bytes
_ALARMS = 0x7F
_BYTES = [bytes((value,)) for value in range(256)]
_RANGE, _INSTRUCTION = int(ErrorFlag.RANGE), int(ErrorFlag.INSTRUCTION)


class Refusals(NamedTuple):
    """Error bits of the replies to instructions that a servo refuses; 0 where the reply has none."""

    now: int = 0  # it cannot be done now
    unknown: int | None = None  # no such instruction, or nothing to carry out; None: it is silent
    value: int = 0  # a value, or what counts as one, is outside its range
    length: int = 0  # the data do not fill registers
    short: int = 0  # too many parameters, or too few
    access: int = 0  # no such register, or it must not be written
    damaged: int | None = None  # the checksum is wrong; None: it is silent
    goal: int = 0  # a goal is outside the servo's own limits


class Protocol:
    """Protocol 1.0 of AX and MX servos; of the others, what differs. Instructions have the same codes in all."""

    name: Version = 1  # as profiles give it
    title = "Protocol 1.0"
    version: Literal[1, 2] = 1  # of Dynamixel's protocol, whose packets it has
    max_id = v1.MAX_ID
    longest_packet = 143  # bytes of the smallest receive buffer of its servos (RX-64 manual p. 37)
    address_size = 1  # bytes
    bulk_entry = 3  # bytes of one servo in a BULK READ
    refusals = Refusals(
        _INSTRUCTION, _INSTRUCTION, _RANGE, _RANGE, short=_INSTRUCTION, access=_RANGE, damaged=int(ErrorFlag.CHECKSUM),
        goal=int(ErrorFlag.ANGLE_LIMIT),
    )  # fmt: skip
    resets: Mapping[bytes, tuple[str, ...]] = {b"": ()}  # by parameters of a FACTORY_RESET: the registers it keeps
    reboots_all = False  # whether servos obey a REBOOT to all
    gaps = True  # whether a READ may ask for addresses of which none has a register
    ping_length = 0  # parameter bytes of the answer to a PING
    ping_slots = False  # whether servos answer a PING to all in turn, or at once
    group_reads: tuple[int, ...] = ()  # instructions that ask several, best first; a servo may know the last ones alone
    full_level = 2  # status return level at which writes are answered, too; at two below it, PING alone
    usual_profile = "ax-12a"  # for a servo of an unknown model, where those have `common_registers`
    common_registers = True  # whether a servo of any model has its torque switch and its settings at the same addresses
    eeprom_seconds_per_byte = 0.009  # no answer for so long: data sheet, longest; 6 +- 1 ms measured on an AX-12
    lock: int | None = None  # register that is 0 while a change of the EEPROM outlasts the power; None: it always does
    torque_limit = int(Address.TORQUE_LIMIT)  # what limits the torque while a servo follows positions; 2 bytes
    full_torque = 1023  # counts of it
    goal = int(Address.GOAL_POSITION)  # where goal and speed limit are that `goal_bytes` makes
    position_size = 2  # bytes
    goal_wakes = True  # whether a goal switches the torque on
    identity: Span = (0, EEPROM_END)  # what a servo is known by when the port was lost
    # What a cycle reads: alone, with the torque limit, with all torque registers; the same where these are asked apart.
    usual: Span = (int(Address.PRESENT_POSITION), PRESENT.size)
    with_limit: Span = (int(Address.TORQUE_LIMIT), PRESENT.size + 2)
    with_torque: Span = (int(Address.TORQUE_ENABLE), PRESENT.size + 12)
    sample: tuple[tuple[str, str, int], ...] = (  # of the usual read: column, numpy format and offset
        ("position", "<i2", 0), ("speed", "<u2", 2), ("load", "<u2", 4), ("voltage", "u1", 6), ("temperature", "u1", 7),
    )  # fmt: skip
    sign_bits: Mapping[str, int] = {"speed": 10, "load": 10}  # by column: the sign of a magnitude; else plain numbers
    alarm: Span | None = None  # what is wrong, once the error byte has the bit `alert`; None: the error byte says it
    alert = 0
    alarms: type[ServoFlags] = ErrorFlag  # what is wrong, as flags
    read_errors = tuple(byte for byte in range(0x80) if not byte & ErrorFlag.CHECKSUM)  # of an answer with data
    refusing = int(ErrorFlag.RANGE | ErrorFlag.ANGLE_LIMIT | ErrorFlag.INSTRUCTION)  # bits: a write was not carried out
    shuts_down = int(ErrorFlag.OVERLOAD | ErrorFlag.OVERHEATING)  # alarms, as it comes from the factory
    watchdog: int | None = None  # register that stops a servo when no packet comes, in units of 20 ms
    mode: Span = (int(Address.CW_ANGLE_LIMIT), 4)  # see `endless_goal`
    modes: Span = mode  # and which way a servo counts, where a register beside it says so
    loop: Span = (Address.TORQUE_ENABLE + 2, 4)  # settings of the position loop
    commands: Span = (int(Address.GOAL_POSITION), 4)  # goals of all modes, and what shapes the way to them
    whole: Span = (0, TABLE_SIZE)  # two servos with one id differ in it
    span_that_differs_between_units: Span = (CALIBRATION, Address.PRESENT_TEMPERATURE + 1 - CALIBRATION)  # surely
    park_speed, park_near = 100, 6  # counts: 11 rpm, about 2 degrees
    blocked_share = 1.0  # of its torque, behind a bridge; AX and MX servos shut themselves down in an overload
    room = TABLE_SIZE  # bytes from the first register on that one READ may ask for
    _goal = struct.Struct("<hH")
    _search = staticmethod(v1.find_answer)

    def __init__(self) -> None:
        convention = CONVENTIONS[self.name]
        place, self.names, self.byteorder = convention.addresses, convention.names, convention.byteorder
        # parameter bytes of an instruction that fit into each receive buffer, however they are stuffed
        self.params_room = max(n for n in range(self.longest_packet) if self.longest(n) <= self.longest_packet)
        self.model_place, self.firmware_place = int(place.MODEL_NUMBER), int(place.FIRMWARE_VERSION)
        self.id_place, self.torque_enable = int(place.ID), int(place.TORQUE_ENABLE)  # RAM begins with the latter
        self.goal_position: Span = int(place.GOAL_POSITION), self.position_size
        self.present_position: Span = int(place.PRESENT_POSITION), self.position_size

    def revival(self, id: int, **line: Any) -> Remedy:
        """The command that lets a servo that has shut itself down move again; `line`: options that name its line."""
        return Remedy("servo write", id, "torque_limit", 1023, **line)

    # -- packets ------------------------------------------------------------------------------------------------------

    encode = staticmethod(v1.encode)
    encode_status = staticmethod(v1.encode)  # whose code is its error byte
    decoder: Callable[[], ByteStream] = staticmethod(v1.Decoder)

    def read_params(self, address: int, length: int) -> bytes:
        """Parameters of a READ."""
        return address.to_bytes(self.address_size, "little") + length.to_bytes(self.address_size, "little")

    def write_params(self, address: int, data: bytes) -> bytes:
        """Parameters of a WRITE or REG_WRITE."""
        return address.to_bytes(self.address_size, "little") + data

    def sync_write_params(self, address: int, data: Mapping[int, bytes]) -> bytes:
        """Parameters of a SYNC_WRITE of equally long `data` per id."""
        lengths = set(map(len, data.values()))
        if len(lengths) != 1:
            raise UsageError("SYNC_WRITE needs the same number of bytes for every servo, and at least one servo")
        return self.read_params(address, lengths.pop()) + b"".join([_BYTES[id_] + block for id_, block in data.items()])

    def sync_write_room(self, size: int) -> int:
        """How many servos one SYNC_WRITE of `size` bytes each may be for: the packet fits into each receive buffer."""
        return (self.params_room - 2 * self.address_size) // (size + 1)

    def blocks(self, packet: Packet) -> list[tuple[int, Mapping[int, bytes]]] | None:
        """Addresses, and the data for each id there, of a write to several servos; None for any other packet.

        The first block counts where an id is there twice; none does where lengths do not fit.
        """
        if packet.code != Instruction.SYNC_WRITE:
            return None
        width, params = self.address_size, packet.params
        size, data = int.from_bytes(params[width : 2 * width], "little") + 1, params[2 * width :]
        starts = range(len(data) - size, -1, -size) if size > 1 and not len(data) % size else ()
        return [(int.from_bytes(params[:width], "little"), {data[i]: data[i + 1 : i + size] for i in starts})]

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        """``(id, address, length)`` of a read of several servos, in the order asked; none if malformed."""
        listed = (packet.params[place : place + 3] for place in range(1, len(packet.params) - 2, 3))
        return [(id_, address, length) for length, id_, address in listed]  # 0, length, id, address, length, ...

    def asked(self, packet: Packet) -> list[tuple[int, int, int]]:
        """``(id, address, length)`` of each servo that a READ, or a read of several servos, is for."""
        if packet.code == Instruction.READ and len(packet.params) == 2 * self.address_size:
            numbers = packet.params[: self.address_size], packet.params[self.address_size :]
            address, length = (int.from_bytes(number, "little") for number in numbers)
            return [(packet.id, address, length)]
        return self.reads(packet) if packet.code in GROUP_READS and packet.id == BROADCAST else []

    def without(self, packet: Packet, ids: Collection[int]) -> bytes:
        """The frame of this read of several servos for all but these `ids`."""
        listed, params = self.reads(packet), packet.params
        size = 1 if packet.code in SYNC_READS else self.bulk_entry
        first = len(params) - size * len(listed)
        kept = (first + size * place for place, (id_, _, _) in enumerate(listed) if id_ not in ids)
        part = params[:first] + b"".join(params[place : place + size] for place in kept)
        return self.encode(packet.id, packet.code, part)

    def longest(self, length: int) -> int:
        """Bytes on the line of an answer with so many parameter bytes, at most."""
        return length + v1.OVERHEAD

    def is_answer(self, packet: Packet) -> bool:
        """Whether a packet comes from a servo."""
        return packet.id != BROADCAST

    def find_answer(self, buffer: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
        """Look for the status packet of `id` with `length` parameter bytes in all that came since the question `frame`.

        With an `echo` it comes behind the question. An error without parameters may be it where that is `refusable`:
        while no old acknowledgement is owed.
        """
        if echo:
            start = buffer.find(frame)
            if start < 0:
                return Search(None, buffer, damaged=False, echo=True)
            buffer = buffer[start + len(frame) :]
        return self._search(buffer, frame, id, length, echo=echo, refusable=refusable and bool(self.refusing))

    def answer_head(self, id: int, length: int) -> bytes:
        """First bytes of an answer that is known by head, length and sum (`v1.SUM_OK`); empty: it is looked for."""
        return v1.HEADER + bytes((id, length + 2))

    def readable_span(self, address: int, length: int) -> tuple[int, int]:  # noqa: ARG002 - it has no gaps
        """Begin and end of the registers around these that one READ may ask for."""
        return 0, self.room

    def error(self, byte: int) -> ServoFlags | StatusError:
        """What an error byte says; has `describe`."""
        return self.alarms(byte)

    def garbled(self, error: int) -> bool:
        """Whether an error byte says that the question came damaged: then it is no answer."""
        return bool(error & (self.refusals.damaged or 0))

    def refused(self, error: int) -> bool:
        """Whether an error byte says that a write was not carried out."""
        return bool(error & self.refusing)

    # -- several servos at once ---------------------------------------------------------------------------------------

    def group_question(self, code: int, ids: Sequence[int], address: int, length: int) -> tuple[bytes, int, int]:
        """Ask `ids` at once, by an instruction of `group_reads`: frame, how many answers, and all their bytes."""
        frame = self.encode(BROADCAST, code, self.read_params(address, length) + bytes(ids))
        return frame, len(ids), len(ids) * self.longest(length)

    def group_answers(self, code: int, buffer: bytes, ids: Sequence[int], length: int) -> dict[int, tuple[int, bytes]]:  # noqa: ARG002 - one form
        """Error byte and data by id, of those that answered.

        A packet counts only where another one begins behind it, or nothing more came. One that has lost a byte FF takes
        the first FF of the next header for its checksum, and its sum is right.
        """
        decoder = self.decoder()
        return {
            packet.id: (packet.code, packet.params)
            for packet, end in zip(decoder.feed(buffer), decoder.ends, strict=True)
            if self.is_answer(packet) and packet.intact and packet.id in ids and len(packet.params) == length
            and v1.ends_packet(buffer[end : end + 3])
        }  # fmt: skip

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        """Bytes of the goals of so many servos, bytes of reading them, and how often a servo begins to speak."""
        return 8 + 5 * count, 22 * count, count

    @property
    def reads_alarm(self) -> bool:
        """Whether what is wrong with a servo, and whether it has torque, is read apart from its samples."""
        return self.alarm is not None

    @property
    def fault_mask(self) -> int:
        """Alarms by which a servo is about to switch itself off, or has: its supply and `shuts_down`."""
        return self.shuts_down | ErrorFlag.INPUT_VOLTAGE  # whose bit has the same place in all families

    @property
    def alarm_mask(self) -> int:
        """Bits of an error byte that tell something about the servo, not about a question."""
        return self.alert if self.reads_alarm else _ALARMS

    # -- registers ----------------------------------------------------------------------------------------------------

    def goal_bytes(self, position: int, speed: int) -> bytes:
        """A goal and its speed limit, for `goal`."""
        return self._goal.pack(position, speed)

    def endless_goal(self, mode: bytes) -> Span | None:
        """By the bytes of `mode`: the goal of a servo that follows no position; 0 there lets it stand. Else None."""
        return None if any(mode) else (int(Address.MOVING_SPEED), 2)  # both angle limits 0: a wheel

    def endless_bytes(self, address: int, value: int) -> bytes:
        """The signed goal at `address` of a servo that follows no position."""
        raise NotImplementedError

    def word(self, value: int) -> bytes:
        """A register of two bytes."""
        return value.to_bytes(2, self.byteorder)

    def number(self, data: bytes) -> int:
        """The value of a register of two bytes."""
        return int.from_bytes(data, self.byteorder)

    # -- whole frames, for code without a protocol ---------------------------------------------------------------------

    def write_frame(self, id: int, address: int, data: bytes) -> bytes:
        """WRITE."""
        return self.encode(id, Instruction.WRITE, self.write_params(address, data))

    def read_frame(self, id: int, address: int, length: int) -> bytes:
        """READ."""
        return self.encode(id, Instruction.READ, self.read_params(address, length))

    def answers(self, id: int, data: bytes) -> list[bytes]:
        """Every answer of a servo to a READ that says `data`: one for each error byte."""
        return [self.encode_status(id, error, data) for error in self.read_errors]

    def limp_frame(self, ids: Iterable[int] | None = None) -> bytes:
        """Torque off, for all at once, or for these `ids` alone where other models have other registers there.

        None is for a line on which every servo is of a known model.
        """
        if ids is None or self.common_registers:
            return self.write_frame(BROADCAST, self.torque_enable, b"\0")
        params = self.sync_write_params(self.torque_enable, dict.fromkeys(ids, b"\0"))
        return self.encode(BROADCAST, Instruction.SYNC_WRITE, params)


FIRST = Protocol()
