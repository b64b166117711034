"""Counters of a line: packets, losses and times; and the least wire time of a cycle."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.packet import BROADCAST, byte_seconds
from axbridge.bus.protocols.protocol import Protocol

TURNAROUND = 22e-6  # s; a servo's reply delay to READ at return delay 0
_KEPT_CYCLES = 2000


@dataclass
class ServoStats:
    """Counters of one id since the bus was opened."""

    asked: int = 0  # instruction packets that expect a status packet
    timeouts: int = 0  # time-outs
    corrupt: int = 0  # damaged replies
    late: int = 0  # late or duplicate replies, which were discarded

    @property
    def has_replied(self) -> bool:
        """Whether any reply has come from the servo, including damaged and late ones."""
        return self.asked > self.timeouts or self.late > 0

    @property
    def loss(self) -> float:
        """Share of requests without a valid reply, 0..1."""
        return (self.timeouts + self.corrupt) / self.asked if self.asked else 0.0


@dataclass
class LineStats:
    """Counters of a bus."""

    servos: dict[int, ServoStats] = field(default_factory=dict)  # by id
    junk: int = 0  # bytes outside packets
    saw_duplicates = False  # flag: whether a complete reply has come without a request

    def of(self, id: int) -> ServoStats:
        """Return the counters of servo `id`, created at first use."""
        if id not in self.servos:
            self.servos[id] = ServoStats()
        return self.servos[id]

    def count_stray(self, data: bytes) -> int:
        """Count late replies and junk; return the number of bytes outside packets."""
        if v2.HEADER in data:
            decoder = v2.Decoder()
            for packet, end, size in reversed(list(zip(decoder.feed(data), decoder.ends, decoder.sizes, strict=True))):
                if packet.intact:
                    data = data[: end - size] + data[end:]
                    if packet.id != BROADCAST:
                        self._count_late(packet.id)
                    elif packet.status:  # the shared reply to a fast read
                        self.saw_duplicates = True
        parser = v1.Decoder()
        damaged = 0
        for packet in parser.feed(data):
            if not packet.intact:
                damaged += len(packet.params) + v1.OVERHEAD
            elif packet.id != BROADCAST:
                self._count_late(packet.id)
        junk = damaged + parser.skipped + parser.pending
        self.junk += junk
        return junk

    def _count_late(self, id: int) -> None:
        self.of(id).late += 1
        self.saw_duplicates = True

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, with the loss of each servo, for `--json` and recordings."""
        table = asdict(self)
        for id_, counts in self.servos.items():
            table["servos"][id_]["loss"] = counts.loss
        return table


class CycleTimes:
    """Starts and durations of the latest cycles."""

    def __init__(self) -> None:
        self._cycles: deque[tuple[float, float]] = deque(maxlen=_KEPT_CYCLES)
        self.count = 0

    def add(self, start: float, spent: float) -> None:
        """Add one cycle: start and duration, s."""
        self.count += 1
        self._cycles.append((start, spent))

    def as_dict(self) -> dict[str, float]:
        """Return the rate, Hz (0.0 before the second cycle), and median and 99th percentile of the duration, s."""
        cycles = self._cycles.copy()  # another thread may append
        span = cycles[-1][0] - cycles[0][0] if cycles else 0.0
        rate = (len(cycles) - 1) / span if span > 0 else 0.0
        spent = [spent for _, spent in cycles]
        return {"count": self.count, "rate": rate, "p50": percentile(spent, 0.5), "p99": percentile(spent, 0.99)}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0..1) of `values` lie, by nearest rank; NaN for no values."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def goals_time(protocols: Iterable[Protocol], baud: int) -> float:
    """Return the wire time of the goals' packets for servos with these protocols, s."""
    return sum(protocol.exchange_bytes(count)[0] for protocol, count in Counter(protocols).items()) * byte_seconds(baud)


def wire_time(protocols: Iterable[Protocol], baud: int = 1_000_000) -> float:
    """Return the wire time of one cycle for servos with these protocols, s: goals and reads, no torque limits."""
    costs = [protocol.exchange_bytes(count) for protocol, count in Counter(protocols).items()]
    return sum((goals + reads) * byte_seconds(baud) + turns * TURNAROUND for goals, reads, turns in costs)
