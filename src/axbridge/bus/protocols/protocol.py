"""Interface of a protocol: its packets, and the registers that a cycle, a hold and a shutdown use.

All differences between protocols belong to the protocol object. Code that drives a line does not test which one it has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from axbridge.bus.protocols import v1
from axbridge.bus.protocols.packet import BROADCAST, ByteStream, Packet, Search
from axbridge.config.registers import (
    CALIBRATION,
    EEPROM_END,
    FAMILIES,
    GROUP_READS,
    PRESENT,
    SYNC_READS,
    TABLE_SIZE,
    Address,
    Instruction,
    Version,
)
from axbridge.errors import ErrorFlag, Remedy, ServoFlags, StatusError, UsageError

Span = tuple[int, int]  # registers: first address, number of bytes
_ALARMS = 0x7F
_BYTES = [bytes((value,)) for value in range(256)]
_RANGE, _INSTRUCTION = int(ErrorFlag.RANGE), int(ErrorFlag.INSTRUCTION)


class Refusals(NamedTuple):
    """Error bits of the replies to instructions that a servo refuses; 0 if the reply has none."""

    now: int = 0  # not possible in the present state
    unknown: int | None = None  # unknown instruction, or ACTION without a stored write; None: no reply
    value: int = 0  # a value is outside its range
    length: int = 0  # the data do not fill whole registers
    short: int = 0  # wrong number of parameters
    access: int = 0  # no register, or it cannot be written
    damaged: int | None = None  # wrong checksum; None: no reply
    goal: int = 0  # a goal is outside the servo's own limits


class Protocol:
    """Protocol 1.0 of AX and MX servos; subclasses override the differences. Instruction codes are the same in all."""

    name: Version = 1  # as in profiles
    title = "Protocol 1.0"
    version: Literal[1, 2] = 1  # version of Dynamixel's packet format
    max_id = v1.MAX_ID
    longest_packet = 143  # bytes of the smallest receive buffer of its servos (RX-64 manual p. 37)
    address_size = 1  # bytes
    bulk_entry = 3  # bytes of one servo in a BULK READ
    refusals = Refusals(
        _INSTRUCTION, _INSTRUCTION, _RANGE, _RANGE, short=_INSTRUCTION, access=_RANGE, damaged=int(ErrorFlag.CHECKSUM),
        goal=int(ErrorFlag.ANGLE_LIMIT),
    )  # fmt: skip
    resets: Mapping[bytes, tuple[str, ...]] = {b"": ()}  # registers that a FACTORY_RESET keeps, by its parameters
    reboots_all = False  # whether servos execute a broadcast REBOOT
    gaps = True  # whether a READ may include only addresses without a register
    ping_length = 0  # parameter bytes of the reply to a PING
    ping_slots = False  # whether servos answer a broadcast PING in turn, and not all at once
    group_reads: tuple[int, ...] = ()  # instructions that read several servos, best first; a servo may lack the first
    full_level = 2  # status return level at which writes are answered; two levels below, only PING is answered
    usual_profile = "ax-12a"  # profile for a servo of an unknown model, if these have `common_registers`
    common_registers = True  # whether all models have Torque Enable and the settings at the same addresses
    eeprom_seconds_per_byte = 0.009  # EEPROM write time without replies: data sheet, maximum; AX-12 measured: 6 +- 1 ms
    lock: int | None = None  # register; an EEPROM write is permanent only while it is 0. None: each one is permanent
    torque_limit = int(Address.TORQUE_LIMIT)  # register that limits the torque in position control; 2 bytes
    full_torque = 1023  # counts of `torque_limit`
    goal = int(Address.GOAL_POSITION)  # first address of the goal and speed limit of `goal_bytes`
    position_size = 2  # bytes
    goal_enables_torque = True  # whether a goal switches the torque on
    identity: Span = (0, EEPROM_END)  # identifies a servo after the port was lost
    # Reads of a cycle: sample, sample and torque limit, sample and all torque registers; equal if `reads_alarm`.
    usual: Span = (int(Address.PRESENT_POSITION), PRESENT.size)
    with_limit: Span = (int(Address.TORQUE_LIMIT), PRESENT.size + 2)
    with_torque: Span = (int(Address.TORQUE_ENABLE), PRESENT.size + 12)
    sample: tuple[tuple[str, str, int], ...] = (  # layout of the usual read: column, numpy format and offset
        ("position", "<i2", 0), ("speed", "<u2", 2), ("load", "<u2", 4), ("voltage", "u1", 6), ("temperature", "u1", 7),
    )  # fmt: skip
    sign_bits: Mapping[str, int] = {"speed": 10, "load": 10}  # sign bit of sign-magnitude columns
    alarm: Span | None = None  # alarm register, read when the error byte has `alert`; None: the error byte has alarms
    alert = 0
    alarms: type[ServoFlags] = ErrorFlag  # flags of the alarms
    read_errors = tuple(byte for byte in range(0x80) if not byte & ErrorFlag.CHECKSUM)  # error bytes of READ replies
    refusing = int(ErrorFlag.RANGE | ErrorFlag.ANGLE_LIMIT | ErrorFlag.INSTRUCTION)  # bits of a refused write
    shuts_down = int(ErrorFlag.OVERLOAD | ErrorFlag.OVERHEATING)  # alarms that switch torque off by factory settings
    watchdog: int | None = None  # register that stops a servo when no packet comes, in units of 20 ms
    mode: Span = (int(Address.CW_ANGLE_LIMIT), 4)  # see `endless_goal`
    modes: Span = mode  # `mode`, and the direction of counting if there is a register beside it
    loop: Span = (Address.TORQUE_ENABLE + 2, 4)  # settings of the position loop
    commands: Span = (int(Address.GOAL_POSITION), 4)  # goals of all modes, and their speed and acceleration
    whole: Span = (0, TABLE_SIZE)  # may differ between two servos with one id
    span_that_differs_between_units: Span = (CALIBRATION, Address.PRESENT_TEMPERATURE + 1 - CALIBRATION)
    park_speed, park_near = 100, 6  # counts: 11 rpm, about 2 degrees
    blocked_share = 1.0  # share of torque for a blocked joint behind a bridge; AX and MX shut down in an overload
    room = TABLE_SIZE  # bytes from address 0 on that one READ may include
    # Sent after a write without a reply. A bit error can make the length of a packet 1 or 2 too large; then its sum and
    # the header of the next packet always complete a valid packet, which writes too many bytes. Zeros make it invalid.
    resync = b"\0\0"
    _goal = struct.Struct("<hH")
    _search = staticmethod(v1.find_answer)

    def __init__(self) -> None:
        family = FAMILIES[self.name]
        place, self.names, self.byteorder = family.addresses, family.names, family.byteorder
        # most parameter bytes of an instruction that fit into each receive buffer, even with most byte stuffing
        self.params_room = max(n for n in range(self.longest_packet) if self.longest(n) <= self.longest_packet)
        self.model_place, self.firmware_place = int(place.MODEL_NUMBER), int(place.FIRMWARE_VERSION)
        self.id_place, self.torque_enable = int(place.ID), int(place.TORQUE_ENABLE)  # RAM begins at Torque Enable
        self.goal_position: Span = int(place.GOAL_POSITION), self.position_size
        self.present_position: Span = int(place.PRESENT_POSITION), self.position_size

    def revival(self, id: int, **line: Any) -> Remedy:
        """Return the command that ends a servo's shutdown; `line`: options that name its line."""
        return Remedy("servo write", id, "torque_limit", 1023, **line)

    # -- packets ------------------------------------------------------------------------------------------------------

    encode = staticmethod(v1.encode)
    encode_status = staticmethod(v1.encode)  # `code` is the error byte
    decoder: Callable[[], ByteStream] = staticmethod(v1.Decoder)

    def read_params(self, address: int, length: int) -> bytes:
        """Return the parameters of a READ."""
        return address.to_bytes(self.address_size, "little") + length.to_bytes(self.address_size, "little")

    def write_params(self, address: int, data: bytes) -> bytes:
        """Return the parameters of a WRITE or REG_WRITE."""
        return address.to_bytes(self.address_size, "little") + data

    def sync_write_params(self, address: int, data: Mapping[int, bytes]) -> bytes:
        """Return the parameters of a SYNC_WRITE of data of equal length, by id."""
        lengths = set(map(len, data.values()))
        if len(lengths) != 1:
            raise UsageError("SYNC_WRITE needs the same number of bytes for every servo, and at least one servo")
        return self.read_params(address, lengths.pop()) + b"".join([_BYTES[id_] + block for id_, block in data.items()])

    def sync_write_room(self, size: int) -> int:
        """Return the most servos of one SYNC_WRITE with `size` bytes each: it must fit into each receive buffer."""
        return (self.params_room - 2 * self.address_size) // (size + 1)

    def blocks(self, packet: Packet) -> list[tuple[int, Mapping[int, bytes]]] | None:
        """Return the addresses of a write to several servos, each with the data by id; None for other packets.

        If an id occurs twice, its first block counts. If the lengths do not fit, there is no data.
        """
        if packet.code != Instruction.SYNC_WRITE:
            return None
        width, params = self.address_size, packet.params
        size, data = int.from_bytes(params[width : 2 * width], "little") + 1, params[2 * width :]
        starts = range(len(data) - size, -1, -size) if size > 1 and not len(data) % size else ()
        return [(int.from_bytes(params[:width], "little"), {data[i]: data[i + 1 : i + size] for i in starts})]

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        """Return ``(id, address, length)`` of a read of several servos, in packet order; empty if malformed."""
        listed = (packet.params[place : place + 3] for place in range(1, len(packet.params) - 2, 3))
        return [(id_, address, length) for length, id_, address in listed]  # 0, length, id, address, length, ...

    def requests(self, packet: Packet) -> list[tuple[int, int, int]]:
        """Return ``(id, address, length)`` of each servo that a READ or a group read addresses."""
        if packet.code == Instruction.READ and len(packet.params) == 2 * self.address_size:
            numbers = packet.params[: self.address_size], packet.params[self.address_size :]
            address, length = (int.from_bytes(number, "little") for number in numbers)
            return [(packet.id, address, length)]
        return self.reads(packet) if packet.code in GROUP_READS and packet.id == BROADCAST else []

    def without(self, packet: Packet, ids: Collection[int]) -> bytes:
        """Return the frame of this read of several servos without these `ids`."""
        listed, params = self.reads(packet), packet.params
        size = 1 if packet.code in SYNC_READS else self.bulk_entry
        first = len(params) - size * len(listed)
        kept = (first + size * place for place, (id_, _, _) in enumerate(listed) if id_ not in ids)
        part = params[:first] + b"".join(params[place : place + size] for place in kept)
        return self.encode(packet.id, packet.code, part)

    def longest(self, length: int) -> int:
        """Return the most bytes on the line of a reply with `length` parameter bytes."""
        return length + v1.OVERHEAD

    def is_answer(self, packet: Packet) -> bool:
        """Return whether a packet may come from a servo."""
        return packet.id != BROADCAST

    def find_answer(self, buffer: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
        """Search `buffer`, the bytes since the request `frame`, for the reply of `id` with `length` parameter bytes.

        With `echo` the reply follows the echo of the request. With `refusable` an error without parameters is also a
        reply; it is False while a late acknowledgement may come.
        """
        if echo:
            start = buffer.find(frame)
            if start < 0:
                return Search(None, buffer, damaged=False, echo=True)
            buffer = buffer[start + len(frame) :]
        return self._search(buffer, frame, id, length, echo=echo, refusable=refusable and bool(self.refusing))

    def answer_head(self, id: int, length: int) -> bytes:
        """Return the first bytes of a reply that head, size and sum (`v1.SUM_OK`) identify; empty: search for it."""
        return v1.HEADER + bytes((id, length + 2))

    def readable_span(self, address: int, length: int) -> tuple[int, int]:  # noqa: ARG002 - a READ may include gaps
        """Return begin and end of the addresses around these registers that one READ may include."""
        return 0, self.room

    def error(self, byte: int) -> ServoFlags | StatusError:
        """Return the error byte as flags, which have `describe`."""
        return self.alarms(byte)

    def garbled(self, error: int) -> bool:
        """Return whether an error byte reports that the request arrived damaged: then the packet is no valid reply."""
        return bool(error & (self.refusals.damaged or 0))

    def refused(self, error: int) -> bool:
        """Return whether an error byte reports that a write was not executed."""
        return bool(error & self.refusing)

    # -- several servos at once ---------------------------------------------------------------------------------------

    def group_question(self, code: int, ids: Sequence[int], address: int, length: int) -> tuple[bytes, int, int]:
        """Build a group read of `ids`; return its frame, the number of status packets, and their bytes in total."""
        frame = self.encode(BROADCAST, code, self.read_params(address, length) + bytes(ids))
        return frame, len(ids), len(ids) * self.longest(length)

    def group_answers(self, code: int, buffer: bytes, ids: Sequence[int], length: int) -> dict[int, tuple[int, bytes]]:  # noqa: ARG002 - one packet form
        """Return error byte and data by id, of the servos that answered.

        A packet counts only if another one begins directly behind it, or if it is the last one. A packet that lost a
        byte FF may take the first FF of the next header as its checksum, which is then correct.
        """
        decoder = self.decoder()
        return {
            packet.id: (packet.code, packet.params)
            for packet, end in zip(decoder.feed(buffer), decoder.ends, strict=True)
            if self.is_answer(packet) and packet.intact and packet.id in ids and len(packet.params) == length
            and v1.ends_packet(buffer[end : end + 3])
        }  # fmt: skip

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        """Return the bytes of the goals of `count` servos, the bytes of their reads, and the number of turnarounds."""
        return 8 + 5 * count, 22 * count, count

    @property
    def reads_alarm(self) -> bool:
        """Return whether alarm and Torque Enable are read separately from the samples."""
        return self.alarm is not None

    @property
    def fault_mask(self) -> int:
        """Return the alarm bits of a servo that has shut down or soon will: supply and `shuts_down`."""
        return self.shuts_down | ErrorFlag.INPUT_VOLTAGE  # the same bit in all families

    @property
    def alarm_mask(self) -> int:
        """Return the bits of an error byte that concern the servo, not the instruction."""
        return self.alert if self.reads_alarm else _ALARMS

    # -- registers ----------------------------------------------------------------------------------------------------

    def goal_bytes(self, position: int, speed: int) -> bytes:
        """Return the bytes of a goal and its speed limit, to write at `goal`."""
        return self._goal.pack(position, speed)

    def endless_goal(self, mode: bytes) -> Span | None:
        """Return the goal register without position control, by the bytes of `mode`; 0 there stops it. Else None."""
        return None if any(mode) else (int(Address.MOVING_SPEED), 2)  # both angle limits 0: wheel mode

    def endless_bytes(self, address: int, value: int) -> bytes:
        """Return the bytes of a signed goal at `address`, the register of `endless_goal`."""
        raise NotImplementedError

    def word(self, value: int) -> bytes:
        """Return the bytes of a register of two bytes."""
        return value.to_bytes(2, self.byteorder)

    def number(self, data: bytes) -> int:
        """Return the value of a register of two bytes."""
        return int.from_bytes(data, self.byteorder)

    # -- complete frames, for code without a protocol ------------------------------------------------------------------

    def write_frame(self, id: int, address: int, data: bytes) -> bytes:
        """Build a WRITE."""
        return self.encode(id, Instruction.WRITE, self.write_params(address, data))

    def read_frame(self, id: int, address: int, length: int) -> bytes:
        """Build a READ."""
        return self.encode(id, Instruction.READ, self.read_params(address, length))

    def answers(self, id: int, data: bytes) -> list[bytes]:
        """Return all possible replies of a servo to a READ of `data`: one for each error byte."""
        return [self.encode_status(id, error, data) for error in self.read_errors]

    def limp_frame(self, ids: Iterable[int] | None = None) -> bytes:
        """Build a torque off for all servos, or only for `ids` if other models have other registers at that address.

        With `ids` None all servos of the line must be of known models.
        """
        if ids is None or self.common_registers:
            return self.write_frame(BROADCAST, self.torque_enable, b"\0")
        params = self.sync_write_params(self.torque_enable, dict.fromkeys(ids, b"\0"))
        return self.encode(BROADCAST, Instruction.SYNC_WRITE, params)


FIRST = Protocol()
