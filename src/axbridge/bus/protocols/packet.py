"""Code that both packet protocols share: packets, search results and the base of the decoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from axbridge.errors import UsageError

BROADCAST = 0xFE
BITS_PER_BYTE = 10  # 8N1


class Packet(NamedTuple):
    """One packet from the line."""

    id: int
    code: int  # instruction, or error byte of a status packet; packets of Protocol 1.0 do not show which
    params: bytes
    intact: bool = True  # whether the checksum was correct
    status: bool = False  # whether it is marked as a status packet; Protocol 1.0 has no mark


class Search(NamedTuple):
    """Result of the search for the expected reply among echoes, junk, late replies and false packets."""

    packet: Packet | None  # None: it has not come (yet)
    rest: bytes  # other bytes, without the echo
    damaged: bool  # whether a damaged packet that looks like the reply has come
    echo: bool  # whether the adapter echoes: as given, or because the request itself came back


class ByteStream(ABC):
    """Buffer of received bytes and packet boundaries: base class of the decoders of both protocols."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._consumed = 0  # bytes removed from the buffer, as packets or as junk
        self.skipped = 0  # bytes removed as junk
        self.ends: list[int] = []  # end of each packet of the latest `feed`, counted in bytes since creation
        self.sizes: list[int] = []  # its size on the line, with stuffed bytes

    def feed(self, data: Iterable[int]) -> list[Packet]:
        """Add bytes; return the packets that are complete now, in order, damaged ones with ``intact=False``."""
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
        """Skip junk before the next packet, and return the packet's size in bytes; 0: it is not complete yet."""

    @staticmethod
    @abstractmethod
    def _packet(frame: bytes) -> Packet:
        """Decode a complete frame."""

    @property
    def fed(self) -> int:
        """Return the number of bytes added since creation."""
        return self._consumed + len(self._buffer)

    @property
    def pending(self) -> int:
        """Return the number of buffered bytes that may be the start of a packet."""
        return len(self._buffer)

    def reset(self) -> None:
        """Discard an incomplete packet, as a servo does after the inter-byte time-out."""
        self._skip(len(self._buffer))

    def _skip(self, count: int) -> None:
        self.skipped += count
        self._consumed += count
        del self._buffer[:count]


def byte_seconds(baud: float) -> float:
    """Return the time of one byte on the line, s.

    Raises:
        UsageError: the rate is not positive.
    """
    if baud <= 0:
        raise UsageError(f"{baud} is no baud rate", "give bits per second, such as 1000000")
    return BITS_PER_BYTE / baud
