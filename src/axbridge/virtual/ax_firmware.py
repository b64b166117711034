"""What AX servos, and MX servos of Protocol 1.0, make of their registers.

Behaviour that differs between firmwares is a flag of the profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from axbridge.config.profile import FirmwareProfile
from axbridge.config.register_units import compliance_slope
from axbridge.config.registers import PRESENT, REALTIME_TICK, Address
from axbridge.errors import ErrorFlag
from axbridge.jit import plain
from axbridge.servo.columns import Command, Mode, State
from axbridge.servo.position_laws import compliance
from axbridge.units import FULL_SCALE, bits_to_signed, signed_to_bits
from axbridge.virtual.control_table import ControlTable
from axbridge.virtual.firmware import Firmware, SetGoal, Written

_TORQUE, _GOAL = int(Address.TORQUE_ENABLE), int(Address.GOAL_POSITION)
_POSITION, _MOVING = int(Address.PRESENT_POSITION), int(Address.MOVING)
_OUTSIDE = int(ErrorFlag.ANGLE_LIMIT)
_TURN = 2 * math.pi
_ACCELERATION_UNIT = math.radians(8.583)  # rad/s² per count of the MX goal acceleration
_COMPLIANCE = Command.MARGIN_CW, Command.MARGIN_CCW, Command.SLOPE_CW, Command.SLOPE_CCW, Command.PUNCH
_SPEED, _DUTY = int(State.SPEED), int(State.DUTY)
_VOLTAGE, _TEMPERATURE, _READING = int(State.VOLTAGE), int(State.TEMPERATURE), int(State.READING)
_BUSY = 0.1  # s after a goal in which a servo at rest still counts as moving: latency and stiction


class AxFirmware(Firmware):
    """Of one servo; see `Firmware`.

    Attributes:
        mode: Mode of the loop.
        multi_turn: Whether positions go beyond one turn: both limits 4095 on an MX.
        turned: Whole turns, rad, that the sensor does not tell from none, as the motor was commanded last.
    """

    EFFECTS: ClassVar = {
        "torque_enable": "_switch",
        "goal_position": "_new_goal",
        "moving_speed": "_new_speed",
        "torque_limit": "_new_limit",
    }

    def __init__(
        self, table: ControlTable, profile: FirmwareProfile, zero: int, state_at: Callable[[float], list[float]]
    ) -> None:
        super().__init__(table, profile, zero, state_at)
        self._behaviour = profile.behaviour
        self._counts_per_rad = 1 / profile.units.position
        self._speed_per_count = profile.units.speed
        self._counts = profile.units.counts
        self._has_tick = "realtime_tick" in table
        self._last_position = -1
        self._wheel_drive = False  # driven in wheel mode although Torque Enable reads 0
        self._busy_until = 0.0
        self.turned = 0.0
        self.configure()

    refreshed = _POSITION, _MOVING, REALTIME_TICK + 2

    def begin(self, time: float) -> None:
        """See `Firmware.begin`: the goal is where the shaft is."""
        self.refresh(time)
        self._wheel_drive = False
        self.table["goal_position"] = self.table["present_position"]

    def configure(self) -> None:
        """See `Firmware.configure`."""
        low, high = self.table["cw_angle_limit"], self.table["ccw_angle_limit"]
        wheel = low == high == 0
        self.mode = Mode.JOINT
        if wheel:
            self.mode = Mode.WHEEL_DUTY if self._behaviour.wheel_mode == "duty" else Mode.WHEEL_SPEED
        else:
            self._wheel_drive = False
        self.multi_turn = not wheel and self._behaviour.multi_turn and low == high == self._counts
        self.ranges = {} if self.multi_turn else {"goal_position": (0, self._counts)}
        if not wheel:
            self.ranges["moving_speed"] = (0, self.units.full_scale)
        goal = self.profile.registers["goal_position"]
        self.goal_range = (goal.minimum, goal.maximum) if self.multi_turn else (low, high)

    # -- writes ------------------------------------------------------------------------------------------------------

    def locked(self, address: int, length: int, *, own: bool) -> bool:  # noqa: ARG002
        """See `Firmware.locked`. Lock itself stays writable: 1 is all it takes."""
        if not self.table.get("lock"):
            return False
        lock = self.profile.registers["lock"]
        return (address, length) != (lock.address, lock.size) and self._behaviour.locks(address, length)

    def settle(self, values: dict[str, int]) -> tuple[int, dict[str, int] | None]:
        """See `Firmware.settle`: a goal outside the angle limits is clipped, or refused with all else."""
        goal, (low, high) = values.get("goal_position"), self.goal_range
        if goal is None or low <= goal <= high:
            return 0, values
        if self._behaviour.goal_outside_limits == "reject":
            return _OUTSIDE, None
        return _OUTSIDE, {**values, "goal_position": min(max(goal, low), high)}

    def _switch(self, _: str, written: Written) -> None:
        if not written.values["torque_enable"]:
            self._wheel_drive = False
        elif self.alarms.tripped:
            self.alarms.recover(torque_enable=True)
        rises = not written.before["torque_enable"] and self.table["torque_enable"]
        follows = self._behaviour.goal_follows_present_on_torque_on and self.mode is Mode.JOINT
        if rises and follows and "goal_position" not in written.values:
            self.copy_present(written.time)

    def _new_goal(self, _: str, written: Written) -> None:
        if self.mode is Mode.JOINT and self._behaviour.auto_torque_on_goal and self.alarms.may_start:
            self.table["torque_enable"] = 1
        self._busy_until = written.time + _BUSY

    def _new_speed(self, _: str, written: Written) -> None:
        if self.mode is not Mode.JOINT:
            if self._behaviour.auto_torque_in_wheel:
                self.table["torque_enable"] = 1
            self._wheel_drive = True
        self._busy_until = written.time + _BUSY

    def _new_limit(self, _: str, written: Written) -> None:
        if written.values["torque_limit"] and self.alarms.tripped:
            self.alarms.recover(torque_enable=False)

    def shut_down(self, flags: int) -> None:
        """See `Firmware.shut_down`."""
        if self._behaviour.shutdown_effect == "torque_enable_off":
            self._wheel_drive = False
        super().shut_down(flags)

    # -- readings ----------------------------------------------------------------------------------------------------

    @property
    def driven(self) -> bool:
        """See `Firmware.driven`."""
        return self.powered and (self._wheel_drive or self.table.data[_TORQUE] != 0)

    def position(self, state: list[float]) -> int:
        """See `Firmware.position`; may exceed 16 bits' sign in multi-turn mode."""
        if self.stuck is not None:
            return self.stuck
        reading = state[_READING]
        if self.multi_turn:
            count = round(self.zero + reading * self._counts_per_rad)
            divider = max(self.table.get("resolution_divider", 1), 1)
            return max(-32768, min(32767, count // divider + self.table.get("multi_turn_offset")))
        count = round(self.zero + (reading - self._turns(reading)) * self._counts_per_rad)
        return max(0, min(self._counts, count))  # in the dead zone the wiper touches neither end: the nearer one here

    def _turns(self, reading: float) -> float:
        """Whole turns, rad, that the sensor at `reading` (rad) does not tell: it sees the angle within one turn.

        They change in the middle of the dead zone. 0 where positions go beyond a turn.
        """
        if self.multi_turn:
            return 0.0
        middle = (0.5 * self._counts - self.zero) / self._counts_per_rad
        return round((reading - middle) / _TURN) * _TURN

    def refresh(self, time: float, state: list[float] | None = None, *, all_: bool = True) -> None:
        """See `Firmware.refresh`."""
        state = self.state_at(time) if state is None else state
        data, driven = self.table.data, self.driven
        position = round(self.zero + state[_READING] * self._counts_per_rad)
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
        data[_MOVING] = 1 if driven and self._moving(position, speed, time < self._busy_until) else 0
        if self._has_tick:
            self.table["realtime_tick"] = int(time * 1000) & 0x7FFF

    def present(self) -> tuple[int, int, int, int, int]:
        """See `Firmware.present`."""
        position, speed, load, voltage, temperature = PRESENT.unpack_from(self.table.data, _POSITION)
        return position, bits_to_signed(speed), bits_to_signed(load), voltage, temperature

    def _speed_bits(self, position: int, speed: int) -> int:
        """Present Speed for a speed in counts, with what this firmware gets wrong about it."""
        quirk = self._behaviour.speed_quirk
        if quirk == "none":
            return speed if 0 <= speed <= FULL_SCALE else signed_to_bits(speed)
        if quirk == "stale" and position == self._last_position:
            return self.table["present_speed"]
        if quirk == "garbage_high_bits" and speed and self.mode is not Mode.JOINT:
            return signed_to_bits(speed) | 0x0800
        return signed_to_bits(speed)

    def _moving(self, position: int, speed: int, busy: bool) -> bool:
        """Whether the servo is on its way: away from the goal, and turning or about to."""
        if speed == 0 and not busy:
            return False
        table = self.table
        if self.mode is not Mode.JOINT:
            return speed != 0 and bits_to_signed(table["moving_speed"]) != 0
        error = table["goal_position"] - position
        return abs(error) > table.get("ccw_compliance_margin" if error > 0 else "cw_compliance_margin", 1)

    # -- the motor ---------------------------------------------------------------------------------------------------

    def command(self, reading: float, *, driven: bool) -> list[float]:
        """See `Firmware.command`. A goal is an angle within the turn in which the sensor sees the shaft."""
        table, units, mode = self.table, self.units, self.mode
        self.turned = self._turns(reading) if mode is Mode.JOINT and self.stuck is None else 0.0
        speed = table["moving_speed"]
        goal = table["goal_position"]
        if self.multi_turn:
            goal = (goal - table.get("multi_turn_offset")) * max(table.get("resolution_divider", 1), 1)
        row = [0.0] * len(Command)
        row[Command.TORQUE] = 1.0 if driven and table["torque_limit"] else 0.0
        row[Command.MODE] = float(mode)
        row[Command.GOAL] = (goal - self.zero) * units.position + self.turned
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
        if self.stuck is not None and mode is Mode.JOINT:  # it pushes for ever, by the compliance law; without, fully
            error = row[Command.GOAL] - (self.stuck - self.zero) * units.position
            row[Command.MODE] = float(Mode.WHEEL_DUTY)
            row[Command.DUTY] = plain(compliance)(error, *(row[column] for column in _COMPLIANCE))
        return row

    # -- a controller's step -----------------------------------------------------------------------------------------

    def steer(self, address: int, data: bytes, time: float, set_goal: SetGoal) -> bool:
        """See `Firmware.steer`; not without torque, for wheels and several turns, and with a faulty sensor."""
        if address != _GOAL or len(data) != 4 or self.mode is not Mode.JOINT or self.multi_turn or not self.plain:
            return False
        goal, speed = data[0] | data[1] << 8, data[2] | data[3] << 8
        registers, (low, high) = self.table.data, self.goal_range
        if not low <= goal <= high or speed > self.units.full_scale:
            return False
        self._busy_until = time + _BUSY
        if registers[_GOAL : _GOAL + 4] != data:  # else the motor has this goal already, or will have it first
            registers[_GOAL : _GOAL + 4] = data
            set_goal((goal - self.zero) * self.units.position + self.turned, speed * self.units.speed, time)
        return True

    @property
    def plain(self) -> bool:
        """Whether it is driven and no fault changes its sensors, so that a control cycle may take a short cut."""
        sound = self.stuck is None and self.hot is None and self._behaviour.speed_quirk == "none"
        return sound and self.driven
