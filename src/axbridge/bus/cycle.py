"""One control cycle: all goals out in one packet, then one read a servo. A missing servo or port does not stop it.

`receive` reads the servos in order. In each cycle the read of another servo includes its torque limit: 2 bytes more a
cycle show within n cycles which servo has shut down. Writes that a sample calls for (torque off beyond a limit) follow
the last read, so that they do not delay samples of this cycle.

A servo that shuts down sets its Torque Limit or Torque Enable to 0. A write to either of these switches the torque on
again. So a servo with a new alarm, or after a gap in its replies, gets no write before both registers were read. Where
the alarm is a register of its own, it is read when the error byte changes; only a REBOOT instruction clears this
latched error.

Torque Enable of each servo that gets goals is read every third of a second, and after each gap. If it is 0, the servo
was without power (its replies had a gap, or its registers were reset), or another program has switched it off. Neither
gets goals: the first until its owner has set it up again (`Cycle.revived`), the second until its torque is on.

Replies become one table of register counts (`Rows`); other replies are examined one by one. Times are the bus's clock,
so a cycle on a virtual bus runs in simulated time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from axbridge.bus.base import Bus, Reply
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.protocols.protocol import FIRST, Protocol
from axbridge.bus.rows import UNREAD, Mask, RawState, Rows, decoded
from axbridge.bus.stats import CycleTimes
from axbridge.bus.watchdogs import Watchdogs
from axbridge.errors import BusError, BusTimeout, ErrorFlag, PortError
from axbridge.state import BusEvent

_MOST_FAILURES = 2  # consecutive losses before a servo counts as missing
_OTHER_ROBOT = "connect the robot that was there when it was opened, or open it again"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # s between attempts at a missing servo or port
_BOOT = 0.1  # s: shortest start-up of a servo: a gap between replies below this is no loss of power
_UPTIME = 10.0  # s after a servo was set up again: a gap without a failed read is no loss of power
_TORQUE_PERIOD = 0.3  # s between two polls of a Torque Enable
_SUPPLY = "voltage", "temperature"


@dataclass(frozen=True)
class CycleServo:
    """A servo of the cycle, and what may be written to it; limits are register counts, inclusive."""

    name: str
    id: int
    goal_range: tuple[int, int] = (0, 1023)
    top_speed: int | None = None  # in joint mode 0 means "as fast as it can", and becomes this, too
    top_torque: int = 1023  # highest Torque Limit
    top_temperature: int = 255  # °C: above it torque is switched off, and goals are withheld until `Cycle.recover`
    voltage_range: tuple[int, int] = (0, 255)  # 0.1 V: outside of it, likewise
    protocol: Protocol = FIRST


class Goal(NamedTuple):
    """What to write: register counts. `torque_limit` None leaves the register alone.

    In wheel mode (`wheel`) Moving Speed is a duty or a signed speed, so neither it nor the position is clipped.

    A servo with a mode of its own for what is no position gets its `speed` alone, a duty, a current or a signed speed,
    in `register`.
    """

    position: int
    speed: int
    torque_limit: int | None = None
    wheel: bool = False
    register: int = 0
    held: bool = False  # where the joint is: not clipped


class CycleResult(NamedTuple):
    """Outcome of one cycle."""

    servos: tuple[CycleServo, ...]  # in the order of the rows
    rows: Rows  # as read last
    fresh: Mask  # which of them were read in this cycle
    faults: Mapping[str, BusError]  # by name, for the others; a servo that is left alone keeps its latest error
    events: tuple[BusEvent, ...]  # what changed since the cycle before
    time: float  # when the cycle began, s on the bus's clock
    spent: float  # in `send` and `receive`, s

    @property
    def states(self) -> dict[str, RawState]:
        """The fresh rows by name."""
        states = {}
        rows = zip(*(self.rows[name].tolist() for name in RawState._fields), strict=True)
        for servo, row, fresh in zip(self.servos, rows, self.fresh.tolist(), strict=True):
            if fresh:
                state = RawState(*row)
                states[servo.name] = state._replace(torque_limit=None) if state.torque_limit == UNREAD else state
        return states


@dataclass(slots=True, eq=False)
class _Track:
    """State of one servo in the cycle."""

    row: int
    servo: CycleServo
    protocol: Protocol
    request: tuple[int, int, int]  # its usual read: id, address, length
    key: tuple[Protocol, int]  # what its goals go out by, as a rule; see `_Writes`
    reads_alarm: bool  # what is wrong with it, and whether it has torque, is read apart from its samples
    failures: int = 0
    retry_at: float = 0.0
    error: BusError | None = None
    flags: int = 0  # plain: enumerations are slow
    written_torque: int | None = None
    torque_limit: int | None = None
    ramp: tuple[float, float] | None = None  # start and end of the torque's rise (bus clock)
    position_read: bool = False  # its position was read since goals were to start from there
    restart: bool = False  # its next goal is its present position
    withheld: bool = False  # no goals until `recover`: it is too hot, its supply is wrong, or it has shut itself down
    unverified: bool = False  # no goals, either, until its torque registers were read
    driven: bool = False  # there is a goal for it in this cycle
    sent: bool = False  # it has gone out
    goal: Goal | None = None  # the latest that went out to a position or a wheel
    block: bytes = b""  # and its bytes
    alarm_due: bool = False  # what is wrong with it must be read
    power_gap: bool = False  # it may have been without power since its Torque Enable was read
    revived_at: float = -math.inf  # s on the bus's clock
    polled_at: float = -math.inf  # when its Torque Enable was read last, s on the bus's clock
    must_limp: bool = False  # beyond its limits; has not yet confirmed that its torque is off
    eeprom: bytes = b""  # by which it is known again when the port was lost; empty: taken for the same
    unidentified: bool = False  # the port was lost, and it has not been known again since

    @property
    def missing(self) -> bool:
        return self.failures >= _MOST_FAILURES

    @property
    def irregular(self) -> bool:
        """Whether its next answer is looked at by itself, or something is to be done after it."""
        return bool(
            self.failures
            or self.unverified
            or self.power_gap
            or self.unidentified
            or self.alarm_due
            or self.must_limp
            or not self.position_read
        )


_Answers = list[tuple[_Track, Reply, int]]  # answers, and from which address on
_Writes = dict[tuple[Protocol, int], dict[int, bytes]]  # data by id, by register


class Cycle:
    """Sends goals to, and reads states of, all servos of one bus, in this order.

    The torque limit of a servo that returns rises within `soft_start` s. Goals that would go out after `expires`, s of
    `time.monotonic`, are dropped: their program was stopped while it computed them, and the motors may be off since.
    """

    def __init__(self, bus: Bus, servos: Sequence[CycleServo], soft_start: float = 0.5) -> None:
        self.bus = bus
        self.soft_start = soft_start
        self.servos = tuple(servos)
        self.servos_by_name = {servo.name: servo for servo in servos}
        self.times = CycleTimes()
        self.watchdogs = Watchdogs(bus)
        self.unpowered: set[str] = set()  # names of those that were without power: no goals until `revived`
        self.switched_off: set[str] = set()  # of those whose torque another program switched off: until it is on again
        self.restarted: set[str] = set()  # of those that answer again after a gap: goals from before are void
        self.expires = math.inf
        self._caps: dict[str, int] = {}  # torque limits that no goal exceeds, by name
        for servo in servos:
            bus.set_protocol(servo.id, servo.protocol)
        self._tracks = {
            servo.name: _Track(row, servo, kind, (servo.id, *kind.usual), (kind, kind.goal), kind.reads_alarm)
            for row, servo, kind in ((row, servo, servo.protocol) for row, servo in enumerate(servos))
        }
        self._all = list(self._tracks.values())
        self._usual = [track.request for track in self._all]
        self._steady = False  # no track is `irregular`: all answers are stored at once
        self._steady_at = -math.inf  # when all had answered, s on the bus's clock
        self._reads_alarms = any(track.reads_alarm for track in self._all)
        self._kinds = list(dict.fromkeys(servo.protocol for servo in servos))
        self._watched = any(protocol.watchdog is not None for protocol in self._kinds)
        self._rows = Rows.unread(len(servos))
        self._usual_bytes = [0] * len(servos)  # error bytes as last reported: another one is a new alarm, or its end
        self._supply_at = min((at for name, _, at in servos[0].protocol.sample if name in _SUPPLY), default=0)
        self._supplied: list[bytes] = []  # from there on: voltage and temperature, within their limits
        self._hottest = np.array([servo.top_temperature for servo in servos])
        self._volts = np.array([servo.voltage_range for servo in servos]).reshape(-1, 2).T
        self._probe = 0  # place of the servo whose torque limit is read in this cycle
        self._port_retry = self._port_pause = 0.0
        self._port_error: PortError | None = None
        self._begun: float | None = None  # when goals were sent in this cycle
        self._spent = 0.0
        self._events: list[BusEvent] = []

    def remember(self) -> None:
        """Read the EEPROM of every servo. A lost port is used again only when all that answer are the same servos."""
        for track in self._all:
            track.eeprom = self.bus.read(track.servo.id, *track.protocol.identity).data

    def exchange(self, goals: Mapping[str, Goal]) -> CycleResult:
        """`send` and `receive`."""
        self.send(goals)
        return self.receive()

    def soften(self, names: Iterable[str], seconds: float) -> None:
        """Write a tenth of the full torque limit to these servos now; `send` lets it rise within `seconds`."""
        now = self.bus.clock.now()
        limits: _Writes = {}
        for name in names:
            track = self._tracks[name]
            track.ramp = (now, now + seconds)
            limit = self._torque_now(track, None, now)
            assert limit is not None  # within a ramp
            self._add_limit(track, limit, limits)
        self.bus.exchange([(address, data) for (_, address), data in limits.items()], ())

    def cap(self, name: str, torque: int | None) -> None:
        """Let a servo have at most this torque limit, counts, from now on; None: let it rise to what its goals say."""
        track, now = self._tracks[name], self.bus.clock.now()
        limits: _Writes = {}
        if torque is None:
            share = min(self._caps.pop(name, 0) / track.protocol.full_torque, 0.9)  # rise from here: it bears a load
            track.ramp = (now - self.soft_start * share / (1 - share), now + self.soft_start)
        else:
            self._caps[name] = torque
            self._add_limit(track, torque, limits)
            self.bus.exchange([(address, data) for (_, address), data in limits.items()], ())

    def send(self, goals: Mapping[str, Goal]) -> float:
        """Write goal position and moving speed of the servos named, in one packet (several beyond 27 servos).

        Goals are clipped to the servo's limits, unless they hold a joint where it is. A missing servo (two failed reads
        in a row) gets nothing until it answers, and one that has shut itself down nothing until `recover`. The first
        goal after a servo was missing is its present position, and its torque limit rises. If it still has torque and
        was away for less than `soft_start`, replies were lost and not power: its goals go on, with full torque. After a
        pause in which a servo may have lost its power, all are read first: it must not jump to an old goal. Changed
        torque limits go out before goals, in a packet of their own. `receive` reports a lost port.
        """
        with self.bus.turn, self.bus.turn.lock:  # or a policy could come between a goal's choice and its way out
            return self._send(goals)

    def _send(self, goals: Mapping[str, Goal]) -> float:
        started = self.bus.clock.now()
        self._begun, self._spent, self._events = started, 0.0, []
        self._read_after_pause(goals, started)
        limits: _Writes = {}
        blocks: _Writes = {}
        for track in self._all if len(goals) < len(self._all) else ():
            track.driven = track.sent = False
        tracks, off = self._tracks, self.unpowered | self.switched_off
        for name, goal in goals.items():
            track = tracks[name]
            track.driven, track.sent = True, False
            if not (track.failures >= _MOST_FAILURES or track.withheld or track.unverified or name in off):
                self._add_goal(track, goal, started, limits, blocks)
        arrived = started
        if self._port_error is None and blocks:
            try:
                if self.watchdogs.wanted and self._watched:
                    self.watchdogs.arm([id_ for data in blocks.values() for id_ in data])
                writes = (*limits.items(), *blocks.items())  # a soft start must not begin with one hard push
                timely = takewhile(lambda _: monotonic() <= self.expires, writes)  # each is looked at as it goes out
                arrived, _ = self.bus.exchange(((place, data) for (_, place), data in timely), ())
                if arrived > -math.inf and self._watched and any(kind.watchdog is not None for kind, _ in blocks):
                    self.watchdogs.note_answer()
            except PortError as error:
                self._lose_port(error)
        self._spent += self.bus.clock.now() - started
        return arrived

    def _add_goal(self, track: _Track, goal: Goal, now: float, limits: _Writes, blocks: _Writes) -> None:
        """Add what goes out to a servo for its goal to `blocks`, and a changed torque limit to `limits`."""
        servo, protocol = track.servo, track.protocol
        track.sent = not track.restart or track.position_read
        if track.restart:
            if not track.position_read:
                return  # until it was read
            goal = goal._replace(position=int(self._rows["position"][track.row]), held=True)
            track.ramp = (now, now + self.soft_start)
            track.restart = False
        torque = goal.torque_limit
        if torque != track.written_torque or track.ramp is not None or self._caps:
            torque = self._torque_now(track, torque, now)
        key = track.key
        if goal == track.goal:
            block = track.block
        elif goal.register:
            value = goal.speed
            if goal.register == protocol.torque_limit:  # its duty is where the limit is otherwise
                value, torque = value if torque is None else min(max(value, -torque), torque), None
            track.goal, key = None, (protocol, goal.register)
            block = protocol.endless_bytes(goal.register, value)
        else:
            position, speed = goal.position, goal.speed
            if not goal.wheel:
                if not goal.held:
                    low, high = servo.goal_range
                    position = low if position < low else min(position, high)
                if servo.top_speed is not None and (speed == 0 or speed > servo.top_speed):
                    speed = servo.top_speed
            block = protocol.goal_bytes(position, speed)
            track.goal, track.block = goal, block
        blocks.setdefault(key, {})[servo.id] = block
        if torque is not None and torque != track.written_torque:
            self._add_limit(track, torque, limits)

    @staticmethod
    def _add_limit(track: _Track, torque: int, limits: _Writes) -> None:
        """Add a torque limit."""
        protocol = track.protocol
        limits.setdefault((protocol, protocol.torque_limit), {})[track.servo.id] = protocol.word(torque)
        track.written_torque = torque

    def receive(self) -> CycleResult:
        """Read what every servo measures; one of them, in turn, with its torque limit in front.

        Never raises for a servo or a lost port: they are faults of the result. A servo that failed twice in a row is
        left alone for a while (0.05 s at first, at most 2 s), and then asked again. Each such question costs one wait.
        """
        started = self.bus.clock.now()
        if self._begun is None:  # no goals were sent
            self._begun, self._spent, self._events = started, 0.0, []
            for track in self._all:
                track.driven = track.sent = False
        fresh = np.zeros(len(self._all), dtype=bool)
        if self._port_error is None or self._port_is_back(started):
            self._read(fresh, started)
        faults = {}
        if False in fresh.tolist():
            faults = {
                track.servo.name: self._port_error or track.error or BusTimeout(track.servo.id)
                for track, there in zip(self._all, fresh.tolist(), strict=True)
                if not there
            }
        begun, self._begun = self._begun, None
        self._spent += self.bus.clock.now() - started
        self.times.add(begun, self._spent)
        return CycleResult(self.servos, self._rows, fresh, faults, tuple(self._events), begun, self._spent)

    def end_soft_starts(self) -> dict[str, int]:
        """Final values of the torque limits that still rise, by servo: no cycle will raise them."""
        rising = [track for track in self._all if track.ramp and not (track.restart or track.withheld)]
        for track in rising:
            asked = track.goal.torque_limit if track.goal else None
            track.written_torque = self._torque_now(track, asked, math.inf)
        return {track.servo.name: track.written_torque for track in rising if track.written_torque is not None}

    def restart_softly(self) -> None:
        """Let every servo's next goals start from where it is then: after its torque was switched off."""
        self._steady = False
        for track in self._all:
            track.restart, track.position_read, track.written_torque = True, False, None
            track.driven = track.sent = False
            if not track.protocol.goal_wakes:
                self.unpowered.add(track.servo.name)

    def revived(self, name: str) -> None:
        """A servo that was without power is set up again: its next goals start from where it is, softly."""
        self.unpowered.discard(name)
        track = self._tracks[name]
        track.restart, track.written_torque, track.revived_at = True, None, self.bus.clock.now()

    def place(self, name: str, position: int) -> None:
        """Take over where a servo is now that torque is on, counts: one of the X series may have changed its count."""
        self._correct(self._tracks[name], "position", position)

    def withhold(self, name: str) -> None:
        """Give a servo no goals until `recover`."""
        self._tracks[name].withheld = True

    def recover(self, name: str) -> None:
        """Let a servo move again that shut itself down or was switched off at a limit; it starts from where it is.

        Its next goal brings a new Torque Limit (an AX-12 sets it to 0 at an overload), which rises softly.
        """
        self._steady = False
        track = self._tracks[name]
        track.withheld = track.must_limp = track.unverified = False
        track.driven = track.sent = False  # its torque may be off until its next goal
        track.written_torque = None
        track.restart = True
        track.ramp = (0.0, 0.0)
        self.switched_off.discard(name)
        self.unpowered.discard(name)
        self.watchdogs.forget([track.servo.id])

    @property
    def withheld(self) -> frozenset[str]:
        """Servos that get no goals until `recover`: they shut themselves down, or were switched off at a limit."""
        return frozenset(track.servo.name for track in self._all if track.withheld)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _read_after_pause(self, goals: Iterable[str], now: float) -> None:
        """Read all servos if one that has goals may have been without power since it answered last: one would jump."""
        if self._port_error is not None or self._is_steady(now):
            return
        quiet = self._quiet(now)
        if quiet.any():
            tracks = (self._tracks[name] for name in goals)
            doubtful = [track for track in tracks if quiet[track.row] and track.driven and not track.missing]
            for track in doubtful:
                track.unverified, track.alarm_due, self._steady = True, track.reads_alarm, False
            if doubtful:
                self._read(np.zeros(len(self._all), dtype=bool), now)

    def _quiet(self, now: float) -> Mask:
        """Which servos have had a gap in their replies that is long enough for a loss of power."""
        return now - self._rows["time"] > _BOOT  # not before the first sample: that is NaN

    def _is_steady(self, now: float) -> bool:
        """Whether all have answered not long ago, and nothing is out of the ordinary with any of them."""
        return self._steady and now - self._steady_at < _BOOT / 2 and not self.switched_off

    def _read(self, fresh: Mask, now: float) -> None:
        steady = self._is_steady(now)
        due = self._all
        if not steady:
            due = [track for track in self._all if track.failures < _MOST_FAILURES or now >= track.retry_at]
            if not due:
                return
        requests = self._requests(due, now, steady=steady)
        try:
            _, answers = self.bus.exchange((), requests)
        except PortError as error:
            self._lose_port(error)
            return
        if steady and self._store_usual(requests, answers):
            fresh[:] = True
            if self._reads_alarms:
                self.watchdogs.note_answer()
                self._poll_torques(due, now)
            if self._steady:
                self._steady_at = now
            return
        replies: _Answers = []
        for track, answer, (_, address, length) in zip(due, answers, requests, strict=True):
            if isinstance(answer, Reply) and len(answer.data) == length:
                if track.unidentified:
                    self._recognise(track, answer)
                else:
                    replies.append((track, answer, address))
            else:
                refused = BusTimeout(track.servo.id, "it refused the read: is this an AX or MX servo?")
                self._note_failure(track, answer if isinstance(answer, BusError) else refused)
        if replies:
            self._store(replies, fresh, steady=steady)
        asked = False
        for track in () if steady and self._steady and not self._reads_alarms else due:
            if track.alarm_due and fresh[track.row]:
                self._read_alarm(track)
            asked = asked or (track.reads_alarm and bool(fresh[track.row]))
            if track.must_limp and not track.missing:
                self._limp(track)
        if asked:
            self.watchdogs.note_answer()
            self._poll_torques(due, now)
        self._steady = self._steady or not any(track.irregular for track in self._all)
        if self._steady and len(replies) == len(self._all):
            self._steady_at = now

    def _requests(self, due: list[_Track], now: float, *, steady: bool) -> list[tuple[int, int, int]]:
        """What to read of these servos."""
        self._probe = (self._probe + 1) % len(due)
        requests = self._usual.copy() if steady else [track.request for track in due]
        probed, kind = due[self._probe], due[self._probe].protocol
        is_due = probed.driven and now - probed.polled_at > _TORQUE_PERIOD
        requests[self._probe] = probed.servo.id, *(kind.with_torque if is_due else kind.with_limit)
        if steady:
            return requests
        quiet, off = self._quiet(now), self.switched_off
        for place, track in enumerate(due):
            if track.unidentified:
                requests[place] = track.servo.id, *track.protocol.identity
            elif track.missing or track.unverified or track.servo.name in off or (track.driven and quiet[track.row]):
                requests[place] = track.servo.id, *track.protocol.with_torque
        return requests

    def _store_usual(self, requests: Sequence[tuple[int, int, int]], answers: Sequence[Reply | BusError]) -> bool:
        """Put all answers into the table, if nothing is out of the ordinary with any."""
        replies = [answer for answer in answers if isinstance(answer, Reply)]
        if len(self._kinds) > 1 or len(replies) < len(self._all):
            return False
        errors, data, times = zip(*replies, strict=True)
        if [*errors] != self._usual_bytes or max(times) - self._steady_at > _BOOT:  # the program may have stood still
            return False
        probed, asked = self._all[self._probe], replies[self._probe]
        protocol, address, blocks = probed.protocol, requests[self._probe][1], [*data]
        begin, length = protocol.usual
        blocks[self._probe] = asked.data[begin - address :]
        samples = b"".join(blocks)
        if len(samples) != length * len(replies):
            return False
        known = {name: self._rows[name] for name in ("time", "error", "torque_limit")}
        rows, supplied = Rows(known, protocol, samples), [block[self._supply_at :] for block in blocks]
        if supplied != self._supplied:
            if self._beyond(rows).any():
                return False
            self._supplied = supplied
        self._rows = rows
        if address != begin:
            limit = protocol.number(asked.data[protocol.torque_limit - address :][:2])
            if address <= protocol.torque_enable or limit == 0 or limit != probed.torque_limit:
                self._examine(probed, asked, address, beyond=False)
                self._steady = self._steady and not probed.irregular  # another thread may have asked for a soft start
        rows["time"] = np.array(times)
        return True

    def _store(self, replies: _Answers, fresh: Mask, *, steady: bool) -> None:
        """Put answers into the table, a column at a time; look at those one by one that are not as usual."""
        rows = _places(replies, len(self._all))
        times = np.array([reply.time for _, reply, _ in replies])
        self._rows = table = Rows(
            {name: self._rows[name].copy() for name in RawState._fields}
        )  # others have the old ones
        for protocol in self._kinds:
            part = replies if len(self._kinds) == 1 else [item for item in replies if item[0].protocol is protocol]
            if part:
                begin = protocol.usual[0]
                samples = b"".join([reply.data[begin - address :] for _, reply, address in part])
                own = _places(part, len(self._all))
                for name, *_ in protocol.sample:
                    table[name][own] = decoded(protocol, samples, name)
        beyond = self._beyond(table)[rows]
        was_quiet = times - table["time"][rows] > _BOOT  # NaN before the first sample
        fresh[rows] = True
        for (track, reply, address), out, quiet in zip(replies, beyond.tolist(), was_quiet.tolist(), strict=True):
            odd = out or quiet or reply.error & track.protocol.alarm_mask != self._usual_bytes[track.row]
            if odd or address != track.request[1] or (not steady and track.irregular):
                self._examine(track, reply, address, beyond=out)
                self._steady = self._steady and not track.irregular
        table["time"][rows] = times

    def _beyond(self, rows: Rows) -> Mask:
        """Which servos are beyond their limits of supply and temperature."""
        voltage, (lowest, highest) = rows["voltage"], self._volts
        return (voltage < lowest) | (voltage > highest) | (rows["temperature"] > self._hottest)

    def _correct(self, track: _Track, name: str, value: int) -> None:
        """Put another value into a column, which results of earlier cycles have, too."""
        self._rows[name] = column = self._rows[name].copy()
        column[track.row] = value

    def _note_flags(self, track: _Track, flags: int) -> None:
        """This is wrong with a servo."""
        track.flags = flags
        self._correct(track, "error", flags)
        self._usual_bytes[track.row] = track.protocol.alert * bool(flags) if track.reads_alarm else flags

    def _read_alarm(self, track: _Track) -> None:
        """Read what is wrong with a servo whose alert bit has changed, and whether it has torque."""
        name, id_, protocol = track.servo.name, track.servo.id, track.protocol
        assert protocol.alarm is not None  # or it would not be asked
        try:
            why, torque = self.bus.read_many([(id_, *protocol.alarm), (id_, protocol.torque_enable, 1)])
            was_reset = self._was_reset(track, torque)
        except PortError as error:
            self._lose_port(error)
            return
        if not (isinstance(why, Reply) and isinstance(torque, Reply) and why.data and torque.data):
            return  # again in the next cycle
        unpowered, track.power_gap = track.power_gap, False
        track.alarm_due = track.unverified = False
        flags = why.data[0]
        if flags & ~track.flags:
            self._events.append(BusEvent("fault", name, flags=protocol.alarms(flags)))
        self._note_flags(track, flags)
        if not torque.data[0] and flags and (unpowered or track.driven):
            track.withheld = True
        else:
            self._judge(track, on=bool(torque.data[0]), was_reset=was_reset or unpowered)

    def _poll_torques(self, due: Iterable[_Track], now: float) -> None:
        """Read Torque Enable of the driven servos with an alarm register, at most every `_TORQUE_PERIOD`."""
        asked = [t for t in due if t.reads_alarm and t.driven and not (t.failures or t.alarm_due)]
        if not asked or (now - min(track.polled_at for track in asked) < _TORQUE_PERIOD and not self.switched_off):
            return
        try:
            answers = self.bus.read_many([(t.servo.id, t.protocol.torque_enable, 1) for t in asked])
            for track, answer in zip(asked, answers, strict=True):
                if isinstance(answer, Reply) and answer.data:
                    track.polled_at = now
                    self._judge(track, on=bool(answer.data[0]), was_reset=self._was_reset(track, answer))
        except PortError as error:
            self._lose_port(error)

    def _was_reset(self, track: _Track, torque: Reply | BusError) -> bool:
        """Whether the Bus Watchdog of a servo without torque was reset, and with it its other RAM registers."""
        off = isinstance(torque, Reply) and torque.data == b"\0"
        return off and self.watchdogs.was_reset(track.servo.id)

    def _judge(self, track: _Track, *, on: bool, was_reset: bool) -> None:
        """Note that the torque is off although the servo has goals: a loss of power, or another program."""
        name = track.servo.name
        if on and name in self.switched_off:
            self.switched_off.discard(name)
            track.restart = True
        elif on or track.withheld or name in self.unpowered or name in self.switched_off:
            return
        elif was_reset:
            self.unpowered.add(name)
            self.watchdogs.forget([track.servo.id])
            if track.driven:
                self._events.append(BusEvent("without power", name))
        elif track.sent:
            self.switched_off.add(name)
            self._events.append(BusEvent("torque off", name))

    def _limp(self, track: _Track) -> None:
        try:
            self.bus.write(track.servo.id, track.protocol.torque_enable, b"\0")
        except PortError as error:
            self._lose_port(error)
        except BusError:
            return  # again in the next cycle
        else:
            track.must_limp = False

    def _examine(self, track: _Track, reply: Reply, address: int, *, beyond: bool) -> None:
        """Look at an answer that is out of the ordinary: an alarm, a return, a limit, or torque registers in front."""
        name, protocol = track.servo.name, track.protocol
        returned, replied_at = track.missing, self._rows["time"].item(track.row)  # NaN before the first
        was_quiet = reply.time - replied_at > _BOOT
        gap = track.driven and was_quiet and not track.reads_alarm  # others have a watchdog
        if track.failures:
            track.power_gap = track.power_gap or was_quiet
        elif gap and reply.time - track.revived_at > _UPTIME:
            track.power_gap = True
        if returned:
            self._events.append(BusEvent("returned", name))
            self._note_flags(track, 0)  # what is wrong with it is said again
        if track.failures:
            track.failures, track.error = 0, None
        error = reply.error & protocol.alarm_mask
        if track.reads_alarm:
            if error != self._usual_bytes[track.row] or track.power_gap or returned:
                track.alarm_due = track.unverified = True
        elif error != track.flags:
            if rising := error & ~track.flags:
                self._events.append(BusEvent("fault", name, flags=protocol.alarms(error)))
                track.unverified = track.unverified or bool(rising & protocol.shuts_down)
            self._note_flags(track, error)
        if not track.reads_alarm:
            if address != protocol.usual[0]:
                self._judge_torque(track, reply, address, returned=returned)
            if address > protocol.torque_enable:
                track.unverified = track.unverified or track.power_gap or gap  # a goal would switch it on
        if returned:
            track.written_torque = None  # it may have been without power: RAM registers are reset then
            brief = reply.time - replied_at < self.soft_start
            kept = track.reads_alarm or bool(_torque(protocol, reply, address))  # `_read_alarm` looks, too
            if not (brief and kept):  # torque is still on, so the servo had power: replies were lost
                track.restart = True
                self.restarted.add(name)
        track.position_read = True
        if beyond and not track.withheld:
            track.withheld = track.must_limp = True
            self._events.append(BusEvent("limit", name))

    def _judge_torque(self, track: _Track, reply: Reply, address: int, *, returned: bool) -> None:
        """Withhold goals if the servo has shut itself down; else let `_judge` tell why its torque is off.

        A wheel is driven by its speed, whatever its Torque Enable says.
        """
        before, by_host, protocol = track.torque_limit, track.written_torque == 0, track.protocol
        track.torque_limit = limit = protocol.number(reply.data[protocol.torque_limit - address :][:2])
        self._correct(track, "torque_limit", limit)
        torque, shut_down = _torque(protocol, reply, address), bool(reply.error & protocol.shuts_down)
        has_bit, on = torque is not None, torque != 0
        doubtful, unpowered = has_bit and (returned or track.unverified), track.power_gap
        if has_bit:
            track.unverified = track.power_gap = False
            track.polled_at = reply.time
        if track.withheld:
            return
        if track.ramp is None or doubtful:  # else the host raises its torque now
            off = limit == 0 or (has_bit and returned) or (track.driven and not on)
            if limit == 0 and before == 0 and not (by_host or shut_down or doubtful):
                track.written_torque = None  # the host has raised it again, and that packet was lost
            elif (shut_down and off) or (limit == 0 and not by_host):
                track.withheld = True
                if not shut_down:
                    self._events.append(BusEvent("fault", track.servo.name, flags=ErrorFlag.OVERLOAD))
                return
        goal = track.goal if track.sent else None
        if has_bit and (unpowered or goal is None or not goal.wheel):
            held = reply.data[protocol.goal - address :].startswith(track.block)
            self._judge(track, on=on, was_reset=unpowered or (goal is not None and not held))

    def _note_failure(self, track: _Track, error: BusError) -> None:
        track.failures += 1
        track.error = error
        self._steady = False
        if track.failures == _MOST_FAILURES:
            self._events.append(BusEvent("missing", track.servo.name, error))
        if track.missing:
            self.watchdogs.forget([track.servo.id])
            pause = _FIRST_PAUSE * 2.0 ** min(track.failures - _MOST_FAILURES, 10)
            track.retry_at = self.bus.clock.now() + min(pause, _LONGEST_PAUSE)

    def _torque_now(self, track: _Track, asked: int | None, now: float) -> int | None:
        """The torque limit at `now`, counts: during a rise a share of what is `asked`; None: not to be written."""
        top = min(track.servo.top_torque, track.protocol.full_torque)
        top = min(self._caps.get(track.servo.name, top), top)
        final = top if asked is None else min(asked, top)
        if track.ramp is not None:
            start, end = track.ramp
            if now >= end:
                track.ramp = None
                return final
            return max(round(final * max((now - start) / (end - start), 0.1)), min(final, 1))
        return None if asked is None and track.servo.name not in self._caps else final

    def _lose_port(self, error: PortError) -> None:
        self._port_error = error
        self._steady = False
        self._port_pause = _FIRST_PAUSE
        self._port_retry = self.bus.clock.now() + self._port_pause
        self._events.append(BusEvent("port lost", "", error))
        for track in self._all:
            track.failures = max(track.failures, _MOST_FAILURES)  # each of them must come back
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
        self._events.append(BusEvent("port back", ""))
        return True

    def _recognise_all(self) -> None:
        """Identify the servos on a port that is back."""
        known = [track for track in self._all if track.eeprom]
        asked = [(track.servo.id, *track.protocol.identity) for track in known]
        for track, answer in zip(known, self.bus.read_many(asked), strict=True):
            track.unidentified = not isinstance(answer, Reply)
            self._steady = self._steady and not track.unidentified
            if isinstance(answer, Reply) and not self._is_same(track, answer):
                servo, port = track.servo, getattr(self.bus, "port_name", "")
                raise PortError(port, f"{servo.name!r} (id {servo.id}) is another servo than before", _OTHER_ROBOT)

    def _recognise(self, track: _Track, reply: Reply) -> None:
        """Identify a servo that answers later than others on a port that is back; another servo gets no goals."""
        if self._is_same(track, reply):
            track.unidentified, track.retry_at = False, 0.0
        else:
            self._note_failure(track, BusError(f"servo {track.servo.id} is another one than before", _OTHER_ROBOT))

    def _is_same(self, track: _Track, reply: Reply) -> bool:
        written = self.bus.rewritten.get(track.servo.id, set()) | self.bus.rewritten.get(BROADCAST, set())
        return len(reply.data) == len(track.eeprom) and all(
            before == now or address in written
            for address, (before, now) in enumerate(zip(track.eeprom, reply.data, strict=True))
        )


def _torque(protocol: Protocol, reply: Reply, address: int) -> int | None:
    """Torque Enable in an answer from `address` on; None where it is not part of it."""
    place = protocol.torque_enable - address
    return reply.data[place] if place >= 0 else None


def _places(replies: _Answers, count: int) -> Any:
    """Their rows, as an index of columns of `count` rows."""
    return slice(None) if len(replies) == count else np.array([track.row for track, _, _ in replies])
