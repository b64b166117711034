"""The bus on a serial port, a pseudo-terminal or a socket: one request at a time, never a wrong reply.

Replies have no sequence number, so a late reply looks like the reply to the next request of the same length. A reply
may also arrive twice. While a late reply may come, the next request reads another *number of bytes*: more registers
before or behind the wanted ones, which are cut off. This needs no pause, and works on lines that reorder replies.
docs/design.md ("Late replies") has the rules and their limits. An acknowledgement has a fixed length: while an old one
may come, a write is confirmed by reading it back.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from axbridge.bus.base import SHORTEST_BLOCK, Answers, Bus, Reply
from axbridge.bus.port import REPLY_DELAY, Port
from axbridge.bus.port_name import SERVE_PATIENTLY, find_port, server_behind, too_busy, unanswered_by
from axbridge.bus.protocols.packet import BROADCAST, Packet, byte_seconds
from axbridge.bus.protocols.protocol import Protocol
from axbridge.bus.protocols.v1 import SUM_OK, encode
from axbridge.bus.stats import LineStats, ServoStats
from axbridge.clock import WallClock
from axbridge.config.registers import QUESTIONS, Address, Instruction
from axbridge.errors import BusTimeout, CorruptPacket, PortError

_BUSY = 6  # `retry_timeout_factor` of a virtual bus: its computer may be busy for 0.1 s
LATE_WINDOW = 0.25  # s: a late reply comes within this time after a later request was answered
_REMOTE_LATE_WINDOW = 2.0  # s
_RECENT = 2.0  # s: packets that a busy server left unanswered within this time may explain a missing reply
DUPLICATE_REPLY_WINDOW = 0.005  # s: a reply that arrives twice does so within this time
_QUIET = 0.001  # s: a pause of this length ends a damaged reply
_CLOSING = 2.0  # s: longest wait for the end of another thread's transaction
_READ_SIZE = 300  # bytes: more than the longest reply
_MOST_EXTRA = 24  # bytes added to a READ at most; at 1 Mbps so many READs take longer than DUPLICATE_REPLY_WINDOW
_ECHO_PROBE = encode(BROADCAST, Instruction.READ, bytes((Address.ID, 1)))  # no servo answers a broadcast READ


@dataclass(slots=True, eq=False)
class _ReplyWindow:
    """Times until which a late or a duplicate reply of one servo and one length may come (`time.monotonic`, s)."""

    late_until: float = 0.0  # 0: no late reply is expected
    duplicate_until: float = 0.0


@dataclass(slots=True, eq=False)
class _ReplyRecord:
    """Reply windows of a servo by number of parameter bytes, and the windows of its two latest lengths."""

    counts: ServoStats
    answers: dict[int, _ReplyWindow] = field(default_factory=lambda: defaultdict(_ReplyWindow))
    last: _ReplyWindow | None = None
    before: _ReplyWindow | None = None

    def note_reply(self, answers: _ReplyWindow) -> None:
        """Note a reply now: a duplicate of this length may follow it."""
        answers.duplicate_until = time.monotonic() + DUPLICATE_REPLY_WINDOW
        if answers is not self.last:
            self.before, self.last = self.last, answers

    def latest_reply(self) -> float:
        """Return the time after which no late reply can come if the line answers; 0.0 if none is expected."""
        return max((window.late_until for window in self.answers.values()), default=0.0)

    def expire(self) -> None:
        """Clear the windows of all late replies."""
        for window in self.answers.values():
            window.late_until = 0.0


@dataclass(slots=True, eq=False)
class _PlannedRead:
    """A READ that answers a request, and the features by which its reply is recognised without a search."""

    id: int
    count: int  # parameter bytes of the reply; the request's bytes are from `begin` to `end`
    begin: int
    end: int
    frame: bytes
    head: bytes  # first bytes of the reply
    size: int  # bytes of the reply; 0: the reply must be searched for
    sending: float  # time of the frame on the line, s
    least: float  # shortest time of frame and reply on the line, s
    answers: _ReplyWindow
    record: _ReplyRecord


class SerialBus(Bus):
    """Servos on a serial port.

    Args:
        port: Device path, pyserial URL (``socket://host:port``, ``rfc2217://host:port``), or ``auto``: the only
            USB serial adapter that is connected.
        baud: Bits per second.
        clock: Clock of the samples; several buses of a robot share one.

    Attributes:
        latency: Allowance for the delay in adapter and host, s; `axbridge.bus.handshake` measures it.
        echo: Whether the adapter returns the bytes sent (tested at open; the echo is then removed).
        stats: Counters since the bus was opened.

    Raises:
        PortError: the port cannot be opened.
    """

    def __init__(self, port: str, baud: int = 1_000_000, *, clock: WallClock | None = None) -> None:
        self.clock = clock or WallClock()
        self.baud = baud
        self.port_name = find_port() if port == "auto" else port
        self.stats = LineStats()
        self.echo = False
        self._server: int | None = None  # process of a virtual bus behind the port; None: not known yet
        self.ended = False  # whether `close` was called
        self._byte = byte_seconds(baud)
        self.port = self._open_port()
        self.latency = self.port.latency
        if self.port.adapter.kind == "pty":
            self.retry_timeout_factor = max(self.retry_timeout_factor, _BUSY)
        self._window = _REMOTE_LATE_WINDOW if self.port.adapter.kind == "remote" else LATE_WINDOW
        self._late_until = 0.0  # no late reply comes after this time (`time.monotonic`); 0: none is expected
        self._line_silent = False  # no reply since the latest time-out: late replies do not expire
        self._reply_records: dict[int, _ReplyRecord] = {}
        self._planned: dict[Protocol, dict[tuple[int, int, int], list[_PlannedRead]]] = defaultdict(dict)  # by request
        try:
            self._start()
        except BaseException:
            self.port.close()
            raise

    def _open_port(self) -> Port:
        return Port(self.port_name, self.baud)

    def _busy_server(self) -> str:
        """Return a hint if a virtual bus behind the port was recently too busy to answer, else an empty string."""
        if self.port.adapter.kind != "pty":
            return ""
        if self._server is None:
            self._server = server_behind(self.port_name)
        packets = unanswered_by(self._server, time.monotonic() - _RECENT)
        return f"{too_busy(packets)}; {SERVE_PATIENTLY}" if packets else ""

    # -- open and close -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the port finally, after the current transaction; may be called twice."""
        self.ended = True
        acquired = self.turn.lock.acquire(timeout=_CLOSING)
        try:
            self.port.close()
        finally:
            self.turn.reserve(None)  # a thread that waits to write continues, and gets the error of a closed port
            if acquired:
                self.turn.lock.release()

    @property
    def closed(self) -> bool:
        """Return whether the port is closed or lost."""
        return not self.port.is_open

    def reopen(self, check: Callable[[], None] = lambda: None) -> None:
        """See `Bus.reopen`: the name must lead to the same line as before; echo is tested again.

        Raises:
            PortError: the port is still missing, is another line, or the bus was closed.
        """
        with self.turn, self.turn.lock:
            if self.ended:
                raise PortError(self.port_name, "the port is closed")
            self.port.setupPort(self.baud)
            self._server = None
            self._expire_all()
            try:
                self._start()
                check()
            except BaseException:
                self.port.close()
                raise

    def set_baud(self, baud: int) -> None:
        """Use another baud rate from now on.

        Raises:
            PortError: the driver cannot set this rate, or the port is closed or lost.
        """
        with self.turn, self.turn.lock:
            if self.closed:
                raise PortError(self.port_name, "the port is closed")
            self.port.setBaudRate(baud)
            self.baud = baud
            self._byte = byte_seconds(baud)
            self._planned.clear()
            self._expire_all()
            self.port.drain(_QUIET)

    def _start(self) -> None:
        self.port.drain(_QUIET)
        self.echo = any(self.port.returns(_ECHO_PROBE) for _ in range(2))

    # -- late replies -------------------------------------------------------------------------------------------------

    def _expect_late_reply(self, id: int, length: int) -> None:
        """Note that servo `id` may still send a reply with `length` parameter bytes."""
        self._reply_record(id).answers[length].late_until = self._late_until = time.monotonic() + self._window
        self._line_silent = True

    def _may_reply_late(self, id: int, length: int) -> bool:
        return self._is_expected_late(self._reply_record(id).answers[length])

    def _is_expected_late(self, answers: _ReplyWindow) -> bool:
        if answers.late_until and not self._line_silent and time.monotonic() >= answers.late_until:
            answers.late_until = 0.0
        return answers.late_until > 0.0

    def _no_late_replies(self) -> bool:
        if self._late_until and not self._line_silent and time.monotonic() >= self._late_until:
            self._expire_all()
        return not self._late_until

    def _expire_all(self) -> None:
        self._late_until = 0.0
        for record in self._reply_records.values():
            record.expire()

    def _may_come(self, record: _ReplyRecord, answers: _ReplyWindow, due: float) -> bool:
        """Return whether an older reply of this length may come after `due` (`time.monotonic`)."""
        held_back = self.stats.saw_duplicates and (answers is record.last or answers is record.before)
        return (
            held_back or answers.duplicate_until > due or (answers.late_until > 0 and self._is_expected_late(answers))
        )

    # -- requests -----------------------------------------------------------------------------------------------------

    def _ping_once(self, id: int) -> Reply:
        protocol = self.protocol(id)
        if self._may_reply_late(id, protocol.ping_length):
            if protocol.ping_length:  # the reply to PING has data, so a READ cannot replace it
                self._drain_late_replies(id)
                return super()._ping_once(id)
            try:
                reply = self._read_once(id, protocol.id_place, 1)
            except BusTimeout:
                self._drain_late_replies(id)  # at status return level 0 a servo answers PING and no READ
            else:
                return Reply(reply.error, b"", reply.time)
        return super()._ping_once(id)

    def _read_next(self, requests: Sequence[tuple[int, int, int]], answers: Answers) -> None:
        """Read these requests, up to one whose reply must be searched for or could be confused with an older reply.

        The next READ is sent as soon as a reply is complete. As little Python as possible runs between the two: a READ
        is chosen while the line transfers the one before it, and replies are decoded at the end.
        """
        port, fd = self.port, self.port.fd
        plain = fd is not None and not (self.echo or port.mixes or port.tap is not None) and self._no_late_replies()
        question = following = self._plan_read(requests[0], time.monotonic()) if plain else None
        if fd is None or following is None or not following.size:
            super()._read_next(requests, answers)
            return
        poll, read, write, clock = port.poller.poll, os.read, os.write, time.monotonic
        wait = (self.latency * self._patience + REPLY_DELAY) * 1e3
        complete: list[tuple[_PlannedRead, float, bytes]] = []  # with the time of sending
        waiting, answer, sent_at = None, b"", 0.0
        try:
            if poll(0):
                self._clear()
            for place, request in enumerate(requests, 1):
                question, sent_at = following, clock()
                if question is not None and sent_at < question.answers.duplicate_until:
                    question = self._plan_read(request, sent_at)  # the line was fast, or a request is repeated
                if question is None or not question.size:
                    break
                waiting = question  # set before the write: a signal handler may run when the call returns
                write(fd, question.frame)
                if place < len(requests):
                    following = self._plan_read(requests[place], sent_at + question.least)
                answer = read(fd, _READ_SIZE) if poll(question.least * 1e3 + wait) else b""
                if (
                    len(answer) != question.size
                    or sum(answer) & 0xFF != SUM_OK
                    or not answer.startswith(question.head)
                    or answer == question.frame
                ):
                    break
                waiting = None
                question.record.counts.asked += 1
                question.record.note_reply(question.answers)
                complete.append((question, sent_at, answer))
        except BaseException as failure:
            if waiting is not None:
                self._expect_late_reply(waiting.id, waiting.count)
            if isinstance(failure, PortError) or not isinstance(failure, OSError):
                raise
            waiting = None  # the port is lost, or its buffer is full: `_read_once` reports which
        answers.data += [answer[5 + question.begin : 5 + question.end] for question, _, answer in complete]
        answers.errors += [answer[4] for _, _, answer in complete]
        answers.times += [sent_at + question.sending for question, sent_at, _ in complete]
        if waiting is not None:
            try:
                answers.add(self._read_reply(waiting, answer, sent_at))
            except (BusTimeout, CorruptPacket) as error:
                answers.add(error)

    def _plan_read(self, request: tuple[int, int, int], due: float) -> _PlannedRead | None:
        """Return the READ to send at `due` for this request; None if an older reply may fit each possible READ.

        It reads more registers before (or behind) the wanted ones if an older reply would fit.
        """
        for question in self._possible(request):
            if not self._may_come(question.record, question.answers, due):
                return question
        return None

    def _possible(self, request: tuple[int, int, int]) -> Iterator[_PlannedRead]:
        """Yield the READs that answer this request, the shortest first."""
        id_, address, length = request
        protocol = self.protocol(id_)
        known = self._planned[protocol].setdefault(request, [])
        yield from known
        for first, count in islice(_read_spans(protocol, address, length), len(known), None):
            frame, head = protocol.read_frame(id_, first, count), protocol.answer_head(id_, count)
            size, sending = protocol.longest(count) if head else 0, len(frame) * self._byte
            record, least, begin = self._reply_record(id_), sending + size * self._byte, address - first
            known.append(
                _PlannedRead(
                    *(id_, count, begin, begin + length, frame, head, size, sending, least),
                    record.answers[count],
                    record,
                )
            )
            yield known[-1]

    def _reply_record(self, id: int) -> _ReplyRecord:
        """Return the reply record of a servo; of id 254, that of replies that several servos share."""
        if id not in self._reply_records:
            self._reply_records[id] = _ReplyRecord(ServoStats() if id == BROADCAST else self.stats.of(id))
        return self._reply_records[id]

    def _read_reply(self, question: _PlannedRead, received: bytes = b"", sent_at: float | None = None) -> Reply:
        packet, sampled = self._transact(question.frame, question.id, question.count, received, sent_at)
        return Reply(packet.code, packet.params[question.begin : question.end], sampled)

    def _write_once(self, frame: bytes, id: int) -> Reply | None:
        if id in self.no_write_ack_ids or not self._may_reply_late(id, 0):
            return super()._write_once(frame, id)
        if super()._write_once(frame, id) is not None:
            self._expect_late_reply(id, 0)  # this reply may have been an older acknowledgement
        return None

    def instruct(self, id: int, code: int, params: bytes = b"") -> Reply | None:
        """See `Bus.instruct`."""
        with self.turn, self.turn.lock:
            if id != BROADCAST and id not in self.no_write_ack_ids:
                self._drain_late_replies(id)  # an old acknowledgement must not confirm it: it cannot be read back
            return super().instruct(id, code, params)

    # -- one transaction ----------------------------------------------------------------------------------------------

    def _read_once(self, id: int, address: int, length: int) -> Reply:
        question = self._plan_read((id, address, length), time.monotonic())
        if question is None:
            known = self._planned[self.protocol(id)][id, address, length]
            if all(self._is_expected_late(candidate.answers) for candidate in known):
                self._drain_late_replies(id)
            question = min(
                (question for question in known if not self._is_expected_late(question.answers)),
                key=lambda question: question.answers.duplicate_until,
            )
            self.stats.count_stray(self.port.listen(question.answers.duplicate_until))
        return self._read_reply(question)

    def _common_span(self, protocol: Protocol, ids: Sequence[int], address: int, length: int) -> tuple[int, int] | None:
        now = time.monotonic()
        for first, count in _read_spans(protocol, address, length):
            replies = [(self._reply_record(id_), count) for id_ in ids]
            replies.append((self._reply_record(BROADCAST), len(ids) * (count + 4)))
            if not any(self._may_come(record, record.answers[size], now) for record, size in replies):
                return first, count
        return None

    def _note_answers(self, received: Iterable[int], missing: Iterable[int], count: int) -> None:
        for id_ in received:
            self._line_silent = False
            for record in (self._reply_record(id_), self._reply_record(BROADCAST)):
                record.counts.asked += 1
                record.note_reply(record.answers[count])
        for id_ in missing:
            self._expect_late_reply(id_, count)

    def _gather(self, protocol: Protocol, frame: bytes, answers: int, size: int) -> tuple[bytes, float]:
        with self.turn, self.turn.lock:
            self.turn.wait_to_write()
            if not self.echo:
                self._clear()
            self.port.send(frame)
            started = time.monotonic()
            waits = max(answers, size // SHORTEST_BLOCK) * REPLY_DELAY + self.latency * self._patience
            deadline = started + (len(frame) * (1 + self.echo) + size) * self._byte + waits
            received, decoder, count = b"", protocol.decoder(), 0
            while count < answers and (chunk := self.port.receive(deadline)):
                received += chunk
                count += sum(protocol.is_answer(packet) for packet in decoder.feed(chunk))
            return received, started + len(frame) * self._byte

    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        with self.turn, self.turn.lock:
            self.turn.wait_to_write()
            if length is None:
                self.port.send(frame)
                now = self.clock.now() + len(frame) * self._byte
                if id != BROADCAST and id not in self.no_write_ack_ids:
                    self._expect_late_reply(id, 0)  # a servo at status return level 2 acknowledges it nevertheless
                return None, now
            return self._transact(frame, id, length)

    def _transact(
        self, frame: bytes, id: int, length: int, received: bytes = b"", started: float | None = None
    ) -> tuple[Packet, float]:
        """Send a request; return its reply of `length` parameter bytes, and the time the servo had the request.

        With `started` (`time.monotonic`) it was sent then, and `received` has come since.
        """
        counts, protocol = self.stats.of(id), self.protocol(id)
        need = protocol.longest(length) + len(frame) * self.echo
        counts.asked += 1
        if started is None and not self.echo:  # with an echo, the reply follows the echo
            self._clear()
        answered = damaged = False
        try:
            if started is None:
                self.port.send(frame)
                started = time.monotonic()
            sampled = started + len(frame) * self._byte
            deadline = started + (len(frame) + need) * self._byte + REPLY_DELAY + self.latency * self._patience
            while True:
                refusable = not self._may_reply_late(id, 0)
                search = protocol.find_answer(received, frame, id, length, echo=self.echo, refusable=refusable)
                self.echo = search.echo
                if search.packet is not None:
                    answered, self._line_silent = True, False
                    self._account(search.rest, frame)
                    record = self._reply_record(id)
                    record.note_reply(record.answers[length])
                    if protocol.garbled(search.packet.code):  # no valid reply: the request arrived damaged
                        counts.corrupt += 1
                        raise CorruptPacket(id, received)
                    return search.packet, sampled
                if search.damaged and not damaged:
                    damaged = True
                    deadline = min(deadline, time.monotonic() + _QUIET)
                chunk = self.port.receive(deadline)
                if not chunk:
                    break
                received += chunk
        finally:
            if not answered:  # time-out, or an exception from a signal handler
                self._expect_late_reply(id, length)
                self._expect_late_reply(id, 0)  # a refusal may also come late
        if protocol.resync and frame[4] not in QUESTIONS:
            self.port.send(protocol.resync)
        if self._account(received, frame) or damaged:
            counts.corrupt += 1
            raise CorruptPacket(id, received)
        counts.timeouts += 1
        raise BusTimeout(id, self._busy_server())

    def _clear(self) -> None:
        """Discard bytes without a request: a duplicate, or a second servo's reply with the same id."""
        while received := self.port.receive(0):
            self.stats.count_stray(received)

    def _account(self, rest: bytes, frame: bytes) -> int:
        """Count bytes other than the reply to `frame`; return the number of bytes that belong to no packet."""
        return self.stats.count_stray(rest.replace(frame, b"") if self.echo else rest) if rest else 0

    def _drain_late_replies(self, id: int) -> None:
        """Wait until no late reply of servo `id` can come."""
        record = self._reply_record(id)
        if self._line_silent and record.latest_reply():
            protocol = self.protocol(id)
            self._transact(protocol.encode(id, Instruction.PING, b""), id, protocol.ping_length)
        until = record.latest_reply()
        while time.monotonic() < until:
            self.port.receive(until)
        record.expire()


def _read_spans(protocol: Protocol, address: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield first address and length of READs with these registers: each one byte longer, in front or behind."""
    begin, end = protocol.readable_span(address, length)
    for extra in range(1 + min(_MOST_EXTRA, max(address - begin, end - address - length))):
        yield (address - extra if address - begin >= extra else address), length + extra
