"""What a packet can ask of a servo, by the code that stands in it: an instruction of both protocols has one code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Literal

Version = Literal[1, 2, "sts", "scs"]
"""A protocol as profiles name it: Dynamixel 1.0 and 2.0, Feetech's STS and SMS servos, and their SCS servos."""


class Instruction(IntEnum):
    """Instruction codes of Protocol 2.0; the others have fewer."""

    PING = 0x01
    READ = 0x02
    WRITE = 0x03
    REG_WRITE = 0x04
    ACTION = 0x05
    FACTORY_RESET = 0x06
    REBOOT = 0x08
    CLEAR = 0x10
    BACKUP = 0x20
    SYNC_READ = 0x82
    SYNC_WRITE = 0x83
    FAST_SYNC_READ = 0x8A
    BULK_READ = 0x92
    BULK_WRITE = 0x93
    FAST_BULK_READ = 0x9A


_ONLY_2 = {
    *(Instruction.CLEAR, Instruction.BACKUP, Instruction.SYNC_READ),
    *(Instruction.FAST_SYNC_READ, Instruction.BULK_WRITE, Instruction.FAST_BULK_READ),
}
_FIRST = tuple(code for code in Instruction if code not in _ONLY_2)
_FEETECH = tuple(code for code in Instruction if code < Instruction.CLEAR or code == Instruction.SYNC_WRITE)
INSTRUCTIONS: Mapping[Version, tuple[Instruction, ...]] = {
    1: _FIRST,
    2: tuple(Instruction),
    "sts": (*_FEETECH, Instruction.SYNC_READ),
    "scs": _FEETECH,
}
