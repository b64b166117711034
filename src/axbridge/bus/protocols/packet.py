"""What packets of both protocols have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from axbridge.errors import UsageError

BROADCAST = 0xFE
BITS_PER_BYTE = 10  # 8N1


class Packet(NamedTuple):
    """One packet off the line."""

    id: int
    code: int  # instruction, or the error byte of a status packet; a line of Protocol 1.0 does not say which
    params: bytes
    intact: bool = True  # whether the checksum was right
    status: bool = False  # whether it is an answer, where the protocol says so


class Search(NamedTuple):
    """Result of the search for the right answer among echoes, junk, late replies and false packets."""

    packet: Packet | None  # None: it is not there (yet)
    rest: bytes  # other bytes, without the echo
    damaged: bool  # whether something that looks like the answer is there, but broken
    echo: bool  # whether the adapter echoes: as given, or because the question itself came back


class ByteStream(ABC):
    """Received bytes that are no packet yet, with a count of those taken: shared by the decoders of both protocols."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._consumed = 0  # bytes that have left the buffer, as packets or as junk
        self.skipped = 0  # bytes dropped as junk
        self.ends: list[int] = []  # of each packet of the latest `feed`: by how many bytes in all it was complete
        self.sizes: list[int] = []  # and its bytes on the line, stuffed ones included

    def feed(self, data: Iterable[int]) -> list[Packet]:
        """Take in bytes; return the packets that are complete now, in order, damaged ones with ``intact=False``."""
        self._buffer.extend(data)
        packets: list[Packet] = []
        self.ends, self.sizes = [], []
        while size := self._size():
            packets.append(self._packet(bytes(self._buffer[:size])))
            del self._buffer[:size]
            self._consumed += size
            self.ends.append(self._consumed)
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
        return self._consumed + len(self._buffer)

    @property
    def pending(self) -> int:
        """Bytes held back because they may be the start of a packet."""
        return len(self._buffer)

    def reset(self) -> None:
        """Forget a packet in progress, as a servo does after the inter-byte time-out."""
        self._skip(len(self._buffer))

    def _skip(self, count: int) -> None:
        self.skipped += count
        self._consumed += count
        del self._buffer[:count]


def byte_seconds(baud: float) -> float:
    """Time of one byte on the line, s.

    Raises:
        UsageError: no byte takes a time at this rate.
    """
    if baud <= 0:
        raise UsageError(f"{baud} is no baud rate", "give bits per second, such as 1000000")
    return BITS_PER_BYTE / baud
