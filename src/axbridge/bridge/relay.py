"""Relay of bytes between a program and a serial line; packets of the program may be examined."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Iterable, Sequence

from axbridge.bus.port import THERE, Port
from axbridge.bus.protocols.packet import Packet
from axbridge.errors import PortError
from axbridge.virtual.channel import Channel
from axbridge.virtual.framing import Framing, ReceivedPacket

Examine = Callable[[int, Packet, bytes], bytes]
"""Returns the bytes for the line, from protocol version, packet and bytes of an intact packet."""

_PATIENCE = 0.1  # s that an incomplete packet is held; servos discard it then (inter-byte time-out)
_SILENCE = 0.15  # s of silence after a packet that was passed on incomplete, so that its servo discards it
_NEXT_PACKET_TIME = 0.0005  # s in which a program that waits for nothing else sends its next packet
_REPLY_TIME = 0.002  # s in which a reply begins; a wake-up of the bridge before it may delay it
_HAND_OVER_TIME = 0.0001  # s that the system needs to hand bytes over to the line
_MIN_STEP = 0.01  # s: minimum duration of a step without a pause
SAME_BAUD = 0.03  # share by which two baud rates may differ, so that bytes are still received
_REOPEN_PERIOD = 0.1  # s between attempts to open a lost port
_RATE_PATIENCE = 0.2  # s without bytes, after which the port leaves a rate at which no servo has answered


class Packets:
    """Splits a program's bytes into packets, so that each can be examined; other bytes pass unchanged."""

    def __init__(self, versions: Iterable[int], examine: Examine) -> None:
        self._framing = Framing(versions)
        self._examine = examine
        self._held = b""  # possibly the start of a packet
        self._held_since = 0.0

    def feed(self, data: bytes) -> bytes:
        """Process bytes; return the bytes for the line."""
        arrivals = self._framing.feed(data)
        if not self._held and len(arrivals) == 1 and arrivals[0].size == len(data):
            return self._examined(arrivals[0], data)
        before, stream, done, out = len(self._held), self._held + data, 0, []
        for arrival in arrivals:
            end = before + arrival.end
            begin = end - arrival.size
            out += [stream[done:begin], self._examined(arrival, stream[begin:end])]
            done = end
        keep = len(stream) - done if self._framing.pending else 0
        if (keep and not self._held) or (keep and done):
            self._held_since = time.monotonic()
        self._held = stream[len(stream) - keep :]
        return b"".join([*out, stream[done : len(stream) - keep]])

    def _examined(self, arrival: ReceivedPacket, frame: bytes) -> bytes:
        return self._examine(arrival.protocol, arrival.packet, frame) if arrival.packet.intact else frame

    def overdue(self) -> bytes:
        """Return, and release, the bytes of a packet that was not completed in time."""
        if not self._held or time.monotonic() - self._held_since < _PATIENCE:
            return b""
        incomplete, self._held = self._held, b""
        self._framing.reset()
        return incomplete


class Relay:
    """Relay between one program on a channel and one port.

    With `packets` None every byte passes at once, unchanged. `baud` is the rate of the servos: at another rate a packet
    reaches no servo, and the bridge must still reach them, so its bytes end here. None: the port follows the program;
    with `packets` it returns to `answered_baud` in a pause.
    """

    def __init__(
        self,
        channel: Channel,
        port: Port,
        packets: Packets | None = None,
        say: Callable[[str], object] = lambda _: None,
        baud: int | None = None,
    ) -> None:
        self.channel, self.port = channel, port
        self._baud, self._refused_baud = baud, 0.0
        self.answered_baud = port.baudrate  # rate at which the latest bytes of a servo came
        self.sent_at = self._received_at = time.monotonic()  # time of the last bytes of the program, and of a servo
        self.passing = False  # true while bytes of the program are written to the port
        self.others: Sequence[int] = ()  # other descriptors that end a wait
        self.called = False  # whether one of them ended the latest step
        self.behind = False  # whether a step must return while servos reply, because the program makes no pause
        self._packets, self._say = packets, say
        self._quiet_until = 0.0
        self._tried_at = 0.0

    @property
    def idle(self) -> float:
        """Time without bytes in either direction, s."""
        return time.monotonic() - max(self.sent_at, self._received_at)

    def bytes_wait(self) -> bool:
        """Return whether bytes wait to be passed on."""
        ends = [end for end in (self.port.fd, *self.channel.descriptors()) if end is not None]
        return bool(select.select(ends, [], [], 0.0)[0])

    def step(self, wait: float) -> None:
        """Relay for about `wait` s; while the port is lost, unplug the program's port.

        It returns in a pause, so that work between two steps delays nothing. While it is `behind` it returns when a
        packet is handed over to the line, because its reply takes longer.
        """
        end = time.monotonic() + max(wait, _MIN_STEP)
        try:
            if self.port.fd is None:
                self._reopen(wait)
                return
            while (wait := self._pass(wait)) and time.monotonic() < end:
                pass
            if self._packets is not None and self.port.baudrate != self.answered_baud and self.idle > _RATE_PATIENCE:
                self.port.setBaudRate(self.answered_baud)
        except PortError as lost:
            self.lose(lost)

    def lose(self, error: PortError) -> None:
        """Unplug the program's port, until the lost port is back."""
        self._say(error.message)
        self.channel.unplug()

    def _reopen(self, wait: float) -> None:
        time.sleep(wait)
        if time.monotonic() - self._tried_at < _REOPEN_PERIOD:
            return
        self._tried_at = time.monotonic()
        with contextlib.suppress(PortError):
            self.port.setupPort(self.port.baudrate)
            self.channel.plug()
            self._say("the port is back")

    def _pass(self, wait: float) -> float:
        """Wait once, and pass on the bytes that came; return the time to wait for more, s."""
        line = self.port.fd
        assert line is not None  # `step` opens it first
        program = self.channel.descriptors() if time.monotonic() >= self._quiet_until else ()
        wait = 0.0 if self.channel.waits else self.port.until_next(wait)
        ready = select.select([line, *program, *self.others], [], [], wait)[0]
        data = b"" if ready and line not in ready else self.port.receive(THERE if ready else 0.0)
        if data:
            self.channel.write(data)
            self._received_at, self.answered_baud = time.monotonic(), self.port.baudrate
            if ready == [line]:
                return _NEXT_PACKET_TIME
        self.called = not set(ready).isdisjoint(self.others)
        if self.channel.waits or not set(ready).isdisjoint(program):
            for arrival in self.channel.receive():
                if not self._set_baud(arrival.baud):
                    continue
                if out := arrival.data if self._packets is None else self._packets.feed(arrival.data):
                    self._send(out)
                self.sent_at = time.monotonic()
                data = arrival.data
        if self._packets is not None and (incomplete := self._packets.overdue()):
            self._send(incomplete)
            self._quiet_until = time.monotonic() + _SILENCE
        if not data or self.called:
            return 0.0
        return _HAND_OVER_TIME if self.behind else _REPLY_TIME

    def _send(self, data: bytes) -> None:
        self.passing = True
        try:
            self.port.send(data)
        finally:
            self.passing = False

    def _set_baud(self, baud: float | None) -> bool:
        """Set the port to the program's baud rate; return whether its bytes may pass."""
        if self._baud is not None and baud and abs(baud / self._baud - 1) > SAME_BAUD:
            if baud != self._refused_baud:
                self._say(f"the program has set {baud:.0f} baud, and the servos have {self._baud}: they get no packets")
            self._refused_baud = baud
            return False
        self._refused_baud = 0.0
        if self._baud is None and baud and round(baud) != self.port.baudrate:
            before = self.port.baudrate
            try:
                self.port.setBaudRate(round(baud))
            except PortError as refused:
                self._say(refused.message)
                self.port.setBaudRate(before)
        return True
