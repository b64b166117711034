"""Delay and first-order lag of each joint of a robot of which there is no rig: no masses, so no motors either.

`τ·dy/dt = goal(t - delay) - y`, plus what the joint is off at rest. A goal is held until the next one, or it is on a
line from the one before: some programs send where a motion shall end and log that. Which of the two is taken is what
all joints together follow better. For lines alone, only the sum of delay and lag is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from axbridge.arrays import FloatArray
from axbridge.comparison.intervals import sent_at
from axbridge.config.toml_tables import TomlTable
from axbridge.errors import RecordingError
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Recording, Track

LONGEST = 0.4  # s: of delay and lag

_STEP = 2e-3  # s: of the simulation
_STILL = math.radians(2.0)  # a goal that moves less tells nothing
_BLOCKS = 10  # stretches of time that the jackknife leaves out in turn
_GRID = 7

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Lag:
    """What was found of one joint.

    Attributes:
        name: The joint.
        delay: s, with the ends of its 95 % interval; the upper one is infinite where it is beyond what is searched.
        lag: τ, s, likewise.
        total: Their sum, s, likewise.
        offset: How far the joint is off at rest, rad.
        before: Mean absolute difference of goal and position, degrees.
        after: Of the model and the position.
        ended: Which of delay and lag is as long as the search goes: it may be longer.
    """

    name: str
    delay: tuple[float, float, float]
    lag: tuple[float, float, float]
    total: tuple[float, float, float]
    offset: float
    before: float
    after: float
    ended: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lags:
    """All joints that move.

    Attributes:
        joints: In the order of the recording.
        ramped: Whether goals are taken to lie on lines from one to the next.
        still: Names of the joints whose goals hardly change.
    """

    joints: tuple[Lag, ...]
    ramped: bool
    still: tuple[str, ...]


def lags(
    recording: Recording,
    report: Callable[[str, float], None] = lambda _name, _share: None,
    *,
    intervals: bool = True,
) -> Lags:
    """Delay and lag of each joint of a recording.

    Args:
        recording: Goals and positions.
        report: Called before each joint, with its name and the share that is done.
        intervals: Look for the 95 % intervals, too, which takes ten times as long; else they are 0 to infinity.

    Raises:
        RecordingError: no joint got a goal.
    """
    tracks = {name: _known(track) for name, track in recording.items()}
    moving = {name: track for name, track in tracks.items() if len(track) > 20 and np.ptp(track.command) > _STILL}
    if not moving:
        raise RecordingError(recording.path, "tells no joint to move by 2° or more", "give a recording of a motion")
    found: dict[bool, list[Lag]] = {False: [], True: []}
    for index, (name, track) in enumerate(moving.items()):
        for ramped, kept in found.items():
            report(name, (2 * index + ramped) / (2 * len(moving)))
            kept.append(_lag(track, ramped=ramped, intervals=intervals))
    ramped = sum(one.after for one in found[True]) < sum(one.after for one in found[False])
    return Lags(tuple(found[ramped]), ramped, tuple(name for name in recording if name not in moving))


def _known(track: Track) -> Track:
    """The samples with a position and with a goal in force, while the torque is on."""
    times = track.time[~np.isnan(track.position) & ~np.isnan(track.command) & track.enabled]
    if len(times) == len(track):
        return track
    which = np.isin(track.time, times)
    columns = {key: column[which] for key, column in vars(track).items() if isinstance(column, np.ndarray)}
    return Track(name=track.name, **columns)


def _lag(track: Track, *, ramped: bool, intervals: bool) -> Lag:
    from scipy.optimize import least_squares

    goal = _GoalTrace.of(track, ramped=ramped)
    position = track.position
    everything = np.ones(len(position), dtype=np.bool_)

    def residuals(point: FloatArray, kept: Mask) -> FloatArray:
        error = goal.followed(float(point[0]), float(point[1])) - position
        # large errors, as of a foot that hits the floor, count linearly
        result: FloatArray = np.degrees(error - np.median(error[kept]))[kept]
        return result

    ends = np.linspace(0.0, LONGEST / 2, _GRID)
    grid = [np.array([delay, lag]) for delay in ends for lag in ends]
    begin = min(grid, key=lambda point: float(np.abs(residuals(point, everything)).mean()))

    def best(start: FloatArray, kept: Mask) -> FloatArray:
        start = np.clip(start, 1e-4, LONGEST - 1e-4)
        fitted = least_squares(
            residuals, start, bounds=(0.0, LONGEST), loss="soft_l1", args=(kept,), diff_step=[0.02, 0.02],
            x_scale=0.02, max_nfev=30,
        )  # fmt: skip
        result: FloatArray = fitted.x
        return result

    point = best(begin, everything)
    values, reach = np.array([*point, point.sum()]), np.full(3, math.inf)
    if intervals:
        parts = np.array_split(np.arange(len(position)), _BLOCKS)
        left = np.array([best(point, ~np.isin(np.arange(len(position)), part)) for part in parts])
        moved = np.column_stack((left, left.sum(axis=1)))
        spread = np.sqrt((_BLOCKS - 1) / _BLOCKS * np.sum((moved - moved.mean(axis=0)) ** 2, axis=0))
        reach = 2.26 * spread + _STEP  # Student's, for ten blocks
    ended = values > LONGEST - _STEP
    ended[2] = ended[:2].any()
    delay, lag, total = (
        (float(value), max(0.0, float(value - far)), math.inf if beyond else float(value + far))
        for value, far, beyond in zip(
            values, reach, ended | (values + reach > LONGEST * np.array([1, 1, 2])), strict=True
        )
    )
    error = goal.followed(*point) - position
    offset = float(np.median(error))
    return Lag(
        track.name, delay, lag, total, -offset, float(np.degrees(np.abs(track.command - position).mean())),
        float(np.degrees(np.abs(error - offset).mean())),
        tuple(name for name, at_end in zip(("delay", "lag"), ended, strict=False) if at_end),
    )  # fmt: skip


class JointLag(TomlTable):
    """How a joint follows its goals.

    Attributes:
        delay_ms: ms.
        lag_ms: ms.
        offset_deg: How far it is off at rest, degrees.
        mae_deg: What that was worth where it was found, degrees.
    """

    delay_ms: float = Field(ge=0, le=1000)
    lag_ms: float = Field(ge=0, le=1000)
    offset_deg: float = Field(default=0.0, ge=-360, le=360)
    mae_deg: float | None = None


class LagModel(TomlTable):
    """A file of delays and lags.

    Attributes:
        goals: Whether goals are held from one to the next, or lie on lines.
        joint: By name.
    """

    goals: Literal["lines", "held"]
    joint: Mapping[str, JointLag]


def simulated(recording: Recording, model: LagModel, label: str) -> Recording:
    """What joints with these delays and lags make of a recording's goals, while their torque is on.

    Args:
        recording: Goals, and where each joint began.
        model: Other joints are left out.
        label: What the result is called.

    Raises:
        RecordingError: no joint of the model got a goal.
    """
    tracks = {}
    for name, one in model.joint.items():
        track = _known(recording[name]) if name in recording else None
        if track is None or len(track) < 2:
            continue
        way = _GoalTrace.of(track, ramped=model.goals == "lines").followed(1e-3 * one.delay_ms, 1e-3 * one.lag_ms)
        tracks[name] = Track.of(
            name, track.time, command=track.command, position=way + math.radians(one.offset_deg),
            torque_enabled=track.torque_enabled,
        )  # fmt: skip
    if not tracks:
        why = f"has no goals of {label}'s joints: {', '.join(model.joint) or 'none'}"
        raise RecordingError(recording.path, why, f"it has {', '.join(recording)}")
    return replace(
        recording, path=Path(label), tracks=tracks, cycles={},
        metadata=describe(backend="sim", engine="delay and lag of each joint"), complete=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _GoalTrace:
    """A joint's goal, every `_STEP` (n,), and the times at which its position is known (l,), s from the first."""

    even: FloatArray
    goal: FloatArray
    wanted: FloatArray
    start: float

    @classmethod
    def of(cls, track: Track, *, ramped: bool) -> _GoalTrace:
        sent = sent_at(track) - track.time[0]
        changed = np.flatnonzero(np.diff(track.command) != 0) + 1
        even = np.arange(-LONGEST, float(track.time[-1] - track.time[0]) + 2 * _STEP, _STEP)
        first, rest = float(track.position[0]), np.concatenate(([0], changed))
        times, goals = sent[rest], track.command[rest]
        if ramped:
            last = track.time[np.concatenate((changed - 1, [-1]))] - track.time[0]  # it is there by then
            ends, ways = np.stack((times, np.maximum(last, times)), axis=1), np.concatenate(([first], goals))
            goal = np.interp(even, ends.ravel(), np.stack((ways[:-1], ways[1:]), axis=1).ravel())
        else:
            goal = np.where(even < times[0], first, goals[np.clip(np.searchsorted(times, even, "right") - 1, 0, None)])
        return cls(even, goal, track.time - track.time[0], first)

    def followed(self, delay: float, lag: float) -> FloatArray:
        """Positions (l,) of a joint that follows with a delay and a lag, s."""
        from scipy.signal import lfilter

        late = np.interp(self.even - delay, self.even, self.goal)
        if lag > 1e-4:
            share = 1 - math.exp(-_STEP / lag)
            late = self.start + lfilter([share], [1.0, share - 1.0], late - self.start)
        result: FloatArray = np.interp(self.wanted, self.even, late)
        return result
