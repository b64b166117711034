"""What packets of both protocols have in common."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BITS_PER_BYTE", "BROADCAST", "Packet", "byte_seconds"]

BROADCAST = 0xFE
BITS_PER_BYTE = 10  # 8N1


class Packet(NamedTuple):
    """One packet off the line.

    Attributes:
        id: Servo id, or 254 for broadcast.
        code: Instruction, or the error byte when it is a status packet. A line of Protocol 1.0 does not say which.
        params: Parameter bytes.
        intact: Whether the checksum was right.
        status: Whether it is an answer, where the protocol says so; else False.
    """

    id: int
    code: int
    params: bytes
    intact: bool = True
    status: bool = False


def byte_seconds(baud: float) -> float:
    """Time of one byte on the line, s."""
    return BITS_PER_BYTE / baud
