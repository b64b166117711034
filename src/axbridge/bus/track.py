"""A servo in the cycle: its states and values, and the effects of goals and replies on them. No I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from axbridge.bus.base import Reply
from axbridge.bus.protocols.protocol import FIRST, Protocol
from axbridge.bus.rows import UNREAD, Rows
from axbridge.bus.servo_state import ALLOWED, POWER_GAP, RUNNING, VERIFIED, Action, Event, Link, States
from axbridge.errors import BusError

BOOT = 0.1  # s; shortest start-up of a servo: a shorter gap between replies is no power loss
_UPTIME = 10.0  # s after a servo was set up again, in which a gap without a failed read is no power loss
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # s between attempts at a missing servo or port

Writes = dict[tuple[Protocol, int], dict[int, bytes]]  # data by id, by register


@dataclass(frozen=True)
class CycleServo:
    """A servo of the cycle with its limits, in register counts, inclusive."""

    name: str
    id: int
    goal_range: tuple[int, int] = (0, 1023)
    top_speed: int | None = None  # in joint mode 0 means unlimited, and is replaced, too
    top_torque: int = 1023  # highest Torque Limit
    top_temperature: int = 255  # °C; above it torque is switched off, and goals are withheld until `Cycle.recover`
    voltage_range: tuple[int, int] = (0, 255)  # 0.1 V; outside it, the same
    protocol: Protocol = FIRST


class Goal(NamedTuple):
    """Values to write, in register counts. `torque_limit` None: the register is not written.

    In wheel mode (`wheel`) Moving Speed is a duty or a signed speed, so neither it nor the position is clipped. A servo
    in a mode without position control gets only `speed`, a duty, current or signed speed, in `register`.
    """

    position: int
    speed: int
    torque_limit: int | None = None
    wheel: bool = False
    register: int = 0
    held: bool = False  # the position is the present one, and is not clipped


@dataclass(slots=True)
class Retry:
    """Time of the next attempt at a missing servo or port; each pause is twice as long as the previous one."""

    at: float = 0.0  # s on the bus's clock
    pause: float = _FIRST_PAUSE

    def wait(self, now: float) -> None:
        """Start the next pause."""
        self.at, self.pause = now + self.pause, min(self.pause * 2, _LONGEST_PAUSE)


@dataclass(slots=True, eq=False)
class Track:
    """One servo: its states, and the values last written and read."""

    row: int
    servo: CycleServo
    protocol: Protocol
    reads_alarm: bool  # alarms and Torque Enable are read apart from the samples
    state: States = field(default_factory=States)
    driven: bool = False  # whether this cycle has a goal for it
    sent: bool = False  # whether the goal was sent
    goal: Goal | None = None  # latest goal in position or wheel mode
    block: bytes = b""  # its bytes
    written_torque: int | None = None
    torque_limit: int = UNREAD
    cap: int | None = None  # upper bound of the torque limit
    ramp: tuple[float, float] | None = None  # start and end of the torque limit's rise (bus clock)
    retry: Retry = field(default_factory=Retry)
    error: BusError | None = None  # error of the latest read, if it failed
    flags: int = 0  # alarms; an int, because enumerations are slow
    revived_at: float = -math.inf  # s on the bus's clock
    polled_at: float = -math.inf  # latest read of Torque Enable, s on the bus's clock
    eeprom: bytes = b""  # identifies the servo after a lost port; empty: not checked

    @property
    def alarm_due(self) -> bool:
        """Whether the alarm register must be read."""
        return self.reads_alarm and self.state.registers is not VERIFIED

    @property
    def usual_error(self) -> int:
        """Error byte for the latest alarms: a different one starts or ends an alarm."""
        return self.protocol.alert * bool(self.flags) if self.reads_alarm else self.flags

    # -- writes -------------------------------------------------------------------------------------------------------

    def add_goal(self, goal: Goal, now: float, rows: Rows, soft_start: float, limits: Writes, blocks: Writes) -> None:
        """Add the servo's goal to `blocks`, and a changed torque limit to `limits`."""
        servo, protocol = self.servo, self.protocol
        if self.state.start is not RUNNING:
            action = self.state.apply(Event.GOAL)
            if action is Action.HOLD_BACK:
                return
            if action is Action.START_SOFTLY:
                goal = goal._replace(position=int(rows["position"][self.row]), held=True)
                self.ramp = (now, now + soft_start)
        self.sent = True
        torque = goal.torque_limit
        if torque != self.written_torque or self.ramp is not None or self.cap is not None:
            torque = self.torque_at(now, torque)
        register = protocol.goal
        if goal == self.goal:
            block = self.block
        elif goal.register:
            value, register = goal.speed, goal.register
            if register == protocol.torque_limit:  # the duty goal and the limit share the register
                value, torque = value if torque is None else min(max(value, -torque), torque), None
            self.goal = None
            block = protocol.endless_bytes(register, value)
        else:
            position, speed = goal.position, goal.speed
            if not goal.wheel:
                if not goal.held:
                    low, high = servo.goal_range
                    position = low if position < low else min(position, high)
                if servo.top_speed is not None and (speed == 0 or speed > servo.top_speed):
                    speed = servo.top_speed
            block = protocol.goal_bytes(position, speed)
            self.goal, self.block = goal, block
        blocks.setdefault((protocol, register), {})[servo.id] = block
        if torque is not None and torque != self.written_torque:
            self.add_limit(torque, limits)

    def add_limit(self, torque: int, limits: Writes) -> None:
        """Add a torque limit to `limits`."""
        limits.setdefault((self.protocol, self.protocol.torque_limit), {})[self.servo.id] = self.protocol.word(torque)
        self.written_torque = torque

    def torque_at(self, now: float, asked: int | None = None) -> int | None:
        """Return the torque limit at `now`, counts: during a rise a share of `asked`; None: no write."""
        top = min(self.servo.top_torque, self.protocol.full_torque)
        top = top if self.cap is None else min(self.cap, top)
        final = top if asked is None else min(asked, top)
        if self.ramp is not None:
            start, end = self.ramp
            if now >= end:
                self.ramp = None
                return final
            return max(round(final * max((now - start) / (end - start), 0.1)), min(final, 1))
        return None if asked is None and self.cap is None else final

    # -- replies ------------------------------------------------------------------------------------------------------

    def examine(
        self, reply: Reply, address: int, last: float, soft_start: float, *, beyond: bool
    ) -> list[Action | None]:
        """Process an unusual reply: an alarm, a return, a limit, or torque registers; return the actions.

        `last` is the time of the previous reply, s; NaN: none.
        """
        state, protocol, error = self.state, self.protocol, reply.error & self.protocol.alarm_mask
        returned, was_quiet = state.missing, reply.time - last > BOOT
        gap = self.driven and was_quiet and not self.reads_alarm  # servos with an alarm register have a watchdog
        power_gap = was_quiet if state.link is not Link.OK else gap and reply.time - self.revived_at > _UPTIME
        if state.link is not Link.OK:
            self.retry, self.error = Retry(), None
        actions = [state.apply(Event.REPLY)]
        if returned:
            self.flags = 0  # present alarms are reported again
        if self.reads_alarm:
            if error != self.usual_error or returned or power_gap:
                state.apply(Event.POWER_GAP if power_gap else Event.DOUBT)
        else:
            rising, self.flags = error & ~self.flags, error
            if rising:
                actions.append(Action.NOTE_ALARM)
            if rising & protocol.shuts_down:
                state.apply(Event.DOUBT)
            if address != protocol.usual[0]:
                actions.append(self._judge_torque(reply, address, returned=returned, power_gap=power_gap))
            if address > protocol.torque_enable and (gap or power_gap):  # unknown, and a goal switches it on
                state.apply(Event.POWER_GAP if power_gap else Event.DOUBT)
        if returned:
            self.written_torque = None  # a power loss would have reset the RAM registers
            brief = reply.time - last < soft_start
            kept = self.reads_alarm or bool(_torque(protocol, reply, address))  # torque is read with the alarm, too
            if not (brief and kept):  # torque is still on, so the servo had power: replies were lost
                actions += state.apply(Event.RESTART), Action.VOID_GOALS
        if beyond:
            actions.append(state.apply(Event.BEYOND_LIMIT))
        return actions

    def _judge_torque(self, reply: Reply, address: int, *, returned: bool, power_gap: bool) -> Action | None:
        """Withhold goals if the servo has shut down; else let `judge` find why its torque is off.

        A wheel is driven by its speed, at any Torque Enable.
        """
        state, protocol, before, by_host = self.state, self.protocol, self.torque_limit, self.written_torque == 0
        self.torque_limit = limit = protocol.number(reply.data[protocol.torque_limit - address :][:2])
        torque, shut_down = _torque(protocol, reply, address), bool(reply.error & protocol.shuts_down)
        has_bit, on = torque is not None, torque != 0
        doubtful = has_bit and (returned or state.registers is not VERIFIED)
        unpowered = power_gap or state.registers is POWER_GAP
        if has_bit:
            state.apply(Event.REGISTERS_READ)
            self.polled_at = reply.time
        if state.permission is not ALLOWED:
            return None
        if self.ramp is None or doubtful:  # else the host is raising the limit
            off = limit == 0 or (has_bit and returned) or (self.driven and not on)
            if limit == 0 and before == 0 and not (by_host or shut_down or doubtful):
                self.written_torque = None  # the packet that raised the limit again was lost
            elif (shut_down and off) or (limit == 0 and not by_host):
                return state.apply(Event.WITHHOLD if shut_down else Event.OVERLOADED)
        goal = self.goal if self.sent else None
        if has_bit and (unpowered or goal is None or not goal.wheel):
            held = reply.data[protocol.goal - address :].startswith(self.block)
            return self.judge(on=on, was_reset=unpowered or (goal is not None and not held))
        return None

    def judge_alarm(self, flags: int, *, on: bool, was_reset: bool) -> list[Action | None]:
        """Process the alarm register and Torque Enable; return the actions."""
        was_reset |= (power_gap := self.state.registers is POWER_GAP)
        self.state.apply(Event.REGISTERS_READ)
        rising, self.flags = flags & ~self.flags, flags
        shut_down = not on and flags and (power_gap or self.driven)
        reason = self.state.apply(Event.WITHHOLD) if shut_down else self.judge(on=on, was_reset=was_reset)
        return [Action.NOTE_ALARM if rising else None, reason]

    def judge(self, *, on: bool, was_reset: bool) -> Action | None:
        """Process Torque Enable of a servo with goals; return the action."""
        if on:
            return self.state.apply(Event.TORQUE_ON)
        if self.state.permission is not ALLOWED or not (was_reset or self.sent):
            return None
        return self.state.apply(Event.TORQUE_RESET if was_reset else Event.TORQUE_OFF)


def _torque(protocol: Protocol, reply: Reply, address: int) -> int | None:
    """Return Torque Enable in a reply from `address` on; None if the reply does not contain it."""
    place = protocol.torque_enable - address
    return reply.data[place] if place >= 0 else None
