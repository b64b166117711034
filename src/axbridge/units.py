"""Units of register counts; no other module defines them.

Sources: ROBOTIS e-manual, AX-12A, MX-28, XL330 and XL430 control tables ("Goal Position", "Moving Speed", "Present
Load", "Present Voltage", "Goal PWM", "Baud Rate"); Feetech, SMS/STS and SCSCL memory tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

RPM = 2 * math.pi / 60  # rad/s

VOLT_PER_COUNT = 0.1
FULL_SCALE = 1023  # duty, torque limit and load: this count is 100 %
_MX_BAUDS = {250: 2_250_000.0, 251: 2_500_000.0, 252: 3_000_000.0}
_FEETECH_BAUDS = 1e6, 500_000.0, 250_000.0, 128_000.0, 115_200.0, 57_600.0, 38_400.0, 19_200.0
_X_BAUDS = (9_600.0, 57_600.0, 115_200.0, 1e6, 2e6, 3e6, 4e6, 4.5e6)  # the XL330 ends at 4 M
_BAUD_TOLERANCE = 0.03  # largest relative error of the baud rate at which a UART still receives
_ALMOST_A_TURN = 0.95 * math.tau  # rad; the largest range of a common arm's joint is 330°
_DIRECTION_BIT = 0x400  # bit 10 set means clockwise


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
    bauds: tuple[float, ...] = ()  # bit/s by value v of the baud rate register; empty: 2e6/(v+1)

    @property
    def middle(self) -> int:
        """Return the position count in the middle of the range."""
        return (self.counts + 1) // 2


AX = Units(position=math.radians(300 / 1023), speed=0.111 * RPM, counts=1023)
MX = Units(position=math.radians(360 / 4096), speed=0.114 * RPM, counts=4095)
X = Units(
    position=math.radians(360 / 4096), speed=0.229 * RPM, counts=4095, full_scale=885, full_load=1000, top_speed=2047,
    bauds=_X_BAUDS,
)  # fmt: skip
STS = Units(
    position=math.radians(360 / 4096), speed=math.radians(360 / 4096), counts=4095, full_scale=1000, full_load=1000,
    top_speed=32767, bauds=_FEETECH_BAUDS,
)  # fmt: skip
SCS = Units(
    position=math.radians(300 / 1024), speed=math.radians(300 / 1024), counts=1023, full_scale=1000, full_load=1000,
    top_speed=32767, bauds=_FEETECH_BAUDS,
)  # fmt: skip
UnitsName = Literal["ax", "mx", "x", "sts", "scs"]
UNITS: Mapping[str, Units] = {"ax": AX, "mx": MX, "x": X, "sts": STS, "scs": SCS}


def baud_of(value: int, units_name: str = "ax") -> float:
    """Return the baud rate, bit/s, of a register value v: 2e6/(v+1), or from the family's list (NaN: not in it)."""
    if bauds := UNITS[units_name].bauds:
        return bauds[value] if 0 <= value < len(bauds) else math.nan
    if units_name == "mx" and value in _MX_BAUDS:
        return _MX_BAUDS[value]
    return 2_000_000 / (value + 1)


def bauds_of(units_name: str) -> list[float]:
    """Return the baud rate, bit/s, of each value of the baud rate register."""
    return [baud_of(value, units_name) for value in range(len(UNITS[units_name].bauds) or 255)]


def nearest_baud(baud: float, rates: Iterable[float]) -> float:
    """Return the rate, bit/s, that is nearest to `baud`."""
    return min(rates, key=lambda rate: abs(rate - baud))


def baud_register(baud: float, units_name: str = "ax") -> int | None:
    """Return the register value nearest to `baud`; None when its rate differs by more than a UART tolerates."""
    rates = bauds_of(units_name)
    rate = nearest_baud(baud, rates)
    value = rates.index(rate)
    return value if abs(rate - baud) <= _BAUD_TOLERANCE * rate else None


def signed_to_bits(value: int) -> int:
    """Encode a signed speed or load: magnitude in bits 0-9, at most 1023; bit 10 set for clockwise (negative)."""
    magnitude = min(abs(value), FULL_SCALE)
    return magnitude | _DIRECTION_BIT if value < 0 else magnitude


def bits_to_signed(raw: int) -> int:
    """Decode Present Speed or Present Load: counter-clockwise positive, clockwise negative."""
    magnitude = raw & FULL_SCALE  # bits above 10 are ignored: some AX-12 of 2007 send them set in wheel mode
    return -magnitude if raw & _DIRECTION_BIT else magnitude


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
