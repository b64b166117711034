"""A bus with real and virtual servos; its users see one bus.

A simulated world has all servos of the rig and receives every packet. The virtual servos reply. A real servo has a
double in the world, which follows the same goals and is moved to each position that the real servo reports. A group
read goes to the real bus only for the real servos, because there each servo waits for the reply of the one before it.
The simulated bus gives the time of every reply, those of doubles included; the bytes of the real servo replace those of
its double. A late reply delays those behind it. Behind a missing reply no servo replies (e-manual, Protocol 1.0, "Bulk
Read"; Protocol 2.0, "Sync Read").
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

from axbridge.bus.line_lock import BusLock
from axbridge.bus.port import REPLY_DELAY, Port
from axbridge.bus.protocols import v2
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import FIRST, Protocol
from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import GROUP_READS, Instruction
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import AxBridgeError, BusError, RigWarning, UnknownServo, UsageError, install
from axbridge.jit import COMPILED, LIGHTEN
from axbridge.robot.backend import Backend, call_all, open_real
from axbridge.robot.rig_check import refuse_unsound
from axbridge.robot.twin.twin import BY_HAND, Shadow
from axbridge.servo.columns import State
from axbridge.sim.bank import ServoBank
from axbridge.sim.support import supported
from axbridge.virtual.framing import Framing
from axbridge.virtual.sensors import Count
from axbridge.virtual.world import World

_log = logging.getLogger(__name__)
_TRIALS, _TRIAL = 3, 0.02  # number, and duration in simulated time, s, of the measurements of the world's speed
_STEP = 0.002  # s; longest delay of the world while a read waits for bytes


class _World(Shadow):
    """The world of all servos; several threads may use its buses."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._lock = threading.RLock()
        self._failed = False
        self.follow(time.monotonic())  # its time starts now

    @contextmanager
    def at(self, now: float, turn: BusLock, slack: float = 0.0) -> Iterator[float]:
        """Lock the world, advanced to at most `slack` s before `now` (`time.monotonic`); yields `now` in world time, s.

        Signal handlers are deferred. If the world fails, the virtual servos never reply again, because the real servos
        must still be commanded and limped.
        """
        with turn, turn.lock, self._lock:
            try:
                if not self._failed and now - self.lag - self.world.now() > slack:
                    self.follow(now)
            except AxBridgeError as failure:
                self._failed = True
                for line in self.world.lines.values():
                    line.unplug()
                _log.warning("the virtual servos are silent from now on: %s", failure.message)
            yield now - self.lag


class _Answer(NamedTuple):
    """A reply on the simulated bus."""

    due: float  # s, in world time
    data: bytes
    stands_for: int | None  # id of the real servo whose bytes replace it; `BROADCAST`: of several; None: of none


class MixedPort(Port):
    """A port with real servos, and with the world's servos whose ids are in `virtual`.

    It `mixes` only after a scan has found no real servo with these ids.
    """

    def __init__(self, name: str, baud: int, world: _World, bus: str, turn: BusLock) -> None:
        self.virtual: frozenset[int] = frozenset()
        self.echoes = False  # whether the adapter echoes sent bytes, which are removed here
        self._world, self._turn = world, turn
        self._line = world.world.lines[bus]
        self._servos = {servo.id: servo for servo in self._line.servos}
        self._protocols: dict[int, Protocol] = {servo.protocol.version: servo.protocol for servo in self._line.servos}
        self._protocol = FIRST  # of the latest instruction
        self._echo = b""  # sent bytes whose echo is still expected
        self._reset()
        super().__init__(name, baud)

    def _reset(self) -> None:
        """Reset the state of the latest instruction."""
        self._direct = True  # only real servos reply, so their bytes are passed on unchanged
        self._ping = False
        self._spans: dict[int, tuple[int, int]] = {}  # address and length, by id
        self._answers: deque[_Answer] = deque()
        self._came: dict[int, tuple[float, bytes, Packet]] = {}  # replies of real servos, with their world time
        self._late = 0.0  # s; delay of the later replies by real servos
        self._raw = self._passing = b""  # bytes of the real bus: not yet a whole packet; ready to be passed on
        self._sampled = 0.0  # time when the servos received the instruction, in world time, s

    # -- to the servos ------------------------------------------------------------------------------------------------

    def _send(self, frame: bytes) -> None:
        """Send whole packets to the world, and to the real bus if they address real servos."""
        if not self.mixes:
            super()._send(frame)
            return
        now = time.monotonic()
        with self._turn, self._turn.lock:
            self._reset()
            if real := self._for_real(frame):
                super()._send(real)  # first: the world may take milliseconds
                self._echo += real if self.echoes else b""
            with self._world.at(now, self._turn) as sent:
                self._line.send(frame, sent)
            self._sampled, came = self._line.host_free, self._line.collect(math.inf)
            if self._direct:
                self._line.clear()  # a double's late reply must not disturb the next instruction
            else:
                self._answers.extend(_Answer(*delivery, self._double(delivery.data)) for delivery in came)

    def _for_real(self, frame: bytes) -> bytes:
        """Return the bytes for the real bus, and record which servos reply."""
        parts, done = [], 0
        for version, packet, size, end in Framing(self._protocols).feed(frame):
            parts.append(frame[done : end - size])
            done, raw, self._protocol = end, frame[end - size : end], self._protocols[version]
            spans = self._protocol.requests(packet) if packet.intact else []
            self._spans = {id_: (address, length) for id_, address, length in spans}
            self._ping = packet.id == BROADCAST and packet.code == Instruction.PING
            virtual = self.virtual & ({packet.id} | self._spans.keys())
            self._direct = not virtual and not self._ping
            if not virtual:
                parts.append(raw)
            elif len(virtual) < len(self._spans) and packet.code in GROUP_READS:
                parts.append(self._protocol.without(packet, self.virtual))
        return b"".join([*parts, frame[done:]])

    # -- from the servos ----------------------------------------------------------------------------------------------

    def _receive(self, deadline: float) -> bytes:
        """Wait for real or virtual bytes until `deadline` (`time.monotonic`), and advance the world."""
        if not self.mixes:
            return super()._receive(deadline)
        deadline = max(deadline, 0.0)  # `THERE` would return only bytes at the descriptor, those of real servos
        while True:
            now = time.monotonic()
            with self._world.at(now, self._turn, _STEP) as here:
                if data := self._due(here):
                    return data
            data = super()._receive(min(deadline, time.monotonic() + self.until_next(_STEP)))
            if data:
                with self._world.at(time.monotonic(), self._turn) as here:
                    self._receive_real(data, here)
            elif now >= deadline:  # replies due by the deadline are returned first
                return b""

    def until_next(self, longest: float) -> float:
        """See `Port.until_next`."""
        if not self.mixes:
            return longest
        with self._turn, self._turn.lock:
            due = -math.inf if self._passing else math.inf
            if self._answers:
                first = self._answers[0]
                waits = first.stands_for is not None and first.stands_for not in self._came
                due = min(due, first.due + self._late + (self._patience if waits else 0.0))
        return min(max(due + self._world.lag - time.monotonic(), 0.0), longest, _STEP)

    @property
    def _patience(self) -> float:
        """Return the longest delay of a real servo, s: unlimited if others wait for it, limited in a broadcast PING."""
        return self.latency + REPLY_DELAY if self._ping else math.inf

    def _due(self, now: float) -> bytes:
        """Return the bytes that are due at world time `now`, s."""
        out, self._passing = self._passing, b""
        while self._answers:
            due, data, id_ = self._answers[0]
            if id_ is not None:
                if id_ in self._came:
                    came, raw, packet = self._came.pop(id_)
                    self._late = max(self._late, came - due)
                    data = raw if id_ != BROADCAST else self._merged(data, packet)
                elif now > due + self._late + self._patience:
                    data = b""  # no real servo has this id
                else:
                    break
                self._answers[0] = _Answer(due, data, None)
            if due + self._late > now:
                break
            out += self._answers.popleft().data
        return out

    def _receive_real(self, data: bytes, now: float) -> None:
        """Take in bytes from the real bus, received at world time `now`, s."""
        if self._echo:
            back = min(len(data), len(self._echo))
            same = data[:back] == self._echo[:back]
            data, self._echo = (data[back:], self._echo[back:]) if same else (data, b"")
        self._raw += data
        if self._direct:
            self._passing += data
        decoder = self._protocol.decoder()
        for packet, end, size in zip(decoder.feed(self._raw), decoder.ends, decoder.sizes, strict=True):
            raw = self._raw[end - size : end]
            self._measured(packet)
            for block in self._blocks(packet, [id_ for id_ in self._spans if id_ not in self.virtual]):
                self._measured(block)
            if packet.id in {answer.stands_for for answer in self._answers}:
                self._came[packet.id] = now, raw, packet
            elif not self._direct and (self._ping or packet.id not in self._servos):
                self._passing += raw
        self._raw = self._raw[len(self._raw) - decoder.pending :]

    # -- the senders of replies ---------------------------------------------------------------------------------------

    @property
    def _real(self) -> set[int]:
        return self._servos.keys() - self.virtual

    def _double(self, data: bytes) -> int | None:
        """Return the id of the real servo whose double sent this; `BROADCAST` for a shared reply, else None."""
        packets = [packet for packet in self._protocol.decoder().feed(data) if packet.intact]
        if len(packets) != 1:
            return None
        shared = packets[0].id == BROADCAST and packets[0].status and not self._spans.keys().isdisjoint(self._real)
        return packets[0].id if shared or packets[0].id in self._real else None

    def _blocks(self, packet: Packet, ids: Iterable[int]) -> list[Packet]:
        """Return the blocks of these servos in the shared reply to a fast read; empty for another packet."""
        if packet.id != BROADCAST or not packet.status:
            return []
        return v2.fast_blocks(packet, [self._spans[id_][1] for id_ in ids])

    def _merged(self, data: bytes, packet: Packet) -> bytes:
        """Return the shared reply to a fast read with the real servos' blocks; empty if one of these is missing."""
        real = [id_ for id_ in self._spans if id_ not in self.virtual]
        received = {block.id: block for block in self._blocks(packet, real)}
        (whole,) = self._protocol.decoder().feed(data)
        blocks = [received.get(block.id, block) for block in self._blocks(whole, self._spans)]
        return v2.encode_fast_status(blocks) if len(received) == len(real) else b""

    def _measured(self, packet: Packet) -> None:
        """Move the double of a real servo to the reported position, if it differed by more than `BY_HAND`."""
        if packet.id not in self._servos or packet.id not in self._spans or not packet.intact or not self._line.plugged:
            return
        double, (address, length) = self._servos[packet.id], self._spans[packet.id]
        position, firmware = double.profile.register("present_position"), double.firmware
        places = {double.target(address + place): place for place in range(length)}
        span = range(position.address, position.end)
        if len(packet.params) != length or not places.keys() >= set(span):
            return
        count = position.decode(bytes(packet.params[places[place]] for place in span))
        sampled = firmware.counts(firmware.state_at(self._sampled))[Count.POSITION]
        away = math.fmod(firmware.side * (count - sampled) * firmware.units.position, math.tau)
        if abs(away) > BY_HAND:
            self._world.world.bank.place(double.row, double.motors.state.item(double.row, State.READING) + away)

    # -- the port -----------------------------------------------------------------------------------------------------

    def setupPort(self, cflag_baud: int) -> bool:  # noqa: N802 - dynamixel-sdk's name
        """See `Port.setupPort`."""
        self._reset()
        self._echo = b""
        self._line.baud = cflag_baud
        return super().setupPort(cflag_baud)

    def setBaudRate(self, baudrate: int) -> bool:  # noqa: N802 - dynamixel-sdk's name
        """See `Port.setBaudRate`."""
        self._line.baud = baudrate
        return super().setBaudRate(baudrate)


class MixedBus(SerialBus):
    """A bus with real and virtual servos; `virtual` has the names of the virtual ones by id."""

    port: MixedPort

    def __init__(self, world: _World, bus: str, virtual: Mapping[int, str], **line: Any) -> None:
        self._world, self._name, self._virtual = world, bus, virtual
        super().__init__(**line)

    def _open_port(self) -> Port:
        return MixedPort(self.port_name, self.baud, self._world, self._name, self.turn)

    def _start(self) -> None:
        self.port.mixes = self.port.echoes = False
        super()._start()
        for servo in () if self.virtual_ids or not self._virtual else scan(self, self._virtual):
            problem = f"a real servo has id {servo.id} of {self._virtual[servo.id]}, which is to be virtual"
            raise BusError(f"{self.port_name}: {problem}", "take it off the line, or let that one be real")
        self.port.echoes, self.echo = self.echo, False
        self.port.virtual = self.virtual_ids = frozenset(self._virtual)
        self.port.mixes = True


def chosen(rig: Rig, patterns: Iterable[str]) -> tuple[ServoConfig, ...]:
    """Return the servos on buses that match patterns of names (``left_*``), ids (``7``) or ranges (``7-12``).

    Raises:
        UnknownServo: a pattern matches no servo.
        UsageError: the patterns match all servos of a bus.
    """
    servos, selected = rig.dynamixels, set[str]()
    for pattern in patterns:
        ids = re.fullmatch(r"(\d+)(?:-(\d+))?", pattern)
        span = range(int(ids[1]), int(ids[2] or ids[1]) + 1) if ids else ()
        matching = {servo.name for servo in servos if fnmatchcase(servo.name, pattern) or servo.id in span}
        if not matching:
            names = ", ".join(f"{servo.name} ({servo.id})" for servo in servos)
            why = f"rig {rig.name} has no servo {pattern!r} that could be virtual"
            raise UnknownServo(pattern, why, f"it has: {names}")
        selected |= matching
    for bus in rig.buses:
        members = {servo.name for servo in servos if servo.bus == bus.name}
        if members and members <= selected:
            raise UsageError(f"all servos of bus {bus.name!r} are virtual", 'open it with backend="sim", or serve it')
    return tuple(servo for servo in servos if servo.name in selected)


def _refuse_slow(world: World) -> None:
    """Raise `UsageError` if this computer simulates the world slower than real time: its servos would never reply."""
    shares = []
    for _ in range(_TRIALS):
        began = time.monotonic()
        world.sleep_until(world.now() + _TRIAL)
        shares.append((time.monotonic() - began) / _TRIAL)
    if min(shares) > 1.0:
        why = f"one second takes {min(shares):.1f} s here to simulate without numba: virtual servos would never answer"
        raise UsageError(why, LIGHTEN)


def open_mixed(rig: Rig, port: str | None, virtual: Iterable[str], *, seed: int = 0) -> Backend:
    """Open the rig's ports, and a world for the `virtual` servos (see `chosen`), if there are any.

    Raises:
        UnknownServo, UsageError: as `chosen`.
        RigError: the rig cannot be simulated.
        UsageError: without numba this computer simulates the rig slower than real time.
        BusError: a port cannot be opened, or a real servo has the id of a virtual servo.
    """
    servos = chosen(rig, virtual)
    if not servos:
        return open_real(rig, port)
    refuse_unsound(rig)
    with ExitStack() as opened:
        world = World(rig, seed=seed, timing="wire")
        opened.callback(world.close)
        assert isinstance(world.bank, ServoBank)  # not shared
        supported(world.bank, rig)
        if not COMPILED:
            _refuse_slow(world)
            message = f"without numba, several virtual servos may be too slow to answer: {install('numba')}"
            warnings.warn(message, RigWarning, stacklevel=2)
        world.doubles = world.servos.keys() - {servo.name for servo in servos}
        shadow = _World(world)

        def line(name: str, **line: Any) -> SerialBus:
            doubles = {servo.id: servo.name for servo in servos if servo.bus == name and servo.id is not None}
            return MixedBus(shadow, name, doubles, **line)

        real = open_real(rig, port, line)
        opened.pop_all()
    closing = partial(call_all, [world.close, real.close])
    return replace(real, close=closing, world=world, virtual=tuple(servo.name for servo in servos))
