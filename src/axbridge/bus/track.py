"""One servo of the cycle: its states and values, and how goals and replies change them. No I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from axbridge.bus.base import Reply
from axbridge.bus.protocols.protocol import FIRST, Protocol
from axbridge.bus.rows import UNREAD, Rows
from axbridge.bus.servo_state import ALLOWED, POWER_GAP, RUNNING, VERIFIED, Action, Event, Link, States
from axbridge.errors import BusError

BOOT = 0.1  # s: shortest boot time of a servo; after a shorter gap between replies it cannot have lost power
_UPTIME = 10.0  # s after a servo was set up again: a gap without a failed read does not count as a power loss
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # s between attempts at a missing servo or port

Writes = dict[tuple[Protocol, int], dict[int, bytes]]  # data by protocol and register address, then by id


@dataclass(frozen=True)
class CycleServo:
    """A servo of the cycle and its limits, in register counts, inclusive."""

    name: str
    id: int
    goal_range: tuple[int, int] = (0, 1023)
    top_speed: int | None = None  # also replaces 0, which means maximum speed in joint mode
    top_torque: int = 1023  # highest Torque Limit
    top_temperature: int = 255  # °C: above it torque is switched off, and goals are withheld until `Cycle.recover`
    voltage_range: tuple[int, int] = (0, 255)  # 0.1 V: outside it, the same
    protocol: Protocol = FIRST


class Goal(NamedTuple):
    """A goal in register counts. With `torque_limit` None the Torque Limit is not written.

    In wheel mode (`wheel`) Moving Speed is a duty or a signed speed, so neither it nor the position is clipped.

    If `register` is not 0, only `speed` is written, to that address: a duty, a current or a signed speed. Servos with
    operating modes for these quantities use it.
    """

    position: int
    speed: int
    torque_limit: int | None = None
    wheel: bool = False
    register: int = 0
    held: bool = False  # the position is the joint's present position, and is not clipped


@dataclass(slots=True)
class Retry:
    """Time of the next attempt to reach a missing servo or port; each pause is twice the previous one."""

    at: float = 0.0  # s on the bus's clock
    pause: float = _FIRST_PAUSE

    def wait(self, now: float) -> None:
        """Start the next pause at `now`, s on the bus's clock."""
        self.at, self.pause = now + self.pause, min(self.pause * 2, _LONGEST_PAUSE)


@dataclass(slots=True, eq=False)
class Track:
    """One servo of the cycle: its states, and the values written and read last."""

    row: int
    servo: CycleServo
    protocol: Protocol
    reads_alarm: bool  # its alarm register and Torque Enable are read separately from its samples
    state: States = field(default_factory=States)
    driven: bool = False  # this cycle has a goal for the servo
    sent: bool = False  # that goal was sent
    goal: Goal | None = None  # latest goal of a position or a wheel that was sent
    block: bytes = b""  # its bytes
    own_torque: int = 1 << 16  # highest torque limit that the servo's own registers allow, counts
    requested_torque: int | None = None  # torque limit of the latest goal
    limit_is_goal: bool = False  # in its mode, the torque limit's register is the goal duty
    written_torque: int | None = None
    replaced_torques: set[int] = field(default_factory=set)  # limits written before, until the latest one is read
    torque_limit: int = UNREAD
    cap: int | None = None  # highest torque limit of any goal; None: no cap
    ramp: tuple[float, float] | None = None  # start and end of the limit's rise, bus clock
    retry: Retry = field(default_factory=Retry)
    error: BusError | None = None  # error of the latest read, if that failed
    flags: int = 0  # its alarms; a plain integer, because enumerations are slow
    revived_at: float = -math.inf  # s on the bus's clock
    polled_at: float = -math.inf  # latest read of Torque Enable, s on the bus's clock
    eeprom: bytes = b""  # identifies the servo after a port was lost; empty: the servo is not checked

    @property
    def alarm_due(self) -> bool:
        """Return whether the alarm register must be read."""
        return self.reads_alarm and self.state.registers is not VERIFIED

    @property
    def usual_error(self) -> int:
        """Return the error byte as last reported; another value begins or ends an alarm."""
        return self.protocol.alert * bool(self.flags) if self.reads_alarm else self.flags

    # -- writes to the servo ------------------------------------------------------------------------------------------

    def add_goal(self, goal: Goal, now: float, rows: Rows, soft_start: float, limits: Writes, blocks: Writes) -> None:
        """Add the bytes of the goal to `blocks`, and a changed torque limit to `limits`."""
        servo, protocol = self.servo, self.protocol
        if self.state.start is not RUNNING:
            action = self.state.apply(Event.GOAL)
            if action is Action.HOLD_BACK:
                return
            if action is Action.START_SOFTLY:
                goal = goal._replace(position=int(rows["position"][self.row]), held=True)
                self.ramp = (now, now + soft_start)
        self.sent = True
        torque = self.requested_torque = goal.torque_limit
        if torque != self.written_torque or self.ramp is not None or self.cap is not None:
            torque = self.torque_at(now)
        register = protocol.goal
        self.limit_is_goal = goal.register == protocol.torque_limit
        if goal == self.goal:
            block = self.block
        elif goal.register:
            value, register = goal.speed, goal.register
            if self.limit_is_goal:
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
        """Add a torque limit, counts, to `limits`."""
        limits.setdefault((self.protocol, self.protocol.torque_limit), {})[self.servo.id] = self.protocol.word(torque)
        self.replaced_torques |= {self.written_torque} if self.written_torque else set()  # 0: see `_judge_torque`
        self.written_torque = torque

    @property
    def final_torque(self) -> int:
        """Return the torque limit after a rise and without a cap, counts."""
        top = min(self.servo.top_torque, self.own_torque, self.protocol.full_torque)
        return top if self.requested_torque is None else min(self.requested_torque, top)

    def torque_at(self, now: float) -> int | None:
        """Return the torque limit at `now`, counts, a share during a rise; None: do not write it."""
        final = self.final_torque if self.cap is None else min(self.cap, self.final_torque)
        if self.ramp is not None:
            start, end = self.ramp
            if now >= end:
                self.ramp = None
                return final
            return max(round(final * max((now - start) / (end - start), 0.1)), min(final, 1))
        return None if self.requested_torque is None and self.cap is None else final

    # -- replies of the servo -----------------------------------------------------------------------------------------

    def examine(
        self, reply: Reply, address: int, last: float, soft_start: float, *, beyond: bool
    ) -> list[Action | None]:
        """Apply a reply with an alarm, after a gap, `beyond` a limit or with torque registers; return actions.

        `last` is the time of the previous reply, s; NaN before the first one. A servo that was missing for less than
        `soft_start`, s, may continue at full torque.
        """
        state, protocol, error = self.state, self.protocol, reply.error & self.protocol.alarm_mask
        if address != protocol.usual[0]:
            self.confirm_limit(protocol.number(reply.data[protocol.torque_limit - address :][:2]))
        returned, was_quiet = state.missing, reply.time - last > BOOT
        gap = self.driven and was_quiet and not self.reads_alarm  # an alarm register comes with a Bus Watchdog
        power_gap = was_quiet if state.link is not Link.OK else gap and reply.time - self.revived_at > _UPTIME
        if state.link is not Link.OK:
            self.retry, self.error = Retry(), None
        actions = [state.apply(Event.REPLY)]
        if returned:
            self.flags = 0  # its alarms are reported again
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
            if address > protocol.torque_enable and (gap or power_gap):  # unread torque: a goal would switch it on
                state.apply(Event.POWER_GAP if power_gap else Event.DOUBT)
        if returned:
            self.written_torque = None  # a loss of power resets RAM registers
            brief = reply.time - last < soft_start
            torque_kept = self.reads_alarm or bool(_torque(protocol, reply, address))  # the alarm read tests it later
            if not (brief and torque_kept):  # torque still on: only replies were lost
                actions += state.apply(Event.RESTART), Action.VOID_GOALS
        if beyond:
            actions.append(state.apply(Event.BEYOND_LIMIT))
        return actions

    def shows_change(self, data: bytes, address: int) -> bool:
        """Return whether data from `address` on have Torque Enable, or another torque limit than before, or 0."""
        limit = self.protocol.number(data[self.protocol.torque_limit - address :][:2])
        read = address > self.protocol.torque_enable and limit == self.torque_limit != 0
        return not read or bool(self.replaced_torques)

    def confirm_limit(self, limit: int) -> None:
        """Write the torque limit again if its packet was lost, so that the servo has an earlier one."""
        if limit == self.written_torque:
            self.replaced_torques.clear()
        elif limit in self.replaced_torques:
            self.written_torque = None

    def _judge_torque(self, reply: Reply, address: int, *, returned: bool, power_gap: bool) -> Action | None:
        """Withhold goals if the servo has shut down; otherwise let `judge` find why its torque is off.

        A wheel turns by its Moving Speed even with Torque Enable 0, so `judge` is not used for a wheel that has power.
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
        if self.ramp is None or doubtful:  # otherwise the host is raising its torque limit
            off = limit == 0 or (has_bit and returned) or (self.driven and not on)
            if limit == 0 and before == 0 and not (by_host or shut_down or doubtful):
                self.written_torque = None  # the packet in which the host raised it again was lost
            elif (shut_down and off) or (limit == 0 and not by_host):
                return state.apply(Event.WITHHOLD if shut_down else Event.OVERLOADED)
        goal = self.goal if self.sent else None
        if has_bit and (unpowered or goal is None or not goal.wheel):
            held = reply.data[protocol.goal - address :].startswith(self.block)
            return self.judge(on=on, was_reset=unpowered or (goal is not None and not held))
        return None

    def judge_alarm(self, flags: int, *, on: bool, was_reset: bool) -> list[Action | None]:
        """Apply the alarm register and Torque Enable, and return the actions."""
        was_reset |= (power_gap := self.state.registers is POWER_GAP)
        self.state.apply(Event.REGISTERS_READ)
        rising, self.flags = flags & ~self.flags, flags
        shut_down = not on and flags and (power_gap or self.driven)
        reason = self.state.apply(Event.WITHHOLD) if shut_down else self.judge(on=on, was_reset=was_reset)
        return [Action.NOTE_ALARM if rising else None, reason]

    def judge(self, *, on: bool, was_reset: bool) -> Action | None:
        """Apply that the torque is on, or off although the servo has goals; return the action."""
        if on:
            return self.state.apply(Event.TORQUE_ON)
        if self.state.permission is not ALLOWED or not (was_reset or self.sent):
            return None
        return self.state.apply(Event.TORQUE_RESET if was_reset else Event.TORQUE_OFF)


def _torque(protocol: Protocol, reply: Reply, address: int) -> int | None:
    """Return Torque Enable from a reply's data from `address` on; None if it is not included."""
    offset = protocol.torque_enable - address
    return reply.data[offset] if offset >= 0 else None
