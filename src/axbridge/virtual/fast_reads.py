"""What the firmware of all servos does at the same time, compiled: present registers, and a first look for alarms.

Without it a controller's step on 18 servos takes 1.1 times as long (`benchmarks/plant_cost.py`, `without`).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.servo.columns import Limit, Scale, State

__all__ = ["ByteArray", "present", "remarkable"]

ByteArray = npt.NDArray[np.uint8]

_exactly = partial(jit, exact=True)  # a register must not depend on who worked it out


@_exactly
def present(states: FloatArray, rows: IntArray, scales: FloatArray, data: ByteArray) -> bool:
    """Present position, speed, load, voltage and temperature of driven servos, as `Gauges.refresh` has them.

    Args:
        states: Rows of `State`, (k, len(State)).
        rows: Which servos they are of, (k,).
        scales: Of all servos, (servos, len(Scale)).
        data: Result: register bytes, (k, 8).

    Returns:
        Whether all of them are where their sensor can tell the position; else the result is of no use.
    """
    for i in range(len(rows)):
        scale, state = scales[rows[i]], states[i]
        position = np.rint(scale[Scale.ZERO] + state[State.READING] * scale[Scale.COUNTS_PER_RAD])
        if not 0 <= position <= scale[Scale.COUNTS]:
            return False
        _put(int(position), data, i, 0)
        _put_signed(np.rint(state[State.SPEED] / scale[Scale.SPEED]), data, i, 2)
        _put_signed(np.rint(state[State.DUTY] * 1023), data, i, 4)
        data[i, 6] = int(min(max(np.rint(state[State.VOLTAGE] * 10), 0.0), 255.0))
        data[i, 7] = int(min(max(np.rint(state[State.TEMPERATURE]), 0.0), 255.0))
    return True


@_exactly
def _put_signed(value: float, data: ByteArray, row: int, place: int) -> None:
    """A magnitude, and bit 10 for clockwise."""
    bits = int(min(abs(value), 1023.0))
    _put(bits + 1024 if value < 0 else bits, data, row, place)


@_exactly
def _put(value: int, data: ByteArray, row: int, place: int) -> None:
    data[row, place] = value % 256
    data[row, place + 1] = value // 256


@_exactly
def remarkable(states: FloatArray, limits: FloatArray, found: IntArray) -> int:
    """Servos whose firmware may have to act: those beyond their `VirtualServo.limits`.

    Args:
        states: (servos, len(State)).
        limits: (servos, len(Limit)).
        found: Result, (servos,): their rows come first.

    Returns:
        How many they are.
    """
    count = 0
    for row in range(len(states)):
        state, limit = states[row], limits[row]
        volts = limit[Limit.LOWEST_VOLTAGE] <= state[State.VOLTAGE] <= limit[Limit.HIGHEST_VOLTAGE]
        cool = state[State.TEMPERATURE] <= limit[Limit.TEMPERATURE]
        if not (
            volts
            and cool
            and (abs(state[State.DUTY]) < limit[Limit.DUTY] or abs(state[State.SPEED]) > limit[Limit.SPEED])
        ):
            found[count] = row
            count += 1
    return count
