"""The part of a report that only walks have: knees, the zero-moment point, power, lags of the joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.page import Table, table_html
from axbridge.comparison.plots import Curve, Panel, fewer, figure_html
from axbridge.comparison.walks import (
    Power,
    WalkSide,
    Zmp,
    knee_names,
    knees,
    zmp_apart,
)

_POINTS = 1000  # of a line
_TIME = "time from the walk's start, s"


def walk_headline(sides: Sequence[WalkSide]) -> str:
    """How near knees and power of the others are to those of the first walk, in a sentence; empty of one walk."""
    if len(sides) < 2:
        return ""
    said = []
    for side in sides[1:]:
        found = knees(sides[0], side)
        parts = []
        if found:
            worst = max(found, key=lambda knee: knee.rmse)
            share = f" ({worst.share:.0%} of their travel)" if math.isfinite(worst.share) else ""
            parts.append(f"knees within {worst.rmse:.1f}° of each other{share}")
        one, other = sides[0].power, side.power
        if len(one.joules) and len(other.joules) and one.watt.any():
            more = float(other.watt.mean() / one.watt.mean() - 1)
            parts.append(f"power {abs(more):.0%} {'less' if more < 0 else 'more'}")
        if parts:
            said.append(f"{side.label} beside {sides[0].label}: {', '.join(parts)}.")
    return " ".join(said)


def walk_table(sides: Sequence[WalkSide]) -> Table:
    """The walks' figures, a column each."""
    named = "steps" if "gait" in sides[0].recording.metadata else "parts"
    rows = [
        (named, *(str(len(side.steps)) for side in sides)),
        ("it lasted, s", *(f"{side.span[1] - side.span[0]:.1f}" for side in sides)),
    ]
    reference, apart = sides[0], [{knee.name: knee for knee in knees(sides[0], side)} for side in sides[1:]]
    for name in knee_names(reference) if apart else ():
        cells = [found[name].text if name in found else "-" for found in apart]
        rows.append((f"{name}: RMSE, ° (of its reach)", "", *cells))
    powers = [side.power for side in sides]
    if any(len(power.joules) for power in powers):
        rows.append(("mean power, W", *(_mean(power.watt, 2) for power in powers)))
        rows.append(("energy of a step, J, mean", *(_mean(power.joules, 2) for power in powers)))
        if apart and len(reference.power.joules):
            first = float(reference.power.watt.mean())
            rows.append(("power against the first", "", *(_change(power, first) for power in powers[1:])))
    else:
        rows.append(("mean of load · voltage, V", *(_mean(power.volts, 3) for power in powers)))
    points = [side.zmp for side in sides]
    if any(points):
        rows.append(("ZMP", *("-" if point is None else _origin(point) for point in points)))
        rows.append(("its margin, cm, median", *(_margin(point) for point in points)))
        if apart:
            rows.append(
                ("ZMP against the first, cm, ahead / left", "", *(_apart(points[0], one) for one in points[1:]))
            )
        checked = [_checked(side) for side in sides]
        if any(checked):
            rows.append(("measured against its joints' angles, cm", *checked))
    return Table("The walk", ("", *(side.label for side in sides)), tuple(rows))


def walk_parts(sides: Sequence[WalkSide]) -> list[str]:
    """The HTML of it."""
    parts = [table_html(walk_table(sides))]
    if panels := knee_panels(sides):
        parts.append("<h2>Knee angles</h2>" + _figure(panels, "walk-knees"))
    if panels := zmp_panels(sides):
        words = (
            "As seen from the middle between the feet. What no simulation measured is worked out from the joints' "
            "recorded angles, as if the foot that stands lay flat on the floor."
        )
        drawn = _figure(panels, "walk-zmp")
        parts.append(f'<h2>Zero-moment point</h2>{drawn}<p class="lead">{escape(words)}</p>')
    if panels := _lean_panels(sides):
        drawn = _figure(panels, "walk-lean")
        parts.append(f'<h2>How the body leans</h2>{drawn}<p class="lead">By the inertial unit.</p>')
    parts.append("<h2>Power</h2>" + _figure(power_panels(sides), "walk-power"))
    if any(len(side.power.joules) for side in sides):
        parts.append(figure_html([_energy_panel(sides)], "walk-energy", axis="step"))
        parts.append(
            '<p class="lead">Electrical power U·i of all servos, by their motor models, from the goals they were '
            "sent and the load, voltage, position and speed that they reported.</p>"
        )
    if table := lag_table(sides):
        parts.append(table_html(table))
        words = "Goal to motion: a delay, and a first-order lag after it, as fitted to the walk."
        parts.append(f'<p class="lead">{escape(words)}</p>')
    return parts


def _figure(panels: Sequence[Panel], name: str) -> str:
    return figure_html(fewer(panels, _POINTS), name, axis="walk")


def lag_table(sides: Sequence[WalkSide]) -> Table | None:
    """Delay, first-order lag and their sum of each joint, ms, latest first; None where no goals are recorded."""
    found = [(side.label, side.lags) for side in sides if side.lags]
    if not found:
        return None
    first = found[0][1]
    names = sorted(first, key=lambda name: -first[name].total)
    rows = tuple(
        (
            name,
            *(
                f"{1e3 * one.delay:.0f} + {1e3 * one.lag:.0f} = {1e3 * one.total:.0f}"
                if (one := lag.get(name)) is not None
                else "-"
                for _, lag in found
            ),
        )
        for name in names
    )
    return Table("Delay + lag of each joint, ms", ("joint", *(label for label, _ in found)), rows)


def knee_panels(sides: Sequence[WalkSide]) -> list[Panel]:
    """Both knees, one below the other."""
    reference = sides[0]
    panels = []
    for name in knee_names(reference):
        grid = reference.grid
        goal = np.degrees(reference.at(name, "command", grid))
        lines = [] if np.isnan(goal).all() else [Curve(grid, goal, "goal", "command", width=4.0)]
        lines += [
            Curve(grid, np.degrees(side.at(name, "position", grid)), side.label, side.colour)
            for side in sides
            if name in side.recording
        ]
        panels.append(Panel(tuple(lines), _TIME, f"{name}, °", share=1.8, marks=_marks(sides)))
    return panels


def _marks(sides: Sequence[WalkSide]) -> tuple[tuple[float, str], ...]:
    """Where steps begin."""
    return tuple((start, f"{number}") for number, (start, _) in enumerate(sides[0].steps, 1))


def zmp_panels(sides: Sequence[WalkSide]) -> list[Panel]:
    """The zero-moment point to the left and ahead, and its margin; none where nothing tells."""
    found = [(side, side.zmp) for side in sides if side.zmp is not None]
    if not found:
        return []
    planned = next((point for _, point in found if not np.isnan(point.planned).all()), None)
    panels = []
    for title, axis in (("ZMP to the left, cm", 1), ("ZMP ahead, cm", 0)):
        lines = [] if planned is None else [
            Curve(planned.time, 100 * planned.planned[:, axis], "planned", "command", width=4.0)
        ]  # fmt: skip
        lines += [
            Curve(point.time, 100 * point.place[:, axis], _named(side, point), side.colour, width=1.3)
            for side, point in found
        ]
        panels.append(Panel(tuple(lines), _TIME, title, share=1.5, marks=_marks(sides)))
    margins = tuple(
        Curve(point.time, 100 * point.margin, _named(side, point), side.colour, width=1.3) for side, point in found
    )
    return [*panels, Panel(margins, _TIME, "margin to the soles' edges, cm")]


def _lean_panels(sides: Sequence[WalkSide]) -> list[Panel]:
    found = [(side, lean) for side in sides if (lean := side.lean) is not None]
    titles = ("roll, °", "pitch, °, positive nose down")
    return [
        Panel(
            tuple(Curve(at, np.degrees(lean[:, axis]), side.label, side.colour) for side, (at, lean) in found),
            _TIME, title, share=1.3, marks=_marks(sides),
        )
        for axis, title in enumerate(titles)
        if found
    ]  # fmt: skip


def _named(side: WalkSide, point: Zmp) -> str:
    return f"{side.label} ({_origin(point)})"


def _origin(point: Zmp) -> str:
    return "measured" if point.measured else "by its joints"


def power_panels(sides: Sequence[WalkSide]) -> list[Panel]:
    """Power over time."""
    known = any(len(side.power.joules) for side in sides)
    lines = tuple(
        Curve(side.power.time, _smooth(side.power.watt if known else side.power.volts), side.label, side.colour)
        for side in sides
        if not known or len(side.power.joules)
    )
    title = "electrical power, W" if known else "load · voltage, V"
    return [Panel(lines, _TIME, title, share=2.0, marks=_marks(sides))]


def _energy_panel(sides: Sequence[WalkSide]) -> Panel:
    curves = tuple(
        Curve(np.arange(1.0, len(joules) + 1), joules, side.label, side.colour, points=True)
        for side in sides
        if len(joules := side.power.joules)
    )
    return Panel(curves, "step", "energy of a step, J", share=1.8)


def _smooth(values: FloatArray) -> FloatArray:
    """The mean over five samples; a servo's load flickers."""
    padded = np.pad(values, 2, mode="edge")
    found: FloatArray = np.convolve(padded, np.full(5, 0.2), mode="valid")
    return found


def _mean(values: FloatArray, digits: int) -> str:
    return f"{float(values.mean()):.{digits}f}" if len(values) and not np.isnan(values).all() else "-"


def _change(power: Power, first: float) -> str:
    return f"{float(power.watt.mean()) / first - 1:+.1%}" if len(power.joules) and first else "-"


def _margin(point: Zmp | None) -> str:
    return "-" if point is None else f"{100 * float(np.nanmedian(point.margin)):.1f}"


def _apart(one: Zmp | None, other: Zmp | None) -> str:
    if one is None or other is None:
        return "-"
    ahead, left = zmp_apart(one, other)
    return f"{100 * ahead:.1f} / {100 * left:.1f}"


def _checked(side: WalkSide) -> str:
    """How far what was measured is from what the joints' angles tell."""
    modelled = side.modelled_zmp
    return _apart(modelled, side.zmp) if side.zmp is not None and side.zmp.measured else ""
