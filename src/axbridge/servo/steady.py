"""A servo in steady state: the equations of `motor` and `friction`, solved for torque, duty or current.

All values are at the output shaft. A duty d gives the motor's duty f(d), which is d less the bridge's dead duty. At the
speed ω

    i = (f·V - K·ω) / (R + r·|f|)        within the current limits
    m = η·(1 ± a)·K·i                    a: more for positive duty, less for negative
    T = m - s·B(ω, m, T) - Bv·ω          s: the direction of friction, B: its budget

T is the torque on the load. When the friction law counts the load, B grows with T, so T is on both sides. B is
piecewise linear in T: Newton's method ends after as many steps as B has corners.

All functions take numbers or arrays, one servo or many. So a robot's step (one number at a time) and a motion
(thousands) share each formula.
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

AT_REST = 0.05  # rad/s: a Present Speed count is 0.0116, and readings of a joint at rest vary by several counts
_NEWTON_STEPS = 3  # B consists of three lines that meet in two corners
_LEAST_SLOPE = 0.1  # friction above the drive has no solution: this bounds the result
_LEAST_DUTY = 1e-3  # as in `motor.limited_current`
_LEAST_SUPPLY = 1e-3  # lower limit of the supply's share behind the resistance per duty, when no duty gives the current

T = TypeVar("T", float, FloatArray)


@dataclass(frozen=True)
class SteadyServo:
    """One servo, or several; then each value is an array (servos,)."""

    motor: Motor  # with the winding at ambient temperature
    friction: Friction  # its Coulomb friction includes the output shaft's; the joint's own may be added
    viscous: float  # N·m·s/rad
    dead: float  # dead duty: share of full duty that is lost in the bridge
    warming: float  # share of the resistance per kelvin above `ambient`
    ambient: float  # degC

    @classmethod
    def of(cls, row: FloatArray) -> SteadyServo:
        """Build it from a packed model (len(Param),), or from a row for each servo, (servos, len(Param))."""
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
        """Return the same servo with a winding of this temperature, degC."""
        factor: Any = _clipped(1.0 + self.warming * (temperature - self.ambient), 0.1, math.inf)
        return replace(self, motor=self.motor._replace(resistance=self.motor.resistance * factor))

    def motor_duty(self, duty: T) -> T:
        """Return the motor's duty for a duty of the loop, as `position_laws.motor_duty`."""
        size = abs(duty) - self.dead
        return _sign(duty) * size * (size > 0.0) / (1.0 - self.dead)

    def loop_duty(self, motor_duty: T) -> T:
        """Return the loop's duty for a duty of the motor, as `position_laws.loop_duty`."""
        return _sign(motor_duty) * (self.dead + (1.0 - self.dead) * abs(motor_duty))

    def resistance(self, duty: T) -> T:
        """Return the resistance of winding and bridge, ohm."""
        return self.motor.resistance + self.motor.resistance_per_duty * abs(self.motor_duty(duty))

    def current(self, duty: T, volts: T, speed: T) -> T:
        """Return the current in the winding, A, positive for positive torque; `volts` in V, `speed` in rad/s."""
        motor, motor_duty = self.motor, self.motor_duty(duty)
        free = (motor_duty * volts - motor.constant * speed) / self.resistance(duty)
        on = 1.0 + (motor.supply_side != 0.0) * (_clipped(abs(motor_duty), _LEAST_DUTY, 1.0) - 1.0)  # share of the time
        limit = motor.max_current / on
        return _where(limit > 0.0, _clipped(free, -limit, limit), free)

    def power(self, duty: T, volts: T, speed: T) -> T:
        """Return the electrical power U·i, W; negative when the braking motor returns power."""
        return self.motor_duty(duty) * volts * self.current(duty, volts, speed)

    def drive(self, duty: T, volts: T, speed: T) -> T:
        """Return the torque after the gear, before friction, N·m; arguments as for `current`."""
        motor = self.motor
        passed = motor.efficiency * (1.0 + (2.0 * (self.motor_duty(duty) > 0.0) - 1.0) * motor.asymmetry)
        return passed * motor.constant * self.current(duty, volts, speed)

    def torque(self, duty: T, volts: T, speed: T) -> T:
        """Return the torque on the load at this speed, N·m; 0 at rest when friction alone holds the shaft.

        At rest, below `AT_REST`, friction acts against the drive; arguments as for `current`.
        """
        drive = self.drive(duty, volts, speed)
        rest = abs(speed) <= AT_REST
        torque = self._output(drive, speed, _where(rest, _sign(drive), _sign(speed)))
        return _where(rest & (_sign(torque) * _sign(drive) < 0.0), 0.0 * torque, torque)  # a product may vanish

    def holding_torque(self, duty: T, volts: T) -> T:
        """Return the largest load, N·m, that does not move the shaft against this duty; friction is added."""
        return self._output(abs(self.drive(duty, volts, 0.0 * volts)), 0.0 * volts, -1.0)

    def needed(self, torque: T, speed: T, direction: T) -> T:
        """Return the torque before friction that gives `torque` on the load, N·m; `direction` of friction: ±1."""
        at_rest, (p1, q1, p2, q2) = self._shares(speed)
        against = torque + self.viscous * speed + direction * self._without_load(speed, at_rest)
        drive = against
        for _ in range(_NEWTON_STEPS if self._counts_load else 0):
            first, second = p1 * drive + q1 * torque, p2 * drive + q2 * torque
            slope = 1.0 - direction * (p1 * _sign(first) + p2 * _sign(second))
            residual = drive - direction * (abs(first) + abs(second)) - against
            drive = drive - residual / _clipped(slope, _LEAST_SLOPE, math.inf)  # not in place: it may be an array
        return drive

    def duty_of(self, drive: T, volts: T, speed: T) -> T:
        """Return the duty for a torque before friction, N·m; above 1 when the supply is too low.

        Current limits are ignored; arguments as for `current`.
        """
        motor = self.motor
        gain, back_emf = motor.efficiency * motor.constant, motor.constant * speed
        direction = 2.0 * (drive * motor.resistance / gain + back_emf > 0.0) - 1.0
        current = drive / (gain * (1.0 + direction * motor.asymmetry))
        # (R + r·|f|)·i = f·V - K·ω, with |f| = ±f
        left = _clipped(volts - direction * motor.resistance_per_duty * current, _LEAST_SUPPLY * volts, math.inf)
        motor_duty = (current * motor.resistance + back_emf) / left
        return self.loop_duty(motor_duty * (motor_duty * direction > 0.0))  # 0: no volts

    def duty(self, torque: T, volts: T, speed: T) -> T:
        """Return the duty for `torque`, N·m, on the load at this speed: the inverse of `torque`; above 1: unreachable.

        At rest, friction acts against the torque, so this is the least duty that moves the load; 0 for no torque.
        """
        rest = abs(speed) <= AT_REST
        drive = self.needed(torque, speed, _where(rest, _sign(torque), _sign(speed)))
        return _where(rest & (torque == 0.0), 0.0 * drive, self.duty_of(drive, volts, speed))

    def loop_current(self, torque: T, volts: T, speed: T) -> T:
        """Return the set-point of a current loop, A, for `torque`, N·m, on the load at this speed.

        A loop that measures the supply's current measures only during the on-time of the PWM. It cannot brake less than
        a shorted motor: then the set-point is 0, and the motor coasts.
        """
        duty = _clipped(self.duty(torque, volts, speed), -1.0, 1.0)
        current = self.current(duty, volts, speed)
        drawn = current * abs(self.motor_duty(duty)) * (duty * current > 0.0)
        return _where(self.motor.supply_side != 0.0, drawn, current)

    def _output(self, drive: T, speed: T, direction: T | float) -> T:
        at_rest, (p1, q1, p2, q2) = self._shares(speed)
        left = drive - self.viscous * speed - direction * self._without_load(speed, at_rest)
        torque = left
        for _ in range(_NEWTON_STEPS if self._counts_load else 0):
            first, second = p1 * drive + q1 * torque, p2 * drive + q2 * torque
            slope = 1.0 + direction * (q1 * _sign(first) + q2 * _sign(second))
            residual = torque + direction * (abs(first) + abs(second)) - left
            torque = torque - residual / _clipped(slope, _LEAST_SLOPE, math.inf)
        return torque

    @property
    def _counts_load(self) -> bool:
        """Whether the friction of a servo depends on the load; otherwise no iteration is needed."""
        law = self.friction
        # A negative share means the motor's own weight, which `load` and `load_stribeck` have.
        shares = law.load, law.load_stribeck, law.load_external, law.load_external_stribeck
        return any(share > 0.0 if isinstance(share, float) else (share > 0.0).any() for share in shares)

    def _without_load(self, speed: T, at_rest: T) -> T:
        law = self.friction
        return law.coulomb + law.stribeck * at_rest + law.quadratic * speed * speed

    def _shares(self, speed: T) -> tuple[T, tuple[T, T, T, T]]:
        """Return the factor of the Stribeck terms, and p1, q1, p2, q2 of the load's: |p1·m + q1·T| + |p2·m + q2·T|."""
        law = self.friction
        at_rest = math.e ** -((abs(speed) / law.stribeck_speed) ** law.stribeck_exponent)
        together, fading = law.load_external < 0.0, law.load_stribeck * at_rest
        share = law.load + fading * together
        weight = share * together + law.load_external * (law.load_external > 0.0)
        separate = 1.0 - together
        return at_rest, (share, weight, fading * separate, law.load_external_stribeck * at_rest * separate)


def _sign(value: T) -> T:
    """Return 1, 0 or -1; 0 for NaN."""
    return (value > 0.0) * 1.0 - (value < 0.0) * 1.0


def _clipped(value: T, low: T | float, high: T | float) -> T:
    if isinstance(value, float):
        return min(max(value, low), high)
    return np.clip(value, low, high)


def _where(condition: Any, value: T, other: T) -> T:
    if isinstance(condition, (bool, np.bool_)):
        return value if condition else other
    return np.where(condition, value, other)  # type: ignore[return-value]  # arrays, and T is theirs


_FRICTION_SPEED = 0.05  # rad/s: width of the smoothing of dry friction, which is full from about twice this speed on
_SMALL_DUTY = 0.02  # of full duty: below it, the goal changes sides gradually instead of jumping over the dead zone


def goal_offset(
    model: ServoModel,
    profile: FirmwareProfile,
    supply: float,
    speed: FloatArray,
    acceleration: FloatArray,
    load: FloatArray,
) -> FloatArray:
    """Return the offset from a servo's shaft to its goal in a motion, rad, (n,); servo side, factory registers.

    It ignores the latency (the same for all joints), current limits, backlash, and the I and D gains of a PID loop.
    """
    motor, law = model.motor, model.controller
    servo = SteadyServo.of(pack(model, profile.units.position))
    drive = servo.needed(load, speed, np.tanh(speed / _FRICTION_SPEED)) + motor.armature * acceleration
    volts = supply * servo.motor_duty(np.clip(servo.duty_of(drive, np.full_like(drive, supply), speed), -1.0, 1.0))
    if law.law == "state_feedback":
        return (volts + law.k_omega * speed) / law.k_theta
    count, initial, dead = profile.units.position, profile.registers, motor.dead_duty
    duty = np.abs(volts) / supply
    if law.law == "compliance":
        slope = law.slope or compliance_slope(int(initial["cw_compliance_slope"].initial)) * count
        loop_punch = law.punch if law.punch >= 0 else int(initial["punch"].initial) / profile.units.full_scale
        punch = (loop_punch - dead) / (1 - dead)
        margin = int(initial["cw_compliance_margin"].initial) * count
        size = margin + slope * np.maximum(duty - punch, 0.0) / (1 - punch)
    else:
        size = count * (dead + (1 - dead) * duty) / (law.p_duty * profile.p_gain)
    offset = np.tanh(volts / (_SMALL_DUTY * supply)) * size
    return offset - model.sensor.lag_ms / 1000 * speed  # the sensor's lag already adds to the loop's error


def volts_per_radian(model: ServoModel, profile: FirmwareProfile, supply: float) -> float:
    """Return the stiffness of the position loop, V/rad, with factory registers."""
    law, units, registers = model.controller, profile.units, profile.registers
    if law.law == "state_feedback":
        return law.k_theta
    if law.law == "compliance":
        return supply / (law.slope or compliance_slope(int(registers["cw_compliance_slope"].initial)) * units.position)
    return supply * law.p_duty * profile.p_gain / units.position
