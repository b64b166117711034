"""How stiffly a servo's own position loop holds its goal: what a planner has to add to a goal under load."""

from __future__ import annotations

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.virtual.registers import compliance_slope

__all__ = ["stiffness", "volts_per_radian"]


def stiffness(model: ServoModel, profile: FirmwareProfile, supply: float) -> float:
    """Torque that a servo at rest gains for each radian that it is off its goal, N·m/rad, with its factory registers.

    Dry friction, margin and punch are left out; they carry a part of a load, so a servo gives way less than this says.

    Args:
        model: Its motor and position loop.
        profile: Its registers.
        supply: V.
    """
    motor = model.motor
    resistance = motor.resistance
    if model.controller.law != "state_feedback":
        resistance += motor.resistance_per_duty
    constant = motor.torque_constant * motor.gear_ratio
    return motor.efficiency * constant * volts_per_radian(model, profile, supply) / resistance


def volts_per_radian(model: ServoModel, profile: FirmwareProfile, supply: float) -> float:
    """What the position loop adds to the voltage for each radian between goal and position, V, likewise.

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
    return supply * law.p_duty * int(registers["p_gain"].initial) / units.position
