"""Compare walks: knee angles, the zero-moment point, power, and energy of a step (Lima et al. 2009 and 2008).

All figures come from the servos' reports, or from a simulation's measurements if they were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.current_draw import power_draw
from axbridge.comparison.metrics import deviation, resample
from axbridge.comparison.page import Curve, Panel, Table, fewer, figure_html, table_html
from axbridge.comparison.recorded_dynamics import Footing, Standing, footing, measured_zmp, standing_robot
from axbridge.comparison.side_by_side import shared_periods, walk_span
from axbridge.errors import AxBridgeError, RecordingError, UnsupportedOperation, UsageError
from axbridge.recording.recording import Recording

_GRID = 0.02  # s
_KNEE = "knee"
_STILL = 2.0  # degrees: with less travel, a knee's error is not given as a share of it
_MIN_MEASURED = 0.5  # share of the walk for which a simulation must have recorded the zero-moment point
_POINTS = 1000  # of a curve
_OF_ZMP = (
    "As seen from the middle between the feet. What no simulation measured is worked out from the joints' recorded "
    "angles, as if the foot that stands lay flat on the floor."
)
_OF_POWER = (
    "Electrical power U·i of all servos, by their motor models, from the goals they were sent and the load, voltage, "
    "position and speed that they reported."
)


class Power(NamedTuple):
    """Sum of the electrical power of all servos."""

    time: FloatArray  # s from the walk's start on the reference's clock, (n,)
    watt: FloatArray  # mean of the 20 ms after each time, W, (n,)
    step: float  # mean energy of a step, J


class Zmp(NamedTuple):
    """The zero-moment point relative to the middle between the feet."""

    time: FloatArray  # s from the walk's start on the reference's clock, (n,)
    place: FloatArray  # ahead and to the left, m, (n, 2)
    planned: FloatArray  # the gait's plan of it, m, (n, 2); NaN where that is not recorded
    margin: FloatArray  # distance to the nearest edge of the standing soles, m, (n,)
    measured: bool  # whether a simulation measured it; else it is computed from the joints' angles


class Knee(NamedTuple):
    """The error of one knee between two walks."""

    name: str  # its servo
    rmse: float  # degrees
    reach: float  # travel of the reference's knee, degrees

    @property
    def share(self) -> float:
        """The RMSE as a share of the knee's travel; NaN when the knee hardly moves."""
        return self.rmse / self.reach if self.reach > _STILL else math.nan


@dataclass(frozen=True)
class WalkSide:
    """One of the compared walks."""

    label: str  # its name in tables and figures
    colour: str  # a key of `axbridge.comparison.page.COLOURS`
    recording: Recording
    # Times of the reference and of this walk, s from their starts, (2, n), at which both got the same goals; times
    # between them are interpolated. None if both have one clock.
    beat: FloatArray | None = None

    @cached_property
    def span(self) -> tuple[float, float]:
        """Begin and end of the walk, s on the recording's clock."""
        return walk_span(self.recording)

    @property
    def grid(self) -> FloatArray:
        """Times every 20 ms, s from the walk's start, (n,)."""
        begin, end = self.span
        return np.arange(0.0, end - begin, _GRID)

    def shared(self, time: FloatArray) -> FloatArray:
        """Return times of the reference, s from its start, for times (n,) of this walk, s from its start."""
        return time if self.beat is None else np.interp(time, self.beat[1], self.beat[0])

    @cached_property
    def steps(self) -> FloatArray:
        """Start of each step and end of the last, s from the walk's start; without a gait, of the segments."""
        begin, end = self.span
        gait, cycles = self.recording.metadata.get("gait"), self.recording.cycles
        if isinstance(gait, dict) and {"steps", "period"} <= gait.keys():
            count, length = int(gait["steps"]) + 1, float(gait["period"]) / 2  # the last step closes the feet
            planned, edges = end - begin, length * np.arange(count + 1.0)
            if {"time", "requested_ms"} <= set(cycles):  # control periods may have been late
                walking = (cycles["time"] > begin + 1e-6) & (cycles["time"] < end + 1e-6)
                planned = float(np.sum(cycles["requested_ms"][walking])) / 1e3 or planned
            edges += max(0.0, (planned - count * length) / 2)
            return edges * ((end - begin) / planned)
        starts = [part.start - begin for part in self.recording.segments if part.start >= begin]
        return np.array([*(starts or [0.0]), end - begin])

    def at(self, servo: str, column: str, times: FloatArray) -> FloatArray:
        """Return a column of a servo at times (n,) of the reference, s from the walk's start."""
        track = self.recording[servo]
        own = times if self.beat is None else np.interp(times, self.beat[0], self.beat[1])
        return resample(track.time, getattr(track, column), own + self.span[0])

    @cached_property
    def power(self) -> Power | None:
        """Power of all servos; None if no motor model is known."""
        draw = power_draw(self.recording)
        if draw is None:
            return None
        watt = draw.mean(self.grid + self.span[0], _GRID)
        stepping = (self.grid >= self.steps[0]) & (self.grid < self.steps[-1])
        joules = float(watt[stepping].sum() * _GRID)
        return Power(self.shared(self.grid), watt, joules / (len(self.steps) - 1))

    @cached_property
    def robot(self) -> Standing | None:
        """The robot that walked; None if the recording has no robot that stands on two feet."""
        try:
            return standing_robot(self.recording)
        except AxBridgeError:  # e.g. missing meshes: joints can still be compared
            return None

    @cached_property
    def footing(self) -> Footing | None:
        """Feet and zero-moment point, computed from the joints' angles; None if that is impossible."""
        if self.robot is None:
            return None
        try:
            return footing(self.recording, self.robot, self.grid + self.span[0])
        except (RecordingError, UsageError, UnsupportedOperation):  # a joint was not recorded, or MuJoCo is missing
            return None

    @cached_property
    def zmp(self) -> Zmp | None:
        """The zero-moment point: measured by a simulation, else computed from the joints' angles, else None."""
        measured = None if self.robot is None else measured_zmp(self.recording, self.robot)
        if measured is not None:
            at = measured[0] - self.span[0]
            walking = (at >= 0) & (at < self.span[1] - self.span[0])
            place, planned, margin = (part[walking] for part in (*measured[1:], self.recording.cycles["zmp_margin"]))
            if np.isfinite(place[:, 0]).mean() >= _MIN_MEASURED:
                return Zmp(self.shared(at[walking]), place, planned, margin, measured=True)
        if self.footing is None:
            return None
        unknown = np.full_like(self.footing.zmp, np.nan)
        return Zmp(self.shared(self.grid), self.footing.zmp, unknown, self.footing.margin, measured=False)


def is_walk(recording: Recording) -> bool:
    """Return whether a recording's experiment is a walk."""
    return recording.metadata.get("experiment") == "walk"


def sides_of(comparison: Comparison, beside: Comparison | None = None) -> list[WalkSide]:
    """Return the walks of a comparison, the reference first; empty unless all recordings are walks."""
    first, second = comparison.labels
    sides = [WalkSide(second, "other", comparison.other)]
    if first != "goal":  # else a comparison with its own goals: one walk
        sides.insert(0, WalkSide(first, "reference", comparison.reference))
        sides += [] if beside is None else [WalkSide(beside.labels[1], "third", beside.other)]
    if not all(is_walk(side.recording) for side in sides):
        return []
    for place, side in enumerate(sides[1:], 1):  # map to the reference's clock
        beats = shared_periods(sides[0].recording, side.recording)
        if beats is not None:
            sides[place] = replace(side, beat=beats - [[sides[0].span[0]], [side.span[0]]])
    return sides


def knees(reference: WalkSide, other: WalkSide) -> list[Knee]:
    """Return the errors of the knees between two walks, left knee first."""
    grid = reference.grid
    rows = []
    for name in knee_names(reference):
        if name in other.recording:
            a, b = reference.at(name, "position", grid), other.at(name, "position", grid)
            if not np.isnan(a).all():
                rows.append(Knee(name, deviation(a, b).rmse, math.degrees(float(np.nanmax(a) - np.nanmin(a)))))
    return rows


def knee_names(side: WalkSide) -> list[str]:
    """Return the names of the knee servos, left knee first."""
    return sorted((name for name in side.recording if _KNEE in name), key=lambda name: not name.startswith("l"))


def zmp_apart(first: Zmp, other: Zmp) -> tuple[float, float]:
    """Return the RMS difference of two zero-moment points, ahead and to the left, m."""
    there = (resample(other.time, place, first.time) for place in other.place.T)
    ahead, left = (float(np.nanmean((a - b) ** 2)) for a, b in zip(there, first.place.T, strict=True))
    return math.sqrt(ahead), math.sqrt(left)


def document(sides: Sequence[WalkSide]) -> dict[str, Any]:
    """Return the walks' figures as JSON: angles in degrees; m, J, W and s."""
    reference, document = sides[0], dict[str, Any]()
    for side in sides:
        power, zmp = side.power, side.zmp
        facts: dict[str, Any] = {"steps": len(side.steps) - 1}
        if power is not None:
            facts |= {
                "mean_power_w": float(power.watt.mean()),
                "energy_j": float(power.watt.sum() * _GRID),
                "energy_of_a_step_j": power.step,
            }
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
        document[side.label] = facts
    return document


def walk_headline(sides: Sequence[WalkSide]) -> str:
    """Return the differences of knees and power from the first walk, in words; "" for a single walk."""
    if len(sides) < 2:
        return ""
    sentences = []
    for side in sides[1:]:
        parts = []
        if worst := max(knees(sides[0], side), key=lambda knee: knee.rmse, default=None):
            share = _share(worst, " ({:.0%} of their travel)")
            parts.append(f"knees within {worst.rmse:.1f}° of each other{share}")
        first, other = sides[0].power, side.power
        if first is not None and other is not None and first.watt.any():
            more = float(other.watt.mean() / first.watt.mean() - 1)
            parts.append(f"power {abs(more):.0%} {'less' if more < 0 else 'more'}")
        if parts:
            sentences.append(f"{side.label} beside {sides[0].label}: {', '.join(parts)}.")
    return " ".join(sentences)


def _share(knee: Knee, text: str) -> str:
    return text.format(knee.share) if math.isfinite(knee.share) else ""


def walk_table(sides: Sequence[WalkSide]) -> Table:
    """Return the walks' figures, a column for each walk."""
    reference, others = sides[0], sides[1:]
    powers, points = [side.power for side in sides], [side.zmp for side in sides]
    rows: list[tuple[str, ...]] = []

    def add(name: str, values: Sequence[Any], text: Callable[[Any], str], *before: str) -> None:
        rows.append((name, *before, *("-" if value is None else text(value) for value in values)))

    add("steps" if "gait" in reference.recording.metadata else "parts", sides, lambda side: str(len(side.steps) - 1))
    add("it lasted, s", sides, lambda side: f"{side.span[1] - side.span[0]:.1f}")
    knees_of = [{knee.name: knee for knee in knees(reference, side)} for side in others]
    for name in knee_names(reference) if others else ():
        pairs = [of_side.get(name) for of_side in knees_of]
        add(f"{name}: RMSE, ° (of its reach)", pairs, lambda knee: f"{knee.rmse:.2f}{_share(knee, ' ({:.1%})')}", "")
    if any(powers):
        add("mean power, W", powers, lambda power: f"{power.watt.mean():.2f}")
        add("energy of a step, J, mean", powers, lambda power: f"{power.step:.2f}")
    if any(points):
        add("ZMP", points, _origin)
        add("its margin, cm, median", points, lambda point: f"{100 * float(np.nanmedian(point.margin)):.1f}")
        if others:
            apart = [None if points[0] is None or zmp is None else zmp_apart(points[0], zmp) for zmp in points[1:]]
            in_cm = "{:.1f} / {:.1f}".format
            add("ZMP against the first, cm, ahead / left", apart, lambda off: in_cm(100 * off[0], 100 * off[1]), "")
    return Table("The walk", ("", *(side.label for side in sides)), tuple(rows))


def walk_parts(sides: Sequence[WalkSide]) -> list[str]:
    """Return table and figures of the walks as HTML parts."""
    parts = [table_html(walk_table(sides))]
    for title, name, panels, words in (
        ("Knee angles", "walk-knees", knee_panels(sides), ""),
        ("Zero-moment point", "walk-zmp", zmp_panels(sides), _OF_ZMP),
        ("Power", "walk-power", power_panels(sides), _OF_POWER),
    ):
        if panels:
            lead = f'<p class="lead">{escape(words)}</p>' if words else ""
            parts.append(f"<h2>{title}</h2>{figure_html(fewer(panels, _POINTS), name, axis='walk')}{lead}")
    return parts


def _panel(sides: Sequence[WalkSide], lines: Sequence[Curve], y: str, share: float) -> Panel:
    """Return a panel over the walk's time, marked with the numbers of the reference's steps."""
    marks = tuple((start, f"{number}") for number, start in enumerate(sides[0].steps[:-1].tolist(), 1))
    return Panel(tuple(lines), "time from the walk's start, s", y, share=share, marks=marks)


def knee_panels(sides: Sequence[WalkSide]) -> list[Panel]:
    """Return a panel for each knee."""
    panels = []
    for name in knee_names(sides[0]):
        grid = sides[0].grid  # one for each panel, as curves with the same times are thinned together
        goal = np.degrees(sides[0].at(name, "command", grid))
        lines = [] if np.isnan(goal).all() else [Curve(grid, goal, "goal", "command", width=4.0)]
        lines += [
            Curve(grid, np.degrees(side.at(name, "position", grid)), side.label, side.colour)
            for side in sides
            if name in side.recording
        ]
        panels.append(_panel(sides, lines, f"{name}, °", 1.8))
    return panels


def zmp_panels(sides: Sequence[WalkSide]) -> list[Panel]:
    """Return panels of the zero-moment point to the left and ahead; empty if it is unknown."""
    with_zmp = [(side, side.zmp) for side in sides if side.zmp is not None]
    planned = [point for _, point in with_zmp if not np.isnan(point.planned).all()][:1]
    panels = []
    for title, axis in (("ZMP to the left, cm", 1), ("ZMP ahead, cm", 0)) if with_zmp else ():
        lines = [Curve(plan.time, 100 * plan.planned[:, axis], "planned", "command", width=4.0) for plan in planned]
        lines += [
            Curve(point.time, 100 * point.place[:, axis], f"{side.label} ({_origin(point)})", side.colour, width=1.3)
            for side, point in with_zmp
        ]
        panels.append(_panel(sides, lines, title, 1.5))
    return panels


def _origin(point: Zmp) -> str:
    return "measured" if point.measured else "by its joints"


def power_panels(sides: Sequence[WalkSide]) -> list[Panel]:
    """Return a panel of the power over time; empty if no motor model is known."""
    powers = [(side, side.power) for side in sides if side.power is not None]
    lines = [Curve(power.time, _smooth(power.watt), side.label, side.colour) for side, power in powers]
    return [_panel(sides, lines, "electrical power, W", 2.0)] if lines else []


def _smooth(values: FloatArray) -> FloatArray:
    """Return the moving mean over five samples, because a servo's load is noisy."""
    padded = np.pad(values, 2, mode="edge")
    return np.convolve(padded, np.full(5, 0.2), mode="valid")
