"""Simulate the commands of a recording with a servo model.

One servo with one arm is simulated in closed form, from the first recorded sample and at the recorded times. A rig of
several servos runs in the simulator through a `Robot`, with register bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.recorded_runs import only_track, outside_sensor_range, runs_of
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.recording.provenance import describe
from axbridge.recording.recording import COMMANDS, Recording, Track
from axbridge.recording.step_format import BASE
from axbridge.recording.stored import opened
from axbridge.rotations import roll_pitch_yaw
from axbridge.servo import checks
from axbridge.servo.columns import pack
from axbridge.sim.engines.choice import chosen, with_usual_engine
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import Regime
from axbridge.sim.support import Gantry

if TYPE_CHECKING:
    from axbridge.robot.servo import Servo


_SAMPLED = ("position", "velocity", "load", "voltage", "torque")  # recorded columns of a simulated sample
_TOGETHER = 0.25  # control periods: goals sent within this time count as sent at once
_STEP = 0.018  # s: longest step; samples are read at its end, and `sample` reaches 50 ms back
_SHORTEST = 3e-4  # s: events no further apart share a step; `Robot.step` refuses 0.2 ms and less
_SAME = 1e-9  # s: times this close are equal
_GET_UP = "get up"  # the segment of a recorded walk in which the robot is held


def simulate(
    recording: Recording | str | Path,
    rig: str | Path | Rig,
    model: str | None = None,
    *,
    seed: int = 0,
    engine: str | None = None,
) -> Recording:
    """Simulate the commands of a recording.

    Args:
        recording: The recording or its file; its commands, torque enables and first samples are used.
        rig: The rig to simulate: a name, a path, or a `Rig`.
        model: Servo model (name or path) instead of the rig's.
        seed: Seed of the simulator's noise; the closed form has no noise.
        engine: Physics engine instead of the rig's, and instead of the closed form for a single servo.

    Returns:
        A recording with positions at the recorded times; ``engine`` in its metadata names the engine.

    Raises:
        RecordingError: no servo of the rig in the recording, or no commands.
        RigError, ProfileError: the rig, its URDF or its models are wrong.
    """
    rig, recording, seed = rig if isinstance(rig, Rig) else Rig.load(rig), opened(recording), checks.seed(seed)
    if len(rig.servos) == 1 and engine is None:
        return _in_closed_form(recording, rig, model)

    return _through_robot(recording, with_usual_engine(rig, engine), model, seed)


def visible(recording: Recording, rig: Rig) -> Recording:
    """Return the recording without positions outside the sensor's range; `simulate` leaves out the same ones."""
    if len(rig.servos) != 1:
        return recording
    track = only_track(recording, rig)
    position = np.where(outside_sensor_range(track, rig), np.nan, track.position)
    return replace(recording, tracks={track.name: replace(track, position=position)})


def _in_closed_form(recording: Recording, rig: Rig, chosen_model: str | None) -> Recording:
    servo = rig.servos[0]
    spec = rig.specs[servo.name]
    model = spec.model if chosen_model is None else spec.load_model(chosen_model)
    track = only_track(recording, rig)
    runs = runs_of([recording], rig)
    followed = runs.driven == Regime.FOLLOWED
    if followed.all():
        why = "has the arm where its sensor cannot see it all the time"
        raise RecordingError(recording.path, why, "record it with smaller duties")
    row = pack(model, spec.profile.units.position)
    position = np.where(followed, np.nan, servo.direction * rollouts(row[None], runs)[0])
    commands = {"command": track.command, "torque_enabled": track.torque_enabled}
    tracks = {track.name: Track.of(track.name, track.time, position=position, **commands)}
    engine = "one joint in closed form, 1 ms, from the first sample"
    result = _simulated(recording, rig, model, tracks, engine)
    result.metadata["models"][track.name] = model.model_dump(mode="json", exclude={"path"})
    return result


def _simulated(
    recording: Recording,
    rig: Rig,
    model: ServoModel,
    tracks: dict[str, Track],
    engine: str,
    cycles: dict[str, FloatArray] | None = None,
) -> Recording:
    facts = describe(rig, backend="sim", experiment=str(recording.metadata.get("experiment", "")), engine=engine)
    facts |= {key: recording.metadata[key] for key in ("gait",) if key in recording.metadata}
    path = Path(f"{rig.name} with {model.name}")
    return replace(recording, path=path, tracks=tracks, cycles=cycles or {}, metadata=facts, complete=True)


def _through_robot(recording: Recording, rig: Rig, model: str | None, seed: int) -> Recording:
    """Step a simulated robot through the recorded commands: goals and samples have the recorded times."""
    from axbridge.robot.backend import open_sim
    from axbridge.robot.robot import Robot

    tracks = {name: track for name, track in recording.items() if name in {servo.name for servo in rig.servos}}
    if not tracks:
        why = f"has none of the servos of rig {rig.name}"
        raise RecordingError(recording.path, why, f"it has {', '.join(recording)}")
    for name, track in tracks.items():
        if not np.isnan(track.duty).all():
            why = f"turns {name} by duty, which only a rig of that servo alone can repeat"
            raise RecordingError(recording.path, why, "compare it on a rig with one servo")
    known = {name: track.position[~np.isnan(track.position)] for name, track in tracks.items()}
    started = {name: float(positions[0]) for name, positions in known.items() if len(positions)}
    sent = {name: track.sent for name, track in tracks.items()}
    modelled = rig.with_model(model)
    # a joint starts at its first recorded position, within its hard stops
    starts = {name: float(np.clip(position, *modelled.specs[name].stops)) for name, position in started.items()}
    start_rig = modelled.with_servos(lambda servo: {"position": starts.get(servo.name, servo.position)})
    # The recorded times include the packets' times, and the recorded limits include the stall watch's reductions.
    start_rig = start_rig.with_buses(bus_timing="none")
    start_rig = start_rig.overridden({"safety": {"stall": 1.0}})
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in tracks}
    base_poses: list[tuple[float, ...]] = []
    ideal = start_rig.dynamixels != start_rig.servos
    engine_name = "pendulums" if start_rig.world is None else chosen(start_rig.world.engine, ideal=ideal)
    held = next((part for part in recording.segments if part.name == _GET_UP), None)
    # no pose check: the recording gives the pose
    with Robot(start_rig, open_sim(start_rig, seed=seed), seed=seed) as robot:
        assert robot.simulation is not None
        engine = robot.simulation.engine
        # From the rig's own pose: in the recorded one the feet may be anywhere.
        gantry = None if held is None or engine is None or engine.base() is None else Gantry(rig, engine)
        driven = dict.fromkeys(tracks, False)
        for begin, end, goals in _time_slices(tracks.values(), _TOGETHER * rig.robot.basic_time_step_ms * 1e-3, _STEP):
            if gantry is not None and held is not None and held.start <= begin < held.end:
                gantry.put((begin - held.start) / (held.end - held.start))
            for name, track in tracks.items() if goals else ():
                # until the first goal is sent, the joint holds its position
                index = int(np.searchsorted(sent[name], begin + _SHORTEST, side="right")) - 1
                goal = float(track.command[index]) if index >= 0 else started.get(name, math.nan)
                enabled = bool(track.enabled[max(index, 0)]) and not math.isnan(goal) and begin >= track.time[0] - _SAME
                if enabled != driven[name]:
                    (robot[name].torque_on if enabled else robot[name].torque_off)()
                    driven[name] = enabled
                if enabled:
                    _limit(robot[name], track, index)
                    robot[name].set_position(goal, clip=True)
            if robot.step((end - recording.start - robot.time) * 1e3) == -1:
                break
            for name, track in tracks.items():
                for time in track.time[(track.time >= begin) & (track.time < end)].tolist():
                    state, power = robot.simulation.sample(name, time - recording.start)
                    rows[name].append((time, power, *(getattr(state, key) for key in _SAMPLED)))
            where = robot.simulation.base
            if where is not None:
                base_poses.append((end, *where[0], *roll_pitch_yaw(where[1])))
    simulated, cycles = {}, {}
    for name, row in rows.items():
        time, *columns = np.array(row, dtype=float).T
        track = tracks[name].between(float(time[0]), float(np.nextafter(time[-1], np.inf)))
        commands = {key: getattr(track, key) for key in (*COMMANDS, "commanded")}
        simulated[name] = Track.of(name, time, **commands, **dict(zip(("power", *_SAMPLED), columns, strict=True)))
    if base_poses:
        at, *poses = np.array(base_poses, dtype=float).T
        cycles["time"] = np.asarray(recording.cycles.get("time", at))
        for name, column in zip(BASE, poses, strict=True):
            cycles[name] = np.interp(cycles["time"], at, np.unwrap(column))
    engine_words = f"the sim backend with {engine_name}, at the recorded times"
    return _simulated(recording, modelled, modelled.specs[rig.servos[0].name].model, simulated, engine_words, cycles)


def _limit(servo: Servo, track: Track, index: int) -> None:
    """Set the recorded limits of speed and torque, if there are any."""
    speed, torque = (float(column[max(index, 0)]) for column in (track.speed_limit, track.torque_limit))
    if not math.isnan(speed):
        servo.set_velocity(min(speed, servo.max_velocity) if speed > 0 else servo.max_velocity)
    if not math.isnan(torque):
        servo.set_available_torque(servo.max_torque * torque)


def _time_slices(tracks: Iterable[Track], together: float, longest: float) -> list[tuple[float, float, bool]]:
    """Return slices without gaps, from the first sample or goal to beyond the last; none longer than `longest` (s).

    Each has begin and end, s, and whether goals were sent at its begin; True for the first.
    """
    tracks = list(tracks)
    sampled = np.unique(np.concatenate([track.time for track in tracks]))
    moments = _moments(np.unique(np.concatenate([track.sent for track in tracks])), together)
    last = max(float(sampled[-1]), moments[-1]) + longest / 2
    edges = [min(float(sampled[0]), moments[0])]
    for moment in (*moments, last):
        edges += [moment] if moment - edges[-1] > _SHORTEST else []
    slices = []
    for begin, end in pairwise(edges):
        goals, start = True, begin
        while start < end:
            first = np.searchsorted(sampled, start)
            early = float(sampled[first]) if first < len(sampled) else end
            cut = max(early, start) + longest
            cut = end if cut > end - _SHORTEST else cut
            slices.append((start, cut, goals))
            goals, start = False, cut
    return slices


def _moments(sent: FloatArray, together: float) -> list[float]:
    """Return the times at which goals were sent, s; goals within `together` (s) have one time."""
    moments: list[float] = []
    first = -np.inf
    for time in sent.tolist():
        if time - first > together:
            moments.append(time)
            first = time
        else:
            moments[-1] = time
    return moments
