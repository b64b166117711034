"""What a servo's firmware watches: supply, temperature and load. When it shuts down, and how the host recovers it."""

from __future__ import annotations

from typing import Protocol

from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import Address
from axbridge.errors import ErrorFlag
from axbridge.servo.columns import State
from axbridge.units import RPM
from axbridge.virtual.control_table import ControlTable

_TORQUE_LIMIT = int(Address.TORQUE_LIMIT)
_OVERLOAD, _OVERHEATING = int(ErrorFlag.OVERLOAD), int(ErrorFlag.OVERHEATING)
_VOLTAGE = int(ErrorFlag.INPUT_VOLTAGE)
_DUTY, _SPEED, _VOLTS, _TEMPERATURE = map(int, (State.DUTY, State.SPEED, State.VOLTAGE, State.TEMPERATURE))


class Sensors(Protocol):
    """How the present registers of a servo come about; faults of the sensors are set here.

    Attributes:
        stuck: Position count that the sensor reports whatever the shaft does; None = it works.
        hot: Temperature reported instead of the simulated one, degC; None = none.
    """

    stuck: int | None
    hot: float | None

    def position(self, state: list[float]) -> int:
        """Present Position of a row of the state array."""


class Alarms:
    """The state bits of one servo's error byte, and the shutdown they lead to.

    Attributes:
        bits: State bits of the error byte now.
        tripped: Alarms that have taken the torque away and wait for recovery.
        overloaded: Whether the load counts as an overload whatever it is (a fault).
    """

    def __init__(self, profile: FirmwareProfile, table: ControlTable, gauges: Sensors) -> None:
        self._profile = profile
        self._table = table
        self._gauges = gauges
        self._stalled_since: float | None = None
        self.bits: int = 0
        self.tripped: int = 0
        self.overloaded: bool = False
        protection = profile.protection
        self._share = (
            protection.overload_duty / profile.units.full_scale
        )  # of the duty, for each count of what limits it
        self._standing = protection.overload_speed * profile.electrics.no_load_speed * RPM
        self._patience = protection.overload_s
        self.configure()

    def configure(self) -> None:
        """Take over the limits of the EEPROM area."""
        table = self._table
        self._voltages = table["min_voltage_limit"], table["max_voltage_limit"]
        self._hottest = table["temperature_limit"]

    def reset(self) -> None:
        """Forget everything, as at power-on."""
        self.bits = self.tripped = 0
        self.overloaded = False
        self._stalled_since = None

    def look(self, state: list[float], time: float, driven: bool) -> int:
        """Renew `bits` from a row of the state array; return the alarms that demand a shutdown now."""
        bits = 0
        lowest, highest = self._voltages
        if not lowest <= round(state[_VOLTS] * 10) <= highest:
            bits |= _VOLTAGE
        if (state[_TEMPERATURE] if self._gauges.hot is None else self._gauges.hot) > self._hottest:
            bits |= _OVERHEATING
        if self._stalled(state, time, driven) or self.tripped & _OVERLOAD or self.overloaded:
            bits |= _OVERLOAD
        self.bits = bits
        return bits and bits & self._table["shutdown"] & ~self.tripped

    def overload(self) -> int:
        """Make the load an overload until recovery; return the alarms that demand a shutdown now."""
        self.overloaded = True
        self.bits |= _OVERLOAD
        return _OVERLOAD & self._table["shutdown"]

    def shut_down(self, flags: int) -> None:
        """Take the torque away for these alarms, in the register that this firmware uses for it."""
        self.bits |= flags
        self.tripped |= flags
        if self._profile.behaviour.shutdown_effect == "torque_limit_zero":
            self._table["torque_limit"] = 0
        else:
            self._table["torque_enable"] = 0

    def recover(self, *, torque_enable: bool) -> None:
        """The host asks for torque again after a shutdown.

        Args:
            torque_enable: By Torque Enable; else by Torque Limit.
        """
        behaviour = self._profile.behaviour
        if behaviour.overload_latched and self.tripped & _OVERLOAD:
            if behaviour.shutdown_effect == "torque_limit_zero":
                self._table["torque_limit"] = 0
            return
        if behaviour.shutdown_effect == "torque_enable_off" and not torque_enable:
            return
        if torque_enable and not self._table["torque_limit"]:
            self._table["torque_limit"] = self._table["max_torque"]
        self.tripped = 0
        self.overloaded = False
        self.bits &= ~_OVERLOAD
        self._stalled_since = None

    @property
    def may_start(self) -> bool:
        """Whether a goal may switch the torque on: not after a shutdown that took Torque Enable away."""
        return not (self.tripped and self._profile.behaviour.shutdown_effect == "torque_enable_off")

    def _stalled(self, state: list[float], time: float, driven: bool) -> bool:
        """Whether the shaft has stood against all the torque it may give for too long."""
        limit = self._most()
        pushing = driven and limit and abs(state[_DUTY]) >= self._share * limit
        if not pushing or abs(state[_SPEED]) > self._standing:
            self._stalled_since = None
            return False
        if self._stalled_since is None:
            self._stalled_since = time
        return time - self._stalled_since >= self._patience

    def _most(self) -> int:
        """Counts of duty that the servo may give."""
        registers = self._table.data
        return registers[_TORQUE_LIMIT] | registers[_TORQUE_LIMIT + 1] << 8


class HardwareErrors(Alarms):
    """Those of a servo of Protocol 2.0: its Hardware Error Status. Nothing but a reboot takes a shutdown back."""

    def look(self, state: list[float], time: float, driven: bool) -> int:
        """See `Alarms.look`; what has shut the servo down stays."""
        fatal = super().look(state, time, driven)
        self.bits |= self.tripped
        return fatal

    def shut_down(self, flags: int) -> None:
        """Take the torque away for these errors."""
        self.bits |= flags
        self.tripped |= flags
        self._table["torque_enable"] = 0

    def _most(self) -> int:
        return self._table["pwm_limit"]
