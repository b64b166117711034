"""Conversion of register counts; the units of each family are in `config/registers.py`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Words = TypeVar("Words", int, "npt.NDArray[np.int64]")
RPM = 2 * math.pi / 60  # rad/s

VOLT_PER_COUNT = 0.1
FULL_SCALE = 1023  # duty, torque limit and load: this count is 100 %
DIVISORS = tuple(2_000_000 / (value + 1) for value in range(255))  # bit/s by value of the baud rate register of an AX
_BAUD_TOLERANCE = 0.03  # largest relative error of the baud rate at which a UART still receives
_ALMOST_A_TURN = 0.95 * math.tau  # rad; the largest range of a common arm's joint is 330°
_DIRECTION_BIT = 10  # set means clockwise


@dataclass(frozen=True)
class Units:
    """Units of one register count in a family of servos."""

    position: float  # rad per count of Goal and Present Position
    speed: float  # rad/s per count of Moving and Present Speed
    counts: int  # highest position count (inclusive)
    voltage: float = VOLT_PER_COUNT  # V per count of Present Voltage and the voltage limits
    full_scale: int = FULL_SCALE  # count of 100 % duty or torque limit
    full_load: int = FULL_SCALE  # count of Present Load that means 100 %
    top_speed: int = FULL_SCALE  # highest count of a speed limit
    bauds: tuple[float, ...] = DIVISORS  # bit/s by value of the baud rate register

    @property
    def middle(self) -> int:
        """Return the position count in the middle of the range."""
        return (self.counts + 1) // 2

    @property
    def rates(self) -> str:
        """Return the baud rates to choose from, bit/s, as text of a hint."""
        if self.bauds[:2] == DIVISORS[:2]:
            return "2000000/(n+1): 1000000, 500000, 250000, 200000, 115200, 57600, …"
        return ", ".join(str(round(baud)) for baud in self.bauds)

    def baud(self, value: int) -> float:
        """Return the baud rate, bit/s, of a register value; NaN if there is no such value."""
        return self.bauds[value] if 0 <= value < len(self.bauds) else math.nan

    def baud_register(self, baud: float) -> int | None:
        """Return the register value nearest to `baud`; None when its rate differs by more than a UART tolerates."""
        rate = nearest_baud(baud, self.bauds)
        return self.bauds.index(rate) if abs(rate - baud) <= _BAUD_TOLERANCE * rate else None


def nearest_baud(baud: float, rates: Iterable[float]) -> float:
    """Return the rate, bit/s, that is nearest to `baud`."""
    return min(rates, key=lambda rate: abs(rate - baud))


def sign_magnitude(value: int, bit: int) -> int:
    """Encode a signed number as a magnitude below the bit that is its sign."""
    return abs(value) | (value < 0) << bit


def from_sign_magnitude(word: Words, bit: int) -> Words:
    """Decode what `sign_magnitude` encodes, of a number or an array; higher bits are ignored."""
    return (word & (1 << bit) - 1) * (1 - 2 * (word >> bit & 1))


def signed_to_bits(value: int) -> int:
    """Encode a signed speed or load: magnitude in bits 0-9, at most 1023; bit 10 set for clockwise (negative)."""
    return sign_magnitude(min(max(value, -FULL_SCALE), FULL_SCALE), _DIRECTION_BIT)


def limited_bits(raw: int, most: int) -> int:
    """Limit the magnitude of a signed speed or load to `most`; the sign bit stays, also of 0."""
    return sign_magnitude(min(raw & FULL_SCALE, most), _DIRECTION_BIT) | raw & 1 << _DIRECTION_BIT


def bits_to_signed(raw: int) -> int:
    """Decode Present Speed or Present Load: counter-clockwise positive, clockwise negative."""
    return from_sign_magnitude(raw, _DIRECTION_BIT)  # higher bits: some AX-12 of 2007 send them set in wheel mode


@dataclass(frozen=True)
class Calibration:
    """A servo's mounting: converts joint angles (rad) to register counts and back."""

    units: Units
    zero: int  # position count at 0 rad
    direction: int  # 1, or -1 when the joint's and the servo's positive directions are opposite

    def goal(self, angle: float) -> int:
        """Return the Goal Position for a joint angle, rad: the nearest count, not limited."""
        return round(self.zero + self.direction * angle / self.units.position)

    def angle(self, counts: float) -> float:
        """Return the joint angle of a Present Position, rad."""
        return self.direction * (counts - self.zero) * self.units.position

    def speed_limit(self, speed: float) -> int:
        """Return the Moving Speed for a positive speed limit, rad/s; at least 1, because 0 means full speed."""
        return min(max(round(speed / self.units.speed), 1), self.units.top_speed)

    def speed(self, raw: int) -> float:
        """Return the joint speed of a Present Speed, rad/s."""
        return self.direction * bits_to_signed(raw) * self.units.speed

    def load(self, raw: int) -> float:
        """Return the duty of a Present Load, -1..1, positive towards larger joint angles."""
        return self.direction * bits_to_signed(raw) / self.units.full_scale

    @property
    def range(self) -> tuple[float, float]:
        """Return the lowest and highest joint angle of the position register, rad."""
        ends = self.angle(0), self.angle(self.units.counts)
        return min(ends), max(ends)


def almost_a_turn(span: float) -> str:
    """Return a warning for a calibrated range of `span` rad that is almost a turn; "" for a smaller range."""
    if span <= _ALMOST_A_TURN:
        return ""
    return f"has a range of {math.degrees(span):.0f}°, almost a turn: it may have been led across the end of its count"
