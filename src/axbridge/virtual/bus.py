"""A bus in process: the lines and servos of a pseudo-terminal, in simulated time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from axbridge.bus.base import SHORTEST_BLOCK, Bus, Reply
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.errors import BusTimeout, CorruptPacket, PortError
from axbridge.virtual.line import Line, ScheduledRead
from axbridge.virtual.present import Readings
from axbridge.virtual.world import World

_GRACE = 0.003  # s in addition to the reply's length: the longest return delay is 0.8 ms, interrupts take 0.3 ms
_MAX_SAMPLE_AGE = 0.02  # s: maximum age of a sample when alarms are polled; the bank keeps states for 0.055 s


class VirtualBus(Bus):
    """One line of a `World`; a transaction advances the world by its time on the wire.

    Args:
        world: The world, which is also the clock.
        name: Name of the bus.

    Raises:
        PortError: the world has no bus of that name.
    """

    def __init__(self, world: World, name: str = "main") -> None:
        if name not in world.lines:
            raise PortError(name, "no such bus in this world", f"it has: {', '.join(world.lines)}")
        self.clock = world
        self.name = name
        self._world = world
        self._line: Line | None = world.lines[name]
        self.baud = round(self._line.baud)
        self._readings = Readings()
        self._next_start = math.inf  # s: earliest start of the next packet, if the world has advanced past it
        for servo in self._line.servos:
            self.set_protocol(servo.id, PROTOCOLS[servo.profile.protocol])

    def reopen(self, check: Callable[[], None] = lambda: None) -> None:
        """See `Bus.reopen`."""
        self._line = line = self._world.lines[self.name]
        if not line.plugged:
            raise PortError(self.name, "the adapter is unplugged", "plug it in again")
        check()

    def close(self) -> None:
        """Close the bus; the world stays open."""
        self._line = None

    def _rest(self, seconds: float) -> None:
        if self._line is not None and self._line.timing == "wire":
            super()._rest(seconds)

    def _read_ahead(self, requests: Sequence[tuple[int, int, int]]) -> list[Reply]:
        """Answer the READs that the line can schedule before the next fault, usually in one advance of the world."""
        line, world = self._line, self._world
        if line is None:
            return []
        start, answers = min(self._next_start, world.now()), list[Reply]()
        reads = line.schedule_reads(requests, start, world.next_event, _GRACE)
        if not reads:
            return answers
        self._next_start = math.inf

        def answer() -> None:
            """Answer the READs sent so far, before alarms change registers."""
            sent_reads = [read for read in reads[len(answers) :] if read.sent < world.now()]
            answers.extend(self._answers(sent_reads) if sent_reads else ())

        while reads and world.next_watch <= reads[-1].due:
            version = line.version
            world.sleep_until(world.next_watch, answer)
            if len(answers) < len(reads) and world.now() - reads[len(answers)].sent > _MAX_SAMPLE_AGE:
                answer()
            if line.version != version and len(answers) < len(reads):  # a servo lost power or has it again
                del reads[len(answers) :]
                self._next_start = reads[-1].due if reads else start
        if reads:
            world.sleep_until(reads[-1].due)
            if len(answers) < len(reads):
                answers += self._answers(reads[len(answers) :])
            line.record_reads(reads)
        return answers

    def _answers(self, reads: Sequence[ScheduledRead]) -> Iterator[Reply]:
        """Return replies with the present registers, and with sensor readings sampled when each READ arrived."""
        servos, addresses, lengths, sent, _ = zip(*reads, strict=True)
        states = self._world.bank.sampled(np.array([servo.row for servo in servos]), sent)
        data = self._readings.read(servos, addresses, lengths, sent, states)
        return map(Reply, [servo.alarms.bits for servo in servos], data, sent)

    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        line, sent = self._send_frame(frame)
        world = self._world
        if length is None:
            line.collect(sent)
            return None, sent
        protocol = self.protocol(id)
        deadline = sent + line.seconds(protocol.longest(length)) + (_GRACE if line.timing == "wire" else 0.0)
        received = b""
        echo = frame if line.mishaps.echo else b""
        while (due := line.next_due) is not None and due <= deadline:
            world.sleep_until(due)
            for delivery in line.collect(due):
                if delivery.data == echo:
                    echo = b""
                    continue
                received += delivery.data
                reply = protocol.find_answer(received, frame, id, length, echo=False, refusable=True).packet
                if reply is not None and not protocol.garbled(reply.code):
                    return reply, sent
        world.sleep_until(deadline)
        if received:
            raise CorruptPacket(id, received)
        raise BusTimeout(id)

    def _send_frame(self, frame: bytes) -> tuple[Line, float]:
        """Send `frame`; return the line and the time when the last byte has arrived, which is now."""
        line = self._line
        if line is None:
            raise PortError(self.name, "the bus is closed", "open it again")
        world = self._world
        if not line.plugged:
            raise PortError(self.name, "the adapter is unplugged", "plug it in and reopen the bus")
        line.drop_replies()  # late replies to the previous packet do not answer this one
        line.send(frame, min(self._next_start, world.now()))
        self._next_start = math.inf
        world.sleep_until(line.host_free)
        return line, line.host_free

    def _gather(self, protocol: Protocol, frame: bytes, answers: int, size: int) -> tuple[bytes, float]:
        line, sent = self._send_frame(frame)
        waits = max(answers, size // SHORTEST_BLOCK) * _GRACE if line.timing == "wire" else 0.0
        deadline = sent + line.seconds(size) + waits
        received, decoder, count = b"", protocol.decoder(), 0
        while count < answers and (due := line.next_due) is not None and due <= deadline:
            self._world.sleep_until(due)
            for delivery in line.collect(due):
                received += delivery.data
                count += sum(protocol.is_answer(packet) for packet in decoder.feed(delivery.data))
        if count < answers:
            self._world.sleep_until(deadline)
        return received, sent
