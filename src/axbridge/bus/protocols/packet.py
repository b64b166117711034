"""Types shared by the packets of both Dynamixel protocols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from axbridge.errors import UsageError

BROADCAST = 0xFE
BITS_PER_BYTE = 10  # 8N1


class Packet(NamedTuple):
    """One received packet."""

    id: int
    code: int  # instruction, or error byte of a status packet; Protocol 1.0 packets do not distinguish them
    params: bytes
    intact: bool = True  # whether the checksum is correct
    status: bool = False  # whether it is a status packet, if the protocol marks them


class Search(NamedTuple):
    """Result of the search for a reply among echoes, junk, late replies and false packets."""

    packet: Packet | None  # None: not received (yet)
    rest: bytes  # other bytes, without the echo
    damaged: bool  # whether the bytes contain a damaged reply
    echo: bool  # whether the adapter echoes: as given, or because the instruction packet came back


class ByteStream(ABC):
    """Buffer of received bytes that are no packet yet; base of the decoders of both protocols."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._consumed = 0  # bytes removed from the buffer, as packets or junk
        self.skipped = 0  # bytes dropped as junk
        self.ends: list[int] = []  # by packet of the latest `feed`: total bytes up to its end
        self.sizes: list[int] = []  # by packet: its bytes on the line, with stuffing

    def feed(self, data: Iterable[int]) -> list[Packet]:
        """Add bytes; return the packets that are now complete, in order, damaged ones with ``intact=False``."""
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
        """Skip junk; return the bytes of the next packet, or 0 if it is not complete yet."""

    @staticmethod
    @abstractmethod
    def _packet(frame: bytes) -> Packet:
        """Decode a complete frame."""

    @property
    def fed(self) -> int:
        """Number of bytes added since creation."""
        return self._consumed + len(self._buffer)

    @property
    def pending(self) -> int:
        """Number of bytes in the buffer, which may be the start of a packet."""
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
