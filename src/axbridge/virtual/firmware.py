"""What a family of servos makes of its registers: what a write does, what a read gives, what the motor gets.

Where the registers are, how large, who may write them, what they hold from the factory and which values they take, the
profile says. A firmware adds named effects of writes (`EFFECTS`), the readings, and the row of the motor's loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from axbridge.config.profile import FirmwareProfile
from axbridge.virtual.alarms import Alarms
from axbridge.virtual.control_table import ControlTable

SetGoal = Callable[[float, float, float], None]  # goal (rad), speed limit (rad/s), time (s)


class Written(NamedTuple):
    """Registers that a packet has changed: their values, those before, and when, s."""

    values: Mapping[str, int]
    before: Mapping[str, int]
    time: float


class Firmware(ABC):
    """One servo's; it knows nothing of packets.

    Args:
        table: The registers, with the factory's values and those of the rig.
        profile: The servo model.
        zero: Position count at 0 rad.
        state_at: Row of the state array at a time, s.

    Attributes:
        EFFECTS: By register, the method that lets a write take effect, in the order in which they do.
        refreshed: Addresses that follow the motor: the first, the last that is always renewed, and the end.
        alarms: What it watches.
        powered: Whether it runs.
        stuck: Position count that the sensor reports whatever the shaft does (a fault); None = it works.
        hot: Temperature reported instead of the simulated one, degC (a fault); None = none.
        shown: The registers of `present`.
        ranges: Lowest and highest values that replace the table's for some registers: they depend on the mode.
    """

    EFFECTS: ClassVar[Mapping[str, str]]
    refreshed: ClassVar[tuple[int, int, int]] = 0, 0, 1 << 16
    shown: tuple[str, ...] = (
        "present_position", "present_velocity", "present_load", "present_voltage", "present_temperature",
    )  # fmt: skip

    def __init__(
        self, table: ControlTable, profile: FirmwareProfile, zero: int, state_at: Callable[[float], list[float]]
    ) -> None:
        self.table = table
        self.profile = profile
        self.zero = zero
        self.state_at = state_at
        self.units = profile.units
        self.powered = False
        self.stuck: int | None = None
        self.hot: float | None = None
        self.ranges: dict[str, tuple[int, int]] = {}
        self.alarms = Alarms(profile, table)

    @abstractmethod
    def begin(self, time: float) -> None:
        """Fill the RAM area that depends on more than the table, after power-on."""

    def forget_turns(self, time: float) -> None:  # noqa: B027 - not all count them
        """Let the position be the absolute one within a turn, and the goal be there."""

    def keep(self) -> None:  # noqa: B027 - most keep all that is written
        """Let all that the EEPROM area holds now outlast the power."""

    @abstractmethod
    def configure(self) -> None:
        """Take over what the EEPROM area says of modes and limits."""

    def locked(self, address: int, length: int, *, own: bool) -> bool:  # noqa: ARG002 - by the second id some are
        """Whether this range may not be written now; `own`: to its own id."""
        return False

    def refuse(self, name: str, value: int) -> int:  # noqa: ARG002 - most take what the table allows
        """The error for a value that the register's range allows; 0 for none."""
        return 0

    def settle(self, values: dict[str, int]) -> tuple[int, dict[str, int] | None]:
        """Error bits of values that are to be set together, and what is set in the end (None: nothing)."""
        return 0, values

    def steer(self, address: int, data: bytes, time: float, set_goal: SetGoal) -> bool:  # noqa: ARG002
        """Take goal and speed as a write would, but quickly: a control cycle writes nothing else.

        False, and nothing is done, for anything out of the ordinary.
        """
        return False

    def take(self, written: Written) -> None:
        """Let a write take effect, register by register."""
        for name, effect in self.EFFECTS.items():
            if name in written.values:
                getattr(self, effect)(name, written)

    @property
    def driven(self) -> bool:
        """Whether the motor is driven."""
        return self.powered and self.table["torque_enable"] != 0

    @abstractmethod
    def position(self, state: list[float]) -> int:
        """Present Position of a row of the state array."""

    @abstractmethod
    def refresh(self, time: float, state: list[float] | None = None, *, all_: bool = True) -> None:
        """Write the present registers, from a row of the state array: that of `time` (s) when it is not given.

        Without `all_`, those behind Present Temperature may be left as they are.
        """

    @abstractmethod
    def command(self, reading: float, *, driven: bool) -> list[float]:
        """The row of `Command` for a shaft that the sensor sees at `reading` (rad)."""

    def present(self) -> tuple[int, int, int, int, int]:
        """Position, speed, load, voltage and temperature as they were refreshed last: counts, speed and load signed."""
        position, speed, load, voltage, temperature = (self.table[name] for name in self.shown)
        return position, speed, load, voltage, temperature

    def feed(self, time: float) -> bool:  # noqa: ARG002 - only a watchdog cares
        """A packet for it, or for all, has come; whether that has changed what the motor is to do."""
        return False

    def watch(self, time: float) -> bool:  # noqa: ARG002 - only a watchdog cares
        """Look at the time; whether that has changed what the motor is to do."""
        return False

    def shut_down(self, flags: int) -> None:
        """Take the torque away for these alarms."""
        self.alarms.shut_down(flags)

    def copy_present(self, time: float) -> None:
        """Make the goal where the shaft is."""
        self.refresh(time)
        self.table["goal_position"] = self.table["present_position"]
