"""A recording, seen again: the body moves as it was measured, beside it the ghost of a second recording."""

from __future__ import annotations

import math
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import ErrorFlag, RecordingError, RigError
from axbridge.recording.recording import Recording, Track
from axbridge.state import ServoState
from axbridge.view.history import without_gaps
from axbridge.view.scene import RobotScene
from axbridge.view.snapshot import Picture

if TYPE_CHECKING:
    import viser


_EVERY = 0.04  # s between pictures
_PLOT_EVERY = 0.1
_AROUND = 5.0  # s of curve before and after the moment that is shown
_POINTS = 400
_PACES = {f"{speed:g}": speed for speed in (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)}
_DEGREES = 180 / math.pi
_INK = ("#1c7ed6", "#e8590c", "#2b8a3e")


class Replay:
    """The page of a recording.

    Args:
        server: The web server; owned from now on.
        rig: The robot.
        first: Is drawn solid.
        second: Is drawn as a ghost, from the same start on; None = none.

    Attributes:
        time: What is shown, s from the start.
        playing: Whether it goes on.
        length: S.
    """

    def __init__(self, server: viser.ViserServer, rig: Rig, first: Recording, second: Recording | None) -> None:
        self._server, self._rig = server, rig
        self._tracks = {servo.name: first.tracks[servo.name] for servo in rig.servos if servo.name in first.tracks}
        if not any(len(track) for track in self._tracks.values()):
            raise RecordingError(first.path, f"holds nothing of rig {rig.name}", "give the rig it was made with: --rig")
        self._ghosts = (
            {} if second is None else {name: second.tracks[name] for name in self._tracks if name in second.tracks}
        )
        self._start, self.length = first.start, max(first.end - first.start, 0.01)
        self._ghost_start = 0.0 if second is None else second.start
        self.time = 0.0
        self.playing = True
        self._pace = 1.0
        if rig.world is None:
            raise RigError(rig.path, "world", "this rig has no body to show", 'add [world] urdf = "…"')
        self._scene = RobotScene(server, rig, rig.tree(), rig.shapes("visual"), ghost=second is not None)
        self._build(first, second)
        self._plotted = -math.inf

    def _build(self, first: Recording, second: Recording | None) -> None:
        gui = self._server.gui
        gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(30, 96, 190))
        words = first.path.name + (f", ghost: {second.path.name}" if second is not None else "")
        gui.add_markdown(f"**{words}**")
        if first.flaw:
            gui.add_markdown(f"{first.path.name} {first.flaw}")
        self._button = gui.add_button("Pause")
        self._button.on_click(lambda _: self._toggle())
        self._slider = gui.add_slider("time, s", 0.0, round(self.length, 2), 0.01, 0.0)
        self._slider.on_update(self._scrub)
        pace = gui.add_dropdown("pace", tuple(_PACES), initial_value="1")
        pace.on_update(lambda event: setattr(self, "_pace", _PACES.get(event.target.value, 1.0)))
        self._again = gui.add_checkbox("again and again", initial_value=True)
        self._scene.add_choices()
        gui.main_panel.dock_right()
        panel = gui.add_panel()
        with panel.add_tab("Curves"):
            self._servo = gui.add_dropdown("servo", tuple(self._tracks))
            self._servo.on_update(lambda _: setattr(self, "_plotted", -math.inf))
            kinds = ("goal", "measured", "ghost") if self._ghosts else ("goal", "measured")
            self._angle = self._plot("position, °; 0 is now", kinds)
            title, what = ("residual", "ghost") if self._ghosts else ("tracking error", "goal")
            self._rest = self._plot(f"{title}, °", (f"measured - {what}",))
            self._load = self._plot("load, %", ("load",))
        panel.dock_left()
        panel.set_width(330)

    def _plot(self, title: str, curves: tuple[str, ...]) -> Any:
        grid = np.linspace(-_AROUND, _AROUND, 2)
        lines = ({"label": name, "stroke": _INK[place], "width": 1.5} for place, name in enumerate(curves))
        return self._server.gui.add_uplot(
            (grid, *(np.full(2, np.nan) for _ in curves), np.zeros(2)),
            (
                {"label": "s"},
                *lines,
                {"label": "now", "stroke": "#888", "width": 1, "points": {"show": True, "size": 7}, "auto": False},
            ),
            title=title,
            scales={"x": {"time": False, "range": (-_AROUND, _AROUND)}},
            axes=({"size": 28}, {"size": 44}),
            legend={"show": len(curves) > 1},
            height=170,
        )

    def _toggle(self) -> None:
        if not self.playing and self.time >= self.length:
            self.time = 0.0
        self.playing = not self.playing

    def _scrub(self, event: Any) -> None:
        if event.client is not None and 0 <= event.target.value <= self.length:
            self.time, self.playing = float(event.target.value), False

    def run(self, seconds: float = math.inf) -> None:
        """Play, for so many seconds of real time."""
        from time import sleep

        begun = last = monotonic()
        while monotonic() - begun < seconds:
            now = monotonic()
            if self.playing:
                self.time += (now - last) * self._pace
            last = now
            if self.time > self.length:
                self.time = self.time % self.length if self._again.value else self.length
                self.playing &= self._again.value
            self.show()
            sleep(max(0.0, _EVERY - (monotonic() - now)))

    def show(self) -> None:
        """Draw the moment."""
        with self._server.atomic():
            self.show_body()
            label = "Pause" if self.playing else "Play"
            if self._button.label != label:
                self._button.label = label
            if abs(self._slider.value - self.time) > 0.03:
                self._slider.value = min(round(self.time, 2), self._slider.max)
        if abs(self.time - self._plotted) > _PLOT_EVERY * self._pace:
            self._plotted = self.time
            self._draw_curves()

    def show_body(self) -> None:
        """Draw the body at the moment, and no curves."""
        self._scene.show(self._picture())

    def _picture(self) -> Picture:
        at = self._start + self.time
        states, goals, on = {}, {}, {}
        for name, track in self._tracks.items():
            row = max(int(np.searchsorted(track.time, at, side="right")) - 1, 0)
            states[name] = ServoState(
                at, _value(track, track.position, at), _at(track.velocity, row), _at(track.torque, row),
                _at(track.load, row), _at(track.voltage, row), _at(track.temperature, row), ErrorFlag(0),
            )  # fmt: skip
            goals[name], on[name] = _at(track.command, row), _at(track.torque_enabled, row) > 0
        beside = self._ghost_start + self.time
        ghost = {name: _value(track, track.position, beside) for name, track in self._ghosts.items()}
        return Picture(self.time, states, goals, on, None, ghost, {}, (), 0.0, 0.0, 0, 0.0, {})

    def _draw_curves(self) -> None:
        name = self._servo.value
        if name not in self._tracks:
            return  # a client of somebody's own may ask for anything
        track, ghost = self._tracks[name], self._ghosts.get(name)
        grid = np.linspace(-_AROUND, _AROUND, _POINTS + 1)
        at = self._start + self.time + grid
        measured = (track.time[0] <= at) & (at <= track.time[-1]) if len(track) else np.zeros(len(at), dtype=bool)
        grid, at = grid[measured], at[measured]
        if not len(grid):
            return
        position, goal, load = (np.interp(at, track.time, one) for one in (track.position, track.command, track.load))
        goal = without_gaps(goal, position)
        curves = [goal, position]
        other = goal
        if self._ghosts:
            other = np.full_like(grid, np.nan)
            if ghost is not None and len(ghost):
                other = np.interp(self._ghost_start + self.time + grid, ghost.time, ghost.position)
            curves.append(without_gaps(other, position))
        rest = position - other
        for plot, columns in (
            (self._angle, [_DEGREES * curve for curve in curves]),
            (self._rest, [_DEGREES * rest]),
            (self._load, [100 * load]),
        ):
            here, now = np.full_like(grid, np.nan), int(np.argmin(np.abs(grid)))
            here[now] = columns[min(1, len(columns) - 1)][now]  # a point on the curve: this moment
            plot.data = (grid, *columns, here)


def _at(column: FloatArray, row: int) -> float:
    return float(column[row]) if len(column) else math.nan


def _value(track: Track, column: FloatArray, at: float) -> float:
    return float(np.interp(at, track.time, column)) if len(track) else math.nan
