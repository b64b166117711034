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
        self._v1 = v1.Decoder() if 1 in versions else None
        self._v2 = v2.Decoder() if 2 in versions else None
        self._pending_bytes = b""  # bytes that `_v2` holds: possibly the start of a packet
        self._v1_count = 0  # number of these bytes that `_v1` has decoded, too

    @property
    def pending(self) -> bool:
        """Whether the bytes so far may be the start of a packet."""
        first = self._v1
        return bool(self._pending_bytes) or (first is not None and first.pending > 0)

    def reset(self) -> None:
        """Discard an incomplete packet, as servos do after the inter-byte time-out."""
        for decoder in (self._v1, self._v2):
            if decoder is not None:
                decoder.reset()
        self._pending_bytes, self._v1_count = b"", 0

    def feed(self, data: bytes) -> list[ReceivedPacket]:
        """Decode bytes; return the packets that are complete now, in order."""
        first_decoder, second_decoder = self._v1, self._v2
        if first_decoder is not None and not self.pending and (whole := v1.whole_packet(data)) is not None:
            return [ReceivedPacket(1, whole, len(data), len(data))]
        if second_decoder is None:
            return self._feed_v1(data, 0)
        stream, old = self._pending_bytes + data, len(self._pending_bytes)
        first, packets, done = second_decoder.fed - old, [], self._v1_count
        for packet, end, size in zip(second_decoder.feed(data), second_decoder.ends, second_decoder.sizes, strict=True):
            begin = end - size - first
            packets += self._feed_v1(stream[done:begin], done - old)
            if first_decoder is not None:
                first_decoder.reset()
            packets.append(ReceivedPacket(2, packet, size, end - first - old))
            done = end - first
        self._pending_bytes = stream[len(stream) - second_decoder.pending :]
        free = len(stream) - (len(self._pending_bytes) if len(self._pending_bytes) > _ALIKE else 0)
        packets += self._feed_v1(stream[done:free], done - old)
        self._v1_count = max(free, done) - (len(stream) - len(self._pending_bytes)) if self._pending_bytes else 0
        return packets

    def _feed_v1(self, data: bytes, place: int) -> list[ReceivedPacket]:
        """Return the packets of Protocol 1.0 in `data`, which starts at index `place` of the bytes fed in this call."""
        if self._v1 is None:
            return []
        place -= self._v1.fed
        packets = self._v1.feed(data)
        return [
            ReceivedPacket(1, packet, len(packet.params) + v1.OVERHEAD, max(end + place, 0))
            for packet, end in zip(packets, self._v1.ends, strict=True)
        ]
