"""Position laws of servos as scalar kernels: from the position error to a duty or a voltage.

State feedback is Lima et al. 2009, equation (6). Compliance is the AX-12's law (e-manual, "Compliance"), with margin,
slope and punch; margin and slope are separate for each direction. Duty is the share of the supply, -1..1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from axbridge.jit import jit
from axbridge.servo.branch_free import decayed, erf
from axbridge.servo.columns import Law

_NEAR = 4.0  # counts: farther beyond the margin, noise does not change the mean duty
_FAR = 4.0  # for larger arguments erf is ±1 within 2e-8


class Loop(NamedTuple):
    """Constants of one servo's position loop; each law uses some of them."""

    law: int  # `Law`
    k_theta: float  # V/rad
    k_omega: float  # V·s/rad
    p: float  # duty per count
    i: float  # duty per count·s
    d: float  # duty per count/s
    margin_cw: float  # rad
    margin_ccw: float  # rad
    slope_cw: float  # rad
    slope_ccw: float  # rad
    punch: float  # duty at the motor, at most 1; negative when the punch is less than the bridge's dead duty
    dead: float  # dead duty: share of full duty that is lost in the bridge
    one_count: float  # size of one position count, rad
    quantum: float  # rad: `one_count` when the loop gets whole counts; 0 when it gets the reading itself
    lag: float  # time constant of the position sensor's lag, s
    speed_filter: float  # weight of a new speed in a loop of 1 ms; 1 = no filter
    period: float  # sampling period, s; 0 = continuous


@jit
def quantise(value: float, count: float) -> float:
    """Return `value` rounded to whole counts; unchanged when `count` is 0."""
    return math.floor(value / count + 0.5) * count if count > 0.0 else value


@jit
def lagging(seen: float, reading: float, lag: float, blur: float, step: float) -> tuple[float, float]:
    """Return the loop's input, rad: `reading` after a first-order lag (s; 0 = none), and the noise in the input.

    `seen` is the input in the step before. `blur` is the standard deviation of noise in `reading`, rad; the noise is
    independent in each step.
    """
    if lag <= 0.0:
        return reading, blur
    share = decayed(step / lag)
    return seen + share * (reading - seen), blur * math.sqrt(share / (2.0 - share))


@jit
def approach(reference: float, goal: float, speed: float, step: float) -> float:
    """Move a reference towards the goal at `speed` (rad/s; 0 = at once) for `step` s."""
    if speed <= 0.0:
        return goal
    reach = speed * step
    return min(max(goal, reference - reach), reference + reach)


@jit
def saturated(volts: float, feedback: float, speed: float, limit: float) -> tuple[float, float]:
    """Return the line `volts - feedback * ω`; beyond ±`limit` V at `speed` (rad/s), the limit as a constant line."""
    applied = volts - feedback * speed
    if abs(applied) > limit:
        return min(max(applied, -limit), limit), 0.0
    return volts, feedback


@jit
def motor_duty(duty: float, dead: float) -> float:
    """Return the duty at the motor when the bridge loses the share `dead` of full duty; full duty stays full."""
    return duty if dead == 0.0 else math.copysign(max(abs(duty) - dead, 0.0) / (1.0 - dead), duty)


@jit
def loop_duty(duty: float, dead: float) -> float:
    """Return the loop's duty that gives `duty` at the motor: the inverse of `motor_duty`, 0 for 0."""
    return math.copysign(dead + (1.0 - dead) * abs(duty), duty) if duty != 0.0 else 0.0


@jit
def pid(
    counts: float, last: float, integral: float, interval: float, p: float, i: float, d: float, cap: float
) -> tuple[float, float]:
    """Run a PID loop once: return the duty before the cap, and the integral, counts·s, which stops beyond the cap.

    `counts` is goal minus present position, `last` that of the run before, `interval` the time between them, s.
    """
    fresh = integral + counts * interval
    duty = p * counts + i * fresh + d * (counts - last) / interval
    return duty, integral if abs(duty) > cap else fresh


@jit
def compliance(
    error: float, margin_cw: float, margin_ccw: float, slope_cw: float, slope_ccw: float, punch: float
) -> float:
    """Return the duty of the AX-12's law, -1..1, before the torque limit: 0 within the margin, then `punch` to 1.

    In the manual's figure, torque steps up to the punch at the end of the margin. It is full at the end of the slope.
    The manual's text only says that punch is the least current that drives the motor. So the duty is
    `punch + (1 - punch) * x / slope`; `punch + x / slope` would be full before the end of the slope.

    `error` is goal minus present position, rad; the others are as in `Loop`. With a negative punch, the duty is 0 until
    the slope has compensated it.
    """
    ccw = error > 0.0
    beyond = abs(error) - (margin_ccw if ccw else margin_cw)
    if beyond <= 1e-9:
        return 0.0
    slope = slope_ccw if ccw else slope_cw
    size = min(max(punch + (1.0 - punch) * beyond / slope, 0.0), 1.0) if slope > 0.0 else 1.0
    return size if ccw else -size


@jit
def mean_compliance(
    reference: float, reading: float, count: float, noise: float, margin_cw: float, margin_ccw: float,
    slope_cw: float, slope_ccw: float, punch: float,
) -> float:  # fmt: skip
    """Return the mean duty of `compliance` when the loop gets `reading` with noise and in whole counts.

    Noise is new in every millisecond, and the motor needs many milliseconds to move, so the mean duty acts. Near the
    goal, the mean has neither margin nor punch. Without noise, the reading is only rounded to counts. `count` is 0 when
    the loop gets the reading itself; `noise` is a standard deviation, rad.
    """
    if noise <= 0.0 or count <= 0.0:
        return compliance(reference - quantise(reading, count), margin_cw, margin_ccw, slope_cw, slope_ccw, punch)
    error = reference - reading
    if abs(error) > max(margin_cw, margin_ccw) + _NEAR * count:
        return compliance(error, margin_cw, margin_ccw, slope_cw, slope_ccw, punch)
    nearest = math.floor(reading / count + 0.5)
    spread = 1.0 / (noise * math.sqrt(2.0))
    total, below = 0.0, 0.0
    for offset in range(-2, 3):
        edge = ((nearest + offset + 0.5) * count - reading) * spread if offset < 2 else math.inf
        size = 1.0 if abs(edge) > _FAR else erf(abs(edge))
        above = 0.5 + math.copysign(0.5 * size, edge)
        error = reference - (nearest + offset) * count
        total += (above - below) * compliance(error, margin_cw, margin_ccw, slope_cw, slope_ccw, punch)
        below = above
    return total


@jit
def position_law(
    loop: Loop, reference: float, angle: float, reading: float, integral: float, last: float, interval: float,
    cap: float, supply: float, noise: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Run the loop once with its position law; `servo/steady.py` distinguishes the laws, too.

    Args:
        loop: Its constants.
        reference: Present set-point of the shaft, rad.
        angle: True position, for laws without a sensor, rad.
        reading: The sensor's position after its lag (`lagging`), not yet in whole counts, rad.
        integral: Of the error, counts·s.
        last: Error of the run before, counts.
        interval: Time between two runs, s.
        cap: Largest duty.
        supply: V.
        noise: Standard deviation of noise in the reading, rad; the compliance law returns its mean duty.

    Returns:
        Volts and feedback: the voltage is `volts - feedback * ω` before its limit, V and V·s/rad; the integral and
        the error for the next run.
    """
    if loop.law == Law.STATE_FEEDBACK:
        # Equation (6), as a line over the speed. ωref is 0, as in all measurements of the paper: a Dynamixel gets no
        # reference speed. The approach speed (Moving Speed) is not used as ωref: with Kω < 0 it would first push
        # backwards.
        return loop.k_theta * (reference - angle), loop.k_omega, integral, last
    if loop.law == Law.COMPLIANCE:
        duty = mean_compliance(
            reference, reading, loop.quantum, noise, loop.margin_cw, loop.margin_ccw, loop.slope_cw,
            loop.slope_ccw, loop.punch,
        )  # fmt: skip
        return duty * supply, 0.0, integral, last
    if loop.law == Law.PID:
        counts = (reference - quantise(reading, loop.quantum)) / loop.one_count
        if abs(counts) * loop.one_count <= (loop.margin_ccw if counts > 0.0 else loop.margin_cw):
            counts = 0.0
        duty, fresh = pid(counts, last, integral, interval, loop.p, loop.i, loop.d, cap)
        duty = motor_duty(duty, loop.dead)
        if counts != 0.0 and abs(duty) < loop.punch:
            duty = math.copysign(loop.punch, counts)
        return duty * supply, 0.0, fresh, counts
    raise ValueError("unknown position law: see axbridge.servo.columns.Law")
