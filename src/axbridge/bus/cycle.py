"""One control cycle: all goals out in one packet, then one read a servo. It goes on whatever is missing.

`send` writes torque limits before goals: a servo that came back must not begin with one hard push. `receive` reads the
servos in their order, and one of them, another in each cycle, with its torque limit in front: 2 bytes more a cycle show
within n cycles who has shut down. What the samples then call for (a servo beyond its limits goes limp) is written after
the last read, so that it does not stand between two samples of one cycle.

A servo that protects itself sets its Torque Limit to 0, or takes its Torque Enable away. Whatever is written to these
then wakes it. So a servo with a new alarm, or one that was away, gets nothing before both registers were read. One of
Protocol 2.0 tells by its alert bit that something is wrong; Hardware Error Status says what; a reboot alone wakes it.

Torque Enable is read of each servo that gets goals, too, twice a second and after each silence. Where it is off, the
servo was without power (it was away, or has forgotten what was written), or somebody has switched it off. Neither gets
goals: the first until its owner has set it up anew (`Cycle.revived`), the other until its torque is on again.

Values are register counts; the Robot knows radians. Time is the bus's clock, so a cycle on a virtual bus runs in
simulated time.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from axbridge.bus.base import Bus, Reply
from axbridge.bus.protocols.dynamixel import FIRST
from axbridge.bus.protocols.packet import BROADCAST, byte_seconds
from axbridge.bus.protocols.protocol import Protocol
from axbridge.bus.stats import TURNAROUND, CycleTimes
from axbridge.bus.watchdogs import Watchdogs
from axbridge.errors import BusError, BusTimeout, ErrorFlag, PortError
from axbridge.state import BusEvent

_GROUP_BYTES = 24  # of the question and the head of the answer, where servos are asked together
_FORGIVEN = 2  # consecutive losses before a servo counts as missing
_OTHER_ROBOT = "connect the robot that was there when it was opened, or open it anew"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # s between attempts at a missing servo or port
_BOOT = 0.1  # s: no servo starts faster, so one that has just answered has had power since
_AGAIN = 10.0  # s: one whose torque is gone again so soon, and that was heard meanwhile, was not without power twice
_LOOK = 0.3  # s between two looks at a Torque Enable


@dataclass(frozen=True)
class CycleServo:
    """A servo of the cycle, and what may be written to it; limits are register counts, inclusive.

    Attributes:
        name: Its name in goals and results.
        id: Bus id.
        goal_range: Lowest and highest Goal Position.
        top_speed: Highest Moving Speed. In joint mode 0 means "as fast as it can", and becomes this, too.
        top_torque: Highest Torque Limit.
        top_temperature: Above it, °C, torque is switched off and goals are withheld until `Cycle.recover`.
        voltage_range: Outside of it, in 0.1 V, likewise.
        protocol: What it speaks.
    """

    name: str
    id: int
    goal_range: tuple[int, int] = (0, 1023)
    top_speed: int | None = None
    top_torque: int = 1023
    top_temperature: int = 255
    voltage_range: tuple[int, int] = (0, 255)
    protocol: Protocol = FIRST


class Goal(NamedTuple):
    """What to write: register counts. `torque_limit` None leaves the register alone.

    In wheel mode (`wheel`) Moving Speed is a duty or a signed speed, so neither it nor the position is clipped.

    A servo with a mode of its own for what is no position gets its `speed` alone, a duty, a current or a signed speed,
    in the register at `place`.
    """

    position: int
    speed: int
    torque_limit: int | None = None
    wheel: bool = False
    place: int = 0


class RawState(NamedTuple):
    """One sample of a servo: register counts as they came.

    Attributes:
        time: When the servo took it, s on the bus's clock.
        error: What is wrong, as `Protocol.alarms`.
        torque_limit: As read last (it rotates: one servo a cycle); None before. 0 after an overload shutdown. None
            where an overload takes Torque Enable away.
    """

    time: float
    position: int
    speed: int
    load: int
    voltage: int
    temperature: int
    error: int
    torque_limit: int | None = None


@dataclass(frozen=True)
class CycleResult:
    """Outcome of one cycle.

    Attributes:
        states: By name, for the servos that answered.
        faults: By name, for the others. A servo that is left alone for a while keeps its latest error.
        events: What changed since the cycle before.
        time: When the cycle began, s on the bus's clock.
        spent: Time spent in `send` and `receive`, s.
        wire_share: Bare wire time over time spent, 0..1: 1 is as fast as the line allows.
    """

    states: Mapping[str, RawState]
    faults: Mapping[str, BusError]
    events: tuple[BusEvent, ...]
    time: float
    spent: float
    wire_share: float


@dataclass(slots=True)
class _ServoCycle:
    """What the cycle knows of one servo."""

    servo: CycleServo
    protocol: Protocol
    request: tuple[int, int, int]  # its usual read: id, address, length
    asks: bool  # what is wrong with it, and whether it has torque, is read apart from its samples
    failures: int = 0
    heard_at: float = -math.inf  # s on the bus's clock
    retry_at: float = 0.0
    error: BusError | None = None
    flags: int = 0  # plain: enumerations are slow
    written_torque: int | None = None
    torque_limit: int | None = None
    ramp: tuple[float, float] | None = None  # start and end of the torque's rise (bus clock)
    position: int | None = None  # as read last
    restart: bool = False  # its next goal is its present position
    limited: bool = False  # no goals: it is too hot, its supply is wrong, or it has shut itself down
    unsure: bool = False  # no goals, either, until its torque registers were read
    driven: bool = False  # there is a goal for it in this cycle
    sent: tuple[Goal, bytes] | None = None  # the latest goal, and what went out
    must_ask: bool = False  # what is wrong with it must be read
    away: bool = False  # it may have been without power since its Torque Enable was read
    told: bool = False  # a goal has gone out to it in this cycle
    revived_at: float = -math.inf  # s on the bus's clock
    looked_at: float = -math.inf  # when its Torque Enable was read last, s on the bus's clock
    must_limp: bool = False  # beyond its limits; has not yet confirmed that its torque is off
    eeprom: bytes = b""  # by which it is known again when the port was lost; empty: taken for the same
    strange: bool = False  # since then it was not looked at

    @property
    def missing(self) -> bool:
        return self.failures >= _FORGIVEN


_Writes = dict[tuple[Protocol, int], dict[int, bytes]]  # data by id, by register


def _track(servo: CycleServo) -> _ServoCycle:
    protocol = servo.protocol
    return _ServoCycle(servo, protocol, (servo.id, *protocol.usual), protocol.alarm is not None)


@dataclass
class _Wire:
    """Bytes and turnarounds of the current cycle, for `wire_share`."""

    bytes: int = 0
    replies: int = 0
    spent: float = 0.0
    start: float | None = None
    events: list[BusEvent] = field(default_factory=list)


class Cycle:
    """Sends goals to, and reads states of, all servos of one bus.

    Args:
        bus: Any bus.
        servos: Servos on it, in the order they are read.
        soft_start: Time the torque limit takes to rise when a servo comes back, s.

    Attributes:
        servos, servos_by_name: As given.
        times: Rate and durations of the latest cycles.
        watchdogs: Of those that have one.
        dark: Servos that were without power, by name: they get no goals until `revived`.
        taken: Servos whose torque somebody else has switched off, by name: likewise until it is on again.
    """

    def __init__(self, bus: Bus, servos: Sequence[CycleServo], soft_start: float = 0.5) -> None:
        self.bus = bus
        self.soft_start = soft_start
        self.servos = tuple(servos)
        self.servos_by_name = {servo.name: servo for servo in servos}
        self.times = CycleTimes()
        self.watchdogs = Watchdogs(bus)
        self.dark: set[str] = set()
        self.taken: set[str] = set()
        self._tracks = {servo.name: _track(servo) for servo in servos}
        for servo in servos:
            bus.speak(servo.id, servo.protocol)
        self._turn = 0
        self._port_retry = self._port_pause = 0.0
        self._port_error: PortError | None = None
        self._wire = _Wire()

    def remember(self) -> None:
        """Read the EEPROM of every servo. A lost port is used again only when all that answer are the same servos.

        Raises:
            BusError: a servo does not answer.
        """
        for track in self._tracks.values():
            track.eeprom = self.bus.read(track.servo.id, *track.protocol.identity).data

    def exchange(self, goals: Mapping[str, Goal]) -> CycleResult:
        """`send` and `receive`."""
        self.send(goals)
        return self.receive()

    def soften(self, names: Iterable[str], seconds: float) -> None:
        """Write a tenth of the full torque limit to these servos now; `send` lets it rise within `seconds`.

        Raises:
            PortError: the line is gone.
        """
        now = self.bus.clock.now()
        limits: _Writes = {}
        for name in names:
            track = self._tracks[name]
            track.ramp = (now, now + seconds)
            limit = self._torque_now(track, None, now)
            assert limit is not None  # within a ramp
            self._limit(track, limit, limits)
        for (_, address), blocks in limits.items():
            self.bus.sync_write(address, blocks)

    def send(self, goals: Mapping[str, Goal]) -> float:
        """Write goal position and moving speed of the servos named, in one packet (several beyond 27 servos).

        Goals are clipped to the servo's limits. A servo that came back first gets its present position as goal, and a
        torque limit that rises; but not one that still has torque and was away for less than that takes: replies
        were lost then, not power, and a joint that bears a robot must not go soft for them. One that has shut itself
        down gets nothing until `recover`, and a missing one nothing before it is back: when its power comes back it
        must not jump to an old goal. So after a pause in which one may have lost its power, all are read first. Changed
        torque limits go out before goals, in a packet of their own. `receive` reports a lost port.

        Returns:
            When the servos had their goals, s on the bus's clock: bytes that a port has taken are still to go out.
        """
        with self.bus.turn, self.bus.turn.lock:  # or a policy could come between a goal's choice and its way out
            return self._send(goals)

    def _send(self, goals: Mapping[str, Goal]) -> float:
        started = self.bus.clock.now()
        self._wire = _Wire(start=started)
        self._look_after_pause(goals, started)
        torques: _Writes = {}
        blocks: _Writes = {}
        for name, track in self._tracks.items():
            track.driven, track.told = name in goals, False
        for name, goal in goals.items():
            track = self._tracks[name]
            servo = track.servo
            if track.missing or track.limited or track.unsure or name in self.dark or name in self.taken:
                continue
            track.told = not track.restart or track.position is not None
            if track.sent is not None and goal is track.sent[0] and track.ramp is None and not track.restart:
                blocks.setdefault((track.protocol, track.protocol.goal), {})[servo.id] = track.sent[1]
                continue
            low, high = servo.goal_range
            if track.restart:
                if track.position is None:
                    continue  # until it was read
                goal = goal._replace(position=track.position)  # noqa: PLW2901 - what is sent instead
                track.ramp = (started, started + self.soft_start)
                track.restart = False
            torque = self._torque_now(track, goal.torque_limit, started)
            if goal.place:
                track.sent = None  # it is worked out anew each time
                self._endless_goal(track, goal, torque, torques, blocks)
                continue
            speed = goal.speed
            if servo.top_speed is not None and not goal.wheel and (speed == 0 or speed > servo.top_speed):
                speed = servo.top_speed
            position = goal.position if goal.wheel else min(max(goal.position, low), high)
            block = track.protocol.goal_bytes(position, speed)
            track.sent = goal, block
            blocks.setdefault((track.protocol, track.protocol.goal), {})[servo.id] = block
            if torque is not None and torque != track.written_torque:
                self._limit(track, torque, torques)
        heard = started
        if self._port_error is None:
            try:
                if self.watchdogs.wanted:
                    self.watchdogs.arm([id_ for data in blocks.values() for id_ in data])
                for (protocol, place), data in (*torques.items(), *blocks.items()):  # no hard push before a soft start
                    heard = max(heard, self._sync_write(protocol, place, data))
                if any(protocol.watchdog is not None for protocol, _ in blocks):
                    self.watchdogs.heard()
            except PortError as error:
                self._lose_port(error)
        self._wire.spent += self.bus.clock.now() - started
        return heard

    @staticmethod
    def _limit(track: _ServoCycle, torque: int, limits: _Writes) -> None:
        """Let this torque limit be written."""
        protocol = track.protocol
        limits.setdefault((protocol, protocol.torque_limit), {})[track.servo.id] = protocol.word(torque)
        track.written_torque = torque

    def _endless_goal(
        self, track: _ServoCycle, goal: Goal, torque: int | None, limits: _Writes, goals: _Writes
    ) -> None:
        """What a servo gets that follows no position; its torque limit where that has changed."""
        value, protocol = goal.speed, track.protocol
        if goal.place == protocol.torque_limit:  # its duty is where the limit is otherwise
            value = value if torque is None else min(max(value, -torque), torque)
        elif torque is not None and torque != track.written_torque:
            self._limit(track, torque, limits)
        data = value.to_bytes(protocol.goal_size(goal.place), protocol.byteorder, signed=True)
        goals.setdefault((protocol, goal.place), {})[track.servo.id] = data

    def receive(self) -> CycleResult:
        """Read 36..43 of every servo; one of them, in turn, with its torque limit in front.

        Never raises for a servo or a lost port: they are faults of the result. A servo that failed twice in a row is
        left alone for a while (0.05 s at first, at most 2 s), and then asked again. Each such question costs one wait.
        """
        started = self.bus.clock.now()
        if self._wire.start is None:  # no goals were sent
            self._wire = _Wire(start=started)
            for track in self._tracks.values():
                track.driven = track.told = False
        wire = self._wire
        states: dict[str, RawState] = {}
        if self._port_error is None or self._port_is_back(started):
            self._read(states, started)
        faults = {
            name: self._port_error or track.error or BusTimeout(track.servo.id)
            for name, track in self._tracks.items()
            if name not in states
        }
        wire.spent += self.bus.clock.now() - started
        assert wire.start is not None
        self.times.add(wire.start, wire.spent)
        bare = wire.bytes * byte_seconds(self.bus.baud) + wire.replies * TURNAROUND
        share = min(bare / wire.spent, 1.0) if wire.spent > 0 else 1.0
        self._wire = _Wire()
        return CycleResult(states, faults, tuple(wire.events), wire.start, wire.spent, share)

    def end_soft_starts(self) -> dict[str, int]:
        """The torque limits that still rise, by servo, as they are to be: nobody is left to raise them."""
        rising = [track for track in self._tracks.values() if track.ramp and not (track.restart or track.limited)]
        for track in rising:
            asked = track.sent[0].torque_limit if track.sent else None
            track.written_torque = self._torque_now(track, asked, math.inf)
        return {track.servo.name: track.written_torque for track in rising if track.written_torque is not None}

    def restart_softly(self) -> None:
        """Let every servo's next goals start from where it is then: after its torque was switched off."""
        for name, track in self._tracks.items():
            track.restart, track.position = True, None
            track.driven = track.told = False
            if not track.protocol.goal_wakes:
                self.dark.add(name)

    def revived(self, name: str) -> None:
        """A servo that was without power is set up anew: its next goals start from where it is, softly."""
        self.dark.discard(name)
        track = self._tracks[name]
        track.restart, track.written_torque, track.revived_at = True, None, self.bus.clock.now()

    def withhold(self, name: str) -> None:
        """Give a servo no goals until `recover`."""
        self._tracks[name].limited = True

    def recover(self, name: str) -> None:
        """Let a servo move again that shut itself down or was switched off at a limit; it starts from where it is.

        Its next goal brings a new Torque Limit (an AX-12 sets it to 0 at an overload), which rises softly.
        """
        track = self._tracks[name]
        track.limited = track.must_limp = track.unsure = False
        track.driven = track.told = False  # its torque may be off until its next goal
        track.written_torque = None
        track.restart = True
        track.ramp = (0.0, 0.0)
        self.taken.discard(name)
        self.dark.discard(name)
        self.watchdogs.forget([track.servo.id])

    @property
    def withheld(self) -> frozenset[str]:
        """Servos that get no goals until `recover`: they shut themselves down, or were switched off at a limit."""
        return frozenset(name for name, track in self._tracks.items() if track.limited)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _look_after_pause(self, goals: Iterable[str], now: float) -> None:
        """Read all servos if one that has goals may have been without power since it answered last: one would jump."""
        if self._port_error is not None:
            return
        silent = [track for name in goals if not (track := self._tracks[name]).missing and self._was_silent(track, now)]
        for track in silent:
            track.unsure, track.must_ask = True, track.asks
        if silent:
            self._read({}, now)

    @staticmethod
    def _was_silent(track: _ServoCycle, now: float) -> bool:
        """Whether a servo that has goals has not answered for so long that it may have been without power."""
        return track.driven and _BOOT < now - track.heard_at < math.inf

    def _read(self, states: dict[str, RawState], now: float) -> None:
        due = [track for track in self._tracks.values() if track.failures < _FORGIVEN or now >= track.retry_at]
        if not due:
            return
        self._turn = (self._turn + 1) % len(due)
        requests = [track.request for track in due]
        turn = due[self._turn]
        look = turn.driven and now - turn.looked_at > _LOOK
        requests[self._turn] = turn.servo.id, *(turn.protocol.with_torque if look else turn.protocol.with_limit)
        for place, track in enumerate(due):
            if track.strange:
                requests[place] = track.servo.id, *track.protocol.identity
            elif track.missing or track.unsure or track.servo.name in self.taken or self._was_silent(track, now):
                requests[place] = track.servo.id, *track.protocol.with_torque
        wire, together = self._wire, False
        try:
            # after an exception nobody fetches the other answers: close the generator, which holds the line
            with contextlib.closing(self.bus.read_each(requests)) as answers:
                for track, answer, (_, address, length) in zip(due, answers, requests, strict=True):
                    wire.bytes += 8
                    if isinstance(answer, Reply) and len(answer.data) == length:
                        wire.bytes += length + 6
                        wire.replies += 1
                        if track.protocol.group_reads:
                            together, wire.bytes, wire.replies = True, wire.bytes - 9, wire.replies - 1
                        if track.strange:
                            self._recognise(track, answer)
                        else:
                            states[track.servo.name] = self._take(track, answer, address)
                    else:
                        refused = BusTimeout(track.servo.id, "it refused the read: is this an AX or MX servo?")
                        self._fail(track, answer if isinstance(answer, BusError) else refused)
        except PortError as error:
            self._lose_port(error)
            return
        if together:
            self.watchdogs.heard()
            wire.bytes += _GROUP_BYTES
            wire.replies += 1
            for track in due:
                if track.servo.name in states and track.must_ask:
                    self._ask_why(track, states)
            self._look_at_torques(due, now)
        for track in due:
            if track.must_limp and not track.missing:
                self._limp(track)

    def _ask_why(self, track: _ServoCycle, states: dict[str, RawState]) -> None:
        """Read what is wrong with a servo whose alert bit has changed, and whether it has torque."""
        name, id_, protocol = track.servo.name, track.servo.id, track.protocol
        assert protocol.alarm is not None  # or it would not be asked
        try:
            why, torque = self.bus.read_many([(id_, *protocol.alarm), (id_, protocol.torque_enable, 1)])
            forgot = self._has_forgotten(track, torque)
        except PortError as error:
            self._lose_port(error)
            return
        if not (isinstance(why, Reply) and isinstance(torque, Reply) and why.data and torque.data):
            return  # again in the next cycle
        away, track.away = track.away, False
        track.must_ask = track.unsure = False
        flags = why.data[0]
        if flags & ~track.flags:
            self._wire.events.append(BusEvent("fault", name, flags=protocol.alarms(flags)))
        track.flags = flags
        states[name] = states[name]._replace(error=flags)
        if not torque.data[0] and flags and (away or track.driven):
            track.limited = True
        else:
            self._judge(track, on=bool(torque.data[0]), forgot=forgot or away)

    def _look_at_torques(self, due: Iterable[_ServoCycle], now: float) -> None:
        """Now and then, ask all servos whose samples do not say so at once whether they have torque."""
        asked = [t for t in due if t.asks and t.driven and not (t.failures or t.must_ask)]
        if not asked or (now - min(track.looked_at for track in asked) < _LOOK and not self.taken):
            return
        try:
            answers = self.bus.read_many([(t.servo.id, t.protocol.torque_enable, 1) for t in asked])
            for track, answer in zip(asked, answers, strict=True):
                if isinstance(answer, Reply) and answer.data:
                    track.looked_at = now
                    self._judge(track, on=bool(answer.data[0]), forgot=self._has_forgotten(track, answer))
        except PortError as error:
            self._lose_port(error)

    def _has_forgotten(self, track: _ServoCycle, torque: Reply | BusError) -> bool:
        """Whether a servo without torque has forgotten its Bus Watchdog, and so all else that was written to it."""
        off = isinstance(torque, Reply) and torque.data == b"\0"
        return off and self.watchdogs.was_reset(track.servo.id)

    def _judge(self, track: _ServoCycle, *, on: bool, forgot: bool) -> None:
        """Note whose torque is off although it has goals, and why: it was without power, or somebody has seen to it.

        Args:
            track: The servo.
            on: Whether its torque is on.
            forgot: Whether it was without power, if it is off.
        """
        name = track.servo.name
        if on and name in self.taken:
            self.taken.discard(name)
            track.restart = True
        elif on or track.limited or name in self.dark or name in self.taken:
            return
        elif forgot:
            self.dark.add(name)
            self.watchdogs.forget([track.servo.id])
            if track.driven:
                self._wire.events.append(BusEvent("without power", name))
        elif track.told:
            self.taken.add(name)
            self._wire.events.append(BusEvent("torque off", name))

    def _limp(self, track: _ServoCycle) -> None:
        try:
            self.bus.write(track.servo.id, track.protocol.torque_enable, b"\0")
        except PortError as error:
            self._lose_port(error)
        except BusError:
            return  # again in the next cycle
        else:
            track.must_limp = False

    def _take(self, track: _ServoCycle, reply: Reply, address: int) -> RawState:
        protocol = track.protocol
        position, speed, load, voltage, temperature = protocol.sample(reply.data[protocol.usual[0] - address :])
        name, (lowest, highest) = track.servo.name, track.servo.voltage_range
        returned = track.missing
        silent = not track.asks and self._was_silent(track, reply.time)  # of the others the watchdog tells
        if track.failures:
            track.away = track.away or _BOOT < reply.time - track.heard_at < math.inf
        elif silent and reply.time - track.revived_at > _AGAIN:
            track.away = True
        if returned:
            self._wire.events.append(BusEvent("returned", name))
            track.flags = 0  # what is wrong with it is said anew
        if track.failures:
            track.failures, track.error = 0, None
        error = reply.error
        if track.asks:
            error = track.flags
            if bool(reply.error & protocol.alert) != bool(track.flags) or track.away or returned:
                track.must_ask = track.unsure = True
        elif error != track.flags:
            if rising := reply.error & ~track.flags:
                self._wire.events.append(BusEvent("fault", name, flags=protocol.alarms(reply.error)))
                track.unsure = track.unsure or bool(rising & protocol.shuts_down)
            track.flags = reply.error
        if not track.asks:
            if address != protocol.usual[0]:
                self._look_at_torque(track, reply, address, returned=returned)
            if address != protocol.torque_enable:
                track.unsure = track.unsure or track.away or silent  # a goal would switch it on
        if returned:
            track.written_torque = None  # it may have been without power, and has then forgotten what was written
            brief = reply.time - track.heard_at < self.soft_start
            kept = track.asks or (address == protocol.torque_enable and bool(reply.data[0]))  # `_ask_why` looks, too
            track.restart |= not (brief and kept)  # one that has torque had power, too: replies were lost, and no more
        track.heard_at = reply.time
        track.position = position
        if (temperature > track.servo.top_temperature or not lowest <= voltage <= highest) and not track.limited:
            track.limited = track.must_limp = True
            self._wire.events.append(BusEvent("limit", name))
        return RawState(reply.time, position, speed, load, voltage, temperature, error, track.torque_limit)

    def _look_at_torque(self, track: _ServoCycle, reply: Reply, address: int, *, returned: bool) -> None:
        """Find out whether the servo has shut itself down, which is for `recover`, or has no torque for another reason.

        A wheel is driven by its speed, whatever its Torque Enable says.
        """
        before, ours, protocol = track.torque_limit, track.written_torque == 0, track.protocol
        track.torque_limit = limit = protocol.number(reply.data[protocol.torque_limit - address :][:2])
        sure, hurt = address == protocol.torque_enable, bool(reply.error & protocol.shuts_down)
        doubtful, away = sure and (returned or track.unsure), track.away
        on = not sure or bool(reply.data[0])
        if sure:
            track.unsure = track.away = False
            track.looked_at = reply.time
        if track.limited:
            return
        if track.ramp is None or doubtful:  # else the host wakes it just now
            off = limit == 0 or (sure and returned) or (track.driven and not on)
            if limit == 0 and before == 0 and not (ours or hurt or doubtful):
                track.written_torque = None  # the host has raised it again, and that packet was lost
            elif (hurt and off) or (limit == 0 and not ours):
                track.limited = True
                if not hurt:
                    self._wire.events.append(BusEvent("fault", track.servo.name, flags=ErrorFlag.OVERLOAD))
                return
        sent = track.sent if track.told else None
        if sure and (away or sent is None or not sent[0].wheel):
            goal = reply.data[protocol.goal - address :]
            self._judge(track, on=on, forgot=away or (sent is not None and not goal.startswith(sent[1])))

    def _fail(self, track: _ServoCycle, error: BusError) -> None:
        track.failures += 1
        track.error = error
        if track.failures == _FORGIVEN:
            self._wire.events.append(BusEvent("missing", track.servo.name, error))
        if track.missing:
            self.watchdogs.forget([track.servo.id])
            pause = _FIRST_PAUSE * 2.0 ** min(track.failures - _FORGIVEN, 10)
            track.retry_at = self.bus.clock.now() + min(pause, _LONGEST_PAUSE)

    def _torque_now(self, track: _ServoCycle, asked: int | None, now: float) -> int | None:
        top = min(track.servo.top_torque, track.protocol.full_torque)
        final = top if asked is None else min(asked, top)
        if track.ramp is not None:
            start, end = track.ramp
            if now >= end:
                track.ramp = None
                return final
            return max(round(final * max((now - start) / (end - start), 0.1)), min(final, 1))
        return None if asked is None else final

    def _sync_write(self, protocol: Protocol, address: int, data: dict[int, bytes]) -> float:
        """When the servos had it."""
        heard = -math.inf
        size = len(next(iter(data.values()))) + 1
        room = (protocol.longest_packet - 8) // size
        ids = list(data)
        for first in range(0, len(ids), room):
            part = {id_: data[id_] for id_ in ids[first : first + room]}
            heard = self.bus.sync_write(address, part)
            self._wire.bytes += 8 + size * len(part)
        return heard

    def _lose_port(self, error: PortError) -> None:
        self._port_error = error
        self._port_pause = _FIRST_PAUSE
        self._port_retry = self.bus.clock.now() + self._port_pause
        self._wire.events.append(BusEvent("port lost", "", error))
        for track in self._tracks.values():
            track.failures = max(track.failures, _FORGIVEN)  # each of them must come back
            track.retry_at = 0.0
        self.watchdogs.forget(self.watchdogs.armed)

    def _port_is_back(self, now: float) -> bool:
        if now < self._port_retry:
            return False
        try:
            self.bus.reopen(self._recognise_all)
        except PortError as error:
            self._port_error = error
            self._port_pause = min(self._port_pause * 2, _LONGEST_PAUSE)
            self._port_retry = self.bus.clock.now() + self._port_pause
            return False
        self._port_error = None
        self._wire.events.append(BusEvent("port back", ""))
        return True

    def _recognise_all(self) -> None:
        """Look who answers on a port that is back.

        Raises:
            PortError: another servo than before.
        """
        known = [track for track in self._tracks.values() if track.eeprom]
        asked = [(track.servo.id, *track.protocol.identity) for track in known]
        for track, answer in zip(known, self.bus.read_many(asked), strict=True):
            track.strange = not isinstance(answer, Reply)
            if isinstance(answer, Reply) and not self._is_same(track, answer):
                who, port = track.servo, getattr(self.bus, "port_name", "")
                raise PortError(port, f"{who.name!r} (id {who.id}) is another servo than before", _OTHER_ROBOT)

    def _recognise(self, track: _ServoCycle, reply: Reply) -> None:
        """Look who answers later than the others on a port that is back; another one gets nothing."""
        if self._is_same(track, reply):
            track.strange, track.retry_at = False, 0.0
        else:
            self._fail(track, BusError(f"servo {track.servo.id} is another one than before", _OTHER_ROBOT))

    def _is_same(self, track: _ServoCycle, reply: Reply) -> bool:
        written = self.bus.rewritten.get(track.servo.id, set()) | self.bus.rewritten.get(BROADCAST, set())
        return len(reply.data) == len(track.eeprom) and all(
            before == now or address in written
            for address, (before, now) in enumerate(zip(track.eeprom, reply.data, strict=True))
        )
