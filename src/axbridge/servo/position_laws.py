"""Position laws of servos, as scalar kernels: error in, duty or voltage out.

State feedback is Lima et al. 2009, equation (6). Compliance is the AX-12's (e-manual, "Compliance"): margin, punch and
slope, separately for each direction. Duty is the share of the supply, -1..1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from axbridge.jit import jit
from axbridge.servo.branch_free import decayed, erf
from axbridge.servo.columns import Law

_NEAR = 4.0  # counts beyond the margin where noise makes no difference to the mean any more
_FAR = 4.0  # beyond it erf is as good as ±1


class Loop(NamedTuple):
    """The constants of one servo's position loop; each law takes what it needs."""

    law: int  # `Law`
    k_theta: float  # V/rad
    k_omega: float  # V·s/rad
    p: float  # duty a count
    i: float  # duty a count·s
    d: float  # duty a count/s
    margin_cw: float  # rad
    margin_ccw: float  # rad
    slope_cw: float  # rad
    slope_ccw: float  # rad
    punch: float  # duty that the motor feels, up to 1; below 0, the bridge swallows more than the punch
    dead: float  # share of the duty that the bridge swallows
    one_count: float  # what one position count is worth, rad
    quantum: float  # the same where the loop sees whole counts; 0 where it sees the reading itself
    lag: float  # of the position that it sees, s
    speed_filter: float  # weight of a new speed in a loop of 1 ms; 1 = there is no filter
    period: float  # from one run to the next, s; 0 = it runs all the time


@jit
def quantise(value: float, count: float) -> float:
    """`value` in whole counts; unchanged when `count` is 0."""
    return math.floor(value / count + 0.5) * count if count > 0.0 else value


@jit
def lagging(seen: float, reading: float, lag: float, blur: float, step: float) -> tuple[float, float]:
    """What a loop sees, rad, that gets its `reading` through a first-order lag (s; 0 = none), and the noise in that.

    `seen` is of the step before; `blur` the standard deviation of noise in `reading`, new in every step, rad.
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
    """The line `volts - feedback * ω` where it is within ±`limit` V at `speed` (rad/s), else the limit: a line, too."""
    applied = volts - feedback * speed
    if abs(applied) > limit:
        return min(max(applied, -limit), limit), 0.0
    return volts, feedback


@jit
def motor_duty(duty: float, dead: float) -> float:
    """What reaches a motor of a duty if the bridge swallows the share `dead` of full duty; full duty stays full."""
    return duty if dead == 0.0 else math.copysign(max(abs(duty) - dead, 0.0) / (1.0 - dead), duty)


@jit
def loop_duty(duty: float, dead: float) -> float:
    """The duty of which a motor feels `duty`: the inverse of `motor_duty`, 0 for 0."""
    return math.copysign(dead + (1.0 - dead) * abs(duty), duty) if duty != 0.0 else 0.0


@jit
def pid(
    counts: float, last: float, integral: float, interval: float, p: float, i: float, d: float, cap: float
) -> tuple[float, float]:
    """One run of a PID loop: duty before the cap, and the integral, counts·s, which does not grow beyond the cap.

    `counts` is goal minus present position, `last` that of the run before, `interval` between them, s.
    """
    fresh = integral + counts * interval
    duty = p * counts + i * fresh + d * (counts - last) / interval
    return duty, integral if abs(duty) > cap else fresh


@jit
def compliance(
    error: float, margin_cw: float, margin_ccw: float, slope_cw: float, slope_ccw: float, punch: float
) -> float:
    """The AX-12's law: no duty within the margin, then from `punch` to 1 over the slope.

    The manual draws it: torque steps up to the punch where the margin ends, and is full where the slope ends. Its text
    says no more than that punch is the least current that drives the motor. So the slope is the way from punch to full
    duty, `punch + (1 - punch) * x / slope`; `punch + x / slope` would be full before the slope ends.

    Returns the duty, -1..1, before the torque limit. `error` is goal minus present position, rad; the others are as in
    `Loop`. A punch below 0: there is no duty until the slope has made up for it.
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
    """What `compliance` gives on average when the loop sees `reading` with noise and in whole counts.

    Noise is new in every millisecond, the motor takes many of them to move: it feels the mean. Near the goal that
    smooths margin and punch away. Without noise it is what the reading in whole counts gives. `count` is 0 where the
    loop sees the reading itself; `noise` is a standard deviation, rad.
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
    """One run of the loop, by whichever law it has; `servo/steady.py` tells laws apart, too.

    Args:
        loop: Its constants.
        reference: Where the shaft is to be now, rad.
        angle: Where it is, for laws that see it without a sensor, rad.
        reading: What the loop sees of the sensor (`lagging`), not yet in whole counts, rad.
        integral: Of the error, counts·s.
        last: Error of the run before, counts.
        interval: Between two runs, s.
        cap: Largest duty.
        supply: V.
        noise: Of the reading, which the compliance law answers on average; standard deviation, rad.

    Returns:
        Volts and feedback: the voltage is `volts - feedback * ω` before its limit, V and V·s/rad; the integral and
        the error for the next run.
    """
    if loop.law == Law.STATE_FEEDBACK:
        # Equation (6), as a line over the speed. ωref is 0, as in all that the paper measured: a Dynamixel is sent no
        # speed to have. The speed at which Moving Speed lets the goal approach is none: with Kω < 0 it would push
        # backwards first.
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
