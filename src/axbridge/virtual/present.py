"""Readings and alarms of many servos at once, with one kernel each.

The kernels need the readings as a function of the motor's state alone (`Firmware.scale`), and state limits inside of
which no alarm begins (`Firmware.alarm_limits`). The firmware handles servos that give none, and states outside of these
ranges. Both give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.servo.columns import State
from axbridge.virtual.alarms import AlarmLimits
from axbridge.virtual.firmware import Scale
from axbridge.virtual.servo import VirtualServo

_READ = np.array([State.READING, State.SPEED, State.DUTY, State.VOLTAGE, State.TEMPERATURE])  # as in `SensorCounts`
_ZEROS, _BEYOND = (0.0,) * len(_READ), (np.inf,) * len(_READ)
_NO_SCALE = Scale(_ZEROS, _BEYOND, _ZEROS, _ZEROS, _ZEROS, _BEYOND, _BEYOND, _ZEROS)
_SIZE, _UNIT, _FACTOR, _ZERO, _SHIFT, _LOW, _HIGH, _SIGN = range(len(_NO_SCALE))
_NEVER = AlarmLimits(*[-np.inf] * len(AlarmLimits._fields))
_LONGEST = 1 + 2 * len(_READ)  # bytes of the flag and the readings


class Readings:
    """Reads registers of the servos on a line."""

    def __init__(self) -> None:
        self._scales: list[Scale | None] = []
        self._rows, self._blocks = np.zeros(0), np.zeros(0, dtype=np.uint8)

    def read(
        self,
        servos: Sequence[VirtualServo],
        addresses: Sequence[int],
        lengths: Sequence[int],
        times: Sequence[float],
        states: FloatArray,
    ) -> list[bytes]:
        """Return the bytes of each servo's registers, from its row of `State` at its time, s."""
        scales = [servo.scale for servo in servos]
        if scales != self._scales:  # a servo was written to, or the READs are for other servos
            self._scales = scales
            self._rows = np.array([_NO_SCALE if scale is None else scale for scale in scales])
            self._blocks = np.zeros((len(scales), _LONGEST), dtype=np.uint8)
        _count(states, self._rows, self._blocks)
        written, answers = self._blocks.tobytes(), []
        for place, (servo, address, length) in enumerate(zip(servos, addresses, lengths, strict=True)):
            end, at, firmware = address + length, place * _LONGEST, servo.firmware
            if written[at] and firmware.refreshes_block(address, end):
                _, begin, last, _ = firmware.refreshed
                registers = servo.table.data
                registers[begin:last] = written[at + 1 : at + 1 + last - begin]
                answers.append(bytes(registers[address:end]))
            else:
                answers.append(servo.peek(address, length, times[place], states[place].tolist()))
        return answers


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
def _count(states: FloatArray, scales: FloatArray, blocks: npt.NDArray[np.uint8]) -> None:
    """Write 1 and the readings' bytes to each row of `blocks`, (servos, _LONGEST); 0 if a count is out of range."""
    for row in range(len(states)):
        blocks[row, 0] = place = 1
        for reading in range(len(_READ)):
            scale = scales[row, :, reading]
            share = states[row, _READ[reading]] / scale[_UNIT] * scale[_FACTOR]
            count = np.rint(share + scale[_ZERO]) - scale[_SHIFT]
            if not scale[_LOW] <= count <= scale[_HIGH]:
                blocks[row, 0] = 0
                break
            number = int(scale[_SIGN] - count if count < 0.0 and scale[_SIGN] > 0.0 else count)
            size = int(scale[_SIZE])  # negative: high byte first
            for byte in range(abs(size)):
                blocks[row, place + (byte if size > 0 else -size - 1 - byte)] = number >> 8 * byte & 255
            place += abs(size)


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
