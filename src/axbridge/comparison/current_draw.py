"""Estimate the servos' power between samples: one reported load in a control period says little about the mean.

The model of a servo's loop (`axbridge.servo.position_loop.control`) runs along the measured motion, every millisecond.
The differences of the reported loads from its duty are interpolated and added to the duty; then U·i is summed. Two
parameters are fitted: the age of loads when they are reported, and the share of the duty in each servo's loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.comparison.metrics import resample
from axbridge.comparison.recorded_runs import settings_of, speed_limits, written_in
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import AxBridgeError, require
from axbridge.jit import jit
from axbridge.recording.provenance import rig_of
from axbridge.recording.recording import Recording, Track
from axbridge.servo.columns import Command, Joint, Param, motor_of, pack
from axbridge.servo.position_laws import loop_duty
from axbridge.servo.position_loop import control, loop_of
from axbridge.servo.steady import SteadyServo

_STEP = 1e-3  # s
_AGES = np.arange(0.0, 10.1e-3, 0.5e-3)  # s: ages that are tried
_NEAR = 6  # ages on either side of the best one, for the parabola
_DUTY_DELAY = 1 / 3  # as a share of a load's age: see `_ServoDraw.power`
_MIN_SAMPLES = 3


class PowerDraw(NamedTuple):
    """Sum of the electrical power of all servos."""

    time: FloatArray  # every millisecond, s on the recording's clock, (n,)
    watt: FloatArray  # (n,)
    age: float  # age of the loads when they were reported, s; NaN if no servo's loop could be simulated

    def mean(self, start: FloatArray, length: float) -> FloatArray:
        """Return the mean power, W, (m,), in the spans that begin at `start` (s, (m,)) and last `length` (s)."""
        energy = np.concatenate(([0.0], np.cumsum(self.watt))) * _STEP
        ends = self.time[0] + _STEP * np.arange(len(energy))
        return (np.interp(start + length, ends, energy) - np.interp(start, ends, energy)) / length


def power_draw(recording: Recording) -> PowerDraw | None:
    """Return the power of all servos of a recording; None if no servo has a motor model or recorded power.

    For servos whose loop cannot be simulated, the recorded power is interpolated.
    """
    tracks = [track for track in recording.values() if len(track) >= _MIN_SAMPLES]
    modelled = _modelled(recording, tracks)
    plain = [track for track in tracks if track.name not in modelled and not np.isnan(track.power).all()]
    if not modelled and not plain:
        return None
    start, end = min(track.time[0] for track in tracks), max(track.time[-1] for track in tracks)
    time = np.arange(start, end, _STEP)
    watt = np.zeros_like(time)
    for track in plain:
        known = ~np.isnan(track.power)
        watt += np.interp(time, track.time[known], track.power[known], left=0.0, right=0.0)
    servos = [_ServoDraw.of(recording, rig, servo, model, time) for rig, servo, model in modelled.values()]
    age = _lowest([sum(float(np.sum(s.residual(age)[0] ** 2)) for s in servos) for age in _AGES]) if servos else np.nan
    return PowerDraw(time, watt + sum(s.power(age) for s in servos), age)


def _lowest(misfits: Sequence[float]) -> float:
    """Return the age, s, at the minimum of a parabola through the misfits of `_AGES` near the least one."""
    least = int(np.argmin(misfits))
    near = slice(max(0, least - _NEAR), least + _NEAR + 1)
    bend, slope, _ = np.polyfit(_AGES[near], misfits[near], 2)
    lowest = -slope / (2 * bend) if bend > 0.0 else _AGES[least]
    return float(np.clip(lowest, _AGES[0], _AGES[-1]))


def _modelled(recording: Recording, tracks: Sequence[Track]) -> dict[str, tuple[Rig, ServoConfig, ServoModel]]:
    """Return the servos whose loop can be simulated, by name."""
    try:
        rig = rig_of(recording)
    except AxBridgeError:
        return {}
    configs, models = {servo.name: servo for servo in rig.servos}, recording.metadata.get("models") or {}
    by_name = {}
    for track in tracks:
        complete = all(np.isfinite(column).any() for column in (track.command, track.position, track.load))
        if not complete or track.name not in models or not np.isnan(track.duty).all():
            continue
        table = {key: value for key, value in models[track.name].items() if key != "hash"}
        with suppress(ValueError):  # a model of another version
            by_name[track.name] = rig, configs[track.name], ServoModel.model_validate(table)
    return by_name


@dataclass(frozen=True)
class _ServoDraw:
    """One servo: the duty of its model every millisecond, (n,), and its reported loads, (l,)."""

    servo: SteadyServo  # its motor's equations
    time: FloatArray  # times of the duty, s, (n,)
    duty: FloatArray  # duty of its loop without delay, -1..1, servo side, (n,)
    speed: FloatArray  # rad/s, (n,)
    volts: FloatArray  # supply voltage, V, (n,)
    driven: BoolArray  # whether torque was on, (n,)
    sampled: FloatArray  # times of the loads, s, (l,)
    load: FloatArray  # reported load, -1..1, servo side, (l,)

    @classmethod
    def of(cls, recording: Recording, rig: Rig, servo: ServoConfig, model: ServoModel, time: FloatArray) -> _ServoDraw:
        """Simulate a servo's loop along the measured motion; `time` has every millisecond, s, (n,)."""
        track, side, spec = recording[servo.name], servo.direction, rig.specs[servo.name]
        count = spec.profile.units.position
        params = pack(model, count)
        position, speed = _motion(track, time)
        volts = resample(track.time, track.voltage, time, beyond=None)
        if np.isnan(volts).any():
            volts = np.full_like(time, spec.supply)
        steady = SteadyServo.of(params)
        warm = resample(track.time, track.temperature, time, beyond=None)
        if not np.isnan(warm).any():
            steady = steady.at(warm)
        sent = track.sent + params[Param.LATENCY]
        acting = np.searchsorted(sent, time, side="right") - 1
        latest = np.clip(acting, 0, None)
        driven = (acting >= 0) & (track.enabled & ~np.isnan(track.command))[latest]
        orders = np.stack(
            (
                driven,
                count * np.round(side * np.nan_to_num(track.command) / count)[latest],  # goals are whole counts
                speed_limits(spec, track)[latest],
                np.nan_to_num(track.torque_limit, nan=1.0)[latest],
            ),
            axis=1,
        ).astype(np.float64)
        duty = np.empty_like(time)
        command = np.array(settings_of(spec, written_in(recording, servo.name)))
        motion = np.stack((side * position - params[Param.OFFSET], side * speed, volts), axis=1)
        _run_loop(params, command, orders, motion, np.zeros(len(Joint)), duty)
        known = ~np.isnan(track.load)
        return cls(steady, time, duty, side * speed, volts, driven, track.time[known], side * track.load[known])

    def power(self, age: float) -> FloatArray:
        """Return the power, W, (n,), if loads have this age, s, when they are reported.

        A loop that runs once in a period reacts half a period late on average, and its load is reported one and a half
        periods late. So the duty is delayed by a third of the load's age.
        """
        residual, share = self.residual(age)
        duty = share * np.interp(self.time - _DUTY_DELAY * age, self.time, self.duty)
        duty += np.interp(self.time, self.sampled - age * (1 - _DUTY_DELAY), residual)
        power = self.servo.power(np.clip(duty, -1.0, 1.0), self.volts, self.speed)
        return np.where(self.driven, np.maximum(power, 0.0), 0.0)

    def residual(self, age: float) -> tuple[FloatArray, float]:
        """Return the residual of the loads (l,), and the share of the model's duty that they contain."""
        at = np.clip(np.searchsorted(self.time, self.sampled - age, side="right") - 1, 0, None)
        duty, on = self.duty[at], self.driven[at]
        size = float(duty[on] @ duty[on])
        share = min(max(float(duty[on] @ self.load[on]) / size, 0.0), 1.0) if size > 0.0 else 0.0
        return np.where(on, self.load - share * duty, 0.0), share


def _motion(track: Track, time: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return position (rad) and speed (rad/s) at times (n,): cubics through the samples with their reported speeds."""
    require("a current from the motion", "scipy")
    from scipy.interpolate import CubicHermiteSpline

    known = ~np.isnan(track.position)
    at, position, speed = track.time[known], track.position[known], track.velocity[known]
    if np.isnan(speed).any():
        speed = np.gradient(position, at)
    path = CubicHermiteSpline(at, position, speed)
    inside = np.clip(time, at[0], at[-1])
    return path(inside), path(inside, 1)


@jit
def _run_loop(
    params: FloatArray, command: FloatArray, orders: FloatArray, motion: FloatArray, joint: FloatArray, duty: FloatArray
) -> None:
    """Compute the duty of a position loop along a given motion, servo side.

    Args:
        params: Row of `Param`.
        command: Row of `Command`: the loop's settings from the registers.
        orders: Torque enable, goal (rad), speed limit (rad/s) and torque limit at each step, (n, 4).
        motion: Angle (rad), speed (rad/s) and supply (V) at each step, (n, 3).
        joint: The loop's state, (len(Joint),).
        duty: Result, -1..1, (n,).
    """
    joint[Joint.REFERENCE] = motion[0, 0]
    joint[Joint.SEEN], joint[Joint.FILTERED] = motion[0, 0] + params[Param.OFFSET], motion[0, 1]
    loop, motor = loop_of(params, command), motor_of(params, params[Param.RESISTANCE])
    for k in range(len(duty)):
        command[Command.TORQUE], command[Command.GOAL] = orders[k, 0], orders[k, 1]
        command[Command.SPEED], command[Command.TORQUE_LIMIT] = orders[k, 2], orders[k, 3]
        angle, speed, supply = motion[k, 0], motion[k, 1], motion[k, 2]
        reading = angle + params[Param.OFFSET]
        control(command, joint, loop, motor, reading, angle, speed, supply, _STEP, params[Param.NOISE])
        share = (joint[Joint.VOLTS] - joint[Joint.FEEDBACK] * speed) / supply if supply > 0.0 else 0.0
        duty[k] = loop_duty(min(max(share, -1.0), 1.0), params[Param.DEAD_DUTY])
