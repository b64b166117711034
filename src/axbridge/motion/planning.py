"""Plan trajectories through the pages of a move; a motion that is too fast for a joint is slowed down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from axbridge import minimum_jerk
from axbridge.errors import UsageError
from axbridge.motion.moves import JointPath, Law, Move, Page, knots_of
from axbridge.servo.checks import is_no_angle

_COUNT = 0.006  # rad: a measured pose may be a count beyond its limit
_EASE_SPEED = 1.5  # rad/s, at most, to the first pose
_EASE_TIME = 0.5  # s, at least, to the first pose
_ROUNDS = 40  # of stretching single motions; then all are stretched by the same factor
_EXACT = 1e-9  # s: times this close are equal


class Bounds(NamedTuple):
    """Limits of a joint: rad, rad, rad/s."""

    low: float
    high: float
    speed: float

    def clip(self, angle: float) -> float:
        """Return the nearest angle within the limits, rad."""
        return min(max(angle, self.low), self.high)


class PageEnd(NamedTuple):
    """End of a round of a page, s."""

    time: float
    page: str


class TooFast(NamedTuple):
    """A joint whose motion was slowed down: the speed that the move needs, and the joint's highest, rad/s."""

    joint: str
    wanted: float
    top: float


@dataclass(frozen=True)
class Plan:
    """Trajectories of all joints through some pages."""

    parts: tuple[tuple[float, dict[str, JointPath]], ...]  # in order: start, s, and the joints' trajectories
    rounds: tuple[PageEnd, ...]  # ends of the pages' rounds, in order
    eased: float  # time at which the first pose is reached, s
    duration: float  # s
    first: Mapping[str, float]  # the first pose, rad by joint
    loop: str | None  # page from which the pages repeat endlessly
    asked: float  # duration without the joints' speed limits, s
    slowest: TooFast | None  # the joint that slowed the plan down most

    def at(self, time: float) -> dict[str, float]:
        """Return the position of each joint at `time`, s; rad."""
        started = [paths for begin, paths in self.parts if begin <= time + _EXACT] or [self.parts[0][1]]
        return {joint: track.at(time) for joint, track in started[-1].items()}

    def page_at(self, time: float) -> PageEnd:
        """Return the end of the round that is played at `time`, s."""
        return next((end for end in self.rounds if time < end.time - _EXACT), self.rounds[-1])


def reachable(move: Move, start: str) -> list[str]:
    """Return the pages that can be reached from `start` by NEXT and EXIT."""
    names = [start]
    for name in names:  # the list grows during the loop
        page = move.pages[name]
        names += [link for link in dict.fromkeys((page.next, page.exit)) if link is not None and link not in names]
    return names


def check(move: Move, pages: Sequence[str], bounds: Mapping[str, Bounds], beyond: float = _COUNT) -> list[str]:
    """Raise UsageError for poses more than `beyond` (rad) outside the limits; return a sentence per clipped joint."""
    worst: dict[str, tuple[float, str]] = {}
    for name in pages:
        for number, key in enumerate(move.pages[name].keys, 1):
            for joint, angle in key.positions.items():
                limit = bounds[joint]
                out = max(limit.low - angle, angle - limit.high) if math.isfinite(angle) else math.inf
                if out > max(_COUNT, worst.get(joint, (0.0, ""))[0]):
                    where = f"page {name}, pose {number}: {joint} at {angle:.2f} rad, {math.degrees(out):.1f}° beyond"
                    radians = f" (radians? {angle:g}° is {math.radians(angle):.4g})"
                    meant = radians if is_no_angle(angle, limit.low, limit.high) else ""
                    worst[joint] = out, f"{where} its limits {limit.low:.2f}..{limit.high:.2f}{meant}"
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
    """A key with its times, before the trajectories are computed."""

    page: Page
    law: Law
    positions: Mapping[str, float]
    duration: float
    pause: float
    ends: str | None  # name of the page, if this step is the last of its round


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
    """Plan the trajectories from page `start` to the end, or to the page from which the pages repeat.

    `here` is the present pose (rad), `pace` a factor of the speed. With `ease`, the first pose is reached by minimum
    jerk in at least this time (s); `ending` follows EXIT. `tick` is the least time of a motion, s.
    """
    names = list(move.chain(start, "exit")[0] if ending else move.rounds(start))
    loop = None if ending else move.chain(start)[1]
    steps = []
    for name in names:
        page = move.pages[name]
        rate = page.rate * pace
        for number, key in enumerate(page.keys, 1):
            within = {joint: bounds[joint].clip(angle) for joint, angle in key.positions.items()}
            ends = name if number == len(page.keys) else None
            steps.append(_PathStep(page, page.interpolation, within, key.time / rate, key.pause / rate, ends))
    if not steps:
        raise UsageError("there are no poses to play", "choose another page")
    first, alone = steps[0], None
    if ease is not None:
        tops = {
            joint: min(_EASE_SPEED, bounds[joint].speed, first.page.speed.get(joint, math.inf))
            for joint in first.positions
        }
        needed = (minimum_jerk.shortest(angle - here[joint], tops[joint]) for joint, angle in first.positions.items())
        first.duration = max(first.duration, ease, _EASE_TIME, *needed)
        first.law, alone = "minimum-jerk", first
    nominal = sum(step.duration + step.pause for step in steps)
    parts: list[tuple[float, dict[str, JointPath]]] = []
    rounds: list[PageEnd] = []
    time = eased = 0.0
    pose = dict(here)
    slow: list[TooFast] = []
    for _, same_law in itertools.groupby(steps, key=lambda step: (step.law, step is alone)):
        group = list(same_law)
        parts.append((time, _stretched(group, pose, bounds, time, tick, slow)))
        for step in group:
            time += step.duration
            eased = eased or time
            time += step.pause
            pose.update(step.positions)
            if step.ends is not None:
                rounds.append(PageEnd(time, step.ends))
    slowest = max(slow, key=lambda joint: joint.wanted / joint.top, default=None)
    return Plan(tuple(parts), tuple(rounds), eased, time, dict(first.positions), loop, nominal, slowest)


def _stretched(
    group: list[_PathStep],
    here: Mapping[str, float],
    bounds: Mapping[str, Bounds],
    begin: float,
    tick: float,
    slow: list[TooFast],
) -> dict[str, JointPath]:
    """Return each joint's trajectory; lengthen steps for the speed limits, and add too fast joints to `slow`."""
    for step in group:
        step.duration = max(step.duration, tick)
    for turn in range(_ROUNDS + 2):
        knots = knots_of(((step.positions, step.duration, step.pause) for step in group), here, begin)
        paths = {}
        factor = np.ones(len(group))
        for joint, own in knots.items():
            times, angles, numbers = zip(*own, strict=True)
            # first and last step of each interval between two knots
            spans = [(min(before + 1, number), number) for before, number in itertools.pairwise(numbers)]
            path = paths[joint] = JointPath(group[0].law, times, angles, [group[last].page.ramp for _, last in spans])
            for peak, (first, last) in zip(path.peak_speeds().tolist(), spans, strict=True):
                limits = (step.page.speed.get(joint, math.inf) for step in group[first : last + 1])
                top = min(bounds[joint].speed, *limits)
                if peak > top * (1 + 1e-6):
                    factor[first : last + 1] = np.maximum(factor[first : last + 1], peak / top)
                    if turn == 0:
                        slow.append(TooFast(joint, peak, top))
        worst = float(factor.max())
        if worst == 1.0 or turn > _ROUNDS:
            break
        for step, longer in zip(group, factor.tolist(), strict=True):
            step.duration *= worst if turn == _ROUNDS else longer
            step.pause *= worst if turn == _ROUNDS else 1.0
    return paths
