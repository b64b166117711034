"""The half-duplex line between a host and virtual servos: bytes and times in, bytes and times out.

The same class serves in process and behind a pseudo-terminal. It has no clock: its owner passes bytes to `send`,
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
from axbridge.virtual.firmware import Written
from axbridge.virtual.framing import Framing, ReceivedPacket
from axbridge.virtual.mishaps import RATES, Fault, Mishaps, Turn
from axbridge.virtual.servo import Status, VirtualServo, blocks_of

_FAST_READS = {Instruction.FAST_SYNC_READ, Instruction.FAST_BULK_READ}
_READING = int(State.READING)

STATUS = "status"
_READS = {Instruction.READ, Instruction.SYNC_READ, Instruction.BULK_READ, *_FAST_READS}
_WRITES = {Instruction.WRITE, Instruction.REG_WRITE, Instruction.SYNC_WRITE, Instruction.BULK_WRITE}
_CODES: Mapping[str, Collection[int]] = {  # codes that match the instruction of a `Turn`
    **{instruction.name.lower(): {instruction} for instruction in Instruction}, "read": _READS, "write": _WRITES,
}  # fmt: skip
_INSTRUCTION_FAULTS = {"drop", "corrupt", "truncate"}  # strike the instruction packet, unless it is a read or a ping
_READ_FRAME = 2 + OVERHEAD  # bytes of a READ packet


class Delivery(NamedTuple):
    """Bytes that reach the host, and when the last of them arrives, s."""

    due: float
    data: bytes


class Logged(NamedTuple):
    """A packet that went over the line."""

    time: float  # s, end of the packet
    version: int  # Dynamixel protocol version of the packet
    packet: Packet  # its code is the instruction; in a status packet, the error byte
    answer: bool
    fault: str  # faults that struck it, or ""


class ScheduledRead(NamedTuple):
    """A planned READ: arrival of the instruction packet and time of the sample (s), and arrival of its reply (s)."""

    servo: VirtualServo
    address: int
    length: int
    sent: float
    due: float


class _Interrupts:
    """The motor-control interrupt of one servo: random phase, and a period with a small random error."""

    def __init__(self, servo: VirtualServo, rng: random.Random) -> None:
        timing = servo.profile.timing
        self._length = timing.isr_length_us * 1e-6
        self._period = timing.isr_period_us * 1e-6 * rng.uniform(0.995, 1.005)
        self._phase = rng.uniform(0, self._period)

    def hold_up(self, start: float, duration: float, byte: float) -> tuple[float, float]:
        """Return start and duration of a status packet with the delays that the interrupt causes."""
        if not self._length:
            return start, duration
        into = (start - self._phase) % self._period
        if into < self._length:
            start += self._length - into
            into = self._length
        if into + duration > self._period:  # inside the packet: the transmitter has buffered two bytes
            duration += max(self._length - 2 * byte, 0.0)
        return start, duration


class Line:
    """One line, at the host's rate, bits per second.

    Timing ``wire``: each byte takes 10 bit times, and servos have their delays. Timing ``none``: nothing takes time.
    The seed determines the phases of the servos' interrupts, and mishaps.
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
        self.packets: int = 0  # packets of the host that have ended
        self.version: int = 0  # changes when a servo is added or removed, or its id, rate or power changes
        self.mishaps: Mishaps = Mishaps(seed)
        self.plugged: bool = True
        self.expected: list[tuple[Turn, int, Fault]] = []  # with the packets left until it
        self.on_turn: Callable[[Fault], None] = lambda _: None  # starts an event whose packet came
        # Returns replies with delays from the packet's start, s; None: the servos reply.
        self.script: Callable[[ReceivedPacket], list[tuple[float, bytes]] | None] | None = None
        self.log: deque[Logged] | None = None  # packets, if a log is kept
        self._struck: list[Fault] = []  # faults for the replies to the present packet
        self._rng = random.Random(seed)
        self._interrupts: dict[int, _Interrupts] = {}
        self._by_id: dict[tuple[int, int], list[VirtualServo]] = {}  # by protocol version and id
        self._listeners_by_id: dict[int, tuple[VirtualServo, float, _Interrupts]] = {}
        self._listed_at = -1, 0.0  # version and rate of `_listeners_by_id`
        for servo in servos:
            self.add(servo)
        self._framing = Framing(servo.protocol.version for servo in self.servos)
        self._inbox: deque[tuple[float, float, ReceivedPacket]] = deque()  # with start and end on the line, s
        self._outbox: list[Delivery] = []  # by due time
        self._replying: list[tuple[float, float]] = []  # start and end of replies on the line, s
        self.host_free: float = 0.0  # s: end of the host's last byte
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

    def _due(self, matches: Callable[[Turn], bool]) -> list[Fault]:
        """Return the faults whose packet has come, and count down the others that match."""
        due, left = [], []
        for turn, number, fault in self.expected:
            if remaining := number - matches(turn):
                left.append((turn, remaining, fault))
            else:
                due.append(fault)
        self.expected = left
        return due

    def seconds(self, count: int) -> float:
        """Return the time that `count` bytes of the host take on the line, s."""
        return count * BITS_PER_BYTE / self.baud if self.timing == "wire" else 0.0

    @property
    def next_due(self) -> float:
        """Time of the next event if the host sends nothing more, s; infinite if there is none."""
        packet = self._inbox[0][1] if self._inbox else math.inf
        return min(packet, self._outbox[0].due if self._outbox else math.inf)

    def send(self, data: bytes, time: float) -> None:
        """Send bytes of the host from `time` (s) on."""
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
        """Execute the packets that end by `time` (s); return the bytes that reach the host by then."""
        self.execute(time)
        outbox = self._outbox
        if not outbox or outbox[0].due > time:
            return []
        count = sum(1 for delivery in outbox if delivery.due <= time)
        arrived = outbox[:count]
        del outbox[:count]
        return arrived

    def execute(self, time: float) -> None:
        """Execute the packets that end by `time` (s)."""
        inbox = self._inbox
        while inbox and inbox[0][1] <= time:
            self._execute(*inbox.popleft())

    def drop_replies(self) -> None:
        """Discard bytes that have not reached the host yet."""
        self._outbox.clear()

    def schedule_reads(
        self, requests: Iterable[tuple[int, int, int]], time: float, until: float, patience: float
    ) -> list[ScheduledRead]:
        """Schedule READs of `(id, address, length)`, each sent after the previous reply.

        The schedule ends before the first READ with another possible result: the id has no servo or several; the servo
        is busy or refuses the READ; its reply begins after more than `patience` (s); or the READ arrives at `until` (s)
        or later.
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
                begin, airtime = interrupts.hold_up(sent + delay, duration, byte)
                start = begin + airtime
                if start - sent > patience + duration:
                    break
            reads.append(ScheduledRead(servo, address, length, sent, start))
        return reads

    def _listeners(self) -> dict[int, tuple[VirtualServo, float, _Interrupts]]:
        """Return the servos that a READ of Protocol 1.0 reaches, by id: unique id, powered, at the line's rate.

        Each comes with the duration of one of its bytes, s, and its interrupts.
        """
        if self._listed_at != (self.version, self.baud):
            self._listed_at = self.version, self.baud
            by_id = self._by_id.items()
            alone = ((id_, servo) for (version, id_), (servo, *more) in by_id if version == 1 and not more)
            self._listeners_by_id = {
                id_: (servo, BITS_PER_BYTE / servo.baud, self._interrupts[id(servo)])
                for id_, servo in alone
                if id_ != BROADCAST and self._receives(servo, math.inf, _READ_FRAME)
            }
        return self._listeners_by_id

    def record_reads(self, reads: list[ScheduledRead]) -> None:
        """Update the line as after these reads."""
        self._outbox.clear()
        self._replying.clear()
        self.packets += len(reads)
        self.host_free = reads[-1].sent

    def _is_quiet(self, start: float) -> bool:
        """Return whether packets from `start` on meet no fault, log or script, and no earlier packets or replies."""
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
        """Unplug the adapter: bytes on their way are lost."""
        self.plugged = False
        self.clear()

    def clear(self) -> None:
        """Discard all bytes on their way, in both directions, and an incomplete packet."""
        self._framing.reset()
        self._inbox.clear()
        self._outbox.clear()
        self._replying.clear()

    def plug(self) -> None:
        """Plug the adapter in again."""
        self.plugged = True

    def _renew_index(self) -> None:
        """Index the servos again after a change of id or power."""
        self.version += 1
        self._by_id = {}
        for servo in self.servos:
            for id_ in servo.ids:
                self._by_id.setdefault((servo.protocol.version, id_), []).append(servo)
            self._by_id.setdefault((servo.protocol.version, BROADCAST), []).append(servo)

    def _execute(self, start: float, end: float, received: ReceivedPacket) -> None:
        self.packets += 1
        if self.script is not None and (answers := self.script(received)) is not None:
            for delay, data in answers:
                self._deliver(max(start + delay, end), data)
            return
        version, packet, size, _ = received
        servos: Sequence[VirtualServo]
        if self.expected or self.log is not None:
            lost, packet = self._strike_instruction(version, packet, end)
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
            baud = servo.baud  # the reply has this rate, even if the packet changes it
            status = servo.handle(packet, end)
            if status is not None:
                replies.append((servo, status, baud))
            if servo.eeprom_write_time:  # it writes to its EEPROM, or restarts, after its reply
                busy = end if status is None else end + status.delay + len(status.frame) * BITS_PER_BYTE / baud
                busy = busy + servo.eeprom_write_time if self.timing == "wire" else end
                servo.eeprom_write_time, servo.busy_until = 0.0, max(servo.busy_until, busy)
        if replies:
            self._answer(replies, end)

    def _strike_instruction(self, version: int, packet: Packet, end: float) -> tuple[bool, Packet]:
        """Apply the due faults to an instruction packet and log it; return whether it is lost, and the packet."""
        protocol = next((servo.protocol for servo in self.servos if servo.protocol.version == version), PROTOCOLS[1])
        several = protocol.reads(packet) if packet.code in _READS and packet.code != Instruction.READ else ()
        written = protocol.blocks(packet) or ()
        addressed = {packet.id, *(id_ for id_, _, _ in several), *(id_ for _, data in written for id_ in data)}

        def matches(turn: Turn) -> bool:
            named = not turn.instruction or packet.code in _CODES.get(turn.instruction, ())
            return named and (turn.id is None or turn.id in addressed)

        due, self._struck = self._due(matches), []
        for fault in due:
            if fault.kind not in RATES:
                self.on_turn(fault)
            elif fault.kind in _INSTRUCTION_FAULTS and packet.code not in _READS and packet.code != Instruction.PING:
                packet = packet._replace(intact=False)
            else:
                self._struck.append(fault)
        if self.log is not None:
            self.log.append(Logged(end, version, packet, answer=False, fault=",".join(fault.kind for fault in due)))
        return any(fault.kind in {"drop", "truncate"} for fault in due) and not packet.intact, packet

    @staticmethod
    def _follow(servos: Sequence[VirtualServo], packet: Packet, end: float) -> Sequence[VirtualServo]:
        """Send goals of a SYNC_WRITE to the motors in one call; return the servos that must handle the packet."""
        ((address, blocks),) = blocks_of(servos[0].protocol, packet)
        motors, others, rows, goals, written = servos[0].motors, [], [], [], Written({}, {}, end)
        for servo in servos:
            goal, data = None, blocks.get(servo.id, b"")
            if servo.followed == (address, len(data)) and servo.motors is motors:
                servo.feed(end)  # this may stop the servo
                if servo.followed:
                    goal = servo.firmware.follow(data, motors.state.item(servo.row, _READING), written)
            if goal is None:
                others.append(servo)
            elif goal != servo.goal:  # an equal goal is set or queued already
                servo.goal = goal
                rows.append(servo.row)
                goals.append(goal)
        if rows:
            motors.set_goals(rows, goals, end)
        return others

    def _fast_read(self, servos: Sequence[VirtualServo], packet: Packet, end: float) -> None:
        """Answer a fast read with one packet: each servo adds its block, until one is missing."""
        reads = SECOND.reads(packet)
        blocks: list[Packet] = []
        first: tuple[VirtualServo, float] | None = None
        for servo in servos:
            servo.feed(end)
        rows = np.array([servo.row for servo in servos], dtype=int)
        states = servos[0].motors.sampled(rows, [end] * len(rows)).tolist() if servos else ()
        servos_by_id = {servo.id: (servo, state) for servo, state in zip(servos, states, strict=True)}
        for id_, address, length in reads:
            if id_ not in servos_by_id:
                break
            servo, state = servos_by_id[id_]
            if (part := servo.fast_block(address, length, end, state)) is None:
                break
            first = first or (servo, part[1])
            blocks.append(part[0])
        size = sum(length + 4 for _, _, length in reads)
        if first is None or len({id_ for id_, _, _ in reads}) < len(reads) or size > first[0].profile.timing.rx_buffer:
            return
        missing = [Packet(id_, 0, bytes(length)) for id_, _, length in reads[len(blocks) :]]
        frame = v2.encode_fast_status(blocks + missing)
        frame = frame[: len(frame) - sum(4 + len(block.params) for block in missing)]
        self._answer([(first[0], Status(frame, first[1]), first[0].baud)], end)

    def _receives(self, servo: VirtualServo, start: float, size: int) -> bool:
        """Return whether a servo receives a packet of `size` bytes that begins at `start` (s)."""
        if not servo.firmware.powered or (start < servo.busy_until and self.timing == "wire"):
            return False
        timing, off = servo.profile.timing, servo.baud - self.baud
        return size <= timing.rx_buffer and (off == 0.0 or abs(off) <= timing.baud_tolerance * servo.baud)

    def _answer(self, replies: list[tuple[VirtualServo, Status, float]], end: float) -> None:
        """Put status packets on the line."""
        if len(replies) == 1 and not replies[0][1].after and self.timing == "wire":
            servo, status, baud = replies[0]
            byte = BITS_PER_BYTE / baud
            begin, duration = self._interrupts[id(servo)].hold_up(end + status.delay, len(status.frame) * byte, byte)
            self._put(begin, begin + duration, status.frame, end)
            return
        frames: list[Transmission] = []
        finished: dict[int, float] = {}  # id -> end of its packet, for the replies that follow it
        for servo, status, baud in sorted(replies, key=lambda reply: len(reply[1].after)):
            free = end
            for id_ in status.after:
                free = finished.get(id_, free + status.gap)
            if free == math.inf:
                continue  # it waits for a servo that never answers
            if self.timing == "none":
                finished[servo.id] = end
                self._reply(end, status.frame)
                continue
            byte = BITS_PER_BYTE / baud
            begin, duration = self._interrupts[id(servo)].hold_up(free + status.delay, len(status.frame) * byte, byte)
            finished[servo.id] = begin + duration
            frames.append(Transmission(begin, status.frame, len(status.frame) * BITS_PER_BYTE / duration))
        for frame in overlay(frames, self.baud) if len(frames) > 1 else frames:
            self._put(frame.start, frame.end, frame.data, end)

    def _put(self, begin: float, finish: float, data: bytes, now: float) -> None:
        """Put a reply on the line from `begin` to `finish`, unless it overlaps the host or an earlier reply."""
        if begin < self.host_free:  # the host sends: its packets that end later are damaged, too
            self._inbox = deque(entry for entry in self._inbox if entry[1] <= begin)
            return
        if self._replying:
            self._replying = [span for span in self._replying if span[1] > now]
            if self._interrupted(begin, finish):
                return
        self._replying.append((begin, finish))
        self._reply(finish, data)

    def _reply(self, due: float, data: bytes) -> None:
        mishaps, noted = self.mishaps, self.expected or self._struck or self.log is not None
        struck = self._faults_of_answer(due, data) if noted else []
        for time, reply in mishaps.strike(struck[0], due, data) if struck else mishaps.deliver(due, data):
            self._deliver(time, reply)

    def _faults_of_answer(self, due: float, data: bytes) -> list[Fault]:
        """Log a status packet; return the faults that strike it."""
        version: Literal[1, 2] = 2 if data.startswith(v2.HEADER) else 1
        packets = PROTOCOLS[version].decoder().feed(data)
        packet = packets[0] if packets else Packet(BROADCAST, 0, data, intact=False)  # of servos that reply at once
        due_now = self._due(lambda turn: turn.instruction == STATUS and turn.id in {None, packet.id})
        for fault in (fault for fault in due_now if fault.kind not in RATES):
            self.on_turn(fault)
        # a fast read has one reply of several servos
        shared, ids = packet.id == BROADCAST, {None, packet.id}
        by_packet = [f for f in self._struck if shared or f.turn is None or f.turn.id in ids]
        self._struck = [fault for fault in self._struck if fault not in by_packet]
        struck = [fault for fault in due_now if fault.kind in RATES] + by_packet
        if self.log is not None:
            kinds = ",".join(fault.kind for fault in (*due_now, *by_packet))
            self.log.append(Logged(due, version, packet, answer=True, fault=kinds))
        return struck

    def _deliver(self, due: float, data: bytes) -> None:
        if not self.plugged:  # since this packet
            return
        self._outbox.append(Delivery(due, data))
        if len(self._outbox) > 1:
            self._outbox.sort(key=lambda delivery: delivery.due)

    def _interrupted(self, start: float, end: float) -> bool:
        """Return whether bytes overlap with a servo's reply, and remove that reply: both are damaged."""
        cut = [span for span in self._replying if span[0] < end and span[1] > start]
        if not cut:
            return False
        ends = {span[1] for span in cut}
        self._replying = [span for span in self._replying if span not in cut]
        self._outbox = [delivery for delivery in self._outbox if delivery.due not in ends]
        return True
