"""The last minutes of a robot, in memory that does not grow."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.state import ServoState

QUANTITIES = ("goal", "position", "ghost", "velocity", "load", "torque", "voltage", "temperature")
_EVERY = 0.04  # s between rows: 25 a second, whatever the loop's rate
_MINUTES = 10


class History:
    """Rows of all servos' quantities, the oldest written over; single precision.

    Args:
        names: The servos, in the order of the columns.
        seconds: How far back it goes.
    """

    def __init__(self, names: Sequence[str], seconds: float = 60.0 * _MINUTES) -> None:
        rows = round(seconds / _EVERY)
        self._places = {name: place for place, name in enumerate(names)}
        self._time = np.full(rows, np.nan)
        self._values = np.full((rows, len(names), len(QUANTITIES)), np.nan, dtype=np.float32)
        self._bus = np.full((rows, 3), np.nan, dtype=np.float32)  # rate, ms a cycle, lost
        self._next = 0
        self._full = False
        self._due = -np.inf
        self._lock = threading.Lock()

    def add(
        self,
        time: float,
        states: Mapping[str, ServoState],
        goals: Mapping[str, float],
        ghost: Mapping[str, float],
        bus: tuple[float, float, float],
    ) -> bool:
        """Take a row, unless the last one is too fresh; whether it was taken."""
        if time < self._due and time >= self._due - 2 * _EVERY:
            return False
        self._due = time + _EVERY
        row = [
            (
                goals.get(name, np.nan), state.position, ghost.get(name, np.nan), state.velocity,
                state.load, state.torque, state.voltage, state.temperature,
            )
            for name in self._places
            for state in (states[name],)
        ]  # fmt: skip
        with self._lock:
            self._time[self._next] = time
            self._values[self._next] = row
            self._bus[self._next] = bus
            self._next = (self._next + 1) % len(self._time)
            self._full |= self._next == 0
        return True

    def of(
        self, servo: str, quantities: Sequence[str], seconds: float, most: int
    ) -> tuple[FloatArray, list[FloatArray]]:
        """The last `seconds` of some quantities of a servo."""
        place = self._places[servo]
        columns = [QUANTITIES.index(quantity) for quantity in quantities]
        with self._lock:
            rows = self._rows(seconds, most)
            time = self._time[rows]
            values = self._values[rows, place][:, columns].astype(float)
        return _ago(time), list(values.T)

    def of_bus(self, seconds: float, most: int) -> tuple[FloatArray, list[FloatArray]]:
        """As `of`: rate, time of a cycle in ms, packets lost."""
        with self._lock:
            rows = self._rows(seconds, most)
            time, values = self._time[rows], self._bus[rows].astype(float)
        return _ago(time), list(values.T)

    def _rows(self, seconds: float, most: int) -> np.ndarray:
        """Indices of the rows of that time, oldest first. The step is a fixed grid, so that curves do not flicker."""
        count = len(self._time) if self._full else self._next
        rows = (self._next - np.arange(count, 0, -1)) % len(self._time)
        time = self._time[rows]
        rows = rows[np.searchsorted(time, time[-1] - seconds) :] if count else rows
        step = max(1, -(-min(round(seconds / _EVERY), len(self._time)) // most))
        return rows[(rows % step) == 0] if step > 1 else rows


def _ago(time: FloatArray) -> FloatArray:
    return time - time[-1] if len(time) else time


def without_gaps(curve: FloatArray, instead: FloatArray) -> FloatArray:
    """A curve with the values of another one where it has none.

    The page's plots join what is beside a gap by a line, and show nothing at all where a curve begins with one.
    """
    return np.where(np.isnan(curve), instead, curve)
