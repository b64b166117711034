"""A Dynamixel's torque by its motor model, without a current sensor: duty to torque and back.

`i = (d·V - K·ω)/R(d)`, `τ = η·K·i - τ_F(ω)`, all at the output shaft: Lima et al. 2009, equations (1)-(5), with gear
efficiency η and the resistance that rises with duty; d is what the bridge lets through of the duty asked for.
"""

from __future__ import annotations

import math

from axbridge.config.model import FrictionParams, MotorParams
from axbridge.jit import plain
from axbridge.physics import motor as motor_kernels
from axbridge.physics import position_laws

__all__ = ["SpeedForecast", "current", "drawn_power", "duty_for", "estimated_torque", "friction"]

# One scalar at a time, a compiled kernel takes many times as long to be called as the arithmetic takes.
directed = plain(motor_kernels.directed)
felt, asked = plain(position_laws.felt), plain(position_laws.asked)
_FRESH = 0.6  # weight of the newest sample; with latency, unfiltered compensation of back-EMF would swing for ever
_AIM = 0.65  # of a step: right in its middle on average, and still within some per cent at its end
_RECENT = 0.1  # s: samples further apart say nothing about acceleration
_HEAVY, _LIGHT = 0.25, 0.6  # change of speed in a step, over the final one: forecast fully below, not at all above
_FADING = 0.9  # a step, of the largest change of speed seen
_AT_REST = 0.05  # rad/s: a Present Speed count is 0.0116, and readings of a standing joint flicker by some


def friction(law: FrictionParams, velocity: float, drive: float) -> float:
    """Friction torque to overcome, N·m, towards which the joint moves or is pushed.

    Args:
        law: Of the servo's model; Coulomb, Stribeck, viscous and load terms are used.
        velocity: rad/s; at rest the direction is that of `drive`.
        drive: Torque through the gear, N·m.
    """
    direction = math.copysign(1.0, velocity) if abs(velocity) > _AT_REST else math.copysign(1.0, drive) * (drive != 0)
    fading = math.exp(-((abs(velocity) / law.stribeck_speed) ** law.stribeck_exponent))
    dry = law.coulomb + law.stribeck * fading + (law.load + law.load_stribeck * fading) * abs(drive)
    return direction * (dry + law.quadratic * velocity * velocity) + law.viscous * velocity


def current(motor: MotorParams, duty: float, voltage: float, velocity: float) -> float:
    """Motor current at a steady duty, A, towards positive torque."""
    duty = felt(duty, motor.dead_duty)
    resistance = motor.resistance + motor.resistance_per_duty * abs(duty)
    return (duty * voltage - motor.output_constant * velocity) / resistance


def drawn_power(motor: MotorParams, duty: float, voltage: float, velocity: float) -> float:
    """Electrical power U·i at a steady duty, W; 0 where the motor brakes and gives some back."""
    return max(0.0, felt(duty, motor.dead_duty) * voltage * current(motor, duty, voltage, velocity))


def estimated_torque(motor: MotorParams, law: FrictionParams, duty: float, voltage: float, velocity: float) -> float:
    """Torque at the output shaft, N·m, of a duty at a speed: what set_torque commands and torque feedback reads."""
    efficiency = directed(motor.efficiency, motor.asymmetry, duty)
    drive = efficiency * motor.output_constant * current(motor, duty, voltage, velocity)
    lost = friction(law, velocity, drive)
    if abs(velocity) <= _AT_REST and abs(lost) > abs(drive):
        return 0.0  # friction alone holds it
    return drive - lost


def duty_for(motor: MotorParams, law: FrictionParams, torque: float, voltage: float, velocity: float) -> float:
    """Duty, -1..1, that gives `torque` (N·m) at the output shaft at a speed; the inverse of `estimated_torque`."""
    if torque == 0 and abs(velocity) <= _AT_REST:
        return 0.0
    drive = torque
    for _ in range(3):  # load-dependent friction is a share of what it makes necessary; the share is well below 1
        drive = torque + friction(law, velocity, drive)
    back = motor.output_constant * velocity
    pushed = drive / (motor.efficiency * motor.output_constant)
    pushed *= motor.efficiency / directed(motor.efficiency, motor.asymmetry, pushed * motor.resistance + back)
    duty = (pushed * motor.resistance + back) / voltage
    if motor.resistance_per_duty:
        # (R + r·|d|)·i = V·d - K·ω, with |d| = ±d
        duty = (pushed * motor.resistance + back) / (voltage - math.copysign(motor.resistance_per_duty, duty) * pushed)
    return max(-1.0, min(1.0, asked(duty, motor.dead_duty)))


class SpeedForecast:
    """The speed expected while a duty acts, for torque control: back-EMF changes with it during a whole step.

    A heavy load goes on accelerating as in the last step, so its speed is looked ahead over latency and step. A load so
    light that one step brings it to its final speed cannot be forecast; then the filtered speed is taken as it is.

    Args:
        motor: Of the servo's model.
        latency: From command to motion, s.
    """

    def __init__(self, motor: MotorParams, latency: float) -> None:
        self._softness = motor.resistance / (motor.efficiency * motor.output_constant**2)  # rad/s a N·m, at most
        self._latency = latency
        self._time = -math.inf
        self._measured = self._speed = self._acceleration = self._jump = 0.0

    def update(self, time: float, velocity: float, torque: float, period: float) -> float:
        """Take a sample; the speed to compensate, rad/s.

        Args:
            time: Of the sample, s.
            velocity: Measured, rad/s.
            torque: Commanded, N·m.
            period: Step that begins now, s.
        """
        passed = time - self._time
        if not 0 < passed < _RECENT:
            self._speed, self._acceleration, self._jump = velocity, 0.0, 0.0
        else:
            change = velocity - self._measured
            self._speed += _FRESH * (velocity - self._speed)
            self._acceleration += _FRESH * (change / passed - self._acceleration)
            self._jump = max(abs(change), _FADING * self._jump)
        self._time, self._measured = time, velocity
        lightness = self._jump / max(self._softness * abs(torque), 1e-9)
        trust = max(0.0, min(1.0, (_LIGHT - lightness) / (_LIGHT - _HEAVY)))
        lag = period * (1 - _FRESH) / _FRESH
        return self._speed + trust * self._acceleration * (self._latency + _AIM * period + lag)
