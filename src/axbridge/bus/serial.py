"""The bus on a real line, a pseudo-terminal or a socket: one transaction at a time; it never returns a wrong reply.

Replies carry no sequence number, so a late reply looks like the reply to the next read of the same length, and a reply
may arrive twice. While a late reply may arrive, the next read requests another *number of bytes*: more registers in
front or behind, which are cut off again. This needs no pause, and works on lines that reorder replies. docs/design.md
("Late replies") has the rules and their limits. An acknowledgement has a fixed length: while an old one may arrive, a
write is confirmed by reading it back.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from axbridge.bus.base import SHORTEST_BLOCK, Bus, Reply
from axbridge.bus.port import REPLY_DELAY, Port
from axbridge.bus.port_name import SERVE_PATIENTLY, find_port, server_behind, too_busy, unanswered_by
from axbridge.bus.protocols.packet import BROADCAST, Packet, byte_seconds
from axbridge.bus.protocols.protocol import FIRST, Protocol
from axbridge.bus.protocols.v1 import SUM_OK, encode
from axbridge.bus.retries import QUESTION
from axbridge.bus.stats import LineStats, ServoStats
from axbridge.clock import WallClock
from axbridge.config.registers import Address, Instruction
from axbridge.errors import BusError, BusTimeout, CorruptPacket, PortError

_BUSY = 6  # `retry_timeout_factor` of a virtual bus: its computer may be busy for 0.1 s
LATE_WINDOW = 0.25  # s; a late reply arrives within this time after the reply to a later request
_REMOTE_LATE_WINDOW = 2.0
_RECENT = 2.0  # s; packets that a busy server left unanswered within this time explain a time-out
DUPLICATE_REPLY_WINDOW = 0.005  # s; a duplicate arrives within this time
_QUIET = 0.001  # s; a pause of this length ends a damaged reply
_CLOSING = 2.0  # s; time limit for another thread's transaction at `close`
_READ_SIZE = 300  # bytes; more than the longest reply
_MOST_EXTRA = 24  # extra bytes of a read; at 1 Mbps the reads of all lengths outlast DUPLICATE_REPLY_WINDOW
_ECHO_PROBE = encode(BROADCAST, Instruction.READ, bytes((Address.ID, 1)))  # no servo answers a broadcast READ


@dataclass(slots=True, eq=False)
class _ReplyWindow:
    """Times until which a late reply and a duplicate of one servo and one length may arrive (`time.monotonic`)."""

    late_until: float = 0.0  # 0: no late reply is expected
    duplicate_until: float = 0.0


@dataclass(slots=True, eq=False)
class _ReplyRecord:
    """Reply windows of a servo by parameter bytes, and the windows of its last two replies."""

    counts: ServoStats
    answers: dict[int, _ReplyWindow] = field(default_factory=lambda: defaultdict(_ReplyWindow))
    last: _ReplyWindow | None = None
    before: _ReplyWindow | None = None

    def note_reply(self, answers: _ReplyWindow) -> None:
        """Note a reply of this length."""
        answers.duplicate_until = time.monotonic() + DUPLICATE_REPLY_WINDOW
        if answers is not self.last:
            self.before, self.last = self.last, answers

    def latest_reply(self) -> float:
        """Return the time after which no late reply can arrive, once the line answers; 0.0 if none is expected."""
        return max((window.late_until for window in self.answers.values()), default=0.0)

    def expire(self) -> None:
        """Note that no late reply can arrive any more."""
        for window in self.answers.values():
            window.late_until = 0.0


@dataclass(slots=True, eq=False)
class _Question:
    """One form of a READ for a request, and how its reply is recognised in the fast path."""

    id: int
    count: int  # parameter bytes of the reply; the requested ones are from `begin` to `end`
    begin: int
    end: int
    frame: bytes
    head: bytes  # first bytes of the reply
    size: int  # bytes of the reply; 0: not for the fast path
    sending: float  # wire time of the frame, s
    least: float  # wire time of frame and reply, s
    answers: _ReplyWindow
    record: _ReplyRecord


class SerialBus(Bus):
    """Servos on a serial port.

    Args:
        port: Device path, pyserial URL (``socket://host:port``, ``rfc2217://host:port``), or ``auto``: the only
            USB serial adapter.
        baud: Bits per second.
        clock: Clock of the samples; several buses of a robot share one.
        retries: See `Bus`.

    Attributes:
        latency: Latency of adapter and host in time-outs, s; `axbridge.bus.handshake` measures it.
        echo: Whether the adapter echoes sent bytes (tested at open; echoes are removed).
        stats: Counters since the bus was opened.

    Raises:
        PortError: the port cannot be opened; the message has cause and repair.
    """

    def __init__(
        self, port: str, baud: int = 1_000_000, *, retries: int = QUESTION, clock: WallClock | None = None
    ) -> None:
        self.clock = clock or WallClock()
        self.baud = baud
        self.port_name = find_port() if port == "auto" else port
        self.retries = retries
        self.stats = LineStats()
        self.echo = False
        self._server: int | None = None  # process of a virtual bus behind the port; None: not searched yet
        self._ended = False
        self._byte = byte_seconds(baud)
        self.port = self._open_port()
        self.latency = self.port.latency
        if self.port.adapter.kind == "pty":
            self.retry_timeout_factor = max(self.retry_timeout_factor, _BUSY)
        self._window = _REMOTE_LATE_WINDOW if self.remote else LATE_WINDOW
        self._late_until = 0.0  # no late reply arrives after this (`time.monotonic`); 0: none is expected
        self._line_silent = False  # no reply since the last time-out: late replies do not expire
        self._reply_records: dict[int, _ReplyRecord] = {}
        self._questions: dict[Protocol, dict[tuple[int, int, int], list[_Question]]] = defaultdict(dict)  # by request
        try:
            self._start()
        except BaseException:
            self.port.close()
            raise

    def _open_port(self) -> Port:
        return Port(self.port_name, self.baud)

    def _busy_server(self) -> str:
        """Return why a busy virtual bus behind the port was silent in the last seconds; empty: unknown."""
        if self.port.adapter.kind != "pty":
            return ""
        if self._server is None:
            self._server = server_behind(self.port_name)
        packets = unanswered_by(self._server, time.monotonic() - _RECENT)
        return f"{too_busy(packets)}; {SERVE_PATIENTLY}" if packets else ""

    @property
    def remote(self) -> bool:
        """Whether the port is a network port."""
        return self.port.adapter.kind == "remote"

    # -- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the port after the running transaction; it cannot be reopened. May be called twice."""
        self._ended = True
        acquired = self.turn.lock.acquire(timeout=_CLOSING)
        try:
            self.port.close()
        finally:
            self.turn.reserve(None)  # a thread that waits to write gets an error
            if acquired:
                self.turn.lock.release()

    @property
    def closed(self) -> bool:
        """Whether the port is closed or lost."""
        return not self.port.is_open

    def reopen(self, check: Callable[[], None] = lambda: None) -> None:
        """See `Bus.reopen`: open the port by its old name if it has the same line, and test for echo again.

        Raises:
            PortError: the line is still missing or is another one, or the bus was closed.
        """
        with self.turn, self.turn.lock:
            if self._ended:
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
        """Change the baud rate of the port.

        Raises:
            PortError: the driver does not support the rate, or the port is closed or lost.
        """
        with self.turn, self.turn.lock:
            if self.closed:
                raise PortError(self.port_name, "the port is closed")
            self.port.setBaudRate(baud)
            self.baud = baud
            self._byte = byte_seconds(baud)
            self._questions.clear()
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
        """Return whether such a reply may still arrive."""
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
        """Note that no late reply of any servo can arrive any more."""
        self._late_until = 0.0
        for record in self._reply_records.values():
            record.expire()

    def _may_come(self, record: _ReplyRecord, answers: _ReplyWindow, due: float) -> bool:
        """Return whether an older reply of this length may arrive after `due`."""
        held_back = self.stats.saw_duplicates and (answers is record.last or answers is record.before)
        return held_back or answers.duplicate_until > due or self._is_expected_late(answers)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _ping_once(self, id: int) -> Reply:
        protocol = self.protocol(id)
        if self._may_reply_late(id, protocol.ping_length):
            if protocol.ping_length:  # a READ cannot replace it: the PING's reply has data
                self._drain_late_replies(id)
                return super()._ping_once(id)
            try:
                reply = self._read_once(id, protocol.id_place, 1)
            except BusTimeout:
                self._drain_late_replies(id)  # at status return level 0 a servo answers PING and no READ
            else:
                return Reply(reply.error, b"", reply.time)
        return super()._ping_once(id)

    def _read_ahead(self, requests: Sequence[tuple[int, int, int]]) -> list[Reply | BusError]:
        """Fast path: return the replies to the first of these requests, up to one that an older reply could match.

        The next READ is sent as soon as a reply is complete, with as little Python as possible in between. The reply is
        decoded, and the READ after the next one chosen, while the line transfers the next one.
        """
        fd, answers = self.port.fd, list[Reply | BusError]()
        if fd is None or self.echo or self.port.tap is not None or not self._no_late_replies():
            return answers
        poll, read, write, clock = self.port.poller.poll, os.read, os.write, time.monotonic
        wait = (self.latency * self._patience + REPLY_DELAY) * 1e3
        whole: tuple[_Question, float, bytes] | None = None  # a reply to decode, and the time of its READ
        waiting, answer, now = None, b"", clock()
        following = self._plain_question(requests[0], now)
        try:
            if following is not None and poll(0):
                self._clear()
            for place, request in enumerate(requests, 1):
                question, now = following, clock()
                if whole is not None:
                    whole[0].answers.duplicate_until = now + DUPLICATE_REPLY_WINDOW
                if question is not None and now < question.answers.duplicate_until:
                    question = self._plain_question(request, now)  # a faster line than computed, or a repeated request
                if question is None:
                    break
                waiting = question  # set before the write, because a signal may interrupt it
                write(fd, question.frame)
                if whole is not None:
                    answers.append(_reply(*whole))
                    whole = None
                if place < len(requests):
                    following = self._plain_question(requests[place], now + question.least)
                answer = read(fd, _READ_SIZE) if poll(question.least * 1e3 + wait) else b""
                if (
                    len(answer) != question.size
                    or sum(answer) & 0xFF != SUM_OK
                    or not answer.startswith(question.head)
                    or answer == question.frame
                ):
                    break
                whole, waiting = (question, now, answer), None
        except BaseException as failure:
            if waiting is not None:
                self._expect_late_reply(waiting.id, waiting.count)
            if isinstance(failure, PortError) or not isinstance(failure, OSError):
                raise
            waiting = None  # port lost or buffer full: `_read_once` tells which
        finally:
            if whole is not None:
                whole[0].answers.duplicate_until = clock() + DUPLICATE_REPLY_WINDOW
                answers.append(_reply(*whole))
        if waiting is not None:
            try:
                answers.append(self._read_reply(waiting, answer, now))
            except (BusTimeout, CorruptPacket) as error:
                answers.append(error)
        return answers

    def _plain_question(self, request: tuple[int, int, int], due: float) -> _Question | None:
        """Return a READ for the fast path at `due`, if no late reply can match it."""
        twice = self.stats.saw_duplicates
        question: _Question | None
        for question in self._questions[self.protocols.get(request[0], FIRST)].get(request, ()):
            past = question.record
            if question.answers.duplicate_until <= due and not (twice and question.answers in {past.last, past.before}):
                break
        else:
            question = self._question(request, due)
        return question if question is not None and question.size else None

    def _question(self, request: tuple[int, int, int], due: float) -> _Question | None:
        """Return the READ to send at `due` for this request; None: an older reply may match every form.

        It has more registers in front (or behind) while an older reply could match.
        """
        id_, address, length = request
        protocol = self.protocol(id_)
        known = self._questions[protocol].setdefault(request, [])
        for number, (first, count) in enumerate(_read_spans(protocol, address, length)):
            if number == len(known):
                frame, head = protocol.read_frame(id_, first, count), protocol.answer_head(id_, count)
                size, sending = protocol.longest(count) if head else 0, len(frame) * self._byte
                record, least, begin = self._reply_record(id_), sending + size * self._byte, address - first
                known.append(
                    _Question(
                        *(id_, count, begin, begin + length, frame, head, size, sending, least),
                        record.answers[count],
                        record,
                    )
                )
            question = known[number]
            if not self._may_come(question.record, question.answers, due):
                return question
        return None

    def _reply_record(self, id: int) -> _ReplyRecord:
        """Return the reply record of a servo, or (id 254) of shared replies."""
        if id not in self._reply_records:
            self._reply_records[id] = _ReplyRecord(ServoStats() if id == BROADCAST else self.stats.of(id))
        return self._reply_records[id]

    def _read_reply(self, question: _Question, received: bytes = b"", sent_at: float | None = None) -> Reply:
        """Return the reply to a READ; see `_converse`."""
        packet, sampled = self._converse(question.frame, question.id, question.count, received, sent_at)
        return Reply(packet.code, packet.params[question.begin : question.end], sampled)

    def _write_once(self, frame: bytes, id: int) -> Reply | None:
        if id in self.no_write_ack_ids or not self._may_reply_late(id, 0):
            return super()._write_once(frame, id)
        if super()._write_once(frame, id) is not None:
            self._expect_late_reply(id, 0)  # this may have been an older acknowledgement
        return None

    def instruct(self, id: int, code: int, params: bytes = b"", *, answered: bool = True) -> Reply | None:
        """See `Bus.instruct`."""
        with self.turn, self.turn.lock:
            if answered and id != BROADCAST and id not in self.no_write_ack_ids:
                self._drain_late_replies(id)  # an old acknowledgement must not confirm this instruction
            return super().instruct(id, code, params, answered=answered)

    # -- one transaction ----------------------------------------------------------------------------------------------

    def _read_once(self, id: int, address: int, length: int) -> Reply:
        question = self._question((id, address, length), time.monotonic())
        if question is None:
            known = self._questions[self.protocol(id)][id, address, length]
            if all(self._is_expected_late(one.answers) for one in known):
                self._drain_late_replies(id)
            question = min(
                (question for question in known if not self._is_expected_late(question.answers)),
                key=lambda question: question.answers.duplicate_until,
            )
            self.stats.count_stray(self.port.listen(question.answers.duplicate_until))  # until then
        return self._read_reply(question)

    def _common_span(self, protocol: Protocol, ids: Sequence[int], address: int, length: int) -> tuple[int, int] | None:
        now = time.monotonic()
        for first, count in _read_spans(protocol, address, length):
            sent_at = [(self._reply_record(id_), count) for id_ in ids]
            sent_at.append((self._reply_record(BROADCAST), len(ids) * (count + 4)))
            if not any(self._may_come(record, record.answers[size], now) for record, size in sent_at):
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
            received, decoder, came = b"", protocol.decoder(), 0
            while came < answers and (chunk := self.port.receive(deadline)):
                received += chunk
                came += sum(protocol.is_answer(packet) for packet in decoder.feed(chunk))
            return received, started + len(frame) * self._byte

    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        with self.turn, self.turn.lock:
            self.turn.wait_to_write()
            if length is None:
                self.port.send(frame)
                now = self.clock.now() + len(frame) * self._byte
                if id != BROADCAST and id not in self.no_write_ack_ids:
                    self._expect_late_reply(id, 0)  # a servo at status return level 2 will acknowledge all the same
                return None, now
            return self._converse(frame, id, length)

    def _converse(
        self, frame: bytes, id: int, length: int, received: bytes = b"", started: float | None = None
    ) -> tuple[Packet, float]:
        """Send a frame and return its reply; with `started`, the frame was sent then, and `received` is its reply."""
        counts, protocol = self.stats.of(id), self.protocol(id)
        need = protocol.longest(length) + len(frame) * self.echo
        counts.asked += 1
        if started is None and not self.echo:  # an echo separates older bytes from the reply
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
                    if protocol.garbled(search.packet.code):  # the servo received a damaged packet
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
            if not answered:  # time-out or signal
                self._expect_late_reply(id, length)
                self._expect_late_reply(id, 0)  # a late refusal has no parameters
        if self._account(received, frame) or damaged:
            counts.corrupt += 1
            raise CorruptPacket(id, received)
        counts.timeouts += 1
        raise BusTimeout(id, self._busy_server())

    def _clear(self) -> None:
        """Discard unexpected bytes: a duplicate, or the second reply if two servos have one id."""
        while received := self.port.receive(0):
            self.stats.count_stray(received)

    def _account(self, rest: bytes, frame: bytes) -> int:
        """Count bytes besides the reply to `frame`; return the number of bytes outside packets."""
        return self.stats.count_stray(rest.replace(frame, b"") if self.echo else rest) if rest else 0

    def _drain_late_replies(self, id: int) -> None:
        """Wait until no late reply of servo `id` can arrive any more."""
        record = self._reply_record(id)
        if self._line_silent and record.latest_reply():
            protocol = self.protocol(id)
            self._converse(protocol.encode(id, Instruction.PING, b""), id, protocol.ping_length)
        until = record.latest_reply()
        while time.monotonic() < until:
            self.port.receive(until)
        record.expire()


def _reply(question: _Question, sent_at: float, answer: bytes) -> Reply:
    """Decode a complete reply, and note it."""
    record = question.record
    record.counts.asked += 1
    if record.last is not question.answers:
        record.before, record.last = record.last, question.answers
    return Reply(answer[4], answer[5 + question.begin : 5 + question.end], sent_at + question.sending)


def _read_spans(protocol: Protocol, address: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield first address and length of reads that contain these registers: one byte more each time."""
    begin, end = protocol.readable_span(address, length)
    for more in range(1 + min(_MOST_EXTRA, max(address - begin, end - address - length))):
        yield (address - more if address - begin >= more else address), length + more
