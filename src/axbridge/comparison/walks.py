"""Walks side by side: what Lima et al. 2009 and 2008 show of one, worked out from two or three recordings.

Knee angles, the zero-moment point, power and energy of each step, and how far each joint lags behind its goals. All of
it comes from what servos report; where a simulation measured more, that is taken. Times count from the walk's start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.current_draw import drawn
from axbridge.comparison.footing import Footing, Standing, footing, measured_zmp, standing_robot
from axbridge.comparison.lag import Lag, lags
from axbridge.comparison.metrics import deviation, resample
from axbridge.comparison.side_by_side import shared_periods, walk_span
from axbridge.errors import AxBridgeError, RecordingError, UsageError
from axbridge.recording.recording import Recording, Segment

_GRID = 0.02  # s
_KNEE = "knee"
_STILL = 2.0  # degrees: a knee that moves less has no share
_FEWEST = 0.5  # of the walk that a simulation must have measured to be taken at its word


class Power(NamedTuple):
    """What all servos together drew."""

    time: FloatArray  # of the reference, s from the walk's start, (n,)
    watt: FloatArray  # the mean of the 20 ms from then on, (n,)
    joules: FloatArray  # of each step, (steps,)
    # instead of both where no motor model is known: load times voltage, the mean over all servos, V, (n,); empty
    # where the model is known
    volts: FloatArray


class Zmp(NamedTuple):
    """The zero-moment point as seen from the middle between the feet."""

    time: FloatArray  # of the reference, s from the walk's start, (n,)
    place: FloatArray  # ahead and to the left, m, (n, 2)
    planned: FloatArray  # likewise, where the gait wanted it; NaN where that is not recorded
    margin: FloatArray  # to the nearest edge of the soles that stand, m, (n,)
    measured: bool  # whether a simulation measured it; else it is worked out from the joints' angles


class Knee(NamedTuple):
    """One knee of two walks."""

    name: str  # its servo
    rmse: float  # between both, degrees
    reach: float  # how far the reference's knee moves, degrees

    @property
    def share(self) -> float:
        """The RMSE as a share of how far the knee moves; NaN where it hardly does."""
        return self.rmse / self.reach if self.reach > _STILL else math.nan

    @property
    def text(self) -> str:
        """Both, in words."""
        return f"{self.rmse:.2f} ({self.share:.1%})" if math.isfinite(self.share) else f"{self.rmse:.2f}"


@dataclass(frozen=True)
class WalkSide:
    """One of the walks."""

    label: str  # what to call it
    colour: str  # a key of `axbridge.comparison.plots.COLOURS`
    recording: Recording  # it
    # times of the reference and of this walk, s from their starts, (2, n), at which both got the same goals; between
    # them lie straight lines. None where both have one clock.
    beat: FloatArray | None = None
    leader: WalkSide | None = None  # the walk whose clock it has; None where it has its own

    @cached_property
    def span(self) -> tuple[float, float]:
        """When the walk began and ended, s on the recording's clock."""
        return walk_span(self.recording)

    @property
    def grid(self) -> FloatArray:
        """Times every 20 ms, s from the walk's start, (n,)."""
        begin, end = self.span
        return np.arange(0.0, end - begin, _GRID)

    def own(self, time: FloatArray) -> FloatArray:
        """Times of the reference (n,), s from the walk's start, as those of this walk."""
        return time if self.beat is None else np.interp(time, self.beat[0], self.beat[1])

    def shared(self, time: FloatArray) -> FloatArray:
        """Times of this walk (n,), s from its start, as those of the reference."""
        return time if self.beat is None else np.interp(time, self.beat[1], self.beat[0])

    @cached_property
    def steps(self) -> list[tuple[float, float]]:
        """When each step began and ended, s from the walk's start; of a walk without a gait its parts."""
        if self.leader is not None:
            return self.leader.steps
        begin, end = self.span
        gait = self.recording.metadata.get("gait")
        if isinstance(gait, dict) and {"steps", "period"} <= gait.keys():
            count, length = int(gait["steps"]) + 1, float(gait["period"]) / 2  # one more closes the feet
            planned, real = self._periods()
            first = max(0.0, (planned[-1] - count * length) / 2)
            edges = np.interp(first + length * np.arange(count + 1), planned, real).tolist()
            return list(pairwise(edges))
        parts: Sequence[Segment] = [part for part in self.recording.segments if part.start >= begin]
        return [(part.start - begin, min(part.end, end) - begin) for part in parts] or [(0.0, end - begin)]

    def _periods(self) -> tuple[FloatArray, FloatArray]:
        """When the walk's control periods should have ended and when they did, s from its start, (n,) each."""
        begin, end = self.span
        cycles = self.recording.cycles
        if not {"time", "requested_ms"} <= set(cycles):
            return np.array([0.0, end - begin]), np.array([0.0, end - begin])
        at = np.asarray(cycles["time"]) - begin
        walking = (at > 1e-6) & (at < end - begin + 1e-6)
        asked = np.asarray(cycles["requested_ms"])[walking] / 1e3
        return np.concatenate(([0.0], np.cumsum(asked))), np.concatenate(([0.0], at[walking]))

    def at(self, servo: str, column: str, times: FloatArray) -> FloatArray:
        """A column of a servo at times (n,) of the reference, s from the walk's start."""
        track = self.recording[servo]
        return resample(track.time, getattr(track, column), self.own(times) + self.span[0])

    @cached_property
    def power(self) -> Power:
        """See `Power`."""
        at = self.grid + self.span[0]
        found = drawn(self.recording)
        if found is None:
            volts = [resample(track.time, track.load * track.voltage, at) for track in self.recording.values()]
            mean = np.abs(np.nan_to_num(volts)).sum(axis=0) / max(1, len(self.recording))
            return Power(self.shared(self.grid), np.full(len(at), np.nan), np.zeros(0), mean)
        watt = found.mean(at, _GRID)
        joules = np.array([
            float(watt[(self.grid >= start) & (self.grid < end)].sum() * _GRID) for start, end in self.steps
        ])  # fmt: skip
        return Power(self.shared(self.grid), watt, joules, np.zeros(0))

    @cached_property
    def lags(self) -> dict[str, Lag]:
        """Delay and first-order lag of each joint behind its goals in the walk; empty where none are recorded."""
        parts = {name: track.between(*self.span) for name, track in self.recording.items()}
        try:
            return lags(replace(self.recording, tracks=parts))
        except RecordingError:  # nothing got a goal
            return {}

    @property
    def lean(self) -> tuple[FloatArray, FloatArray] | None:
        """Times (n,) of the reference, s, and roll and pitch by an inertial unit, rad, (n, 2); None without one."""
        cycles = self.recording.cycles
        if not {"imu_roll", "imu_pitch"} <= set(cycles) or np.isnan(cycles["imu_roll"]).all():
            return None
        at = cycles["time"] - self.span[0]
        walking = (at >= 0) & (at < self.span[1] - self.span[0])
        return self.shared(at[walking]), np.stack([cycles[name][walking] for name in ("imu_roll", "imu_pitch")], axis=1)

    @cached_property
    def robot(self) -> Standing | None:
        """The robot that walked, where the recording tells, and it stands on two feet."""
        try:
            return standing_robot(self.recording)
        except AxBridgeError:  # its meshes are elsewhere: the joints can be compared all the same
            return None

    @cached_property
    def footing(self) -> Footing | None:
        """How it stood, from its joints' angles; None where that is not known."""
        if self.robot is None:
            return None
        try:
            return footing(self.recording, self.robot, self.grid + self.span[0])
        except (RecordingError, UsageError):  # a joint was not recorded; nothing here knows what its motion takes
            return None

    @cached_property
    def zmp(self) -> Zmp | None:
        """Where the floor's push acted: measured where a simulation did, else by the model; None where neither is."""
        return self._measured or self.modelled_zmp

    @property
    def modelled_zmp(self) -> Zmp | None:
        """The same from the joints' angles alone."""
        if self.footing is None:
            return None
        unknown = np.full_like(self.footing.zmp, np.nan)
        return Zmp(self.shared(self.grid), self.footing.zmp, unknown, self.footing.margin, measured=False)

    @cached_property
    def _measured(self) -> Zmp | None:
        if self.robot is None or (found := measured_zmp(self.recording, self.robot)) is None:
            return None
        at = found[0] - self.span[0]
        walking = (at >= 0) & (at < self.span[1] - self.span[0])
        place, planned, margin = (part[walking] for part in (*found[1:], self.recording.cycles["zmp_margin"]))
        if np.isfinite(place[:, 0]).mean() < _FEWEST:
            return None
        return Zmp(self.shared(at[walking]), place, planned, margin, measured=True)


def is_walk(recording: Recording) -> bool:
    """Whether a recording says that it is of a walk."""
    return recording.metadata.get("experiment") == "walk"


def sides_of(comparison: Comparison, beside: Comparison | None = None) -> list[WalkSide]:
    """The walks of a comparison, the reference first; none unless all of them are walks."""
    first, second = comparison.labels
    sides = [WalkSide(first, "reference", comparison.reference), WalkSide(second, "other", comparison.other)]
    if beside is not None:
        sides.append(WalkSide(beside.labels[1], "third", beside.other))
    if first == "goal":  # a comparison with its own goals: one walk
        sides = [WalkSide(second, "other", comparison.other)]
    if not all(is_walk(side.recording) for side in sides):
        return []
    return [sides[0], *(_beside(sides[0], side) for side in sides[1:])]


def _beside(reference: WalkSide, other: WalkSide) -> WalkSide:
    """The other walk on the reference's clock."""
    found = shared_periods(reference.recording, other.recording)
    if found is None:
        return replace(other, leader=reference) if np.allclose(reference.span, other.span) else other
    return replace(other, beat=found - [[reference.span[0]], [other.span[0]]])


def knees(reference: WalkSide, other: WalkSide) -> list[Knee]:
    """How far apart the knees of two walks are, the left one first."""
    grid = reference.grid
    found = []
    for name in knee_names(reference):
        if name in other.recording:
            one, two = reference.at(name, "position", grid), other.at(name, "position", grid)
            if not np.isnan(one).all():
                found.append(Knee(name, deviation(one, two).rmse, math.degrees(float(np.nanmax(one) - np.nanmin(one)))))
    return found


def knee_names(side: WalkSide) -> list[str]:
    """Its servos that bend a knee, the left one first."""
    return sorted((name for name in side.recording if _KNEE in name), key=lambda name: not name.startswith("l"))


def zmp_apart(one: Zmp, other: Zmp) -> tuple[float, float]:
    """How far apart two zero-moment points are, ahead and to the left, m, root mean square."""
    found = []
    for axis in (0, 1):
        error = resample(other.time, other.place[:, axis], one.time) - one.place[:, axis]
        found.append(math.sqrt(float(np.nanmean(error**2))))
    return found[0], found[1]


def document(sides: Sequence[WalkSide]) -> dict[str, Any]:
    """The walks' figures as JSON: angles in degrees, lengths in m, J, W and s."""
    reference = sides[0]
    found: dict[str, Any] = {}
    for side in sides:
        power, zmp = side.power, side.zmp
        facts: dict[str, Any] = {"steps": len(side.steps)}
        if side.lags:
            facts["lag_s"] = {name: one.total for name, one in side.lags.items()}
        if len(power.joules):
            facts |= {
                "mean_power_w": float(power.watt.mean()),
                "energy_j": float(power.watt.sum() * _GRID),
                "energy_per_step_j": power.joules.tolist(),
            }
        else:
            facts["mean_load_v"] = float(power.volts.mean())
        if zmp is not None:
            facts["zmp"] = {"measured": zmp.measured, "median_margin_m": float(np.nanmedian(zmp.margin))}
        if side is not reference:
            facts["knees"] = {
                knee.name: {"rmse_deg": knee.rmse, "share_of_reach": knee.share if math.isfinite(knee.share) else None}
                for knee in knees(reference, side)
            }
            if zmp is not None and reference.zmp is not None:
                ahead, left = zmp_apart(reference.zmp, zmp)
                facts["zmp"] |= {"rms_ahead_m": ahead, "rms_left_m": left}
        found[side.label] = facts
    return found
