"""What a packet can ask of a servo, by the code that stands in it: an instruction of both protocols has one code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Instruction(IntEnum):
    """Instruction codes of Protocol 2.0, and of 1.0, which has fewer."""

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
INSTRUCTIONS: Mapping[int, tuple[Instruction, ...]] = {
    1: tuple(code for code in Instruction if code not in _ONLY_2),
    2: tuple(Instruction),
}
