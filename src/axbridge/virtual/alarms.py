"""Firmware protections against wrong supply voltage, high temperature and overload; shutdown and recovery."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import ErrorFlag
from axbridge.jit import jit
from axbridge.servo.columns import State
from axbridge.units import RPM, VOLT_PER_COUNT
from axbridge.virtual.control_table import ControlTable

_OVERLOAD, _OVERHEATING = int(ErrorFlag.OVERLOAD), int(ErrorFlag.OVERHEATING)
_VOLTAGE = int(ErrorFlag.INPUT_VOLTAGE)
_DUTY, _SPEED, _VOLTS, _TEMPERATURE = map(int, (State.DUTY, State.SPEED, State.VOLTAGE, State.TEMPERATURE))


class AlarmLimits(NamedTuple):
    """State limits of a servo without alarms; while the state is inside them, `Alarms.poll` changes nothing."""

    lowest: float  # -V: negated, so that every field is an upper limit
    highest: float  # V
    hottest: float  # degC
    duty: float  # magnitude
    current: float = math.inf  # A, magnitude


class Alarms:
    """Status bits of one servo's error byte or Hardware Error Status, and the shutdown that they cause."""

    def __init__(self, profile: FirmwareProfile, table: ControlTable) -> None:
        self._behaviour = profile.behaviour
        self._latched = "hardware_error_status" in table  # only a reboot ends a shutdown
        self._limit = "pwm_limit" if self._latched else "torque_limit"
        self._table = table
        self._above: dict[str, float] = {}  # s: time at which a quantity rose above its limit
        self.bits: int = 0  # present alarms
        self.tripped: int = 0  # alarms that switched the torque off and wait for recovery
        self.overloaded: bool = False  # overload at any load (a fault)
        protection = profile.protection
        self._duty_per_count = protection.overload_duty / profile.units.full_scale
        self._by_torque_limit = not self._latched and self._behaviour.shutdown_effect == "torque_limit_zero"
        self._standstill_speed = protection.overload_speed * profile.electrics.no_load_speed * RPM
        self._overload_time = protection.overload_s
        self._reset_volts = protection.reset_voltage
        self.configure()

    def configure(self) -> None:
        """Read the limits from the EEPROM area."""
        table = self._table
        self._voltages = table["min_voltage_limit"], table["max_voltage_limit"]
        self._hottest = table["temperature_limit"]

    def reset(self) -> None:
        """Clear all alarms, as at power-on."""
        self.bits = self.tripped = 0
        self.overloaded = False
        self._above = {}

    def poll(self, state: list[float], time: float, *, driven: bool, hot: float | None) -> int:
        """Update `bits` from a row of the state array; return the alarms that now require a shutdown.

        `hot`, degC, replaces the temperature of the state.
        """
        bits = 0
        lowest, highest = self._voltages
        if not lowest <= round(state[_VOLTS] / VOLT_PER_COUNT) <= highest:
            bits |= _VOLTAGE
        if round(state[_TEMPERATURE] if hot is None else hot) > self._hottest:
            bits |= _OVERHEATING
        if self._stalled(state, time, driven) or self.tripped & _OVERLOAD or self.overloaded:
            bits |= _OVERLOAD
        self.bits = bits | self.tripped if self._latched else bits
        return bits and bits & self._table["shutdown"] & ~self.tripped

    def limits(self, *, driven: bool) -> AlarmLimits | None:
        """Return the present limits; None while an alarm is set or a stall is being timed."""
        if self.bits or self.tripped or self.overloaded or self._above:
            return None
        lowest, highest = self._voltages
        duty = self._pushing_duty if driven else math.inf
        return AlarmLimits(-max(lowest / 10, self._reset_volts), highest / 10, self._hottest, math.nextafter(duty, 0.0))

    @property
    def _pushing_duty(self) -> float:
        """Smallest duty at which a driven motor counts as pushing."""
        return self._duty_per_count * self._table[self._limit] or math.inf

    def overload(self) -> int:
        """Set the overload alarm until recovery; return the alarms that now require a shutdown."""
        self.overloaded = True
        self.bits |= _OVERLOAD
        return _OVERLOAD & self._table["shutdown"]

    def shut_down(self, flags: int) -> None:
        """Switch the torque off for these alarms, through the register that this firmware uses."""
        self.bits |= flags
        self.tripped |= flags
        if self._by_torque_limit:
            self._table["torque_limit"] = 0
        else:
            self._table["torque_enable"] = 0

    def recover(self, *, torque_enable: bool) -> None:
        """End a shutdown that is not latched; the host has written Torque Enable, or else Torque Limit."""
        if self._behaviour.overload_latched and self.tripped & _OVERLOAD:
            if self._by_torque_limit:
                self._table["torque_limit"] = 0
            return
        if not (self._by_torque_limit or torque_enable):
            return
        if torque_enable and not self._table["torque_limit"]:
            self._table["torque_limit"] = self._table["max_torque"]
        self.tripped = 0
        self.overloaded = False
        self.bits &= ~_OVERLOAD
        self._above = {}

    @property
    def may_start(self) -> bool:
        """Whether a goal or a speed may switch the torque on; not after a shutdown that cleared Torque Enable."""
        return self._by_torque_limit or not self.tripped

    def _stalled(self, state: list[float], time: float, driven: bool) -> bool:
        """Return whether the shaft has stood still at the overload duty for longer than the overload time."""
        high = driven and abs(state[_DUTY]) >= self._pushing_duty and self._stands(state)
        return self._lasts("load", time, self._overload_time, high=high)

    def _lasts(self, quantity: str, time: float, seconds: float, *, high: bool) -> bool:
        """Return whether a quantity, which is `high` at `time` (s), was so for `seconds`."""
        if not high:
            self._above.pop(quantity, None)
        return high and time - self._above.setdefault(quantity, time) >= seconds

    def _stands(self, state: list[float]) -> bool:
        return abs(state[_SPEED]) <= self._standstill_speed


_NEVER = AlarmLimits(*[-np.inf] * len(AlarmLimits._fields))


class Watch:
    """Finds the servos whose alarms need polling."""

    def __init__(self) -> None:
        self._alarm_limits: Sequence[AlarmLimits | None] = []
        self._limits = np.zeros((0, len(_NEVER)))

    def polled(self, limits: Sequence[AlarmLimits | None], states: FloatArray) -> list[int]:
        """Return the rows of `State` that may start or end an alarm."""
        if limits != self._alarm_limits:
            self._alarm_limits = limits
            self._limits = np.array([_NEVER if limit is None else limit for limit in limits])
        rows, row = [], _first_beyond(states, self._limits, 0)
        while row < len(limits):
            rows.append(row)
            row = _first_beyond(states, self._limits, row + 1)
        return rows


@jit
def _first_beyond(states: FloatArray, limits: FloatArray, first: int) -> int:
    """Return the first row from `first` on above its limits (rows of `AlarmLimits`); else the number of rows."""
    for row in range(first, len(states)):
        limit, volts = limits[row], states[row, State.VOLTAGE]
        if not (
            -volts <= limit[0]
            and volts <= limit[1]
            and states[row, State.TEMPERATURE] <= limit[2]
            and abs(states[row, State.DUTY]) <= limit[3]
            and abs(states[row, State.CURRENT]) <= limit[4]
        ):
            return row
    return len(states)
