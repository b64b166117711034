"""The protocol object: packets, and the registers that a control cycle, a hold and a shutdown use.

Code that drives a line gets all differences between protocols from this object; it does not test the protocol.
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

Span = tuple[int, int]  # registers: first address, bytes
_ALARMS = 0x7F
_BYTES = [bytes((value,)) for value in range(256)]
_RANGE, _INSTRUCTION = int(ErrorFlag.RANGE), int(ErrorFlag.INSTRUCTION)


class Refusals(NamedTuple):
    """Error bits of replies to refused instructions; 0: the reply has none."""

    now: int = 0  # not possible now
    unknown: int | None = None  # no such instruction, or no registered write; None: no reply
    value: int = 0  # a value is out of range
    length: int = 0  # the data do not match register sizes
    short: int = 0  # wrong number of parameters
    access: int = 0  # no such register, or read only
    damaged: int | None = None  # wrong checksum; None: no reply
    goal: int = 0  # a goal outside the servo's limits


class Protocol:
    """Protocol 1.0 of AX and MX servos; subclasses change what differs. Instruction codes are the same in all."""

    name: Version = 1  # as in profiles
    title = "Protocol 1.0"
    version: Literal[1, 2] = 1  # Dynamixel protocol of its packets
    max_id = v1.MAX_ID
    longest_packet = 143  # bytes of the smallest receive buffer of its servos (RX-64 manual p. 37)
    address_size = 1  # bytes
    bulk_entry = 3  # bytes of one servo in a BULK READ
    refusals = Refusals(
        _INSTRUCTION, _INSTRUCTION, _RANGE, _RANGE, short=_INSTRUCTION, access=_RANGE, damaged=int(ErrorFlag.CHECKSUM),
        goal=int(ErrorFlag.ANGLE_LIMIT),
    )  # fmt: skip
    resets: Mapping[bytes, tuple[str, ...]] = {b"": ()}  # parameters of FACTORY_RESET -> registers that it keeps
    reboots_all = False  # whether servos execute a broadcast REBOOT
    gaps = True  # whether a READ may contain addresses without a register
    ping_length = 0  # parameter bytes of the reply to a PING
    ping_slots = False  # whether servos answer a broadcast PING in turn, or at the same time
    group_reads: tuple[int, ...] = ()  # group reads, best first; a servo may support only the last ones
    full_level = 2  # status return level with replies to writes; two below it, only PING is answered
    usual_profile = "ax-12a"  # profile of unknown models, if `common_registers`
    common_registers = True  # whether all models have Torque Enable and settings at the same addresses
    eeprom_seconds_per_byte = 0.009  # s without replies; data sheet maximum; 6 ± 1 ms measured on an AX-12
    lock: int | None = None  # register that must be 0 for a lasting EEPROM write; None: no lock
    torque_limit = int(Address.TORQUE_LIMIT)  # address of the torque limit in position control; 2 bytes
    full_torque = 1023  # counts of `torque_limit`
    goal = int(Address.GOAL_POSITION)  # first address of `goal_bytes`
    position_size = 2  # bytes
    goal_wakes = True  # whether a goal switches the torque on
    identity: Span = (0, EEPROM_END)  # registers that identify a servo after a lost port
    # reads of a cycle: samples only, with torque limit, with all torque registers; equal if the latter are read apart
    usual: Span = (int(Address.PRESENT_POSITION), PRESENT.size)
    with_limit: Span = (int(Address.TORQUE_LIMIT), PRESENT.size + 2)
    with_torque: Span = (int(Address.TORQUE_ENABLE), PRESENT.size + 12)
    sample: tuple[tuple[str, str, int], ...] = (  # columns of the usual read: name, numpy format, offset
        ("position", "<i2", 0), ("speed", "<u2", 2), ("load", "<u2", 4), ("voltage", "u1", 6), ("temperature", "u1", 7),
    )  # fmt: skip
    sign_bits: Mapping[str, int] = {"speed": 10, "load": 10}  # sign bit by column, for sign-magnitude values
    alarm: Span | None = None  # register with the alarms if the error byte has `alert`; None: the error byte has them
    alert = 0
    alarms: type[ServoFlags] = ErrorFlag  # flags of the alarms
    read_errors = tuple(byte for byte in range(0x80) if not byte & ErrorFlag.CHECKSUM)  # of replies with data
    refusing = int(ErrorFlag.RANGE | ErrorFlag.ANGLE_LIMIT | ErrorFlag.INSTRUCTION)  # error bits of a refused write
    shuts_down = int(ErrorFlag.OVERLOAD | ErrorFlag.OVERHEATING)  # alarms that switch the torque off, factory setting
    watchdog: int | None = None  # address of Bus Watchdog, units of 20 ms
    mode: Span = (int(Address.CW_ANGLE_LIMIT), 4)  # see `endless_goal`
    modes: Span = mode  # `mode`, with the direction register if it is adjacent
    loop: Span = (Address.TORQUE_ENABLE + 2, 4)  # settings of the position loop
    commands: Span = (int(Address.GOAL_POSITION), 4)  # goals of all modes, with their speed and acceleration
    whole: Span = (0, TABLE_SIZE)  # registers that differ between two servos with one id
    span_that_differs_between_units: Span = (CALIBRATION, Address.PRESENT_TEMPERATURE + 1 - CALIBRATION)
    park_speed, park_near = 100, 6  # counts; 11 rpm, about 2 degrees
    blocked_share = 1.0  # torque share of a stalled servo behind a bridge; AX and MX servos shut down by themselves
    room = TABLE_SIZE  # bytes from address 0 that one READ may request
    _goal = struct.Struct("<hH")
    _search = staticmethod(v1.find_answer)

    def __init__(self) -> None:
        convention = CONVENTIONS[self.name]
        place, self.names, self.byteorder = convention.addresses, convention.names, convention.byteorder
        # largest number of parameter bytes that fit into every receive buffer with any stuffing
        self.params_room = max(n for n in range(self.longest_packet) if self.longest(n) <= self.longest_packet)
        self.model_place, self.firmware_place = int(place.MODEL_NUMBER), int(place.FIRMWARE_VERSION)
        self.id_place, self.torque_enable = int(place.ID), int(place.TORQUE_ENABLE)  # RAM starts at Torque Enable
        self.goal_position: Span = int(place.GOAL_POSITION), self.position_size
        self.present_position: Span = int(place.PRESENT_POSITION), self.position_size

    def revival(self, id: int, **line: Any) -> Remedy:
        """Return the command that ends a servo's shutdown; `line`: options of its line."""
        return Remedy("servo write", id, "torque_limit", 1023, **line)

    # -- packets ------------------------------------------------------------------------------------------------------

    encode = staticmethod(v1.encode)
    encode_status = staticmethod(v1.encode)  # the code is the error byte
    decoder: Callable[[], ByteStream] = staticmethod(v1.Decoder)

    def read_params(self, address: int, length: int) -> bytes:
        """Return the parameters of a READ."""
        return address.to_bytes(self.address_size, "little") + length.to_bytes(self.address_size, "little")

    def write_params(self, address: int, data: bytes) -> bytes:
        """Return the parameters of a WRITE or REG_WRITE."""
        return address.to_bytes(self.address_size, "little") + data

    def sync_write_params(self, address: int, data: Mapping[int, bytes]) -> bytes:
        """Return the parameters of a SYNC_WRITE of equally long `data` per id."""
        lengths = set(map(len, data.values()))
        if len(lengths) != 1:
            raise UsageError("SYNC_WRITE needs the same number of bytes for every servo, and at least one servo")
        return self.read_params(address, lengths.pop()) + b"".join([_BYTES[id_] + block for id_, block in data.items()])

    def sync_write_room(self, size: int) -> int:
        """Return the number of servos in one SYNC_WRITE of `size` bytes each that fits into every receive buffer."""
        return (self.params_room - 2 * self.address_size) // (size + 1)

    def blocks(self, packet: Packet) -> list[tuple[int, Mapping[int, bytes]]] | None:
        """Decode a write to several servos: address, and data by id; None for any other packet.

        Of two blocks for one id the first counts; if the length is wrong, there are no blocks.
        """
        if packet.code != Instruction.SYNC_WRITE:
            return None
        width, params = self.address_size, packet.params
        size, data = int.from_bytes(params[width : 2 * width], "little") + 1, params[2 * width :]
        starts = range(len(data) - size, -1, -size) if size > 1 and not len(data) % size else ()
        return [(int.from_bytes(params[:width], "little"), {data[i]: data[i + 1 : i + size] for i in starts})]

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        """Decode a group read to ``(id, address, length)``, in its order; empty if malformed."""
        listed = (packet.params[place : place + 3] for place in range(1, len(packet.params) - 2, 3))
        return [(id_, address, length) for length, id_, address in listed]  # 0, length, id, address, length, ...

    def asked(self, packet: Packet) -> list[tuple[int, int, int]]:
        """Decode a READ or group read to ``(id, address, length)`` for each of its servos."""
        if packet.code == Instruction.READ and len(packet.params) == 2 * self.address_size:
            numbers = packet.params[: self.address_size], packet.params[self.address_size :]
            address, length = (int.from_bytes(number, "little") for number in numbers)
            return [(packet.id, address, length)]
        return self.reads(packet) if packet.code in GROUP_READS and packet.id == BROADCAST else []

    def without(self, packet: Packet, ids: Collection[int]) -> bytes:
        """Return the frame of a group read without these `ids`."""
        listed, params = self.reads(packet), packet.params
        size = 1 if packet.code in SYNC_READS else self.bulk_entry
        first = len(params) - size * len(listed)
        kept = (first + size * place for place, (id_, _, _) in enumerate(listed) if id_ not in ids)
        part = params[:first] + b"".join(params[place : place + size] for place in kept)
        return self.encode(packet.id, packet.code, part)

    def longest(self, length: int) -> int:
        """Return the largest number of bytes on the line of a reply with `length` parameter bytes."""
        return length + v1.OVERHEAD

    def is_answer(self, packet: Packet) -> bool:
        """Return whether a packet is a status packet."""
        return packet.id != BROADCAST

    def find_answer(self, buffer: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
        """Search the bytes received since `frame` was sent for the status packet of `id` with `length` parameter bytes.

        With an `echo` it follows the echoed `frame`. If `refusable`, an error without parameters is a reply, too; it is
        not while an old acknowledgement may arrive.
        """
        if echo:
            start = buffer.find(frame)
            if start < 0:
                return Search(None, buffer, damaged=False, echo=True)
            buffer = buffer[start + len(frame) :]
        return self._search(buffer, frame, id, length, echo=echo, refusable=refusable and bool(self.refusing))

    def answer_head(self, id: int, length: int) -> bytes:
        """Return the first bytes of a reply that head, length and sum (`v1.SUM_OK`) identify; empty: not possible."""
        return v1.HEADER + bytes((id, length + 2))

    def readable_span(self, address: int, length: int) -> tuple[int, int]:  # noqa: ARG002 - it has no gaps
        """Return begin and end of the registers around these that one READ may contain."""
        return 0, self.room

    def error(self, byte: int) -> ServoFlags | StatusError:
        """Return the flags of an error byte."""
        return self.alarms(byte)

    def garbled(self, error: int) -> bool:
        """Return whether an error byte reports a damaged instruction packet: then the reply is not valid."""
        return bool(error & (self.refusals.damaged or 0))

    def refused(self, error: int) -> bool:
        """Return whether an error byte reports a refused write."""
        return bool(error & self.refusing)

    # -- several servos at once ---------------------------------------------------------------------------------------

    def group_question(self, code: int, ids: Sequence[int], address: int, length: int) -> tuple[bytes, int, int]:
        """Return the frame of a group read, the number of replies, and their bytes in total."""
        frame = self.encode(BROADCAST, code, self.read_params(address, length) + bytes(ids))
        return frame, len(ids), len(ids) * self.longest(length)

    def group_answers(self, code: int, buffer: bytes, ids: Sequence[int], length: int) -> dict[int, tuple[int, bytes]]:  # noqa: ARG002 - one form
        """Decode the replies to a group read: error byte and data by id.

        A packet counts only if another one, or nothing, follows it. A packet that has lost a byte FF would take the
        first FF of the next header as its checksum, which is then correct.
        """
        decoder = self.decoder()
        return {
            packet.id: (packet.code, packet.params)
            for packet, end in zip(decoder.feed(buffer), decoder.ends, strict=True)
            if self.is_answer(packet) and packet.intact and packet.id in ids and len(packet.params) == length
            and v1.ends_packet(buffer[end : end + 3])
        }  # fmt: skip

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        """Return bytes of the goals of `count` servos, bytes of their reads, and the number of reply delays."""
        return 8 + 5 * count, 22 * count, count

    @property
    def reads_alarm(self) -> bool:
        """Whether alarms and Torque Enable are read apart from the samples."""
        return self.alarm is not None

    @property
    def fault_mask(self) -> int:
        """Alarms of a shutdown, done or imminent: `shuts_down` and supply voltage."""
        return self.shuts_down | ErrorFlag.INPUT_VOLTAGE  # the same bit in all families

    @property
    def alarm_mask(self) -> int:
        """Bits of an error byte about the servo's state, not about the instruction."""
        return self.alert if self.reads_alarm else _ALARMS

    # -- registers ----------------------------------------------------------------------------------------------------

    def goal_bytes(self, position: int, speed: int) -> bytes:
        """Return the bytes of a goal and its speed limit, for `goal`."""
        return self._goal.pack(position, speed)

    def endless_goal(self, mode: bytes) -> Span | None:
        """Return the goal register of a mode without position control, from the bytes of `mode`; else None.

        The value 0 there stops the servo.
        """
        return None if any(mode) else (int(Address.MOVING_SPEED), 2)  # both angle limits 0: wheel mode

    def endless_bytes(self, address: int, value: int) -> bytes:
        """Return the bytes of a signed goal at `address`, for a mode without position control."""
        raise NotImplementedError

    def word(self, value: int) -> bytes:
        """Encode a register of two bytes."""
        return value.to_bytes(2, self.byteorder)

    def number(self, data: bytes) -> int:
        """Decode a register of two bytes."""
        return int.from_bytes(data, self.byteorder)

    # -- complete frames -----------------------------------------------------------------------------------------------

    def write_frame(self, id: int, address: int, data: bytes) -> bytes:
        """Return the frame of a WRITE."""
        return self.encode(id, Instruction.WRITE, self.write_params(address, data))

    def read_frame(self, id: int, address: int, length: int) -> bytes:
        """Return the frame of a READ."""
        return self.encode(id, Instruction.READ, self.read_params(address, length))

    def answers(self, id: int, data: bytes) -> list[bytes]:
        """Return every possible reply to a READ with `data`: one for each error byte."""
        return [self.encode_status(id, error, data) for error in self.read_errors]

    def limp_frame(self, ids: Iterable[int] | None = None) -> bytes:
        """Return a frame that switches torque off for all servos, or only for `ids` without `common_registers`.

        None: every servo on the line is of a known model.
        """
        if ids is None or self.common_registers:
            return self.write_frame(BROADCAST, self.torque_enable, b"\0")
        params = self.sync_write_params(self.torque_enable, dict.fromkeys(ids, b"\0"))
        return self.encode(BROADCAST, Instruction.SYNC_WRITE, params)


FIRST = Protocol()
