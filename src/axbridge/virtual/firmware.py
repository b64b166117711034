"""Base of the firmwares: effects of writes, values of readings, and the command row of the motor.

The profile has the registers' addresses, sizes, access, factory values and ranges. A firmware adds the named effects of
writes (`EFFECTS`), readings that do not follow directly from the motor's state, and command columns that do not follow
directly from a register. Direct copies are in `_COPIES`.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config.profile import FirmwareProfile, Register, compliance_slope
from axbridge.jit import plain
from axbridge.servo.columns import Command
from axbridge.units import Units, sign_magnitude
from axbridge.virtual.alarms import AlarmLimits, Alarms
from axbridge.virtual.control_table import FORMS, ControlTable
from axbridge.virtual.sensors import Count, Sensors, count

_PLANNED = int(Count.PLANNED)
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


_COPIES: Mapping[str, tuple[Command, Convert]] = {  # by register, for all servo families
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
    """Registers that a packet has written: their values, the previous values, and the time, s."""

    values: Mapping[str, int]
    before: Mapping[str, int]
    time: float


class Firmware(ABC):
    """Firmware of one servo, without packets. `state_at` returns its row of the state array at a time, s."""

    EFFECTS: ClassVar[Mapping[str, str]]  # by register, in order of execution: the method that a write calls
    # First and last register of the block that follows the motor, and the other registers that follow it.
    BLOCK: ClassVar[tuple[str, str]] = "present_position", "present_temperature"
    REST: ClassVar[tuple[str, ...]]
    GOALS: ClassVar[tuple[str, ...]]  # registers of a goal and its speed limit, from `Protocol.goal` on
    ALARMS: ClassVar[type[Alarms]] = Alarms
    goal_range: tuple[float, float] = _ANYWHERE  # goals inside the position limits

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
        self.powered_at = 0.0  # s: power-on, where Realtime Tick starts
        self.stuck: int | None = None  # position count that a stuck sensor reports
        self.hot: float | None = None  # degC, reported instead of the simulated temperature (a fault)
        self.ranges: dict[str, tuple[int, int]] = {}  # replace the table's: they depend on the mode
        self.alarms = self.ALARMS(profile, table)
        registers = profile.registers
        start, end = registers[self.BLOCK[0]].address, registers[self.BLOCK[1]].end
        block = {register.address: register for register in registers.values() if start <= register.address < end}
        self._block = self._layout(register for _, register in sorted(block.items()))
        self._goals = self._layout(registers[name] for name in self.GOALS)
        self.goals = self.protocol.goal, self._goals.size  # address and length of a write of goals
        self._sign_bits = [self.protocol.sign_bits.get(name, 0) for name in ("position", "speed", "load")]
        self._most = (1 << min(self._sign_bits[1:])) - 1
        rest = [registers[name] for name in self.REST if name in registers]
        whole = min(start, *(register.address for register in rest)), max(end, *(register.end for register in rest))
        self.refreshed = whole[0], start, end, whole[1]  # addresses: of all readings, and of the block inside
        self._effects = [(name, getattr(self, effect)) for name, effect in self.EFFECTS.items()]
        self._copies = [(int(to), name, convert) for name, (to, convert) in _COPIES.items() if name in registers]
        self.configure()

    def _layout(self, registers: Iterable[Register]) -> struct.Struct:
        """Return the format of adjacent registers, without sign bits."""
        forms = (FORMS[register.size, register.signed] for register in registers)
        return struct.Struct(("<" if self.protocol.byteorder == "little" else ">") + "".join(forms))

    def begin(self, time: float) -> None:
        """Set the RAM state that depends on more than the table after power-on; the goal is the present position.

        Subclasses also reset their own state here.
        """
        self.powered_at = time
        self.configure()
        self.reset_turns(time)

    def reset_turns(self, time: float) -> None:
        """Reduce the position to one turn, and set the goal to it."""
        self.copy_present(time)  # the base class counts no turns

    def keep(self) -> None:  # noqa: B027 - most firmwares store each write at once
        """Store the present EEPROM area, so that it outlasts power-off."""

    def configure(self) -> None:
        """Read the modes and limits from the EEPROM area; subclasses first set `ranges` and `goal_range`."""
        self._accepted: list[range] = []  # values of each register of `GOALS` that are neither rejected nor clipped
        for name in self.GOALS:
            register, bounds = self.profile.registers[name], self.goal_range if name == "goal_position" else _ANYWHERE
            low, high = self.ranges.get(name, (register.minimum, register.maximum))
            self._accepted.append(range(int(max(low, bounds[0])), int(min(high, bounds[1])) + 1))

    # -- writes ------------------------------------------------------------------------------------------------------

    def locked(self, address: int, length: int, *, own: bool) -> bool:  # noqa: ARG002 - subclasses use the arguments
        """Return whether this range is write-protected now; `own`: the packet has the servo's own id."""
        return False

    def validate_goal(self, values: dict[str, int]) -> tuple[int, dict[str, int] | None]:
        """Return error bits for values that are written together, and the values to store (None: store nothing).

        A goal outside the position limits is clipped, or rejects all values.
        """
        goal, (low, high) = values.get("goal_position"), self.goal_range
        if goal is None or low <= goal <= high:
            return 0, values
        error = self.protocol.refusals.goal
        if self.profile.behaviour.goal_outside_limits == "reject":
            return error, None
        return error, {**values, "goal_position": int(min(max(goal, low), high))}

    def apply(self, written: Written) -> None:
        """Execute the effects of a write, register by register."""
        for name, effect in self._effects:
            if name in written.values:
                effect(name, written)

    @abstractmethod
    def only_aims(self) -> bool:
        """Return whether a write of `GOALS` now changes nothing of the motor's command but goal and speed limit."""

    def follow(self, goals: bytes, reading: float, written: Written) -> tuple[float, float] | None:
        """Store `GOALS` while `only_aims`; return the new set-point, see `set_point`.

        Return None and store nothing if the servo would reject or clip the goals. `written` has no values.
        """
        words = self._goals.unpack(goals)
        for word, accepted in zip(words, self._accepted, strict=True):
            if word not in accepted:
                return None
        address = self.goals[0]
        self.table.data[address : address + len(goals)] = goals
        self._new_goal("goal_position", written)
        return self.set_point(reading, *words)

    @abstractmethod
    def _new_goal(self, name: str, written: Written) -> None:
        """Execute the effects of a write to a goal register."""

    @abstractmethod
    def set_point(self, reading: float, *goals: int) -> tuple[float, float]:
        """Return goal (rad) and speed limit (rad/s) of the position modes, from the words of `GOALS`.

        The shaft is at `reading` (rad).
        """

    def switches_on(self, written: Written) -> bool:
        """Return whether a write to Torque Enable has switched the torque on."""
        return bool(self.table["torque_enable"] and not written.before["torque_enable"])

    def copy_present(self, time: float) -> None:
        """Set the goal to the present position."""
        self.refresh(time)
        self.table["goal_position"] = self.table["present_position"]

    def shut_down(self, flags: int) -> None:
        """Switch the torque off for these alarms."""
        self.alarms.shut_down(flags)

    def feed(self, time: float) -> bool:  # noqa: ARG002 - only a watchdog uses it
        """Note a packet for this servo or for all; return whether the motor's command has changed."""
        return False

    def watch(self, time: float) -> bool:  # noqa: ARG002 - only a watchdog uses it
        """Check the watchdog at `time`, s; return whether the motor's command has changed."""
        return False

    def alarm_limits(self) -> AlarmLimits | None:
        """Return state limits inside of which no alarm or watchdog needs polling now; None if there are none."""
        return self.alarms.limits(driven=self.driven) if self.powered and self.hot is None else None

    # -- readings ----------------------------------------------------------------------------------------------------

    def tick(self, time: float) -> int:
        """Return Realtime Tick: ms since power-on."""
        return int((time - self.powered_at) * 1000) & 0x7FFF

    @property
    def driven(self) -> bool:
        """Whether the motor is driven."""
        return self.powered and self.table["torque_enable"] != 0

    @property
    def side(self) -> int:
        """1, or -1 if the position falls when the shaft's angle rises."""
        return 1

    @abstractmethod
    def encoder(self) -> Sensors:
        """Return how the position sensor counts; the other sensors have their default values."""

    def load_scale(self) -> tuple[float, float]:
        """Return the counts of Present Load at full duty, and per ampere from the supply."""
        return self.units.full_load, 0.0

    def sensors(self) -> Sensors:
        """Return how the sensors count, until the next write, alarm or fault."""
        side, units = self.side, self.units
        duty_load, supply_load = self.load_scale() if self.driven else (0.0, 0.0)
        return self.encoder()._replace(
            speed_unit=side * units.speed,
            duty_load=side * duty_load,
            supply_load=side * supply_load,
            volt_unit=units.voltage,
            stuck=math.nan if self.stuck is None else self.stuck,
            hot=math.nan if self.hot is None else self.hot,
        )

    def counts(self, state: Sequence[float]) -> list[int]:
        """Return the readings, in the order of `Count`, for a row of the state array."""
        counts = [0] * len(Count)
        plain(count)(state, self.sensors(), counts)  # type: ignore[arg-type]  # lists are faster for one row
        return counts

    def refreshes_block(self, address: int, end: int) -> bool:
        """Return whether a read from `address` to `end` includes registers of `BLOCK`, and none of `REST`."""
        first, begin, last, _ = self.refreshed
        return begin < end <= last and (address >= begin or first == begin) and address < end

    def refresh(
        self, time: float, state: Sequence[float] | None = None, counts: list[int] | None = None, *, all_: bool = True
    ) -> None:
        """Write the readings from `state`, a row of the state array, or its `counts`; by default those of `time` (s).

        Without `all_`, `REST` stays as it is.
        """
        state = self.state_at(time) if state is None else state
        counts = self.counts(state) if counts is None else counts
        self._block.pack_into(self.table.data, self.refreshed[1], *self.block(counts, state, time))
        if all_:
            self.refresh_rest(counts, state, time)

    def block(self, counts: list[int], state: Sequence[float], time: float) -> Sequence[int]:  # noqa: ARG002
        """Return the words of the registers of `BLOCK`."""
        position, speed, load, voltage, temperature, _ = counts
        if position >= 0 and 0 <= speed <= self._most and 0 <= load <= self._most:
            return counts[:_PLANNED]  # the usual case
        position, speed, load = map(_coded, (position, speed, load), self._sign_bits)
        return position, speed, load, voltage, temperature

    @abstractmethod
    def refresh_rest(self, counts: list[int], state: Sequence[float], time: float) -> None:
        """Write the registers of `REST`."""

    # -- the motor ---------------------------------------------------------------------------------------------------

    def command(self, reading: float, *, driven: bool) -> list[float]:
        """Return the row of `Command` for a shaft at `reading` (rad)."""
        row = [0.0] * len(Command)
        row[Command.TORQUE] = float(driven)
        for column, name, convert in self._copies:
            row[column] = convert(self.table[name], self.units)
        words = self._goals.unpack_from(self.table.data, self.goals[0])
        row[Command.GOAL], row[Command.SPEED] = self.set_point(reading, *words)
        self.drive(row)
        return row

    @abstractmethod
    def drive(self, row: list[float]) -> None:
        """Set the columns that do not follow directly from a register."""


def _coded(value: int, sign_bit: int) -> int:
    """Return the word for a value: sign and magnitude, clipped below the sign bit; without a sign bit, the value."""
    if not sign_bit:
        return value
    most = (1 << sign_bit) - 1
    return sign_magnitude(min(max(value, -most), most), sign_bit)
