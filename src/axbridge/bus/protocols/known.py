"""All protocols of ROBOTIS and Feetech servos, by the names that profiles use.

Sources of Feetech's registers: Feetech's memory tables of SMS/STS and SCSCL; LeRobot's `motors/feetech`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from axbridge.bus.protocols import v2
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import FIRST, Protocol, Refusals, Span
from axbridge.config.registers import ENDLESS_GOALS, X_BLOCKS, FeetechAddress, Instruction, Version, XAddress
from axbridge.errors import FeetechError, HardwareError, Remedy, ServoFlags, StatusError
from axbridge.units import sign_magnitude

_X_PRESENT = int(XAddress.PRESENT_PWM), XAddress.PRESENT_TEMPERATURE + 1 - XAddress.PRESENT_PWM
_X_GOAL = struct.Struct("<Ii")  # Profile Velocity, Goal Position
_X_GOAL_SIZES = dict(ENDLESS_GOALS.values())  # by address
_BULK = struct.Struct("<BHH")  # id, address, length
_TORQUE, _PRESENT = int(FeetechAddress.TORQUE_ENABLE), int(FeetechAddress.PRESENT_POSITION)
_END = FeetechAddress.PRESENT_TEMPERATURE + 1
_LIMIT = 48  # address of Torque Limit of STS and SMS; SCS servos have their lock at this address
_VELOCITY, _TIME = (int(FeetechAddress.GOAL_VELOCITY), 2), (int(FeetechAddress.GOAL_TIME), 2)
_STEPS = int(FeetechAddress.GOAL_POSITION), 2  # in step mode a distance
_ENDLESS = {1: _VELOCITY, 2: _TIME, 3: _STEPS}  # by Operating Mode; in 2 Goal Time is the duty
_SIGNS = {_VELOCITY[0]: 15, _TIME[0]: 10}  # sign bit by address


class _Second(Protocol):
    """Protocol 2.0 of the X series, and of MX servos with Protocol 2.0 firmware."""

    name: Version = 2
    title = "Protocol 2.0"
    version: Literal[1, 2] = 2
    resync = b""  # a CRC does not match by rule
    max_id = v2.MAX_ID
    longest_packet = 1024
    address_size = 2
    bulk_entry = _BULK.size
    eeprom_seconds_per_byte = 0.0  # LeRobot writes EEPROM registers without pauses, and gets replies
    refusals = Refusals(
        StatusError.RESULT, StatusError.INSTRUCTION, StatusError.RANGE, StatusError.LENGTH, StatusError.LENGTH,
        StatusError.ACCESS, StatusError.CRC, StatusError.LIMIT,
    )  # fmt: skip
    resets: Mapping[bytes, tuple[str, ...]] = {b"\xff": (), b"\x01": ("id",), b"\x02": ("id", "baud_rate")}
    reboots_all = True
    gaps = False
    ping_length = 3
    ping_slots = True
    group_reads = int(Instruction.FAST_SYNC_READ), int(Instruction.SYNC_READ)
    usual_profile = "xl430-w250"
    common_registers = False  # address of Torque Enable: X 64, XL-320 24, P 512 (e-manual, control tables)
    torque_limit = int(XAddress.GOAL_PWM)
    full_torque = 885
    goal = int(XAddress.PROFILE_VELOCITY)
    position_size = 4
    goal_enables_torque = False
    identity = 0, XAddress.PROTOCOL_TYPE + 1
    usual = with_limit = with_torque = _X_PRESENT
    sample = (  # the load is Present PWM
        ("position", "<i4", 8), ("speed", "<i4", 4), ("load", "<i2", 0), ("voltage", "<u2", 20),
        ("temperature", "u1", 22),
    )  # fmt: skip
    sign_bits: Mapping[str, int] = {}
    alarm: Span | None = (int(XAddress.HARDWARE_ERROR_STATUS), 1)
    alert = v2.ALERT
    alarms: type[ServoFlags] = HardwareError
    refusing = v2.NUMBER
    shuts_down = sum(HardwareError)  # all bits that the Shutdown register may have
    read_errors = tuple(number | alert for number in range(8) for alert in (0, v2.ALERT))
    watchdog: int | None = int(XAddress.BUS_WATCHDOG)
    mode = int(XAddress.OPERATING_MODE), 1
    modes = int(XAddress.DRIVE_MODE), 2
    loop = int(XAddress.VELOCITY_I_GAIN), 10
    commands = int(XAddress.GOAL_VELOCITY), 16
    whole = int(XAddress.GOAL_VELOCITY), XAddress.PRESENT_TEMPERATURE + 1 - XAddress.GOAL_VELOCITY
    span_that_differs_between_units = _X_PRESENT
    park_speed, park_near = 48, 23
    blocked_share = 0.3

    encode = staticmethod(v2.encode)
    encode_status = staticmethod(v2.encode_status)
    decoder = staticmethod(v2.Decoder)
    _search = staticmethod(v2.find_answer)

    def revival(self, id: int, **line: Any) -> Remedy:
        return Remedy("servo reboot", id, **line)

    def blocks(self, packet: Packet) -> list[tuple[int, Mapping[int, bytes]]] | None:
        if packet.code != Instruction.BULK_WRITE:
            return super().blocks(packet)
        blocks: list[tuple[int, Mapping[int, bytes]]] = []
        rest = packet.params
        while len(rest) >= _BULK.size:
            id_, address, length = _BULK.unpack_from(rest)
            data, rest = rest[_BULK.size : _BULK.size + length], rest[_BULK.size + length :]
            if len(data) == length:
                blocks.append((address, {id_: data}))
        return blocks

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        params = packet.params
        if packet.code in {Instruction.BULK_READ, Instruction.FAST_BULK_READ}:
            return [] if len(params) % _BULK.size else list(_BULK.iter_unpack(params))
        address, length = (int.from_bytes(params[place : place + 2], "little") for place in (0, 2))
        return [(id_, address, length) for id_ in params[4:]]

    def answer_head(self, id: int, length: int) -> bytes:  # noqa: ARG002 - the reply may be stuffed
        return b""

    def longest(self, length: int) -> int:
        return length + length // 3 + v2.OVERHEAD + 1  # byte stuffing; the error byte

    def is_answer(self, packet: Packet) -> bool:
        return packet.status

    def readable_span(self, address: int, length: int) -> tuple[int, int]:
        around = ((begin, end) for begin, end in X_BLOCKS if begin <= address and address + length <= end)
        return next(around, (address, address + length))

    def error(self, byte: int) -> ServoFlags | StatusError:
        return StatusError(byte)

    def garbled(self, error: int) -> bool:
        return error & v2.NUMBER == StatusError.CRC

    def group_question(self, code: int, ids: Sequence[int], address: int, length: int) -> tuple[bytes, int, int]:
        frame, answers, size = super().group_question(code, ids, address, length)
        if code == Instruction.FAST_SYNC_READ:
            return frame, 1, self.longest(len(ids) * (length + 4))
        return frame, answers, size

    def group_answers(self, code: int, buffer: bytes, ids: Sequence[int], length: int) -> dict[int, tuple[int, bytes]]:
        if code != Instruction.FAST_SYNC_READ:
            return super().group_answers(code, buffer, ids, length)
        answers: dict[int, tuple[int, bytes]] = {}
        for packet in v2.Decoder().feed(buffer):
            blocks = v2.fast_blocks(packet, [length] * len(ids)) if packet.status and packet.id == BROADCAST else []
            if [block.id for block in blocks] == list(ids[: len(blocks)]):
                answers |= {block.id: (block.code, block.params) for block in blocks}
        return answers

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        return 14 + 9 * count, 14 + count + 8 + 27 * count, 1  # by fast sync read

    def goal_bytes(self, position: int, speed: int) -> bytes:
        return _X_GOAL.pack(speed, position)

    def endless_goal(self, mode: bytes) -> Span | None:
        return ENDLESS_GOALS.get(mode[0])

    def endless_bytes(self, address: int, value: int) -> bytes:
        return value.to_bytes(_X_GOAL_SIZES[address], "little", signed=True)


class _Sts(Protocol):
    """STS and SMS: packets of Protocol 1.0, Feetech's registers, and a SYNC READ."""

    name: Version = "sts"
    title = "Feetech STS"
    refusals = Refusals()  # the error byte has only alarms, and no errors of an instruction
    group_reads: tuple[int, ...] = (int(Instruction.SYNC_READ),)
    ping_slots = True
    full_level = 1
    usual_profile = "sts3215"
    eeprom_seconds_per_byte = 0.0
    lock: int | None = 55
    torque_limit = _LIMIT
    full_torque = 1000
    goal = int(FeetechAddress.GOAL_POSITION)
    goal_enables_torque = False  # not known, so torque is switched on separately
    identity = 0, _TORQUE
    usual = _PRESENT, _END - _PRESENT
    with_limit = _LIMIT, _END - _LIMIT
    with_torque = _TORQUE, _END - _TORQUE
    sign_bits: Mapping[str, int] = {"position": 15, "speed": 15, "load": 10}
    alarms: type[ServoFlags] = FeetechError
    read_errors = tuple(range(0x40))
    refusing = 0
    shuts_down = int(FeetechError.OVERHEATING | FeetechError.OVERCURRENT | FeetechError.OVERLOAD)
    mode = modes = 33, 1
    loop = 21, 7
    commands = _TORQUE + 1, 7
    whole = 0, _END
    span_that_differs_between_units = _PRESENT, _END - _PRESENT
    park_speed, park_near = 751, 23
    blocked_share = 0.3
    _goal = struct.Struct("<HHH")  # Goal Position, Goal Time, Goal Velocity
    room = 73  # bytes of the table that all STS and SMS servos have

    def revival(self, id: int, **line: Any) -> Remedy:
        return Remedy("servo torque", id, "on", **line)

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        return [(id_, *packet.params[:2]) for id_ in packet.params[2:]]  # address, length, id, id, ...

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        return 8 + 7 * count, 8 + 15 * count, count  # by sync read

    def goal_bytes(self, position: int, speed: int) -> bytes:
        return self._goal.pack(sign_magnitude(position, 15), 0, speed)

    def endless_goal(self, mode: bytes) -> Span | None:
        return _ENDLESS.get(mode[0])

    def endless_bytes(self, address: int, value: int) -> bytes:
        return self.word(sign_magnitude(value, _SIGNS[address]))


class _Scs(_Sts):
    """SCS: big-endian, and no SYNC READ."""

    name: Version = "scs"
    title = "Feetech SCS"
    group_reads: tuple[int, ...] = ()
    ping_slots = False
    usual_profile = "scs0009"
    lock: int | None = 48
    torque_limit = int(FeetechAddress.MAX_TORQUE)  # while the lock is 1, a write changes only RAM
    with_limit = with_torque = torque_limit, _END - torque_limit
    sample = tuple((name, form.replace("<", ">"), place) for name, form, place in FIRST.sample)
    mode = modes = int(FeetechAddress.MIN_POSITION_LIMIT), 4
    park_speed, park_near = 225, 7
    blocked_share = 1.0  # the only torque limit is in the EEPROM
    _goal = struct.Struct(">HHH")
    room = FeetechAddress.MOVING + 1

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        return 8 + 7 * count, 22 * count, count

    def endless_goal(self, mode: bytes) -> Span | None:
        return None if any(mode) else _TIME  # both position limits 0: a wheel


SECOND: Protocol = _Second()
STS: Protocol = _Sts()
SCS: Protocol = _Scs()
PROTOCOLS: Mapping[Version, Protocol] = {protocol.name: protocol for protocol in (FIRST, SECOND, STS, SCS)}
