"""What every virtual servo is, whichever protocol it speaks: power, its row of the motors, alarms, faults.

It knows nothing of lines, and of time only how long its own firmware takes to answer. It owns a control table and one
row of a bank of motors.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from axbridge.bus.protocols import v2
from axbridge.bus.protocols.packet import Packet
from axbridge.config.instructions import INSTRUCTIONS, Instruction
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import State
from axbridge.sim.bank import Motors
from axbridge.virtual.alarms import Alarms, Sensors
from axbridge.virtual.control_table import ControlTable

_VOLTS = int(State.VOLTAGE)


class Status(NamedTuple):
    """An answer.

    Attributes:
        frame: The status packet.
        delay: From the end of the instruction packet to the first start bit, without interruptions, s.
        turn: The other servos that answer first.
        gap: How long it waits for each of those that does not answer, s; infinite: it waits for ever.
    """

    frame: bytes
    delay: float
    turn: tuple[int, ...] = ()
    gap: float = math.inf


class AnyServo(ABC):
    """One servo.

    Args:
        profile: Its model.
        motors: The bank it drives.
        index: Its row there.
        zero: Position count at 0 rad.
        registers: Values that differ from the factory's, by register name.
        time: Power-on, s.

    Attributes:
        zero: Position count at 0 rad.
        row: Its row in the bank.
        table: The control table.
        gauges: How the present registers come about.
        alarms: The state bits of its error byte, or its Hardware Error Status.
        protocol: Version of the protocol it speaks.
        id: Id it answers to.
        baud: Bits per second it hears and speaks.
        powered: Whether it has power.
        deafness: How long the last packet makes it deaf, s, after its answer. The line takes it over and sets 0.
        deaf_until: It hears nothing before this time, s.
        burns_all: Whether it burns EEPROM bytes that keep their value, too.
        dead: Whether it is broken: power does not bring it back.
        changed: Called when its id, its baud rate, how it answers, or its power may have changed.
    """

    gauges: Sensors
    alarms: Alarms
    protocol: ClassVar[int]
    id: int
    baud: float

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
        self.table: ControlTable = ControlTable(profile)
        self.changed: Callable[[], None] = _tell_nobody
        self.powered: bool = True
        self.deaf_until: float = 0.0
        self.deafness: float = 0.0
        self.burns_all = False
        self.dead = False
        self.row = index
        self._motors = motors
        self._rows = np.array([index])
        self.zero = zero
        self._units = profile.units
        self._reset_voltage = profile.protection.reset_voltage
        self._registered: tuple[int, bytes] | None = None
        self._known = frozenset(Instruction[name] for name in profile.instructions)
        given = profile.timing.reply_us  # at return delay 0
        self._delays = {int(code): given.get(code.name, given["WRITE"]) * 1e-6 for code in INSTRUCTIONS[self.protocol]}
        for name, value in (registers or {}).items():
            self.table[name] = value
        self._build()
        self.power_on(time, registers or {})
        self.deaf_until = time

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids it listens to."""
        return (self.id,)

    # -- power ---------------------------------------------------------------------------------------------------

    def power_off(self, time: float) -> None:
        """Take the supply away: silent and limp; the EEPROM keeps its bytes."""
        self.powered = False
        self._push(time)
        self.changed()

    def power_on(self, time: float, registers: Mapping[str, int] | None = None) -> None:
        """Start up: RAM anew, torque off, goal where the shaft is.

        Args:
            time: Now, s.
            registers: RAM values to set on top.
        """
        self.powered = not self.dead
        self.alarms.reset()
        self.table.power_on()
        self._begin(time)
        for name, value in (registers or {}).items():
            self.table[name] = value
        self._registered = None
        self.deaf_until = time + self.profile.timing.boot_ms * 1e-3
        self._configure()
        self._push(time)

    def power_cycle(self, time: float) -> None:
        """Off and on again."""
        self.power_off(time)
        self.power_on(time)

    # -- packets -------------------------------------------------------------------------------------------------

    @abstractmethod
    def handle(self, packet: Packet, time: float) -> Status | None:
        """Execute one packet whose last byte arrived at `time` (s); return the answer, None for silence.

        Effects of the packet count after its status: the answer carries the old id, level and delay.
        """

    @abstractmethod
    def take_block(self, address: int, data: bytes, time: float) -> None:
        """Carry out its part of a write to several servos that ended at `time` (s); never answered."""

    def feed(self, time: float) -> None:  # noqa: B027 - only a watchdog cares
        """A packet for it, or for all, has come at `time` (s)."""

    def fast_block(self, address: int, length: int, time: float) -> tuple[v2.Block, float] | None:  # noqa: ARG002
        """Its part of the answer to a fast read, and the delay of an answer; None where it stays silent."""
        return None

    @abstractmethod
    def peek(self, address: int, length: int, time: float, state: list[float] | None = None) -> bytes:
        """Register bytes as they are at `time` (s); fewer past the end of the table.

        Args:
            address: The first one's.
            length: How many.
            time: s.
            state: Row of the state array at that time; the present one when not given.
        """

    def read_delay(self, address: int, length: int) -> float | None:  # noqa: ARG002 - others can
        """Delay of the answer to a READ of these registers, as in `Status`; None where they cannot be read just so."""
        return None

    @abstractmethod
    def present(self, time: float) -> tuple[int, int, int, int, int]:
        """Present position, speed, load, voltage and temperature at `time` (s): register counts."""

    def _take_registered(self) -> tuple[int, bytes] | None:
        """What a REG_WRITE left for ACTION, which has it once; None where there is nothing."""
        registered, self._registered = self._registered, None
        if registered is not None:
            self.table["registered_instruction"] = 0
        return registered

    # -- motor and alarms ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def driven(self) -> bool:
        """Whether the motor is driven."""

    @abstractmethod
    def _build(self) -> None:
        """Make `gauges` and `alarms`; the table has the factory's values."""

    @abstractmethod
    def _begin(self, time: float) -> None:
        """Fill the RAM area that depends on more than the table, after power-on."""

    @abstractmethod
    def _configure(self) -> None:
        """Take over what the EEPROM area says."""

    @abstractmethod
    def _push(self, time: float) -> None:
        """Hand the registers to the motor."""

    def _burn(self, before: bytearray, now: bytearray) -> None:
        """Be deaf for as long as it takes to burn what has changed in the EEPROM area."""
        burnt = len(now) if self.burns_all else sum(map(int.__ne__, before, now))
        self.deafness += burnt * self.profile.timing.eeprom_deaf_us_per_byte * 1e-6

    def _state_at(self, time: float) -> list[float]:
        """Its row of the state array at `time` (s)."""
        (state,) = self._motors.sampled(self._rows, (time,)).tolist()
        return state  # type: ignore[no-any-return]

    def heat(self, temperature: float | None) -> None:
        """Let the temperature sensor report this, degC, whatever the motor's is; None: it works again."""
        self.gauges.hot = temperature

    def stick(self, time: float) -> None:
        """Freeze the position reading from now on, for the host and for the servo's own loop."""
        self.gauges.stuck = self.gauges.position(self._motors.state[self.row].tolist())
        self._push(time)

    def unstick(self, time: float) -> None:
        """Let the position reading follow the shaft again."""
        self.gauges.stuck = None
        self._push(time)

    def monitor(self, state: list[float], time: float) -> None:
        """Watch supply, temperature and load, as the firmware does all the time; shut down where it must.

        Args:
            state: Row of the state array.
            time: Now, s.
        """
        if state[_VOLTS] < self._reset_voltage:
            if self.powered:
                self.power_off(time)
            return
        if not self.powered:
            if self.dead:
                return
            self.power_on(time)
        if fatal := self.alarms.look(state, time, self.driven):
            self._shut_down(fatal, time)

    def overload(self, time: float) -> None:
        """Take the load for an overload from now on, until the host recovers the servo."""
        if fatal := self.alarms.overload():
            self._shut_down(fatal, time)

    def _shut_down(self, flags: int, time: float) -> None:
        self.alarms.shut_down(flags)
        self._push(time)


def _tell_nobody() -> None:
    """`AnyServo.changed` of a servo that is on no line."""
