"""Counters of a line: packets, losses and times, and the least time that they could take."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.packet import BROADCAST, byte_seconds
from axbridge.bus.protocols.protocol import Protocol

TURNAROUND = 22e-6  # s: a servo's READ reply delay at return delay 0
_KEPT_CYCLES = 2000


@dataclass
class ServoStats:
    """Counters of one id since the bus was opened."""

    asked: int = 0  # instruction packets that wanted an answer
    timeouts: int = 0  # answers that did not come in time
    corrupt: int = 0  # answers that came damaged
    late: int = 0  # answers that came after their time, or once more, and were thrown away

    @property
    def has_replied(self) -> bool:
        """Whether anything has ever come from it, damaged or late or not."""
        return self.asked > self.timeouts or self.late > 0

    @property
    def loss(self) -> float:
        """Share of questions without a good answer, 0..1."""
        return (self.timeouts + self.corrupt) / self.asked if self.asked else 0.0


@dataclass
class LineStats:
    """Counters of a bus."""

    servos: dict[int, ServoStats] = field(default_factory=dict)  # by id
    junk: int = 0  # bytes that belonged to no packet
    saw_duplicates = False  # no counter: whether a whole reply has come without a question

    def of(self, id: int) -> ServoStats:
        """Counters of servo `id`, created at first use."""
        if id not in self.servos:
            self.servos[id] = ServoStats()
        return self.servos[id]

    def count_stray(self, data: bytes) -> int:
        """Count what came without being asked for: late replies and junk; returns the bytes that are no packet."""
        if v2.HEADER in data:
            decoder = v2.Decoder()
            for packet, end, size in reversed(list(zip(decoder.feed(data), decoder.ends, decoder.sizes, strict=True))):
                if packet.intact:
                    data = data[: end - size] + data[end:]
                    if packet.id != BROADCAST:
                        self._count_late(packet.id)
                    elif packet.status:  # the answer that several share
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
        """Plain numbers, with the loss of each servo: for `--json` and recordings."""
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
        """Note one cycle, s."""
        self.count += 1
        self._cycles.append((start, spent))

    def as_dict(self) -> dict[str, float]:
        """Rate in Hz, 0.0 before the second cycle; median and 99th percentile of the time on the line, s."""
        cycles = self._cycles.copy()  # another thread may add one meanwhile
        span = cycles[-1][0] - cycles[0][0] if cycles else 0.0
        rate = (len(cycles) - 1) / span if span > 0 else 0.0
        spent = [spent for _, spent in cycles]
        return {"count": self.count, "rate": rate, "p50": percentile(spent, 0.5), "p99": percentile(spent, 0.99)}


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of `values` lie, by nearest rank; NaN for none."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def goals_time(protocols: Iterable[Protocol], baud: int) -> float:
    """Bare time of the packets with the goals of servos that speak these protocols, s."""
    return sum(protocol.exchange_bytes(count)[0] for protocol, count in Counter(protocols).items()) * byte_seconds(baud)


def wire_time(protocols: Iterable[Protocol], baud: int = 1_000_000) -> float:
    """Bare time of one exchange with servos that speak these protocols, s: goals and reads, no torque limits."""
    costs = [protocol.exchange_bytes(count) for protocol, count in Counter(protocols).items()]
    return sum((goals + reads) * byte_seconds(baud) + turns * TURNAROUND for goals, reads, turns in costs)
