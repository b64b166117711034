"""What a real servo's difference from its simulated twin means: arithmetic alone.

Both get the same goals, so what they do differently has a cause in the real one, or in its model. A cause is named when
it has been seen for half a second on end, and again only after it was gone. How much difference is too much depends on
how well the model predicts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from axbridge.bus.cycle import Cause
from axbridge.config.model import ServoModel
from axbridge.errors import ErrorFlag
from axbridge.robot.state import ServoState

__all__ = ["REMEDIES", "Allowance", "Residuals", "allowance"]

REMEDIES: Mapping[Cause, str] = {
    "blocked": "free the joint",
    "slipping": "look at horn, screws and gears, or it was a hand",
    "extra load": "look what it carries, or weigh it for the rig",
    "missing load": "look what it has lost, or weigh it for the rig",
    "weak supply": "charge the battery, or say supply_voltage in the rig",
    "overheating": "let it rest",
    "stale model": "identify the servo again",
}

_WINDOW = 0.5  # s that a cause must be seen on end
_FEWEST = 8  # samples in the window, below which nothing is said
_GONE = 1.0  # s without it until it counts as gone
_STILL = math.radians(1.5)  # rad: a joint that has moved less in the window stands
_PUSHING = 0.25  # load: a servo that pushes, and not only holds
_MORE = 0.006  # load beyond the twin's, as a mean over the window: six counts of Present Load
_WEAK = 1.0  # V below the twin's supply
_HOT = 65.0  # °C: an AX-12 switches itself off at 70
_STALE = 3.0  # s of wrong motion, or of standing in the wrong place, without another cause
_LATEST = 0.05  # s: further than this a twin is not looked ahead or back to the moment of a sample

# What a model predicts that says nothing about itself.
_USUAL_ERROR = math.radians(1.0)  # rad, RMS
_USUAL_SHARE = 0.2  # of a held load
# What is more than an error of that size: standing off, and in motion; and how good a model is believed to be at most.
_OFF, _WRONG = 4.0, 2.5
_LEAST_ERROR, _LEAST_SHARE = math.radians(0.5), 0.15


class Allowance(NamedTuple):
    """How far a servo may be from its model.

    Attributes:
        off: For half a second, rad.
        wrong: In motion, root of the mean square, rad.
        share: Of a held load.
    """

    off: float = _OFF * _USUAL_ERROR
    wrong: float = _WRONG * _USUAL_ERROR
    share: float = _USUAL_SHARE


def allowance(model: ServoModel) -> Allowance:
    """What a model's held-out error and its intervals allow; the usual where it has none."""
    told = model.prediction
    error = _USUAL_ERROR if told.held_out_error is None else max(told.held_out_error, _LEAST_ERROR)
    share = _USUAL_SHARE if told.load_share is None else max(told.load_share, _LEAST_SHARE)
    return Allowance(_OFF * error, _WRONG * error, share)


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

    def __init__(self, allowed: Allowance) -> None:
        self.allowed = allowed
        self.rows: deque[_Row] = deque()
        self.seen: dict[Cause, float] = {}  # when a cause was seen last
        self.sampled = math.nan  # time of the latest sample
        self.wrong_since = math.nan  # since when it has been off the twin without another cause
        self.motion: deque[tuple[float, float]] = deque()  # s in motion without another cause, and rad²·s off in it
        self.moved = self.missed = 0.0  # the sums of both

    def restart(self) -> None:
        self.rows.clear()
        self.excuse()

    def excuse(self) -> None:
        """Another cause explains what was off until now."""
        self.wrong_since = math.nan
        self.motion.clear()
        self.moved = self.missed = 0.0

    def note_motion(self, seconds: float, residual: float) -> None:
        """The joint has moved for so long, and was so far off its twin."""
        self.motion.append((seconds, seconds * residual * residual))
        self.moved += seconds
        self.missed += seconds * residual * residual
        while self.moved - self.motion[0][0] >= _STALE:
            gone, missed = self.motion.popleft()
            self.moved -= gone
            self.missed -= missed


class Residuals:
    """Watches servos beside their twins.

    Args:
        allowed: How far each servo may be from its model, by name.
    """

    def __init__(self, allowed: Mapping[str, Allowance]) -> None:
        self._watched = {name: _Watched(one) for name, one in allowed.items()}

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
            twins: What their models say at about that moment, on the same clock.
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
                at = _at(twin, state.time)
                row = _Row(time, goal, state.position, at, state.load, twin.load, state.voltage, twin.voltage)
                causes |= _causes(watched, row)
            for cause in causes:
                if time - watched.seen.get(cause, -math.inf) > _GONE:
                    found.append((cause, name))
                watched.seen[cause] = time
        return found


def _at(twin: ServoState, time: float) -> float:
    """Where the twin was, or will be, when the real servo took its sample."""
    late = time - twin.time
    return twin.position + late * twin.velocity if abs(late) < _LATEST else twin.position


def _causes(watched: _Watched, row: _Row) -> set[Cause]:
    rows, allowed = watched.rows, watched.allowed
    if rows and row.time - rows[-1].time > _WINDOW:
        watched.restart()
    passed = row.time - rows[-1].time if rows else 0.0
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
    far = min(abs(one.position - one.twin) for one in rows) > allowed.off
    if sum(one.twin_voltage - one.voltage for one in rows) / count > _WEAK:
        causes.add("weak supply")
    short = min(abs(one.goal - one.position) for one in rows) > allowed.off
    if far and short and moved < _STILL and abs(load) > _PUSHING:
        causes.add("blocked")
    elif goal_moved < _STILL and twin_moved < _STILL and moved > 2 * _STILL:
        if abs(row.position - row.twin) > allowed.off:
            causes.add("slipping")
    elif goal_moved < _STILL and twin_moved < _STILL and moved < _STILL and _is_settled(rows):  # compare what they hold
        if "weak supply" in causes:
            watched.excuse()
            return causes  # the servo makes up for it with more duty
        more = abs(load) - abs(twin_load) if load * twin_load > 0 else 0.0
        if abs(more) > max(_MORE, allowed.share * abs(twin_load)):
            causes.add("extra load" if more > 0 else "missing load")
    if causes:
        watched.excuse()
    elif _is_stale(watched, row, off, passed if max(twin_moved, moved) > 2 * _STILL else 0.0):
        causes.add("stale model")
    return causes


def _is_stale(watched: _Watched, row: _Row, off: float, moving: float) -> bool:
    """Whether it is off without another cause: a little in all of its motion, or in one place for long."""
    if abs(off) < watched.allowed.off:
        watched.wrong_since = math.nan
    elif math.isnan(watched.wrong_since):
        watched.wrong_since = row.time
    if moving:
        watched.note_motion(moving, row.position - row.twin)
    in_motion = watched.moved >= _STALE and math.sqrt(watched.missed / watched.moved) > watched.allowed.wrong
    return in_motion or row.time - watched.wrong_since > _STALE


def _is_settled(rows: Collection[_Row]) -> bool:
    """Whether neither load changes any more: on the way to rest a moment's delay would look like another load."""
    return max(_spread(one.load for one in rows), _spread(one.twin_load for one in rows)) < _MORE


def _spread(values: Iterable[float]) -> float:
    found = list(values)
    return max(found) - min(found)
