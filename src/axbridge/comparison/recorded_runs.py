"""Convert recordings of one servo to `Runs`, the input of rollouts and fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.comparison.metrics import resample
from axbridge.comparison.recorded_dynamics import CarriedRecording, check_hinge, load_of
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig, ServoSpec
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import RecordingError, RigError
from axbridge.recording.import_wizard import restored
from axbridge.recording.recording import Recording, Track
from axbridge.servo.columns import Command, Param, Passive, pack
from axbridge.sim.runs import FREE, JOINT_MODE, Regime, Runs
from axbridge.units import RPM
from axbridge.virtual.servo import loop_row

_GRAVITY = 9.81
_RESTING = 0.1  # rad/s: two steps of an AX-12's Present Speed
_EDGE = 2.5  # counts: positions this close to an end of the sensor's range count as beyond it
_KNOWN = 0.99  # an interpolated `known` above this lies between two samples with known load
_ITS_RIG = "use the rig it was recorded on"


@dataclass(frozen=True)
class Arm:
    """A rigid body on a fixed hinge."""

    inertia: float  # about the hinge, kg·m²
    gravity: float  # largest torque of its weight, m·g·l, N·m
    # rad: the weight's torque at joint angle θ is `-gravity·sin(θ + phase)`; 0 if the arm hangs down at 0 rad
    phase: float = 0.0
    stops: tuple[float, float] = (-math.inf, math.inf)  # hard stops, rad; ±inf = none


def arm_of(rig: Rig, servo: ServoConfig) -> Arm:
    """Return the arm of a servo; raise RigError unless it is the only joint, on a fixed base."""
    check_hinge(rig, servo)
    tree = rig.tree()
    assert rig.world is not None  # `check_hinge` has read its URDF
    if len(tree.joints) > 1 or not rig.world.fixed_base:
        hint = "identification needs one arm on a fixed base; of a robot, say which servo: --servo NAME"
        raise RigError(rig.urdf_path(), f"joint {servo.joint}", "is one of several moving parts", hint)
    still = np.zeros((1, 1))
    inertia, a, b, _ = load_of(tree, 0, (still, still, still), np.array([rig.world.gravity]))[0].tolist()
    return Arm(inertia, math.hypot(a, b), math.atan2(b, a), rig.specs[servo.name].stops)


def runs_of(recordings: Sequence[Recording], rig: Rig) -> Runs:
    """Return commands and measurements of recordings of one servo each, for `rollouts`; angles on the servo's side.

    Arm, supply voltage and registers are the recording's if it has them, else the rig's. Coarse time stamps are
    restored. Outside the sensor's range the run is `Regime.FOLLOWED`, which is not compared.
    """
    rig_arm = None
    samples: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    loads: list[FloatArray] = []
    for recording in recordings:
        track = only_track(recording, rig)
        servo = servo_of(track.name, rig)
        spec, side = rig.specs[servo.name], servo.direction
        count = spec.profile.units.position  # goals are whole counts
        known = ~np.isnan(track.position)
        if not known.all():
            at, both = track.time, (track.position, track.velocity)
            position, speed = (resample(at, values, at, beyond=None) for values in both)
            track = replace(track, position=position, velocity=speed)
        supply = spec.supply if np.isnan(track.voltage).all() else float(np.nanmedian(track.voltage))
        pendulum = recording.metadata.get("pendulum")
        if pendulum:
            mass, length = float(pendulum["mass"]), float(pendulum["length"])
            arm = Arm(mass * length**2, mass * _GRAVITY * length)
            supply = float(pendulum.get("vin", supply))
        elif isinstance(recording, CarriedRecording):
            arm = Arm(0.0, 0.0, stops=spec.stops)
        elif recording.metadata.get("load"):
            arm = Arm(float(recording.metadata["load"]["inertia"]), 0.0)
        else:
            rig_arm = rig_arm or arm_of(rig, servo)
            arm = rig_arm
        driven = (track.enabled & ~(np.isnan(track.command) & np.isnan(track.duty))).astype(np.int64)
        driven[track.torque_enabled == Regime.HELD] = Regime.HELD  # written by `fit.lima2009`
        sent = track.sent
        if track.commanded[0] > track.time[0] and abs(track.velocity[0]) < _RESTING:
            driven[0] = Regime.HELD  # the first command has not arrived yet
            commands = (track.command, track.duty, track.torque_enabled, track.speed_limit)
            if all(np.array_equal(column[0], column[1], equal_nan=True) for column in commands):
                sent[1] = sent[0]
        driven[outside_sensor_range(track, rig)] = Regime.FOLLOWED
        if isinstance(recording, CarriedRecording):
            load = np.stack([np.interp(track.time, recording.at, column) for column in recording.load.T], axis=1)
            loads.append(load * [1.0, 1.0, side, side])
            driven[np.interp(track.time, recording.at, recording.known) <= _KNOWN] = Regime.FOLLOWED
        stamps = restored(track.time) if recording.metadata.get("stamps") else None
        samples.append({
            "time": track.time if stamps is None else stamps.time,
            "sent": sent,
            "goal": count * np.round(side * np.nan_to_num(track.command) / count),
            "driven": driven,
            "speed_limit": speed_limits(spec, track),
            "duty": np.nan_to_num(side * track.duty, nan=JOINT_MODE),
            "cap": np.nan_to_num(track.torque_limit, nan=1.0),
            "position": side * track.position,
            "velocity": side * np.nan_to_num(track.velocity),
            "known": known,
        })  # fmt: skip
        facts.append({
            "supply": supply,
            "inertia": arm.inertia,
            "gravity": arm.gravity,
            "phase": side * arm.phase,
            "temperature": float(np.nanmean(track.temperature)) if np.isfinite(track.temperature).any() else math.nan,
            "passive": _passive(servo, arm),
            "settings": settings_of(spec, written_in(recording, track.name)),
            "unknown_command_times": bool(recording.metadata.get("goal", {}).get("time_estimated")),
            "spread": 0.0 if stamps is None else stamps.spread,  # s, of the times' remaining error
        })  # fmt: skip
    start = np.cumsum([0, *(len(part["time"]) for part in samples)]).astype(np.int64)
    joined: dict[str, Any] = {key: np.concatenate([part[key] for part in samples]) for key in samples[0]}
    joined_facts: dict[str, Any] = {key: np.array([fact[key] for fact in facts], dtype=np.float64) for key in facts[0]}
    if joined["known"].all():
        del joined["known"]
    if loads:
        joined["load"] = np.concatenate(loads)
    return Runs(start=start, **joined, **joined_facts)


def packed(model: ServoModel, rig: Rig) -> FloatArray:
    """Return a model of the rig's servo as a parameter set (len(Param),); slope and punch by registers if unset."""
    spec = rig.specs[rig.servos[0].name]
    row, settings = pack(model, spec.profile.units.position), settings_of(spec, {})
    if row[Param.SLOPE] <= 0:
        row[Param.SLOPE] = settings[Command.SLOPE_CW]
    if row[Param.PUNCH] < 0:
        row[Param.PUNCH] = settings[Command.PUNCH]
    return row


def servo_of(name: str, rig: Rig) -> ServoConfig:
    """Return the servo of this name, else the rig's first: an imported log may have another name for the only servo."""
    return next((servo for servo in rig.servos if servo.name == name), rig.servos[0])


def only_track(recording: Recording, rig: Rig) -> Track:
    """Return the only track of a recording from its first known position on; raise RecordingError without one."""
    if not len(recording):
        raise RecordingError(recording.path, recording.flaw, "record it again")
    if len(recording) != 1:
        held, hint = f"holds {len(recording)} servos", "to identify some of them, say which: --servo NAME"
        if len(rig.servos) > 1:
            raise RecordingError(recording.path, f"{held}, and none is chosen", hint)
        raise RecordingError(recording.path, f"{held}, the rig has one", f"{_ITS_RIG}; {hint}")
    track = next(iter(recording.values()))
    if recording.metadata.get("rig") and track.name != (name := servo_of(track.name, rig).name):
        raise RecordingError(recording.path, f"is of servo {track.name}, the rig's is {name}", _ITS_RIG)
    if len(track) < 2:
        raise RecordingError(recording.path, "holds fewer than two samples", "record it again")
    if np.isnan(track.command).all() and np.isnan(track.duty).all() and track.enabled.any():
        raise RecordingError(recording.path, "holds no commands", goals_hint(recording))
    positions = np.flatnonzero(~np.isnan(track.position))
    if not len(positions):
        raise RecordingError(recording.path, "holds no positions", "look at the servo's cable and id; record it again")
    return track.between(float(track.time[positions[0]]), math.inf)  # a run needs a known start position


def goals_hint(recording: Recording) -> str:
    """Return the hint for a recording without goals."""
    if recording.metadata.get("backend") != "imported":
        return "record it with goals"
    option = "--goal COUNTS@auto" if "servo_model" in recording.metadata else "--column command=HEADER"
    return f"import it again with `{option} --force`"


def outside_sensor_range(track: Track, rig: Rig) -> BoolArray:
    """Return whether a sample in wheel mode is outside the sensor's range, or beside a jump of the sensor, (n,)."""
    servo = servo_of(track.name, rig)
    units = rig.specs[servo.name].profile.units
    turning = ~np.isnan(track.duty)
    counts = servo.zero + servo.direction * track.position / units.position
    out = turning & ((counts < _EDGE) | (counts > units.counts - _EDGE))
    jump = np.abs(np.diff(counts)) > units.counts / 4
    out[1:] |= jump & turning[1:]
    out[:-1] |= jump & turning[:-1]
    return out


def _passive(servo: ServoConfig, arm: Arm) -> FloatArray:
    """Return the passive torques on the joint, (len(Passive),): spring, damper, friction and hard stops."""
    row = FREE.copy()
    row[Passive.SPRING], row[Passive.DAMPING] = servo.spring_constant, servo.damping_constant
    row[Passive.FRICTION] = servo.static_friction
    row[[Passive.LOW, Passive.HIGH]] = sorted(servo.direction * stop for stop in arm.stops)
    return row


def written_in(recording: Recording, name: str) -> dict[str, int]:
    """Return registers that differ from the rig's: those of an imported log, and those that an experiment wrote."""
    recorded = recording.metadata.get("registers") or {}
    # an imported log may have another name for the servo
    alone: dict[str, int] = next(iter(recorded.values()), {}) if len(recording) == 1 else {}
    written: dict[str, int] = dict(recorded.get(name, alone))
    for event in recording.events:
        if event.name == "register" and event.data.get("servo") == name:
            written[str(event.data["name"])] = int(event.data["value"])
    return written


def settings_of(spec: ServoSpec, written: Mapping[str, int]) -> list[float]:
    """Return a row of `Command` from the rig's registers after power-on and the registers `written` since."""
    return loop_row(spec.profile, spec.config.zero, {**spec.config.registers, **written})


def speed_limits(spec: ServoSpec, track: Track) -> FloatArray:
    """Return the speed limits of the register, rad/s, (n,); 0 = none, which is recorded as the servo's full speed."""
    limits = np.nan_to_num(track.speed_limit)
    if spec.config.max_velocity is not None:  # the register always has a limit then
        return limits
    full = spec.profile.electrics.no_load_speed * RPM
    return np.where(np.isclose(limits, full, rtol=1e-6), 0.0, limits)
