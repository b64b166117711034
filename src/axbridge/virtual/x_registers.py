"""Registers of the X series to the loop's commands, and the loop's state to the present registers.

Goals and readings are counts as the host sees them: turned round by Drive Mode, moved by Homing Offset, and without the
turns that the servo has forgotten. The loop knows the shaft's own angle.
"""

from __future__ import annotations

import math
import struct
from enum import IntFlag
from typing import NamedTuple

from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import POSITION_MODES, OperatingMode, XAddress
from axbridge.servo.columns import Command, Mode, State
from axbridge.units import RPM
from axbridge.virtual.control_table import ControlTable

_BLOCK = struct.Struct("<HBBhhiiiiHB")  # Realtime Tick to Present Temperature
_FIRST = int(XAddress.REALTIME_TICK)
_TURN = 4096  # counts
_SMALL_OFFSET = 1024  # Position Control Mode ignores a homing offset beyond it
_ACCELERATION = 214.577 * RPM / 60  # rad/s² per count of Profile Acceleration
_FEW = 12  # counts from the goal that count as arrived, about 1 degree: no manual gives a figure
_FAR = 200  # counts behind the trajectory that count as not following it: likewise
_RATE = 1000.0  # runs of the velocity loop in a second: no manual says so


class DriveMode(IntFlag):
    """Drive Mode(10)."""

    REVERSE = 0x01
    TIMED = 0x04
    TORQUE_ON_BY_GOAL = 0x08


_MODES = {
    OperatingMode.CURRENT: Mode.CURRENT,
    OperatingMode.VELOCITY: Mode.SPEED,
    OperatingMode.POSITION: Mode.JOINT,
    OperatingMode.EXTENDED_POSITION: Mode.JOINT,
    OperatingMode.CURRENT_BASED_POSITION: Mode.JOINT_CURRENT,
    OperatingMode.PWM: Mode.WHEEL_DUTY,
}


class Approach(NamedTuple):
    """How the trajectory nears the goal: what the profile registers made of it when the goal was written.

    Attributes:
        speed: rad/s; 0 = at once.
        acceleration: rad/s²; 0 = at once.
        shape: Bits 4 and 5 of Moving Status.
    """

    speed: float = 0.0
    acceleration: float = 0.0
    shape: int = 0

    @classmethod
    def of(cls, table: ControlTable, profile: FirmwareProfile, distance: float) -> Approach:
        """What the profile registers make of a goal `distance` rad away."""
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
        """What Profile Acceleration makes of a goal velocity that differs by `change` rad/s."""
        acceleration = table["profile_acceleration"]
        if table["drive_mode"] & DriveMode.TIMED:
            return cls(acceleration=abs(change) / (acceleration * 1e-3) if acceleration else 0.0)
        return cls(acceleration=acceleration * _ACCELERATION)


class XGauges:
    """Turns rows of the state array into the present registers of one servo, and its goal into an angle.

    Attributes:
        mode: Operating mode.
        stuck: Position count that the encoder reports whatever the shaft does; None = it works.
        hot: Temperature reported instead of the simulated one, degC; None = none.
    """

    def __init__(self, table: ControlTable, profile: FirmwareProfile, zero: int) -> None:
        self._table = table
        self._units = profile.units
        self._forgotten = 0  # counts: whole turns
        self._side, self._shift = 1, 0
        self._has_load = "present_load" in table
        self.mode = OperatingMode.POSITION
        self.stuck: int | None = None
        self.hot: float | None = None
        self.configure()
        self._mounted = self._side  # the shaft's angle grows with the position as the registers are now
        self._zero = self._side * (zero - self._shift)  # of the encoder

    def configure(self) -> None:
        """Take over modes and offset from the EEPROM area."""
        table = self._table
        self.mode = OperatingMode(table["operating_mode"])
        offset = table["homing_offset"]
        if self.mode is OperatingMode.POSITION and abs(offset) > _SMALL_OFFSET:
            offset = 0
        reverse = table["drive_mode"] & DriveMode.REVERSE
        self._side, self._shift = (-1, offset + _TURN - 1) if reverse else (1, offset)

    @property
    def side(self) -> int:
        """1, or -1 where directions are turned round since it was mounted."""
        return self._mounted * self._side

    def forget_turns(self, state: list[float]) -> None:
        """Let the position be the absolute one within a turn."""
        self._forgotten = self._raw(state[State.READING]) // _TURN * _TURN

    def position(self, state: list[float]) -> int:
        """Present Position."""
        return self._count(state[State.READING]) if self.stuck is None else self.stuck

    def angle(self, count: int) -> float:
        """The shaft's angle, rad, of a position as the host sees it."""
        encoder = self._side * (count - self._shift) + self._forgotten
        return self._mounted * (encoder - self._zero) * self._units.position

    def _raw(self, angle: float) -> int:
        return round(self._zero + self._mounted * angle / self._units.position)

    def _count(self, angle: float) -> int:
        return self._side * (self._raw(angle) - self._forgotten) + self._shift

    def refresh(self, state: list[float], time: float, *, driven: bool, errors: int, approach: Approach) -> None:
        """Write the present registers.

        Args:
            state: Row of the state array.
            time: Now, s.
            driven: Whether the motor is driven.
            errors: Hardware Error Status.
            approach: How the trajectory nears the goal.
        """
        table, units, side = self._table, self._units, self.side
        position, speed = self.position(state), side * round(state[State.SPEED] / units.speed)
        steers = driven and self.mode in POSITION_MODES
        planned = self._count(state[State.REFERENCE]) if steers else position
        ongoing = steers and planned != table["goal_position"]
        status = 0
        if steers:
            status = approach.shape | 0x02 * ongoing | 0x08 * (abs(planned - position) > _FAR)
            status |= abs(table["goal_position"] - position) <= _FEW
        ramp = (
            state[State.REFERENCE_SPEED]
            if driven and self.mode not in {OperatingMode.PWM, OperatingMode.CURRENT}
            else 0.0
        )
        if ongoing and approach.acceleration == 0.0:  # then the loop keeps no speed of its own
            ramp = math.copysign(approach.speed, self.angle(table["goal_position"]) - state[State.REFERENCE])
        load = state[State.DUTY] * units.full_load
        if not self._has_load:  # the supply's current, which flows during the on-time of the PWM alone, mA
            load = state[State.CURRENT] * abs(state[State.DUTY]) * 1e3
        temperature = state[State.TEMPERATURE] if self.hot is None else self.hot
        table.data[_FIRST : _FIRST + _BLOCK.size] = _BLOCK.pack(
            int(time * 1000) & 0x7FFF,
            ongoing or abs(speed) > table["moving_threshold"],
            status,
            side * round(state[State.DUTY] * units.full_scale) if driven else 0,
            side * round(load) if driven else 0,
            speed,
            position,
            side * round(ramp / units.speed),
            planned,
            round(state[State.VOLTAGE] / units.voltage),
            max(0, min(255, round(temperature))),
        )
        table["hardware_error_status"] = errors


def loop_command(
    table: ControlTable, profile: FirmwareProfile, gauges: XGauges, *, driven: bool, approach: Approach, stopped: bool
) -> list[float]:
    """One row of the command array from the registers.

    Args:
        table: The servo's registers.
        profile: Its model.
        gauges: Its own.
        driven: Whether the motor may be driven at all.
        approach: How the trajectory nears the goal.
        stopped: Whether the Bus Watchdog has stopped it.
    """
    units, mode, side = profile.units, gauges.mode, gauges.side
    most, pwm = table["pwm_limit"], table["goal_pwm"]
    row = [0.0] * len(Command)
    row[Command.TORQUE] = float(driven)
    row[Command.MODE] = float(_MODES[mode])
    row[Command.TORQUE_LIMIT] = (most if mode is OperatingMode.PWM else min(abs(pwm), most)) / units.full_scale
    row[Command.DUTY] = 0.0 if stopped else side * pwm / units.full_scale
    row[Command.CURRENT] = table.get("goal_current") * 1e-3
    row[Command.ACCELERATION] = approach.acceleration
    if mode is OperatingMode.VELOCITY:
        row[Command.SPEED] = side * table["goal_velocity"] * units.speed
        count = units.full_scale * units.speed  # of velocity: KvP/128 and, in each run, KvI/65536 counts of duty
        row[Command.SPEED_P] = table["velocity_p_gain"] / 128 / count
        row[Command.SPEED_I] = table["velocity_i_gain"] / 65536 / count * _RATE
    elif mode in POSITION_MODES:
        row[Command.GOAL] = gauges.angle(table["goal_position"])
        row[Command.SPEED] = approach.speed
        row[Command.P_GAIN] = float(table["position_p_gain"])
        row[Command.I_GAIN] = float(table["position_i_gain"])
        row[Command.D_GAIN] = float(table["position_d_gain"])
        row[Command.CURRENT] = abs(row[Command.CURRENT])
        row[Command.FULL_CURRENT] = units.full_scale * 1e-3  # a count of what the law asks for is 1 mA (assumed)
    else:
        row[Command.CURRENT] *= 0.0 if stopped else side
    if gauges.stuck is not None and mode in POSITION_MODES:  # the loop pushes for ever, by its integral at the latest
        ahead = math.copysign(1.0, row[Command.GOAL] - gauges.angle(gauges.stuck))
        row[Command.MODE] = float(Mode.CURRENT if mode is OperatingMode.CURRENT_BASED_POSITION else Mode.WHEEL_DUTY)
        row[Command.DUTY], row[Command.CURRENT] = ahead, ahead * row[Command.CURRENT]
    return row
