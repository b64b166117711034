"""Put a servo of two recordings on common times: align the clocks at equal commands, and compute the errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison import metrics
from axbridge.comparison.metrics import HOLE, MEASURES, Deviation, deviation
from axbridge.recording.recording import Recording, Segment, Track

SHARE = 0.98  # share of the samples that must be compared for a complete comparison ...
EDGE = 2  # ... or all but this number of samples, one at each end; no gap may be longer than `HOLE`


@dataclass(frozen=True)
class ComparedSegment:
    """One segment of an experiment on one servo."""

    name: str
    kind: str  # kind of motion: a key of `axbridge.comparison.metrics.MEASURES`, or another name
    start: float  # s, on the comparison's clock
    end: float  # s
    deviation: Deviation  # errors in this segment
    # results of its kind's measure, reference first; None when the kind has no measure
    results: tuple[Any, Any] | None = None


@dataclass(frozen=True)
class TimeMap:
    """Map from times of the reference to times of the other recording at which the same command was sent.

    Late control cycles make one recording longer. So the clocks are aligned again at each segment's first command, and
    for walks with the same gait in each control period.
    """

    since: FloatArray  # from each of these times of the reference on, s, (k,), ascending ...
    ahead: FloatArray  # ... the other's clock is this far ahead of the reference's, s, (k,)

    def other(self, time: FloatArray) -> FloatArray:
        """Return times of the other recording, s, (n,), for times of the reference, s, (n,)."""
        index = np.maximum(np.searchsorted(self.since, time + 1e-9, side="right") - 1, 0)
        return time + self.ahead[index]


@dataclass(frozen=True)
class Coverage:
    """Extent of the comparison of one servo."""

    share: float  # share of the reference's known positions that were compared, 0..1
    hole: float  # longest gap of the other recording within the reference, s
    beyond: float  # time that the other recording has and the reference lacks, s
    lacking: int  # number of the reference's samples that could not be compared

    @property
    def whole(self) -> bool:
        """Whether almost nothing is missing, so that the figures are valid for the whole motion."""
        return (self.share >= SHARE or self.lacking <= EDGE) and self.hole <= HOLE and self.beyond <= HOLE


class Motions(NamedTuple):
    """The motions of one servo in both recordings, on common times."""

    time: FloatArray  # s, (n,), on the comparison's clock
    reference_time: FloatArray  # the same on the reference's clock, s, (n,)
    other_time: FloatArray  # the same on the other's clock, s, (n,)
    reference: FloatArray  # position, rad, (n,)
    other: FloatArray  # position, rad, (n,)
    command: FloatArray  # position goal, rad, (n,); NaN where unknown


@dataclass(frozen=True)
class Pair:
    """Figures of one servo in both recordings. The motions are computed at each access.

    So memory does not grow with the length of the recordings. Read `motions` once if you need several of its arrays.
    """

    name: str  # of the servo in the reference
    other_name: str  # of the servo in the other recording
    seconds: float  # from the first common time to the last, s
    coverage: Coverage  # extent of the comparison
    shift: float | None  # delay of the other recording, s; None if unknown
    plain: Deviation  # errors without a shift
    # errors with the shift removed; the plain ones if the servo hardly moves; None when no shift was found
    aligned: Deviation | None
    parts: tuple[ComparedSegment, ...]  # the experiment's segments
    _sides: Sides = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<Pair {self.name!r}: {self.plain.samples} common samples, rms error {self.plain.rmse:.2f}°>"

    @property
    def motions(self) -> Motions:
        """All samples of both motions and the goal."""
        return self._sides.motions(*self._sides.tracks(self.name, self.other_name))


class Sides:
    """Two recordings on common times. `zero`: the comparison's time 0, s."""

    def __init__(self, reference: Recording, other: Recording, *, same_clock: bool, goals: bool = False) -> None:
        self.reference, self.other, self._same_clock, self.goals = reference, other, same_clock, goals
        self.segments = reference.segments
        self._matched = _matched(self.segments, other.segments)
        self.zero = self._matched[0][0].start if self._matched else reference.start
        self._periods = shared_periods(reference, other) if self._matched and not same_clock else None

    def tracks(self, name: str, other_name: str) -> tuple[Track, Track]:
        """Return a servo's tracks in the reference and in the other recording."""
        track, other = self.reference[name], self.other[other_name]
        if self.goals:
            goal = np.where(track.enabled, track.command, np.nan)
            track = Track.of(name, track.time, position=goal, commanded=track.commanded)
        return track, other

    def clock(self, track: Track, other: Track) -> TimeMap:
        """Return the map from the reference's times to the other recording's for one servo."""
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

    def motions(self, a: Track, b: Track) -> Motions:
        """Return both motions of a servo where they overlap."""
        times = self.clock(a, b).other(a.time)
        overlap = (times >= b.time[0]) & (times <= b.time[-1])
        at, other_time = a.time[overlap], times[overlap]
        position = _positions_at(b.time, b.position, other_time)
        command = np.where(a.enabled, a.command, np.nan)  # a goal is held until the next; a limp servo has none
        held = np.clip(np.searchsorted(a.time, at, side="right") - 1, 0, len(a) - 1)
        return Motions(at - self.zero, at, other_time, a.position[overlap], position, command[held])


def pair_of(sides: Sides, names: tuple[str, str], tracks: tuple[Track, Track], limit: float) -> Pair:
    """Compare a servo of both recordings; `limit` is the largest shift tried, s."""
    a, b = tracks
    both = sides.motions(a, b)
    plain = deviation(both.reference, both.other)
    aligned: Deviation | None = plain
    shift = None
    if metrics.moves(both.reference):
        shift = metrics.best_shift(both.time, both.reference, both.other, limit)
        aligned = None
        if shift is not None:
            aligned = deviation(both.reference, _positions_at(b.time, b.position, both.other_time + shift))
    segments = [segment for segment in sides.segments if segment.data.get("servo", names[0]) == names[0]]
    parts = tuple(_part(a, b, segment, sides, both) for segment in segments)
    seconds = float(both.time[-1] - both.time[0]) if len(both.time) else 0.0
    return Pair(*names, seconds, _coverage(a, b, sides), shift, plain, aligned, parts, sides)


def _matched(segments: Sequence[Segment], others: Sequence[Segment]) -> list[tuple[Segment, Segment]]:
    """Return pairs of segments with the same name: the first with the first, the second with the second and so on."""
    left = list(others)
    matched: list[tuple[Segment, Segment]] = []
    for segment in segments:
        match = next((other for other in left if other.name == segment.name), None)
        if match is not None:
            left.remove(match)
            matched.append((segment, match))
    return matched


def _sent(track: Track, segment: Segment) -> float | None:
    """Return when the first command of a segment was sent, s; None when that was not recorded."""
    inside = (track.commanded >= segment.start - 1e-9) & (track.commanded < segment.end)
    return float(track.commanded[inside][0]) if inside.any() else None


def _coverage(a: Track, b: Track, sides: Sides) -> Coverage:
    """Return the compared extent of `a` from its first command on."""
    clock = sides.clock(a, b)
    waiting = (a.time >= sides.zero) & (a.time < clock.since[0])
    known = ~np.isnan(a.position) & ~waiting
    lacking = known & np.isnan(_positions_at(b.time, b.position, clock.other(a.time)))
    period = float(np.median(np.diff(a.time))) if len(a) > 1 else 0.0
    edges = np.flatnonzero(np.diff(np.concatenate(([0], lacking.astype(np.int8), [0]))))
    spans = zip(edges[::2], edges[1::2], strict=True)
    holes = [float(a.time[end - 1] - a.time[start]) + period for start, end in spans]
    first, last = clock.other(a.time[[0, -1]])
    beyond = max(0.0, float(first - b.time[0])) + max(0.0, float(b.time[-1] - last))
    if not sides.goals:  # a limp servo has no goal: that is no gap
        begins, ends = np.array(metrics.holes(a.time[~np.isnan(a.position)])).reshape(-1, 2).T
        alone = ~np.isnan(_positions_at(b.time, b.position, clock.other((begins + ends) / 2)))
        beyond += float(np.sum((ends - begins)[alone]))
    count = int(lacking.sum())
    return Coverage(1 - count / max(int(known.sum()), 1), max(holes, default=0.0), beyond, count)


def _positions_at(time: FloatArray, position: FloatArray, at: FloatArray) -> FloatArray:
    """Return positions at times `at`; NaN in gaps and where positions are unknown, not interpolated across them."""
    values = metrics.resample(time, position, at)
    unknown = np.isnan(position)
    for begin, end in metrics.holes(time[~unknown]):
        values[(at > begin + 1e-9) & (at < end - 1e-9)] = np.nan
    if unknown.any() and len(at):
        after = np.clip(np.searchsorted(time, at - 1e-9), 0, len(time) - 1)
        before = np.clip(np.searchsorted(time, at + 1e-9, side="right") - 1, 0, len(time) - 1)
        values[unknown[after] | unknown[before]] = np.nan
    return values


def _part(a: Track, b: Track, segment: Segment, sides: Sides, both: Motions) -> ComparedSegment:
    start, end = segment.start - sides.zero, segment.end - sides.zero
    inside = slice(*np.searchsorted(both.time, (start, end)))
    kind = str(segment.data.get("kind", ""))
    results = None
    measure = MEASURES.get(kind)
    if measure is not None and all(fact in segment.data for fact in measure.needs):
        sent = _sent(a, segment)
        span = np.array([segment.start - 0.5, segment.start if sent is None else sent, segment.end])
        first, second = (
            measure.of(track.between(float(begin), float(end)), float(sent_at), segment.data)
            for track, (begin, sent_at, end) in ((a, span), (b, sides.clock(a, b).other(span)))
        )
        results = first, second
    errors = deviation(both.reference[inside], both.other[inside])
    return ComparedSegment(segment.name, kind, start, end, errors, results)


def walk_span(recording: Recording) -> tuple[float, float]:
    """Return begin and end, s, of the ``walk`` segment, or of the whole recording if it has none."""
    walking = [part for part in recording.segments if part.name == "walk"]
    return (walking[0].start, walking[0].end) if walking else (recording.start, recording.end)


def shared_periods(reference: Recording, other: Recording) -> FloatArray | None:
    """Return the times, (2, n), s on each clock, at which two walks with the same gait got the same goals.

    A gait counts control periods, not seconds. So periods with the same number belong together, even if one was late.
    None if the gaits or the numbers of periods differ.
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
