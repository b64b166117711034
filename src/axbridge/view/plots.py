"""Curves of the last minutes, of the servos that somebody chose."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.view.history import History, without_gaps

if TYPE_CHECKING:
    import viser


_EVERY = 0.2  # s between updates of the curves
_POINTS = 500  # of a curve at most
_SPANS = {"30 s": 30.0, "2 min": 120.0, "10 min": 600.0}
_DEGREES = 180 / math.pi
_INK = ("#1c7ed6", "#e8590c", "#2b8a3e", "#9c36b5")


class Plots:
    """A panel with the curves of one servo and of the bus.

    Args:
        server: The page's.
        history: What was measured.
        names: The servos.
        ghost: Whether there is a simulation beside the robot.
    """

    def __init__(self, server: viser.ViserServer, history: History, names: Sequence[str], *, ghost: bool) -> None:
        self._history, self._names, self._ghost = history, frozenset(names), ghost
        self._due = 0.0
        gui = server.gui
        panel = gui.add_panel()
        with panel.add_tab("Curves"):
            self._servo = gui.add_dropdown("servo", tuple(names))
            self._span = gui.add_dropdown("time", tuple(_SPANS))
            kinds = ("goal", "measured", "simulated") if ghost else ("goal", "measured")
            self._angle = _plot(gui, "position, °", kinds)
            title, what = ("residual", "simulated") if ghost else ("tracking error", "goal")
            self._rest = _plot(gui, f"{title}, °", (f"measured - {what}",))
            self._load = _plot(gui, "load, %", ("load",))
            self._supply = _plot(gui, "supply, V", ("supply",))
            self._heat = _plot(gui, "temperature, °C", ("temperature",))
        with panel.add_tab("Bus"):
            self._rate = _plot(gui, "steps a second", ("rate",))
            self._cycle = _plot(gui, "a bus cycle takes, ms", ("median",))
            self._lost = _plot(gui, "packets lost, damaged, late", ("sum",))
        panel.dock_left()
        panel.set_width(330)

    def refresh(self) -> None:
        """Send the curves; five times a second at most."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _EVERY
        span, servo = _SPANS.get(self._span.value), self._servo.value
        if span is None or servo not in self._names:
            return  # a client of somebody's own may ask for anything
        wanted = ("goal", "position", "ghost", "load", "voltage", "temperature")
        at, (goal, position, ghost, load, voltage, heat) = self._history.of(servo, wanted, span, _POINTS)
        if len(at) < 2:
            return
        goal, ghost = without_gaps(goal, position), without_gaps(ghost, position)
        against = ghost if self._ghost else goal
        curves = [goal, position, ghost] if self._ghost else [goal, position]
        self._angle.data = _data(at, *(_DEGREES * curve for curve in curves))
        self._rest.data = _data(at, _DEGREES * (position - against))
        self._load.data = _data(at, 100 * load)
        self._supply.data = _data(at, voltage)
        self._heat.data = _data(at, heat)
        at, (rate, cycle, lost) = self._history.of_bus(span, _POINTS)
        for plot, curve in ((self._rate, rate), (self._cycle, cycle), (self._lost, lost)):
            plot.data = _data(at, curve)


def _data(*columns: FloatArray) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(column, dtype=float) for column in columns)


def _plot(gui: Any, title: str, curves: Sequence[str]) -> Any:
    empty = np.array([-1.0, 0.0])
    return gui.add_uplot(
        (empty, *(np.array([math.nan, math.nan]) for _ in curves)),
        ({"label": "s"}, *({"label": name, "stroke": _INK[place], "width": 1.5} for place, name in enumerate(curves))),
        title=title,
        scales={"x": {"time": False, "auto": True}},
        axes=({"size": 28}, {"size": 44}),
        legend={"show": len(curves) > 1},
        height=150,
    )
