"""What goal makes a servo be where a plan wants it, moving and under load: the servo's model, the other way round."""

from __future__ import annotations

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.register_units import compliance_slope
from axbridge.servo.columns import pack
from axbridge.servo.steady import SteadyServo

_STILL = 0.05  # rad/s: dry friction has its whole size from about twice this speed on
_LITTLE = 0.02  # of full duty: below, the goal changes sides gradually and does not jump over the dead zone


def goal_offset(
    model: ServoModel,
    profile: FirmwareProfile,
    supply: float,
    speed: FloatArray,
    acceleration: FloatArray,
    load: FloatArray,
) -> FloatArray:
    """How far ahead of its shaft a servo's goal has to be, rad, (n,); servo side, with the factory registers.

    Left out are the latency, which makes all joints late alike, current limits, backlash, and the I and D gains of a
    pid loop.
    """
    motor, law = model.motor, model.controller
    servo = SteadyServo.of(pack(model, profile.units.position))
    drive = servo.needed(load, speed, np.tanh(speed / _STILL)) + motor.armature * acceleration
    volts = supply * servo.felt(np.clip(servo.duty_of(drive, np.full_like(drive, supply), speed), -1.0, 1.0))
    if law.law == "state_feedback":
        ahead: FloatArray = (volts + law.k_omega * speed) / law.k_theta
        return ahead
    count, initial, dead = profile.units.position, profile.registers, motor.dead_duty
    duty = np.abs(volts) / supply
    if law.law == "compliance":
        slope = law.slope or compliance_slope(int(initial["cw_compliance_slope"].initial)) * count
        asked = law.punch if law.punch >= 0 else int(initial["punch"].initial) / profile.units.full_scale
        punch = (asked - dead) / (1 - dead)
        margin = int(initial["cw_compliance_margin"].initial) * count
        size = margin + slope * np.maximum(duty - punch, 0.0) / (1 - punch)
    else:
        size = count * (dead + (1 - dead) * duty) / (law.p_duty * profile.p_gain)
    ahead = np.tanh(volts / (_LITTLE * supply)) * size
    return ahead - model.sensor.lag_ms / 1000 * speed  # the loop sees where the shaft was: less goal does


def volts_per_radian(model: ServoModel, profile: FirmwareProfile, supply: float) -> float:
    """What the position loop adds to the voltage for each radian off the goal, V, with factory registers."""
    law, units, registers = model.controller, profile.units, profile.registers
    if law.law == "state_feedback":
        return law.k_theta
    if law.law == "compliance":
        return supply / (law.slope or compliance_slope(int(registers["cw_compliance_slope"].initial)) * units.position)
    return supply * law.p_duty * profile.p_gain / units.position
