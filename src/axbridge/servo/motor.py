"""The DC motor with its gear: Lima et al. 2009, equations (1)-(4) and section 3.4, in SI units.

Speeds and torques are those of the output shaft. `constant` is the motor's constant at the output, Ks·N (V·s/rad; N·m/A
before gear loss); Ks itself is on the motor side. All functions are scalar kernels.

Winding, torque, and the position loop's voltage:

    L·di/dt = U - R·i - Ks·N·ω          R = resistance + resistance_per_duty·|U|/Ubat
    T = efficiency·Ks·N·i               U = volts - feedback·ω

With constant U, ω and R, i moves from i0 towards (U - Ks·N·ω)/R with the time constant L/R. So its mean over a step of
length h is known exactly, and is linear in ω:

    mean of i = m·i0 + (1 - m)·(volts - (feedback + Ks·N)·ω)/R,   m = (1 - exp(-hR/L))·L/(hR)

`push` returns this line, `torque - damping·ω`, not its value at the speed of the start. The integration of the joint
solves it implicitly for the speed of the step: back-EMF brakes so strongly that an explicit torque would make a light
link oscillate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from axbridge.jit import jit
from axbridge.servo.branch_free import decayed

_LEAST_LEFT = 0.1  # lower limit of 1 - r·|i|/V, so that a large current does not divide by 0


class Motor(NamedTuple):
    """One motor, its gear and its drive electronics."""

    resistance: float  # R of the winding at its temperature, ohm
    resistance_per_duty: float  # added to R at full duty, ohm
    inductance: float  # L, H; 0 = the current follows the voltage at once
    constant: float  # Ks·N, V·s/rad
    efficiency: float  # share of the torque that passes the gear
    asymmetry: float  # see `directed`
    max_current: float  # A; 0 = none
    current_step: float  # A/ms; 0 = none
    supply_side: float  # not 0: `max_current` limits the supply's current


class Push(NamedTuple):
    """A motor's torque in a step, `torque - damping * ω`, and the values that give its current at the end."""

    torque: float  # at zero speed, N·m
    damping: float  # N·m·s/rad
    resistance: float  # ohm
    left: float  # share of the current at the start that remains at the end
    held: float  # the current when the electronics limit it, A; NaN when they do not


@jit
def warmed(resistance: float, per_kelvin: float, kelvin: float) -> float:
    """Return the resistance, ohm, at `kelvin` above ambient; each kelvin adds the share `per_kelvin`."""
    return resistance * max(0.1, 1.0 + per_kelvin * kelvin)


@jit
def directed(efficiency: float, asymmetry: float, volts: float) -> float:
    """Return the share of torque after the gear: `efficiency`, more by `asymmetry` for positive `volts`, else less."""
    return efficiency * (1.0 + (asymmetry if volts > 0.0 else -asymmetry))


@jit
def relax(resistance: float, inductance: float, step: float) -> tuple[float, float]:
    """Return the share of the initial current in the last current of a step, and in the mean: exact solution of (1)."""
    if inductance <= 0.0:
        return 0.0, 0.0
    x = step * resistance / inductance
    decay = decayed(x)
    return 1.0 - decay, decay / x


@jit
def end_current(current: float, volts: float, left: float, resistance: float, constant: float, speed: float) -> float:
    """Return the current at the end of a step with mean output speed `speed`, equation (1), A."""
    return left * current + (1.0 - left) * (volts - constant * speed) / resistance


@jit
def driving(motor: Motor, current: float, speed: float, supply: float) -> tuple[float, float]:
    """Return the voltage that drives a current, `volts - feedback * ω`, as a line near `speed`: V, V·s/rad.

    The motor needs U = (R + r·|U|/V)·i + K·ω. Some loops measure the supply's current s, which flows only during the
    on-time of the PWM. Then i = s·V/|U|, so U² - (K·ω + r·s)·U - R·|s|·V = 0. The root with the sign of s drives it.
    """
    constant = motor.constant
    if current == 0.0:  # the motor coasts; the other root would short it
        return 0.0, -constant
    if motor.supply_side == 0.0:
        left = max(1.0 - motor.resistance_per_duty * abs(current) / supply, _LEAST_LEFT)
        return motor.resistance * current / left, -constant / left
    half = 0.5 * (constant * speed + motor.resistance_per_duty * current)
    root = math.sqrt(half * half + motor.resistance * abs(current) * supply)
    volts = half + math.copysign(root, current)
    slope = 0.5 * constant * (1.0 + math.copysign(half / root, half * current))
    return volts - slope * speed, -slope


@jit
def limited_current(
    wanted: float, before: float, gradient: float, limit: float, duty: float, supply_side: bool, step: float
) -> float:
    """Return the current `wanted`, A, within the limits of the drive electronics (section 3.4).

    `before` is the current at the start of the step, A. `gradient` is the largest change, A/ms; `limit` is the largest
    current, A; 0 = none. With `supply_side`, `limit` is of the supply's current, which is the motor's current times
    `duty` = |U|/Ubat.
    """
    if gradient > 0.0:
        reach = gradient * step * 1e3
        wanted = min(max(wanted, before - reach), before + reach)
    if limit > 0.0:
        ceiling = limit / max(duty, 1e-3) if supply_side else limit
        wanted = min(max(wanted, -ceiling), ceiling)
    return wanted


@jit
def push(motor: Motor, volts: float, feedback: float, speed: float, current: float, supply: float, step: float) -> Push:
    """Return the torque of a driven motor over a step of `step` s, from the equations of this module.

    The voltage is `volts - feedback * speed`; `speed` (rad/s) and `current` (A) are at the start; `supply` in V.
    """
    # The duty comes first, because R and the supply's limit depend on it. The current limits come last: a limited
    # current does not depend on the speed, so the line has no slope.
    applied = volts - feedback * speed
    duty = abs(applied) / supply if supply > 0.0 else 0.0
    resistance = motor.resistance + motor.resistance_per_duty * duty
    left, mean = relax(resistance, motor.inductance, step)
    efficiency = directed(motor.efficiency, motor.asymmetry, volts)
    gain = efficiency * motor.constant
    torque = gain * (mean * current + (1.0 - mean) * volts / resistance)
    damping = gain * (1.0 - mean) * (motor.constant + feedback) / resistance
    held = math.nan
    if motor.max_current > 0.0 or motor.current_step > 0.0:
        free = end_current(current, applied, left, resistance, motor.constant, speed)
        limited = limited_current(
            free, current, motor.current_step, motor.max_current, duty, motor.supply_side != 0.0, step
        )
        if limited != free:
            torque, damping, held = gain * limited, 0.0, limited
    return Push(torque, damping, resistance, left, held)


@jit
def fitted_weight(ratio: float) -> float:
    """Return the weight of the end speed in a step's mean speed that makes an implicit step exact (constant damping).

    `ratio` is z = h·D/J. The exact weight is 1/(1 - e^-z) - 1/z. This approximation is within 0.032 of it, is cheaper,
    and has the same limits: 1/2 (midpoint rule, for a free mass) and 1 (backward Euler, for a massless one).
    """
    return 0.5 + 0.5 * ratio / math.sqrt(36.0 + ratio * ratio)


@jit
def temperature_step(
    temperature: float, ambient: float, power: float, thermal_resistance: float, time_constant: float, step: float
) -> float:
    """Return the winding temperature, degC, after `step` s with losses of `power` W: first order; resistance in K/W."""
    target = ambient + thermal_resistance * power
    return temperature + (target - temperature) * min(1.0, step / time_constant)
