"""One servo of two recordings on common times: clocks set where both got the same command, and what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison import metrics
from axbridge.comparison.metrics import HOLE, MEASURES, Deviation, SegmentMotion, deviation
from axbridge.recording.recording import Recording, Segment, Track

SHARE = 0.98  # of the samples have to be compared ...
EDGE = 2  # ... but for so many: one at either end; nor may a stretch longer than `HOLE` be missing


@dataclass(frozen=True)
class ComparedSegment:
    """One segment of an experiment on one servo."""

    name: str  # the segment's name
    kind: str  # what kind of motion, a key of `axbridge.comparison.metrics.MEASURES`, or anything else
    start: float  # s, on the comparison's clock
    end: float  # s
    deviation: Deviation  # errors in it
    # what its kind's measure tells of both sides, reference first; None when the kind has no measure
    results: tuple[Any, Any] | None = None


@dataclass(frozen=True)
class TimeMap:
    """Which time of the other recording belongs to a time of the reference: that of the same command.

    Late control cycles make one recording longer. So the clocks are set again at each segment's first command, and in
    walks of one gait at every control period.
    """

    since: FloatArray  # from these times of the reference on, s, (k,), ascending ...
    ahead: FloatArray  # ... the other's clock is so much ahead of it, s, (k,)

    def other(self, time: FloatArray) -> FloatArray:
        """Times of the other recording, s, (n,), for times of the reference (n,)."""
        index = np.maximum(np.searchsorted(self.since, time + 1e-9, side="right") - 1, 0)
        return time + self.ahead[index]


@dataclass(frozen=True)
class Coverage:
    """How much of one servo's recording was compared."""

    share: float  # of the reference's samples with a position, 0..1
    hole: float  # longest stretch of the reference that the other does not cover, s
    beyond: float  # how long the other goes on where there is no reference, s
    lacking: int  # samples of the reference that could not be compared

    @property
    def whole(self) -> bool:
        """Whether so little is missing that the figures speak of the whole motion."""
        return (self.share >= SHARE or self.lacking <= EDGE) and self.hole <= HOLE and self.beyond <= HOLE


class Motions(NamedTuple):
    """One servo of both recordings, on common times."""

    time: FloatArray  # s, (n,), on the comparison's clock
    reference_time: FloatArray  # the same on the reference's clock, s, (n,)
    other_time: FloatArray  # the same on the other's clock, s, (n,)
    reference: FloatArray  # position, rad, (n,)
    other: FloatArray  # position, rad, (n,)
    command: FloatArray  # position goal, rad, (n,); NaN where unknown


@dataclass(frozen=True)
class Pair:
    """One servo in both recordings: its figures. Its motions are worked out when somebody looks at them.

    So the memory does not grow with the length of the recordings. Take `motions` once where you need several of them.
    """

    name: str  # the servo, in the reference
    other_name: str  # in the other recording
    samples: int  # common times: n
    seconds: float  # from the first of them to the last, s
    coverage: Coverage  # how much of the motion this is
    shift: float | None  # how much later the other is, s; None when no shift within the limit fits best
    plain: Deviation  # errors as they are
    # errors with the shift taken out; of a servo that hardly moves the plain ones; None when no shift was found
    aligned: Deviation | None
    parts: tuple[ComparedSegment, ...]  # the experiment's segments
    _sides: Sides = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<Pair {self.name!r}: {self.samples} common times, rms error {self.plain.rmse:.2f}°>"

    @property
    def motions(self) -> Motions:
        """Both motions and the goal, all their samples."""
        return self._sides.motions(self.name, self.other_name)


class Sides:
    """Two recordings, whose servos are put on common times; the latest is kept. `zero` is the reference's time 0, s."""

    def __init__(self, reference: Recording, other: Recording, *, same_clock: bool, goals: bool = False) -> None:
        self.reference, self.other, self._same_clock, self.goals = reference, other, same_clock, goals
        self.segments = reference.segments
        self._matched = _matched(self.segments, other.segments)
        self.zero = self._matched[0][0].start if self._matched else reference.start
        self._periods = shared_periods(reference, other) if self._matched and not same_clock else None
        self._kept: tuple[tuple[str, str], Motions] | None = None

    def tracks(self, name: str, other_name: str) -> tuple[Track, Track]:
        """Both sides of a servo."""
        track, other = self.reference[name], self.other[other_name]
        if self.goals:
            goal = np.where(track.enabled, track.command, np.nan)
            track = Track.of(name, track.time, position=goal, commanded=track.commanded)
        return track, other

    def clock(self, track: Track, other: Track) -> TimeMap:
        """The map from the reference's times to the other recording's, for one servo."""
        zero = self.zero
        if self._same_clock:
            return TimeMap(np.array([zero]), np.array([0.0]))
        if not self._matched:
            return TimeMap(np.array([zero]), np.array([self.other.start - zero]))
        pairs = []
        for segment, match in self._matched:
            sent = _sent(track, segment), _sent(other, match)
            pairs.append((segment.start, match.start) if None in sent else sent)
        since, then = np.array(pairs, dtype=float).T
        if self._periods is not None:
            since, then = (np.concatenate(part) for part in zip((since, then), self._periods, strict=True))
            order = np.argsort(since, kind="stable")
            since, then = since[order], then[order]
        return TimeMap(since, then - since)

    def motions(self, name: str, other_name: str) -> Motions:
        """Both motions of a servo, where they overlap."""
        if self._kept is None or self._kept[0] != (name, other_name):
            a, b = self.tracks(name, other_name)
            times = self.clock(a, b).other(a.time)
            self._kept = (name, other_name), self.together(a, b, times, _seen(b.time, b.position, times))
        return self._kept[1]

    def together(self, a: Track, b: Track, times: FloatArray, other: FloatArray) -> Motions:
        """Both where they overlap; `times` are a's on b's clock, `other` the positions of `b` there."""
        overlap = (times >= b.time[0]) & (times <= b.time[-1])
        at = a.time[overlap]
        return Motions(at - self.zero, at, times[overlap], a.position[overlap], other[overlap], _command(a, at))


def pair_of(sides: Sides, names: tuple[str, str], tracks: tuple[Track, Track], limit: float) -> Pair:
    """A servo of both recordings, and how far apart it is."""
    a, b = tracks
    name, other_name = names
    clock = sides.clock(a, b)
    times = clock.other(a.time)
    other = _seen(b.time, b.position, times)
    both = sides.together(a, b, times, other)
    plain = deviation(both.reference, both.other)
    aligned: Deviation | None = plain
    shift = None
    if metrics.moves(both.reference):
        shift = metrics.best_shift(both.time, both.reference, both.other, limit)
        aligned = None
        if shift is not None:
            aligned = deviation(both.reference, _seen(b.time, b.position, both.other_time + shift))
    segments = [segment for segment in sides.segments if segment.data.get("servo", name) == name]
    parts = tuple(_part(a, b, segment, clock, sides, both) for segment in segments)
    seconds = float(both.time[-1] - both.time[0]) if len(both.time) else 0.0
    coverage = _coverage(a, b, clock, sides, other)
    return Pair(name, other_name, len(both.time), seconds, coverage, shift, plain, aligned, parts, sides)


def _matched(segments: Sequence[Segment], others: Sequence[Segment]) -> list[tuple[Segment, Segment]]:
    """Segments that both name alike: the first of a name with the first, the second with the second."""
    left = list(others)
    matched: list[tuple[Segment, Segment]] = []
    for segment in segments:
        match = next((other for other in left if other.name == segment.name), None)
        if match is not None:
            left.remove(match)
            matched.append((segment, match))
    return matched


def _sent(track: Track, segment: Segment) -> float | None:
    """When the first command of a segment was sent; None when that was not recorded."""
    inside = (track.commanded >= segment.start - 1e-9) & (track.commanded < segment.end)
    return float(track.commanded[inside][0]) if inside.any() else None


def _coverage(a: Track, b: Track, clock: TimeMap, sides: Sides, other: FloatArray) -> Coverage:
    """How much of `a`, from its first command on, was compared with what was `other` of `b` at its times (n,)."""
    waiting = (a.time >= sides.zero) & (a.time < clock.since[0])
    known = ~np.isnan(a.position) & ~waiting
    lacking = known & np.isnan(other)
    period = float(np.median(np.diff(a.time))) if len(a) > 1 else 0.0
    edges = np.flatnonzero(np.diff(np.concatenate(([0], lacking.astype(np.int8), [0]))))
    holes = [
        float(a.time[end - 1] - a.time[start]) + period for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]
    first, last = clock.other(a.time[[0, -1]])
    beyond = max(0.0, float(first - b.time[0])) + max(0.0, float(b.time[-1] - last))
    if not sides.goals:  # where a servo is limp it has none
        begins, ends = np.array(metrics.holes(a.time[~np.isnan(a.position)])).reshape(-1, 2).T
        alone = ~np.isnan(_seen(b.time, b.position, clock.other((begins + ends) / 2)))
        beyond += float(np.sum((ends - begins)[alone]))
    count = int(lacking.sum())
    return Coverage(1 - count / max(int(known.sum()), 1), max(holes, default=0.0), beyond, count)


def _seen(time: FloatArray, position: FloatArray, at: FloatArray) -> FloatArray:
    """Positions at times `at`; NaN where samples are missing, or not known, instead of a line across the gap."""
    values = metrics.resample(time, position, at)
    unknown = np.isnan(position)
    for begin, end in metrics.holes(time[~unknown]):
        values[(at > begin + 1e-9) & (at < end - 1e-9)] = np.nan
    if unknown.any() and len(at):
        after = np.clip(np.searchsorted(time, at - 1e-9), 0, len(time) - 1)
        before = np.clip(np.searchsorted(time, at + 1e-9, side="right") - 1, 0, len(time) - 1)
        values[unknown[after] | unknown[before]] = np.nan
    return values


def _part(a: Track, b: Track, segment: Segment, clock: TimeMap, sides: Sides, both: Motions) -> ComparedSegment:
    start, end = segment.start - sides.zero, segment.end - sides.zero
    inside = slice(*np.searchsorted(both.time, (start, end)))
    kind = str(segment.data.get("kind", ""))
    results = None
    measure = MEASURES.get(kind)
    if measure is not None and all(fact in segment.data for fact in measure.needs):
        sent = _sent(a, segment)
        sent = segment.start if sent is None else sent
        begin, then, over = clock.other(np.array([segment.start - 0.5, sent, segment.end]))
        first, second = a.between(segment.start - 0.5, segment.end), b.between(float(begin), float(over))
        results = (
            measure.of(SegmentMotion(first.time, first.command, first.position, sent, segment.data)),
            measure.of(SegmentMotion(second.time, second.command, second.position, float(then), segment.data)),
        )
    return ComparedSegment(
        segment.name, kind, start, end, deviation(both.reference[inside], both.other[inside]), results
    )


def _command(track: Track, at: FloatArray) -> FloatArray:
    """The goal in force at each time: goals hold, they are not interpolated; a limp servo has none."""
    command = np.where(track.enabled, track.command, np.nan)
    return command[np.clip(np.searchsorted(track.time, at, side="right") - 1, 0, len(track) - 1)]


def walk_span(recording: Recording) -> tuple[float, float]:
    """When the walk in a recording began and ended, s; of one without such a part all of it."""
    walking = [part for part in recording.segments if part.name == "walk"]
    return (walking[0].start, walking[0].end) if walking else (recording.start, recording.end)


def shared_periods(reference: Recording, other: Recording) -> FloatArray | None:
    """Times at which two walks of one gait got the same goals, s on the clock of each, (2, n).

    A gait counts control periods, not seconds, so the periods of one number belong together, late or not. None where
    they are no walks of one gait, or of different numbers of periods.
    """
    gait = reference.metadata.get("gait")
    if gait is None or gait != other.metadata.get("gait"):
        return None
    moments = []
    for recording in (reference, other):
        begin, end = walk_span(recording)
        at = np.asarray(recording.cycles.get("time", np.zeros(0)))
        moments.append(np.concatenate(([begin], at[(at > begin + 1e-6) & (at < end - 1e-6)])))
    return np.stack(moments) if 1 < len(moments[0]) == len(moments[1]) else None
