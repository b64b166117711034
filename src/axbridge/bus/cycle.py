"""One control cycle: write all goals in one packet, then read each servo. A missing servo or port does not stop it.

`receive` reads the servos in order. In each cycle the read of another servo includes its torque limit. These 2 bytes
show within n cycles which of n servos has shut down. A write that a sample causes (torque off beyond a limit) follows
the last read, so that it does not delay samples of this cycle.

`servo_state` defines the states in which a servo gets goals. If the alarm is a separate register, it is read when the
error byte changes. Only a REBOOT instruction clears this latched error. Torque Enable of each servo that gets goals is
read every 0.3 s, and after each gap in the replies.

Normal replies become columns of register counts (`Rows`); all other replies are examined singly. Times are on the
bus's clock, so a cycle on a virtual bus runs in simulated time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

import numpy as np

from axbridge.bus import servo_state
from axbridge.bus.base import Answers, Bus, Reply
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.rows import UNREAD, Mask, RawState, Rows, replaced
from axbridge.bus.servo_state import Action, Event
from axbridge.bus.stats import CycleTimes
from axbridge.bus.track import BOOT, CycleServo, Goal, Retry, Track, Writes
from axbridge.bus.watchdogs import Watchdogs
from axbridge.errors import BusError, BusTimeout, ErrorFlag, PortError
from axbridge.state import NO_FLAGS, BusEvent, EventKind

__all__ = ["Cycle", "CycleResult", "CycleServo", "Goal"]

_OTHER_ROBOT = "connect the robot that was there when it was opened, or open it again"
_TORQUE_PERIOD = 0.3  # s between two reads of a servo's Torque Enable
_SUPPLY = "voltage", "temperature"
_EVENTS: Mapping[Action, EventKind] = {
    Action.NOTE_MISSING: "missing", Action.NOTE_RETURNED: "returned", Action.NOTE_LIMIT: "limit",
    Action.NOTE_ALARM: "fault", Action.NOTE_OVERLOAD: "fault",
    Action.NOTE_TORQUE_OFF: "torque off", Action.NOTE_POWER_LOSS: "without power",
}  # fmt: skip


class CycleResult(NamedTuple):
    """Outcome of one cycle."""

    servos: tuple[CycleServo, ...]  # in the order of the rows
    rows: Rows  # latest sample of each servo
    fresh: Mask  # rows that were read in this cycle
    faults: Mapping[str, BusError]  # of the other servos, by name; a servo that is not read keeps its latest error
    events: tuple[BusEvent, ...]  # changes since the previous cycle
    time: float  # start of the cycle, s on the bus's clock
    spent: float  # time in `send` and `receive`, s

    @property
    def states(self) -> dict[str, RawState]:
        """Return the samples of this cycle by servo name."""
        states = {}
        rows = zip(*(self.rows[name].tolist() for name in RawState._fields), strict=True)
        for servo, row, fresh in zip(self.servos, rows, self.fresh.tolist(), strict=True):
            if fresh:
                state = RawState(*row)
                states[servo.name] = state._replace(torque_limit=None) if state.torque_limit == UNREAD else state
        return states


class Cycle:
    """Sends goals to all servos of one bus, and reads their states, in the order of `servos`.

    The torque limit of a servo that answers again rises within `soft_start` s. Goals are not sent after `expires`
    (`time.monotonic`, s): the program was stopped while it computed them, and the motors may be off since then.
    """

    def __init__(self, bus: Bus, servos: Sequence[CycleServo], soft_start: float = 0.5) -> None:
        self.bus = bus
        self.soft_start = soft_start
        self.servos = tuple(servos)
        self.servos_by_name = {servo.name: servo for servo in servos}
        self.times = CycleTimes()
        self.watchdogs = Watchdogs(bus)
        self.restarted: set[str] = set()  # servos that answer again after a gap: their earlier goals are void
        self.expires = math.inf
        for servo in servos:
            bus.set_protocol(servo.id, servo.protocol)
        self._tracks = {s.name: Track(row, s, s.protocol, s.protocol.reads_alarm) for row, s in enumerate(servos)}
        self._all = list(self._tracks.values())
        self._usual = [(track.servo.id, *track.protocol.usual) for track in self._all]
        self._steady = False  # no track is `irregular`
        self._complete_at = -math.inf  # start of the latest reads that all servos answered, s on the bus's clock
        self._reads_alarms = any(track.reads_alarm for track in self._all)
        self._kinds = list(dict.fromkeys(servo.protocol for servo in servos))
        self._watched = any(protocol.watchdog is not None for protocol in self._kinds)
        self._blocks = [bytes(servo.protocol.usual[1]) for servo in servos]  # data of the latest samples
        self._times = [math.nan] * len(servos)  # of the latest samples, s on the bus's clock
        self._usual_errors = [0] * len(servos)  # last reported error bytes: another value begins or ends an alarm
        self._supplied = [b""] * len(servos)  # latest part of a sample with voltage and temperature within limits
        self._layouts = [  # row, first address of a sample, and place of voltage and temperature in it
            (row, kind.usual[0], min(at for name, _, at in kind.sample if name in _SUPPLY))
            for row, kind in enumerate(servo.protocol for servo in servos)
        ]
        self._places = {kind: [track.row for track in self._all if track.protocol is kind] for kind in self._kinds}
        self._rows = self._table(Rows.unread(len(servos)))
        self._hottest = np.array([servo.top_temperature for servo in servos])
        self._volts = np.array([servo.voltage_range for servo in servos]).reshape(-1, 2).T
        self._probe = 0  # index of the servo whose torque limit is read in this cycle
        self._port_retry = Retry()
        self._port_error: PortError | None = None
        self._started_at: float | None = None  # start of `send` in this cycle, s on the bus's clock
        self._spent = 0.0
        self._events: list[BusEvent] = []

    def read_identities(self) -> None:
        """Read the EEPROM of every servo. A lost port is used again only if the same servos answer on it."""
        for track in self._all:
            track.eeprom = self.bus.read(track.servo.id, *track.protocol.identity).data

    def exchange(self, goals: Mapping[str, Goal]) -> CycleResult:
        """Send goals, then read all servos: `send` and `receive`."""
        self.send(goals)
        return self.receive()

    def soften(self, names: Iterable[str], seconds: float) -> None:
        """Write a tenth of the full torque limit to these servos now; `send` raises it within `seconds`."""
        now, tracks = self.bus.clock.now(), [self._tracks[name] for name in names]
        for track in tracks:
            track.ramp = (now, now + seconds)
        self._write_limits(tracks, now)

    def narrow(self, name: str, torque: int) -> None:
        """Note the highest torque limit, counts, that a servo's own registers allow."""
        self._tracks[name].own_torque = torque

    def cap(self, name: str, torque: int | None) -> None:
        """Cap a servo's torque limit, counts, from now on; None removes the cap, and the limit rises to its goals'."""
        track, now = self._tracks[name], self.bus.clock.now()
        before, track.cap = track.cap, torque
        if torque is None:
            share = min((before or 0) / track.protocol.full_torque, 0.9)  # start: it bears a load
            track.ramp = (now - self.soft_start * share / (1 - share), now + self.soft_start)
        else:
            self._write_limits([track], now)

    def _write_limits(self, tracks: Iterable[Track], now: float) -> None:
        limits: Writes = {}
        for track in tracks:
            if (limit := track.torque_at(now)) is not None and not track.limit_is_goal:  # else by the next goal
                track.add_limit(limit, limits)
        self.bus.exchange([(address, data) for (_, address), data in limits.items()], ())

    def send(self, goals: Mapping[str, Goal]) -> float:
        """Write goal position and moving speed of the servos named, in one packet (several beyond 27 servos).

        Goals are clipped to the servo's limits, unless they hold the joint at its present position. A missing servo
        (two failed reads in a row) gets no goals until it answers. A servo that has shut down gets none until
        `recover`. After a servo was missing, its first goal is its present position, and its torque limit rises. If
        such a servo still has torque and was missing for less than `soft_start`, only replies were lost. It then
        continues with its goals at full torque. After a pause in which a servo may have lost its power, all servos are
        read first, so that none jumps to an old goal. Changed torque limits are sent before goals, in a separate
        packet. `receive` reports a lost port.

        Returns:
            Time at which the servos had the goals, s on the bus's clock; -inf if the goals had expired.
        """
        with self.bus.turn, self.bus.turn.lock:  # no policy acts between choice and packet
            return self._send(goals)

    def _send(self, goals: Mapping[str, Goal]) -> float:
        started = self.bus.clock.now()
        self._started_at, self._spent, self._events = started, 0.0, []
        self._read_after_pause(goals, started)
        limits: Writes = {}
        blocks: Writes = {}
        for track in self._all if len(goals) < len(self._all) else ():
            track.driven = track.sent = False
        for name, goal in goals.items():
            track = self._tracks[name]
            track.driven, track.sent = True, False
            if track.state.gets_goals:
                track.add_goal(goal, started, self._rows, self.soft_start, limits, blocks)
        arrived = started
        if self._port_error is None and blocks:
            try:
                if self.watchdogs.wanted and self._watched:
                    self.watchdogs.arm([id_ for data in blocks.values() for id_ in data])
                writes = (*limits.items(), *blocks.items())  # limits first: a soft start must not begin at full torque
                timely = takewhile(lambda _: monotonic() <= self.expires, writes)  # tested just before each packet
                arrived, _ = self.bus.exchange(((place, data) for (_, place), data in timely), ())
                if arrived > -math.inf and self._watched and any(kind.watchdog is not None for kind, _ in blocks):
                    self.watchdogs.note_answer()
            except PortError as error:
                self._lose_port(error)
        self._spent += self.bus.clock.now() - started
        return arrived

    def receive(self) -> CycleResult:
        """Read the sample of every servo; the read of one servo, in rotation, includes its torque limit.

        Does not raise for a servo or a lost port: the result's `faults` name them. A servo that failed twice in a row
        is read again after a pause of 0.05 s, which doubles up to 2 s. Each such read costs one time-out.
        """
        started = self.bus.clock.now()
        if self._started_at is None:  # no goals were sent
            self._started_at, self._spent, self._events = started, 0.0, []
            for track in self._all:
                track.driven = track.sent = False
        fresh = np.zeros(len(self._all), dtype=bool)
        answered = self._read(started) if self._port_error is None or self._port_is_back(started) else []
        fresh[answered] = True
        faults = {
            track.servo.name: self._port_error or track.error or BusTimeout(track.servo.id)
            for track in (self._all if len(answered) < len(self._all) else ())
            if track.row not in answered
        }
        started_at, self._started_at = self._started_at, None
        self._spent += self.bus.clock.now() - started
        self.times.add(started_at, self._spent)
        return CycleResult(self.servos, self._rows, fresh, faults, tuple(self._events), started_at, self._spent)

    def end_soft_starts(self) -> dict[tuple[int, int], bytes]:
        """Return `final_limits`, and count them as written; the next goal caps a blocked servo again."""
        limits = self.final_limits
        for track in self._all:
            if (track.servo.id, track.protocol.torque_limit) in limits:
                track.ramp, track.written_torque = None, track.final_torque
        return limits

    @property
    def final_limits(self) -> dict[tuple[int, int], bytes]:
        """Return the final values of torque limits that rise or are capped, by id and address."""
        return {
            (track.servo.id, track.protocol.torque_limit): track.protocol.word(track.final_torque)
            for track in self._all
            if (track.ramp is not None or track.cap is not None)
            and track.state.permission is servo_state.ALLOWED
            and not track.limit_is_goal
        }

    def restart_softly(self) -> None:
        """Start each servo's next goals at its present position; call it after torque off."""
        self._steady = False
        for track in self._all:
            track.written_torque = None
            track.driven = track.sent = False
            track.state.apply(Event.MOTORS_OFF)
            if not track.protocol.goal_enables_torque:
                track.state.apply(Event.NOT_SET_UP)

    def revived(self, name: str) -> None:
        """Note that a servo that lost power is set up again: its next goals start softly at its present position."""
        track = self._tracks[name]
        track.state.apply(Event.REVIVED)
        track.written_torque, track.revived_at = None, self.bus.clock.now()

    def place(self, name: str, position: int) -> None:
        """Store the present position, counts, after torque on: an X servo may change its count."""
        track = self._tracks[name]
        self._blocks[track.row] = replaced(track.protocol, self._blocks[track.row], "position", position)
        self._rows = self._table(self._rows)

    def withhold(self, name: str) -> None:
        """Send no goals to a servo until `recover`."""
        self._tracks[name].state.apply(Event.WITHHOLD)

    def recover(self, name: str) -> None:
        """Allow goals after a shutdown or torque off at a limit; the servo starts at its present position.

        Its next goal includes a new Torque Limit, which rises softly: an AX-12 sets it to 0 at an overload.
        """
        self._steady = False
        track = self._tracks[name]
        track.state.apply(Event.RECOVERED)
        track.driven = track.sent = False  # torque may be off until the next goal
        track.written_torque = None
        track.ramp = (0.0, 0.0)  # until the next goal a Torque Limit of 0 is no new shutdown
        self.watchdogs.mark_unarmed([track.servo.id])

    @property
    def torqueless(self) -> bool:
        """Return whether any servo is `unpowered`, `switched_off` or `withheld`."""
        return any(track.state.torque or track.state.permission for track in self._all)

    @property
    def unpowered(self) -> frozenset[str]:
        """Return the servos that were without power: they get no goals until `revived`."""
        return frozenset(track.servo.name for track in self._all if track.state.torque is servo_state.UNPOWERED)

    @property
    def switched_off(self) -> frozenset[str]:
        """Return the servos whose torque another program has switched off: they get no goals until it is on again."""
        return frozenset(track.servo.name for track in self._all if track.state.torque is servo_state.OFF_BY_OTHER)

    @property
    def withheld(self) -> frozenset[str]:
        """Return the servos that get no goals until `recover`: they shut down, or were switched off at a limit."""
        return frozenset(track.servo.name for track in self._all if track.state.permission is not servo_state.ALLOWED)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _read_after_pause(self, goals: Iterable[str], now: float) -> None:
        """Read all servos if one with a goal may have lost power since its last reply: it would jump to the goal."""
        if self._port_error is not None or now - self._complete_at <= BOOT:
            return
        tracks = (self._tracks[name] for name in goals)
        doubtful = [track for track in tracks if self._is_quiet(track, now) and not track.state.missing]
        for track in doubtful:
            track.state.apply(Event.DOUBT)
            self._steady = False
        if doubtful:
            self._read(now)

    def _is_quiet(self, track: Track, now: float) -> bool:
        """Return whether the last reply of a driven servo is so old that it may have lost power since."""
        return track.driven and now - self._times[track.row] > BOOT  # False before the first sample, whose time is NaN

    def _read(self, now: float) -> list[int]:
        """Read the servos that are due; return the rows of those that answered."""
        irregular = [] if self._steady else [track for track in self._all if track.state.irregular]
        waiting = [track for track in irregular if track.state.missing and now < track.retry.at]
        due = [track for track in self._all if track not in waiting] if waiting else self._all
        if not due:
            return []
        requests = self._requests(due, now, regular=not irregular)
        try:
            _, answers = self.bus.exchange((), requests)
        except PortError as error:
            self._lose_port(error)
            return []
        answered = self._store(due, requests, answers, irregular)
        for track in () if self._steady else due:
            if track.alarm_due and track.row in answered:
                self._read_alarm(track)
            if track.state.permission is servo_state.LIMPING and not track.state.missing:
                self._limp(track)
        if self._reads_alarms and any(self._all[row].reads_alarm for row in answered):
            self.watchdogs.note_answer()
            self._poll_torques(due, now)
        self._steady = self._steady or not any(track.state.irregular for track in self._all)
        if len(answered) == len(self._all):
            self._complete_at = now
        return answered

    def _requests(self, due: list[Track], now: float, *, regular: bool) -> list[tuple[int, int, int]]:
        """Return id, address and length of the read of each servo; `regular`: no servo is irregular."""
        self._probe = (self._probe + 1) % len(due)
        requests = [self._usual[track.row] for track in due]
        probed, kind = due[self._probe], due[self._probe].protocol
        is_due = probed.driven and now - probed.polled_at > _TORQUE_PERIOD
        requests[self._probe] = probed.servo.id, *(kind.with_torque if is_due else kind.with_limit)
        for place, track in () if regular and now - self._complete_at <= BOOT else enumerate(due):
            state = track.state
            if state.link is servo_state.UNIDENTIFIED:
                requests[place] = track.servo.id, *track.protocol.identity
            elif (
                state.missing
                or state.registers is not servo_state.VERIFIED
                or state.torque is servo_state.OFF_BY_OTHER
                or self._is_quiet(track, now)
            ):
                requests[place] = track.servo.id, *track.protocol.with_torque
        return requests

    def _store(
        self, due: list[Track], requests: list[tuple[int, int, int]], answers: Answers, irregular: list[Track]
    ) -> list[int]:
        """Store the answers, and examine each one that is not normal; return the rows of the samples."""
        odd, changed, failed, strange = set[int](), list[int](), list[int](), {track.row for track in irregular}
        blocks, usual_errors, supplied, last = self._blocks, self._usual_errors, self._supplied, self._times
        self._times = times = last.copy()
        layouts = self._layouts if due is self._all else [self._layouts[track.row] for track in due]
        for place, ((row, begin, supply), (_, address, length), data, error, time) in enumerate(
            zip(layouts, requests, answers.data, answers.errors, answers.times, strict=True)
        ):
            if len(data) != length or (row in strange and due[place].state.link is servo_state.UNIDENTIFIED):
                failed.append(place)
                continue
            if address == begin:
                blocks[row] = block = data
            else:
                blocks[row] = block = data[begin - address :]
                if due[place].shows_change(data, address):
                    odd.add(place)
            times[row] = time
            if block[supply:] != supplied[row]:
                changed.append(place)
            if error != usual_errors[row] or time - last[row] > BOOT or row in strange:  # False before the first sample
                odd.add(place)
        for place in failed:
            track, data = due[place], answers.data[place]
            refused = BusTimeout(track.servo.id, "it refused the read: is this an AX or MX servo?")
            if len(data) == requests[place][2]:
                self._verify_identity(track, data)
            else:
                self._note_failure(track, answers.failures.get(place, refused))
        self._rows = self._table(self._rows)
        outside, beyond = self._beyond(self._rows).tolist() if changed else [], set[int]()
        for place in changed:
            row, _, supply = layouts[place]
            if outside[row]:
                beyond.add(place)
            else:
                supplied[row] = blocks[row][supply:]
        for place in sorted(odd | beyond):
            track, reply = due[place], Reply(answers.errors[place], answers.data[place], answers.times[place])
            address = requests[place][1]
            actions = track.examine(reply, address, last[track.row], self.soft_start, beyond=place in beyond)
            self._carry_out(track, *actions)
            self._steady = self._steady and not track.state.irregular  # another thread may start a soft start
        return [track.row for place, track in enumerate(due) if place not in failed]

    def _table(self, known: Rows) -> Rows:
        """Return the latest samples; alarms and torque limits as in `known`, which later changes copy."""
        columns = {"time": np.array(self._times), "error": known["error"], "torque_limit": known["torque_limit"]}
        return Rows(
            columns,
            {kind: (rows, b"".join([self._blocks[row] for row in rows])) for kind, rows in self._places.items()},
        )

    def _beyond(self, rows: Rows) -> Mask:
        """Return a mask of the servos beyond their limits of supply voltage or temperature."""
        voltage, (lowest, highest) = rows["voltage"], self._volts
        return (voltage < lowest) | (voltage > highest) | (rows["temperature"] > self._hottest)

    def _correct(self, track: Track, name: str, value: int) -> None:
        """Change a value in a copy of its column: results of earlier cycles share the old column."""
        if self._rows[name].item(track.row) != value:
            self._rows[name] = column = self._rows[name].copy()
            column[track.row] = value

    def _carry_out(self, track: Track, *actions: Action | None) -> None:
        """Make events of these actions, and store the servo's alarms in the table."""
        name = track.servo.name
        for action in filter(None, actions):
            if action is Action.VOID_GOALS:
                self.restarted.add(name)
                continue
            if action is Action.NOTE_POWER_LOSS:
                self.watchdogs.mark_unarmed([track.servo.id])
                if not track.driven:
                    continue
            error = track.error if action is Action.NOTE_MISSING else None
            flags = track.protocol.alarms(track.flags) if action is Action.NOTE_ALARM else NO_FLAGS
            flags = ErrorFlag.OVERLOAD if action is Action.NOTE_OVERLOAD else flags
            self._events.append(BusEvent(_EVENTS[action], name, error, flags))
        self._usual_errors[track.row] = track.usual_error
        self._correct(track, "error", track.flags)
        self._correct(track, "torque_limit", track.torque_limit)

    def _read_alarm(self, track: Track) -> None:
        """Read the alarm register and Torque Enable of a servo whose alert bit has changed."""
        id_, protocol = track.servo.id, track.protocol
        assert protocol.alarm is not None  # because the alarm is due
        try:
            why, torque = self.bus.read_many([(id_, *protocol.alarm), (id_, protocol.torque_enable, 1)])
            was_reset = self._was_reset(track, torque)
        except PortError as error:
            self._lose_port(error)
            return
        if not (isinstance(why, Reply) and isinstance(torque, Reply) and why.data and torque.data):
            return  # the next cycle repeats it
        self._carry_out(track, *track.judge_alarm(why.data[0], on=bool(torque.data[0]), was_reset=was_reset))

    def _poll_torques(self, due: Iterable[Track], now: float) -> None:
        """Read Torque Enable of the driven servos with an alarm register, at most every `_TORQUE_PERIOD`.

        Their samples have no torque limit, so one that has been written is read here, too.
        """
        polled = [t for t in due if t.reads_alarm and t.driven and t.state.link is servo_state.OK and not t.alarm_due]
        recent = bool(polled) and now - min(track.polled_at for track in polled) < _TORQUE_PERIOD
        if not polled or (recent and not any(track.state.torque is servo_state.OFF_BY_OTHER for track in self._all)):
            return
        try:
            answers = self.bus.read_many([(t.servo.id, t.protocol.torque_enable, 1) for t in polled])
            for track, answer in zip(polled, answers, strict=True):
                if isinstance(answer, Reply) and answer.data:
                    track.polled_at = now
                    was_reset = self._was_reset(track, answer)
                    self._carry_out(track, track.judge(on=bool(answer.data[0]), was_reset=was_reset))
            new = [t for t in polled if t.replaced_torques]
            limits = self.bus.read_many([(t.servo.id, t.protocol.torque_limit, 2) for t in new]) if new else []
            for track, answer in zip(new, limits, strict=True):
                if isinstance(answer, Reply) and len(answer.data) == 2:
                    track.confirm_limit(track.protocol.number(answer.data))
        except PortError as error:
            self._lose_port(error)

    def _was_reset(self, track: Track, torque: Reply | BusError) -> bool:
        """Return whether the torque is off and the Bus Watchdog was reset: then the servo lost power, and its RAM."""
        off = isinstance(torque, Reply) and torque.data == b"\0"
        return off and self.watchdogs.was_reset(track.servo.id)

    def _limp(self, track: Track) -> None:
        try:
            self.bus.write(track.servo.id, track.protocol.torque_enable, b"\0")
        except PortError as error:
            self._lose_port(error)
        except BusError:
            return  # the next cycle repeats it
        else:
            track.state.apply(Event.OFF_CONFIRMED)

    def _note_failure(self, track: Track, error: BusError) -> None:
        track.error = error
        self._steady = False
        self._carry_out(track, track.state.apply(Event.NO_REPLY))
        if track.state.missing:
            self.watchdogs.mark_unarmed([track.servo.id])
            track.retry.wait(self.bus.clock.now())

    def _lose_port(self, error: PortError) -> None:
        self._port_error = error
        self._steady = False
        self._port_retry = Retry()
        self._port_retry.wait(self.bus.clock.now())
        self._events.append(BusEvent("port lost", "", error))
        for track in self._all:  # each servo counts as missing until it answers
            if not track.state.missing:
                track.retry.wait(0.0)
            track.retry.at = 0.0
            track.state.apply(Event.PORT_LOST)
        self.watchdogs.mark_unarmed(self.watchdogs.armed)

    def reconnect(self) -> None:
        """Open a lost port again; raise `PortError` if it is still missing, or leads to other servos than before."""
        if self._port_error is None:  # it was lost outside of a cycle
            self._lose_port(PortError(getattr(self.bus, "port_name", ""), "the port was lost"))
        self.bus.reopen(self._verify_identities)

    def _port_is_back(self, now: float) -> bool:
        if now < self._port_retry.at:
            return False
        try:
            self.reconnect()
        except PortError as error:
            self._port_error = error
            self._port_retry.wait(self.bus.clock.now())
            return False
        self._port_error = None
        self._events.append(BusEvent("port back", ""))
        return True

    def _verify_identities(self) -> None:
        """Compare the EEPROM of each servo on a port that is back; raise `PortError` if it differs."""
        known = [track for track in self._all if track.eeprom]
        requests = [(track.servo.id, *track.protocol.identity) for track in known]
        for track, answer in zip(known, self.bus.read_many(requests), strict=True):
            track.state.apply(Event.IDENTIFIED if isinstance(answer, Reply) else Event.NO_IDENTITY)
            if isinstance(answer, Reply) and not self._is_same(track, answer.data):
                servo, port = track.servo, getattr(self.bus, "port_name", "")
                raise PortError(port, f"{servo.name!r} (id {servo.id}) is another servo than before", _OTHER_ROBOT)

    def _verify_identity(self, track: Track, eeprom: bytes) -> None:
        """Compare the EEPROM of a servo that answers late on a port that is back; another servo gets no goals."""
        if self._is_same(track, eeprom):
            track.state.apply(Event.IDENTIFIED)
            track.retry.at = 0.0
        else:
            self._note_failure(track, BusError(f"servo {track.servo.id} is another one than before", _OTHER_ROBOT))

    def _is_same(self, track: Track, eeprom: bytes) -> bool:
        written = self.bus.rewritten.get(track.servo.id, set()) | self.bus.rewritten.get(BROADCAST, set())
        return len(eeprom) == len(track.eeprom) and all(
            before == now or address in written
            for address, (before, now) in enumerate(zip(track.eeprom, eeprom, strict=True))
        )
