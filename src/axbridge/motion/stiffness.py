"""How stiffly a servo's own position loop holds its goal: what a planner has to add to a goal under load."""

from __future__ import annotations

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.virtual.registers import compliance_slope

__all__ = ["stiffness"]


def stiffness(model: ServoModel, profile: FirmwareProfile, supply: float) -> float:
    """Torque that a servo at rest gains for each radian that it is off its goal, N·m/rad, with its factory registers.

    Dry friction, margin and punch are left out; they carry a part of a load, so a servo gives way less than this says.

    Args:
        model: Its motor and position loop.
        profile: Its registers.
        supply: V.
    """
    motor, law = model.motor, model.controller
    units, registers = profile.units, profile.registers
    if law.law == "state_feedback":
        volts = law.k_theta
    elif law.law == "compliance":
        slope = law.slope or compliance_slope(int(registers["cw_compliance_slope"].initial)) * units.position
        volts = supply / slope
    else:
        volts = supply * law.p_duty * int(registers["p_gain"].initial) / units.position
    resistance = motor.resistance + (0.0 if law.law == "state_feedback" else motor.resistance_per_duty)
    constant = motor.torque_constant * motor.gear_ratio
    return motor.efficiency * constant * volts / resistance
