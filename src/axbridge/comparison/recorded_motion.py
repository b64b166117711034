"""How a robot's joints and its base moved, from a recording: positions, speeds and accelerations."""

from __future__ import annotations

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.urdf import Tree
from axbridge.errors import RecordingError
from axbridge.recording.recording import Recording
from axbridge.rotations import matrix_of_roll_pitch_yaw
from axbridge.sim.body.inverse_dynamics import BaseMotion, accelerated

_SMOOTH = 0.05  # s on either side from which speeds and accelerations are taken: rounding makes shorter ones worthless
_BASE = ("base_x", "base_y", "base_z", "base_roll", "base_pitch", "base_yaw")


def joints_motion(
    recording: Recording, rig: Rig, tree: Tree, time: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Positions, speeds and accelerations (l, n) of all joints of a tree at the times (l,), s; rad and s."""
    servos = {servo.joint: servo for servo in rig.servos}
    columns = []
    for joint in tree.joints:
        servo = servos.get(joint.name)
        if servo is None or servo.name not in recording or np.isnan(recording[servo.name].position).all():
            raise RecordingError(
                recording.path,
                f"does not show how joint {joint.name} moved",
                "record all servos of the rig: axbridge record …, axbridge run --record",
            )
        track = recording[servo.name]
        known = ~np.isnan(track.position)
        columns.append(_derivatives(track.time[known], track.position[known], time))
    return tuple(np.stack(part, axis=1) for part in zip(*columns, strict=True))  # type: ignore[return-value]


def _derivatives(time: FloatArray, values: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values, first and second derivatives (l,) at the `wanted` times, from cubics over `_SMOOTH` s on either side."""
    from scipy.signal import savgol_filter

    period = float(np.median(np.diff(time)))
    even = np.arange(time[0], time[-1] + period / 2, period)
    window = 2 * max(3, round(_SMOOTH / period)) + 1
    if len(even) < window:
        flat = np.zeros(len(wanted))
        return np.interp(wanted, time, values), flat, flat
    at = np.interp(even, time, values)
    found = [np.interp(wanted, even, savgol_filter(at, window, 3, deriv=order, delta=period)) for order in range(3)]
    return found[0], found[1], found[2]


def base_motion(recording: Recording, tree: Tree, time: FloatArray) -> BaseMotion | None:
    """How the base of a simulated robot moved at the times (l,), s, from the cycles; None where nothing tells."""
    cycles = recording.cycles
    nothing = np.zeros(0)
    columns = np.stack([np.asarray(cycles.get(name, nothing)) for name in _BASE], axis=1)
    known = ~np.isnan(columns).any(axis=1)
    if not known.any():
        return None
    columns[known, 3:] = np.unwrap(columns[known, 3:], axis=0)
    at = np.asarray(cycles["time"])[known]
    found = [_derivatives(at, columns[known, k], time) for k in range(6)]
    place, _, acceleration = (np.stack([one[order] for one in found[:3]], axis=1) for order in range(3))
    (roll, pitch, yaw), rates, _ = zip(*found[3:], strict=True)
    turn = matrix_of_roll_pitch_yaw(roll, pitch, yaw)
    # each angle turns about its axis as the angles after it have turned that
    heading = matrix_of_roll_pitch_yaw(0 * roll, 0 * pitch, yaw)
    axes = turn[:, :, 0], heading[:, :, 1], heading[:, :, 2]
    spin = sum(axis * fast[:, None] for axis, fast in zip(axes, rates, strict=True))
    rate = np.gradient(spin, time, axis=0)
    arm = turn @ -tree.centre[0]  # what is recorded is the base's centre of mass
    acceleration = acceleration + accelerated(arm, spin, rate)
    return BaseMotion(turn, place + arm, spin, rate, acceleration)
