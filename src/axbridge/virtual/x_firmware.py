"""Firmware of the X series, and of MX servos with Protocol 2.0: effects of their registers.

docs/servos.md lists the assumptions where the e-manual has no statement. Goals and readings are the host's: reversed
by Drive Mode, shifted by Homing Offset, without turns lost at power-off. The control loop uses the shaft's angle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import MOST_OFFSET, POSITION_MODES, DriveMode, OperatingMode
from axbridge.errors import StatusError
from axbridge.servo.columns import Command, Mode, State
from axbridge.units import RPM
from axbridge.virtual.alarms import AlarmLimits
from axbridge.virtual.control_table import ControlTable
from axbridge.virtual.firmware import Firmware, Written
from axbridge.virtual.sensors import Sensors

_TURN = 4096  # counts
_ACCELERATION = 214.577 * RPM / 60  # rad/s² per count of Profile Acceleration
_ARRIVED = 12  # counts from the goal that count as arrived, about 1 degree; assumed, no manual gives a figure
_FOLLOWING_ERROR = 200  # counts behind the trajectory that count as a following error; assumed
_WATCHDOG_UNIT = 0.02  # s
_LOOP_RATE = 1000.0  # Hz, velocity loop; assumed


_MODES = {  # mode of the control loop, and its goal register
    OperatingMode.CURRENT: (Mode.CURRENT, "goal_current"),
    OperatingMode.VELOCITY: (Mode.SPEED, "goal_velocity"),
    OperatingMode.POSITION: (Mode.JOINT, "goal_position"),
    OperatingMode.EXTENDED_POSITION: (Mode.JOINT, "goal_position"),
    OperatingMode.CURRENT_BASED_POSITION: (Mode.JOINT_CURRENT, "goal_position"),
    OperatingMode.PWM: (Mode.WHEEL_DUTY, "goal_pwm"),
}
_LIMITS = {"goal_pwm": "pwm_limit", "goal_current": "current_limit", "goal_velocity": "velocity_limit"}
_LIMITS["profile_acceleration"] = "acceleration_limit"  # MX only
_RESET_BY_MODE = (
    "velocity_i_gain", "velocity_p_gain", "position_d_gain", "position_i_gain", "position_p_gain",
    "feedforward_2nd_gain", "feedforward_1st_gain",
    "profile_acceleration", "profile_velocity", "goal_pwm", "goal_current", "goal_velocity",
)  # fmt: skip


class Approach(NamedTuple):
    """Speed and ramp of the trajectory to the goal, from the profile registers when the goal was written."""

    speed: float = 0.0  # rad/s; 0 = at once
    acceleration: float = 0.0  # rad/s²; 0 = at once
    shape: int = 0  # bits 4 and 5 of Moving Status

    @classmethod
    def of(cls, table: ControlTable, profile: FirmwareProfile, distance: float) -> Approach:
        """Return the approach to a goal `distance` rad away."""
        velocity, acceleration = table["profile_velocity"], table["profile_acceleration"]
        if velocity == 0:
            return cls()
        if table["drive_mode"] & DriveMode.TIMED:
            whole, ramp = velocity * 1e-3, min(acceleration * 1e-3, velocity * 0.5e-3)
            speed = abs(distance) / (whole - ramp)
            rise = speed / ramp if ramp > 0.0 else 0.0
        else:
            speed, rise = velocity * profile.units.speed, acceleration * _ACCELERATION
        if rise == 0.0:
            return cls(speed, 0.0, 0x10)
        return cls(speed, rise, 0x30 if rise * abs(distance) >= speed * speed else 0x20)

    @classmethod
    def to_speed(cls, table: ControlTable, change: float) -> Approach:
        """Return the approach to a goal velocity that differs by `change` rad/s."""
        acceleration = table["profile_acceleration"]
        if table["drive_mode"] & DriveMode.TIMED:
            return cls(acceleration=abs(change) / (acceleration * 1e-3) if acceleration else 0.0)
        return cls(acceleration=acceleration * _ACCELERATION)


class XFirmware(Firmware):
    """Firmware of one X servo, or one MX servo with Protocol 2.0."""

    EFFECTS: ClassVar = {
        "operating_mode": "_new_mode",
        "torque_enable": "_switch",
        **dict.fromkeys(("goal_pwm", "goal_current", "goal_velocity", "goal_position"), "_new_goal"),
    }
    BLOCK: ClassVar = "realtime_tick", "present_temperature"
    REST: ClassVar = ("hardware_error_status",)
    GOALS: ClassVar = ("profile_velocity", "goal_position")
    _lost_turns = 0  # counts: whole turns
    _approach = Approach()
    _fed_at = 0.0  # s, time of the latest packet
    _mounted = 0  # 1 or -1: initial side, from the registers at the first start; 0 before

    def begin(self, time: float) -> None:
        self.table["torque_enable"] = self.table.get("startup_configuration") & 1
        self.table["registered_instruction"] = 0
        self._fed_at = time
        super().begin(time)

    def configure(self) -> None:
        table = self.table
        self.mode = OperatingMode(table["operating_mode"])
        offset = table["homing_offset"]
        if self.mode is OperatingMode.POSITION and abs(offset) > MOST_OFFSET:
            offset = 0
        reverse = table["drive_mode"] & DriveMode.REVERSE
        self._side, self._shift = (-1, offset + _TURN - 1) if reverse else (1, offset)
        if not self._mounted:
            self._mounted, self._encoder_zero = self._side, self._side * (self.zero - self._shift)
        limits = table["min_position_limit"], table["max_position_limit"]
        self.goal_range = limits if self.mode is OperatingMode.POSITION else (-math.inf, math.inf)
        super().configure()

    # -- writes ------------------------------------------------------------------------------------------------------

    def locked(self, address: int, length: int, *, own: bool) -> bool:  # noqa: ARG002
        return address < self.profile.eeprom_end and not (own and not self.table["torque_enable"])

    def only_aims(self) -> bool:
        plain = self.driven and self.mode in POSITION_MODES and self.stuck is None and not self._expired
        return plain and not (self._depends_on_start or self._approach.acceleration)

    @property
    def _depends_on_start(self) -> bool:
        """Whether the trajectory to a goal depends on its start: it has a ramp or a duration."""
        return bool(self.table["profile_acceleration"] or self.table["drive_mode"] & DriveMode.TIMED)

    def validate_goal(self, values: dict[str, int]) -> tuple[int, dict[str, int] | None]:
        error = next((error for name, value in values.items() if (error := self._refusal(name, value))), 0)
        return (error, None) if error else super().validate_goal(values)

    def _refusal(self, name: str, value: int) -> int:
        """Return the error for a value inside the register's range; 0 for none."""
        table = self.table
        if name == "operating_mode":
            return 0 if value in self.profile.operating_modes else StatusError.RANGE
        if name == "torque_enable" and value and self.alarms.tripped:
            return StatusError.RESULT  # only a reboot ends the shutdown
        if (name.startswith("goal_") or (name == "bus_watchdog" and value)) and self._expired:
            return StatusError.RANGE  # until 0 is written to Bus Watchdog
        return 0 if abs(value) <= table.get(_LIMITS.get(name, ""), abs(value)) else StatusError.LIMIT

    def _new_mode(self, _: str, written: Written) -> None:
        table = self.table
        if written.before["operating_mode"] == table["operating_mode"]:
            return
        for name in _RESET_BY_MODE:
            if name in table:
                table.start(name)
        self.reset_turns(written.time)

    def _switch(self, _: str, written: Written) -> None:
        if self.switches_on(written):
            self._switch_on(written)

    def _switch_on(self, written: Written) -> None:
        """Set the goal to the present position at torque-on, unless the same packet has a goal."""
        self._fed_at = written.time
        goal = written.values.get("goal_position")
        if self.mode is OperatingMode.POSITION:
            self.reset_turns(written.time)
        self.copy_present(written.time)
        if goal is not None:
            self.table["goal_position"] = goal

    def _new_goal(self, name: str, written: Written) -> None:
        table = self.table
        starts = not table["torque_enable"] and table["drive_mode"] & DriveMode.TORQUE_ON_BY_GOAL
        if starts and _MODES[self.mode][1] == name and not self.alarms.tripped:
            table["torque_enable"] = 1
            self._switch_on(written)
        if name == "goal_position":
            distance = 0.0
            if self._depends_on_start:
                state = self.state_at(written.time)
                distance = self._angle(table[name]) - state[State.REFERENCE if self.driven else State.READING]
            self._approach = Approach.of(table, self.profile, distance)
        elif name == "goal_velocity" and self.mode is OperatingMode.VELOCITY:
            speed = self.side * table[name] * self.units.speed
            self._approach = Approach.to_speed(table, speed - self.state_at(written.time)[State.REFERENCE_SPEED])

    # -- the Bus Watchdog --------------------------------------------------------------------------------------------

    @property
    def _expired(self) -> bool:
        """Whether the Bus Watchdog has stopped the servo."""
        return self.table["bus_watchdog"] < 0

    def feed(self, time: float) -> bool:
        stopped, self._fed_at = self.watch(time), time
        return stopped

    def watch(self, time: float) -> bool:
        """Stop when no packet came for too long; by the e-manual, torque stays on and the servo holds."""
        table = self.table
        period = table["bus_watchdog"]
        if period <= 0 or not self.driven or time - self._fed_at <= period * _WATCHDOG_UNIT:
            return False
        table["bus_watchdog"] = -1
        table["profile_acceleration"] = table["profile_velocity"] = table["goal_velocity"] = 0
        self.copy_present(time)
        self._approach = Approach()
        return True

    def alarm_limits(self) -> AlarmLimits | None:
        return None if self.table["bus_watchdog"] > 0 else super().alarm_limits()

    # -- readings ----------------------------------------------------------------------------------------------------

    @property
    def side(self) -> int:
        """1, or -1 if Drive Mode has reversed the direction since the servo was built in."""
        return self._mounted * self._side

    def reset_turns(self, time: float) -> None:
        """Reduce the position to one turn, and set the goal to it."""
        state = self.state_at(time)
        count = round(self._encoder_zero + self._mounted * state[State.READING] / self.units.position)
        self._lost_turns = count // _TURN * _TURN
        self._approach = Approach()
        self.refresh(time, state)
        self.table["goal_position"] = self.table["present_position"]

    def _angle(self, count: int) -> float:
        """Return the shaft's angle, rad, at a position count of the host."""
        encoder = self._side * (count - self._shift) + self._lost_turns
        return self._mounted * (encoder - self._encoder_zero) * self.units.position

    def encoder(self) -> Sensors:
        side, unit = self._side, self.side * self.units.position
        return Sensors(side * self._encoder_zero, unit, lost=side * self._lost_turns, shift=self._shift)

    def load_scale(self) -> tuple[float, float]:
        return super().load_scale() if "present_load" in self.table else (0.0, 1e3)  # mA

    def block(self, counts: list[int], state: Sequence[float], time: float) -> Sequence[int]:
        driven, approach, table, units, side = self.driven, self._approach, self.table, self.units, self.side
        position, speed, load, voltage, temperature, planned = counts
        steers = driven and self.mode in POSITION_MODES
        planned = planned if steers else position
        ongoing = steers and planned != table["goal_position"]
        status = 0
        if steers:
            status = approach.shape | 0x02 * ongoing | 0x08 * (abs(planned - position) > _FOLLOWING_ERROR)
            status |= abs(table["goal_position"] - position) <= _ARRIVED
        follows = driven and self.mode not in {OperatingMode.PWM, OperatingMode.CURRENT}
        ramp = state[State.REFERENCE_SPEED] if follows else 0.0
        if ongoing and approach.acceleration == 0.0:  # without a ramp, the loop has no reference speed
            ramp = math.copysign(approach.speed, self._angle(table["goal_position"]) - state[State.REFERENCE])
        return (
            self.tick(time),
            ongoing or abs(speed) > table["moving_threshold"],
            status,
            side * round(state[State.DUTY] * units.full_scale) if driven else 0,
            load,
            speed,
            position,
            side * round(ramp / units.speed),
            planned,
            voltage,
            temperature,
        )

    def refresh_rest(self, counts: list[int], state: Sequence[float], time: float) -> None:  # noqa: ARG002
        self.table["hardware_error_status"] = self.alarms.bits

    # -- the motor ---------------------------------------------------------------------------------------------------

    def set_point(self, reading: float, *goals: int) -> tuple[float, float]:  # noqa: ARG002
        return self._angle(goals[1]), self._approach.speed

    def drive(self, row: list[float]) -> None:
        table, approach, stopped = self.table, self._approach, self._expired
        units, mode, side = self.units, self.mode, self.side
        most, pwm = table["pwm_limit"], table["goal_pwm"]
        row[Command.MODE] = float(_MODES[mode][0])
        row[Command.TORQUE_LIMIT] = (most if mode is OperatingMode.PWM else min(abs(pwm), most)) / units.full_scale
        row[Command.DUTY] = 0.0 if stopped else side * pwm / units.full_scale
        row[Command.CURRENT] = table.get("goal_current") * 1e-3
        row[Command.ACCELERATION] = approach.acceleration
        if mode not in POSITION_MODES:
            row[Command.GOAL] = row[Command.SPEED] = 0.0
        if mode is OperatingMode.VELOCITY:
            row[Command.SPEED] = side * table["goal_velocity"] * units.speed
            count = units.full_scale * units.speed  # of velocity: KvP/128 and, in each run, KvI/65536 counts of duty
            row[Command.SPEED_P] = table["velocity_p_gain"] / 128 / count
            row[Command.SPEED_I] = table["velocity_i_gain"] / 65536 / count * _LOOP_RATE
        elif mode in POSITION_MODES:
            row[Command.CURRENT] = abs(row[Command.CURRENT])
            row[Command.FULL_CURRENT] = units.full_scale * 1e-3  # a count of the law's output is 1 mA (assumed)
        else:
            row[Command.CURRENT] *= 0.0 if stopped else side
        if self.stuck is not None and mode in POSITION_MODES:  # constant error: full push, by the integral at last
            ahead = math.copysign(1.0, row[Command.GOAL] - self._angle(self.stuck))
            row[Command.MODE] = float(Mode.CURRENT if mode is OperatingMode.CURRENT_BASED_POSITION else Mode.WHEEL_DUTY)
            row[Command.DUTY], row[Command.CURRENT] = ahead, ahead * row[Command.CURRENT]
