"""Estimate the servos' power between samples: one reported load in a control period says little about the mean.

The model of a servo's loop (`axbridge.servo.position_loop.control`) runs along the measured motion, every millisecond.
Its duty, the speed and the supply voltage give U·i. Reported loads are not used.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.metrics import resample
from axbridge.comparison.recorded_runs import servo_of, settings_of, speed_limits, written_in
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, require
from axbridge.jit import jit
from axbridge.recording.provenance import rig_of
from axbridge.recording.recording import Recording, Track
from axbridge.servo.columns import Command, Joint, Param, motor_of, pack
from axbridge.servo.position_laws import loop_duty
from axbridge.servo.position_loop import control, loop_of
from axbridge.servo.steady import SteadyServo

_STEP = 1e-3  # s
_MIN_SAMPLES = 3


def power_draw(recording: Recording) -> tuple[FloatArray, FloatArray] | None:
    """Return times, s, every millisecond, (n,), and the power of all servos, W, (n,).

    If a servo's loop cannot be simulated, its recorded power is interpolated. None if no servo has either.
    """
    tracks = [track for track in recording.values() if len(track) >= _MIN_SAMPLES]
    if not tracks:
        return None
    rig: Rig | None = None
    with suppress(AxBridgeError):
        rig = rig_of(recording)
    time = np.arange(min(track.time[0] for track in tracks), max(track.time[-1] for track in tracks), _STEP)
    powers = []
    for track in tracks:
        power = None if rig is None else _modelled(recording, rig, track, time)
        powers.append(resample(track.time, track.power, time, beyond=0.0) if power is None else power)
    known = [power for power in powers if not np.isnan(power).any()]
    return (time, np.sum(known, axis=0)) if known else None


def _modelled(recording: Recording, rig: Rig, track: Track, time: FloatArray) -> FloatArray | None:
    """Return the power of a servo, W, (n,), at `time`, which has every millisecond; None without a model or goals."""
    table = (recording.metadata.get("models") or {}).get(track.name, {})
    known = all(np.isfinite(column).any() for column in (track.command, track.position))
    if not known or not np.isnan(track.duty).all():
        return None
    try:
        model = ServoModel.model_validate({key: value for key, value in table.items() if key != "hash"})
    except ValueError:  # no model, or one of another version
        return None
    spec, side = rig.specs[track.name], servo_of(track.name, rig).direction
    count = spec.profile.units.position
    params = pack(model, count)
    position, speed = _motion(track, time)
    volts, warm = (resample(track.time, values, time, beyond=None) for values in (track.voltage, track.temperature))
    volts = np.where(np.isnan(volts), spec.supply, volts)
    steady = SteadyServo.of(params)
    if not np.isnan(warm).any():
        steady = steady.at(warm)
    acting = np.searchsorted(track.sent + params[Param.LATENCY], time, side="right") - 1
    latest = np.clip(acting, 0, None)
    driven = (acting >= 0) & (track.enabled & ~np.isnan(track.command))[latest]
    goal = count * np.round(side * np.nan_to_num(track.command) / count)  # goals are whole counts
    limits = speed_limits(spec, track), np.nan_to_num(track.torque_limit, nan=1.0)
    orders = np.stack((driven, *(column[latest] for column in (goal, *limits))), axis=1)
    motion = np.stack((side * position - params[Param.OFFSET], side * speed, volts), axis=1)
    command, duty = np.array(settings_of(spec, written_in(recording, track.name))), np.empty_like(time)
    _run_loop(params, command, orders, motion, np.zeros(len(Joint)), duty)
    return np.where(driven, np.maximum(steady.power(duty, volts, side * speed), 0.0), 0.0)


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
