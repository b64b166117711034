"""One servo on one arm, run over recorded commands: many parameter sets and many recordings in one call.

The same equations as the servo bank, for a single joint whose inertia and gravity are known in closed form, so that a
whole recording takes a millisecond: the engine of identification, and of comparing a recording with a model. Compiled
by numba where that is installed; without it the same code runs as plain Python, some hundred times slower.

Per step h: the controller's duty, the motor's current (exact in L/R), then the speed implicitly in back-EMF and viscous
friction, `(J + A + h·D) ω⁺ = (J + A) ω + h (τ - m·g·l·sin θ)`, and last dry friction, which takes at most the momentum
there is: a joint that would stop sticks. Friction laws M1-M6 after Rhoban BAM (arXiv 2410.08650).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from axbridge.plant.mechanics import FloatArray

__all__ = ["COMPILED", "FOLLOWED", "HELD", "JOINT_MODE", "Param", "Runs", "rollouts"]

_F = TypeVar("_F", bound=Callable[..., Any])

try:
    from numba import njit

    COMPILED = True
except ImportError:
    COMPILED = False


def _compiled(function: _F) -> _F:
    if not COMPILED:
        return function
    result: _F = njit(cache=True, nogil=True, error_model="numpy", fastmath=True)(function)
    return result


HELD, FOLLOWED = 2.0, 3.0  # in `Runs.driven`
_UNKNOWN = -300.0  # degC, in place of a NaN: the kernel is compiled without
JOINT_MODE = 2.0  # in `Runs.duty`: no duty, the position loop runs (not NaN: the kernel is compiled without)


class Param(IntEnum):
    """Columns of a parameter set; SI at the output shaft."""

    CONSTANT = 0  # Ks·N, V·s/rad
    EFFICIENCY = 1
    RESISTANCE = 2  # ohm
    RESISTANCE_DUTY = 3  # ohm per unit of |duty|
    INDUCTANCE = 4  # H
    MAX_CURRENT = 5  # A, 0 = none
    ARMATURE = 6  # kg·m²
    COULOMB = 7  # N·m
    VISCOUS = 8  # N·m·s/rad
    STRIBECK = 9  # N·m
    STRIBECK_SPEED = 10  # rad/s
    STRIBECK_EXPONENT = 11
    LOAD = 12  # N·m per N·m through the gear
    LOAD_STRIBECK = 13
    LOAD_EXTERNAL = 14  # N·m per N·m of external torque; negative: as LOAD (M3, M4)
    QUADRATIC = 15  # N·m·s²/rad²
    LAW = 16  # 0 state feedback, 1 compliance, 2 PID
    K_THETA = 17  # V/rad
    K_OMEGA = 18  # V·s/rad
    PERIOD = 19  # s, 0 = every step
    SPEED_FILTER = 20  # weight of the new sample
    P_DUTY = 21  # duty per count and unit of P gain
    MARGIN = 22  # rad
    SLOPE = 23  # rad
    PUNCH = 24  # duty
    LATENCY = 25  # s
    OFFSET = 26  # rad, reading minus angle
    QUANTUM = 27  # rad, 0 = continuous
    COUNT = 28  # rad per position count (for P_DUTY)
    NOISE = 29  # rad, standard deviation of the position the loop sees (compliance law: its mean effect)
    RESISTANCE_KELVIN = 30  # share of RESISTANCE for each kelvin above AMBIENT
    AMBIENT = 31  # degC


@dataclass(frozen=True)
class Runs:
    """Recorded commands of m recordings, laid end to end; l samples in all.

    Attributes:
        start: First sample of each, and l: (m + 1,).
        time: s, (l,).
        sent: When goal, torque switch, speed limit and duty of a sample went out, s, (l,).
        goal: rad, (l,).
        driven: 1 torque on, 0 off, `HELD` held still by whatever (before a part begins), `FOLLOWED` where the motion is
            taken from the measurement and goes on from it afterwards (torque on, out of the sensor's range), (l,).
        speed_limit: rad/s, 0 = none, (l,).
        duty: Wheel-mode duty, `JOINT_MODE` in joint mode, (l,).
        cap: Largest duty (torque limit), 0..1, (l,).
        position: Measured, rad, (l,); the first of each is where the run starts.
        velocity: Measured, rad/s, (l,); what a run starts with, and goes on with after `FOLLOWED`.
        supply: V, (m,).
        inertia: Of arm and load, kg·m², (m,).
        gravity: m·g·l, N·m, (m,): load torque `gravity·sin(θ + phase)`.
        phase: rad, (m,).
        p_gain: P gain register, (m,).
        temperature: Reported by the servo, degC, NaN where not known: then it is the model's ambient one, (m,).
    """

    start: npt.NDArray[np.int64]
    time: FloatArray
    sent: FloatArray
    goal: FloatArray
    driven: FloatArray
    speed_limit: FloatArray
    duty: FloatArray
    cap: FloatArray
    position: FloatArray
    velocity: FloatArray
    supply: FloatArray
    inertia: FloatArray
    gravity: FloatArray
    phase: FloatArray
    p_gain: FloatArray
    temperature: FloatArray

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def compared(self) -> FloatArray:
        """How many samples of each recording a model has to account for: all that are not `FOLLOWED`, (m,)."""
        counts: FloatArray = np.add.reduceat((self.driven != FOLLOWED).astype(float), self.start[:-1])
        return counts

    def means(self, errors: FloatArray) -> FloatArray:
        """Means (…, m) by recording of errors (…, l), which are 0 where `FOLLOWED`; 0 where all of a recording is."""
        sums: FloatArray = np.add.reduceat(errors, self.start[:-1], axis=-1) / np.maximum(self.compared, 1.0)
        return sums

    def only(self, chosen: Sequence[int]) -> Runs:
        """The recordings with these indices."""
        parts = [slice(int(self.start[i]), int(self.start[i + 1])) for i in chosen]

        def joined(values: FloatArray) -> FloatArray:
            return np.concatenate([values[part] for part in parts]) if parts else values[:0]

        index = np.array(chosen, dtype=np.intp)
        lengths = [part.stop - part.start for part in parts]
        return Runs(
            np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64),
            *(
                joined(v)
                for v in (
                    self.time,
                    self.sent,
                    self.goal,
                    self.driven,
                    self.speed_limit,
                    self.duty,
                    self.cap,
                    self.position,
                    self.velocity,
                )
            ),
            *(v[index] for v in (self.supply, self.inertia, self.gravity, self.phase, self.p_gain, self.temperature)),
        )


def rollouts(params: FloatArray, runs: Runs, step: float = 1e-3) -> FloatArray:
    """Positions read by the servo at the recorded times.

    Args:
        params: Parameter sets (k, len(Param)).
        runs: m recordings of l samples in all.
        step: h, s.

    Returns:
        (k, l), rad. A motion that left the finite range is held at ±1e3.
    """
    out = np.empty((len(params), len(runs.time)))
    _all(
        np.ascontiguousarray(params, dtype=np.float64), runs.start, runs.time, runs.sent, runs.goal, runs.driven,
        runs.speed_limit, runs.duty, runs.cap, runs.position, runs.velocity, runs.supply, runs.inertia, runs.gravity,
        runs.phase, runs.p_gain, np.nan_to_num(runs.temperature, nan=_UNKNOWN), float(step), out,
    )  # fmt: skip
    return out


@_compiled
def _compliance(error: float, margin: float, slope: float, punch: float) -> float:
    """The AX-12's law: no duty within the margin, then from `punch` to 1 over the slope."""
    beyond = abs(error) - margin
    if beyond <= 1e-9:
        return 0.0
    return math.copysign(min(1.0, punch + (1.0 - punch) * beyond / max(slope, 1e-6)), error)


@_compiled
def _mean_compliance(
    reference: float, angle: float, margin: float, slope: float, punch: float, quantum: float, noise: float
) -> float:
    """What the law gives on average when the loop sees `angle` with noise and in whole counts.

    Noise is new in every millisecond, the motor takes many of them to move: it feels the mean. Near the goal that
    smooths margin and punch away.
    """
    nearest = math.floor(angle / quantum + 0.5)
    spread = 1.0 / (noise * math.sqrt(2.0))
    total = 0.0
    below = 0.5 * math.erf(((nearest - 2.5) * quantum - angle) * spread)
    for count in range(-2, 3):
        above = 0.5 * math.erf(((nearest + count + 0.5) * quantum - angle) * spread)
        total += (above - below) * _compliance(reference - (nearest + count) * quantum, margin, slope, punch)
        below = above
    return total


@_compiled
def _one(
    p: FloatArray, time: FloatArray, sent: FloatArray, goal: FloatArray, driven: FloatArray, speed_limit: FloatArray,
    duty: FloatArray, cap: FloatArray, position: FloatArray, velocity: FloatArray, supply: float, inertia: float,
    gravity: float, phase: float, p_gain: float, temperature: float, h: float, out: FloatArray,
) -> None:  # fmt: skip
    constant, efficiency, resistance, resistance_duty, inductance, max_current = p[0], p[1], p[2], p[3], p[4], p[5]
    viscous, latency, offset, quantum, period = p[8], p[25], p[26], p[27], p[19]
    law = int(p[16])
    if temperature > _UNKNOWN:
        resistance *= max(0.1, 1.0 + p[30] * (temperature - p[31]))
    total = inertia + p[6]
    n = time.shape[0]
    reading = position[0]
    now, angle, speed = time[0], reading - offset, velocity[0]
    filtered, current, applied, due = speed, 0.0, 0.0, now
    reference, j, k = reading, 0, 1
    was_driven = False
    gain, stiffness = efficiency * constant, p[21] * p_gain / p[28]
    fineness = 1.0 / quantum if quantum > 0.0 else 0.0
    slowness, exponent = 1.0 / p[10], p[11]
    noise = p[29]
    graded = p[9] > 0.0 or p[13] > 0.0
    direct = law == 0 and p[20] >= 1.0 and period <= 0.0  # speed feedback acts at once, so it can be implicit
    out[0] = reading
    while k < n:
        while j + 1 < n and sent[j + 1] + latency <= now:
            j += 1
        if driven[k] > 2.5:
            out[k] = position[k]
            angle, speed, now = position[k] - offset, velocity[k], time[k]
            reference, filtered, current, due = position[k], speed, 0.0, now
            k += 1
            continue
        if 1.5 < driven[j] < 2.5:
            while k < n and time[k] <= now + h:
                out[k] = reading
                k += 1
            now += h
            due = now
            continue
        on = driven[j] > 0.5
        filtered += p[20] * (speed - filtered)
        if on and not was_driven:
            reference = angle + offset
        was_driven = on
        if on:
            limit = speed_limit[j]
            if limit > 0.0:
                reference += min(max(goal[j] - reference, -limit * h), limit * h)
            else:
                reference = goal[j]
            if now >= due - 1e-9:
                due += period
                seen = angle + offset
                if quantum > 0.0:
                    seen = math.floor(seen * fineness + 0.5) * quantum
                if duty[j] <= 1.0:
                    applied = duty[j]
                elif law == 0:
                    applied = (p[17] * (reference - angle) - p[18] * filtered) / supply
                elif law == 1:
                    away = reference - angle - offset
                    if noise > 0.0 and quantum > 0.0 and abs(away) < p[22] + 4.0 * quantum:
                        applied = _mean_compliance(reference, angle + offset, p[22], p[23], p[24], quantum, noise)
                    else:
                        applied = _compliance(away if noise > 0.0 else reference - seen, p[22], p[23], p[24])
                else:
                    applied = stiffness * (reference - seen)
                applied = min(max(applied, -cap[j]), cap[j])
        else:
            applied = 0.0
            current = 0.0
            due = now
        size = abs(applied)
        ohms = resistance + resistance_duty * size
        damping, drive, motor = viscous, 0.0, 0.0
        decay, feedback, conductance = 0.0, 0.0, 0.0
        if direct and size < cap[j] and duty[j] > 1.0:
            feedback = p[18]
            applied = p[17] * (reference - angle) / supply
        if on:
            if inductance > 0.0:
                decay = math.exp(-h * ohms / inductance)
            conductance = (1.0 - decay) / ohms
            damping += gain * (constant + feedback) * conductance
            drive = gain * (decay * current + conductance * applied * supply)
            motor = drive - (damping - viscous) * speed
            if max_current > 0.0 and abs(motor) > gain * max_current:
                motor = math.copysign(gain * max_current, motor)
                drive, damping = motor, viscous
        external = -gravity * math.sin(angle + phase)
        fading = 1.0
        if graded and speed != 0.0:
            ratio = abs(speed) * slowness
            fading = math.exp(-ratio if exponent == 1.0 else -math.exp(exponent * math.log(ratio)))
        share = p[12] + p[13] * fading
        loaded = share * abs(motor - external) if p[14] < 0.0 else abs(share * motor - p[14] * external)
        budget = p[7] + p[9] * fading + loaded + p[15] * speed * speed
        mobility = 1.0 / (total + h * damping)
        free = (total * speed + h * (drive + external)) * mobility
        cut = h * budget * mobility
        if abs(free) <= cut:
            fresh = 0.0
        elif free > 0.0:
            fresh = free - cut
        else:
            fresh = free + cut
        if on:
            current = decay * current + conductance * (applied * supply - (constant + feedback) * fresh)
            if max_current > 0.0:
                current = min(max(current, -max_current), max_current)
        following = angle + h * fresh
        if not abs(following) < 1e3:
            for rest in range(k, n):
                out[rest] = 1e3
            return
        while k < n and time[k] <= now + h:
            out[k] = angle + (following - angle) * (time[k] - now) / h + offset
            k += 1
        angle, speed = following, fresh
        now += h


@_compiled
def _all(
    params: FloatArray, start: npt.NDArray[np.int64], time: FloatArray, sent: FloatArray, goal: FloatArray,
    driven: FloatArray, speed_limit: FloatArray, duty: FloatArray, cap: FloatArray, position: FloatArray,
    velocity: FloatArray, supply: FloatArray, inertia: FloatArray, gravity: FloatArray, phase: FloatArray,
    p_gain: FloatArray, temperature: FloatArray, step: float, out: FloatArray,
) -> None:  # fmt: skip
    for k in range(params.shape[0]):
        for m in range(start.shape[0] - 1):
            a, b = start[m], start[m + 1]
            _one(
                params[k], time[a:b], sent[a:b], goal[a:b], driven[a:b], speed_limit[a:b], duty[a:b], cap[a:b],
                position[a:b], velocity[a:b], supply[m], inertia[m], gravity[m], phase[m], p_gain[m],
                temperature[m], step, out[k, a:b],
            )  # fmt: skip
