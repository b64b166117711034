"""The virtual servo of Protocol 2.0: the X series, and the MX with its newer firmware.

What the e-manual leaves open is assumed here, and docs/x-series.md lists it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from axbridge.bus.protocols.packet import BITS_PER_BYTE, BROADCAST, Packet
from axbridge.bus.protocols.v2 import ALERT, CLEAR_TURNS, MAX_ID, Block, Scope, encode_status
from axbridge.config.instructions import Instruction
from axbridge.config.profile import Area
from axbridge.config.registers import OperatingMode, XAddress
from axbridge.servo.columns import State
from axbridge.units import baud_of
from axbridge.virtual.alarms import HardwareErrors
from axbridge.virtual.any_servo import AnyServo, Status
from axbridge.virtual.framing import reads_of
from axbridge.virtual.x_registers import Approach, DriveMode, XGauges, loop_command

# Error numbers of a status packet.
_RESULT, _INSTRUCTION, _RANGE, _LENGTH, _LIMIT, _ACCESS = 1, 2, 4, 5, 6, 7
_LEVEL, _TORQUE = int(XAddress.STATUS_RETURN_LEVEL), int(XAddress.TORQUE_ENABLE)
_GOALS = {"goal_pwm", "goal_current", "goal_velocity", "goal_position"}
_GOAL_OF = {
    OperatingMode.CURRENT: "goal_current",
    OperatingMode.VELOCITY: "goal_velocity",
    OperatingMode.POSITION: "goal_position",
    OperatingMode.EXTENDED_POSITION: "goal_position",
    OperatingMode.CURRENT_BASED_POSITION: "goal_position",
    OperatingMode.PWM: "goal_pwm",
}
_LIMITS = {"goal_pwm": "pwm_limit", "goal_current": "current_limit", "goal_velocity": "velocity_limit"}
_RESET_BY_MODE = (
    "velocity_i_gain", "velocity_p_gain", "position_d_gain", "position_i_gain", "position_p_gain",
    "feedforward_2nd_gain", "feedforward_1st_gain",
    "profile_acceleration", "profile_velocity", "goal_pwm", "goal_current", "goal_velocity",
)  # fmt: skip
_STORE, _RESTORE = b"\x01CTRL", b"\x02CTRL"
_WATCHDOG_UNIT = 0.02  # s
_GAP = 3  # bytes of silence for each id that does not answer a broadcast ping


class XServo(AnyServo):
    """One servo of Protocol 2.0."""

    protocol = 2

    def _build(self) -> None:
        pairs, registers = re.compile(r"indirect_data_(\d+)"), self.profile.registers
        self._pointers = {  # address of a byte of indirect data -> that of the register that says what it stands for
            register.address: registers[f"indirect_address_{found[1]}"].address
            for name, register in registers.items()
            if (found := pairs.fullmatch(name))
        }
        self._approach = Approach()
        self._fed = 0.0  # when the latest packet came
        self._backup = b""
        self.gauges: XGauges = XGauges(self.table, self.profile, self.zero)
        self.alarms = HardwareErrors(self.profile, self.table, self.gauges)

    def _begin(self, time: float) -> None:
        """RAM from the backup where it is asked for; the position is within a turn, and the goal is there."""
        table, startup = self.table, self.table.get("startup_configuration")
        if startup & 2 and self._backup:
            ram = self.profile.eeprom_end
            table.data[ram:] = self._backup[ram:]
        if self._backup:
            table["backup_ready"] = 1
        table["torque_enable"] = startup & 1
        table["registered_instruction"] = 0
        self._approach, self._fed = Approach(), time
        self.gauges.configure()
        state = self._state_at(time)
        self.gauges.forget_turns(state)
        self._refresh(time, state)
        table["goal_position"] = table["present_position"]

    @property
    def ids(self) -> tuple[int, ...]:
        """Its own, and the secondary id that it shares with others."""
        second = self.table["secondary_shadow_id"]
        return (self.id,) if second > MAX_ID or second == self.id else (self.id, second)

    # -- packets -------------------------------------------------------------------------------------------------

    def handle(self, packet: Packet, time: float) -> Status | None:
        """See `AnyServo.handle`. A damaged packet is nothing to it."""
        broadcast, own = packet.id == BROADCAST, packet.id == self.id
        if not self._listens or not packet.intact or packet.status or not (broadcast or packet.id in self.ids):
            return None
        self.feed(time)
        code, params, level = packet.code, packet.params, self.table.data[_LEVEL]
        if code == Instruction.PING:
            return self._ping(broadcast=broadcast) if broadcast or own else None
        if code == Instruction.READ:
            return self._status(*self._read(params, time), Instruction.READ) if own and level else None
        if code in {Instruction.SYNC_READ, Instruction.BULK_READ} and broadcast and code in self._known:
            return self._answer_in_turn(packet, time) if level else None
        answer = self._status(0, b"", code if code in self._delays else Instruction.WRITE)  # as it is before
        error = self._execute(code, params, time, broadcast=broadcast, own=own)
        if error is None or not own or level < 2:
            return None
        return answer._replace(frame=encode_status(packet.id, answer.frame[8] | error))

    def take_block(self, address: int, data: bytes, time: float) -> None:
        """See `AnyServo.take_block`."""
        if self._listens:
            self._write(address, data, time)

    def feed(self, time: float) -> None:
        """See `AnyServo.feed`: what the Bus Watchdog waits for."""
        self._look_at_watchdog(time)
        self._fed = time

    def fast_block(self, address: int, length: int, time: float) -> tuple[Block, float] | None:
        """See `AnyServo.fast_block`."""
        if not self._listens or not self.table.data[_LEVEL] or Instruction.FAST_SYNC_READ not in self._known:
            return None
        error, data = self._data(address, length, time)
        return Block(self.id, error | self._alert, data.ljust(length, b"\0")), self._delay(Instruction.READ)

    def peek(self, address: int, length: int, time: float, state: list[float] | None = None) -> bytes:
        """See `AnyServo.peek`; indirect data is what it stands for."""
        self._refresh(time, state)
        registers = self.table.data
        data = registers[address : address + length]
        for place in self._pointers.keys() & range(address, address + length):
            data[place - address] = registers[self._target(place)]
        return bytes(data)

    def present(self, time: float) -> tuple[int, int, int, int, int]:
        """See `AnyServo.present`; the load is the current where there is such a register."""
        self._refresh(time)
        table = self.table
        load = table["present_current"] if "present_current" in table else table["present_load"]
        return (
            table["present_position"], table["present_velocity"], load, table["present_input_voltage"],
            table["present_temperature"],
        )  # fmt: skip

    @property
    def _listens(self) -> bool:
        """Whether it hears Protocol 2.0: with power, and unless Protocol Type says otherwise."""
        return self.powered and self.table["protocol_type"] == self.protocol

    @property
    def _alert(self) -> int:
        return ALERT if self.alarms.bits else 0

    def _delay(self, code: int) -> float:
        return self._delays[Instruction(code)] + self._return_delay

    def _status(self, error: int, params: bytes, code: int) -> Status:
        return Status(encode_status(self.id, error | self._alert, params), self._delay(code))

    def _ping(self, *, broadcast: bool) -> Status:
        table = self.table
        about = table["model_number"].to_bytes(2, "little") + bytes((table["firmware_version"],))
        status = self._status(0, about, Instruction.PING)
        if not broadcast:
            return status
        return status._replace(turn=tuple(range(self.id)), gap=_GAP * BITS_PER_BYTE / self.baud)

    def _read(self, params: bytes, time: float) -> tuple[int, bytes]:
        if len(params) != 4:
            return _LENGTH, b""
        return self._data(int.from_bytes(params[:2], "little"), int.from_bytes(params[2:], "little"), time)

    def _data(self, address: int, length: int, time: float) -> tuple[int, bytes]:
        """Error number and register bytes. Between registers there are zeros; where there are none is nothing."""
        if address + length > self.table.size or not any(span.name for span in self.table.spans(address, length)):
            return _ACCESS, b""
        return 0, self.peek(address, length, time)

    def _answer_in_turn(self, packet: Packet, time: float) -> Status | None:
        before: list[int] = []
        for id_, address, length in reads_of(packet):
            if id_ == self.id:
                status = self._status(*self._data(address, length, time), Instruction.READ)
                return status._replace(turn=tuple(before))
            before.append(id_)
        return None

    def _execute(self, code: int, params: bytes, time: float, *, broadcast: bool, own: bool) -> int | None:
        """Carry out an instruction that is answered without data; return its error number, None for silence."""
        if code not in self._known:
            return _INSTRUCTION
        if code == Instruction.WRITE:
            return self._write(int.from_bytes(params[:2], "little"), params[2:], time, own=own or broadcast)
        if code == Instruction.REG_WRITE:
            return self._register(params)
        if code == Instruction.ACTION:
            return self._action(time)
        if code == Instruction.REBOOT:
            self.power_cycle(time)
            self._boot(time)
            return 0
        if code == Instruction.FACTORY_RESET:
            return self._factory_reset(params, time, broadcast=broadcast)
        if code == Instruction.CLEAR:
            return self._clear(params, time)
        return self._keep(params, time) if code == Instruction.BACKUP else _INSTRUCTION

    def _boot(self, time: float) -> None:
        """Be deaf after the answer, for as long as it takes to start."""
        self.deafness, self.deaf_until = self.profile.timing.boot_ms * 1e-3, time

    def _register(self, params: bytes) -> int:
        error, values = self._checked(int.from_bytes(params[:2], "little"), params[2:], own=True)
        if values is not None:
            self._registered = int.from_bytes(params[:2], "little"), params[2:]
            self.table["registered_instruction"] = 1
        return error

    def _action(self, time: float) -> int:
        registered = self._take_registered()
        return _INSTRUCTION if registered is None else self._write(*registered, time)

    def _factory_reset(self, params: bytes, time: float, *, broadcast: bool) -> int | None:
        scope = params[0] if len(params) == 1 else 0
        if scope not in set(Scope):
            return _RANGE
        if broadcast and scope == Scope.ALL:
            return None  # all would have the same id
        kept = {"id": self.table["id"]} if scope != Scope.ALL else {}
        if scope == Scope.KEEP_ID_AND_BAUD:
            kept["baud_rate"] = self.table["baud_rate"]
        self.table.factory_reset()
        for name, value in kept.items():
            self.table[name] = value
        self.power_cycle(time)
        self._boot(time)
        return 0

    def _clear(self, params: bytes, time: float) -> int:
        """Forget the turns; the goal is where the shaft is, else it would turn them back."""
        if params != CLEAR_TURNS:
            return _RANGE
        self._refresh(time)
        if self.table["moving"]:
            return _RESULT
        self._forget_turns(time)
        self._push(time)
        return 0

    def _keep(self, params: bytes, time: float) -> int:
        """Control Table Backup: keep all registers, or take them back and start anew."""
        if params not in {_STORE, _RESTORE}:
            return _RANGE
        if self.table["torque_enable"] or (params == _RESTORE and not self._backup):
            return _RESULT
        if params == _STORE:
            self._backup = bytes(self.table.data)
            self.table["backup_ready"] = 1
            return 0
        self.table.data[:] = self._backup
        self.power_cycle(time)
        self._boot(time)
        return 0

    # -- registers -----------------------------------------------------------------------------------------------

    def _target(self, place: int) -> int:
        """The address that a byte of indirect data stands for."""
        pointer = self._pointers[place]
        return int.from_bytes(self.table.data[pointer : pointer + 2], "little")

    def _runs(self, address: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        """What a write goes to in the end: neighbouring bytes together."""
        if not self._pointers.keys() & range(address, address + len(data)):
            yield address, data
            return
        begin, run = -1, b""
        for place, byte in enumerate(data, address):
            target = self._target(place) if place in self._pointers else place
            if run and target != begin + len(run):
                yield begin, run
                run = b""
            begin, run = begin if run else target, run + bytes((byte,))
        yield begin, run

    def _checked(self, address: int, data: bytes, *, own: bool) -> tuple[int, dict[str, int] | None]:
        """Error number, and the values to set (None: nothing is set)."""
        values: dict[str, int] = {}
        if not data:
            return _LENGTH, None
        for begin, run in self._runs(address, data):
            for name, offset, size, whole, writable, low, high, signed in self.table.spans(begin, len(run)):
                if not writable or not self._unlocked(name, own=own):
                    return _ACCESS, None
                if not whole:
                    return _LENGTH, None
                value = int.from_bytes(run[offset : offset + size], "little", signed=signed)
                if not low <= value <= high or not self._allowed(name, value):
                    return _RANGE, None
                if not self._within_limits(name, value):
                    return _LIMIT, None
                if name == "torque_enable" and value and self.alarms.tripped:
                    return _RESULT, None  # nothing but a reboot brings it back
                values[name] = value
        return 0, values

    def _unlocked(self, name: str, *, own: bool) -> bool:
        """Whether a register may be written now: EEPROM is locked while torque is on, and by the secondary id."""
        return self.profile.registers[name].area is Area.RAM or (own and not self.table.data[_TORQUE])

    def _allowed(self, name: str, value: int) -> bool:
        if name == "operating_mode":
            return value in self.profile.operating_modes
        if name in _GOALS or (name == "bus_watchdog" and value):
            return self.table["bus_watchdog"] >= 0  # after it has expired, until 0 is written to it
        return True

    def _within_limits(self, name: str, value: int) -> bool:
        table = self.table
        if name == "goal_position":
            if self.gauges.mode is not OperatingMode.POSITION:
                return True
            return table["min_position_limit"] <= value <= table["max_position_limit"]
        return name not in _LIMITS or abs(value) <= table[_LIMITS[name]]

    def _write(self, address: int, data: bytes, time: float, *, own: bool = True) -> int:
        error, values = self._checked(address, data, own=own)
        if values is not None:
            eeprom = self.profile.eeprom_end
            before = self.table.data[address:eeprom]
            self._apply(values, time)
            if before:
                self._burn(before, self.table.data[address : min(address + len(data), eeprom)])
        return error

    def _apply(self, values: Mapping[str, int], time: float) -> None:
        """Store checked values and let them take effect."""
        table = self.table
        was_on, mode = table["torque_enable"], table["operating_mode"]
        for name, value in values.items():
            table[name] = value
        if any(self.profile.registers[name].area is Area.EEPROM for name in values):
            self._configure()
        if table["operating_mode"] != mode:
            self._change_mode(time)
        if table["drive_mode"] & DriveMode.TORQUE_ON_BY_GOAL and _GOAL_OF[self.gauges.mode] in values:
            table["torque_enable"] = int(not self.alarms.tripped)
        if table["torque_enable"] and not was_on:
            self._switch_on(values, time)
        if "goal_position" in values:
            self._plan(time)
        elif self.gauges.mode is OperatingMode.VELOCITY and "goal_velocity" in values:
            self._plan_speed(time)
        self._push(time)

    def _change_mode(self, time: float) -> None:
        """Another operating mode: what was set for the old one starts anew."""
        registers, table = self.profile.registers, self.table
        for name in _RESET_BY_MODE:
            if name in table:
                source = registers[name].initial
                table[name] = source if isinstance(source, int) else table[source.removeprefix("@")]
        self._forget_turns(time)

    def _switch_on(self, values: Mapping[str, int], time: float) -> None:
        """Torque comes on: the goal is where the shaft is, unless it was given in the same packet."""
        self._fed = time
        goal = values.get("goal_position")
        if self.gauges.mode is OperatingMode.POSITION:
            self._forget_turns(time)
        self._refresh(time)
        self.table["goal_position"] = self.table["present_position"] if goal is None else goal

    def _forget_turns(self, time: float) -> None:
        state = self._state_at(time)
        self.gauges.forget_turns(state)
        self._refresh(time, state)
        self.table["goal_position"] = self.table["present_position"]
        self._approach = Approach()

    def _plan(self, time: float) -> None:
        """A new goal: the profile registers act from here on."""
        state = self._state_at(time)
        begin = state[State.REFERENCE] if self.driven else state[State.READING]
        distance = self.gauges.angle(self.table["goal_position"]) - begin
        self._approach = Approach.of(self.table, self.profile, distance)

    def _plan_speed(self, time: float) -> None:
        """A new goal velocity: it is neared by Profile Acceleration."""
        table, gauges = self.table, self.gauges
        change = gauges.side * table["goal_velocity"] * self._units.speed - self._state_at(time)[State.REFERENCE_SPEED]
        self._approach = Approach.to_speed(table, change)

    def _configure(self) -> None:
        """Take over what the EEPROM area says."""
        table = self.table
        self.id = table["id"]
        self.baud = baud_of(table["baud_rate"], self.profile.units_name)
        self.alarms.configure()
        self.gauges.configure()
        self._return_delay = table["return_delay_time"] * self.profile.timing.return_delay_us_per_unit * 1e-6
        self.changed()

    # -- motor and alarms ----------------------------------------------------------------------------------------

    @property
    def driven(self) -> bool:
        """Whether the motor is driven."""
        return self.powered and self.table.data[_TORQUE] != 0

    def _push(self, time: float) -> None:
        command = loop_command(
            self.table, self.profile, self.gauges, driven=self.driven, approach=self._approach, stopped=self._expired
        )
        self._motors.set_command(self.row, command, time)

    def _refresh(self, time: float, state: list[float] | None = None) -> None:
        """Write the present registers, from a row of the state array: that of `time` when it is not given."""
        state = self._state_at(time) if state is None else state
        self.gauges.refresh(state, time, driven=self.driven, errors=self.alarms.bits, approach=self._approach)

    def monitor(self, state: list[float], time: float) -> None:
        """See `AnyServo.monitor`; the Bus Watchdog watches, too."""
        super().monitor(state, time)
        self._look_at_watchdog(time)

    @property
    def _expired(self) -> bool:
        """Whether the Bus Watchdog has stopped it."""
        return self.table["bus_watchdog"] < 0

    def _look_at_watchdog(self, time: float) -> None:
        """Stop where no packet has come for too long. By the manual torque stays on: it holds where it is."""
        table = self.table
        period = table["bus_watchdog"]
        if period <= 0 or not self.driven or time - self._fed <= period * _WATCHDOG_UNIT:
            return
        self._refresh(time)
        table["bus_watchdog"] = -1
        table["profile_acceleration"] = table["profile_velocity"] = table["goal_velocity"] = 0
        table["goal_position"] = table["present_position"]
        self._approach = Approach()
        self._push(time)
