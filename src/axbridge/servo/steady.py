"""What a servo does when nothing changes: the equations of `motor` and `friction`, solved for what is asked.

All at the output shaft. A duty d reaches the motor as f(d), less than what the bridge swallows. At the speed ω

    i = (f·V - K·ω) / (R + r·|f|)        within the limits of the current
    m = η·(1 ± a)·K·i                    a: more one way, less the other
    T = m - s·B(ω, m, T) - Bv·ω          s: the direction of friction, B: its budget

T is what the load takes. Where a law counts the load, B grows with T, and T stands on both sides. B is made of lines:
Newton's way from one to the next ends after as many steps as there are corners.

Numbers and arrays go the same way here, one servo or many; so a robot's step, which asks for one number at a time, and
a motion's thousands share each formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile, compliance_slope
from axbridge.jit import plain
from axbridge.servo.columns import Param, friction_of, motor_of, pack
from axbridge.servo.friction import Friction
from axbridge.servo.motor import Motor

AT_REST = 0.05  # rad/s: a Present Speed count is 0.0116, and readings of a standing joint flicker by some
_CORNERS = 3  # lines that meet in two corners
_FLATTEST = 0.1  # of a line: friction above what drives it has no solution, and is not to have a wild one
_LEAST_DUTY = 1e-3  # as in `motor.limited_current`
_LEAST_SUPPLY = 1e-3  # share of the supply that resistance per duty leaves, where no duty gives such a current

T = TypeVar("T", float, FloatArray)


@dataclass(frozen=True)
class SteadyServo:
    """One servo, or several; then each figure is an array (servos,)."""

    motor: Motor  # its winding is as warm as its surroundings
    # dry friction, the output shaft's in its Coulomb friction, to which the joint's own may be added
    friction: Friction
    viscous: float  # N·m·s/rad
    dead: float  # share of full duty that the bridge swallows
    warming: float  # share of the resistance a kelvin above `ambient`
    ambient: float  # degC

    @classmethod
    def of(cls, row: FloatArray) -> SteadyServo:
        """From a packed model (len(Param),), or one for each servo, (servos, len(Param))."""
        columns: Any = row.tolist() if row.ndim == 1 else row.T
        friction = plain(friction_of)(columns)
        return cls(
            plain(motor_of)(columns, columns[Param.RESISTANCE]),
            friction._replace(coulomb=friction.coulomb + columns[Param.OUTPUT]),
            columns[Param.VISCOUS],
            columns[Param.DEAD_DUTY],
            columns[Param.RESISTANCE_PER_KELVIN],
            columns[Param.AMBIENT],
        )

    def at(self, temperature: T) -> SteadyServo:
        """The same servo with a winding of this temperature, degC."""
        factor: Any = _clipped(1.0 + self.warming * (temperature - self.ambient), 0.1, math.inf)
        return replace(self, motor=self.motor._replace(resistance=self.motor.resistance * factor))

    def motor_duty(self, duty: T) -> T:
        """What reaches the motor of a duty: `position_laws.motor_duty`."""
        size = abs(duty) - self.dead
        return _sign(duty) * size * (size > 0.0) / (1.0 - self.dead)

    def loop_duty(self, motor_duty: T) -> T:
        """The duty of which the motor feels this one: `position_laws.loop_duty`."""
        return _sign(motor_duty) * (self.dead + (1.0 - self.dead) * abs(motor_duty))

    def resistance(self, duty: T) -> T:
        """Of the winding and the bridge, ohm."""
        return self.motor.resistance + self.motor.resistance_per_duty * abs(self.motor_duty(duty))

    def current(self, duty: T, volts: T, speed: T) -> T:
        """Current in the winding, A, towards positive torque."""
        motor, motor_duty = self.motor, self.motor_duty(duty)
        free = (motor_duty * volts - motor.constant * speed) / self.resistance(duty)
        on = 1.0 + (motor.supply_side != 0.0) * (_clipped(abs(motor_duty), _LEAST_DUTY, 1.0) - 1.0)  # share of the time
        limit = motor.max_current / on
        return _where(limit > 0.0, _clipped(free, -limit, limit), free)

    def power(self, duty: T, volts: T, speed: T) -> T:
        """Electrical power U·i, W; below 0 where the motor brakes and gives some back."""
        return self.motor_duty(duty) * volts * self.current(duty, volts, speed)

    def drive(self, duty: T, volts: T, speed: T) -> T:
        """Torque that passes the gear, before friction, N·m; arguments as for `current`."""
        motor = self.motor
        passed = motor.efficiency * (1.0 + (2.0 * (self.motor_duty(duty) > 0.0) - 1.0) * motor.asymmetry)
        return passed * motor.constant * self.current(duty, volts, speed)

    def torque(self, duty: T, volts: T, speed: T) -> T:
        """Torque that a load takes at this speed, N·m; 0 at rest where friction alone holds the shaft.

        At rest, below `AT_REST`, friction is against the drive; arguments as for `current`.
        """
        drive = self.drive(duty, volts, speed)
        rest = abs(speed) <= AT_REST
        torque = self._output(drive, speed, _where(rest, _sign(drive), _sign(speed)))
        return _where(rest & (_sign(torque) * _sign(drive) < 0.0), 0.0 * torque, torque)  # a product may vanish

    def holding_torque(self, duty: T, volts: T) -> T:
        """Largest load that does not move the shaft while this duty is against it, N·m: friction helps."""
        return self._output(abs(self.drive(duty, volts, 0.0 * volts)), 0.0 * volts, -1.0)

    def needed(self, torque: T, speed: T, direction: T) -> T:
        """Torque before friction with which the load takes `torque`, N·m."""
        at_rest, (p1, q1, p2, q2) = self._shares(speed)
        against = torque + self.viscous * speed + direction * self._without_load(speed, at_rest)
        drive = against
        for _ in range(_CORNERS if self._counts_load else 0):
            one, other = p1 * drive + q1 * torque, p2 * drive + q2 * torque
            slope = 1.0 - direction * (p1 * _sign(one) + p2 * _sign(other))
            beyond = drive - direction * (abs(one) + abs(other)) - against
            drive = drive - beyond / _clipped(slope, _FLATTEST, math.inf)  # not in place: it may be an array
        return drive

    def duty_of(self, drive: T, volts: T, speed: T) -> T:
        """Duty that gives a torque before friction, N·m; over 1 where the supply does not suffice.

        Limits of the current are left out; arguments as for `current`.
        """
        motor = self.motor
        gain, back = motor.efficiency * motor.constant, motor.constant * speed
        direction = 2.0 * (drive * motor.resistance / gain + back > 0.0) - 1.0
        current = drive / (gain * (1.0 + direction * motor.asymmetry))
        # (R + r·|f|)·i = f·V - K·ω, with |f| = ±f
        left = _clipped(volts - direction * motor.resistance_per_duty * current, _LEAST_SUPPLY * volts, math.inf)
        motor_duty = (current * motor.resistance + back) / left
        return self.loop_duty(motor_duty * (motor_duty * direction > 0.0))  # 0: no volts

    def duty(self, torque: T, volts: T, speed: T) -> T:
        """Duty with which the load takes `torque`, N·m, at this speed: the inverse of `torque`; over 1: it cannot.

        At rest friction is against the torque, so this is the duty that just moves the load; 0 for no torque.
        """
        rest = abs(speed) <= AT_REST
        drive = self.needed(torque, speed, _where(rest, _sign(torque), _sign(speed)))
        return _where(rest & (torque == 0.0), 0.0 * drive, self.duty_of(drive, volts, speed))

    def loop_current(self, torque: T, volts: T, speed: T) -> T:
        """What a loop of the current is asked for with which the load takes `torque`, N·m, at this speed, A.

        A loop that measures the supply's current sees it during the on-time of the PWM alone. It cannot brake by less
        than a shorted motor does: then this is 0, and the motor coasts.
        """
        duty = _clipped(self.duty(torque, volts, speed), -1.0, 1.0)
        current = self.current(duty, volts, speed)
        drawn = current * abs(self.motor_duty(duty)) * (duty * current > 0.0)
        return _where(self.motor.supply_side != 0.0, drawn, current)

    def _output(self, drive: T, speed: T, direction: T | float) -> T:
        at_rest, (p1, q1, p2, q2) = self._shares(speed)
        left = drive - self.viscous * speed - direction * self._without_load(speed, at_rest)
        torque = left
        for _ in range(_CORNERS if self._counts_load else 0):
            one, other = p1 * drive + q1 * torque, p2 * drive + q2 * torque
            slope = 1.0 + direction * (q1 * _sign(one) + q2 * _sign(other))
            beyond = torque + direction * (abs(one) + abs(other)) - left
            torque = torque - beyond / _clipped(slope, _FLATTEST, math.inf)
        return torque

    @property
    def _counts_load(self) -> bool:
        """Whether a law counts the load; else the friction is known at once."""
        law = self.friction
        shares = law.load, law.load_stribeck, law.load_external, law.load_external_stribeck  # below 0: as the motor's
        return any(share > 0.0 if isinstance(share, float) else (share > 0.0).any() for share in shares)

    def _without_load(self, speed: T, at_rest: T) -> T:
        law = self.friction
        return law.coulomb + law.stribeck * at_rest + law.quadratic * speed * speed

    def _shares(self, speed: T) -> tuple[T, tuple[T, T, T, T]]:
        """How far the Stribeck terms hold, and the load's: |p1·m + q1·T| + |p2·m + q2·T|."""
        law = self.friction
        at_rest = math.e ** -((abs(speed) / law.stribeck_speed) ** law.stribeck_exponent)
        together, fading = law.load_external < 0.0, law.load_stribeck * at_rest
        share = law.load + fading * together
        weight = share * together + law.load_external * (law.load_external > 0.0)
        apart = 1.0 - together
        return at_rest, (share, weight, fading * apart, law.load_external_stribeck * at_rest * apart)


def _sign(value: T) -> T:
    """1, 0 or -1; NaN counts as 0."""
    return (value > 0.0) * 1.0 - (value < 0.0) * 1.0


def _clipped(value: T, low: T | float, high: T | float) -> T:
    if isinstance(value, float):
        return min(max(value, low), high)
    return np.clip(value, low, high)


def _where(condition: Any, value: T, other: T) -> T:
    if isinstance(condition, (bool, np.bool_)):
        return value if condition else other
    return np.where(condition, value, other)  # type: ignore[return-value]  # arrays, and T is theirs


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
    volts = supply * servo.motor_duty(np.clip(servo.duty_of(drive, np.full_like(drive, supply), speed), -1.0, 1.0))
    if law.law == "state_feedback":
        return (volts + law.k_omega * speed) / law.k_theta
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
