"""What a real servo's difference from its simulated twin means: arithmetic alone.

Both get the same goals, so what they do differently has a cause in the real one, or in its model. A cause is named when
it has been seen for half a second on end, and again only after it was gone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from axbridge.bus.cycle import Cause
from axbridge.errors import ErrorFlag
from axbridge.robot.state import ServoState

__all__ = ["Residuals"]

_WINDOW = 0.5  # s that a cause must be seen on end
_FEWEST = 8  # samples in the window, below which nothing is said
_GONE = 1.0  # s without it until it counts as gone
_OFF = math.radians(4)  # rad: this far from the twin, something is wrong
_STILL = math.radians(1.5)  # rad: a joint that has moved less in the window stands
_PUSHING = 0.25  # load: a servo that pushes, and not only holds
_MORE = 0.006  # load beyond the twin's, as a mean over the window: six counts of Present Load
_SHARE = 0.2  # and this share of it
_WEAK = 1.0  # V below the twin's supply
_HOT = 65.0  # °C: an AX-12 switches itself off at 70
_STALE = 3.0  # s of wrong motion without another cause


class _Row(NamedTuple):
    time: float
    goal: float
    position: float
    twin: float
    load: float
    twin_load: float
    voltage: float
    twin_voltage: float


class _Watched:
    """One servo's last moments."""

    def __init__(self) -> None:
        self.rows: deque[_Row] = deque()
        self.seen: dict[Cause, float] = {}  # when a cause was seen last
        self.sampled = math.nan  # time of the latest sample
        self.wrong_since = math.nan  # since when it has been off the twin without another cause

    def restart(self) -> None:
        self.rows.clear()
        self.wrong_since = math.nan


class Residuals:
    """Watches servos beside their twins.

    Args:
        names: The servos.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._watched = {name: _Watched() for name in names}

    def look(
        self,
        time: float,
        states: Mapping[str, ServoState],
        twins: Mapping[str, ServoState],
        goals: Mapping[str, float],
    ) -> list[tuple[Cause, str]]:
        """Take a sample of each servo in; what is newly wrong, with the servo.

        Args:
            time: S.
            states: What the servos measure.
            twins: What their models say at that moment.
            goals: Position goals, rad; NaN for a servo that is limp or not under position control.
        """
        found: list[tuple[Cause, str]] = []
        for name, watched in self._watched.items():
            state, twin, goal = states[name], twins.get(name), goals[name]
            if watched.sampled == state.time:
                continue  # it did not answer: the old sample says nothing about now
            watched.sampled = state.time
            causes: set[Cause] = set()
            if state.temperature >= _HOT or ErrorFlag.OVERHEATING & state.errors:
                causes.add("overheating")
            if twin is None or math.isnan(goal + state.position) or ErrorFlag.OVERLOAD & state.errors:
                watched.restart()  # limp, or shut down: hands and gravity move it, and no twin knows them
            else:
                row = _Row(
                    time, goal, state.position, twin.position, state.load, twin.load, state.voltage, twin.voltage
                )
                causes |= _causes(watched, row)
            for cause in causes:
                if time - watched.seen.get(cause, -math.inf) > _GONE:
                    found.append((cause, name))
                watched.seen[cause] = time
        return found


def _causes(watched: _Watched, row: _Row) -> set[Cause]:
    rows = watched.rows
    if rows and row.time - rows[-1].time > _WINDOW:
        watched.restart()
    rows.append(row)
    while row.time - rows[0].time > _WINDOW:
        rows.popleft()
    if row.time - rows[0].time < 0.8 * _WINDOW or len(rows) < _FEWEST:
        return set()
    causes: set[Cause] = set()
    count = len(rows)
    off = sum(one.position - one.twin for one in rows) / count
    load, twin_load = sum(one.load for one in rows) / count, sum(one.twin_load for one in rows) / count
    moved = _spread(one.position for one in rows)
    twin_moved, goal_moved = _spread(one.twin for one in rows), _spread(one.goal for one in rows)
    far = min(abs(one.position - one.twin) for one in rows) > _OFF
    if sum(one.twin_voltage - one.voltage for one in rows) / count > _WEAK:
        causes.add("weak supply")
    if far and moved < _STILL and abs(load) > _PUSHING and min(abs(one.goal - one.position) for one in rows) > _OFF:
        causes.add("blocked")
    elif (
        goal_moved < _STILL and twin_moved < _STILL and moved > 2 * _STILL and abs(rows[-1].position - row.twin) > _OFF
    ):
        causes.add("slipping")
    elif goal_moved < _STILL and twin_moved < _STILL and moved < _STILL and _is_settled(rows):  # compare what they hold
        if "weak supply" in causes:
            return causes  # the servo makes up for it with more duty
        more = abs(load) - abs(twin_load) if load * twin_load > 0 else 0.0
        if abs(more) > max(_MORE, _SHARE * abs(twin_load)):
            causes.add("extra load" if more > 0 else "missing load")
    if causes or abs(off) < _OFF:
        watched.wrong_since = math.nan
    elif math.isnan(watched.wrong_since):
        watched.wrong_since = row.time
    elif row.time - watched.wrong_since > _STALE:
        causes.add("stale model")
    return causes


def _is_settled(rows: Collection[_Row]) -> bool:
    """Whether neither load changes any more: on the way to rest a moment's delay would look like another load."""
    return max(_spread(one.load for one in rows), _spread(one.twin_load for one in rows)) < _MORE


def _spread(values: Iterable[float]) -> float:
    found = list(values)
    return max(found) - min(found)
