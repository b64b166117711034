"""Readings and alarms of many servos at once, with one kernel each.

The kernels need how the sensors count (`Firmware.sensors`), and state limits inside of which no alarm begins
(`Firmware.alarm_limits`). The firmware handles servos that give no limits, and states outside of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.columns import State
from axbridge.virtual.alarms import AlarmLimits
from axbridge.virtual.sensors import Count, Sensors, count_rows
from axbridge.virtual.servo import VirtualServo

_NEVER = AlarmLimits(*[-np.inf] * len(AlarmLimits._fields))


class Readings:
    """Reads registers of the servos on a line."""

    def __init__(self) -> None:
        self._sensors: list[Sensors] = []
        self._rows, self._counts = np.zeros((0, 0)), np.zeros((0, 0), dtype=np.int64)

    def read(
        self,
        servos: Sequence[VirtualServo],
        addresses: Sequence[int],
        lengths: Sequence[int],
        times: Sequence[float],
        states: FloatArray,
    ) -> list[bytes]:
        """Return the bytes of each servo's registers, from its row of `State` at its time, s."""
        sensors = [servo.sensors for servo in servos]
        if sensors != self._sensors:  # a servo was written to, or the READs are for other servos
            self._sensors, self._rows = sensors, np.array(sensors, dtype=float)
            self._counts = np.zeros((len(sensors), len(Count)), dtype=np.int64)
        count_rows(states, self._rows, self._counts)
        columns = zip(servos, addresses, lengths, times, states, self._counts.tolist(), strict=True)
        return [servo.peek(*given) for servo, *given in columns]


class Watch:
    """Finds the servos whose alarms need polling."""

    def __init__(self) -> None:
        self._alarm_limits: list[AlarmLimits | None] = []
        self._limits = np.zeros((0, len(_NEVER)))

    def polled(self, servos: Sequence[VirtualServo], states: FloatArray) -> list[int]:
        """Return the indices of the servos whose rows of `State` may start or end an alarm."""
        limits = [servo.alarm_limits for servo in servos]
        if limits != self._alarm_limits:
            self._alarm_limits = limits
            self._limits = np.array([_NEVER if limit is None else limit for limit in limits])
        rows, row = [], _first_beyond(states, self._limits, 0)
        while row < len(servos):
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
