"""The DC motor behind its gear: Lima et al. 2009, equations (1)-(4) and section 3.4, in SI units.

Speeds and torques are those of the output shaft. `constant` is the motor's constant seen there, Ks·N (V·s/rad at the
output; N·m/A before gear loss): Ks itself belongs to the motor side. All functions are scalar kernels.

The winding, the torque, and the voltage as the position loop gives it:

    L·di/dt = U - R·i - Ks·N·ω          R = resistance + resistance_per_duty·|U|/Ubat
    T = efficiency·Ks·N·i               U = volts - feedback·ω

While U, ω and R stay as they are, i moves from its start towards (U - Ks·N·ω)/R with the time constant L/R. So its mean
over a step of length h is known exactly, and is a line over ω:

    mean of i = m·i0 + (1 - m)·(volts - (feedback + Ks·N)·ω)/R,   m = (1 - exp(-hR/L))·L/(hR)

`push` hands on that line, `torque - damping·ω`, and not its value at the speed of the start. What moves the joint
solves it for the speed of the step itself. Back-EMF brakes so strongly that an explicit torque would throw a light
link to and fro.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from axbridge.jit import jit
from axbridge.servo.branch_free import decayed

_LEAST_LEFT = 0.1  # share of the supply that resistance per duty leaves


class Motor(NamedTuple):
    """One motor, its gear and its drive electronics."""

    resistance: float  # R of the winding as warm as it is, ohm
    resistance_per_duty: float  # what full duty adds to it, ohm
    inductance: float  # L, H; 0 makes the current algebraic
    constant: float  # Ks·N, V·s/rad
    efficiency: float  # share of the torque that passes the gear
    asymmetry: float  # see `directed`
    max_current: float  # A; 0 = none
    current_step: float  # A/ms; 0 = none
    supply_side: float  # not 0: `max_current` is of the supply's current


class Push(NamedTuple):
    """What a motor does in a step: `torque - damping * ω`, and what its current at the end follows from."""

    torque: float  # at zero speed, N·m
    damping: float  # N·m·s/rad
    resistance: float  # ohm
    left: float  # share of the current at the start that is left at the end
    held: float  # the current where the electronics limit it, A; NaN where they do not


@jit
def warmed(resistance: float, per_kelvin: float, kelvin: float) -> float:
    """Resistance `kelvin` above ambient, where it grows by the share `per_kelvin` of `resistance` (ohm) a kelvin."""
    return resistance * max(0.1, 1.0 + per_kelvin * kelvin)


@jit
def directed(efficiency: float, asymmetry: float, volts: float) -> float:
    """Share of the torque that arrives: `efficiency`, by the share `asymmetry` more for positive `volts`, else less."""
    return efficiency * (1.0 + (asymmetry if volts > 0.0 else -asymmetry))


@jit
def relax(resistance: float, inductance: float, step: float) -> tuple[float, float]:
    """Exact step of the R-L circuit, equation (1): share of the first current in the last one, and in the mean."""
    if inductance <= 0.0:
        return 0.0, 0.0
    x = step * resistance / inductance
    gone = decayed(x)
    return 1.0 - gone, gone / x


@jit
def end_current(current: float, volts: float, left: float, resistance: float, constant: float, speed: float) -> float:
    """Current at the end of a step of mean output speed `speed`, equation (1), A."""
    return left * current + (1.0 - left) * (volts - constant * speed) / resistance


@jit
def driving(motor: Motor, current: float, speed: float, supply: float) -> tuple[float, float]:
    """The voltage that drives a current, as a line over the speed near `speed`.

    The motor takes U = (R + r·|U|/V)·i + K·ω. A loop that measures the supply's current s, which flows during the
    on-time of the PWM alone, has i = s·V/|U|; so U² - (K·ω + r·s)·U - R·|s|·V = 0, and of the roots the one with the
    sign of s drives it. Returns volts, V, and feedback, V·s/rad: the voltage is `volts - feedback * ω`.
    """
    constant = motor.constant
    if current == 0.0:  # it coasts; the other root would short the motor
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
    """Limits of the drive electronics (section 3.4) on the current `wanted`, A, that was `before` when the step began.

    `gradient` is the largest change, A/ms, `limit` the largest current, A; 0 = none. On the `supply_side` the limit
    holds for the supply's current, so for the motor's during the on-time of the PWM alone: `duty` = |U|/Ubat.
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
    """A driven motor over a step of `step` s: the one place where the equations of this file are put together.

    The voltage is `volts - feedback * speed`; `speed` (rad/s) and `current` (A) are at the start; `supply` in V.
    """
    # The duty comes first, because R and the supply's limit depend on it, then the line. The limits of the electronics
    # come last: a current that they hold no longer depends on the speed, so the line loses its slope.
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
    """Weight of the end speed in a step's mean speed that makes one implicit step exact for constant damping.

    `ratio` is z = h·D/J. The exact value is 1/(1 - e^-z) - 1/z; this is within 0.032 of it, cheaper, and has its limits
    1/2 (the midpoint rule, for a free mass) and 1 (backward Euler, for a massless one).
    """
    return 0.5 + 0.5 * ratio / math.sqrt(36.0 + ratio * ratio)


@jit
def temperature_step(
    temperature: float, ambient: float, power: float, thermal_resistance: float, time_constant: float, step: float
) -> float:
    """Winding temperature, degC, after `step` s of `power` W lost in it: first order; thermal resistance in K/W."""
    target = ambient + thermal_resistance * power
    return temperature + (target - temperature) * min(1.0, step / time_constant)
