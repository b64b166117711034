"""The counts of a servo's sensors as a function of the motor's state, for one servo or for many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.columns import State

_BYTE = 255
_NONE = math.nan


class Count(IntEnum):
    """Readings of the sensors, as signed counts: columns of their arrays, and places in their lists."""

    POSITION = 0
    SPEED = 1
    LOAD = 2
    VOLTAGE = 3
    TEMPERATURE = 4
    PLANNED = 5  # position of the trajectory


class Sensors(NamedTuple):
    """How a servo's sensors count.

    A position is floor((round(x - k·period) - lost) / divider) + shift, limited to `low` and `high`, with
    x = zero + angle / unit and, for a sensor that measures one turn, k = floor((x - start) / period).
    """

    zero: float  # counts
    unit: float  # rad; negative if the position falls when the shaft's angle rises
    period: float = 0.0  # counts in a turn; 0: the sensor counts turns
    start: float = 0.0  # counts: where a turn begins
    lost: int = 0  # counts
    divider: int = 1
    shift: int = 0  # counts
    low: int = -1 << 31
    high: int = (1 << 31) - 1
    speed_unit: float = 1.0  # rad/s
    duty_load: float = 0.0  # load counts at full duty
    supply_load: float = 0.0  # load counts per ampere from the supply
    volt_unit: float = 1.0  # V
    stuck: float = _NONE  # counts: position that a stuck sensor reports
    hot: float = _NONE  # degC, reported instead of the simulated temperature (a fault)


(_ZERO, _UNIT, _PERIOD, _START, _LOST, _DIVIDER, _SHIFT, _LOW, _HIGH, _SPEED_UNIT, _DUTY_LOAD, _SUPPLY_LOAD, _VOLT_UNIT,
 _STUCK, _HOT) = range(len(Sensors._fields))  # fmt: skip


@jit
def count(state: FloatArray, sensors: FloatArray, counts: npt.NDArray[np.int64]) -> None:
    """Fill `counts` (len(Count),) from a row of `State`; `sensors` is in the order of `Sensors`."""
    for place, angle in ((Count.POSITION, state[State.READING]), (Count.PLANNED, state[State.REFERENCE])):
        exact = sensors[_ZERO] + angle / sensors[_UNIT]
        if sensors[_PERIOD] > 0.0:
            exact -= math.floor((exact - sensors[_START]) / sensors[_PERIOD]) * sensors[_PERIOD]
        whole = (round(exact) - int(sensors[_LOST])) // int(sensors[_DIVIDER]) + int(sensors[_SHIFT])
        counts[place] = min(max(whole, int(sensors[_LOW])), int(sensors[_HIGH]))
    if not math.isnan(sensors[_STUCK]):
        counts[Count.POSITION] = int(sensors[_STUCK])
    duty = state[State.DUTY]
    counts[Count.SPEED] = round(state[State.SPEED] / sensors[_SPEED_UNIT])
    counts[Count.LOAD] = round(duty * sensors[_DUTY_LOAD] + state[State.CURRENT] * abs(duty) * sensors[_SUPPLY_LOAD])
    warmth = state[State.TEMPERATURE] if math.isnan(sensors[_HOT]) else sensors[_HOT]
    counts[Count.VOLTAGE] = min(max(round(state[State.VOLTAGE] / sensors[_VOLT_UNIT]), 0), _BYTE)
    counts[Count.TEMPERATURE] = min(max(round(warmth), 0), _BYTE)


@jit
def _count_rows(states: FloatArray, sensors: FloatArray, counts: npt.NDArray[np.int64]) -> None:
    """Fill `counts` (servos, len(Count)), a row for each servo, as `count` does."""
    for row in range(len(states)):
        count(states[row], sensors[row], counts[row])


class Counters:
    """The sensors of many servos, which count with one kernel."""

    def __init__(self) -> None:
        self._sensors: Sequence[Sensors] = []
        self._rows, self._counts = np.zeros((0, 0)), np.zeros((0, 0), dtype=np.int64)

    def count(self, sensors: Sequence[Sensors], states: FloatArray) -> list[list[int]]:
        """Return the readings of each servo, in the order of `Count`, from its row of `State`."""
        if sensors != self._sensors:  # a servo was written to, or the READs are for other servos
            self._sensors, self._rows = sensors, np.array(sensors, dtype=float)
            self._counts = np.zeros((len(sensors), len(Count)), dtype=np.int64)
        _count_rows(states, self._rows, self._counts)
        return self._counts.tolist()
