"""A bus in process: the lines and servos of a pseudo-terminal, in simulated time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from axbridge.bus.base import SHORTEST_BLOCK, Answers, Bus
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.errors import BusTimeout, CorruptPacket, PortError
from axbridge.virtual.line import Line, ScheduledRead
from axbridge.virtual.sensors import Counters
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
        self._counters = Counters()
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

    def _read_next(self, requests: Sequence[tuple[int, int, int]], answers: Answers) -> None:
        """Answer the READs that the line can schedule before the next fault, usually in one advance of the world."""
        line, world, done = self._line, self._world, 0
        start = min(self._next_start, world.now())
        reads = [] if line is None else line.schedule_reads(requests, start, world.next_event, _GRACE)
        if line is None or not reads:
            super()._read_next(requests, answers)
            return
        self._next_start = math.inf

        def answer() -> None:
            """Answer the READs sent so far, before alarms change registers."""
            nonlocal done
            sent = [read for read in reads[done:] if read.sent < world.now()]
            self._answer(sent, answers)
            done += len(sent)

        while reads and world.next_watch <= reads[-1].due:
            version = line.version
            world.sleep_until(world.next_watch, answer)
            if done < len(reads) and world.now() - reads[done].sent > _MAX_SAMPLE_AGE:
                answer()
            if line.version != version and done < len(reads):  # a servo lost power or has it again
                del reads[done:]
                self._next_start = reads[-1].due if reads else start
        if reads:
            world.sleep_until(reads[-1].due)
            self._answer(reads[done:], answers)
            line.record_reads(reads)
        else:
            super()._read_next(requests, answers)

    def _answer(self, reads: Sequence[ScheduledRead], answers: Answers) -> None:
        """Answer with the present registers, and with sensor readings sampled when each READ arrived."""
        if reads:
            servos, addresses, lengths, sent, _ = zip(*reads, strict=True)
            states = self._world.bank.sampled(np.array([servo.row for servo in servos]), sent)
            counts = self._counters.count([servo.sensors for servo in servos], states)
            rows = zip(servos, addresses, lengths, sent, states, counts, strict=True)
            answers.data += [servo.peek(*given) for servo, *given in rows]
            answers.errors += [servo.alarms.bits for servo in servos]
            answers.times += sent

    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        line, sent = self._send_frame(frame)
        if length is None:
            line.collect(sent)
            return None, sent
        protocol = self.protocol(id)
        deadline = sent + line.seconds(protocol.longest(length)) + (_GRACE if line.timing == "wire" else 0.0)
        received = b""
        echo = frame if line.mishaps.echo else b""
        for data in self._deliveries(line, deadline):
            if data == echo:
                echo = b""
                continue
            received += data
            reply = protocol.find_answer(received, frame, id, length, echo=False, refusable=True).packet
            if reply is not None and not protocol.garbled(reply.code):
                return reply, sent
        self._world.sleep_until(deadline)
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
        for data in self._deliveries(line, deadline):
            received += data
            count += sum(protocol.is_answer(packet) for packet in decoder.feed(data))
            if count >= answers:
                return received, sent
        self._world.sleep_until(deadline)
        return received, sent

    def _deliveries(self, line: Line, deadline: float) -> Iterator[bytes]:
        """Advance the world to each delivery until `deadline`, s, and yield its bytes."""
        while (due := line.next_due) <= deadline:
            self._world.sleep_until(due)
            for delivery in line.collect(due):
                yield delivery.data
