"""The two protocols of ROBOTIS' servos: AX and MX speak 1.0, the X series (and MX with other firmware) 2.0."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import PlainRead, Protocol, Refusals, Span
from axbridge.config.instructions import Instruction, Version
from axbridge.config.registers import (
    CALIBRATION,
    EEPROM_END,
    ENDLESS_GOALS,
    NAMES,
    PRESENT,
    TABLE_SIZE,
    X_BLOCKS,
    Address,
    XAddress,
)
from axbridge.errors import ErrorFlag, HardwareError, ServoFlags, StatusError

_RANGE, _INSTRUCTION = int(ErrorFlag.RANGE), int(ErrorFlag.INSTRUCTION)
_REFUSED = int(ErrorFlag.RANGE | ErrorFlag.ANGLE_LIMIT | ErrorFlag.INSTRUCTION)
_X_PRESENT = int(XAddress.PRESENT_PWM), XAddress.PRESENT_TEMPERATURE + 1 - XAddress.PRESENT_PWM
_X_GOAL = struct.Struct("<Ii")  # Profile Velocity, Goal Position
_X_GOAL_SIZES = dict(ENDLESS_GOALS.values())  # by address


class _First(Protocol):
    name: Version = 1
    title = "Protocol 1.0"
    version: Literal[1, 2] = 1
    max_id = v1.MAX_ID
    refusals = Refusals(
        _INSTRUCTION, _INSTRUCTION, _RANGE, _RANGE, short=_INSTRUCTION, access=_RANGE, damaged=int(ErrorFlag.CHECKSUM),
        goal=int(ErrorFlag.ANGLE_LIMIT),
    )  # fmt: skip
    ping_length = 0
    names = NAMES[1]
    usual_profile = "ax-12a"
    model_place = int(Address.MODEL_NUMBER)
    firmware_place = int(Address.FIRMWARE_VERSION)
    id_place = int(Address.ID)
    torque_enable = int(Address.TORQUE_ENABLE)
    torque_limit = int(Address.TORQUE_LIMIT)
    full_torque = 1023
    goal = int(Address.GOAL_POSITION)
    goal_position = int(Address.GOAL_POSITION), 2
    present_position = int(Address.PRESENT_POSITION), 2
    goal_wakes = True
    identity = 0, EEPROM_END
    usual = int(Address.PRESENT_POSITION), PRESENT.size
    with_limit = int(Address.TORQUE_LIMIT), PRESENT.size + 2
    with_torque = int(Address.TORQUE_ENABLE), PRESENT.size + 12
    sample: tuple[tuple[str, str, int], ...] = (
        ("position", "<u2", 0),
        ("speed", "<u2", 2),
        ("load", "<u2", 4),
        ("voltage", "u1", 6),
        ("temperature", "u1", 7),
    )
    sign_bits: Mapping[str, int] = {"speed": 10, "load": 10}
    read_errors = tuple(byte for byte in range(0x80) if not byte & ErrorFlag.CHECKSUM)
    shuts_down = int(ErrorFlag.OVERLOAD | ErrorFlag.OVERHEATING)
    revival = "write {id} torque_limit 1023"
    mode = int(Address.CW_ANGLE_LIMIT), 4
    whole = 0, TABLE_SIZE
    unlike = CALIBRATION, Address.PRESENT_TEMPERATURE + 1 - CALIBRATION
    park_speed, park_near = 100, 6
    _goal = struct.Struct("<HH")

    encode = staticmethod(v1.encode)
    encode_status = staticmethod(v1.encode)
    sync_write_params = staticmethod(v1.sync_write_params)
    decoder = staticmethod(v1.Decoder)
    find_answer = staticmethod(v1.find_answer)

    def read_params(self, address: int, length: int) -> bytes:
        return bytes((address, length))

    def write_params(self, address: int, data: bytes) -> bytes:
        return bytes((address,)) + data

    def blocks(self, packet: Packet) -> list[tuple[int, Mapping[int, bytes]]] | None:
        params = packet.params
        return [(params[0], v1.sync_write_blocks(params))] if packet.code == Instruction.SYNC_WRITE and params else None

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        """See `Protocol.reads`; ``00, (length, id, address) …``."""
        listed = (packet.params[place : place + 3] for place in range(1, len(packet.params) - 2, 3))
        return [(id_, address, length) for length, id_, address in listed]

    def longest(self, length: int) -> int:
        return length + v1.OVERHEAD

    def is_answer(self, packet: Packet) -> bool:
        return packet.id != BROADCAST

    def plain_read(self, request: tuple[int, int, int]) -> PlainRead | None:
        return _plain_read(request)

    def read_room(self, address: int, length: int) -> tuple[int, int]:  # noqa: ARG002 - it has no gaps
        return 0, TABLE_SIZE

    def error(self, byte: int) -> ServoFlags | StatusError:
        return ErrorFlag(byte)

    def garbled(self, error: int) -> bool:
        return bool(error & ErrorFlag.CHECKSUM)

    def refused(self, error: int) -> bool:
        return bool(error & _REFUSED)

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        return 8 + 5 * count, 22 * count, count

    def goal_bytes(self, position: int, speed: int) -> bytes:
        return self._goal.pack(position, speed)

    def endless_goal(self, mode: bytes) -> Span | None:
        return None if any(mode) else (int(Address.MOVING_SPEED), 2)  # both angle limits 0: a wheel


class _Second(Protocol):
    name: Version = 2
    title = "Protocol 2.0"
    version: Literal[1, 2] = 2
    max_id = v2.MAX_ID
    address_size = 2
    refusals = Refusals(
        StatusError.RESULT, StatusError.INSTRUCTION, StatusError.RANGE, StatusError.LENGTH, StatusError.LENGTH,
        StatusError.ACCESS, goal=StatusError.LIMIT,
    )  # fmt: skip
    resets: Mapping[bytes, tuple[str, ...]] = {b"\xff": (), b"\x01": ("id",), b"\x02": ("id", "baud_rate")}
    reboots_all = True
    gaps = False
    ping_length = 3
    ping_slots = True
    group_reads = int(Instruction.FAST_SYNC_READ), int(Instruction.SYNC_READ)
    names = NAMES[2]
    usual_profile = "xl430-w250"
    model_place = int(XAddress.MODEL_NUMBER)
    firmware_place = int(XAddress.FIRMWARE_VERSION)
    id_place = int(XAddress.ID)
    torque_enable = int(XAddress.TORQUE_ENABLE)
    torque_limit = int(XAddress.GOAL_PWM)
    full_torque = 885
    goal = int(XAddress.PROFILE_VELOCITY)
    goal_position = int(XAddress.GOAL_POSITION), 4
    present_position = int(XAddress.PRESENT_POSITION), 4
    goal_wakes = False
    identity = 0, XAddress.PROTOCOL_TYPE + 1
    usual = with_limit = with_torque = _X_PRESENT
    sample = (  # the load is the duty
        ("position", "<i4", 8), ("speed", "<i4", 4), ("load", "<i2", 0), ("voltage", "<u2", 20),
        ("temperature", "u1", 22),
    )  # fmt: skip
    alarm: Span | None = (int(XAddress.HARDWARE_ERROR_STATUS), 1)
    alert = v2.ALERT
    alarms: type[ServoFlags] = HardwareError
    read_errors = tuple(number | alert for number in range(8) for alert in (0, v2.ALERT))
    watchdog: int | None = int(XAddress.BUS_WATCHDOG)
    revival = "reboot {id}"
    mode = int(XAddress.OPERATING_MODE), 1
    whole = int(XAddress.GOAL_VELOCITY), XAddress.PRESENT_TEMPERATURE + 1 - XAddress.GOAL_VELOCITY
    unlike = _X_PRESENT
    park_speed, park_near = 48, 23

    encode = staticmethod(v2.encode)
    encode_status = staticmethod(v2.encode_status)
    read_params = staticmethod(v2.read_params)
    write_params = staticmethod(v2.write_params)
    sync_write_params = staticmethod(v2.sync_write_params)
    decoder = staticmethod(v2.Decoder)
    find_answer = staticmethod(v2.find_answer)

    def blocks(self, packet: Packet) -> list[tuple[int, Mapping[int, bytes]]] | None:
        params = packet.params
        if packet.code == Instruction.SYNC_WRITE:
            return [(int.from_bytes(params[:2], "little"), v2.sync_write_blocks(params))]
        if packet.code == Instruction.BULK_WRITE:
            return [(address, {id_: data}) for id_, address, data in v2.bulk_write_blocks(params)]
        return None

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        params = packet.params
        if packet.code in {Instruction.BULK_READ, Instruction.FAST_BULK_READ}:
            return v2.bulk_read_requests(params)
        address, length = (int.from_bytes(params[place : place + 2], "little") for place in (0, 2))
        return [(id_, address, length) for id_ in params[4:]]

    def longest(self, length: int) -> int:
        return length + length // 3 + v2.OVERHEAD + 1  # stuffing; the error byte

    def is_answer(self, packet: Packet) -> bool:
        return packet.status

    def read_room(self, address: int, length: int) -> tuple[int, int]:
        around = ((begin, end) for begin, end in X_BLOCKS if begin <= address and address + length <= end)
        return next(around, (address, address + length))

    def error(self, byte: int) -> ServoFlags | StatusError:
        return StatusError(byte)

    def garbled(self, error: int) -> bool:
        return error & v2.NUMBER == StatusError.CRC

    def refused(self, error: int) -> bool:
        return bool(error & v2.NUMBER)

    def group_question(self, code: int, ids: Sequence[int], address: int, length: int) -> tuple[bytes, int, int]:
        frame = v2.encode(BROADCAST, code, v2.sync_read_params(address, length, ids))
        if code == Instruction.FAST_SYNC_READ:
            return frame, 1, self.longest(len(ids) * (length + 4))
        return frame, len(ids), len(ids) * self.longest(length)

    def group_answers(self, code: int, heard: bytes, ids: Sequence[int], length: int) -> dict[int, tuple[int, bytes]]:
        found: dict[int, tuple[int, bytes]] = {}
        for packet in v2.Decoder().feed(heard):
            if code == Instruction.FAST_SYNC_READ:
                blocks = v2.fast_blocks(packet, [length] * len(ids)) if packet.status and packet.id == BROADCAST else []
                if [block.id for block in blocks] == list(ids[: len(blocks)]):
                    found |= {block.id: (block.error, block.data) for block in blocks}
            elif packet.status and packet.intact and packet.id in ids and len(packet.params) == length:
                found[packet.id] = packet.code, packet.params
        return found

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        return 14 + 9 * count, 14 + count + 8 + 27 * count, 1  # by fast sync read

    def goal_bytes(self, position: int, speed: int) -> bytes:
        return _X_GOAL.pack(speed, position)

    def endless_goal(self, mode: bytes) -> Span | None:
        return ENDLESS_GOALS.get(mode[0])

    def endless_bytes(self, address: int, value: int) -> bytes:
        return value.to_bytes(_X_GOAL_SIZES[address], "little", signed=True)


@lru_cache(maxsize=1024)
def _plain_read(request: tuple[int, int, int]) -> PlainRead:
    id_, address, length = request
    frame = v1.encode(id_, Instruction.READ, bytes((address, length)))
    return PlainRead(frame, v1.HEADER + bytes((id_, length + 2)), length + v1.OVERHEAD)


FIRST: Protocol = _First()
SECOND: Protocol = _Second()
