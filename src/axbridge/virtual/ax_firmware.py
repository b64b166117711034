"""Firmware of AX servos, and of MX servos with Protocol 1.0: effects of their registers.

The profile has a flag for each behaviour that differs between firmwares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from axbridge.config.registers import Address
from axbridge.jit import plain as plain_python
from axbridge.servo.columns import Command, Mode, State
from axbridge.servo.position_laws import compliance
from axbridge.units import FULL_SCALE, bits_to_signed, sign_magnitude
from axbridge.virtual.firmware import Firmware, Written
from axbridge.virtual.sensors import Count, Sensors

_TORQUE = int(Address.TORQUE_ENABLE)
_READING, _POSITION, _SPEED = int(State.READING), int(Count.POSITION), int(Count.SPEED)
_JOINT = Mode.JOINT  # often read; an enum takes longer
_TURN = 2 * math.pi
_ACCELERATION_UNIT = math.radians(8.583)  # rad/s² per count of the MX goal acceleration
_COMPLIANCE = Command.MARGIN_CW, Command.MARGIN_CCW, Command.SLOPE_CW, Command.SLOPE_CCW, Command.PUNCH
_SPEED_TIME = 0.19  # s over which Present Speed differentiates the position: 300° / 27.7 rad/s, answers.ros.org 211471
_LOAD_PER_SPEED = 2  # error of Present Load in counts per count of error in Present Speed (same source)
_MOVING_TIME = 0.1  # s after a goal during which a servo at rest still reads as moving: latency and stiction


class AxFirmware(Firmware):
    """Firmware of one AX servo, or one MX servo with Protocol 1.0."""

    EFFECTS: ClassVar = {
        "torque_enable": "_switch",
        "goal_position": "_new_goal",
        "moving_speed": "_new_speed",
        "torque_limit": "_new_limit",
        "lock": "_lock",
    }
    REST: ClassVar = ("moving", "realtime_tick")
    GOALS: ClassVar = ("goal_position", "moving_speed")
    _lost_turns = 0  # counts: whole turns that a multi-turn position lost at power-off
    _last_position = -1
    _wheel_drive = False  # driven in wheel mode although Torque Enable reads 0
    _moving_until = 0.0

    def begin(self, time: float) -> None:
        self._wheel_drive = False
        self._last_position, self._moving_until = -1, 0.0
        super().begin(time)

    def reset_turns(self, time: float) -> None:
        turn = self.units.counts + 1
        count = round(self.zero + self.state_at(time)[_READING] / self.units.position)
        self._lost_turns = count // turn * turn
        self.copy_present(time)

    def configure(self) -> None:
        self._middle = (0.5 * self.units.counts - self.zero) * self.units.position  # rad: middle of the sensor's range
        low, high, counts = self.table["cw_angle_limit"], self.table["ccw_angle_limit"], self.units.counts
        wheel, behaviour = low == high == 0, self.profile.behaviour
        self.mode = Mode.JOINT
        if wheel:
            self.mode = Mode.WHEEL_DUTY if behaviour.wheel_mode == "duty" else Mode.WHEEL_SPEED
        else:
            self._wheel_drive = False
        self.multi_turn = not wheel and behaviour.multi_turn and low == high == counts
        self._has_dead_zone = not self.multi_turn and (counts + 1.5) * self.units.position < _TURN
        self.ranges = {} if self.multi_turn else {"goal_position": (0, counts)}
        if not wheel:
            self.ranges["moving_speed"] = (0, self.units.full_scale)
        goal = self.profile.registers["goal_position"]
        self.goal_range = (goal.minimum, goal.maximum) if self.multi_turn else (low, high)
        super().configure()

    # -- writes ------------------------------------------------------------------------------------------------------

    def locked(self, address: int, length: int, *, own: bool) -> bool:  # noqa: ARG002
        if not self.table.get("lock"):
            return False
        lock = self.profile.registers["lock"]  # Lock itself stays writable, but its range then allows only 1
        return (address, length) != (lock.address, lock.size) and self.profile.behaviour.locks(address, length)

    def only_aims(self) -> bool:
        plain = self.driven and self.mode is Mode.JOINT and not self.multi_turn and self.stuck is None
        return plain and not self.locked(*self.goals, own=True)

    def _switch(self, _: str, written: Written) -> None:
        if not written.values["torque_enable"]:
            self._wheel_drive = False
        elif self.alarms.tripped:
            self.alarms.recover(torque_enable=True)
        follows = self.profile.behaviour.goal_follows_present_on_torque_on and self.mode is Mode.JOINT
        if follows and self.switches_on(written) and "goal_position" not in written.values:
            self.copy_present(written.time)

    def _new_goal(self, _: str, written: Written) -> None:
        data, mode = self.table.data, self.mode
        if not data[_TORQUE] and self.profile.behaviour.auto_torque_on_goal and mode is Mode.JOINT:
            data[_TORQUE] = self.alarms.may_start
        self._moving_until = written.time + _MOVING_TIME

    def _new_speed(self, _: str, written: Written) -> None:
        if self.mode is not Mode.JOINT and self.alarms.may_start:
            if self.profile.behaviour.auto_torque_in_wheel:
                self.table["torque_enable"] = 1
            self._wheel_drive = True
        self._moving_until = written.time + _MOVING_TIME

    def _new_limit(self, _: str, written: Written) -> None:
        if written.values["torque_limit"] and self.alarms.tripped:
            self.alarms.recover(torque_enable=False)

    def _lock(self, _: str, written: Written) -> None:
        self.ranges["lock"] = written.values["lock"], 1  # a lock lasts until power-off

    def shut_down(self, flags: int) -> None:
        if self.profile.behaviour.shutdown_effect == "torque_enable_off":
            self._wheel_drive = False
        super().shut_down(flags)

    # -- readings ----------------------------------------------------------------------------------------------------

    @property
    def driven(self) -> bool:
        return self.powered and (self._wheel_drive or self.table.data[_TORQUE] != 0)

    def encoder(self) -> Sensors:
        unit, most = self.units.position, self.units.counts
        if self.multi_turn:
            lost, shift = self._lost_turns, self.table.get("multi_turn_offset")
            return Sensors(self.zero, unit, 0.0, 0.0, lost, self._divider, shift, -32768, 32767)
        turn = _TURN / unit
        # In the dead zone, the wiper has no contact: the position is the nearer end.
        return Sensors(self.zero, unit, turn, 0.5 * (most - turn), low=0, high=most)

    @property
    def _divider(self) -> int:
        """Resolution Divider of a multi-turn position."""
        return max(self.table.get("resolution_divider", 1), 1)

    def _turns(self, reading: float) -> float:
        """Return the whole turns in `reading`, in rad: the sensor only measures the angle within one turn.

        The turn number changes in the middle of the dead zone. In multi-turn mode the result is 0.
        """
        if self.multi_turn:
            return 0.0
        return round((reading - self._middle) / _TURN) * _TURN

    def _is_dead(self, reading: float) -> bool:
        return not -0.5 <= self.zero + (reading - self._turns(reading)) / self.units.position <= self.units.counts + 0.5

    def _misread(self, counts: list[int], state: Sequence[float]) -> list[int]:
        """Return the counts with the errors in speed and load that the dead zone causes.

        Present Speed is a difference of positions. It is 0 while the position stays at one end, and above the motor's
        maximum speed when the position jumps to the other end. Present Load has an error in proportion, and overflows.
        """
        reading, wheel = state[_READING], self.mode is not Mode.JOINT
        before = reading - state[State.SPEED] * _SPEED_TIME
        crossed = wheel and (self._is_dead(before) or self._turns(before) != self._turns(reading))
        if self.stuck is not None or not (crossed or self._is_dead(reading)):
            return counts
        earlier = [*state]
        earlier[_READING] = before
        position, given, load, *others = counts
        change = (position - self.counts(earlier)[Count.POSITION]) * self.units.position
        speed = round(change / _SPEED_TIME / self.units.speed)
        load += _LOAD_PER_SPEED * (given - speed) * self.driven
        return [position, speed, int(math.copysign(abs(load) % (self.units.full_load + 1), load)), *others]

    def block(self, counts: list[int], state: Sequence[float], time: float) -> Sequence[int]:
        position = counts[_POSITION]
        if self._has_dead_zone and not (self.mode is _JOINT and 0 < position < self.units.counts):
            counts = self._misread(counts, state)
        words, quirk, count = super().block(counts, state, time), self.profile.behaviour.speed_quirk, counts[_SPEED]
        if abs(count) > FULL_SCALE:  # RX-64: 3154, AX-12: 3408 (DynamixelSDK 436)
            words = (words[0], sign_magnitude(count, 10) & 0xFFFF, *words[2:])
        if quirk == "none":
            return words
        first, speed, *others = words
        if quirk == "stale" and position == self._last_position:
            speed = self.table["present_speed"]
        elif quirk == "garbage_high_bits" and count and self.mode is not _JOINT:
            speed |= 0x0800
        self._last_position = position
        return first, speed, *others

    def refresh_rest(self, counts: list[int], state: Sequence[float], time: float) -> None:  # noqa: ARG002
        table = self.table
        powered = self.driven and table["torque_limit"] != 0  # a shutdown leaves Torque Enable at 1
        table["moving"] = int(powered and self._is_moving(counts, busy=time < self._moving_until))
        if "realtime_tick" in table:
            table["realtime_tick"] = self.tick(time)

    def _is_moving(self, counts: list[int], *, busy: bool) -> bool:
        """Return whether the servo is away from its goal, and turns or is about to."""
        table = self.table
        if self.mode is not Mode.JOINT:
            return counts[_SPEED] != 0 and bits_to_signed(table["moving_speed"]) != 0
        error = table["goal_position"] - counts[_POSITION]
        margin = table.get("ccw_compliance_margin" if error > 0 else "cw_compliance_margin", 1)
        return bool((counts[_SPEED] or busy) and abs(error) > margin)

    # -- the motor ---------------------------------------------------------------------------------------------------

    def set_point(self, reading: float, *goals: int) -> tuple[float, float]:
        """See `Firmware.set_point`; the goal is in the turn that the sensor measures."""
        (goal, speed), table, units = goals, self.table, self.units
        if self.multi_turn:
            goal = (goal - table.get("multi_turn_offset")) * self._divider + self._lost_turns
        turned = self._turns(reading) if self.mode is _JOINT and self.stuck is None else 0.0
        return (goal - self.zero) * units.position + turned, speed * units.speed

    def drive(self, row: list[float]) -> None:
        table, units, mode = self.table, self.units, self.mode
        speed, limit = table["moving_speed"], table["torque_limit"]
        if not limit:
            row[Command.TORQUE] = 0.0
        row[Command.MODE] = float(mode)
        if mode is Mode.WHEEL_SPEED:
            row[Command.SPEED] = bits_to_signed(speed) * units.speed
        row[Command.DUTY] = bits_to_signed(speed) / units.full_scale if mode is Mode.WHEEL_DUTY else 0.0
        row[Command.TORQUE_LIMIT] = limit / units.full_scale
        row[Command.ACCELERATION] = table.get("goal_acceleration") * _ACCELERATION_UNIT
        if self.stuck is not None and mode is Mode.JOINT:  # constant error: constant duty
            error = row[Command.GOAL] - (self.stuck - self.zero) * units.position
            row[Command.MODE] = float(Mode.WHEEL_DUTY)
            row[Command.DUTY] = plain_python(compliance)(error, *(row[column] for column in _COMPLIANCE))
