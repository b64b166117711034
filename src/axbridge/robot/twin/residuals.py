"""Causes of the differences between a real servo and its simulated twin; arithmetic only.

Both get the same goals, so a difference has a cause in the real servo or in its model. A cause is reported after half a
second, and again only after it had ended. While many steps are late, nothing is compared, because goals and samples of
servo and twin have different times.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.protocol import FIRST
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig, ServoSpec
from axbridge.errors import ErrorFlag
from axbridge.servo.columns import Command
from axbridge.servo.position_laws import motor_duty
from axbridge.state import Cause, ServoState
from axbridge.virtual.servo import loop_row

REMEDIES: Mapping[str, str] = {
    "without power": "look at plugs and supply",
    "torque off": "let it recover",
    "blocked": "free the joint",
    "slipping": "look at horn, screws and gears, or it was a hand",
    "extra load": "look what it carries, or weigh it for the rig",
    "missing load": "look what it has lost, or weigh it for the rig",
    "weak supply": "charge the battery, or say supply_voltage in the rig",
    "overheating": "let it rest",
    "stale model": "identify the servo again",
}

_WINDOW = 0.5  # s; a cause must last so long
_LOAD_TIME = 0.3  # s; a load must be held so long
_SAMPLES = 8  # samples in the window that a comparison needs
_END_TIME = 1.0  # s without a cause until it counts as ended
_REST = math.radians(1.5)  # rad: a joint that has moved less in the window stands
_PUSHING = 0.25  # load: above it a servo pushes against something
_EXTRA_LOAD = 0.006  # load beyond the twin's, as a mean over the window: six counts of Present Load
_LOW_VOLTAGE = 1.0  # V below the twin's supply
_STALE_TIME = 3.0  # s of wrong motion or a wrong position without another cause
_LATE_WEIGHT = 0.1  # weight of the latest step in the share of late steps
_TOO_LATE = 0.25  # share of late steps above which nothing is compared
_LATEST = 0.05  # s; longest extrapolation of a twin to the time of a sample
_USUAL_ERROR = math.radians(1.0)  # rad, root mean square, for a model without its own value
_USUAL_SHARE = 0.2  # of a held load, likewise
_LEAST_ERROR, _LEAST_SHARE = math.radians(0.5), 0.15  # lower bounds, also for better models
_SHORT, _LASTING = 4.0, 2.5  # allowed multiples of the model's error: for a moment, and as RMS in motion
_STEPS = 1.2  # steps of its loop's output by which two servos may differ without a cause


class Tolerance(NamedTuple):
    """Allowed differences between a servo and its model."""

    off: float = math.radians(4)  # for half a second, rad
    wrong: float = math.radians(2.5)  # in motion, root mean square, rad
    share: float = 0.2  # of a held load
    step: float = 0.0  # least difference of a held load
    dead: float = 0.0  # share of full duty that is lost in the bridge: part of every load without torque
    hot: float = 65.0  # °C
    shuts_down: int = FIRST.shuts_down  # error bits with which a servo is shut down, or may be


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
    """The latest samples and causes of one servo."""

    def __init__(self, allowed: Tolerance) -> None:
        self.allowed = allowed
        self.rows: deque[_Row] = deque()
        self.seen: dict[Cause, float] = {}  # latest time of each cause, s
        self.sampled = math.nan  # time of the latest sample
        self.wrong_since = math.nan  # start of a difference without another cause, s
        self.motion: deque[tuple[float, float]] = deque()  # s in motion without another cause, squared error in rad²·s
        self.moved = self.missed = 0.0  # sums of both

    def restart(self) -> None:
        self.rows.clear()
        self.reset_window()

    def reset_window(self) -> None:
        """Discard the differences so far, which another cause explains."""
        self.wrong_since = math.nan
        self.motion.clear()
        self.moved = self.missed = 0.0

    def note_motion(self, seconds: float, residual: float) -> None:
        """Add a time of motion, s, with its difference from the twin, rad."""
        self.motion.append((seconds, seconds * residual * residual))
        self.moved += seconds
        self.missed += seconds * residual * residual
        while self.moved - self.motion[0][0] >= _STALE_TIME:
            gone, missed = self.motion.popleft()
            self.moved -= gone
            self.missed -= missed


class Residuals:
    """Compares servos with their twins and reports causes of differences."""

    def __init__(self, allowed: Mapping[str, Tolerance]) -> None:
        self._watched = {name: _Watched(limits) for name, limits in allowed.items()}
        self._late = 0.0  # share of late steps, a moving average

    def update(
        self,
        time: float,
        states: Mapping[str, ServoState],
        twins: Mapping[str, ServoState],
        goals: Mapping[str, float],
        *,
        late: bool = False,
    ) -> list[tuple[Cause, str]]:
        """Add a sample of each servo; return each new cause with its servo. NaN goals are not compared."""
        self._late += _LATE_WEIGHT * (late - self._late)
        named_causes: list[tuple[Cause, str]] = []
        for name, watched in self._watched.items():
            if name not in states or watched.sampled == states[name].time:
                continue  # no reply: the sample is old
            state, twin, goal = states[name], twins.get(name), goals[name]
            watched.sampled = state.time
            causes: set[Cause] = set()
            hot = state.temperature >= watched.allowed.hot
            if hot or int(ErrorFlag.OVERHEATING) & int(state.errors):  # one bit in all families
                causes.add("overheating")
            limp = math.isnan(goal + state.position) or int(state.errors) & watched.allowed.shuts_down
            if twin is None or limp or self._late > _TOO_LATE:
                watched.restart()  # the model has no hands or gravity that move a limp joint
            else:
                late_by = state.time - twin.time
                at = twin.position + (late_by * twin.velocity if abs(late_by) < _LATEST else 0.0)
                load, twin_load = (motor_duty(sample.load, watched.allowed.dead) for sample in (state, twin))
                row = _Row(time, goal, state.position, at, load, twin_load, state.voltage, twin.voltage)
                causes |= _causes(watched, row)
            for cause in sorted(causes):
                gone = _STALE_TIME if cause == "stale model" else _END_TIME
                if time - watched.seen.get(cause, -math.inf) > gone:
                    named_causes.append((cause, name))
                watched.seen[cause] = time
        return named_causes

    def present(self, time: float) -> dict[str, list[Cause]]:
        """Return the causes that have not ended at this time, s, by servo."""
        return {
            name: causes
            for name, watched in self._watched.items()
            if (causes := [cause for cause, seen in watched.seen.items() if time - seen <= _END_TIME])
        }


def _causes(watched: _Watched, row: _Row) -> set[Cause]:
    rows, allowed = watched.rows, watched.allowed
    if rows and row.time - rows[-1].time > _WINDOW:
        watched.restart()
    passed = row.time - rows[-1].time if rows else 0.0
    rows.append(row)
    while row.time - rows[0].time > _WINDOW:
        rows.popleft()
    if row.time - rows[0].time < 0.8 * _WINDOW or len(rows) < _SAMPLES:
        return set()
    causes: set[Cause] = set()
    off = fmean(past.position - past.twin for past in rows)
    _, *places, _, _, _, _ = zip(*rows, strict=True)
    goal_moved, moved, twin_moved = map(_spread, places)
    far = min(abs(past.position - past.twin) for past in rows) > allowed.off
    short = min(abs(past.goal - past.position) for past in rows) > allowed.off
    if fmean(past.twin_voltage - past.voltage for past in rows) > _LOW_VOLTAGE:
        causes.add("weak supply")  # the servo compensates with duty: its load is not comparable
    if far and short and moved < _REST and abs(fmean(past.load for past in rows)) > _PUSHING:
        causes.add("blocked")
    elif goal_moved < _REST and twin_moved < _REST and moved > 2 * _REST:
        if abs(row.position - row.twin) > allowed.off:
            causes.add("slipping")
    elif not causes and abs(row.position - row.twin) < allowed.off:
        causes |= _of_load(allowed, [past for past in rows if row.time - past.time <= _LOAD_TIME])
    if causes:
        watched.reset_window()
    elif _is_stale(watched, row, off, passed if max(twin_moved, moved) > 2 * _REST else 0.0):
        causes.add("stale model")
    return causes


def _of_load(allowed: Tolerance, rows: Sequence[_Row]) -> set[Cause]:
    """Return "extra load" or "missing load" by the duties with which servo and twin hold still."""
    least = max(_EXTRA_LOAD, allowed.step)
    _, goals, positions, twins, loads, twin_loads, _, _ = zip(*rows, strict=True)
    # While a joint comes to rest, a short delay would look like another load.
    if max(map(_spread, (goals, positions, twins))) >= _REST or max(_spread(loads), _spread(twin_loads)) > least:
        return set()
    load, twin_load = fmean(loads), fmean(twin_loads)
    alike = load * twin_load > 0 or abs(load) < least  # else friction holds one of them from the other side
    more = abs(load) - abs(twin_load) if alike else 0.0
    if abs(more) <= max(least, allowed.share * abs(twin_load)):
        return set()
    return {"extra load" if more > 0 else "missing load"}


def _is_stale(watched: _Watched, row: _Row, off: float, moving: float) -> bool:
    """Return whether servo and twin differ without another cause: in motion by a little, or at rest for long."""
    if abs(off) < watched.allowed.off:
        watched.wrong_since = math.nan
    elif math.isnan(watched.wrong_since):
        watched.wrong_since = row.time
    if moving:
        watched.note_motion(moving, row.position - row.twin)
    in_motion = watched.moved >= _STALE_TIME and math.sqrt(watched.missed / watched.moved) > watched.allowed.wrong
    return in_motion or row.time - watched.wrong_since > _STALE_TIME


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


def tolerance(spec: ServoSpec, model: ServoModel) -> Tolerance:
    """Return the tolerance of a servo with this model, by its held-out error and load share if it has them.

    If the loop uses whole counts, friction lets a servo hold the same load with one step more or less. The joint loads
    of a free-standing robot depend on its stance, which no servo measures, so they are not compared.
    """
    worth, dead = model.prediction, model.motor.dead_duty
    error = _USUAL_ERROR if worth.held_out_error is None else max(worth.held_out_error, _LEAST_ERROR)
    share = _USUAL_SHARE if worth.load_share is None else max(worth.load_share, _LEAST_SHARE)
    step = _loop_step(spec, model) / (1.0 - dead) if model.sensor.quantised else 0.0
    world = spec.rig.world
    if world is not None and not world.fixed_base:
        step = math.inf
    profile = spec.profile
    hot, shuts_down = profile.hot_from(spec.config.registers), PROTOCOLS[profile.protocol].shuts_down
    return Tolerance(_SHORT * error, _LASTING * error, share, _STEPS * step, dead, hot, shuts_down)


def residuals_of(rig: Rig) -> Residuals:
    """Return the comparison of a rig's servos with their models."""
    return Residuals({servo.name: tolerance(spec := rig.specs[servo.name], spec.model) for servo in rig.dynamixels})


def _loop_step(spec: ServoSpec, model: ServoModel) -> float:
    """Return the duty that the loop adds for one count of error."""
    profile, law = spec.profile, model.controller
    row = loop_row(profile, spec.config.zero, spec.config.registers)
    if law.law == "compliance":
        slope = law.slope or max(row[Command.SLOPE_CW], profile.units.position)
        return (1.0 - (law.punch if law.punch >= 0 else row[Command.PUNCH])) * profile.units.position / slope
    return law.p_duty * row[Command.P_GAIN] if law.law == "pid" else 0.0
