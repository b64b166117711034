"""What the counts in a control table are worth, in words for people."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from axbridge.config.profile import FirmwareProfile
from axbridge.errors import ErrorFlag, FeetechError, HardwareError
from axbridge.units import RPM, baud_of, bits_to_signed

_SCALED = re.compile(r"([\d.]+) (us|V|deg/s\^2|mA|ms|mV/ms|rev/min\^2)$")
_FLAGS = {"error bits": ErrorFlag, "hardware error bits": HardwareError, "Feetech error bits": FeetechError}
_NAMES = {"us": "µs", "deg/s^2": "°/s²", "rev/min^2": "rev/min²"}
_OR_MS = ", or ms"  # of the profile registers: time, if Drive Mode says so
_TIMED = 4  # its bit


def compliance_slope(written: int) -> int:
    """Counts over which the duty rises: the highest power of two not above the byte written, at least 2."""
    return max(2, 1 << max(written.bit_length() - 1, 0))


def in_units(profile: FirmwareProfile, name: str, values: Mapping[str, int]) -> str:
    """A register's value with its unit; "" for a plain number. Angles count from position 0, as in ROBOTIS' manual."""
    value, unit, units = values[name], profile.registers[name].unit, profile.units
    wheel = values.get("cw_angle_limit") == values.get("ccw_angle_limit") == 0
    if name == "moving_speed" and wheel and profile.units_name == "ax":
        return f"{bits_to_signed(value) / units.full_scale:.1%} duty"
    if name == "moving_speed" and value == 0:
        return "stands" if wheel else "full speed"
    if "bit 10 = CW" in unit and (wheel or name != "moving_speed"):
        value = bits_to_signed(value)
    if "bps" in unit:
        return f"{baud_of(value, profile.units_name):.0f} baud"
    if unit in _FLAGS:
        return _FLAGS[unit](value).describe()
    if unit.endswith(_OR_MS):
        unit = "ms" if values.get("drive_mode", 0) & _TIMED else unit.removesuffix(_OR_MS)
    if unit in {"degC", "ms"}:
        return f"{value} {'°C' if unit == 'degC' else unit}"
    if scaled := _SCALED.match(unit):
        return f"{value * float(scaled[1]):g} {_NAMES.get(scaled[2], scaled[2])}"
    if " rpm" in unit:
        return f"{value * units.speed / RPM:.1f} rpm"
    if " deg" in unit:
        return f"{math.degrees(value * units.position):.1f}°"
    if unit == "0.113 %":
        return f"{value / units.full_scale:.1%}"
    return f"{value / units.full_load:.1%}" if unit.startswith("0.1 %") else ""
