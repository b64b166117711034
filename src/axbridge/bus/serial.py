"""The bus on copper, on a pseudo-terminal or behind a socket: one question at a time, never a wrong answer.

Protocol 1.0 replies carry no sequence number: a reply that comes after its time looks like the answer to the next
question of the same length. So a question that was not answered is remembered for `LATE_WINDOW`, and meanwhile that
servo is asked for a *different number of bytes* (some more registers in front, cut off again): the late reply then
cannot fit. This needs no pause, and holds on lines that reorder replies, where a PING in between would not.
An acknowledgement has no length to vary; a write that was not acknowledged is confirmed by reading it back.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from axbridge.bus.adapter import find_port
from axbridge.bus.base import Bus, Reply
from axbridge.bus.late import LateReplies, may_be_longer
from axbridge.bus.port import REPLY_DELAY, Port
from axbridge.bus.stats import LineStats
from axbridge.clock import WallClock
from axbridge.errors import BusError, BusTimeout, CorruptPacket, ErrorFlag
from axbridge.wire import BROADCAST, HEADER, OVERHEAD, Decoder, Instruction, Packet, byte_seconds, encode

__all__ = ["LATE_WINDOW", "SerialBus"]

LATE_WINDOW = 0.25  # s: how long a reply may still turn up after its question was given up
_REMOTE_LATE_WINDOW = 2.0
_QUIET = 0.001  # s: a pause that ends a damaged reply
EEPROM_END = 24  # first RAM address, AX and MX
_LONGEST_TAG = 24  # bytes a question may be lengthened by
_SUM_OK = 0xFD  # low byte of the sum over a whole intact packet: 0xFF + 0xFF + 0xFF
_REFUSED = ErrorFlag.RANGE | ErrorFlag.CHECKSUM | ErrorFlag.INSTRUCTION
_ECHO_PROBE = encode(BROADCAST, Instruction.READ, b"\x03\x01")  # no servo answers a broadcast READ


class SerialBus(Bus):
    """Servos on a serial port.

    Args:
        port: Device path, pyserial URL (``socket://host:port``, ``rfc2217://host:port``), or ``auto``: the only
            USB serial adapter there is.
        baud: Bits per second.
        retries: How often `ping`, `read` and `write` repeat a question that got no good answer.

    Attributes:
        latency: Time allowed for the way through adapter and host, s; `axbridge.bus.handshake` measures it.
        echo: Whether the adapter returns what was sent (found out at open; stripped from then on).
        stats: Counters since the bus was opened.

    Raises:
        PortError: the port cannot be opened; says why and what to do.
    """

    def __init__(self, port: str, baud: int = 1_000_000, *, retries: int = 2) -> None:
        self.clock = WallClock()
        self.baud = baud
        self.port_name = find_port() if port == "auto" else port
        self.retries = retries
        self.stats = LineStats()
        self.echo = False
        self._lock = threading.RLock()
        self._compiled: dict[tuple[int, int, int], tuple[bytes, bytes, int, float]] = {}
        self._byte = byte_seconds(baud)
        self._since = self.clock.now() - time.monotonic()  # from the system's clock to the bus's
        self.port = Port(self.port_name, baud)
        self.latency = self.port.latency
        self._late = LateReplies(_REMOTE_LATE_WINDOW if self.remote else LATE_WINDOW)
        self._start()

    @property
    def remote(self) -> bool:
        """Whether the port is a network port."""
        return self.port.adapter.kind == "remote"

    # -- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the port; may be called twice."""
        self.port.close()

    @property
    def closed(self) -> bool:
        """Whether the port is closed or lost."""
        return not self.port.is_open

    def reopen(self) -> None:
        """Open a lost port again under its old name, and look for echo again.

        Raises:
            PortError: it is still away.
        """
        with self._lock:
            self.port.setupPort(self.baud)
            self._late.forgive()
            self.stats.reopened += 1
            self._start()

    def set_baud(self, baud: int) -> None:
        """Talk at another rate from now on.

        Raises:
            PortError: the driver cannot make it, or the port is lost.
        """
        with self._lock:
            self.port.setBaudRate(baud)
            self.baud = baud
            self._byte = byte_seconds(baud)
            self._compiled.clear()
            self._late.forgive()
            self.drain(_QUIET)

    def _start(self) -> None:
        self.drain(_QUIET)
        self.echo = any(self._hears_itself() for _ in range(2))

    def _hears_itself(self) -> bool:
        self.port.send(_ECHO_PROBE)
        deadline = time.monotonic() + len(_ECHO_PROBE) * byte_seconds(self.baud) + self.port.latency
        heard = b""
        while _ECHO_PROBE not in heard:
            chunk = self.port.receive(deadline)
            if not chunk:
                return False
            heard += chunk
        return True

    def drain(self, quiet: float = _QUIET) -> bytes:
        """Read until the line was silent for `quiet` seconds; return what came."""
        heard = b""
        end = time.monotonic() + 0.2  # a line that never falls silent is not waited for
        while time.monotonic() < end and (chunk := self.port.receive(time.monotonic() + quiet)):
            heard += chunk
        return heard

    # -- questions ----------------------------------------------------------------------------------------------------

    def ping(self, id: int) -> Reply:
        """See `Bus.ping`; repeated up to `retries` times. A servo that owes an acknowledgement is read instead."""
        with self._lock:
            for attempt in range(self.retries + 1):
                try:
                    if self._late.owes(id, 0):
                        reply = self._read_once(id, 3, 1)
                        return Reply(reply.error, b"", reply.time)
                    return super().ping(id)
                except (BusTimeout, CorruptPacket):
                    if attempt == self.retries:
                        raise
                    self.stats.of(id).retries += 1
        raise AssertionError

    def read(self, id: int, address: int, length: int) -> Reply:
        """See `Bus.read`; repeated up to `retries` times."""
        with self._lock:
            for attempt in range(self.retries + 1):
                try:
                    reply = self._read_once(id, address, length)
                except (BusTimeout, CorruptPacket):
                    if attempt == self.retries:
                        raise
                else:
                    if not reply.error & ErrorFlag.CHECKSUM or attempt == self.retries:
                        return reply
                self.stats.of(id).retries += 1
        raise AssertionError

    def read_many(self, requests: Sequence[tuple[int, int, int]]) -> list[Reply | BusError]:
        """See `Bus.read_many`; no retries: a missing servo costs one wait."""
        answers: list[Reply | BusError] = []
        with self._lock:
            for request in requests:
                try:
                    plain = not self._late and not self.echo and self.port.fd is not None
                    answers.append(self._read_plain(request) if plain else self._read_once(*request))
                except (BusTimeout, CorruptPacket) as error:
                    answers.append(error)
        return answers

    def _read_plain(self, request: tuple[int, int, int]) -> Reply:
        """`_read_once` for the usual case, with as little Python as will do: this is most of a control loop's cost."""
        frame, prefix, need, wire = self._compiled.get(request) or self._compile(request)
        fd, poll = self.port.fd, self.port.poller
        assert fd is not None
        heard = b""
        try:
            whole = os.write(fd, frame) == len(frame)
            started = time.monotonic()
            if poll.poll((wire + REPLY_DELAY + self.latency) * 1e3):
                heard = os.read(fd, 4096)
        except OSError:  # lost, or its buffer is full: the careful way says which
            return self._read_once(*request)
        id_, _, length = request
        if whole and len(heard) == need and heard.startswith(prefix) and sum(heard) & 0xFF == _SUM_OK:
            line = self.stats.of(id_)
            line.asked += 1
            line.last_seen = sampled = started + self._since + len(frame) * self._byte
            return Reply(heard[4], heard[5:-1], sampled)
        packet, sampled = self._await(heard, started, frame, prefix, id_, length)
        return Reply(packet.code, packet.params, sampled)

    def _compile(self, request: tuple[int, int, int]) -> tuple[bytes, bytes, int, float]:
        id_, address, length = request
        frame = encode(id_, Instruction.READ, bytes((address, length)))
        need = length + OVERHEAD
        compiled = (frame, HEADER + bytes((id_, length + 2)), need, (len(frame) + need) * self._byte)
        self._compiled[request] = compiled
        return compiled

    def write(self, id: int, address: int, data: bytes, *, answered: bool = True) -> Reply | None:
        """See `Bus.write`; a write without acknowledgement is read back, and repeated when it did not arrive."""
        if address < EEPROM_END:
            self.stats.eeprom_writes += len(data)
        if id == BROADCAST or not answered:
            return super().write(id, address, data, answered=answered)
        with self._lock:
            failure: BusError | None = None
            if id not in self.silent and not self._late.owes(id, 0):
                try:
                    reply = super().write(id, address, data)
                except (BusTimeout, CorruptPacket) as error:
                    failure = error
                else:
                    if reply is None or not reply.error & ErrorFlag.CHECKSUM:
                        return reply
            return self._write_confirmed(id, address, data, failure)

    def _write_confirmed(self, id: int, address: int, data: bytes, failure: BusError | None) -> Reply:
        """Write with the read-back as acknowledgement: the servo owes one that could be taken for this write's."""
        frame = encode(id, Instruction.WRITE, bytes((address,)) + data)
        for _ in range(self.retries + 1):
            if failure is None:
                self._send_unheard(frame, id)
            try:
                reply = self._read_once(id, address, len(data))
            except (BusTimeout, CorruptPacket) as error:
                failure = error
                if isinstance(error, BusTimeout) and self.retries == 0:
                    raise
                self.stats.of(id).retries += 1
                self._send_unheard(frame, id)
                continue
            if reply.data == data:
                return Reply(reply.error, b"", reply.time)
            self.stats.of(id).retries += 1
            failure = None
        raise failure or BusTimeout(id, "it answers, but does not take the write: check the value and the register")

    def _send_unheard(self, frame: bytes, id: int) -> None:
        """Send, and let the acknowledgement pass by."""
        if id in self.silent:
            self._transfer(frame, id, None)
            return
        try:
            self._transfer(frame, id, 0)
        except (BusTimeout, CorruptPacket):
            return
        self._late.add(id, 0)  # what was heard may have been an older one

    def reg_write(self, id: int, address: int, data: bytes, *, answered: bool = True) -> Reply | None:
        """See `Bus.reg_write`."""
        self._settle(id)
        return super().reg_write(id, address, data, answered=answered)

    def action(self, id: int = BROADCAST, *, answered: bool = True) -> Reply | None:
        """See `Bus.action`."""
        self._settle(id)
        return super().action(id, answered=answered)

    def instruct(self, id: int, code: int, params: bytes = b"", *, answered: bool = True) -> Reply | None:
        """See `Bus.instruct`."""
        self._settle(id)
        return super().instruct(id, code, params, answered=answered)

    # -- one transaction ----------------------------------------------------------------------------------------------

    def _read_once(self, id: int, address: int, length: int) -> Reply:
        first, count = address, length
        if self._late:
            while self._late.owes(id, count):
                count += 1
            if count - length > _LONGEST_TAG:
                self._settle(id)
                count = length
            first = address - (count - length) if address >= count - length else address
        request = (id, first, count)
        frame, prefix, _, _ = self._compiled.get(request) or self._compile(request)
        packet, sampled = self._converse(frame, prefix, id, count)
        data = packet.params
        if count != length and data:
            data = data[address - first : address - first + length]
        return Reply(packet.code, data, sampled)

    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        with self._lock:
            if length is None:
                self.port.send(frame)
                now = self.clock.now() + len(frame) * self._byte
                if id != BROADCAST:
                    self._late.add(id, 0)  # a servo at status return level 2 will acknowledge all the same
                return None, now
            return self._converse(frame, HEADER + bytes((id, length + 2)), id, length)

    def _converse(self, frame: bytes, prefix: bytes, id: int, length: int) -> tuple[Packet, float]:
        self.port.send(frame)
        return self._await(b"", time.monotonic(), frame, prefix, id, length)

    def _await(
        self, heard: bytes, started: float, frame: bytes, prefix: bytes, id: int, length: int
    ) -> tuple[Packet, float]:
        """The answer to `frame`, sent at `started`, of which `heard` has come already."""
        port, line = self.port, self.stats.of(id)
        if self.echo:
            prefix = frame + prefix
        need = len(prefix) + length + 2
        skipped = len(prefix) - 4
        line.asked += 1
        sampled = started + self._since + len(frame) * self._byte
        deadline = started + (len(frame) + need) * self._byte + REPLY_DELAY + self.latency
        damaged = False
        while True:
            if len(heard) == need and heard.startswith(prefix) and sum(heard[skipped:]) & 0xFF == _SUM_OK:
                line.last_seen = sampled
                return Packet(id, heard[skipped + 4], heard[skipped + 5 : -1]), sampled
            packet, hurt = self._find(heard, frame, id, length)
            if packet is not None:
                line.last_seen = sampled
                return packet, sampled
            if hurt and not damaged:
                damaged = True
                deadline = min(deadline, time.monotonic() + _QUIET)
            chunk = port.receive(deadline)
            if not chunk:
                break
            heard += chunk
        self._late.add(id, length)
        if self._account(heard, frame) or damaged:
            line.corrupt += 1
            raise CorruptPacket(id, heard)
        line.timeouts += 1
        raise BusTimeout(id)

    def _find(self, heard: bytes, frame: bytes, id: int, length: int) -> tuple[Packet | None, bool]:
        """The answer among all that was heard, and whether a damaged one is there."""
        start = 0
        if self.echo:
            start = heard.find(frame)
            if start < 0:
                return None, False  # no answer comes before the question
            start += len(frame)
        hurt = False
        for size in (length, 0) if length else (0,):
            refusal = size != length
            if refusal and self._late.owes(id, 0):
                break
            header = HEADER + bytes((id, size + 2))
            at = heard.find(header, start)
            while at >= 0 and (end := at + size + 6) <= len(heard):
                raw = heard[at:end]
                if sum(raw) & 0xFF == _SUM_OK and not (refusal and not raw[4] & _REFUSED):
                    if raw == frame and frame[4] == Instruction.READ and not self.echo:
                        self.echo = True  # an adapter that echoes, missed at open
                    elif not may_be_longer(raw, heard[end : end + 1]):
                        self._account(heard[start:at] + heard[end:], frame)
                        return Packet(id, raw[4], raw[5:-1]), hurt
                hurt = hurt or not refusal
                at = heard.find(header, at + 1)
        return None, hurt

    def _account(self, rest: bytes, frame: bytes) -> int:
        """Count what was heard besides the answer, late replies and junk; returns the bytes that are no packet."""
        if not rest:
            return 0
        decoder = Decoder()
        damaged = 0
        for packet in decoder.feed(rest.replace(frame, b"") if self.echo else rest):
            if not packet.intact:
                damaged += len(packet.params) + OVERHEAD
            elif self._late.owes(packet.id, len(packet.params)):
                self.stats.of(packet.id).late += 1
        junk = damaged + decoder.skipped + decoder.pending
        self.stats.junk += junk
        return junk

    def _settle(self, id: int) -> None:
        """Wait until no late reply of servo `id` can come any more."""
        until = self._late.latest(id)
        while time.monotonic() < until:
            self.port.receive(until)
        self._late.forgive(id)
