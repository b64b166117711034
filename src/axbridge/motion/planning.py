"""From pages to paths: which pose when. A way for which a joint is too slow takes longer, and the others do not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from axbridge import minimum_jerk
from axbridge.errors import UsageError
from axbridge.motion.moves import JointPath, Key, Law, Move, Page

_COUNT = 0.006  # rad: a pose that was measured may be a count beyond its limit
_EASE_SPEED = 1.5  # rad/s at most on the way to the first pose
_EASE_TIME = 0.5  # s at least
_ROUNDS = 40  # of stretching, then everything is stretched alike
_EXACT = 1e-9


class Bounds(NamedTuple):
    """What a joint may do: rad, rad, rad/s."""

    low: float
    high: float
    speed: float


class PageEnd(NamedTuple):
    """When a round of a page is over, s."""

    time: float
    page: str


class TooFast(NamedTuple):
    """A joint whose way had to take longer: the speed that it would have needed, and its highest, rad/s."""

    joint: str
    wanted: float
    top: float


@dataclass(frozen=True)
class Plan:
    """A path through some pages."""

    # one after the other: when each begins, and every joint's way
    parts: tuple[tuple[float, dict[str, JointPath]], ...]
    rounds: tuple[PageEnd, ...]  # the pages' ends, in order
    eased: float  # when the first pose is reached, s
    duration: float
    first: Mapping[str, float]  # the pose reached then, rad by joint
    loop: str | None  # page to go on with for ever
    asked: float  # what it would take without the joints' speed limits, s
    slowest: TooFast | None  # what stretched it most

    def at(self, time: float) -> dict[str, float]:
        """Where every joint should be at `time`, s."""
        begun = [paths for begin, paths in self.parts if begin <= time + _EXACT] or [self.parts[0][1]]
        return {joint: track.at(time) for joint, track in begun[-1].items()}

    def page_at(self, time: float) -> PageEnd:
        """The round under way."""
        return next((end for end in self.rounds if time < end.time - _EXACT), self.rounds[-1])


def reachable(move: Move, start: str) -> list[str]:
    """The pages that can be played from `start` on."""
    names = [start]
    for name in names:  # which grows meanwhile
        page = move.pages[name]
        names += [link for link in dict.fromkeys((page.next, page.exit)) if link is not None and link not in names]
    return names


def check(move: Move, pages: Sequence[str], bounds: Mapping[str, Bounds], beyond: float = _COUNT) -> list[str]:
    """Refuse what the robot cannot do, before anything moves; returns what it cuts off, a sentence a joint."""
    worst: dict[str, tuple[float, str]] = {}
    for name in pages:
        for number, key in enumerate(move.pages[name].keys, 1):
            for joint, angle in key.positions.items():
                limit = bounds[joint]
                out = max(limit.low - angle, angle - limit.high) if math.isfinite(angle) else math.inf
                if out > max(_COUNT, worst.get(joint, (0.0, ""))[0]):
                    where = f"page {name}, pose {number}: {joint} at {angle:.2f} rad, {math.degrees(out):.1f}° beyond"
                    worst[joint] = (out, f"{where} its limits {limit.low:.2f}..{limit.high:.2f}")
    far = sorted((joint for joint in worst if worst[joint][0] > beyond), key=lambda joint: -worst[joint][0])
    if far:
        also = f"; too far are also {', '.join(far[1:])}" if far[1:] else ""
        hint = "is it a move of another robot? else correct the poses, or the limits in the rig; or leave joints out"
        raise UsageError(worst[far[0]][1] + also, hint)
    if not any(move.pages[name].keys for name in pages):
        raise UsageError("the move has no poses", "choose another page")
    return [f"{where}: it stops at the limit" for _, where in worst.values()]


@dataclass
class _PathStep:
    """A key on its way into a path."""

    page: str
    key: Key
    duration: float
    pause: float
    law: Law
    ramp: float
    last: bool  # the round of the page ends with it


def plan(
    move: Move,
    start: str,
    here: Mapping[str, float],
    bounds: Mapping[str, Bounds],
    *,
    pace: float = 1.0,
    ease: float | None = None,
    ending: bool = False,
    tick: float = 0.02,
) -> Plan:
    """Plan from `start` to the end, or to where the pages lead back."""
    names = list(move.chain(start, "exit")[0] if ending else move.rounds(start))
    loop = None if ending else move.chain(start)[1]
    steps = [step for name in names for step in _steps(name, move.pages[name], bounds, pace)]
    if not steps:
        raise UsageError("there are no poses to play", "choose another page")
    nominal = sum(step.duration + step.pause for step in steps)
    groups = [list(group) for _, group in itertools.groupby(steps, key=lambda step: step.law)]
    if ease is not None:
        first = steps[0]
        own = move.pages[first.page].speed
        needed = [
            minimum_jerk.shortest(angle - here[joint], min(_EASE_SPEED, bounds[joint].speed, own.get(joint, math.inf)))
            for joint, angle in first.key.positions.items()
        ]
        nominal -= first.duration
        first.duration = max(first.duration, ease, _EASE_TIME, *needed)
        nominal += first.duration
        first.law = "minimum-jerk"
        groups = [[first], *([groups[0][1:]] if groups[0][1:] else []), *groups[1:]]
    parts: list[tuple[float, dict[str, JointPath]]] = []
    rounds: list[PageEnd] = []
    time = 0.0
    pose = dict(here)
    slow: list[TooFast] = []
    eased = 0.0
    for group in groups:
        parts.append((time, _stretched(group, pose, bounds, move, time, tick, slow)))
        for step in group:
            time += step.duration
            eased = eased or time
            time += step.pause
            pose.update(step.key.positions)
            if step.last:
                rounds.append(PageEnd(time, step.page))
    slowest = max(slow, key=lambda joint: joint.wanted / joint.top, default=None)
    return Plan(tuple(parts), tuple(rounds), eased, time, dict(steps[0].key.positions), loop, nominal, slowest)


def _steps(name: str, page: Page, bounds: Mapping[str, Bounds], pace: float) -> list[_PathStep]:
    rate = page.rate * pace
    steps = []
    for number, key in enumerate(page.keys, 1):
        reached = {j: min(max(angle, bounds[j].low), bounds[j].high) for j, angle in key.positions.items()}
        within = key.model_copy(update={"positions": reached})
        last = number == len(page.keys)
        steps.append(_PathStep(name, within, key.time / rate, key.pause / rate, page.interpolation, page.ramp, last))
    return steps


def _stretched(
    group: list[_PathStep],
    here: Mapping[str, float],
    bounds: Mapping[str, Bounds],
    move: Move,
    begin: float,
    tick: float,
    slow: list[TooFast],
) -> dict[str, JointPath]:
    """Every joint's track, the steps' ways made as long as the joints' speeds need; that is added to `slow`."""
    for step in group:
        step.duration = max(step.duration, tick)
    turn = 0
    while True:
        tracks, spans = _tracks(group, here, begin)
        factor = np.ones(len(group))
        for joint, track in tracks.items():
            peaks = track.peak_speeds()
            for peak, (first, last) in zip(peaks.tolist(), spans[joint], strict=True):
                top = bounds[joint].speed
                for step in group[first : last + 1]:
                    top = min(top, move.pages[step.page].speed.get(joint, math.inf))
                if peak > top * (1 + 1e-6):
                    factor[first : last + 1] = np.maximum(factor[first : last + 1], peak / top)
                    if turn == 0:
                        slow.append(TooFast(joint, peak, top))
        worst = float(factor.max())
        if worst == 1.0 or turn > _ROUNDS:
            return tracks
        for step, longer in zip(group, factor.tolist(), strict=True):
            step.duration *= worst if turn == _ROUNDS else longer
            step.pause *= worst if turn == _ROUNDS else 1.0
        turn += 1


def _tracks(
    group: list[_PathStep], here: Mapping[str, float], begin: float
) -> tuple[dict[str, JointPath], dict[str, list[tuple[int, int]]]]:
    """Tracks from where the joints are; and for every stretch between two knots the first and last step it takes."""
    knots = {joint: ([begin], [angle]) for joint, angle in here.items()}
    spans: dict[str, list[tuple[int, int]]] = {joint: [] for joint in here}
    came: dict[str, int] = dict.fromkeys(here, -1)
    time = begin
    for number, step in enumerate(group):
        time += step.duration
        for joint, angle in step.key.positions.items():
            times, angles = knots[joint]
            times.append(time)
            angles.append(angle)
            spans[joint].append((came[joint] + 1, number))
            came[joint] = number
            if step.pause:
                times.append(time + step.pause)
                angles.append(angle)
                spans[joint].append((number, number))
        time += step.pause
    law = group[0].law
    return {
        joint: JointPath(law, *lists, [group[last].ramp for _, last in spans[joint]]) for joint, lists in knots.items()
    }, spans
