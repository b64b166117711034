"""What packets of both protocols have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from axbridge.errors import UsageError

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


class Search(NamedTuple):
    """Outcome of looking for the one right answer in what was heard, past echoes, junk, late replies and false packets.

    Attributes:
        packet: The answer; None when it is not there (yet).
        rest: What was heard besides, without the echo.
        damaged: Whether something that looks like the answer is there, but broken.
        echo: Whether the adapter echoes: as given, or because the question itself came back.
    """

    packet: Packet | None
    rest: bytes
    damaged: bool
    echo: bool


class ByteStream(ABC):
    """What came in and is no packet yet, and how far it was read: what decoders of both protocols keep.

    Attributes:
        skipped: Bytes dropped as junk since creation.
        ends: For each packet of the latest `feed`, how many of the bytes fed so far it took to complete it.
        sizes: And how many bytes it was on the line, stuffed ones included.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._taken = 0  # bytes that have left the buffer, as packets or as junk
        self.skipped = 0
        self.ends: list[int] = []
        self.sizes: list[int] = []

    def feed(self, data: Iterable[int]) -> list[Packet]:
        """Take in bytes; return the packets that are complete now, in order, damaged ones with ``intact=False``."""
        self._buffer.extend(data)
        packets: list[Packet] = []
        self.ends, self.sizes = [], []
        while size := self._size():
            packets.append(self._packet(bytes(self._buffer[:size])))
            del self._buffer[:size]
            self._taken += size
            self.ends.append(self._taken)
            self.sizes.append(size)
        return packets

    @abstractmethod
    def _size(self) -> int:
        """Bytes of the packet that is next, once junk before it is skipped; 0: it is not complete yet."""

    @staticmethod
    @abstractmethod
    def _packet(frame: bytes) -> Packet:
        """The packet that a whole frame is."""

    @property
    def fed(self) -> int:
        """Bytes taken in since creation."""
        return self._taken + len(self._buffer)

    @property
    def pending(self) -> int:
        """Bytes held back because they may be the start of a packet."""
        return len(self._buffer)

    def reset(self) -> None:
        """Forget a packet in progress, as a servo does after the inter-byte time-out."""
        self._skip(len(self._buffer))

    def _skip(self, count: int) -> None:
        self.skipped += count
        self._taken += count
        del self._buffer[:count]


def same_length(data: Mapping[int, bytes]) -> int:
    """How many bytes a SYNC_WRITE has for each servo."""
    lengths = set(map(len, data.values()))
    if len(lengths) != 1:
        raise UsageError("SYNC_WRITE needs the same number of bytes for every servo, and at least one servo")
    return lengths.pop()


def byte_seconds(baud: float) -> float:
    """Time of one byte on the line, s."""
    return BITS_PER_BYTE / baud
