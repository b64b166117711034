"""Matches replies to instruction packets on a line; tracks registers, and late, lost or damaged replies."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from axbridge.bridge.known import Known, Table
from axbridge.bus.protocols import v2
from axbridge.bus.protocols.known import SECOND
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.bus.stats import LineStats, percentile
from axbridge.config.registers import Instruction
from axbridge.virtual.framing import Framing

_MAX_TIMES = 200_000  # reply times that are kept, the latest
_PADDING = b"\xff" * 1100  # completes any reply
_WITHOUT_REPLY = {Instruction.SYNC_WRITE, Instruction.BULK_WRITE}

OnRegisters = Callable[[Known, range, bool, float], object]
"""Called before registers of a servo get new values: servo, addresses, whether a packet writes them, and time, s."""


class _ExpectedReply(NamedTuple):
    """One expected reply to the latest instruction packet."""

    id: int
    place: range | None  # addresses of its data; None: no data; empty: a PING's


class Traffic:
    """Decodes the bytes of a line, in order, and keeps the table of known registers up to date."""

    def __init__(self, table: Table, on_registers: OnRegisters) -> None:
        self.table, self._on_registers = table, on_registers
        # called for every reply: servo, addresses of its data, and error byte
        self.answered: Callable[[Known, range | None, int], object] = lambda *_: None
        self.versions: Sequence[int] = sorted({servo.protocol.version for servo in table.servos.values()})
        self._instructions, self._replies = Framing(self.versions), Framing(self.versions)
        self.stats = LineStats()  # of each id in the table
        self.questions = 0  # number of instruction packets
        self.alarms: dict[int, Counter[str]] = {}  # by id, the number of replies with each alarm
        self.errors: dict[int, int] = {}  # by id, the alarm bits of the latest reply
        self._times: deque[float] = deque(maxlen=_MAX_TIMES)
        self._sent_at = 0.0
        self._came_at = 0.0  # s, of the latest bytes of the servos
        self._received = 0.0  # s, end of the instruction packet on the line
        self._request = Packet(BROADCAST, 0, b"")  # the latest one
        self._expected_replies: list[_ExpectedReply] = []
        self._damaged = False
        self._echoes = False
        self._acknowledging: set[int] = set()  # ids that have acknowledged a write
        self._without_ack: set[int] = set()  # ids that have not acknowledged one

    @property
    def pending(self) -> bool:
        """Whether a reply to the latest packet may still come; the number of replies to a broadcast PING is unknown."""
        replies = self._expected_replies
        return self._pings_all or any(reply.place is not None or reply.id not in self._without_ack for reply in replies)

    @property
    def _pings_all(self) -> bool:
        return self._request[:2] == (BROADCAST, Instruction.PING)

    def decode_sent(self, data: bytes, time: float, byte: float) -> None:
        """Decode bytes to the servos, sent at `time`, s; each takes `byte` s."""
        for received in self._instructions.feed(data):
            packet = received.packet
            protocol = self.table.protocol(received.protocol, packet.id)
            if protocol is None:
                continue
            self.count_lost()
            self.questions += 1
            self._request, self._sent_at, self._received = packet, time, time + received.size * byte
            if packet.intact:
                self._expected_replies = self._expect_replies(protocol, packet)
                for reply in self._expected_replies:
                    self.stats.of(reply.id).asked += self._is_due(reply)
                for servo, write in self.table.writes(protocol, packet):
                    targets = servo.targets(write.address, len(write.data))
                    if known := [target for target in targets if target is not None]:
                        self._on_registers(servo, range(min(known), max(known) + 1), True, time)
                self.table.sent(protocol, packet)

    def decode_received(self, data: bytes, time: float) -> None:
        """Decode bytes received by `time`, s, from the servos, or from an adapter that echoes."""
        self._came_at = time
        for received in self._replies.feed(data):
            packet = received.packet
            if packet[:3] == self._request[:3] and not packet.status and (packet.params or self._echoes):
                self._echoes = True
            elif packet.id == BROADCAST and packet.status:
                self._damaged |= not self._answer_shared(packet)
            elif not packet.intact:
                self._damaged = True
            else:
                self._answer(packet)

    def count_lost(self) -> None:
        """Count expected replies that did not come as lost."""
        if self._replies.pending:  # a reply that has lost a byte, or a shared one without its end
            whole = self._replies.feed(_PADDING)
            self._damaged |= not (whole and self._answer_shared(whole[0].packet))
            self._replies.reset()
        for reply in filter(self._is_due, self._expected_replies):
            counts = self.stats.of(reply.id)
            counts.corrupt += self._damaged
            counts.timeouts += not self._damaged
        self._without_ack |= {reply.id for reply in self._expected_replies if reply.place is None} - self._acknowledging
        self._expected_replies, self._damaged = [], False

    def reply_times(self) -> dict[str, float | None]:
        """Return median and 99th percentile of the time from a packet to its last reply, ms; None without any."""
        times = list(self._times)
        return {f"p{share}": 1e3 * percentile(times, share / 100) if times else None for share in (50, 99)}

    def servos(self) -> dict[str, dict[str, Any]]:
        """Return counters and alarms of each servo, by name."""
        counts = self.stats.as_dict()["servos"]
        return {
            servo.name: {**counts[servo.id], "alarms": dict(self.alarms.get(servo.id, {}))}
            for servo in self.table.servos.values()
            if servo.id in counts
        }

    def _is_due(self, reply: _ExpectedReply) -> bool:
        """Return whether a missing reply counts as lost: a servo may be set not to acknowledge writes."""
        return reply.place is not None or reply.id in self._acknowledging

    def _expect_replies(self, protocol: Protocol, packet: Packet) -> list[_ExpectedReply]:
        replies = [
            _ExpectedReply(id_, range(address, address + length)) for id_, address, length in protocol.requests(packet)
        ]
        if not replies and packet.code not in _WITHOUT_REPLY:
            replies = [_ExpectedReply(packet.id, range(0) if packet.code == Instruction.PING else None)]
        return [reply for reply in replies if reply.id in self.table.servos]

    def _answer_shared(self, packet: Packet) -> bool:
        """Note the replies in the one to a fast read; return whether only padding is behind them."""
        if packet.id != BROADCAST or not packet.status:
            return False
        blocks = v2.fast_blocks(packet, [length for _, _, length in SECOND.requests(self._request)])
        for block in blocks:
            self._answer(block)
        end = sum(4 + len(block.params) for block in blocks) - 1  # `params` lacks the first error byte
        return not packet.params[max(end, 0) :].strip(_PADDING)

    def _answer(self, packet: Packet) -> None:
        if (servo := self.table.servos.get(packet.id)) is None:
            return
        counts = self.stats.of(packet.id)
        reply = next((reply for reply in self._expected_replies if reply.id == packet.id), None)
        if reply is None:
            counts.late += not self._pings_all
            return
        self._expected_replies.remove(reply)
        if reply.place is None and packet.id not in self._acknowledging:
            self._acknowledging.add(packet.id)
            self._without_ack.discard(packet.id)
            counts.asked += 1
        if not self._expected_replies:
            self._times.append(self._came_at - self._sent_at)
        place = reply.place if reply.place and len(packet.params) == len(reply.place) else None
        if place is not None:
            self._on_registers(servo, place, False, self._received)
            servo.note(place.start, packet.params)
        self._note_alarms(servo, packet.code)
        self.answered(servo, place, packet.code)

    def _note_alarms(self, servo: Known, error: int) -> None:
        protocol = servo.protocol
        alarm = bits = error & protocol.alarm_mask
        if protocol.alarm is not None:  # the reply only reports that there is an alarm
            bits = int.from_bytes(servo.data(*protocol.alarm) or b"", "little") if alarm else 0
        self.errors[servo.id] = bits
        if alarm:
            words = protocol.alarms(bits).words or ["hardware error"]
            self.alarms.setdefault(servo.id, Counter()).update(words)
