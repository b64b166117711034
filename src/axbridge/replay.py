"""A recording's commands through a model: what would the simulated servo have done?

One servo on one arm is run in closed form, from the recorded first sample and at the recorded times; a rig of several
runs in the simulator proper, through a `Robot`, register bytes and all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from axbridge.arm import Arm, arm_of
from axbridge.errors import RecordingError
from axbridge.model import ServoModel
from axbridge.plant.mechanics import FloatArray
from axbridge.plant.rollout import FOLLOWED, HELD, JOINT_MODE, Param, Runs, rollouts
from axbridge.profile import FirmwareProfile
from axbridge.provenance import describe
from axbridge.recording import Recording, Track, increasing
from axbridge.rig import Rig, ServoConfig

__all__ = ["LAWS", "packed", "runs_of", "simulate"]

LAWS = {"state_feedback": 0, "compliance": 1, "pid": 2}
_GRAVITY = 9.81
_EDGE = 2.5  # counts from an end of the sensor's range that count as beyond it
_SLOPES = (2, 4, 8, 16, 32, 64, 128)  # counts: what the compliance slope register snaps to


def simulate(recording: Recording, rig: Rig, params: str | None = None, *, seed: int = 0) -> Recording:
    """Simulate what a recording commanded.

    Args:
        recording: Its commands, torque switches and first samples are used.
        rig: What to simulate it on.
        params: Servo model instead of the rig's (name or path).
        seed: Of the simulator's noise; the closed form has none.

    Returns:
        A recording with positions at about the recorded times; its metadata says which engine ran (``engine``).

    Raises:
        RecordingError: nothing of the rig in the recording, or no commands.
        RigError, ProfileError: the rig, its URDF or its models are wrong.
    """
    if len(rig.servos) == 1:
        return _in_closed_form(recording, rig, params)
    return _through_robot(recording, rig, params, seed)


def runs_of(recordings: Sequence[Recording], rig: Rig) -> Runs:
    """Commands and measurements of recordings of a one-servo rig, ready for `rollouts`.

    The arm is the rig's, or the pendulum's that a recording's metadata names; likewise supply voltage and P gain. While
    an arm that turns endlessly is where its sensor cannot see it, the run is `FOLLOWED`: there is nothing to compare.

    Raises:
        RecordingError: more than one servo in a recording, no commands, or fewer than two samples.
        RigError: the rig is not one arm on a fixed base.
    """
    servo = rig.servos[0]
    rig_arm = None
    columns: list[list[FloatArray]] = []
    facts: list[tuple[float, ...]] = []
    for recording in recordings:
        track = _only(recording)
        pendulum = recording.metadata.get("pendulum")
        if pendulum:
            mass, length = float(pendulum["mass"]), float(pendulum["length"])
            arm = Arm(mass * length**2, mass * _GRAVITY * length)
        else:
            rig_arm = rig_arm or arm_of(rig, servo)
            arm = rig_arm
        driven = (track.enabled & ~(np.isnan(track.command) & np.isnan(track.duty))).astype(float)
        driven[track.torque_enabled == HELD] = HELD
        driven[_unseen(track, rig)] = FOLLOWED
        columns.append([
            track.time, np.where(np.isnan(track.commanded), track.time, track.commanded),
            np.nan_to_num(track.command), driven, np.nan_to_num(track.speed_limit),
            np.nan_to_num(track.duty, nan=JOINT_MODE), _caps(recording, track), track.position,
            np.nan_to_num(track.velocity),
        ])  # fmt: skip
        facts.append((
            _supply(recording, track, rig), arm.inertia, arm.gravity, arm.phase, _p_gain(recording, rig),
            _temperature(track),
        ))  # fmt: skip
    lengths = [len(part[0]) for part in columns]
    start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    return Runs(start, *joined, *(np.array(values) for values in zip(*facts, strict=True)))


def packed(model: ServoModel, rig: Rig) -> FloatArray:
    """A model of the rig's only servo as a parameter set (len(Param),)."""
    servo = rig.servos[0]
    profile = rig.profile_of(servo)
    motor, friction, law, sensor = model.motor, model.friction, model.controller, model.sensor
    count = profile.units.position
    values = {
        Param.CONSTANT: motor.output_constant,
        Param.EFFICIENCY: motor.efficiency,
        Param.RESISTANCE: motor.resistance,
        Param.RESISTANCE_DUTY: motor.resistance_per_duty,
        Param.INDUCTANCE: motor.inductance,
        Param.MAX_CURRENT: motor.max_current,
        Param.ARMATURE: motor.armature,
        Param.COULOMB: friction.coulomb,
        Param.VISCOUS: friction.viscous,
        Param.STRIBECK: friction.stribeck if friction.law not in {"M1", "M3"} else 0.0,
        Param.STRIBECK_SPEED: friction.stribeck_speed,
        Param.STRIBECK_EXPONENT: friction.stribeck_exponent,
        Param.LOAD: friction.load if friction.law not in {"M1", "M2"} else 0.0,
        Param.LOAD_STRIBECK: friction.load_stribeck if friction.law in {"M4", "M5", "M6"} else 0.0,
        Param.LOAD_EXTERNAL: friction.load_external if friction.law in {"M5", "M6"} else -1.0,
        Param.QUADRATIC: friction.quadratic if friction.law == "M6" else 0.0,
        Param.LAW: LAWS[law.law],
        Param.K_THETA: law.k_theta,
        Param.K_OMEGA: law.k_omega,
        Param.PERIOD: law.period_ms * 1e-3,
        Param.SPEED_FILTER: law.speed_filter,
        Param.P_DUTY: law.p_duty,
        Param.MARGIN: _register(servo, profile, "cw_compliance_margin") * count,
        Param.SLOPE: law.slope or _slope(_register(servo, profile, "cw_compliance_slope")) * count,
        Param.PUNCH: law.punch if law.punch >= 0 else _register(servo, profile, "punch") / profile.units.full_scale,
        Param.LATENCY: sensor.latency_ms * 1e-3,
        Param.OFFSET: sensor.angle_offset,
        Param.QUANTUM: count if sensor.quantised else 0.0,
        Param.COUNT: count,
        Param.NOISE: sensor.position_noise,
        Param.RESISTANCE_KELVIN: motor.resistance_per_kelvin,
        Param.AMBIENT: motor.ambient_temperature,
    }
    return np.array([float(values[column]) for column in Param])


def _in_closed_form(recording: Recording, rig: Rig, params: str | None) -> Recording:
    servo = rig.servos[0]
    model = rig.model_of(servo, params)
    track = _only(recording)
    runs = runs_of([recording], rig)
    unseen = runs.driven == FOLLOWED
    if unseen.all():
        raise RecordingError(
            recording.path, "has the arm where its sensor cannot see it all the time", "record it with smaller duties"
        )
    position = np.where(unseen, np.nan, rollouts(packed(model, rig)[None], runs)[0])
    simulated = Track.of(
        track.name, track.time, command=track.command, position=position, torque_enabled=track.torque_enabled
    )
    return replace(
        recording,
        path=Path(f"{rig.name} with {model.name}"),
        tracks={track.name: simulated},
        cycles={},
        metadata=_metadata(recording, rig, model, "one joint in closed form, 1 ms, from the first sample"),
        complete=True,
    )


def _through_robot(recording: Recording, rig: Rig, params: str | None, seed: int) -> Recording:
    """Step a simulated robot through the recorded commands, a control period at a time."""
    from axbridge.opening import open_robot

    tracks = {name: track for name, track in recording.items() if name in {servo.name for servo in rig.servos}}
    if not tracks:
        raise RecordingError(
            recording.path, f"has none of the servos of rig {rig.name}", f"it has {', '.join(recording)}"
        )
    started = {name: float(track.position[0]) for name, track in tracks.items()}
    servos = [
        servo.model_copy(
            update={"position": started.get(servo.name, servo.position)}
            | ({"model": params, "params": {}} if params else {})
        )
        for servo in rig.servos
    ]
    placed = rig.model_copy(update={"servos": tuple(servos)})
    period = placed.robot.basic_time_step_ms
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in tracks}
    with open_robot(placed, "sim", seed=seed) as robot:
        driven = dict.fromkeys(tracks, False)
        for tick in range(math.ceil((recording.end - recording.start) * 1e3 / period) + 1):
            now = recording.start + tick * period * 1e-3
            for name, track in tracks.items():
                index = int(np.searchsorted(track.time, now, side="right")) - 1
                wanted = index >= 0 and bool(track.enabled[index]) and not math.isnan(track.command[index])
                if wanted != driven[name]:
                    (robot[name].torque_on if wanted else robot[name].torque_off)()
                    driven[name] = wanted
                if wanted:
                    robot[name].set_position(float(track.command[index]))
            if robot.step(period) == -1:
                break
            for name, row in rows.items():
                state = robot[name].state
                row.append((now + period * 1e-3, state.position, state.velocity))
    done = {}
    for name, row in rows.items():
        time, position, velocity = np.array(row).T
        order = increasing(time)
        done[name] = Track.of(name, time[order], position=position[order], velocity=velocity[order])
    model = placed.model_of(placed.servos[0])
    return replace(
        recording,
        path=Path(f"{rig.name} with {model.name}"),
        tracks=done,
        cycles={},
        metadata=_metadata(recording, placed, model, f"the sim backend, a step each {period:g} ms"),
        complete=True,
    )


def _metadata(recording: Recording, rig: Rig, model: ServoModel, engine: str) -> dict[str, Any]:
    facts = describe(rig, backend="sim", experiment=str(recording.metadata.get("experiment", "")), engine=engine)
    dumped = model.model_dump(mode="json", exclude={"path"})
    return facts | {"models": facts["models"] | ({next(iter(recording)): dumped} if len(rig.servos) == 1 else {})}


def _only(recording: Recording) -> Track:
    if len(recording) != 1:
        raise RecordingError(
            recording.path, f"holds {len(recording)} servos, the rig has one", "use the rig it was recorded on"
        )
    track = next(iter(recording.values()))
    if len(track) < 2:
        raise RecordingError(recording.path, "holds fewer than two samples", "record it again")
    if np.isnan(track.command).all() and np.isnan(track.duty).all() and track.enabled.any():
        raise RecordingError(recording.path, "holds no commands", "import it with --column command=…")
    known = ~np.isnan(track.position)
    if not known.all():
        keys = [key for key in vars(track) if key != "name"]
        return replace(track, **{key: getattr(track, key)[known] for key in keys})
    return track


def _unseen(track: Track, rig: Rig) -> npt.NDArray[np.bool_]:
    """Samples in wheel mode with the arm at an end of the sensor's range, beyond it, or round past it, (n,).

    Out there an AX-12 reads either end, or anything; the samples on both sides of a jump are not trusted, either.
    """
    servo = rig.servos[0]
    units = rig.profile_of(servo).units
    turning = ~np.isnan(track.duty)
    counts = servo.zero + servo.direction * track.position / units.position
    out = turning & ((counts < _EDGE) | (counts > units.counts - _EDGE))
    jump = np.abs(np.diff(counts)) > units.counts / 4
    out[1:] |= jump & turning[1:]
    out[:-1] |= jump & turning[:-1]
    return out


def _caps(recording: Recording, track: Track) -> FloatArray:
    """The torque limit in force at each sample, as a share of full duty, (n,)."""
    caps = np.ones(len(track))
    for segment in recording.segments:
        if "limit" in segment.data and segment.data.get("servo", track.name) == track.name:
            caps[(track.time >= segment.start - 1e-9) & (track.time < segment.end)] = float(segment.data["limit"])
    return caps


def _supply(recording: Recording, track: Track, rig: Rig) -> float:
    """What the log says the supply was, else what the servo measured, else the rig's, V."""
    pendulum = recording.metadata.get("pendulum") or {}
    if "vin" in pendulum:
        return float(pendulum["vin"])
    if not np.isnan(track.voltage).all():
        return float(np.nanmedian(track.voltage))
    bus = next(bus for bus in rig.buses if bus.name == rig.servos[0].bus)
    return bus.supply_voltage


def _temperature(track: Track) -> float:
    """Mean of what the servo reported, degC; NaN when it reported none."""
    known = track.temperature[~np.isnan(track.temperature)]
    return float(known.mean()) if len(known) else math.nan


def _p_gain(recording: Recording, rig: Rig) -> float:
    registers: dict[str, Any] = next(iter((recording.metadata.get("registers") or {}).values()), {})
    servo = rig.servos[0]
    profile = rig.profile_of(servo)
    for name in ("position_p_gain", "p_gain"):
        if name in registers:
            return float(registers[name])
        if name in servo.registers or name in profile.registers:
            return float(_register(servo, profile, name))
    return 0.0


def _register(servo: ServoConfig, profile: FirmwareProfile, name: str) -> int:
    """What a register holds after power-on with the rig's settings; 0 where the servo has none of that name."""
    if name in servo.registers:
        return servo.registers[name]
    register = profile.registers.get(name)
    return register.initial if register is not None and isinstance(register.initial, int) else 0


def _slope(value: int) -> int:
    """The slope in force for a written value, counts: the next of the steps it snaps to."""
    return next((step for step in _SLOPES if value <= step), _SLOPES[-1])
