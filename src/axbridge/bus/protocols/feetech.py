"""Feetech's servos: packets of Protocol 1.0 with registers of their own; STS and SMS know a SYNC READ, SCS do not.

Sources: Feetech's memory tables of SMS/STS and SCSCL; LeRobot's `motors/feetech`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Literal

from axbridge.bus.protocols import v1
from axbridge.bus.protocols.dynamixel import FIRST, _First
from axbridge.bus.protocols.packet import BROADCAST, Packet, Search
from axbridge.bus.protocols.protocol import Protocol, Refusals, Span
from axbridge.config.instructions import Instruction, Version
from axbridge.config.registers import NAMES, FeetechAddress
from axbridge.errors import FeetechError, ServoFlags

_TORQUE, _PRESENT = int(FeetechAddress.TORQUE_ENABLE), int(FeetechAddress.PRESENT_POSITION)
_END = FeetechAddress.PRESENT_TEMPERATURE + 1
_LIMIT = 48  # Torque Limit of STS and SMS; there SCS have their lock
_VELOCITY, _TIME = (int(FeetechAddress.GOAL_VELOCITY), 2), (int(FeetechAddress.GOAL_TIME), 2)
_STEPS = int(FeetechAddress.GOAL_POSITION), 2  # a way, not a place
_ENDLESS = {1: _VELOCITY, 2: _TIME, 3: _STEPS}  # by Operating Mode; 0 follows a position. Goal Time is the duty in 2
_SIGNS = {_VELOCITY[0]: 15, _TIME[0]: 10}


class _Sts(_First):
    name: Version = "sts"
    title = "Feetech STS"
    refusals = Refusals()  # it says nothing of an instruction, only of itself
    group_reads: tuple[int, ...] = (int(Instruction.SYNC_READ),)
    ping_slots = True
    full_level = 1
    names = NAMES["sts"]
    usual_profile = "sts3215"
    model_place = int(FeetechAddress.MODEL_NUMBER)
    firmware_place = int(FeetechAddress.FIRMWARE_VERSION)
    id_place = int(FeetechAddress.ID)
    torque_enable = _TORQUE
    lock: int | None = 55
    torque_limit = _LIMIT
    full_torque = 1000
    goal = int(FeetechAddress.GOAL_POSITION)
    goal_position = int(FeetechAddress.GOAL_POSITION), 2
    present_position = _PRESENT, 2
    goal_wakes = False  # nothing is known of it: a goal may, and need not
    identity = 0, _TORQUE
    usual = _PRESENT, _END - _PRESENT
    with_limit = _LIMIT, _END - _LIMIT
    with_torque = _TORQUE, _END - _TORQUE
    sign_bits: Mapping[str, int] = {"position": 15, "speed": 15, "load": 10}
    alarms: type[ServoFlags] = FeetechError
    read_errors = tuple(range(0x40))
    shuts_down = int(FeetechError.OVERHEATING | FeetechError.OVERCURRENT | FeetechError.OVERLOAD)
    revival = "torque {id} on"
    mode = 33, 1
    whole = 0, _END
    unlike = _PRESENT, _END - _PRESENT
    park_speed, park_near = 751, 23
    _goal = struct.Struct("<HHH")  # Goal Position, Goal Time, Goal Velocity
    _room = 73  # bytes that all of them have

    def find_answer(self, heard: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:  # noqa: ARG002 - it refuses nothing
        return v1.find_answer(heard, frame, id, length, echo=echo, refusable=False)

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        """See `Protocol.reads`; ``address, length, id …``."""
        return [(id_, *packet.params[:2]) for id_ in packet.params[2:]]

    def read_room(self, address: int, length: int) -> tuple[int, int]:  # noqa: ARG002 - it has no gaps
        return 0, self._room

    def error(self, byte: int) -> ServoFlags:
        return FeetechError(byte)

    def garbled(self, error: int) -> bool:  # noqa: ARG002 - it stays silent then
        return False

    def refused(self, error: int) -> bool:  # noqa: ARG002 - it does not say so
        return False

    def group_question(self, code: int, ids: Sequence[int], address: int, length: int) -> tuple[bytes, int, int]:
        frame = v1.encode(BROADCAST, code, bytes((address, length, *ids)))
        return frame, len(ids), len(ids) * self.longest(length)

    def group_answers(self, code: int, heard: bytes, ids: Sequence[int], length: int) -> dict[int, tuple[int, bytes]]:  # noqa: ARG002
        return {
            packet.id: (packet.code, packet.params)
            for packet in v1.Decoder().feed(heard)
            if packet.intact and packet.id in ids and len(packet.params) == length
        }

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        return 8 + 7 * count, 8 + 15 * count, count  # by sync read

    def goal_bytes(self, position: int, speed: int) -> bytes:
        return self._goal.pack(_magnitude(position, 15), 0, speed)

    def endless_goal(self, mode: bytes) -> Span | None:
        return _ENDLESS.get(mode[0])

    def endless_bytes(self, address: int, value: int) -> bytes:
        return self.word(_magnitude(value, _SIGNS[address]))


class _Scs(_Sts):
    name: Version = "scs"
    title = "Feetech SCS"
    group_reads: tuple[int, ...] = ()
    ping_slots = False
    byteorder: Literal["little", "big"] = "big"
    names = NAMES["scs"]
    usual_profile = "scs0009"
    lock: int | None = 48
    torque_limit = int(FeetechAddress.MAX_TORQUE)  # while the lock is 1 it is no more than a word in RAM
    with_limit = torque_limit, _END - torque_limit
    sample = tuple((name, form.replace("<", ">"), place) for name, form, place in FIRST.sample)
    mode = int(FeetechAddress.MIN_POSITION_LIMIT), 4
    park_speed, park_near = 225, 7
    _goal = struct.Struct(">HHH")
    _room = FeetechAddress.MOVING + 1

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        return 8 + 7 * count, 22 * count, count

    def endless_goal(self, mode: bytes) -> Span | None:
        return None if any(mode) else _TIME  # both position limits 0: a wheel


def _magnitude(value: int, sign: int) -> int:
    """A signed number as a magnitude below the bit that is its sign."""
    return abs(value) | (value < 0) << sign


STS: Protocol = _Sts()
SCS: Protocol = _Scs()
