"""Find the packets in the host's bytes, on a line with servos of one protocol or of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.packet import Packet

_ALIKE = 2  # bytes with which headers of both protocols begin


class ReceivedPacket(NamedTuple):
    """A packet as it went over the line: its protocol, its bytes, and how many of those fed last it ended with."""

    protocol: int
    packet: Packet
    size: int
    end: int


class Framing:
    """Finds packets in a stream of bytes, however it is cut into chunks.

    To a servo of Protocol 1.0 a packet of 2.0 looks like one to id 253 of length 0, and its parameters like anything.
    Here what may be a packet of 2.0 is none of 1.0 until that is decided.
    """

    def __init__(self, protocols: Iterable[int]) -> None:
        versions = set(protocols)
        self._one = v1.Decoder() if 1 in versions else None
        self._two = v2.Decoder() if 2 in versions else None
        self._open = b""  # what `_two` keeps: perhaps the start of a packet
        self._given = 0  # how many of these bytes `_one` has, too

    @property
    def pending(self) -> bool:
        """Whether the bytes so far may be the start of a packet."""
        first = self._one
        return bool(self._open) or (first is not None and first.pending > 0)

    def reset(self) -> None:
        """Forget a packet in progress, as servos do after the inter-byte time-out."""
        for decoder in (self._one, self._two):
            if decoder is not None:
                decoder.reset()
        self._open, self._given = b"", 0

    def feed(self, data: bytes) -> list[ReceivedPacket]:
        """Take in bytes; return the packets that are complete now, in order."""
        one, two = self._one, self._two
        if one is not None and not self.pending and (whole := v1.whole_packet(data)) is not None:
            return [ReceivedPacket(1, whole, len(data), len(data))]
        if two is None:
            return self._ones(data, 0)
        stream, old = self._open + data, len(self._open)
        first, packets, done = two.fed - old, [], self._given
        for packet, end, size in zip(two.feed(data), two.ends, two.sizes, strict=True):
            begin = end - size - first
            packets += self._ones(stream[done:begin], done - old)
            if one is not None:
                one.reset()
            packets.append(ReceivedPacket(2, packet, size, end - first - old))
            done = end - first
        self._open = stream[len(stream) - two.pending :]
        free = len(stream) - (len(self._open) if len(self._open) > _ALIKE else 0)
        packets += self._ones(stream[done:free], done - old)
        self._given = max(free, done) - (len(stream) - len(self._open)) if self._open else 0
        return packets

    def _ones(self, data: bytes, place: int) -> list[ReceivedPacket]:
        """Packets of Protocol 1.0 in `data`, which begins at `place` of the bytes fed in this call."""
        if self._one is None:
            return []
        place -= self._one.fed
        packets = self._one.feed(data)
        return [
            ReceivedPacket(1, packet, len(packet.params) + v1.OVERHEAD, max(end + place, 0))
            for packet, end in zip(packets, self._one.ends, strict=True)
        ]
