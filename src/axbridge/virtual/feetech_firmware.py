"""Firmware of Feetech's STS, SMS and SCS servos: effects of their registers.

docs/servos.md lists the behaviour that no register table defines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import SET_MIDDLE
from axbridge.errors import FeetechError
from axbridge.servo.columns import Command, Mode, State
from axbridge.virtual.alarms import AlarmLimits, Alarms
from axbridge.virtual.control_table import ControlTable
from axbridge.virtual.firmware import Firmware, Written
from axbridge.virtual.sensors import Count, Sensors

_OVERLOAD, _OVERCURRENT = int(FeetechError.OVERLOAD), int(FeetechError.OVERCURRENT)
_MANY_TURNS = 0x10  # bit of Phase
_BACKWARDS = 0x400  # bit of Goal Time, where Goal Time is a duty
_MOST_DUTY = 0.97  # measured by BAM (feetech/actuator.py)
_AMPERE = 0.0065  # A per count of Present Current
_TICK = 0.01  # s per count of the protection times
_ACCELERATION = 100  # counts/s² per count of Acceleration
_POSITION, _VELOCITY, _PWM, _STEP = range(4)  # Operating Mode


class _Alarms(Alarms):
    """An overload reduces the torque to Protective Torque; other alarms in Unloading Condition switch the torque off.

    Overload and over-current are reported until Torque Enable is written. A goal in the other direction also ends an
    overload.
    """

    def __init__(self, profile: FirmwareProfile, table: ControlTable) -> None:
        super().__init__(profile, table)
        self.pushed = 0.0  # duty at the overload; before one, the latest duty

    def poll(self, state: list[float], time: float, *, driven: bool, hot: float | None) -> int:
        fatal, table = super().poll(state, time, driven=driven, hot=hot), self._table
        limit = table.get("protection_current") * _AMPERE
        high = driven and 0.0 < limit < abs(state[State.CURRENT])
        lasts = self._lasts("current", time, table.get("overcurrent_time") * _TICK, high=high)
        if lasts or self.tripped & _OVERCURRENT:
            self.bits |= _OVERCURRENT
            fatal |= _OVERCURRENT & table["shutdown"] & ~self.tripped
        return fatal

    def limits(self, *, driven: bool) -> AlarmLimits | None:
        limits, limit = super().limits(driven=driven), self._table.get("protection_current") * _AMPERE
        return limits._replace(current=limit) if limits and driven and limit else limits

    @property
    def _pushing_duty(self) -> float:
        return self._table.get("overload_torque", 80) / 100

    def shut_down(self, flags: int) -> None:
        self.bits |= flags
        self.tripped |= flags
        if flags & ~_OVERLOAD:
            self._table["torque_enable"] = 0

    def recover(self, *, torque_enable: bool) -> None:  # noqa: ARG002 - a goal has the same effect
        self.reset()

    def _stalled(self, state: list[float], time: float, driven: bool) -> bool:
        pushing = driven and abs(state[State.DUTY]) * 100 > self._table.get("overload_torque", 80)
        high = pushing and self._stands(state)
        if not self.tripped & _OVERLOAD:
            self.pushed = state[State.DUTY]
        return self._lasts("load", time, self._table["protection_time"] * _TICK, high=high)


class FeetechFirmware(Firmware):
    """Firmware of one Feetech servo."""

    EFFECTS: ClassVar = {
        "operating_mode": "_new_mode",
        "torque_enable": "_switch",
        **dict.fromkeys(("goal_position", "goal_velocity", "goal_time"), "_new_goal"),
    }
    REST: ClassVar = ("status", "moving", "present_current", "goal_position_echo")
    GOALS: ClassVar = ("goal_position", "goal_time", "goal_velocity")
    ALARMS: ClassVar = _Alarms
    alarms: _Alarms
    _goal_time_speed = 0.0  # rad/s, from Goal Time; 0: Goal Time is 0
    _step = 0.0  # rad: goal in step mode
    _lost_turns = 0  # counts: whole turns before power-on

    def __init__(
        self, table: ControlTable, profile: FirmwareProfile, zero: int, state_at: Callable[[float], list[float]]
    ) -> None:
        super().__init__(table, profile, zero, state_at)
        self._turn = round(math.tau / self.units.position)
        self._encoder_zero = zero + table.get("homing_offset")
        self.keep()

    def keep(self) -> None:
        self._stored_eeprom = self.table.data[: self.profile.eeprom_end]

    def begin(self, time: float) -> None:
        self.table.data[: len(self._stored_eeprom)] = self._stored_eeprom  # writes made while Lock was 1 are lost
        super().begin(time)

    def reset_turns(self, time: float) -> None:
        self._lost_turns = self._turns_at(self.state_at(time)[State.READING])
        self.copy_present(time)

    def configure(self) -> None:
        low, high = self.table["min_position_limit"], self.table["max_position_limit"]
        free = low == high == 0
        self.mode = self.table.get("operating_mode", _PWM if free else _POSITION)
        self.goal_range = (-math.inf, math.inf) if free or self.mode != _POSITION else (low, high)
        super().configure()

    # -- writes ------------------------------------------------------------------------------------------------------

    def only_aims(self) -> bool:
        plain = self.driven and self.mode == _POSITION and self.stuck is None and not self.alarms.tripped
        return plain and self.table["torque_enable"] == 1

    def apply(self, written: Written) -> None:
        if not self.table["lock"]:  # Lock is 0 now: the values outlast power-off, even if this packet sets Lock
            self._store_eeprom(written.values)
        super().apply(written)

    def _store_eeprom(self, names: Iterable[str]) -> None:
        for register in map(self.profile.register, names):
            if register.end <= len(self._stored_eeprom):
                self._stored_eeprom[register.address : register.end] = self.table.data[register.address : register.end]

    def copy_present(self, time: float) -> None:
        super().copy_present(time)
        self._step, self._goal_time_speed = self.state_at(time)[State.READING], 0.0

    def _new_mode(self, _: str, written: Written) -> None:
        if written.before["operating_mode"] != self.mode:
            self.table["goal_velocity"] = self.table["goal_time"] = 0
            self.copy_present(written.time)

    def _switch(self, _: str, written: Written) -> None:
        table, value = self.table, written.values["torque_enable"]
        if value == SET_MIDDLE:
            table["torque_enable"] = written.before["torque_enable"]
            self._set_middle(written.time)
            return
        self.alarms.recover(torque_enable=True)
        if self.switches_on(written) and "goal_position" not in written.values:
            self.copy_present(written.time)

    def _set_middle(self, time: float) -> None:
        """Make the present position the middle of the turn by writing Homing Offset to the EEPROM."""
        if "homing_offset" not in self.table:
            return
        self.table["homing_offset"] = self._encoder(self.state_at(time)[State.READING]) % self._turn - self._turn // 2
        self._store_eeprom(["homing_offset"])
        self.copy_present(time)

    def _new_goal(self, name: str, written: Written) -> None:
        table, overloaded = self.table, self.alarms.tripped & _OVERLOAD
        if name != "goal_position" and self.mode in {_POSITION, _STEP}:
            return  # these take effect with the next goal
        if self.profile.behaviour.auto_torque_on_goal and not self.alarms.tripped & ~_OVERLOAD:
            table["torque_enable"] = 1
        self._goal_time_speed = 0.0
        if not (table["goal_time"] or overloaded or self.mode == _STEP):
            return  # nothing depends on the motor's state
        state = self.state_at(written.time)
        begin = state[State.REFERENCE] if self.driven else state[State.READING]
        if self.mode == _STEP:
            self._step = begin + table["goal_position"] * self.units.position
        if overloaded and self._direction(state[State.READING]) * self.alarms.pushed < 0.0:
            self.alarms.recover(torque_enable=False)
        if table["goal_time"]:
            self._goal_time_speed = abs(self._goal(begin) - begin) * 1e3 / table["goal_time"]

    def _direction(self, reading: float) -> float:
        """Return a number with the sign of the motion to the mode's goal from `reading`, rad."""
        if self.mode == _VELOCITY:
            return self.table["goal_velocity"]
        return self._duty if self.mode == _PWM else self._goal(reading) - reading

    @property
    def _duty(self) -> float:
        """Duty in PWM mode, -1 to 1, from Goal Time."""
        duty = self.table["goal_time"]
        share = min(duty & ~_BACKWARDS, self.units.full_scale) / self.units.full_scale  # higher: full, measured
        return -share if duty & _BACKWARDS else share

    # -- readings ----------------------------------------------------------------------------------------------------

    @property
    def _offset(self) -> int:
        """Homing Offset, counts, which is subtracted from the encoder count; 0 in the velocity and PWM modes.

        Two users have measured these modes independently; the step mode was not measured.
        """
        return 0 if self.mode in {_VELOCITY, _PWM} else self.table.get("homing_offset")

    def _encoder(self, reading: float) -> int:
        return round(self._encoder_zero + reading / self.units.position)

    def _turns(self, reading: float) -> int:
        """Return the whole turns, in counts, that Present Position leaves out at `reading`, rad."""
        return self._lost_turns if self.table.get("phase") & _MANY_TURNS else self._turns_at(reading)

    def _turns_at(self, reading: float) -> int:
        """Return the whole turns of a shaft at `reading` (rad), in counts."""
        count = self._encoder_zero + reading / self.units.position - self._offset
        return math.floor((count + 0.5) / self._turn) * self._turn

    def encoder(self) -> Sensors:
        offset, unit = self._offset, self.units.position
        if self.table.get("phase") & _MANY_TURNS:
            return Sensors(self._encoder_zero, unit, shift=-offset - self._lost_turns)
        return Sensors(self._encoder_zero, unit, self._turn, offset - 0.5, shift=-offset)

    def _goal(self, reading: float) -> float:
        """Return the shaft's angle (rad) at the goal, for a shaft at `reading` (rad)."""
        if self.mode == _STEP:
            return self._step
        count = self.table["goal_position"] + self._offset + self._turns(reading)
        return (count - self._encoder_zero) * self.units.position

    def refresh_rest(self, counts: list[int], state: Sequence[float], time: float) -> None:  # noqa: ARG002
        table = self.table
        table["status"] = self.alarms.bits
        is_far = self.driven and abs(self._goal(state[State.READING]) - state[State.REFERENCE]) > self.units.position
        table["moving"] = int(
            abs(counts[Count.SPEED]) > table.get("moving_threshold") or (is_far and self.mode == _POSITION)
        )
        if "present_current" in table:
            table["present_current"] = round(abs(state[State.CURRENT]) / _AMPERE)
            table["goal_position_echo"] = table["goal_position"]

    # -- the motor ---------------------------------------------------------------------------------------------------

    @property
    def _top_speed(self) -> int:
        """Maximum speed, counts."""
        return self.table["max_velocity"] * self.table.get("velocity_unit", 50)

    def set_point(self, reading: float, *goals: int) -> tuple[float, float]:  # noqa: ARG002
        top = self._top_speed
        speed = min(abs(self.table["goal_velocity"]) or top, top) * self.units.speed
        return self._goal(reading), min(speed, self._goal_time_speed or math.inf)

    def drive(self, row: list[float]) -> None:
        table, units, mode = self.table, self.units, self.mode
        most = min(table[self.profile.names.torque] / units.full_scale, _MOST_DUTY)
        if self.alarms.tripped & _OVERLOAD:
            most = min(most, table["protective_torque"] / 100)
        row[Command.TORQUE_LIMIT] = most
        row[Command.ACCELERATION] = table["acceleration"] * _ACCELERATION * units.position
        if mode == _VELOCITY:
            row[Command.MODE] = float(Mode.WHEEL_SPEED)
            speed = table["goal_velocity"]
            row[Command.SPEED] = math.copysign(min(abs(speed), self._top_speed), speed) * units.speed
        elif mode == _PWM:
            row[Command.MODE] = float(Mode.WHEEL_DUTY)
            row[Command.DUTY] = self._duty
        elif self.stuck is not None:  # constant error: constant push
            row[Command.MODE] = float(Mode.WHEEL_DUTY)
            row[Command.DUTY] = math.copysign(1.0, table["goal_position"] - self.stuck)
