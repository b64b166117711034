"""Work of a bridge in gaps between packets of its program: reads for other programs, and samples of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from axbridge.bridge.black_box import PATIENCE, BlackBox
from axbridge.bridge.relay import Relay
from axbridge.bridge.rules import Notice
from axbridge.bus.line_lock import BusLock
from axbridge.bus.port import REPLY_DELAY, Port
from axbridge.bus.port_name import bridge_file
from axbridge.bus.protocols.known import PROTOCOLS, STS
from axbridge.bus.protocols.packet import BROADCAST, Packet, byte_seconds
from axbridge.config.registers import QUESTIONS, Instruction
from axbridge.errors import PortError
from axbridge.virtual.framing import Framing

with contextlib.suppress(ImportError):  # as on Windows
    import fcntl

_MAX_WAIT = 0.1  # s that a read of a second program waits for a gap; then it is sent between two packets of the first
_READER_TIMEOUT = 0.5  # s after which a reader no longer waits for the reply
_MAX_REPLY_BYTES = 150  # bytes of the longest reply
_MAX_PING_REPLIES = 32  # highest number of replies to a broadcast PING
_CHUNK = 4096


class Reader(NamedTuple):
    """A second program; it receives the replies to its own packets."""

    connection: socket.socket
    framing: Framing


class Gaps:
    """Called between two packets of the program; receives READs of others at a local TCP port.

    A file of the line's `port` has that address, and names the `link` for the program. `turn` is the lock of the line.
    `notify` receives a notice when a second program writes. `poll` is the time between two samples of each servo that
    the program does not read, s; None: no samples.
    """

    def __init__(
        self,
        port: str,
        box: BlackBox,
        turn: BusLock,
        notify: Callable[[Notice], object],
        *,
        link: Path | None = None,
        poll: float | None = None,
    ) -> None:
        self._port, self._box, self._turn, self._notify, self._poll = port, box, turn, notify, poll
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._readers: list[Reader] = []
        self._questions: deque[tuple[float, Reader, int, Packet]] = deque()  # arrival, reader, version, packet
        address = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"
        self._text = f"{os.getpid()}\n{address}\n{'' if link is None else link.absolute()}"
        self._file: Path | None = None
        self._lock = -1  # descriptor of the file
        self._lost = False  # whether the line's port is lost
        self._polled_at: dict[int, float] = {}
        self._announce()

    def __call__(self, relay: Relay) -> None:
        """Receive the packets of readers, and send reads while the line is idle."""
        box, questions, now = self._box, self._questions, time.monotonic()
        if relay.called or not relay.others:
            self._listen()
            relay.others = [self._listener.fileno(), *(reader.connection.fileno() for reader in self._readers)]
        while questions and now - questions[0][0] > _READER_TIMEOUT:
            questions.popleft()
        if self._lost and relay.port.fd is not None:
            self._announce()
        self._lost = relay.port.fd is None
        urgent = bool(questions) and now - questions[0][0] > _MAX_WAIT
        if self._lost or not (box.is_pause or (urgent and not box.pending)):
            return
        with contextlib.suppress(PortError), self._turn, self._turn.lock:  # the relay also detects a lost port
            if questions:
                _, reader, version, packet = questions.popleft()
                patience = PATIENCE if packet.id in box.traffic.table.servos else 0.0
                answer = _exchange(relay.port, version, packet, patience)
                with contextlib.suppress(OSError):
                    reader.connection.send(answer)
            elif self._poll is not None and (overdue := box.overdue(self._poll, self._polled_at)) is not None:
                protocol, id_ = overdue
                self._polled_at[id_] = box.time
                params = protocol.read_params(*protocol.usual)
                _exchange(relay.port, protocol.version, Packet(id_, Instruction.READ, params), PATIENCE)

    def close(self) -> None:
        """Close all connections, and remove the file."""
        self._withdraw()
        for connection in (self._listener, *(reader.connection for reader in self._readers)):
            connection.close()

    def _announce(self) -> None:
        """Write the file, unless it is there: the port's name may lead to another device after it was lost."""
        if (file := bridge_file(self._port)) == self._file:
            return
        self._withdraw()
        with contextlib.suppress(OSError, NameError):  # without the file other programs are refused
            file.unlink(missing_ok=True)
            self._lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._file = file
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.write(self._lock, os.fsencode(self._text))

    def _withdraw(self) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            os.close(self._lock)
            self._file = None

    def _listen(self) -> None:
        """Accept connections, and receive the packets of readers."""
        with contextlib.suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._readers.append(Reader(connection, Framing(self._box.traffic.versions)))
        for reader in list(self._readers):
            try:
                data = reader.connection.recv(_CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                reader.connection.close()
                self._readers.remove(reader)
            for received in reader.framing.feed(data):
                if received.packet.code in QUESTIONS:
                    self._questions.append((time.monotonic(), reader, received.protocol, received.packet))
                else:
                    text = f"a second program wrote to id {received.packet.id}: refused, because it may only read"
                    self._notify(Notice("", "second program", text))


def _exchange(port: Port, version: int, packet: Packet, patience: float) -> bytes:
    """Send a packet and wait for its replies; wait for each at least `patience` s.

    `patience` must be long enough for a servo that is on the line. Otherwise the program would take the late reply for
    one to its own packet.
    """
    protocol, grouped = PROTOCOLS[2 if version == 2 else 1], packet.id == BROADCAST
    frame = protocol.encode(packet.id, packet.code, packet.params)
    answers = _MAX_PING_REPLIES if grouped and packet.code == Instruction.PING else 1
    if grouped and packet.code in {Instruction.SYNC_READ, Instruction.BULK_READ}:
        group_protocol = STS if version == 1 and packet.code == Instruction.SYNC_READ else protocol
        answers = len(group_protocol.reads(packet))
    port.send(frame)
    wait = max(_MAX_REPLY_BYTES * byte_seconds(port.baudrate) + port.latency + REPLY_DELAY, patience)
    decoder, data, count = protocol.decoder(), b"", 0
    until = time.monotonic() + len(frame) * byte_seconds(port.baudrate) + wait
    while count < answers and (chunk := port.receive(until)):
        data += chunk
        count += len(decoder.feed(chunk))
        until = time.monotonic() + wait
    return data
