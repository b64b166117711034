"""Packets that the bridge itself sends to the servos, so that the rules can act."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from axbridge.bridge.black_box import BlackBox
from axbridge.bridge.known import Known
from axbridge.bridge.rules import Notice, beyond, checked, powered, wanted
from axbridge.bus import retries
from axbridge.bus.base import Reply
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import QUESTIONS
from axbridge.config.rig_tables import BridgeConfig
from axbridge.robot.torque_watch import HARD, LASTS
from axbridge.units import VOLT_PER_COUNT

_ARRIVED = math.radians(3)  # rad: position tolerance of a goal, and motion of a blocked joint that is free again
_PAUSE = 5.0  # s without a goal, after which the next goal counts as the first
_RISK_PERIOD = 0.05  # s between samples of a servo at risk
_CHECK_PERIOD = 1.0  # s between samples of other servos
_MAX_MISSED = 2  # samples without a reply, after which a servo is polled less often
_NOTICE_PAUSE = 1.0  # s: repeated actions of a rule without such a pause make one notice
_Call = Callable[..., object]
_NO_DIGITS = str.maketrans("", "", "-0123456789")
_HYSTERESIS = 5  # °C below the limit at which a servo may be switched on again


class Protector:
    """Examines a program's packets, and monitors the servos in its pauses."""

    def __init__(self, bus: SerialBus, box: BlackBox, config: BridgeConfig, notify: _Call, update_guard: _Call) -> None:
        self._bus, self._box, self._config, self._notify, self._update_guard = bus, box, config, notify, update_guard
        self._table = box.traffic.table
        box.traffic.answered = self._note_reply
        self._commanded_at: dict[int, float] = {}  # s, last goal, by id
        self._noticed_at: dict[tuple[str, str], float] = {}  # s, last change of a packet by a rule, by servo and text
        self._unjudged: dict[int, Known] = {}  # with a new sample; a write now could collide
        self.wrote_at = -math.inf  # s, last write of the program; -inf: none since `reset`

    @property
    def has_written(self) -> bool:
        """Whether the program has written anything since `reset`."""
        return self.wrote_at > -math.inf

    def reset(self) -> None:
        """Restore the program's speed and torque limits, after the exit policy was applied."""
        self.wrote_at = -math.inf
        self._table.mark_unknown()
        self._commanded_at.clear()
        for servo in self._table.servos.values():
            if servo.far_goal is not None or servo.least_time:
                self._restore_speed(servo)
            servo.step_end = servo.pushes_since = servo.blocked = None
            if servo.cap is not None and not servo.kept_off:
                self._set_cap(servo, None)

    def close(self) -> None:
        """Do the same as `reset`, also for servos that were kept off."""
        for servo in self._table.servos.values():
            servo.kept_off = False
        self.reset()

    def lend(self) -> None:
        """Send the guard process the program's values of registers that the bridge changed."""
        self._bus.borrowed.clear()
        for servo in self._table.servos.values():
            for name, value in servo.changed().items():
                register = servo.profile.register(name)
                self._bus.borrowed[servo.id, register.address] = register.encode(value)
        self._update_guard()

    # -- packets of the program ---------------------------------------------------------------------------------------

    def examine(self, version: int, packet: Packet, frame: bytes) -> bytes:
        """Return the bytes that go to the line for a packet; see `Packets`. Reads pass at once."""
        self._judge_samples()
        if packet.code in QUESTIONS:
            return frame
        self._box.work()
        protocol = self._table.protocol(version, packet.id)
        if protocol is None:
            return frame
        now, values = time.monotonic(), wanted(protocol, packet, self._table)
        goals = values.get("goal_position", {})
        for id_, speed in values.get(protocol.names.speed, {}).items():
            self._table.servos[id_].wanted_speed = speed
        for id_, torque in values.get(protocol.names.torque, {}).items():
            self._table.servos[id_].wanted_torque = torque
        if goals:
            self._approach(protocol, goals, values.get(protocol.names.speed, {}), now)
        passed, notices = checked(protocol, packet, self._table, service=self._config.allow_service)
        for notice in notices:
            key = notice.servo, notice.text.translate(_NO_DIGITS)
            self._notify(notice, said=now - self._noticed_at.get(key, -math.inf) > _NOTICE_PAUSE)
            self._noticed_at[key] = now
        if ids := powered(protocol, passed, self._table):
            self._before_torque(protocol, ids, goals.keys())
        self._commanded_at |= dict.fromkeys(goals, now)
        if passed.code not in QUESTIONS:
            self.wrote_at = now
        if any(self._table.servos[id_].is_relative for id_ in goals):
            for id_, step in wanted(protocol, passed, self._table).get("goal_position", {}).items():
                if (servo := self._table.servos[id_]).is_relative:
                    servo.step_end = servo.step_room()[step > 0] + step
        return frame if passed is packet else protocol.encode(passed.id, passed.code, passed.params)

    def _approach(self, protocol: Protocol, goals: dict[int, int], speeds: dict[int, int], now: float) -> None:
        """Limit the speed of servos with far goals until they arrive.

        A time-based profile has no speed: each goal gets the duration by the speed limit.
        """
        servos = [self._table.servos[id_] for id_ in goals]
        for servo in servos:
            if servo.far_goal is not None and not servo.is_relative:
                servo.far_goal = goals[servo.id]
        first = {servo.id for servo in servos if now - self._commanded_at.get(servo.id, -math.inf) > _PAUSE}
        if not self._config.far_goal_speed:
            first.clear()
        polled = [
            servo
            for servo in servos
            if not servo.is_endless
            and (servo.id in first or servo.is_relative or (servo.is_time_based and servo.speed_limit is not None))
        ]
        places, writes = self._read(polled, *protocol.present_position), {}
        for servo in polled:
            position = servo.value("present_position") if servo.id in places else None
            target = goals[servo.id] + (position or 0) * servo.is_relative
            if servo.far_goal is not None:
                servo.far_goal = target
            away = None if position is None else abs(target - position)
            before = servo.value(protocol.names.speed) or 0
            if servo.id in first and servo.far_goal is None and (away is None or away > servo.near):
                servo.far_goal = target
                if servo.id not in speeds and not servo.least_time:
                    servo.wanted_speed = before
                where = "far" if away is None else f"{math.degrees(away * servo.profile.units.position):.0f}°"
                slowly = f"at most {math.degrees(self._config.far_goal_speed):.0f}°/s until it is there"
                self._notify(Notice(servo.name, "far goal", f"its first goal is {where} away: {slowly}"))
            if servo.is_time_based:
                speed = self._time_for(servo, away, before, given=servo.id in speeds)
            elif servo.far_goal is None or servo.id not in first:
                continue
            else:
                speed = min(servo.slow, servo.wanted_speed or servo.slow)
            if speed != before:
                writes[servo.id] = servo.profile.register(protocol.names.speed).encode(speed)
        self._write(servos, protocol.names.speed, writes)

    def _time_for(self, servo: Known, away: int | None, before: int, *, given: bool) -> int:
        """Return Profile Velocity, ms, for a time-based profile and a goal that is `away` counts from the joint."""
        if not given and not servo.least_time:
            servo.wanted_speed = before
        limit = servo.speed_limit
        if limit is not None:
            units = servo.profile.units
            cruise = 1e3 * (units.counts if away is None else away) * units.position / (limit * units.speed)
            ramp = min(servo.value("profile_acceleration") or 0, cruise)
            most = servo.profile.register(servo.protocol.names.speed).maximum
            servo.least_time = min(max(math.ceil(cruise + ramp), 1), most)
        return max(servo.wanted_speed, servo.least_time)

    def _before_torque(self, protocol: Protocol, ids: set[int], given: Iterable[int]) -> None:
        """Write the rig's limits before torque-on, and the present position as goal of servos without a `given` one."""
        servos = [self._table.servos[id_] for id_ in ids]
        limits: dict[str, dict[int, bytes]] = {}
        for servo in servos:
            if servo.id not in given:  # else a goal may have switched it on before, and steps add up
                servo.step_end = None
            for name, value in beyond(servo).items() if self._config.limits else ():
                limits.setdefault(name, {})[servo.id] = servo.profile.register(name).encode(value)
        for name, data in limits.items():
            self._write(servos, name, data)
        resting = [servo for servo in servos if servo.endless_goal is None and servo.id not in given]
        if self._config.torque_on:
            self._hold_position(protocol, resting)
        for servo in resting:
            self._commanded_at.pop(servo.id, None)

    def _hold_position(self, protocol: Protocol, servos: list[Known]) -> None:
        """Set the goal of these servos to the present position, if it differs."""
        goals = {}
        places, before = self._read(servos, *protocol.present_position), self._read(servos, *protocol.goal_position)
        for servo in servos:
            register = servo.profile.register("goal_position")
            if servo.id not in places or servo.id not in before:
                self._notify(Notice(servo.name, "torque on", "its position is not known: it did not answer"))
                continue
            position, goal = register.decode(places[servo.id]), register.decode(before[servo.id])
            if abs(position - goal) > protocol.park_near:
                goals[servo.id] = register.encode(position)
                self._notify(Notice(servo.name, "torque on", f"goal {goal} is not where it is: set to {position}"))
        self._write(servos, "goal_position", goals)

    # -- pauses of the program ----------------------------------------------------------------------------------------

    def _note_reply(self, servo: Known, place: range | None, error: int) -> None:
        first, count = servo.protocol.usual
        if place is not None and first in place and first + count - 1 in place:
            self._unjudged[servo.id] = servo
        self._note_alarms(servo, error)

    def _judge_samples(self) -> None:
        while self._unjudged:
            self._judge_sample(self._unjudged.popitem()[1])

    def watch(self) -> None:
        """In a pause, poll the servo whose sample is due."""
        self._judge_samples()
        now = time.monotonic()
        servo = min(self._table.servos.values(), key=lambda servo: servo.polled_at + self._period(servo))
        if not self.has_written or now - servo.polled_at < self._period(servo):
            return
        protocol, requests = servo.protocol, [(servo.id, *servo.protocol.with_torque)]
        if protocol.reads_alarm and protocol.alarm is not None and now - servo.checked_at > _CHECK_PERIOD:
            requests += [(servo.id, protocol.torque_enable, 1), (servo.id, *protocol.alarm)]
            servo.checked_at = now
        servo.missed += 1
        servo.polled_at = now + _CHECK_PERIOD * (servo.missed > _MAX_MISSED)
        for (_, address, _), answer in zip(requests, self._bus.read_many(requests), strict=True):
            if isinstance(answer, Reply) and answer.data:
                servo.note(address, answer.data)
                servo.polled_at, servo.missed = now, 0
                self._note_alarms(servo, answer.error)
                if protocol.alarm is not None and address == protocol.alarm[0]:
                    self._name_alarms(servo, answer.data[0])
        if not servo.missed:
            self._judge_sample(servo)

    def _period(self, servo: Known) -> float:
        busy = (
            servo.far_goal is not None or servo.cap is not None or (servo.stall < 1.0 and servo.value("torque_enable"))
        )
        return _RISK_PERIOD if busy else _CHECK_PERIOD

    def _note_alarms(self, servo: Known, error: int) -> None:
        """Evaluate the error byte of a reply."""
        protocol = servo.protocol
        if not protocol.reads_alarm:
            questions = protocol.refusing | (protocol.refusals.damaged or 0)
            self._name_alarms(servo, error & protocol.alarm_mask & ~questions)
        elif error & protocol.alert and not servo.flags:
            servo.checked_at = servo.polled_at = -math.inf

    def _name_alarms(self, servo: Known, flags: int) -> None:
        new, servo.flags = flags & ~servo.flags, flags
        if new and self._config.alarms:
            self._notify(Notice(servo.name, "alarm", f"reports {servo.protocol.alarms(new).describe()}"))

    def _judge_sample(self, servo: Known) -> None:
        """Act on a new sample: end a far goal, limit a blocked servo, or switch a servo off beyond its limits."""
        sample = servo.sample()
        if sample is None or not self.has_written:
            return
        servo.polled_at = time.monotonic()
        position = sample["position"]
        if servo.value("torque_enable") == 0:  # it had no power, or was switched off
            self._commanded_at.pop(servo.id, None)
        if servo.far_goal is not None and self._has_arrived(servo, position):
            self._restore_speed(servo)
        if self._config.alarms:
            self._judge_supply(servo, sample)
        if servo.stall < 1.0 and not servo.kept_off:
            self._judge_load(servo, position, sample)

    def _has_arrived(self, servo: Known, position: int) -> bool:
        goal = servo.far_goal or 0
        if servo.positions is not None:
            goal = min(max(goal, servo.positions[0]), servo.positions[1])
        return abs(position - goal) * servo.profile.units.position <= _ARRIVED

    def _judge_supply(self, servo: Known, sample: dict[str, int]) -> None:
        """Keep a servo off while it is too hot or its supply is out of range."""
        hot = sample["temperature"] > servo.top_temperature - _HYSTERESIS * servo.kept_off
        low, high = servo.voltages
        volts = f"{sample['voltage'] * VOLT_PER_COUNT:g} V"
        if beyond_limits := hot or not low <= sample["voltage"] <= high:
            reading = f"{sample['temperature']} °C" if hot else volts
            if not servo.kept_off or servo.value("torque_enable"):
                self._bus.sync_write(servo.protocol.torque_enable, {servo.id: b"\0"})
                servo.note(servo.protocol.torque_enable, b"\0")
                self._notify(Notice(servo.name, "temperature", f"{reading} is beyond the rig's limit: torque off"))
        if beyond_limits != servo.kept_off:
            servo.kept_off, servo.blocked = beyond_limits, None
            self._set_cap(servo, 0 if beyond_limits else None)
            if not beyond_limits:
                text = f"{sample['temperature']} °C, {volts}: it may be switched on again"
                self._notify(Notice(servo.name, "temperature", text))

    def _judge_load(self, servo: Known, position: int, sample: dict[str, int]) -> None:
        """Reduce the torque limit of a blocked servo until it moves, or its goal is no longer ahead."""
        near, goal, now = servo.protocol.park_near, servo.goal, time.monotonic()
        ahead = 0 if goal is None else goal - position
        side = (ahead > near) - (ahead < -near)
        on = bool(servo.value("torque_enable")) and not servo.is_endless
        if servo.blocked is not None:
            start, direction = servo.blocked
            moved = (position - start) * direction * servo.profile.units.position > _ARRIVED
            if moved or side != direction or not on:
                servo.blocked = None
                self._set_cap(servo, None)
                self._notify(Notice(servo.name, "stall", "free again: torque limit as before"))
            return
        load = abs(sample["load"]) / servo.profile.units.full_load
        if not (on and side and load >= HARD and abs(sample["speed"]) < servo.still):
            servo.pushes_since = None
        elif servo.pushes_since is None:
            servo.pushes_since = now
        elif now - servo.pushes_since >= LASTS:
            servo.pushes_since, servo.blocked = None, (position, side)
            self._set_cap(servo, max(round(servo.stall * servo.protocol.full_torque), 1))
            text = f"blocked for {LASTS} s at {load:.0%} load: torque limit {servo.stall:.0%} until it moves"
            self._notify(Notice(servo.name, "stall", text))

    # -- reads and writes ---------------------------------------------------------------------------------------------

    def _set_cap(self, servo: Known, cap: int | None) -> None:
        """Limit a servo's torque limit to `cap` counts; None: restore the program's."""
        name = servo.protocol.names.torque
        register = servo.profile.register(name)
        if servo.cap is None:
            servo.wanted_torque = servo.value(name) or 0
        servo.cap = cap
        if register.address >= servo.profile.eeprom_end:
            most = servo.torque_limit
            torque = servo.wanted_torque if most is None else min(servo.wanted_torque, most)
            self._write([servo], name, {servo.id: register.encode(torque)})

    def _restore_speed(self, servo: Known) -> None:
        """Restore the program's speed limit of a servo."""
        name = servo.protocol.names.speed
        speed = servo.changed()[name]
        servo.far_goal, servo.least_time = None, 0
        self._write([servo], name, {servo.id: servo.profile.register(name).encode(speed)})

    def _read(self, servos: Iterable[Known], address: int, size: int) -> dict[int, bytes]:
        """Read registers of servos now; return them by id for the servos that answer."""
        data: dict[int, bytes] = {}
        for _ in range(1 + retries.QUESTION):
            requests = [(servo.id, address, size) for servo in servos if servo.id not in data]
            if not requests:
                break
            for (id_, *_), answer in zip(requests, self._bus.read_many(requests), strict=True):
                if isinstance(answer, Reply) and answer.data:
                    data[id_] = answer.data
                    self._table.servos[id_].note(address, answer.data)
        return data

    def _write(self, servos: Iterable[Known], name: str, data: dict[int, bytes]) -> None:
        """Write a register of servos with the same protocol."""
        if not data:
            return
        self.lend()
        changed = [servo for servo in servos if servo.id in data]
        address = changed[0].profile.register(name).address
        self._bus.exchange([(address, data)], ())
        for servo in changed:
            servo.note(address, data[servo.id])
