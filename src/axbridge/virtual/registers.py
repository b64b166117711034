"""Registers to the loop's commands, and the loop's state to the present registers."""

from __future__ import annotations

import math

from axbridge.config.profile import FirmwareProfile
from axbridge.config.register_units import compliance_slope
from axbridge.config.registers import PRESENT, Address
from axbridge.jit import plain
from axbridge.servo.columns import Command, Mode, State
from axbridge.servo.position_laws import compliance
from axbridge.units import FULL_SCALE, bits_to_signed, signed_to_bits
from axbridge.virtual.control_table import ControlTable

_POSITION, _MOVING = int(Address.PRESENT_POSITION), int(Address.MOVING)
_TURN = 2 * math.pi
_ACCELERATION_UNIT = math.radians(8.583)  # rad/s² per count of the MX goal acceleration
_TORQUE, _MODE = Command.TORQUE, Command.MODE
_GOAL = int(Command.GOAL)
_COMPLIANCE = Command.MARGIN_CW, Command.MARGIN_CCW, Command.SLOPE_CW, Command.SLOPE_CCW, Command.PUNCH
_SPEED, _DUTY = int(State.SPEED), int(State.DUTY)
_VOLTAGE, _TEMPERATURE, _READING = int(State.VOLTAGE), int(State.TEMPERATURE), int(State.READING)


def drive_mode(table: ControlTable, profile: FirmwareProfile) -> tuple[Mode, bool]:
    """Mode of the loop, and whether positions go beyond one turn (both limits 4095 on an MX)."""
    low, high = table["cw_angle_limit"], table["ccw_angle_limit"]
    if low == high == 0:
        return (Mode.WHEEL_DUTY if profile.behaviour.wheel_mode == "duty" else Mode.WHEEL_SPEED), False
    return Mode.JOINT, profile.behaviour.multi_turn and low == high == profile.units.counts


def loop_command(
    table: ControlTable, profile: FirmwareProfile, zero: int, *, driven: bool, turned: float = 0.0
) -> list[float]:
    """One row of the command array from the registers.

    Args:
        table: The servo's registers.
        profile: Its model.
        zero: Count at 0 rad.
        driven: Whether the motor may be driven at all.
        turned: Whole turns that its sensor does not tell apart, rad: see `Gauges.turned`.
    """
    units = profile.units
    mode, multi_turn = drive_mode(table, profile)
    speed = table["moving_speed"]
    goal = table["goal_position"]
    if multi_turn:
        goal = (goal - table.get("multi_turn_offset")) * max(table.get("resolution_divider", 1), 1)
    row = [0.0] * len(Command)
    row[_TORQUE] = 1.0 if driven and table["torque_limit"] else 0.0
    row[_MODE] = float(mode)
    row[Command.GOAL] = (goal - zero) * units.position + turned
    row[Command.SPEED] = (bits_to_signed(speed) if mode is Mode.WHEEL_SPEED else speed) * units.speed
    row[Command.DUTY] = bits_to_signed(speed) / units.full_scale if mode is Mode.WHEEL_DUTY else 0.0
    row[Command.TORQUE_LIMIT] = table["torque_limit"] / units.full_scale
    row[Command.MARGIN_CW] = table.get("cw_compliance_margin") * units.position
    row[Command.MARGIN_CCW] = table.get("ccw_compliance_margin") * units.position
    row[Command.SLOPE_CW] = compliance_slope(table.get("cw_compliance_slope")) * units.position
    row[Command.SLOPE_CCW] = compliance_slope(table.get("ccw_compliance_slope")) * units.position
    row[Command.PUNCH] = table.get("punch") / units.full_scale
    row[Command.P_GAIN] = float(table.get("p_gain"))
    row[Command.I_GAIN] = float(table.get("i_gain"))
    row[Command.D_GAIN] = float(table.get("d_gain"))
    row[Command.ACCELERATION] = table.get("goal_acceleration") * _ACCELERATION_UNIT
    return row


def stuck_loop(row: list[float], reading: float) -> list[float]:
    """What the loop does when its position reads `reading` (rad) for ever: an open-loop duty by the compliance law.

    Wheel modes do not look at the position. A servo without compliance registers drives fully towards its goal.
    """
    if row[_MODE] != Mode.JOINT:
        return row
    law = (row[column] for column in _COMPLIANCE)
    row = row.copy()
    row[_MODE] = float(Mode.WHEEL_DUTY)
    row[Command.DUTY] = plain(compliance)(row[_GOAL] - reading, *law)
    return row


class Gauges:
    """Turns rows of the state array into the present registers of one servo.

    Attributes:
        mode: Mode of the loop; whoever changes the angle limits keeps it up to date.
        multi_turn: Whether positions go beyond one turn.
        stuck: Position count that the potentiometer reports whatever the shaft does; None = it works.
        quirk: What the firmware gets wrong about the speed: see `FirmwareProfile`.
        hot: Temperature reported instead of the simulated one, degC; None = none.
    """

    def __init__(self, table: ControlTable, profile: FirmwareProfile, zero: int) -> None:
        self._table = table
        self._profile = profile
        self._zero = zero
        self._counts_per_rad = 1 / profile.units.position
        self._speed_per_count = profile.units.speed
        self.quirk = profile.behaviour.speed_quirk
        self._counts = profile.units.counts
        self._has_tick = "realtime_tick" in table
        self._last_position = -1
        self.mode, self.multi_turn = drive_mode(table, profile)
        self.stuck: int | None = None
        self.hot: float | None = None

    def position(self, state: list[float]) -> int:
        """Present Position as the sensor gives it; may exceed 16 bits' sign in multi-turn mode."""
        if self.stuck is not None:
            return self.stuck
        reading = state[_READING]
        if self.multi_turn:
            count = round(self._zero + reading * self._counts_per_rad)
            divider = max(self._table.get("resolution_divider", 1), 1)
            return max(-32768, min(32767, count // divider + self._table.get("multi_turn_offset")))
        count = round(self._zero + (reading - self.turned(reading)) * self._counts_per_rad)
        return max(0, min(self._counts, count))  # in the dead zone the wiper touches neither end: the nearer one here

    def turned(self, reading: float) -> float:
        """Whole turns, rad, that the sensor at `reading` (rad) does not tell: it sees the angle within one turn.

        They change in the middle of the dead zone. 0 where positions go beyond a turn.
        """
        if self.multi_turn:
            return 0.0
        middle = (0.5 * self._counts - self._zero) / self._counts_per_rad
        return round((reading - middle) / _TURN) * _TURN

    def refresh(self, state: list[float], time: float, driven: bool, busy: bool, *, all_: bool = True) -> None:
        """Write the present registers.

        Args:
            state: Row of the state array.
            time: Now, s.
            driven: Whether the motor is driven.
            busy: Whether a motion was asked for so recently that it may not have begun.
            all_: Those beyond Present Temperature, too: Moving and the tick.
        """
        data = self._table.data
        position = round(self._zero + state[_READING] * self._counts_per_rad)
        if self.stuck is not None or not 0 <= position <= self._counts:
            position = self.position(state)
        speed = round(state[_SPEED] / self._speed_per_count)
        load = round(state[_DUTY] * 1023) if driven else 0
        data[_POSITION : _POSITION + PRESENT.size] = PRESENT.pack(
            position & 0xFFFF,
            self._speed_bits(position, speed),
            load if 0 <= load <= FULL_SCALE else signed_to_bits(load),
            max(0, min(255, round(state[_VOLTAGE] * 10))),
            max(0, min(255, round(state[_TEMPERATURE] if self.hot is None else self.hot))),
        )
        self._last_position = position
        if not all_:
            return
        data[_MOVING] = 1 if driven and self._moving(position, speed, busy) else 0
        if self._has_tick:
            self._table["realtime_tick"] = int(time * 1000) & 0x7FFF

    def _speed_bits(self, position: int, speed: int) -> int:
        """Present Speed for a speed in counts, with what this firmware gets wrong about it."""
        if self.quirk == "none":
            return speed if 0 <= speed <= FULL_SCALE else signed_to_bits(speed)
        if self.quirk == "stale" and position == self._last_position:
            return self._table["present_speed"]
        if self.quirk == "garbage_high_bits" and speed and self.mode is not Mode.JOINT:
            return signed_to_bits(speed) | 0x0800
        return signed_to_bits(speed)

    def _moving(self, position: int, speed: int, busy: bool) -> bool:
        """Whether the servo is on its way: away from the goal, and turning or about to."""
        if speed == 0 and not busy:
            return False
        table = self._table
        if self.mode is not Mode.JOINT:
            return speed != 0 and bits_to_signed(table["moving_speed"]) != 0
        error = table["goal_position"] - position
        return abs(error) > table.get("ccw_compliance_margin" if error > 0 else "cw_compliance_margin", 1)
