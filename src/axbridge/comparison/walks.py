"""Compare walks: knee angles, the zero-moment point, power, and energy of a step (Lima et al. 2009 and 2008).

All figures come from the servos' reports, or from a simulation's measurements if they were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.metrics import deviation, resample
from axbridge.comparison.page import Curve, Panel, Table, fewer, figure_html, table_html
from axbridge.comparison.recorded_dynamics import footing, measured_zmp, on_two_feet
from axbridge.comparison.recorded_runs import servo_of, settings_of, speed_limits, written_in
from axbridge.comparison.side_by_side import shared_periods, walk_span
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, listed, require
from axbridge.jit import jit
from axbridge.recording.provenance import rig_of
from axbridge.recording.recording import Recording, Track
from axbridge.servo.columns import Command, Joint, Param, motor_of, pack
from axbridge.servo.position_laws import loop_duty
from axbridge.servo.position_loop import control, loop_of
from axbridge.servo.steady import SteadyServo

_GRID = 0.02  # s
_LOOP_STEP = 1e-3  # s
_MIN_SAMPLES = 3  # of a servo whose loop is simulated
_KNEE = "knee"
_STILL = 2.0  # degrees: with less travel, a knee's error is not given as a share of it
_MIN_MEASURED = 0.5  # share of the walk for which a simulation must have recorded the zero-moment point
_POINTS = 1000  # of a curve
_OF_ZMP = (
    "As seen from the middle between the feet. What no simulation measured is worked out from the joints' recorded "
    "angles, as if the foot that stands lay flat on the floor."
)
_OF_POWER = (
    "Electrical power U·i of all servos, by their motor models, from the goals they were sent and the voltage, "
    "position and speed that they reported."
)


class Zmp(NamedTuple):
    """The zero-moment point relative to the middle between the feet."""

    time: FloatArray  # s from the walk's start on the reference's clock, (n,)
    place: FloatArray  # ahead and to the left, m, (n, 2)
    planned: FloatArray  # the gait's plan of it, m, (n, 2); NaN where that is not recorded
    margin: FloatArray  # distance to the nearest edge of the standing soles, m, (n,)
    origin: str  # measured by a simulation, or by the joints' angles


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
    def power(self) -> Draw | None:
        """Mean power in the 20 ms after each time of `grid`; None if unknown."""
        if (draw := power_draw(self.recording)) is None:
            return None
        energy = np.cumsum(draw.watt) * _LOOP_STEP
        edges = self.span[0] + _GRID * np.arange(len(self.grid) + 1)
        mean: FloatArray = np.diff(np.interp(edges, draw.time + _LOOP_STEP, energy)) / _GRID
        return Draw(self.grid, mean, draw.unknown)

    @cached_property
    def zmp(self) -> Zmp | None:
        """The zero-moment point: measured by a simulation, else computed from the joints' angles, else None."""
        begin, end = self.span
        with suppress(AxBridgeError):  # e.g. meshes, a joint or MuJoCo are missing
            robot = on_two_feet(rig_of(self.recording))
            measured = None if robot is None else measured_zmp(self.recording, robot)
            if measured is not None:
                walking = (measured[0] >= begin) & (measured[0] < end)
                columns = (*measured, self.recording.cycles["zmp_margin"])
                time, place, planned, margin = (column[walking] for column in columns)
                if np.isfinite(place[:, 0]).mean() >= _MIN_MEASURED:
                    return Zmp(self.shared(time - begin), place, planned, margin, "measured")
            if robot is not None:
                stood = footing(self.recording, robot, self.grid + begin)
                unknown = np.full_like(stood.zmp, np.nan)
                return Zmp(self.shared(self.grid), stood.zmp, unknown, stood.margin, "by its joints")
        return None

    @property
    def knees(self) -> list[str]:
        """Names of the knee servos, left knee first."""
        return sorted((name for name in self.recording if _KNEE in name), key=lambda name: not name.startswith("l"))


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


def document(sides: Sequence[WalkSide]) -> dict[str, Any]:
    """Return the walks' figures as JSON, by label: angles in degrees; m, J, W and s."""
    return dict(zip((side.label for side in sides), _figures(sides), strict=True))


def _figures(sides: Sequence[WalkSide]) -> list[dict[str, Any]]:
    reference, grid = sides[0], sides[0].grid
    figures = []
    for side in sides:
        facts: dict[str, Any] = {"steps": len(side.steps) - 1, "seconds": side.span[1] - side.span[0]}
        if side.power is not None:
            time, watt, unknown = side.power
            stepping = (time >= side.steps[0]) & (time < side.steps[-1])
            facts |= {
                "mean_power_w": float(watt.mean()),
                "energy_j": float(watt.sum() * _GRID),
                "energy_of_a_step_j": float(watt[stepping].sum() * _GRID) / facts["steps"],
                "power_unknown_of": unknown,
            }
        if side.zmp is not None:
            margin = float(np.nanmedian(side.zmp.margin))
            facts["zmp"] = {"measured": side.zmp.origin == "measured", "median_margin_m": margin}
        if side is not reference:
            facts["knees"] = {}
            for name in reference.knees:
                if name not in side.recording:
                    continue
                a, b = (walk.at(name, "position", grid) for walk in (reference, side))
                if not np.isnan(a).all():
                    error, travel = deviation(a, b).rmse, math.degrees(float(np.nanmax(a) - np.nanmin(a)))
                    share = error / travel if travel > _STILL else None
                    facts["knees"][name] = {"rmse_deg": error, "share_of_reach": share}
            if side.zmp is not None and reference.zmp is not None:
                for axis, key in enumerate(("rms_ahead_m", "rms_left_m")):
                    there = resample(side.zmp.time, side.zmp.place[:, axis], reference.zmp.time)
                    facts["zmp"][key] = math.sqrt(float(np.nanmean((there - reference.zmp.place[:, axis]) ** 2)))
        figures.append(facts)
    return figures


def walk_headline(sides: Sequence[WalkSide]) -> str:
    """Return the differences of knees and power from the first walk, in words; "" for a single walk."""
    if len(sides) < 2:
        return ""
    reference, *others = _figures(sides)
    sentences = []
    for side, facts in zip(sides[1:], others, strict=True):
        parts = []
        if facts["knees"]:
            worst = max(facts["knees"].values(), key=lambda knee: float(knee["rmse_deg"]))
            share = _share(worst, " ({:.0%} of their travel)")
            parts.append(f"knees within {worst['rmse_deg']:.1f}° of each other{share}")
        same_servos = facts.get("power_unknown_of") == reference.get("power_unknown_of")
        if "mean_power_w" in facts and reference.get("mean_power_w") and same_servos:
            more = facts["mean_power_w"] / reference["mean_power_w"] - 1
            parts.append(f"power {abs(more):.0%} {'less' if more < 0 else 'more'}")
        if parts:
            sentences.append(f"{side.label} beside {sides[0].label}: {', '.join(parts)}.")
    return " ".join(sentences)


def _share(knee: dict[str, float | None], text: str) -> str:
    return "" if knee["share_of_reach"] is None else text.format(knee["share_of_reach"])


_ROWS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("steps", lambda walk: f"{walk['steps']}"),
    ("it lasted, s", lambda walk: f"{walk['seconds']:.1f}"),
    ("mean power, W", lambda walk: f"{walk['mean_power_w']:.2f}"),
    ("energy of a step, J, mean", lambda walk: f"{walk['energy_of_a_step_j']:.2f}"),
    ("servos of unknown power", lambda walk: listed(walk["power_unknown_of"], 2) or "-"),
    ("ZMP", lambda walk: "measured" if walk["zmp"]["measured"] else "by its joints"),
    ("its margin, cm, median", lambda walk: f"{100 * walk['zmp']['median_margin_m']:.1f}"),
    (
        "ZMP against the first, cm, ahead / left",
        lambda walk: f"{100 * walk['zmp']['rms_ahead_m']:.1f} / {100 * walk['zmp']['rms_left_m']:.1f}",
    ),
)


def walk_table(sides: Sequence[WalkSide]) -> Table:
    """Return the walks' figures, a column for each walk."""
    figures = _figures(sides)

    def knee(name: str, walk: dict[str, Any]) -> str:
        error = walk["knees"][name]
        return f"{error['rmse_deg']:.2f}{_share(error, ' ({:.1%})')}"

    of_figures = list(_ROWS)
    if "gait" not in sides[0].recording.metadata:
        of_figures[0] = ("parts", of_figures[0][1])
    of_figures[2:2] = [(f"{name}: RMSE, ° (of its reach)", partial(knee, name)) for name in sides[0].knees]
    rows = []
    for title, text in of_figures:
        cells = []
        for walk in figures:
            try:
                cells.append(text(walk))
            except KeyError:  # not known of this walk
                cells.append("-")
        if set(cells) != {"-"}:
            rows.append((title, *cells))
    return Table("The walk", ("", *(side.label for side in sides)), tuple(rows))


def walk_parts(sides: Sequence[WalkSide]) -> list[str]:
    """Return table and figures of the walks as HTML parts."""
    reference = sides[0]
    marks = tuple((start, f"{number}") for number, start in enumerate(reference.steps[:-1].tolist(), 1))

    def panel(title: str, share: float, lines: Sequence[Curve]) -> Panel:
        return Panel(tuple(lines), "time from the walk's start, s", title, share=share, marks=marks)

    knees = []
    for name in reference.knees:
        grid = reference.grid  # curves with the same times are thinned together
        goal = np.degrees(reference.at(name, "command", grid))
        lines = [] if np.isnan(goal).all() else [Curve(grid, goal, "goal", "command", width=4.0)]
        lines += [
            Curve(grid, np.degrees(side.at(name, "position", grid)), side.label, side.colour)
            for side in sides
            if name in side.recording
        ]
        knees.append(panel(f"{name}, °", 1.8, lines))
    points = [(side, side.zmp) for side in sides if side.zmp is not None]
    plans = [point for _, point in points if not np.isnan(point.planned).all()][:1]
    zmp = []
    for title, axis in (("ZMP to the left, cm", 1), ("ZMP ahead, cm", 0)) if points else ():
        lines = [Curve(plan.time, 100 * plan.planned[:, axis], "planned", "command", width=4.0) for plan in plans]
        lines += [
            Curve(point.time, 100 * point.place[:, axis], f"{side.label} ({point.origin})", side.colour, width=1.3)
            for side, point in points
        ]
        zmp.append(panel(title, 1.5, lines))
    powers = [(side, side.power) for side in sides if side.power is not None]
    curves = [Curve(side.shared(draw.time), draw.watt, side.label, side.colour) for side, draw in powers]
    parts = [table_html(walk_table(sides))]
    for title, name, panels, words in (
        ("Knee angles", "walk-knees", knees, ""),
        ("Zero-moment point", "walk-zmp", zmp, _OF_ZMP),
        ("Power", "walk-power", [panel("electrical power, W", 2.0, curves)] if curves else [], _OF_POWER),
    ):
        if panels:
            lead = f'<p class="lead">{escape(words)}</p>' if words else ""
            parts.append(f"<h2>{title}</h2>{figure_html(fewer(panels, _POINTS), name, axis='walk')}{lead}")
    return parts


# ---- Power between samples: one reported load in a control period says little about the mean. So the model of a
# servo's loop (`axbridge.servo.position_loop.control`) runs along the measured motion, every millisecond. Its duty, the
# speed and the supply voltage give U·i. Reported loads are not used.


class Draw(NamedTuple):
    """Electrical power of a robot."""

    time: FloatArray  # s, (n,)
    watt: FloatArray  # sum of the servos with known power, W, (n,)
    unknown: list[str]  # the other servos


def power_draw(recording: Recording) -> Draw | None:
    """Return the power of all servos, every millisecond; None if no servo has a known one.

    A servo without a model has its recorded power, interpolated.
    """
    tracks = [track for track in recording.values() if len(track) >= _MIN_SAMPLES]
    if not tracks:
        return None
    rig: Rig | None = None
    with suppress(AxBridgeError):
        rig = rig_of(recording)
    time = np.arange(min(track.time[0] for track in tracks), max(track.time[-1] for track in tracks), _LOOP_STEP)
    powers = {}
    for track in tracks:
        power = None if rig is None else _modelled(recording, rig, track, time)
        power = resample(track.time, track.power, time, beyond=0.0) if power is None else power
        if not np.isnan(power).any():
            powers[track.name] = power
    servos = recording if rig is None else [servo.name for servo in rig.servos]
    unknown = [name for name in servos if name not in powers]
    return Draw(time, np.sum(list(powers.values()), axis=0), unknown) if powers else None


def _modelled(recording: Recording, rig: Rig, track: Track, time: FloatArray) -> FloatArray | None:
    """Return the power of a servo, W, (n,), every millisecond; None without model or goals."""
    table = (recording.metadata.get("models") or {}).get(track.name, {})
    known = all(np.isfinite(column).any() for column in (track.command, track.position))
    if not known or track.name not in rig.specs or not np.isnan(track.duty).all():
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
        control(command, joint, loop, motor, reading, angle, speed, supply, _LOOP_STEP, params[Param.NOISE])
        share = (joint[Joint.VOLTS] - joint[Joint.FEEDBACK] * speed) / supply if supply > 0.0 else 0.0
        duty[k] = loop_duty(min(max(share, -1.0), 1.0), params[Param.DEAD_DUTY])
