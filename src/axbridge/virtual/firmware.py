"""Base of the firmwares: effects of writes, values of readings, and the command row of the motor.

The profile has the registers' addresses, sizes, access, factory values and ranges. A firmware adds the named effects of
writes (`EFFECTS`), readings that are no plain copy of the motor's state, and command columns that are no plain copy of
a register (`_COPIES`).
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config.profile import FirmwareProfile, compliance_slope
from axbridge.servo.columns import Command, State
from axbridge.units import Units, sign_magnitude
from axbridge.virtual.alarms import AlarmLimits, Alarms
from axbridge.virtual.control_table import FORMS, ControlTable

_READING, _SPEED, _DUTY = int(State.READING), int(State.SPEED), int(State.DUTY)
_VOLTAGE, _TEMPERATURE = int(State.VOLTAGE), int(State.TEMPERATURE)
_BYTE = 255
_ANYWHERE = (-math.inf, math.inf)

Convert = Callable[[int, Units], float]


def _number(value: int, _units: Units) -> float:
    return float(value)


def _angle(value: int, units: Units) -> float:
    return value * units.position


def _slope(value: int, units: Units) -> float:
    return compliance_slope(value) * units.position


def _share(value: int, units: Units) -> float:
    return value / units.full_scale


_COPIES: Mapping[str, tuple[Command, Convert]] = {  # by register, whatever family has it
    "cw_compliance_margin": (Command.MARGIN_CW, _angle),
    "cw_dead_zone": (Command.MARGIN_CW, _angle),
    "ccw_compliance_margin": (Command.MARGIN_CCW, _angle),
    "ccw_dead_zone": (Command.MARGIN_CCW, _angle),
    "cw_compliance_slope": (Command.SLOPE_CW, _slope),
    "ccw_compliance_slope": (Command.SLOPE_CCW, _slope),
    "punch": (Command.PUNCH, _share),
    "minimum_startup_force": (Command.PUNCH, _share),
    "p_gain": (Command.P_GAIN, _number),
    "i_gain": (Command.I_GAIN, _number),
    "d_gain": (Command.D_GAIN, _number),
    "position_p_gain": (Command.P_GAIN, _number),
    "position_i_gain": (Command.I_GAIN, _number),
    "position_d_gain": (Command.D_GAIN, _number),
}


class Written(NamedTuple):
    """Registers that a packet has changed: their values, those before, and when, s."""

    values: Mapping[str, int]
    before: Mapping[str, int]
    time: float


class SensorCounts(NamedTuple):
    """Readings of the sensors, in signed counts."""

    position: int
    speed: int
    load: int
    voltage: int
    temperature: int


class Scale(NamedTuple):
    """How the registers of `BLOCK` follow the motor's state: round(state / unit · factor + zero) - shift, in counts.

    It holds for counts from `low` to `high`. Each is of the readings of `SensorCounts`, in their order.
    """

    size: tuple[float, ...]  # bytes; below 0: the high one comes first
    unit: tuple[float, ...]
    factor: tuple[float, ...]
    zero: tuple[float, ...]
    shift: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    sign: tuple[float, ...]  # what the bit is worth that says that a magnitude is negative; 0: there is none


class Firmware(ABC):
    """Firmware of one servo, without packets. `state_at` gives its row of the state array at a time, s."""

    EFFECTS: ClassVar[Mapping[str, str]]  # by register, the method that lets a write take effect, in their order
    # First and last of the registers that follow the motor and are renewed together, and those that stand elsewhere.
    BLOCK: ClassVar[tuple[str, str]] = "present_position", "present_temperature"
    REST: ClassVar[tuple[str, ...]]
    ALARMS: ClassVar[type[Alarms]] = Alarms
    goal_range: tuple[float, float] = _ANYWHERE  # what its own limits let pass

    def __init__(
        self, table: ControlTable, profile: FirmwareProfile, zero: int, state_at: Callable[[float], list[float]]
    ) -> None:
        self.table = table
        self.profile = profile
        self.zero = zero
        self.state_at = state_at
        self.units = profile.units
        self.protocol = PROTOCOLS[profile.protocol]
        self.powered = False
        self.powered_at = 0.0  # s, when its power came: its tick counts from there
        self.stuck: int | None = None  # the position that a stuck sensor reports whatever the shaft does
        self.hot: float | None = None  # degC, reported instead of the simulated temperature (a fault)
        self.ranges: dict[str, tuple[int, int]] = {}  # instead of the table's, for registers whose mode decides
        self.alarms = self.ALARMS(profile, table)
        registers = profile.registers
        start, end = registers[self.BLOCK[0]].address, registers[self.BLOCK[1]].end
        block = {register.address: register for register in registers.values() if start <= register.address < end}
        forms = [FORMS[register.size, register.signed] for _, register in sorted(block.items())]
        self._block = struct.Struct(("<" if self.protocol.byteorder == "little" else ">") + "".join(forms))
        self._sign_bits = [self.protocol.sign_bits.get(name, 0) for name in ("position", "speed", "load")]
        self._most = (1 << min(self._sign_bits[1:])) - 1
        rest = [registers[name] for name in self.REST if name in registers]
        whole = min(start, *(register.address for register in rest)), max(end, *(register.end for register in rest))
        self.refreshed = whole[0], start, end, whole[1]  # addresses of all that follow the motor; the block's inside
        self._effects = [(name, getattr(self, effect)) for name, effect in self.EFFECTS.items()]
        self._copies = [(int(to), name, convert) for name, (to, convert) in _COPIES.items() if name in registers]
        self.configure()

    def begin(self, time: float) -> None:
        """Fill the RAM area that depends on more than the table, after power-on: the goal is where the shaft is.

        What is kept beside the table is as at first, too.
        """
        self.powered_at = time
        self.configure()
        self.forget_turns(time)

    def forget_turns(self, time: float) -> None:
        """Let the position be the absolute one within a turn, and the goal be there."""
        self.copy_present(time)  # not all count turns

    def keep(self) -> None:  # noqa: B027 - most keep all that is written
        """Let all that the EEPROM area holds now outlast the power."""

    @abstractmethod
    def configure(self) -> None:
        """Take over what the EEPROM area says of modes and limits."""

    # -- writes ------------------------------------------------------------------------------------------------------

    def locked(self, address: int, length: int, *, own: bool) -> bool:  # noqa: ARG002 - by the second id some are
        """Whether this range may not be written now; `own`: to its own id."""
        return False

    def validate_goal(self, values: dict[str, int]) -> tuple[int, dict[str, int] | None]:
        """Error bits of values that are to be set together, and what is set in the end (None: nothing).

        A goal outside its own limits is clipped, or refused with all else.
        """
        goal, (low, high) = values.get("goal_position"), self.goal_range
        if goal is None or low <= goal <= high:
            return 0, values
        error = self.protocol.refusals.goal
        if self.profile.behaviour.goal_outside_limits == "reject":
            return error, None
        return error, {**values, "goal_position": int(min(max(goal, low), high))}

    def apply(self, written: Written) -> None:
        """Let a write take effect, register by register."""
        for name, effect in self._effects:
            if name in written.values:
                effect(name, written)

    @abstractmethod
    def followed(self) -> tuple[int, int] | None:
        """Address and length of a write of goals that it does nothing with but follow, as it is now; None: of none."""

    @abstractmethod
    def follow(self, goals: bytes, reading: float, time: float) -> tuple[float, float] | None:
        """Take over such a write; goal, rad, and speed limit, rad/s, of a shaft that the sensor sees at `reading`, rad.

        None, and nothing is taken over, where it would refuse the goals or clip them.
        """

    def switches_on(self, written: Written) -> bool:
        """Whether a write to Torque Enable has brought the torque on."""
        return bool(self.table["torque_enable"] and not written.before["torque_enable"])

    def copy_present(self, time: float) -> None:
        """Make the goal where the shaft is."""
        self.refresh(time)
        self.table["goal_position"] = self.table["present_position"]

    def shut_down(self, flags: int) -> None:
        """Take the torque away for these alarms."""
        self.alarms.shut_down(flags)

    def feed(self, time: float) -> bool:  # noqa: ARG002 - only a watchdog cares
        """A packet for it, or for all, has come; whether that has changed what the motor is to do."""
        return False

    def watch(self, time: float) -> bool:  # noqa: ARG002 - only a watchdog cares
        """Look at the time; whether that has changed what the motor is to do."""
        return False

    def alarm_limits(self) -> AlarmLimits | None:
        """Limits of the state inside of which nothing is to be watched, as they are now; None: there are none."""
        return self.alarms.limits(driven=self.driven) if self.powered and self.hot is None else None

    # -- readings ----------------------------------------------------------------------------------------------------

    def tick(self, time: float) -> int:
        """Realtime Tick: ms since its power came."""
        return int((time - self.powered_at) * 1000) & 0x7FFF

    @property
    def driven(self) -> bool:
        """Whether the motor is driven."""
        return self.powered and self.table["torque_enable"] != 0

    @property
    def side(self) -> int:
        """1, or -1 where the position falls while the shaft's angle rises."""
        return 1

    def position(self, state: list[float]) -> int:
        """Present Position of a row of the state array."""
        return self.count(state[_READING]) if self.stuck is None else self.stuck

    @abstractmethod
    def count(self, reading: float) -> int:
        """The position that its sensor makes of a shaft at `reading`, rad."""

    def refreshes_block(self, address: int, end: int) -> bool:
        """Whether a read from `address` to `end` has registers of `BLOCK`, and none of `REST`."""
        first, begin, last, _ = self.refreshed
        return begin < end <= last and (address >= begin or first == begin) and address < end

    def refresh(self, time: float, state: list[float] | None = None, *, all_: bool = True) -> None:
        """Write the present registers, from a row of the state array: that of `time` (s) when it is not given.

        Without `all_`, `REST` is left as it is.
        """
        state, units = self.state_at(time) if state is None else state, self.units
        voltage = round(state[_VOLTAGE] / units.voltage)
        temperature = round(state[_TEMPERATURE] if self.hot is None else self.hot)
        counts = SensorCounts(
            self.position(state),
            round(state[_SPEED] / units.speed),
            self.load(state) if self.driven else 0,
            voltage if 0 <= voltage < _BYTE else _BYTE if voltage > 0 else 0,
            temperature if 0 <= temperature < _BYTE else _BYTE if temperature > 0 else 0,
        )
        self._block.pack_into(self.table.data, self.refreshed[1], *self.block(counts, state, time))
        if all_:
            self.refresh_rest(counts, state, time)

    def scale(self) -> Scale | None:
        """The readings as a function of the motor's state alone, as it is now; None: more decides on them."""
        return None

    def _scale(self, zero: int, shift: int) -> Scale | None:
        """That of a servo whose sensor counts from `zero`, which is shifted then, within one turn."""
        if self.stuck is not None or self.hot is not None:
            return None
        units, most, order = self.units, self._most, 1 if self.protocol.byteorder == "little" else -1
        return Scale(
            (2.0 * order, 2.0 * order, 2.0 * order, 1.0, 1.0),
            (units.position, units.speed, 1.0, units.voltage, 1.0),
            (1.0, 1.0, float(units.full_load * self.driven), 1.0, 1.0),
            (zero, 0.0, 0.0, 0.0, 0.0),
            (shift, 0.0, 0.0, 0.0, 0.0),
            (1.0, -most, -most, 0.0, 0.0),  # at an end of its range a position may stand for many
            (units.counts - 1.0, most, most, _BYTE - 1.0, _BYTE - 1.0),
            (*((1 << bit if bit else 0) for bit in self._sign_bits), 0.0, 0.0),
        )

    def load(self, state: list[float]) -> int:
        """Present Load of a driven motor: its duty."""
        return round(state[_DUTY] * self.units.full_load)

    def block(self, counts: SensorCounts, state: list[float], time: float) -> tuple[int, ...]:  # noqa: ARG002
        """What stands in the registers of `BLOCK`."""
        position, speed, load, voltage, temperature = counts
        if position >= 0 and 0 <= speed <= self._most and 0 <= load <= self._most:
            return counts  # most often
        position, speed, load = map(_coded, (position, speed, load), self._sign_bits)
        return position, speed, load, voltage, temperature

    @abstractmethod
    def refresh_rest(self, counts: SensorCounts, state: list[float], time: float) -> None:
        """Write the registers of `REST`."""

    # -- the motor ---------------------------------------------------------------------------------------------------

    def command(self, reading: float, *, driven: bool) -> list[float]:
        """The row of `Command` for a shaft that the sensor sees at `reading` (rad)."""
        row = [0.0] * len(Command)
        row[Command.TORQUE] = float(driven)
        for column, name, convert in self._copies:
            row[column] = convert(self.table[name], self.units)
        self.drive(row, reading)
        return row

    @abstractmethod
    def drive(self, row: list[float], reading: float) -> None:
        """Fill in what is no plain copy of a register."""


def _coded(value: int, sign_bit: int) -> int:
    """What a word holds: a magnitude below the bit that is its sign; where there is none, the number itself."""
    if not sign_bit:
        return value
    most = (1 << sign_bit) - 1
    return sign_magnitude(min(max(value, -most), most), sign_bit)
