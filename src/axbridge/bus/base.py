"""Base class of all lines: register bytes to and from servos by id.

A bus turns calls into frames of the servo's protocol, and replies into bytes or typed errors. A subclass implements
`_transfer`, which sends and receives frames. It may implement `_gather`, for one request to several servos. After such
a request a missing reply hides the replies behind it, so each missing servo is read singly. A line may lose a packet,
so `ping` and `read` are repeated. EEPROM wears, so a write is read back before it is sent again. A control cycle cannot
wait, so `read_many` sends each request once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from typing_extensions import Self

from axbridge.bus.line_lock import BusLock
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import FIRST, Protocol
from axbridge.bus.retries import QUESTION, SUPPORT
from axbridge.clock import Clock
from axbridge.config.registers import Instruction
from axbridge.errors import (
    BusError,
    BusTimeout,
    CorruptPacket,
    HardwareError,
    ServoFault,
    ServoFlags,
    StatusError,
    UsageError,
)

SHORTEST_BLOCK = 16  # bytes of one servo's block in a shared reply; each servo waits for its return delay


class Reply(NamedTuple):
    """The reply of a servo.

    Attributes:
        error: Error byte (`ErrorFlag`, in Protocol 2.0 `StatusError`, both of `axbridge.errors`); 0 = none. It is not
            raised, because a flag must not stop a robot.
        data: Register bytes of a READ; model and firmware of a PING in Protocol 2.0; else empty.
        time: Time of the sample, s on the bus's clock (the end of the instruction packet).
    """

    error: int
    data: bytes
    time: float


class Answers:
    """Answers to a list of READs, as columns with a row for each request.

    Attributes:
        data: Register bytes; empty without a reply.
        errors: Error bytes; 0 without a reply.
        times: Times of the samples, s on the bus's clock; NaN without a reply.
        failures: Why there is no reply, by row.
    """

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.errors: list[int] = []
        self.times: list[float] = []
        self.failures: dict[int, BusError] = {}

    def add(self, answer: Reply | BusError) -> None:
        """Add the next row."""
        if isinstance(answer, BusError):
            self.failures[len(self.data)] = answer
            answer = Reply(0, b"", math.nan)
        self.errors.append(answer.error)
        self.data.append(answer.data)
        self.times.append(answer.time)

    def singly(self) -> list[Reply | BusError]:
        """Return each row as a reply or an error."""
        replies = map(Reply, self.errors, self.data, self.times)
        return [self.failures.get(row, reply) for row, reply in enumerate(replies)]


class Bus(ABC):
    """A half-duplex line with servos.

    Attributes:
        clock: Clock of `Reply.time`.
        baud: Bits per second.
        protocols: Protocols of the servos, by id; other ids have Protocol 1.0.
        no_write_ack_ids: Ids that do not acknowledge a write (status return level); `axbridge.bus.handshake` fills it.
        virtual_ids: Ids of servos that this process simulates: they end with the process.
        retries: Number of repetitions by `ping`, `read` and `write` when there is no valid reply.
        eeprom_writes: EEPROM bytes sent to servos so far, with those of repeated writes.
    """

    clock: Clock
    baud: int
    no_write_ack_ids: frozenset[int] = frozenset()
    virtual_ids: frozenset[int] = frozenset()
    retries: int = QUESTION
    eeprom_writes: int = 0
    retry_timeout_factor: int = 3  # each repetition waits this many times longer
    _patience: int = 1  # factor of the line's own delays in the time-out of the current attempt

    @cached_property
    def group_codes(self) -> dict[int, int | None]:
        """Best of `Protocol.group_reads` that a servo supports, by id; None: none. Tested at the first group read."""
        return {}

    @cached_property
    def turn(self) -> BusLock:
        """Lock of a transaction. A thread may hold it for several transactions, to keep other threads off the line."""
        return BusLock()

    @cached_property
    def protocols(self) -> dict[int, Protocol]:
        """Protocols of the servos, by id; see the class."""
        return {}

    def set_protocol(self, id: int, protocol: Protocol) -> None:
        """Use this protocol for servo `id` from now on."""
        if protocol is FIRST:
            self.protocols.pop(id, None)
        else:
            self.protocols[id] = protocol

    def protocol(self, id: int) -> Protocol:
        """Return the protocol of servo `id`."""
        return self.protocols.get(id, FIRST)

    def by_protocol(self, ids: Iterable[int]) -> dict[Protocol, list[int]]:
        """Return these ids grouped by protocol."""
        groups: dict[Protocol, list[int]] = {}
        for id_ in ids:
            groups.setdefault(self.protocol(id_), []).append(id_)
        return groups

    @abstractmethod
    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        """Send `frame`; wait for the status packet of `id` with `length` parameter bytes, unless `length` is None.

        Returns the packet (None if `length` is None) and the time the servo had the frame. An error byte with fewer
        than `length` parameters is a valid reply.

        Raises:
            BusTimeout: no complete reply in time.
            CorruptPacket: bytes came, but no reply of that servo with that length and a correct checksum.
            PortError: the line is lost.
        """

    def _gather(self, protocol: Protocol, frame: bytes, answers: int, size: int) -> tuple[bytes, float]:  # noqa: ARG002
        """Send `frame`; return the bytes received until `answers` status packets came, or until the time-out.

        The base class has no group reads: servos are read one by one.
        """
        return b"", self.clock.now()

    @abstractmethod
    def close(self) -> None:
        """Release the line; later calls raise `PortError`. May be called twice."""

    def ping(self, id: int) -> Reply:
        """Send a PING to servo `id` (0..253); repeated up to `retries` times.

        Raises:
            BusTimeout, CorruptPacket, PortError: as `_transfer`.
        """
        return self._with_retries(lambda: self._ping_once(id))

    def read(self, id: int, address: int, length: int) -> Reply:
        """Read `length` bytes from `address` of servo `id`; repeated up to `retries` times.

        A reply without data and with an error byte (a refused read) is returned unchanged.

        Raises:
            BusTimeout, CorruptPacket, PortError: as `_transfer`.
        """
        return self._with_retries(lambda: self._read_once(id, address, length))

    def read_many(self, requests: Sequence[tuple[int, int, int]]) -> list[Reply | BusError]:
        """Send each read `(id, address, length)` once; return replies or errors in the order of the requests.

        Servos with group reads may share one request for the same registers; a servo that does not answer it is read
        singly.

        Raises:
            PortError: the line is lost.
        """
        return self._read_each(requests).singly()

    def _read_each(self, requests: Sequence[tuple[int, int, int]]) -> Answers:
        """Read by group reads as far as possible, then singly; see `read_many`."""
        with self.turn, self.turn.lock:
            group = self._read_together(requests) if self.protocols else {}
            single = [request for row, request in enumerate(requests) if row not in group] if group else requests
            answers = Answers()
            while (done := len(answers.data)) < len(single):
                self._read_next(single[done:], answers)
            if group:
                rest, answers = iter(answers.singly()), Answers()
                for row in range(len(requests)):
                    answers.add(group[row] if row in group else next(rest))
            return answers

    def _read_next(self, requests: Sequence[tuple[int, int, int]], answers: Answers) -> None:
        """Read the first of these requests, and add its answer. A line may read several."""
        try:
            answers.add(self._read_once(*requests[0]))
        except (BusTimeout, CorruptPacket) as error:
            answers.add(error)

    def exchange(
        self, writes: Iterable[tuple[int, Mapping[int, bytes]]], reads: Sequence[tuple[int, int, int]]
    ) -> tuple[float, Answers]:
        """Carry out one control cycle: send the writes, then the reads.

        Args:
            writes: Arguments of `sync_write`; split into packets that fit into the servos' receive buffers.
            reads: Requests as of `read_many`.

        Returns:
            Time at which the servos had the writes, s on the bus's clock (-inf without writes), and the answers.

        Raises:
            PortError: the line is lost.
        """
        received_at = -math.inf
        for address, data in writes:
            ids = list(data)
            room = self.protocol(ids[0]).sync_write_room(len(data[ids[0]]))
            for first in range(0, len(ids), room):
                part = data if len(ids) <= room else {id_: data[id_] for id_ in ids[first : first + room]}
                received_at = self.sync_write(address, part)
        return received_at, self._read_each(reads) if reads else Answers()

    @cached_property
    def rewritten(self) -> dict[int, set[int]]:
        """EEPROM addresses that this program has written, by id (254: of every servo)."""
        return {}

    @cached_property
    def borrowed(self) -> dict[tuple[int, int], bytes]:
        """Bytes of registers before this program changed them, by id and first address."""
        return {}

    def reopen(self, check: Callable[[], None] = lambda: None) -> None:
        """Open a lost line again.

        Args:
            check: Called before another thread can use the line. If it raises, the line stays lost.

        Raises:
            PortError: the line is still lost.
        """
        check()

    def write(self, id: int, address: int, data: bytes, *, answered: bool = True) -> Reply | None:
        """Write `data` at `address` of servo `id` (254 = all, never answered).

        A write without an acknowledgement is read back, and sent again if the servo has another value. A new id is
        read back at that id. An EEPROM write returns when the servo can answer again.

        Args:
            id: Servo.
            address: First register address.
            data: Bytes, little-endian registers.
            answered: False: send it once, and neither wait for an acknowledgement nor read it back.

        Raises:
            BusTimeout, CorruptPacket: neither acknowledged nor read back; it may have been written.
            ServoFault: the servo answers, but has other data.
            PortError: the line is lost.
        """
        protocol = self.protocol(id)
        frame = protocol.write_frame(id, address, data)
        eeprom_write_time = self._eeprom_bytes(id, address, len(data)) * protocol.eeprom_seconds_per_byte  # s
        with self.turn, self.turn.lock:
            for _ in range(self.retries + 1):
                self._note_eeprom(id, address, len(data))
                awaited = answered and id != BROADCAST
                reply = self._write_once(frame, id) if awaited else self._send(frame, id)
                if eeprom_write_time:
                    self._rest(eeprom_write_time)
                if reply is not None or not awaited:
                    self._new_id(id, address, data)
                    return reply
                stored = self._read_back(id, address, data)
                if stored.data == data:
                    return stored._replace(data=b"")
        held = f"holds {stored.data.hex(' ') or 'nothing'} at address {address} after writing {data.hex(' ')}"
        flags = protocol.error(stored.error)
        raise ServoFault(id, flags, "check register, value and lock", held, self.hardware_error(id, flags))

    def hardware_error(self, id: int, flags: ServoFlags | StatusError) -> HardwareError | None:
        """Return Hardware Error Status if `flags` have the alert bit; None without it, or without a reply."""
        register = self.protocol(id).alarm
        if register is None or not isinstance(flags, StatusError) or not flags.alert:
            return None
        with suppress(BusTimeout, CorruptPacket):
            return HardwareError(self.read(id, *register).data[0])
        return None

    def reg_write(self, id: int, address: int, data: bytes) -> Reply | None:
        """Send a write that the servo executes at `action`."""
        self._note_eeprom(id, address, len(data))
        return self.instruct(id, Instruction.REG_WRITE, self.protocol(id).write_params(address, data))

    def action(self, id: int = BROADCAST) -> Reply | None:
        """Execute the writes of `reg_write`, at the same moment if broadcast."""
        return self.instruct(id, Instruction.ACTION)

    def instruct(self, id: int, code: int, params: bytes = b"") -> Reply | None:
        """Send another instruction whose reply has no data (factory reset, reboot, clear)."""
        frame = self.protocol(id).encode(id, code, params)
        if id != BROADCAST and id not in self.no_write_ack_ids:
            return self._ask(frame, id, 0)
        return self._send(frame, id)

    def sync_write(self, address: int, data: Mapping[int, bytes]) -> float:
        """Write data of equal length, by id, in one packet; never answered.

        Returns:
            Time at which the servos had the whole packet, s on the bus's clock.

        Raises:
            UsageError: no data, data of different lengths, or servos of several protocols.
            PortError: the line is lost.
        """
        protocol = self.protocol(next(iter(data), BROADCAST))
        if self.protocols and any(self.protocol(id_) is not protocol for id_ in data):
            raise UsageError("one SYNC_WRITE cannot be for servos of two protocols", "write to each kind by itself")
        frame = protocol.encode(BROADCAST, Instruction.SYNC_WRITE, protocol.sync_write_params(address, data))
        for id_, block in data.items() if address < protocol.torque_enable else ():
            self._note_eeprom(id_, address, len(block))
        return self._transfer(frame, BROADCAST, None)[1]

    def limp_all(self, protocol: Protocol, ids: Iterable[int] | None = None) -> None:
        """Switch off the torque of every servo of this protocol, or at least of `ids`; see `Protocol.limp_frame`.

        Raises:
            PortError: the line is lost.
        """
        self._transfer(protocol.limp_frame(ids), BROADCAST, None)

    def _with_retries(self, attempt_once: Callable[[], Reply]) -> Reply:
        """Repeat an attempt without a valid reply, with longer time-outs; not for the reads of a control cycle."""
        with self.turn, self.turn.lock:
            try:
                for attempt in range(self.retries + 1):
                    self._patience = self.retry_timeout_factor**attempt
                    try:
                        return attempt_once()
                    except (BusTimeout, CorruptPacket):
                        if attempt == self.retries:
                            raise
            finally:
                self._patience = 1
        raise AssertionError

    def _common_span(self, _: Protocol, __: Sequence[int], address: int, length: int) -> tuple[int, int] | None:
        """Return first address and length of a group read that no older reply fits; None if there is none now."""
        return address, length

    def _note_answers(self, answered: Iterable[int], missing: Iterable[int], count: int) -> None:  # noqa: B027 - some do
        """Note which servos answered with `count` parameter bytes, and which did not. Id 254 is a shared reply."""

    def _read_together(self, requests: Sequence[tuple[int, int, int]]) -> dict[int, Reply]:
        """Read servos that can share a request; return their replies by index of the request."""
        groups: dict[tuple[Protocol, int, int], dict[int, int]] = {}  # index by id, by protocol and registers
        for place, (id_, address, length) in enumerate(requests):
            protocol = self.protocol(id_)
            if protocol.group_reads:
                groups.setdefault((protocol, address, length), {}).setdefault(id_, place)
        answers: dict[int, Reply] = {}
        for (protocol, address, length), places in groups.items():
            if len(places) > 1:
                codes = {id_: self._group_code(id_) for id_ in places}
                for code in protocol.group_reads:
                    ids = [id_ for id_ in places if codes[id_] == code]
                    if len(ids) > 1:
                        group = self._read_group(code, ids, address, length)
                        answers.update({places[id_]: reply for id_, reply in group.items()})
        return answers

    def has_best_group_read(self, id: int) -> bool:
        """Return whether a servo supports the best group read of its protocol; tested again until it answers."""
        return self._group_code(id) in self.protocol(id).group_reads[:1]

    def _group_code(self, id: int) -> int | None:
        """Return the instruction of the group read that the servo supports; None: it is read singly."""
        if id not in self.group_codes:
            protocol = self.protocol(id)
            best, *others = protocol.group_reads
            if any(self._read_group(best, [id], protocol.id_place, 1) for _ in range(SUPPORT)):
                self.group_codes[id] = best
            else:
                try:
                    self._ping_once(id)
                except (BusTimeout, CorruptPacket):
                    return None
                self.group_codes[id] = others[0] if others else None
        return self.group_codes[id]

    def _read_group(self, code: int, ids: Sequence[int], address: int, length: int) -> dict[int, Reply]:
        """Send one group read; return the replies that came, by id."""
        protocol = self.protocol(ids[0])
        span = self._common_span(protocol, ids, address, length)
        if span is None:
            return {}
        first, count = span
        frame, number, size = protocol.group_question(code, ids, first, count)
        skipped = address - first
        shared = code == Instruction.FAST_SYNC_READ
        expected = ([BROADCAST], len(ids) * (count + 4)) if shared else (ids, count)
        try:
            received, sampled = self._gather(protocol, frame, number, size)
        except BaseException:
            self._note_answers((), *expected)
            raise
        replies = {
            id_: Reply(error, data[skipped : skipped + length], sampled)
            for id_, (error, data) in protocol.group_answers(code, received, ids, count).items()
        }
        missing = [id_ for id_ in ids if id_ not in replies]
        self._note_answers(replies, expected[0] if shared and missing else missing, expected[1])
        return replies

    def _eeprom_bytes(self, id: int, address: int, length: int) -> int:
        """Return how many of `length` bytes from `address` on are in the EEPROM."""
        return max(min(address + length, self.protocol(id).torque_enable) - address, 0)

    def _note_eeprom(self, id: int, address: int, length: int) -> None:
        if worn := self._eeprom_bytes(id, address, length):
            self.eeprom_writes += worn
            self.rewritten.setdefault(id, set()).update(range(address, address + worn))

    def _rest(self, seconds: float) -> None:
        self.clock.sleep_until(self.clock.now() + seconds)

    def _ping_once(self, id: int) -> Reply:
        protocol = self.protocol(id)
        return self._ask(protocol.encode(id, Instruction.PING, b""), id, protocol.ping_length)

    def _read_once(self, id: int, address: int, length: int) -> Reply:
        protocol = self.protocol(id)
        return self._ask(protocol.read_frame(id, address, length), id, length)

    def _write_once(self, frame: bytes, id: int) -> Reply | None:
        """Send a write; return its acknowledgement, or None without one."""
        if id in self.no_write_ack_ids:
            return self._send(frame, id)
        try:
            return self._ask(frame, id, 0)
        except (BusTimeout, CorruptPacket):
            return None

    def _read_back(self, id: int, address: int, data: bytes) -> Reply:
        """Read the registers to which `data` was written, at the new id if the write changed it."""
        if (new := self._new_id(id, address, data)) != id:
            try:
                return self.read(new, address, len(data))
            except BusTimeout:
                pass  # it still has its old id
        return self.read(id, address, len(data))

    def _new_id(self, id: int, address: int, data: bytes) -> int:
        """Return the servo's id after this write; a new id gets the servo's protocol."""
        place = self.protocol(id).id_place
        new = data[place - address] if address <= place < address + len(data) else id
        if new != id:
            self.set_protocol(new, self.protocol(id))
        return new

    def _send(self, frame: bytes, id: int) -> Reply | None:
        self._transfer(frame, id, None)
        return None

    def _ask(self, frame: bytes, id: int, length: int) -> Reply:
        packet, time = self._transfer(frame, id, length)
        assert packet is not None  # a length was given
        return Reply(packet.code, packet.params, time)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
