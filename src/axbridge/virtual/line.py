"""The half-duplex line between a host and virtual servos: bytes and times in, bytes and times out.

The same object serves in process and behind a pseudo-terminal. It has no clock: its owner passes bytes to `send`,
advances the world to `next_due` and calls `collect`.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from axbridge.bus.protocols import v2
from axbridge.bus.protocols.known import PROTOCOLS, SECOND
from axbridge.bus.protocols.packet import BITS_PER_BYTE, BROADCAST, Packet
from axbridge.bus.protocols.v1 import OVERHEAD
from axbridge.config.registers import Instruction
from axbridge.servo.columns import State
from axbridge.virtual.collision import Transmission, overlay
from axbridge.virtual.framing import Framing, ReceivedPacket
from axbridge.virtual.mishaps import RATES, Fault, Mishaps, Turn
from axbridge.virtual.servo import Status, VirtualServo, blocks_of

_FAST_READS = {Instruction.FAST_SYNC_READ, Instruction.FAST_BULK_READ}
_READING = int(State.READING)

STATUS = "status"
_READS = {Instruction.READ, Instruction.SYNC_READ, Instruction.BULK_READ, *_FAST_READS}
_WRITES = {Instruction.WRITE, Instruction.REG_WRITE, Instruction.SYNC_WRITE, Instruction.BULK_WRITE}
_CODES: Mapping[str, Collection[int]] = {  # instruction codes by the name in a `Turn`
    **{one.name.lower(): {one} for one in Instruction}, "read": _READS, "write": _WRITES,
}  # fmt: skip
_ON_QUESTION = {"drop", "corrupt", "truncate"}  # faults of the instruction packet, unless it is a read
_READ_FRAME = 2 + OVERHEAD  # bytes of a READ


class Delivery(NamedTuple):
    """Bytes that reach the host, and the time of the last one, s."""

    due: float
    data: bytes


class Logged(NamedTuple):
    """A packet that went over the line."""

    time: float  # end of the packet, s
    version: int  # of Dynamixel's protocol
    packet: Packet  # its code is the instruction, or the error byte of a status packet
    answer: bool
    fault: str  # kinds of the faults applied to it, or ""


class ScheduledRead(NamedTuple):
    """A scheduled READ: time of arrival and sample (`sent`), s, and time at which its reply has arrived (`due`)."""

    servo: VirtualServo
    address: int
    length: int
    sent: float
    due: float


class _Interrupts:
    """The motor-control interrupt of one servo, with a random phase and a period within 0.5 %."""

    def __init__(self, servo: VirtualServo, rng: random.Random) -> None:
        timing = servo.profile.timing
        self._length = timing.isr_length_us * 1e-6
        self._period = timing.isr_period_us * 1e-6 * rng.uniform(0.995, 1.005)
        self._phase = rng.uniform(0, self._period)

    def hold_up(self, start: float, duration: float, byte: float) -> tuple[float, float]:
        """Return start and duration of a status packet, delayed by the interrupt."""
        if not self._length:
            return start, duration
        into = (start - self._phase) % self._period
        if into < self._length:
            start += self._length - into
            into = self._length
        if into + duration > self._period:  # inside the packet the transmitter has two bytes buffered
            duration += max(self._length - 2 * byte, 0.0)
        return start, duration


class Line:
    """One line, at the host's baud rate.

    Timing ``wire``: every byte takes 10 bit times, and replies have their delays; ``none``: no time passes. `seed` is
    for interrupt phases and random faults.
    """

    def __init__(
        self,
        servos: Iterable[VirtualServo],
        *,
        baud: float = 1_000_000,
        timing: Literal["wire", "none"] = "wire",
        seed: int = 0,
    ) -> None:
        self.servos: list[VirtualServo] = []
        self.baud: float = float(baud)
        self.timing = timing
        self.packets: int = 0  # number of the host's packets
        self.version: int = 0  # incremented when a servo is added or removed, or changes id, rate or power
        self.mishaps: Mishaps = Mishaps(seed)
        self.plugged: bool = True
        self.expected: list[tuple[Fault, int]] = []  # faults at a numbered packet, and the number of packets left
        self.on_turn: Callable[[Fault], None] = lambda _: None  # starts an event at its packet
        self.script: Callable[[ReceivedPacket], list[tuple[float, bytes]] | None] | None = None  # see `_recite`
        self.log: deque[Logged] | None = None  # logged packets; None: no log
        self._struck: list[Fault] = []  # faults of the replies to the present packet
        self._rng = random.Random(seed)
        self._interrupts: dict[int, _Interrupts] = {}
        self._by_id: dict[tuple[int, int], list[VirtualServo]] = {}  # by protocol version and id
        self._listeners_by_id: dict[int, tuple[VirtualServo, float, _Interrupts]] = {}
        self._listed_at = -1, 0.0  # `version` and rate of `_listeners_by_id`
        for servo in servos:
            self.add(servo)
        self._framing = Framing(servo.protocol.version for servo in self.servos)
        self._inbox: deque[tuple[float, float, ReceivedPacket]] = deque()  # start and end on the line
        self._outbox: list[Delivery] = []  # by due time
        self._replying: list[tuple[float, float]] = []  # start and end of replies on the line
        self.host_free: float = 0.0  # s; end of the host's last byte
        self._pause = min((s.profile.timing.inter_byte_timeout_ms for s in self.servos), default=100.0) * 1e-3

    def add(self, servo: VirtualServo) -> None:
        """Add a servo to the line."""
        self.servos.append(servo)
        self._interrupts[id(servo)] = _Interrupts(servo, self._rng)
        servo.changed = self._renew_index
        self._renew_index()

    def remove(self, servo: VirtualServo) -> None:
        """Remove a servo from the line."""
        self.servos.remove(servo)
        self._renew_index()

    def expect(self, fault: Fault) -> None:
        """Apply a fault to the numbered packet of its turn."""
        assert fault.turn is not None
        self.expected.append((fault, fault.turn.number))

    def _due(self, matches: Callable[[Turn], bool]) -> list[Fault]:
        """Return the faults of this packet; count it for the other faults that match."""
        due, left = [], []
        for fault, number in self.expected:
            assert fault.turn is not None
            remaining = number - matches(fault.turn)
            if remaining:
                left.append((fault, remaining))
            else:
                due.append(fault)
        self.expected = left
        return due

    def seconds(self, count: int) -> float:
        """Return the time of `count` bytes of the host on the line, s."""
        return count * BITS_PER_BYTE / self.baud if self.timing == "wire" else 0.0

    @property
    def next_due(self) -> float | None:
        """Time of the next packet or delivery if the host sends nothing, s; None if there is none."""
        packet = self._inbox[0][1] if self._inbox else None
        delivery = self._outbox[0].due if self._outbox else None
        if packet is None or delivery is None:
            return delivery if packet is None else packet
        return min(packet, delivery)

    def send(self, data: bytes, time: float) -> None:
        """Send bytes of the host at `time` (s)."""
        if not self.plugged:
            return
        start = max(time, self.host_free)
        if self.mishaps.echo:
            self._deliver(start + self.seconds(len(data)), data)
        data = self.mishaps.damage(data)
        framing = self._framing
        if start - self.host_free > self._pause:
            framing.reset()
        self.host_free = end = start + self.seconds(len(data))
        if self._replying and self._interrupted(start, end):
            framing.reset()
            return
        for received in framing.feed(data):
            done = end if received.end == len(data) else start + self.seconds(received.end)
            self._inbox.append((done - self.seconds(received.size), done, received))

    def collect(self, time: float) -> list[Delivery]:
        """Execute the packets that have ended by `time` (s); return the bytes that have reached the host by then."""
        self.execute(time)
        outbox = self._outbox
        if not outbox or outbox[0].due > time:
            return []
        count = sum(1 for delivery in outbox if delivery.due <= time)
        arrived = outbox[:count]
        del outbox[:count]
        return arrived

    def execute(self, time: float) -> None:
        """Execute the packets that have ended by `time` (s)."""
        inbox = self._inbox
        while inbox and inbox[0][1] <= time:
            self._execute(*inbox.popleft())

    def drop_replies(self) -> None:
        """Discard replies that have not reached the host yet."""
        self._outbox.clear()

    def schedule_reads(
        self, requests: Iterable[tuple[int, int, int]], time: float, until: float, patience: float
    ) -> list[ScheduledRead]:
        """Return the times of READs of `(id, address, length)`, each sent after the previous reply.

        The schedule ends before the first READ without a normal reply: no servo or several have the id, the servo would
        not receive it or would refuse it, its reply would start later than `patience` (s), or the READ would arrive at
        `until` (s) or later.
        """
        reads: list[ScheduledRead] = []
        start = max(time, self.host_free)
        question, wire, listeners = self.seconds(_READ_FRAME), self.timing == "wire", self._listeners()
        for id_, address, length in requests if self._is_quiet(start) else ():
            sent = start + question
            if id_ not in listeners or sent >= until:
                break
            servo, byte, interrupts = listeners[id_]
            delay = servo.read_delay(address, length)
            if delay is None or (start < servo.busy_until and wire):
                break
            start = sent
            if wire:
                duration = (length + OVERHEAD) * byte
                begin, taken = interrupts.hold_up(sent + delay, duration, byte)
                start = begin + taken
                if start - sent > patience + duration:
                    break
            reads.append(ScheduledRead(servo, address, length, sent, start))
        return reads

    def _listeners(self) -> dict[int, tuple[VirtualServo, float, _Interrupts]]:
        """Return the servos that receive a READ of Protocol 1.0, by id: alone with the id, powered, at this rate.

        Each has its time per byte, s, and its interrupts.
        """
        if self._listed_at != (self.version, self.baud):
            self._listed_at = self.version, self.baud
            alone = ((id_, one) for (version, id_), (one, *more) in self._by_id.items() if version == 1 and not more)
            self._listeners_by_id = {
                id_: (servo, BITS_PER_BYTE / servo.baud, self._interrupts[id(servo)])
                for id_, servo in alone
                if id_ != BROADCAST and self._receives(servo, math.inf, _READ_FRAME)
            }
        return self._listeners_by_id

    def record_reads(self, reads: list[ScheduledRead]) -> None:
        """Note that these reads have been executed."""
        self._outbox.clear()
        self._replying.clear()
        self.packets += len(reads)
        self.host_free = reads[-1].sent

    def _is_quiet(self, start: float) -> bool:
        """Return whether the line has no faults, no log and no pending bytes at `start`."""
        return (
            self.plugged
            and not self.mishaps.shares
            and not self.mishaps.echo
            and not self.expected
            and self.log is None
            and self.script is None
            and not self._framing.pending
            and not self._inbox
            and all(span[1] <= start for span in self._replying)
        )

    def unplug(self) -> None:
        """Unplug the adapter; bytes in transit are lost."""
        self.plugged = False
        self.clear()

    def clear(self) -> None:
        """Discard all bytes in transit in both directions, including an incomplete packet."""
        self._framing.reset()
        self._inbox.clear()
        self._outbox.clear()
        self._replying.clear()

    def plug(self) -> None:
        """Plug the adapter in again."""
        self.plugged = True

    def _renew_index(self) -> None:
        """Rebuild the index of ids after a servo's id or power has changed."""
        self.version += 1
        self._by_id = {}
        for servo in self.servos:
            for id_ in servo.ids:
                self._by_id.setdefault((servo.protocol.version, id_), []).append(servo)
            self._by_id.setdefault((servo.protocol.version, BROADCAST), []).append(servo)

    def _execute(self, start: float, end: float, received: ReceivedPacket) -> None:
        self.packets += 1
        if self.script is not None and self._recite(self.script, start, end, received):
            return
        version, packet, size, _ = received
        servos: Sequence[VirtualServo]
        if self.expected or self.log is not None:
            lost, packet = self._strike_question(version, packet, end)
            if lost:
                return
        servos = [servo for servo in self._by_id.get((version, packet.id), ()) if self._receives(servo, start, size)]
        if version == 2 and packet.code in _FAST_READS and packet.id == BROADCAST and packet.intact:
            self._fast_read(servos, packet, end)
            return
        if servos and packet.code == Instruction.SYNC_WRITE and packet.id == BROADCAST and packet.intact:
            servos = self._follow(servos, packet, end)
        replies: list[tuple[VirtualServo, Status, float]] = []
        for servo in servos:
            baud = servo.baud  # the reply has the old rate, even if the packet changes it
            status = servo.handle(packet, end)
            if status is not None:
                replies.append((servo, status, baud))
            if servo.eeprom_write_time:
                busy = end if status is None else end + status.delay + len(status.frame) * BITS_PER_BYTE / baud
                self._start_eeprom_write(servo, end, busy)
        if replies:
            self._answer(replies, end)

    def _recite(
        self,
        script: Callable[[ReceivedPacket], list[tuple[float, bytes]] | None],
        start: float,
        end: float,
        received: ReceivedPacket,
    ) -> bool:
        """Send the replies of a script, with delays from the packet's start; return whether it has the packet."""
        answers = script(received)
        for delay, data in answers or ():
            self._deliver(max(start + delay, end), data)
        return answers is not None

    def _strike_question(self, version: int, packet: Packet, end: float) -> tuple[bool, Packet]:
        """Apply due faults to an instruction packet, and log it; return whether it is lost, and the received packet."""
        protocol = next((one.protocol for one in self.servos if one.protocol.version == version), PROTOCOLS[1])
        several = protocol.reads(packet) if packet.code in _READS and packet.code != Instruction.READ else ()
        written = protocol.blocks(packet) or ()
        asked = {packet.id, *(id_ for id_, _, _ in several), *(id_ for _, data in written for id_ in data)}

        def matches(turn: Turn) -> bool:
            named = not turn.instruction or packet.code in _CODES.get(turn.instruction, ())
            return named and (turn.id is None or turn.id in asked)

        due, self._struck = self._due(matches), []
        for fault in due:
            if fault.kind not in RATES:
                self.on_turn(fault)
            elif fault.kind in _ON_QUESTION and packet.code not in _READS and packet.code != Instruction.PING:
                packet = packet._replace(intact=False)
            else:
                self._struck.append(fault)
        if self.log is not None:
            self.log.append(Logged(end, version, packet, answer=False, fault=",".join(one.kind for one in due)))
        return any(one.kind in {"drop", "truncate"} for one in due) and not packet.intact, packet

    @staticmethod
    def _follow(servos: Sequence[VirtualServo], packet: Packet, end: float) -> Sequence[VirtualServo]:
        """Set goals of a SYNC_WRITE in one call; return the servos that must handle the packet themselves."""
        ((address, blocks),) = blocks_of(servos[0].protocol, packet)
        motors, others, rows, goals = servos[0].motors, [], [], []
        for servo in servos:
            goal, data = None, blocks.get(servo.id, b"")
            if servo.followed == (address, len(data)) and servo.motors is motors:
                servo.feed(end)  # an expired watchdog may stop the motor
                if servo.followed:
                    goal = servo.firmware.follow(data, motors.state.item(servo.row, _READING), end)
            if goal is None:
                others.append(servo)
            elif goal != servo.goal:  # else the motor already has this goal
                servo.goal = goal
                rows.append(servo.row)
                goals.append(goal)
        if rows:
            motors.set_goals(rows, goals, end)
        return others

    def _fast_read(self, servos: Sequence[VirtualServo], packet: Packet, end: float) -> None:
        """Send the shared reply to a fast read: each servo adds its block, until one is missing."""
        reads = SECOND.reads(packet)
        blocks: list[v2.Block] = []
        first: tuple[VirtualServo, float] | None = None
        for servo in servos:
            servo.feed(end)
        rows = np.array([servo.row for servo in servos], dtype=int)
        states = servos[0].motors.sampled(rows, [end] * len(rows)).tolist() if servos else ()
        asked = {servo.id: (servo, state) for servo, state in zip(servos, states, strict=True)}
        for id_, address, length in reads:
            if id_ not in asked:
                break
            servo, state = asked[id_]
            if (part := servo.fast_block(address, length, end, state)) is None:
                break
            first = first or (servo, part[1])
            blocks.append(part[0])
        size = sum(length + 4 for _, _, length in reads)
        if first is None or len({id_ for id_, _, _ in reads}) < len(reads) or size > first[0].profile.timing.rx_buffer:
            return
        missing = [v2.Block(id_, 0, bytes(length)) for id_, _, length in reads[len(blocks) :]]
        frame = v2.encode_fast_status(blocks + missing)
        frame = frame[: len(frame) - sum(4 + len(block.data) for block in missing)]
        self._answer([(first[0], Status(frame, first[1]), first[0].baud)], end)

    def _start_eeprom_write(self, servo: VirtualServo, end: float, busy: float) -> None:
        """Note that a servo writes its EEPROM or restarts from `busy` on, after a packet that ended at `end`."""
        eeprom_write_time, servo.eeprom_write_time = servo.eeprom_write_time, 0.0
        servo.busy_until = max(servo.busy_until, busy + eeprom_write_time if self.timing == "wire" else end)

    def _receives(self, servo: VirtualServo, start: float, size: int) -> bool:
        """Return whether a servo receives a packet of `size` bytes that starts at `start` (s)."""
        if not servo.firmware.powered or (start < servo.busy_until and self.timing == "wire"):
            return False
        timing, off = servo.profile.timing, servo.baud - self.baud
        return size <= timing.rx_buffer and (off == 0.0 or abs(off) <= timing.baud_tolerance * servo.baud)

    def _answer(self, replies: list[tuple[VirtualServo, Status, float]], end: float) -> None:
        """Put status packets on the line."""
        if self.timing == "none":
            for _, status, _ in sorted(replies, key=lambda reply: len(reply[1].after)):
                self._reply(end, status.frame)
            return
        if len(replies) == 1 and not replies[0][1].after:
            servo, status, baud = replies[0]
            byte = BITS_PER_BYTE / baud
            begin, duration = self._interrupts[id(servo)].hold_up(end + status.delay, len(status.frame) * byte, byte)
            self._put(begin, begin + duration, status.frame, end)
            return
        frames: list[Transmission] = []
        finished: dict[int, float] = {}  # id -> end of its packet, for the following replies
        for servo, status, baud in sorted(replies, key=lambda reply: len(reply[1].after)):
            free = end
            for id_ in status.after:
                free = finished.get(id_, free + status.gap)
            if free == math.inf:
                continue  # it waits for a servo that does not reply
            byte = BITS_PER_BYTE / baud
            begin, duration = self._interrupts[id(servo)].hold_up(free + status.delay, len(status.frame) * byte, byte)
            finished[servo.id] = begin + duration
            frames.append(Transmission(begin, status.frame, len(status.frame) * BITS_PER_BYTE / duration))
        for frame in overlay(frames, self.baud) if len(frames) > 1 else frames:
            self._put(frame.start, frame.end, frame.data, end)

    def _put(self, begin: float, finish: float, data: bytes, now: float) -> None:
        """Put a reply on the line from `begin` to `finish`; it is lost if the host or another servo is sending."""
        if begin < self.host_free:
            self._collide(begin)
            return
        if self._replying:
            self._replying = [span for span in self._replying if span[1] > now]
            if self._interrupted(begin, finish):
                return
        self._replying.append((begin, finish))
        self._reply(finish, data)

    def _reply(self, due: float, data: bytes) -> None:
        if self.expected or self._struck or self.log is not None:
            struck = self._faults_of_answer(due, data)
            if struck:
                for when, what in self.mishaps.strike(struck[0], due, data):
                    self._deliver(when, what)
                return
        if not self.mishaps.shares:
            self._deliver(due, data)
            return
        for when, what in self.mishaps.deliver(due, data):
            self._deliver(when, what)

    def _faults_of_answer(self, due: float, data: bytes) -> list[Fault]:
        """Log a reply; return the faults that apply to it."""
        version: Literal[1, 2] = 2 if data.startswith(v2.HEADER) else 1
        packets = PROTOCOLS[version].decoder().feed(data)
        packet = packets[0] if packets else Packet(BROADCAST, 0, data, intact=False)  # overlapping replies
        due_now = self._due(lambda turn: turn.instruction == STATUS and turn.id in {None, packet.id})
        for fault in (one for one in due_now if one.kind not in RATES):
            self.on_turn(fault)
        by_packet = [one for one in self._struck if one.turn is None or one.turn.id in {None, packet.id}]
        self._struck = [one for one in self._struck if one not in by_packet]
        struck = [one for one in due_now if one.kind in RATES] + by_packet
        if self.log is not None:
            kinds = ",".join(one.kind for one in (*due_now, *by_packet))
            self.log.append(Logged(due, version, packet, answer=True, fault=kinds))
        return struck

    def _deliver(self, due: float, data: bytes) -> None:
        self._outbox.append(Delivery(due, data))
        if len(self._outbox) > 1:
            self._outbox.sort(key=lambda delivery: delivery.due)

    def _interrupted(self, start: float, end: float) -> bool:
        """Return whether bytes overlap a servo's reply; then both are damaged."""
        cut = [span for span in self._replying if span[0] < end and span[1] > start]
        if not cut:
            return False
        ends = {span[1] for span in cut}
        self._replying = [span for span in self._replying if span not in cut]
        self._outbox = [delivery for delivery in self._outbox if delivery.due not in ends]
        return True

    def _collide(self, begin: float) -> None:
        """Discard the host's bytes after `begin`, because a servo started to reply while the host was sending."""
        self._inbox = deque(entry for entry in self._inbox if entry[1] <= begin)
