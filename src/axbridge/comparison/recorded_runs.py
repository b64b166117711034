"""Recordings of one servo as `Runs`: what a rollout, and so a fit, takes of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.comparison.metrics import resample
from axbridge.comparison.recorded_dynamics import CarriedRecording, check_hinge
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import RecordingError, RigError
from axbridge.recording.import_wizard import restored
from axbridge.recording.recording import Recording, Track
from axbridge.servo.columns import Command, Param, Passive, pack
from axbridge.sim.body.inverse_dynamics import wrenches
from axbridge.sim.runs import FREE, JOINT_MODE, Regime, Runs
from axbridge.units import RPM
from axbridge.virtual.servo import loop_row

_GRAVITY = 9.81
_RESTING = 0.1  # rad/s: two steps of an AX-12's Present Speed
_EDGE = 2.5  # counts from an end of the sensor's range that count as beyond it
_SURELY = 0.99  # between two samples whose load is known
_ITS_RIG = "use the rig it was recorded on"


@dataclass(frozen=True)
class Arm:
    """A rigid body on a fixed hinge."""

    inertia: float  # about the hinge, kg·m²
    gravity: float  # largest torque of its weight, m·g·l, N·m
    # the weight's torque at joint angle θ is `-gravity·sin(θ + phase)`; 0 where 0 rad hangs down, rad
    phase: float = 0.0
    stops: tuple[float, float] = (-math.inf, math.inf)  # ends of its travel, rad; ±inf = none


def arm_of(rig: Rig, servo: ServoConfig) -> Arm:
    """The arm that a servo swings."""
    check_hinge(rig, servo)
    tree = rig.tree()
    assert rig.world is not None  # else it had no tree
    if len(tree.joints) > 1 or not rig.world.fixed_base:
        hint = "identification needs one arm on a fixed base; of a robot, say which servo: --servo NAME"
        raise RigError(rig.urdf_path(), f"joint {servo.joint}", "is one of several moving parts", hint)
    # Turned by θ it takes the torque inertia·θ'' - a·cos θ - b·sin θ.
    gravity = np.array([(0.0, 0.0, 0.0), rig.world.gravity, rig.world.gravity])
    position, pushed, still = (
        np.array([column]).T for column in ((0.0, 0.0, math.pi / 2), (1.0, 0.0, 0.0), np.zeros(3))
    )
    inertia, a, b = wrenches(tree, position, still, pushed, gravity).torque[:, 0] * (1.0, -1.0, -1.0)
    phase = math.atan2(-a, -b) if math.hypot(a, b) else 0.0
    return Arm(float(inertia), math.hypot(a, b), phase, rig.stops_of(servo))


def runs_of(recordings: Sequence[Recording], rig: Rig) -> Runs:
    """Commands and measurements of recordings of one servo each, ready for `rollouts`: angles are the servo's own.

    The arm is the one that a recording names, else the rig's; likewise supply voltage and registers. Coarse stamps are
    restored. Where the sensor cannot see the arm, the run is `Regime.FOLLOWED`: there is nothing to compare.
    """
    rig_arm = None
    samples: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    loads: list[FloatArray] = []
    for recording in recordings:
        track = only_track(recording, rig)
        servo = servo_of(track.name, rig)
        side, count = servo.direction, rig.profile_of(servo).units.position  # goals arrive in whole counts
        known = ~np.isnan(track.position)
        if not known.all():
            at, both = track.time, (track.position, track.velocity)
            position, speed = (resample(at, values, at, beyond=None) for values in both)
            track = replace(track, position=position, velocity=speed)
        pendulum = recording.metadata.get("pendulum")
        if pendulum:
            mass, length = float(pendulum["mass"]), float(pendulum["length"])
            arm = Arm(mass * length**2, mass * _GRAVITY * length)
        elif isinstance(recording, CarriedRecording):
            arm = Arm(0.0, 0.0, stops=rig.stops_of(servo))
        elif recording.metadata.get("load"):
            arm = Arm(float(recording.metadata["load"]["inertia"]), 0.0)
        else:
            rig_arm = rig_arm or arm_of(rig, servo)
            arm = rig_arm
        driven = (track.enabled & ~(np.isnan(track.command) & np.isnan(track.duty))).astype(np.int64)
        driven[track.torque_enabled == Regime.HELD] = Regime.HELD  # written by `fit.lima2009`
        sent = track.sent
        if track.commanded[0] > track.time[0] and abs(track.velocity[0]) < _RESTING:
            driven[0] = Regime.HELD  # its first command has yet to arrive
            kept = (track.command, track.duty, track.torque_enabled, track.speed_limit)
            if all(np.array_equal(column[0], column[1], equal_nan=True) for column in kept):
                sent[1] = sent[0]
        driven[unseen(track, rig)] = Regime.FOLLOWED
        if isinstance(recording, CarriedRecording):
            load = np.stack([np.interp(track.time, recording.at, column) for column in recording.load.T], axis=1)
            loads.append(load * [1.0, 1.0, side, side])
            driven[np.interp(track.time, recording.at, recording.known) <= _SURELY] = Regime.FOLLOWED
        stamps = restored(track.time) if recording.metadata.get("stamps") else None
        samples.append({
            "time": track.time if stamps is None else stamps.time,
            "sent": sent,
            "goal": count * np.round(side * np.nan_to_num(track.command) / count),
            "driven": driven,
            "speed_limit": speed_limits(rig, servo, track),
            "duty": np.nan_to_num(side * track.duty, nan=JOINT_MODE),
            "cap": np.nan_to_num(track.torque_limit, nan=1.0),
            "position": side * track.position,
            "velocity": side * np.nan_to_num(track.velocity),
            "known": known,
        })  # fmt: skip
        facts.append({
            "supply": _supply(recording, track, rig),
            "inertia": arm.inertia,
            "gravity": arm.gravity,
            "phase": side * arm.phase,
            "temperature": float(np.nanmean(track.temperature)) if np.isfinite(track.temperature).any() else math.nan,
            "passive": _passive(servo, arm),
            "settings": settings_of(rig, servo, written_in(recording, track.name)),
            "unknown_command_times": bool(recording.metadata.get("goal", {}).get("time_estimated")),
            "spread": 0.0 if stamps is None else stamps.spread,  # of what is left of the times' error, s
        })  # fmt: skip
    start = np.cumsum([0, *(len(part["time"]) for part in samples)]).astype(np.int64)
    joined: dict[str, Any] = {key: np.concatenate([part[key] for part in samples]) for key in samples[0]}
    alike: dict[str, Any] = {key: np.array([fact[key] for fact in facts], dtype=np.float64) for key in facts[0]}
    if joined["known"].all():
        del joined["known"]
    if loads:
        joined["load"] = np.concatenate(loads)
    return Runs(start=start, **joined, **alike)


def packed(model: ServoModel, rig: Rig) -> FloatArray:
    """A model of the rig's only servo as a parameter set (len(Param),); slope and punch by registers, if need be."""
    row = pack(model, rig.profile_of(rig.servos[0]).units.position)
    settings = settings_of(rig, rig.servos[0], {})
    if row[Param.SLOPE] <= 0:
        row[Param.SLOPE] = settings[Command.SLOPE_CW]
    if row[Param.PUNCH] < 0:
        row[Param.PUNCH] = settings[Command.PUNCH]
    return row


def servo_of(name: str, rig: Rig) -> ServoConfig:
    """The servo of this name; an imported log of the rig's only servo may call it otherwise."""
    return next((servo for servo in rig.servos if servo.name == name), rig.servos[0])


def only_track(recording: Recording, rig: Rig) -> Track:
    """The only track of a recording, from the first sample whose position is known."""
    if not len(recording):
        raise RecordingError(recording.path, recording.flaw, "record it again")
    if len(recording) != 1:
        hint = f"{_ITS_RIG}; to identify some of them, say which: --servo NAME"
        raise RecordingError(recording.path, f"holds {len(recording)} servos, the rig has one", hint)
    track = next(iter(recording.values()))
    if recording.metadata.get("rig") and track.name != (name := servo_of(track.name, rig).name):
        raise RecordingError(recording.path, f"is of servo {track.name}, the rig's is {name}", _ITS_RIG)
    if len(track) < 2:
        raise RecordingError(recording.path, "holds fewer than two samples", "record it again")
    if np.isnan(track.command).all() and np.isnan(track.duty).all() and track.enabled.any():
        raise RecordingError(recording.path, "holds no commands", goals_hint(recording))
    known = np.flatnonzero(~np.isnan(track.position))
    if not len(known):
        raise RecordingError(recording.path, "holds no positions", "look at the servo's cable and id; record it again")
    return track.between(float(track.time[known[0]]), math.inf)  # where a run starts must be known


def goals_hint(recording: Recording) -> str:
    """How a recording without goals gets some."""
    if recording.metadata.get("backend") != "imported":
        return "record it with goals"
    option = "--goal COUNTS@auto" if "servo_model" in recording.metadata else "--column command=HEADER"
    return f"import it again with `{option} --force`"


def unseen(track: Track, rig: Rig) -> BoolArray:
    """Samples in wheel mode with the arm at an end of the sensor's range or beyond, and those beside a jump, (n,)."""
    servo = servo_of(track.name, rig)
    units = rig.profile_of(servo).units
    turning = ~np.isnan(track.duty)
    counts = servo.zero + servo.direction * track.position / units.position
    out = turning & ((counts < _EDGE) | (counts > units.counts - _EDGE))
    jump = np.abs(np.diff(counts)) > units.counts / 4
    out[1:] |= jump & turning[1:]
    out[:-1] |= jump & turning[:-1]
    return out


def _supply(recording: Recording, track: Track, rig: Rig) -> float:
    """What the log says the supply was, else what the servo measured, else the rig's, V."""
    pendulum = recording.metadata.get("pendulum") or {}
    if "vin" in pendulum:
        return float(pendulum["vin"])
    if not np.isnan(track.voltage).all():
        return float(np.nanmedian(track.voltage))
    return rig.supply_of(servo_of(track.name, rig))


def _passive(servo: ServoConfig, arm: Arm) -> FloatArray:
    """What acts on the joint beside its servo, (len(Passive),)."""
    row = FREE.copy()
    row[[Passive.SPRING, Passive.DAMPING, Passive.FRICTION]] = (
        servo.spring_constant, servo.damping_constant, servo.static_friction,
    )  # fmt: skip
    row[[Passive.LOW, Passive.HIGH]] = sorted(servo.direction * stop for stop in arm.stops)
    return row


def written_in(recording: Recording, name: str) -> dict[str, int]:
    """Registers of a servo that differ from the rig's: those of an imported log, and what an experiment wrote first."""
    known = recording.metadata.get("registers") or {}
    # imported logs have names of their own
    alone: dict[str, int] = next(iter(known.values()), {}) if len(recording) == 1 else {}
    written: dict[str, int] = dict(known.get(name, alone))
    for event in recording.events:
        if event.name == "register" and event.data.get("servo") == name:
            written[str(event.data["name"])] = int(event.data["value"])
    return written


def settings_of(rig: Rig, servo: ServoConfig, written: Mapping[str, int]) -> list[float]:
    """One row of `Command`: the rig's registers after power-on, and what was `written` since."""
    return loop_row(rig.profile_of(servo), servo.zero, {**servo.registers, **written})


def speed_limits(rig: Rig, servo: ServoConfig, track: Track) -> FloatArray:
    """Limits of the approach as the register had them, rad/s, (n,); 0 = none, recorded as the servo's full speed."""
    limits = np.nan_to_num(track.speed_limit)
    if servo.max_velocity is not None:  # then the register has it
        return limits
    full = rig.profile_of(servo).electrics.no_load_speed * RPM
    return np.where(np.isclose(limits, full, rtol=1e-6), 0.0, limits)
