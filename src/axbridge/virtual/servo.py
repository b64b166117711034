"""The virtual servo: packets, power, and one path each for register writes and reads.

It does not depend on the line, and its only times are those of its own firmware. It has a control table and one row of
a bank of motors. Its protocol defines packets and error codes, its `Firmware` the effects of registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from axbridge.bus.protocols import v2
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.packet import BITS_PER_BYTE, BROADCAST, Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import FAMILIES, Instruction
from axbridge.servo.columns import State
from axbridge.sim.bank import Motors
from axbridge.virtual.alarms import AlarmLimits
from axbridge.virtual.ax_firmware import AxFirmware
from axbridge.virtual.control_table import ControlTable
from axbridge.virtual.feetech_firmware import FeetechFirmware
from axbridge.virtual.firmware import Firmware, Written
from axbridge.virtual.sensors import Count, Sensors
from axbridge.virtual.x_firmware import XFirmware

FIRMWARES: Mapping[str, type[Firmware]] = {  # by family of units
    "ax": AxFirmware, "mx": AxFirmware, "x": XFirmware, "sts": FeetechFirmware, "scs": FeetechFirmware,
}  # fmt: skip
_VOLTS, _READING = int(State.VOLTAGE), int(State.READING)
_STORE, _RESTORE = b"\x01CTRL", b"\x02CTRL"
_HOTTER = 10.0  # degC above the temperature limit, reading of an overheated servo
_GAP = 3  # bytes of silence per id that does not answer a broadcast ping
_GROUP_READS = {Instruction.SYNC_READ, Instruction.BULK_READ}
_GROUP_WRITES = {Instruction.SYNC_WRITE, Instruction.BULK_WRITE}


class Status(NamedTuple):
    """A status packet and its time."""

    frame: bytes
    delay: float  # s from the end of the instruction packet to the first start bit, without interrupts
    after: tuple[int, ...] = ()  # ids of the servos that answer first
    gap: float = math.inf  # s: wait for each of those that does not answer; infinite: no reply without it


@lru_cache(maxsize=16)
def blocks_of(protocol: Protocol, packet: Packet) -> Sequence[tuple[int, Mapping[int, bytes]]]:
    """See `Protocol.blocks`; cached because each servo on a line needs the blocks of the same packet."""
    return protocol.blocks(packet) or ()


class VirtualServo:
    """One servo: a profile, row `index` of a bank of motors, and register values that differ from the factory's.

    It is powered at `time` (s). `zero` is the position count at 0 rad.
    """

    id: int
    baud: float  # bits per second, received and sent

    def __init__(
        self,
        profile: FirmwareProfile,
        motors: Motors,
        index: int,
        *,
        zero: int,
        registers: Mapping[str, int] | None = None,
        time: float = 0.0,
    ) -> None:
        self.profile = profile
        self.protocol: Protocol = PROTOCOLS[profile.protocol]
        self.table: ControlTable = ControlTable(profile)
        self.changed: Callable[[], None] = lambda: None  # the line's index: id, baud rate or power may have changed
        self.eeprom_write_time: float = 0.0  # s after the reply, of the last packet; the line takes it over
        self.writes_unchanged = False  # rewrites also EEPROM bytes that keep their value (a fault)
        self.dead = False  # without power at any supply voltage (a fault)
        self.row = index
        self.followed: tuple[int, int] | None = None  # address and length of goals, while `Firmware.only_aims`
        self.goal: tuple[float, float] | None = None  # rad and rad/s, set since the motor's latest command
        self.sensors: Sensors  # see `Firmware.sensors`; likewise `alarm_limits`
        self.alarm_limits: AlarmLimits | None = None
        self.zero = zero
        self.motors = motors
        self._rows = np.array([index])
        self._level = int(FAMILIES[profile.protocol].addresses.STATUS_RETURN_LEVEL)
        self._eeprom = profile.eeprom_end
        self._registered: tuple[int, bytes] | None = None
        self._backup = b""
        self._known = frozenset(Instruction[name] for name in profile.instructions)
        given = profile.timing.reply_us  # at return delay 0
        self._delays = {
            int(code): given.get(code.name, given["WRITE"]) * 1e-6 for code in FAMILIES[profile.protocol].instructions
        }
        self._pointers = profile.pointers
        for name, value in (registers or {}).items():
            self.table[name] = value
        self.firmware: Firmware = FIRMWARES[profile.units_name](self.table, profile, zero, self._state_at)
        self.alarms = self.firmware.alarms
        self.power_on(time, registers or {})
        self.busy_until: float = time

    @property
    def _answering(self) -> int:
        """Status return level in Dynamixel's numbers: 0 only PING, 1 also reads, 2 all instructions."""
        return self.table.data[self._level] + 2 - self.protocol.full_level

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids that the servo accepts: its own, and the secondary id that it may share with others."""
        second = self.table.get("secondary_shadow_id", self.id)
        return (self.id,) if second > v2.MAX_ID or second == self.id else (self.id, second)

    # -- power -------------------------------------------------------------------------------------------------------

    def power_off(self, time: float) -> None:
        """Switch the supply off: no replies, no torque; the EEPROM keeps its bytes."""
        self.firmware.powered = False
        self.push(time)
        self.changed()

    def power_on(self, time: float, registers: Mapping[str, int] | None = None) -> None:
        """Start up: factory RAM with `registers` on top, torque off, goal at the present position."""
        table, ram = self.table, self.profile.eeprom_end
        self.firmware.powered = not self.dead
        self.alarms.reset()
        table.power_on()
        if self._backup:
            if table.get("startup_configuration") & 2:
                table.data[ram:] = self._backup[ram:]
            table["backup_ready"] = 1
        self.firmware.begin(time)
        for name, value in (registers or {}).items():
            table[name] = value
        self._registered = None
        self.busy_until = time + self.profile.timing.boot_ms * 1e-3
        self.configure()
        self.push(time)

    def power_cycle(self, time: float) -> None:
        """Switch the supply off and on again."""
        self.power_off(time)
        self.power_on(time)

    def _restart(self, time: float, eeprom_write_time: float) -> None:
        """Restart because of a packet: the servo is busy for `eeprom_write_time` (s) after its reply, not before."""
        self.power_cycle(time)
        self.eeprom_write_time, self.busy_until = eeprom_write_time, time

    # -- packets -----------------------------------------------------------------------------------------------------

    def handle(self, packet: Packet, time: float) -> Status | None:
        """Execute a packet whose last byte arrived at `time` (s); return its status packet, or None.

        Effects of the packet come after its status packet, which has the old id, level and delay.
        """
        broadcast, own = packet.id == BROADCAST, packet.id == self.id
        if not self.is_receiving or packet.status or not (broadcast or packet.id in self.ids):
            return None
        code, params, level = packet.code, packet.params, self._answering
        if not packet.intact:
            damaged = self.protocol.refusals.damaged
            no_reply = not own or level < 2 or damaged is None or self.profile.behaviour.bad_checksum == "silent"
            return None if no_reply else self._status(damaged or 0, b"", Instruction.PING)
        self.feed(time)
        if broadcast and code in _GROUP_WRITES:
            for address, data in blocks_of(self.protocol, packet) if code in self._known else ():
                if self.id in data:
                    self.write(address, data[self.id], time)
            return None
        if code == Instruction.PING:
            return self._ping(broadcast=broadcast) if broadcast or own else None
        if code == Instruction.READ:
            answer = self._read(params, time) if own and level else None
            return answer and self._status(*answer, Instruction.READ)
        if code in _GROUP_READS and broadcast and code in self._known:
            return self._answer_in_turn(packet, time) if level else None
        written = code in {Instruction.WRITE, Instruction.REG_WRITE}
        delay = self._delay(code)
        delay += written * max(len(params) - 1, 0) * self.profile.timing.reply_us_per_byte * 1e-6
        bits = self._state_bits
        error = self._execute(code, params, time, broadcast=broadcast, own=own)
        if error is None or not own or level < 2:
            return None
        return Status(self.protocol.encode_status(packet.id, error | bits), delay)

    def feed(self, time: float) -> None:
        """Note a packet for this servo or for all at `time` (s)."""
        if self.firmware.feed(time):
            self.push(time)

    def fast_block(self, address: int, length: int, time: float, state: list[float]) -> tuple[Packet, float] | None:
        """Return this servo's block of the reply to a fast read, and the reply's delay; None without a reply.

        `state` is as in `peek`.
        """
        if not self.is_receiving or not self._answering or Instruction.FAST_SYNC_READ not in self._known:
            return None
        error, data = self._data(address, length, time, state) or (0, b"")
        return Packet(self.id, error | self._state_bits, data.ljust(length, b"\0")), self._delay(Instruction.READ)

    def peek(
        self, address: int, length: int, time: float, state: Sequence[float] | None = None,
        counts: list[int] | None = None,
    ) -> bytes:  # fmt: skip
        """Return register bytes as they are at `time` (s); fewer past the end of the table.

        Indirect Data is read through its pointers. `state` is the row of the state array at that time, and `counts` are
        its readings, if known.
        """
        firmware, registers, end = self.firmware, self.table.data, address + length
        first, _, _, whole = firmware.refreshed
        if self._pointers or (address < whole and end > first):
            firmware.refresh(time, state, counts, all_=not firmware.refreshes_block(address, end))
        data = registers[address:end]
        if self._pointers:
            for place in self._pointers.keys() & range(address, end):
                data[place - address] = registers[self.target(place)]
        return bytes(data)

    def read_delay(self, address: int, length: int) -> float | None:
        """Return the delay of the reply to a READ of these registers, as in `Status`; None without a plain reply."""
        if self._answering < 1 or address < 0 or length < 0 or address + length > self.table.size:
            return None
        return self._read_delay

    def _delay(self, code: int) -> float:
        return self._delays.get(code, self._delays[Instruction.WRITE]) + self._return_delay

    @property
    def is_receiving(self) -> bool:
        """Whether it receives packets: powered, and Protocol Type is not 1.0; radio protocols count as 2.0."""
        return self.firmware.powered and self.table.get("protocol_type") != 1

    @property
    def _state_bits(self) -> int:
        """Bits that each status packet adds to its error: the alarms, or the alert bit."""
        bits, alert = self.alarms.bits, self.protocol.alert
        return alert if bits and alert else bits

    def _status(self, error: int, params: bytes, code: Instruction) -> Status:
        return Status(self.protocol.encode_status(self.id, error | self._state_bits, params), self._delay(code))

    def _ping(self, *, broadcast: bool) -> Status | None:
        table, about = self.table, b""
        if broadcast and self.profile.behaviour.broadcast_ping == "ignore":
            return None
        if self.protocol.ping_length:
            about = table["model_number"].to_bytes(2, "little") + bytes((table["firmware_version"],))
        status = self._status(0, about, Instruction.PING)
        if not (broadcast and self.protocol.ping_slots):
            return status
        return status._replace(after=tuple(range(self.id)), gap=_GAP * BITS_PER_BYTE / self.baud)

    def _read(self, params: bytes, time: float) -> tuple[int, bytes] | None:
        width = self.protocol.address_size
        if len(params) != 2 * width:
            return self._length_error, b""
        return self._data(int.from_bytes(params[:width], "little"), int.from_bytes(params[width:], "little"), time)

    def _data(
        self, address: int, length: int, time: float, state: list[float] | None = None
    ) -> tuple[int, bytes] | None:
        """Return error and register bytes, None without a reply. Addresses without a register read 0."""
        beyond, table = self.profile.behaviour.out_of_table, self.table
        inside = address + length <= table.size
        if not self.protocol.gaps:
            inside = inside and any(share.name for share in table.shares(address, length))
        if inside or (beyond == "zeros" and self.protocol.longest(length) <= self.profile.timing.rx_buffer):
            return 0, self.peek(address, length, time, state).ljust(length, b"\0")
        return None if beyond == "silent" else (self.protocol.refusals.access, b"")

    def _answer_in_turn(self, packet: Packet, time: float) -> Status | None:
        """Return the reply to a group read; servos reply in the order of its list."""
        before: list[int] = []
        for id_, address, length in self.protocol.reads(packet):
            if id_ == self.id:
                answer = self._data(address, length, time)
                return answer and self._status(*answer, Instruction.READ)._replace(after=tuple(before))
            before.append(id_)
        return None

    def _execute(self, code: int, params: bytes, time: float, *, broadcast: bool, own: bool) -> int | None:
        """Execute an instruction whose status packet has no data; return the error, None without a reply."""
        protocol = self.protocol
        if code not in self._known:
            return protocol.refusals.unknown
        if code in {Instruction.WRITE, Instruction.REG_WRITE}:
            width = protocol.address_size
            address, data = int.from_bytes(params[:width], "little"), params[width:]
            if not data:
                return self._length_error
            if code == Instruction.WRITE:
                return self.write(address, data, time, own=own or broadcast)
            return self._register_write(address, data, own=own or broadcast)
        if code == Instruction.ACTION:
            return self._action(time)
        if code == Instruction.REBOOT:
            if broadcast and not protocol.reboots_all:
                return None
            self._restart(time, self.profile.timing.boot_ms * 1e-3)
            return 0
        if code == Instruction.FACTORY_RESET:
            return self._factory_reset(params, time, broadcast=broadcast)
        if code == Instruction.CLEAR:
            return self._clear(params, time)
        return self._control_table_backup(params, time) if code == Instruction.BACKUP else protocol.refusals.unknown

    @property
    def _length_error(self) -> int:
        """Error for parameters of the wrong length."""
        refusals = self.protocol.refusals
        return refusals.short if self.profile.behaviour.short_instruction == "reply_0x40" else refusals.length

    def _register_write(self, address: int, data: bytes, *, own: bool) -> int | None:
        error, values = self._checked(address, data, own=own)
        if values is not None:
            self._registered = address, data
            self.table["registered_instruction"] = 1
        return error

    def _action(self, time: float) -> int | None:
        registered, self._registered = self._registered, None
        if registered is None:
            return self.protocol.refusals.unknown
        self.table["registered_instruction"] = 0
        return self.write(*registered, time)

    def _factory_reset(self, params: bytes, time: float, *, broadcast: bool) -> int | None:
        table, preserved = self.table, self.protocol.resets.get(params)
        if self.profile.behaviour.reset_0x06 == "ignore" or (broadcast and not preserved):
            return None  # all servos would have the same id
        if preserved is None:
            return self.protocol.refusals.value
        values = {name: table[name] for name in preserved}
        table.factory_reset()
        for name, value in values.items():
            table[name] = value
        self.firmware.keep()
        timing = self.profile.timing
        write_time = self.profile.eeprom_end * timing.eeprom_deaf_us_per_byte * 1e-6
        self._restart(time, write_time or timing.boot_ms * 1e-3)
        return 0

    def _clear(self, params: bytes, time: float) -> int:
        """Clear the turns and set the goal to the present position; with the old goal the shaft would turn back."""
        if params != v2.CLEAR_TURNS:
            return self.protocol.refusals.value
        self.firmware.refresh(time)
        if self.table["moving"]:
            return self.protocol.refusals.now
        self.firmware.reset_turns(time)
        self.push(time)
        return 0

    def _control_table_backup(self, params: bytes, time: float) -> int:
        """Execute Control Table Backup: store all registers, or restore them and restart."""
        if params not in {_STORE, _RESTORE}:
            return self.protocol.refusals.value
        if self.table["torque_enable"] or (params == _RESTORE and not self._backup):
            return self.protocol.refusals.now
        if params == _STORE:
            self._backup = bytes(self.table.data)
            self.table["backup_ready"] = 1
            return 0
        self.table.data[:] = self._backup
        self._restart(time, self.profile.timing.boot_ms * 1e-3)
        return 0

    # -- access to the registers -------------------------------------------------------------------------------------

    def target(self, place: int) -> int:
        """Return the address that a byte acts on: that of the pointer for Indirect Data."""
        pointer = self._pointers.get(place)
        if pointer is None:
            return place
        return int.from_bytes(self.table.data[pointer : pointer + 2], "little")

    def _runs(self, address: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Split a write into runs of adjacent target addresses."""
        if not self._pointers.keys() & range(address, address + len(data)):
            yield address, data
            return
        begin, run = -1, b""
        for place, byte in enumerate(data, address):
            target = self.target(place)
            if run and target != begin + len(run):
                yield begin, run
                run = b""
            begin, run = begin if run else target, run + bytes((byte,))
        yield begin, run

    def _checked(self, address: int, data: bytes, *, own: bool) -> tuple[int | None, dict[str, int] | None]:
        """Return the error (None: no reply), and the values to set (None: no change)."""
        refusals, behaviour, firmware = self.protocol.refusals, self.profile.behaviour, self.firmware
        table, ranges = self.table, firmware.ranges
        if address + len(data) > table.size:
            return (None if behaviour.out_of_table == "silent" else refusals.access), None
        if firmware.locked(address, len(data), own=own):
            return refusals.access, None
        values: dict[str, int] = {}
        for begin, run in self._runs(address, data) if self._pointers else ((address, data),):
            for share in table.shares(begin, len(run)):
                if not share.writable:
                    if behaviour.read_only_write == "ignore":
                        continue
                    return refusals.access, None
                if not share.whole and behaviour.split_word_write != "accept":
                    return refusals.length, None
                name, value = share.name, table.patched(share, run)
                low, high = ranges.get(name, share.limits)
                if not low <= value <= high:
                    return refusals.value, None
                values[name] = value
        return firmware.validate_goal(values)

    def write(self, address: int, data: bytes, time: float, *, own: bool = True) -> int | None:
        """Write register bytes as a packet to the servo's own id does; return the error, None without a reply."""
        error, values = self._checked(address, data, own=own)
        if not values:
            return error
        table, eeprom = self.table, self._eeprom
        old = table.data[address:eeprom]
        before = {name: table[name] for name in values}
        for name, value in values.items() if values != before else ():
            table[name] = value
        if old:
            self.configure()
            now = table.data[address : min(address + len(data), eeprom)]
            written_bytes = len(now) if self.writes_unchanged else sum(map(int.__ne__, old, now))
            self.eeprom_write_time += written_bytes * self.profile.timing.eeprom_deaf_us_per_byte * 1e-6
        self.firmware.apply(Written(values, before, time))
        self.push(time)
        return error

    def configure(self) -> None:
        """Read the settings in the EEPROM area."""
        table = self.table
        self.id = table["id"]
        self.baud = self.profile.units.baud(table["baud_rate"])
        self._return_delay = table["return_delay_time"] * self.profile.timing.return_delay_us_per_unit * 1e-6
        self._read_delay = self._delay(Instruction.READ)
        self.alarms.configure()
        self.firmware.configure()
        self.changed()

    # -- motor and alarms --------------------------------------------------------------------------------------------

    def push(self, time: float) -> None:
        """Send the registers' command to the motor."""
        self.goal = None
        plain = Instruction.SYNC_WRITE in self._known and self.firmware.only_aims()
        self.followed = self.firmware.goals if plain else None
        reading = float(self.motors.state[self.row, _READING])
        self.motors.set_command(self.row, self.firmware.command(reading, driven=self.firmware.driven), time)
        self._update_limits()

    def _update_limits(self) -> None:
        """Update the sensors and the alarm limits, which the line and the world read."""
        self.sensors, self.alarm_limits = self.firmware.sensors(), self.firmware.alarm_limits()

    def _state_at(self, time: float) -> list[float]:
        """Return its row of the state array at `time` (s)."""
        (state,) = self.motors.sampled(self._rows, (time,)).tolist()
        return state  # type: ignore[no-any-return]

    # -- faults: `begins` is False at their end ------------------------------------------------------------------------

    def cut_power(self, time: float, begins: bool) -> None:
        """Lose power at any supply voltage: no replies, no torque; then `monitor` starts the servo."""
        self.dead = begins
        if begins:
            self.power_off(time)

    def shift_id(self, _: float, begins: bool) -> None:
        """Take the next id, as if another program had set it; afterwards that of the register."""
        self.id = (self.table["id"] + begins) % (self.protocol.max_id + 1)
        self.changed()

    def overheat(self, _: float, begins: bool) -> None:
        """Let the temperature reading exceed the limit, at any motor temperature."""
        self.firmware.hot = self.table["temperature_limit"] + _HOTTER if begins else None
        self._update_limits()

    def freeze_position(self, time: float, begins: bool) -> None:
        """Freeze the position reading, for the host and for the servo's control loop."""
        position = self.firmware.counts(self.motors.state[self.row].tolist())[Count.POSITION]
        self.firmware.stuck = position if begins else None
        self.push(time)

    def monitor(self, state: list[float], time: float) -> None:
        """Check supply, temperature, load (a row of the state array) and watchdog; shut down if the firmware must."""
        firmware = self.firmware
        if state[_VOLTS] < self.profile.protection.reset_voltage:
            if firmware.powered:
                self.power_off(time)
            return
        if not firmware.powered:
            if self.dead:
                return
            self.power_on(time)
        if fatal := self.alarms.poll(state, time, driven=firmware.driven, hot=firmware.hot):
            self._shut_down(fatal, time)
        if firmware.watch(time):
            self.push(time)
        self._update_limits()

    def overload(self, time: float) -> None:
        """Set the overload alarm until the host recovers the servo."""
        self.monitor(self.motors.state[self.row].tolist(), time)
        if fatal := self.alarms.overload():
            self._shut_down(fatal, time)
        self._update_limits()

    def _shut_down(self, flags: int, time: float) -> None:
        self.firmware.shut_down(flags)
        self.push(time)


def loop_row(profile: FirmwareProfile, zero: int, written: Mapping[str, int]) -> list[float]:
    """Return one row of `Command` of a driven motor after power-on."""
    table = ControlTable(profile)
    for name, value in written.items():
        if name in table:
            table[name] = value
    firmware = FIRMWARES[profile.units_name](table, profile, zero, lambda _: [0.0] * len(State))
    return firmware.command(0.0, driven=True)
