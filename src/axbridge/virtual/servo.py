"""The virtual servo of Protocol 1.0: packets, registers with their side effects.

Behaviour that differs between firmwares is a flag of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping

from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.v1 import encode
from axbridge.config.instructions import Instruction
from axbridge.config.registers import EEPROM_END, PRESENT, REALTIME_TICK, Address
from axbridge.errors import ErrorFlag
from axbridge.servo.columns import Mode, State
from axbridge.units import baud_of
from axbridge.virtual.alarms import Alarms
from axbridge.virtual.any_servo import AnyServo, Status
from axbridge.virtual.registers import Gauges, drive_mode, loop_command, stuck_loop

_RANGE, _ANGLE = int(ErrorFlag.RANGE), int(ErrorFlag.ANGLE_LIMIT)
_CHECKSUM, _INSTRUCTION = int(ErrorFlag.CHECKSUM), int(ErrorFlag.INSTRUCTION)
_LEVEL, _TORQUE, _GOAL = map(int, (Address.STATUS_RETURN_LEVEL, Address.TORQUE_ENABLE, Address.GOAL_POSITION))
_GOAL_END = _GOAL + 4  # goal and speed
_PRESENT = int(Address.PRESENT_POSITION)
_REFRESHED_END = REALTIME_TICK + 2  # of the registers that follow the motor
_MOVING = int(Address.MOVING)
_READING = int(State.READING)
_BUSY = 0.1  # s after a goal in which a servo at rest still counts as moving: latency and stiction


class VirtualServo(AnyServo):
    """One servo of Protocol 1.0."""

    protocol = 1

    def _build(self) -> None:
        self._wheel_drive = False  # driven in wheel mode although Torque Enable reads 0
        self._busy_until = 0.0
        self._turned = 0.0  # rad: whole turns of the shaft that its sensor does not tell
        self.gauges: Gauges = Gauges(self.table, self.profile, self.zero)
        self.alarms = Alarms(self.profile, self.table, self.gauges)

    def _begin(self, time: float) -> None:
        """The goal is where the shaft is."""
        self._refresh(time)
        self._wheel_drive = False
        self.table["goal_position"] = self.table["present_position"]

    # -- packets -------------------------------------------------------------------------------------------------

    def handle(self, packet: Packet, time: float) -> Status | None:
        """See `AnyServo.handle`."""
        broadcast = packet.id == BROADCAST
        if not self.powered or not (broadcast or packet.id == self.id):
            return None
        level = self.table.data[_LEVEL]
        if not packet.intact:
            if broadcast or level < 2 or self.profile.behaviour.bad_checksum == "silent":
                return None
            return self._status(self.id, _CHECKSUM, b"", Instruction.PING)
        code = packet.code
        if code == Instruction.READ:
            return None if broadcast or level < 1 else self._read(packet.params, time)
        if code == Instruction.PING:
            if broadcast and self.profile.behaviour.broadcast_ping == "ignore":
                return None
            return self._status(self.id, 0, b"", Instruction.PING)
        if code == Instruction.BULK_READ and broadcast and code in self._known:
            return self._bulk_read(packet.params, time) if level >= 1 else None
        answer = (self.id, self.alarms.bits, self._return_delay)
        error = self._execute(code, packet.params, time, broadcast)
        if error is None or broadcast or level < 2:
            return None
        id_, alarms, return_delay = answer
        written = max(len(packet.params) - 1, 0) if code in {Instruction.WRITE, Instruction.REG_WRITE} else 0
        delay = self._delays.get(code, self._delays[Instruction.WRITE])
        delay += written * self.profile.timing.reply_us_per_byte * 1e-6 + return_delay
        return Status(encode(id_, error | alarms), delay)

    def read_delay(self, address: int, length: int) -> float | None:
        """See `AnyServo.read_delay`."""
        if self.table.data[_LEVEL] < 1 or address < 0 or length < 0 or address + length > self.table.size:
            return None
        return self._delays[Instruction.READ] + self._return_delay

    def take_block(self, address: int, data: bytes, time: float) -> None:
        """Carry out its part of a SYNC_WRITE that ended at `time` (s); never answered."""
        if not (address == _GOAL and self._steer(data, time)):
            self._write(address, data, time)

    def _status(self, id: int, error: int, params: bytes, code: Instruction) -> Status:
        return Status(encode(id, error | self.alarms.bits, params), self._delays[code] + self._return_delay)

    def _read(self, params: bytes, time: float) -> Status | None:
        if len(params) != 2:
            return self._status(self.id, self._short, b"", Instruction.READ)
        address, length = params
        data = self.peek(address, length, time)
        if len(data) < length:
            choice = self.profile.behaviour.out_of_table
            if choice == "silent":
                return None
            if choice == "reply_0x08_no_params":
                return self._status(self.id, _RANGE, b"", Instruction.READ)
            data = data.ljust(length, b"\0")
        return self._status(self.id, 0, data, Instruction.READ)

    def peek(self, address: int, length: int, time: float, state: list[float] | None = None) -> bytes:
        """See `AnyServo.peek`."""
        end = address + length
        if address < _REFRESHED_END and end > _PRESENT:
            self._refresh(time, state, all_=end > _MOVING)
        return bytes(self.table.data[address:end])

    def present(self, time: float) -> tuple[int, int, int, int, int]:
        """See `AnyServo.present`."""
        return PRESENT.unpack(self.peek(_PRESENT, PRESENT.size, time))

    def _bulk_read(self, params: bytes, time: float) -> Status | None:
        """``00, (length, id, address) …``: each answers after the one listed before it."""
        listed = [params[i : i + 3] for i in range(1, len(params) - 2, 3)]
        for place, (length, id_, address) in enumerate(listed):
            if id_ == self.id:
                status = self._read(bytes((address, length)), time)
                return status and status._replace(turn=tuple(block[1] for block in listed[:place]))
        return None

    def _execute(self, code: int, params: bytes, time: float, broadcast: bool) -> int | None:
        """Carry out an instruction that is answered without data; return its error bits, None for silence."""
        if code not in self._known or code in {Instruction.SYNC_WRITE, Instruction.BULK_READ}:
            return _INSTRUCTION
        if code == Instruction.WRITE:
            return self._write(params[0], params[1:], time) if len(params) > 1 else self._short
        if code == Instruction.REG_WRITE:
            return self._register(params)
        if code == Instruction.ACTION:
            return self._action(time)
        if broadcast:
            return None  # nobody resets or reboots on a broadcast
        if code == Instruction.REBOOT:
            self.power_cycle(time)
            self.deafness, self.deaf_until = self.profile.timing.boot_ms * 1e-3, time
            return 0
        return self._factory_reset(time)

    @property
    def _short(self) -> int:
        return _INSTRUCTION if self.profile.behaviour.short_instruction == "reply_0x40" else _RANGE

    def _register(self, params: bytes) -> int | None:
        if len(params) < 2:
            return self._short
        error, values = self._checked(params[0], params[1:])
        if values is not None:
            self._registered = (params[0], params[1:])
            self.table["registered_instruction"] = 1
        return error

    def _action(self, time: float) -> int:
        if (registered := self._take_registered()) is None:
            return _INSTRUCTION
        self._write(*registered, time)
        return 0

    def _factory_reset(self, time: float) -> int | None:
        if self.profile.behaviour.reset_0x06 == "ignore":
            return None
        self.table.factory_reset()
        self.power_cycle(time)
        self.deafness, self.deaf_until = EEPROM_END * self.profile.timing.eeprom_deaf_us_per_byte * 1e-6, time
        return 0

    # -- registers --------------------------------------------------------------------------------------------------

    def _checked(self, address: int, data: bytes) -> tuple[int | None, dict[str, int] | None]:
        """Error bits (None: silence) and the values to set (None: nothing is set)."""
        if address + len(data) > self.table.size:
            return (None if self.profile.behaviour.out_of_table == "silent" else _RANGE), None
        values = self.table.parse(address, data, self._limits)
        if values is None:
            return _RANGE, None
        goal = values.get("goal_position")
        if goal is None or self._goal_low <= goal <= self._goal_high:
            return 0, values
        if self.profile.behaviour.goal_outside_limits == "reject":
            return _ANGLE, None
        return _ANGLE, {**values, "goal_position": min(max(goal, self._goal_low), self._goal_high)}

    def _write(self, address: int, data: bytes, time: float) -> int | None:
        error, values = self._checked(address, data)
        if values is not None:
            before = self.table.data[address:EEPROM_END]
            self._apply(values, time)
            if before:
                self._burn(before, self.table.data[address : min(address + len(data), EEPROM_END)])
        return error

    def _steer(self, data: bytes, time: float) -> bool:
        """Take goal and speed as `_apply` would, but quickly: a control cycle writes nothing else.

        False, and nothing is done, for other registers, without torque, for wheels and several turns, and for a value
        that must be refused.
        """
        if len(data) != 4:
            return False
        goal, speed = data[0] | data[1] << 8, data[2] | data[3] << 8
        registers, units = self.table.data, self._units
        if self.special or not self._plain_joint:
            return False
        if not self._goal_low <= goal <= self._goal_high or speed > units.full_scale:
            return False
        self._busy_until = time + _BUSY
        if registers[_GOAL:_GOAL_END] == data:
            return True  # the motor has this goal already, or will have it first
        registers[_GOAL:_GOAL_END] = data
        angle = (goal - self.zero) * units.position + self._turned
        self._motors.set_goal(self.row, angle, speed * units.speed, time)
        return True

    def _apply(self, values: Mapping[str, int], time: float) -> None:
        """Store checked values and let them take effect."""
        table = self.table
        behaviour = self.profile.behaviour
        was_on = table["torque_enable"]
        for name, value in values.items():
            table[name] = value
        wheel = self._mode is not Mode.JOINT
        if "torque_enable" in values:
            if not values["torque_enable"]:
                self._wheel_drive = False
            elif self.alarms.tripped:
                self.alarms.recover(torque_enable=True)
            if not was_on and table["torque_enable"] and behaviour.goal_follows_present_on_torque_on:
                self._follow_present(values, time)
        if "goal_position" in values and not wheel and behaviour.auto_torque_on_goal and self.alarms.may_start:
            table["torque_enable"] = 1
        if wheel and "moving_speed" in values:
            if behaviour.auto_torque_in_wheel:
                table["torque_enable"] = 1
            self._wheel_drive = True
        if values.get("torque_limit") and self.alarms.tripped:
            self.alarms.recover(torque_enable=False)
        if "goal_position" in values or "moving_speed" in values:
            self._busy_until = time + _BUSY
        if any(self.profile.registers[name].address < EEPROM_END for name in values):
            self._configure()
        self._push(time)

    def _follow_present(self, values: Mapping[str, int], time: float) -> None:
        if "goal_position" not in values and self._mode is Mode.JOINT:
            self._refresh(time)
            self.table["goal_position"] = self.table["present_position"]

    def _configure(self) -> None:
        """Take over what the EEPROM area says."""
        table = self.table
        self.id = table["id"]
        self.baud = baud_of(table["baud_rate"], self.profile.units_name)
        self.alarms.configure()
        self._return_delay = table["return_delay_time"] * self.profile.timing.return_delay_us_per_unit * 1e-6
        mode, multi_turn = drive_mode(table, self.profile)
        if mode is Mode.JOINT:
            self._wheel_drive = False
        self._mode = self.gauges.mode = mode
        self.gauges.multi_turn = multi_turn
        self._plain_joint = mode is Mode.JOINT and not multi_turn
        counts = self.profile.units.counts
        if multi_turn:
            goal = self.profile.registers["goal_position"]
            self._goal_low, self._goal_high = goal.minimum, goal.maximum
        else:
            self._goal_low, self._goal_high = table["cw_angle_limit"], table["ccw_angle_limit"]
        self._limits = {} if multi_turn else {"goal_position": (0, counts)}
        if mode is Mode.JOINT:
            self._limits["moving_speed"] = (0, self.profile.units.full_scale)
        self.changed()

    # -- motor and alarms ----------------------------------------------------------------------------------------

    @property
    def driven(self) -> bool:
        """Whether the motor is driven."""
        return self.powered and (self._wheel_drive or self.table.data[_TORQUE] != 0)

    @property
    def special(self) -> bool:
        """Whether a control cycle may take no short cut with it: it has no torque, or a fault changes its sensors.

        It is worked out at each call, so that no fault has to keep it up to date.
        """
        gauges = self.gauges
        sound = gauges.stuck is None and gauges.hot is None and gauges.quirk == "none"
        return not (sound and self.powered and (self.table.data[_TORQUE] != 0 or self._wheel_drive))

    def _push(self, time: float) -> None:
        """Hand the registers to the motor. A goal is an angle within the turn in which the sensor sees the shaft."""
        sound = self._mode is Mode.JOINT and self.gauges.stuck is None
        self._turned = self.gauges.turned(float(self._motors.state[self.row, _READING])) if sound else 0.0
        command = loop_command(self.table, self.profile, self.zero, driven=self.driven, turned=self._turned)
        if self.gauges.stuck is not None:
            command = stuck_loop(command, (self.gauges.stuck - self.zero) * self.profile.units.position)
        self._motors.set_command(self.row, command, time)

    def _refresh(self, time: float, state: list[float] | None = None, *, all_: bool = True) -> None:
        """Write the present registers, from a row of the state array: that of `time` when it is not given."""
        state = self._state_at(time) if state is None else state
        self.gauges.refresh(state, time, self.driven, time < self._busy_until, all_=all_)

    def _shut_down(self, flags: int, time: float) -> None:
        if self.profile.behaviour.shutdown_effect == "torque_enable_off":
            self._wheel_drive = False
        super()._shut_down(flags, time)
