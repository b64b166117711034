"""How stiffly a servo's own position loop holds its goal."""

from __future__ import annotations

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.register_units import compliance_slope


def volts_per_radian(model: ServoModel, profile: FirmwareProfile, supply: float) -> float:
    """What the position loop adds to the voltage for each radian off the goal, V, with factory registers.

    Args:
        model: Its position loop.
        profile: Its registers.
        supply: V.
    """
    law, units, registers = model.controller, profile.units, profile.registers
    if law.law == "state_feedback":
        return law.k_theta
    if law.law == "compliance":
        return supply / (law.slope or compliance_slope(int(registers["cw_compliance_slope"].initial)) * units.position)
    return supply * law.p_duty * profile.p_gain / units.position
