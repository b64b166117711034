"""Find packets in the host's bytes, on a line with servos of one or both protocols."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.packet import Packet

_ALIKE = 2  # bytes that the headers of both protocols have in common


class ReceivedPacket(NamedTuple):
    """A packet on the line: protocol, packet, size in bytes, and end as an index into the bytes fed last."""

    protocol: int
    packet: Packet
    size: int
    end: int


class Framing:
    """Finds packets in a stream of bytes that arrives in chunks of any size.

    To a servo of Protocol 1.0 a packet of 2.0 has id 253 and length 0, and its parameters may contain packets.
    Therefore bytes that may be a packet of 2.0 are not decoded as 1.0 until that is decided.
    """

    def __init__(self, protocols: Iterable[int]) -> None:
        versions = set(protocols)
        self._one = v1.Decoder() if 1 in versions else None
        self._two = v2.Decoder() if 2 in versions else None
        self._open = b""  # bytes that `_two` holds: possibly the start of a packet
        self._given = 0  # number of these bytes that `_one` has decoded, too

    @property
    def pending(self) -> bool:
        """Whether the bytes so far may be the start of a packet."""
        first = self._one
        return bool(self._open) or (first is not None and first.pending > 0)

    def reset(self) -> None:
        """Discard an incomplete packet, as servos do after the inter-byte time-out."""
        for decoder in (self._one, self._two):
            if decoder is not None:
                decoder.reset()
        self._open, self._given = b"", 0

    def feed(self, data: bytes) -> list[ReceivedPacket]:
        """Decode bytes; return the packets that are complete now, in order."""
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
        """Return the packets of Protocol 1.0 in `data`, which starts at index `place` of the bytes fed in this call."""
        if self._one is None:
            return []
        place -= self._one.fed
        packets = self._one.feed(data)
        return [
            ReceivedPacket(1, packet, len(packet.params) + v1.OVERHEAD, max(end + place, 0))
            for packet, end in zip(packets, self._one.ends, strict=True)
        ]
