"""What servos drew between their samples: a load, reported once in a control period, tells little of the mean.

A servo's own loop (`axbridge.servo.position_loop.control`) is run over the motion that was measured, every millisecond.
What the reported loads differ from its duty, at the moments they are of, is added on lines; then U·i is summed up. Two
things are fitted: how old loads are when they are reported, and how much of its duty shows in each servo's loads.
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
from axbridge.servo.position_laws import asked
from axbridge.servo.position_loop import control, loop_of
from axbridge.servo.steady import SteadyServo

_STEP = 1e-3  # s
_AGES = np.arange(0.0, 10.1e-3, 0.5e-3)  # s: tried
_NEAR = 6  # of them on either side
_HELD = 1 / 3  # of a load's age: see `_ServoDraw.power`
_FEWEST = 3  # samples


class PowerDraw(NamedTuple):
    """Electrical power of all servos together."""

    time: FloatArray  # every millisecond, s on the recording's clock, (n,)
    watt: FloatArray  # (n,)
    age: float  # how old the loads were that servos reported, s; NaN where no servo's loop could be run

    def mean(self, start: FloatArray, length: float) -> FloatArray:
        """Mean power in the spans (m,) that begin at `start` (s) and last `length` (s), W."""
        passed = np.concatenate(([0.0], np.cumsum(self.watt))) * _STEP
        ends = self.time[0] + _STEP * np.arange(len(passed))
        return (np.interp(start + length, ends, passed) - np.interp(start, ends, passed)) / length


def power_draw(recording: Recording) -> PowerDraw | None:
    """What all servos of a recording drew; None where none of them has a motor model.

    Servos whose loop cannot be run count with the power that was recorded, on lines from sample to sample.
    """
    tracks = [track for track in recording.values() if len(track) >= _FEWEST]
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
    age = _lowest([sum(float(np.sum(one.left(age)[0] ** 2)) for one in servos) for age in _AGES]) if servos else np.nan
    return PowerDraw(time, watt + sum(one.power(age) for one in servos), age)


def _lowest(misfits: Sequence[float]) -> float:
    """The age at which a parabola through the misfits of `_AGES` about the least of them is lowest, s."""
    least = int(np.argmin(misfits))
    near = slice(max(0, least - _NEAR), least + _NEAR + 1)
    bend, slope, _ = np.polyfit(_AGES[near], misfits[near], 2)
    lowest = -slope / (2 * bend) if bend > 0.0 else _AGES[least]
    return float(np.clip(lowest, _AGES[0], _AGES[-1]))


def _modelled(recording: Recording, tracks: Sequence[Track]) -> dict[str, tuple[Rig, ServoConfig, ServoModel]]:
    """Servos whose loop can be run, by name."""
    try:
        rig = rig_of(recording)
    except AxBridgeError:
        return {}
    configs, models = {servo.name: servo for servo in rig.servos}, recording.metadata.get("models") or {}
    found = {}
    for track in tracks:
        complete = all(np.isfinite(column).any() for column in (track.command, track.position, track.load))
        if not complete or track.name not in models or not np.isnan(track.duty).all():
            continue
        table = {key: value for key, value in models[track.name].items() if key != "hash"}
        with suppress(ValueError):  # of another version
            found[track.name] = rig, configs[track.name], ServoModel.model_validate(table)
    return found


@dataclass(frozen=True)
class _ServoDraw:
    """One servo; its duty by the model every millisecond, (n,), and what it reported at its samples, (l,)."""

    servo: SteadyServo  # its motor's equations
    time: FloatArray  # of the duty, s
    duty: FloatArray  # what its loop asked for, if that answers at once, (n,)
    speed: FloatArray  # rad/s, (n,)
    volts: FloatArray  # of the supply, V, (n,)
    driven: BoolArray  # whether its motor was on, (n,)
    sampled: FloatArray  # times of the loads, s
    load: FloatArray  # what it reported, servo side, (l,)

    @classmethod
    def of(cls, recording: Recording, rig: Rig, servo: ServoConfig, model: ServoModel, time: FloatArray) -> _ServoDraw:
        """Run its loop over the motion that was measured; `time` is every millisecond, s, (n,)."""
        track, side = recording[servo.name], servo.direction
        count = rig.profile_of(servo).units.position
        params = pack(model, count)
        position, speed = _motion(track, time)
        volts = resample(track.time, track.voltage, time, beyond=None)
        if np.isnan(volts).any():
            volts = np.full_like(time, rig.supply_of(servo))
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
                count * np.round(side * np.nan_to_num(track.command) / count)[latest],  # goals arrive in whole counts
                speed_limits(rig, servo, track)[latest],
                np.nan_to_num(track.torque_limit, nan=1.0)[latest],
            ),
            axis=1,
        ).astype(np.float64)
        duty = np.empty_like(time)
        command = np.array(settings_of(rig, servo, written_in(recording, servo.name)))
        motion = np.stack((side * position - params[Param.OFFSET], side * speed, volts), axis=1)
        _asked(params, command, orders, motion, np.zeros(len(Joint)), duty)
        known = ~np.isnan(track.load)
        return cls(steady, time, duty, side * speed, volts, driven, track.time[known], side * track.load[known])

    def power(self, age: float) -> FloatArray:
        """W, (n,), if loads are so old, s, when they are reported.

        A loop that runs once a period answers half a period late on average, and reports one and a half late. So the
        duty itself is late by a third of the load's age.
        """
        left, share = self.left(age)
        duty = share * np.interp(self.time - _HELD * age, self.time, self.duty)
        duty += np.interp(self.time, self.sampled - age * (1 - _HELD), left)
        power = self.servo.power(np.clip(duty, -1.0, 1.0), self.volts, self.speed)
        return np.where(self.driven, np.maximum(power, 0.0), 0.0)

    def left(self, age: float) -> tuple[FloatArray, float]:
        """What the model leaves of the loads (l,), and the share of its duty that shows in them."""
        at = np.clip(np.searchsorted(self.time, self.sampled - age, side="right") - 1, 0, None)
        duty, on = self.duty[at], self.driven[at]
        size = float(duty[on] @ duty[on])
        share = min(max(float(duty[on] @ self.load[on]) / size, 0.0), 1.0) if size > 0.0 else 0.0
        return np.where(on, self.load - share * duty, 0.0), share


def _motion(track: Track, time: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Position (rad) and speed (rad/s) at times (n,): cubics through the samples, with the speeds reported there."""
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
def _asked(
    params: FloatArray, command: FloatArray, orders: FloatArray, motion: FloatArray, joint: FloatArray, duty: FloatArray
) -> None:
    """The duty that a loop asks for along a motion, servo side.

    Args:
        params: Row of `Param`.
        command: Row of `Command`: what the registers make of the loop.
        orders: Whether the motor is on, goal (rad), speed limit (rad/s) and torque limit at each step, (n, 4).
        motion: Angle (rad), speed (rad/s) and supply (V) at each step, (n, 3).
        joint: The loop's memory, (len(Joint),).
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
        duty[k] = asked(min(max(share, -1.0), 1.0), params[Param.DEAD_DUTY])
