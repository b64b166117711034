"""Two recordings of the same motion side by side: how far apart, how much of it is mere lateness, and where."""

from __future__ import annotations

import math
import operator
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.beats import beats
from axbridge.comparison.metrics import (
    MEASURES,
    Deviation,
    Measure,
    SegmentMotion,
    best_shift,
    deviation,
    moves,
    resample,
)
from axbridge.errors import RecordingError, UsageError
from axbridge.recording.mcap_file import SERVO_FIELDS
from axbridge.recording.recording import AGAIN, TOO_BUSY, Recording, Segment, Track
from axbridge.recording.soundness import findings
from axbridge.recording.tables import wide_table, with_pandas

__all__ = [
    "ComparedSegment",
    "Comparison",
    "Coverage",
    "Motions",
    "Pair",
    "TimeMap",
    "check",
    "compare",
    "following",
    "lacks",
    "parse_condition",
    "shift_text",
    "summary",
]

SHARE = 0.98  # of the samples have to be compared ...
EDGE = 2  # ... but for so many: one at either end
HOLE = 0.25  # s: nor may a longer stretch be missing
_KEPT = 16 * 2**20  # bytes of motions that a comparison keeps; others are set side by side again when asked for


@dataclass(frozen=True)
class ComparedSegment:
    """One segment of an experiment on one servo.

    Attributes:
        name: The segment's name.
        kind: What kind of motion, a key of `axbridge.comparison.metrics.MEASURES`, or anything else.
        start: s, on the comparison's clock.
        end: s.
        deviation: Errors in it.
        results: What its kind's measure tells of both sides, reference first; None when the kind has no measure.
    """

    name: str
    kind: str
    start: float
    end: float
    deviation: Deviation
    results: tuple[Any, Any] | None = None

    @property
    def measure(self) -> Measure:
        """What gave `results`."""
        return MEASURES[self.kind]


@dataclass(frozen=True)
class TimeMap:
    """Which time of the other recording belongs to a time of the reference: that of the same command.

    Late control cycles make one recording longer than the other. So the clocks are set anew where each segment's first
    command was sent, and in walks of one gait at every control period.

    Attributes:
        since: From these times of the reference on, s, (k,), ascending ...
        ahead: ... the other's clock is so much ahead of it, s, (k,).
    """

    since: FloatArray
    ahead: FloatArray

    def other(self, time: FloatArray) -> FloatArray:
        """Times of the other recording, s, (n,), for times of the reference (n,)."""
        index = np.maximum(np.searchsorted(self.since, time + 1e-9, side="right") - 1, 0)
        found: FloatArray = time + self.ahead[index]
        return found


@dataclass(frozen=True)
class Coverage:
    """How much of one servo's recording was compared.

    Attributes:
        share: Of the reference's samples with a position, 0..1.
        hole: Longest stretch of the reference that the other does not cover, s.
        beyond: How long the other goes on where there is no reference, s.
        lacking: Samples of the reference that could not be compared.
    """

    share: float
    hole: float
    beyond: float
    lacking: int

    @property
    def whole(self) -> bool:
        """Whether so little is missing that the figures speak of the whole motion."""
        return (self.share >= SHARE or self.lacking <= EDGE) and self.hole <= HOLE and self.beyond <= HOLE


class Motions(NamedTuple):
    """One servo of both recordings, on common times.

    Attributes:
        time: s, (n,), on the comparison's clock.
        reference_time: The same on the reference's clock, s, (n,).
        other_time: The same on the other's clock, s, (n,).
        reference: Position, rad, (n,).
        other: Position, rad, (n,).
        command: Position goal, rad, (n,); NaN where unknown.
    """

    time: FloatArray
    reference_time: FloatArray
    other_time: FloatArray
    reference: FloatArray
    other: FloatArray
    command: FloatArray


@dataclass(frozen=True)
class Pair:
    """One servo in both recordings: its figures. Its motions are worked out when somebody looks at them.

    So the memory does not grow with the length of the recordings. Take `motions` once where you need several of them.

    Attributes:
        name: The servo (in the reference).
        other_name: The servo in the other recording.
        samples: Common times: n.
        seconds: From the first of them to the last, s.
        coverage: How much of the motion this is.
        shift: How much later `other` is than `reference`, s; None when no shift within the limit fits best.
        plain: Errors as they are.
        aligned: Errors with `shift` taken out; of a servo that hardly moves the plain ones, as there is nothing to
            align; None when a motion's shift was not found.
        parts: The experiment's segments.
    """

    name: str
    other_name: str
    samples: int
    seconds: float
    coverage: Coverage
    shift: float | None
    plain: Deviation
    aligned: Deviation | None
    parts: tuple[ComparedSegment, ...]
    _sides: _Sides = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<Pair {self.name!r}: {self.samples} common times, rms error {self.plain.rmse:.2f}°>"

    @property
    def motions(self) -> Motions:
        """Both motions and the goal, all their samples."""
        return self._sides.motions(self.name, self.other_name)

    @property
    def time(self) -> FloatArray:
        """See `Motions`, as for the others."""
        return self.motions.time

    @property
    def reference(self) -> FloatArray:
        """Position, rad, (n,)."""
        return self.motions.reference

    @property
    def other(self) -> FloatArray:
        """Position, rad, (n,)."""
        return self.motions.other

    @property
    def command(self) -> FloatArray:
        """Position goal, rad, (n,); NaN where unknown."""
        return self.motions.command


@dataclass(frozen=True)
class Comparison:
    """All servos that two recordings share.

    Attributes:
        reference: The recording measured against.
        other: The recording measured.
        labels: What to call them.
        limit: Largest shift tried in the alignment, s.
        pairs: By servo, worst first.
        missing: Servos that could not be compared, and why.
        doubts: What makes the figures doubtful, in words: of the reference's samples, and of the other's.
    """

    reference: Recording
    other: Recording
    labels: tuple[str, str]
    limit: float
    pairs: tuple[Pair, ...]
    missing: dict[str, str]
    doubts: tuple[tuple[str, ...], tuple[str, ...]]

    def __repr__(self) -> str:
        apart = ", ".join(f"{pair.name} {pair.plain.rmse:.2f}°" for pair in self.pairs)
        return f"<Comparison of {self.labels[0]} with {self.labels[1]}, rms error: {apart or 'nothing compared'}>"

    def to_pandas(self) -> Any:
        """A pandas DataFrame: its index is the time on the comparison's clock, s.

        It has the goal and both positions of each servo, rad: ``shoulder.command_rad``, ``shoulder.reference_rad`` and
        ``shoulder.other_rad``; NaN where a servo was not compared.

        Raises:
            UnsupportedOperation: pandas is not installed.
        """
        pandas = with_pandas()
        sides = {}
        for pair in self.pairs:
            motions = pair.motions._asdict()
            sides[pair.name] = {key: motions[key] for key in ("time", "command", "reference", "other")}
        time, columns = wide_table(sides)
        named = {f"{name}.{key}_rad": values for (name, key), values in columns.items()}
        return pandas.DataFrame(named, index=pandas.Index(time, name="time_s"))


def compare(
    reference: Recording,
    other: Recording,
    *,
    labels: tuple[str, str] = ("reference", "other"),
    limit: float = 0.2,
    same_clock: bool = False,
    progress: Callable[[str, float], None] = lambda _what, _share: None,
) -> Comparison:
    """Compare the servos that two recordings share; two recordings of one servo each are compared whatever its name.

    The clocks are set where both got the same command: at the first of each segment that both name alike; without
    such segments, at the first sample of each.

    Args:
        reference: Measured against.
        other: Measured.
        labels: What to call them.
        limit: Largest shift tried in the alignment, s.
        same_clock: The times of both are of one clock already.
        progress: Told what is under way and which share is done, before each servo.

    Raises:
        RecordingError: no servo in common, or they do not overlap in time.
    """
    if len(reference) == len(other) == 1:
        names = [(next(iter(reference)), next(iter(other)))]
    else:
        names = [(name, name) for name in reference if name in other]
    if not names:
        raise RecordingError(
            other.path,
            f"has none of the servos {', '.join(reference)}",
            f"it has {', '.join(other) or 'none'}; compare recordings of the same rig",
        )
    reference, other = _without_standstills(reference), _without_standstills(other)
    missing: dict[str, str] = {}
    for side, label, against in ((reference, labels[1], other), (other, labels[0], reference)):
        if len(names) < len(side):
            missing |= {name: f"{label} has no such servo" for name in side if name not in against}
    sides = _Sides(reference, other, same_clock=same_clock)
    doubts = _jumps(reference), _jumps(other)
    pairs = []
    for index, (mine, theirs) in enumerate(names):
        progress(f"comparing {mine}", index / len(names))
        for side, name, label, found in zip((reference, other), (mine, theirs), labels, doubts, strict=True):
            track = side[name]
            found.extend(_unsound(track))
            if not np.isfinite(track.position).any():
                missing[mine] = TOO_BUSY if side.stood_still else f"{label} knows not one position of it"
        if mine in missing:
            continue
        pair = _pair(sides, mine, theirs, limit)
        if pair.plain.samples:
            pairs.append(pair)
        else:
            apart = f"{labels[0]} and {labels[1]} know no position of it at the same time"
            missing[mine] = TOO_BUSY if reference.stood_still or other.stood_still else apart
    if not pairs:
        facts = "; ".join(f"{name}: {why}" for name, why in missing.items())
        busy = [side for side in (reference, other) if side.stood_still]
        again = AGAIN if busy else "compare the same experiment"
        raise RecordingError((busy or [other])[0].path, f"nothing can be compared: {facts}", again)
    pairs.sort(key=lambda pair: -pair.plain.rmse)
    return Comparison(reference, other, labels, limit, tuple(pairs), missing, (tuple(doubts[0]), tuple(doubts[1])))


def following(
    recording: Recording,
    *,
    limit: float = 0.5,
    progress: Callable[[str, float], None] = lambda _what, _share: None,
) -> Comparison:
    """How well each servo followed its goals: its command is the reference.

    Args:
        recording: It.
        limit: Largest shift tried in the alignment, s.
        progress: As of `compare`.

    Raises:
        RecordingError: no servo has commands.
    """
    commanded_servos = [name for name in recording if any(map(_commands, recording.rows(name)))]
    if not commanded_servos:
        raise RecordingError(recording.path, "holds no commands", "give a second recording to compare with, or --rig")
    followers = recording.changed(commanded_servos)
    commanded = replace(recording.changed(commanded_servos, _goals), cycles={})
    labels = "goal", "position"
    return compare(commanded, followers, labels=labels, limit=limit, same_clock=True, progress=progress)


def _without_standstills(recording: Recording) -> Recording:
    """The same without the positions that were read while a virtual bus stood still."""
    if not recording.stood_still:
        return recording

    def blank(track: Track) -> Track:
        return replace(track, position=np.where(recording.within_standstill(track.time), np.nan, track.position))

    return recording.changed(list(recording), blank)


def _commands(row: Mapping[str, float]) -> bool:
    """Whether a goal is in force in a sample."""
    return not math.isnan(row.get("command", math.nan)) and row.get("torque_enabled", math.nan) != 0


def _goals(track: Track) -> Track:
    """Its goals as a motion."""
    goal = np.where(track.enabled, track.command, np.nan)
    return Track.of(track.name, track.time, position=goal, commanded=track.commanded)


def lacks(comparison: Comparison) -> list[str]:
    """What was not compared, in words: servos that are missing, and motions that end early or have holes."""
    found = [f"{name}: not compared: {why}" for name, why in comparison.missing.items()]
    first, second = comparison.labels
    for side, label in zip((comparison.reference, comparison.other), comparison.labels, strict=True):
        if side.stood_still:
            begin, seconds = side.stood_still[0][0], sum(end - begin for begin, end in side.stood_still)
            found.append(f"{TOO_BUSY}: {seconds:.2f} s of {label}, from {begin:.2f} s on, not compared")
    for pair in comparison.pairs:
        covered = pair.coverage
        if not covered.whole:
            facts = [f"{covered.share:.1%} of {first} was compared"]
            if covered.hole > HOLE:
                facts.append(f"{second} lacks {covered.hole:.2f} s of it at a stretch")
            if covered.beyond > HOLE:
                facts.append(f"{second} is {covered.beyond:.2f} s longer than {first}")
            found.append(f"{pair.name}: {'; '.join(facts)}")
    return found


def shift_text(comparison: Comparison, pair: Pair) -> str:
    """How much earlier or later the other is, or why that is not known."""
    if pair.shift is not None:
        return f"{abs(pair.shift) * 1e3:.1f} ms {'earlier' if pair.shift < 0 else 'later'}"
    return "hardly moves" if pair.aligned is not None else f"not found within ±{comparison.limit * 1e3:.0f} ms"


def summary(comparison: Comparison) -> dict[str, Any]:
    """The comparison as one JSON document; angles in degrees, times in s."""
    return {
        "reference": {"path": str(comparison.reference.path), "label": comparison.labels[0]},
        "other": {"path": str(comparison.other.path), "label": comparison.labels[1]},
        "complete": comparison.reference.complete and comparison.other.complete,
        "whole": not lacks(comparison),
        "missing": comparison.missing,
        "shift_limit_s": comparison.limit,
        "mae_deg": float(np.mean([pair.plain.mae for pair in comparison.pairs])),
        "rmse_deg": math.sqrt(float(np.mean([pair.plain.mse for pair in comparison.pairs]))),
        "mse_deg2": float(np.mean([pair.plain.mse for pair in comparison.pairs])),
        "servos": {pair.name: _pair_summary(pair, comparison.labels) for pair in comparison.pairs},
    }


_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_METRICS = {name for metric in ("mae", "rmse", "mse", "worst") for name in (metric, f"aligned_{metric}")} | {"shift"}


def check(comparison: Comparison, condition: str) -> list[str]:
    """Servos on which `condition` holds, or of which it is not known, each with the value in words.

    Args:
        comparison: What to look at.
        condition: ``rmse>2``; metrics are mae, rmse, worst (degrees), mse (deg²), aligned_… of each, and shift (s).

    Raises:
        UsageError: not of that form.
    """
    metric, holds = parse_condition(condition, _METRICS)
    found = []
    for pair in comparison.pairs:
        if pair.aligned is None and (metric == "shift" or metric.startswith("aligned_")):
            found.append(f"{pair.name}: {metric} cannot be told: shift {shift_text(comparison, pair)}")
            continue
        if metric == "shift":
            if pair.shift is None:  # it hardly moves
                continue
            value = pair.shift
        else:
            errors = pair.aligned if metric.startswith("aligned_") else pair.plain
            value = getattr(errors, metric.removeprefix("aligned_"))
        if holds(value):
            found.append(f"{pair.name}: {metric} = {value:.4g}")
        elif math.isnan(value):
            found.append(f"{pair.name}: {metric} cannot be told: no samples are left")
    return found


def parse_condition(text: str, metrics: Collection[str]) -> tuple[str, Callable[[float], bool]]:
    """``rmse>2`` as the metric's name, one of `metrics`, and whether a value fulfils it.

    Raises:
        UsageError: not of that form.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*", text)
    if match is None or match[1] not in metrics or (limit := _number(match[3])) is None:
        raise UsageError(f"{text!r} is no condition", f"write METRIC>NUMBER; metrics: {', '.join(sorted(metrics))}")
    compared: Callable[[float, float], bool] = _OPERATORS[match[2]]
    return match[1], lambda value: compared(value, limit)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _jumps(recording: Recording) -> list[str]:
    """Where its clock jumped back."""
    return [
        f"{event.data.get('servo')}: the clock jumped back to {event.time:g} s; samples were put in order of time"
        for event in recording.events
        if event.name == "clock jumped back"
    ]


def _unsound(track: Track) -> list[str]:
    """What makes figures of its samples doubtful."""
    found = findings(track.name, track.time, {key: getattr(track, key) for key in SERVO_FIELDS})
    return [str(finding) for finding in found if finding.severity == "error"]


class _Sides:
    """Two recordings, whose servos are put on common times; the latest are kept, as far as `_KEPT` goes.

    Args:
        reference: Measured against.
        other: Measured.
        same_clock: The times of both are of one clock already.

    Attributes:
        zero: The reference's time that is 0 in the comparison, s.
        segments: Of the reference.
    """

    def __init__(self, reference: Recording, other: Recording, *, same_clock: bool) -> None:
        self._reference, self._other, self._same_clock = reference, other, same_clock
        self.segments = reference.segments
        self._matched = _matched(self.segments, other.segments)
        self.zero = self._matched[0][0].start if self._matched else reference.start
        self._beats = beats(reference, other) if self._matched and not same_clock else None
        self._kept: OrderedDict[tuple[str, str], Motions] = OrderedDict()

    def tracks(self, mine: str, theirs: str) -> tuple[Track, Track]:
        """Both sides of a servo."""
        return _finite(self._reference[mine]), _finite(self._other[theirs])

    def stood_still(self, mine: FloatArray, theirs: FloatArray) -> bool:
        """Whether a virtual bus stood still at one of these times, s, of the reference or of the other."""
        return bool(self._reference.within_standstill(mine).any() or self._other.within_standstill(theirs).any())

    def clock(self, mine: Track, theirs: Track) -> TimeMap:
        """The other's clock."""
        zero = self.zero
        if self._same_clock:
            return TimeMap(np.array([zero]), np.array([0.0]))
        if not self._matched:
            return TimeMap(np.array([zero]), np.array([self._other.start - zero]))
        sent = [(_sent(mine, a), _sent(theirs, b)) for a, b in self._matched]
        pairs = [
            (b, d) if None not in (b, d) else (a.start, c.start)
            for (b, d), (a, c) in zip(sent, self._matched, strict=True)
        ]
        since, then = np.array(pairs, dtype=float).T
        if self._beats is not None:
            since, then = (np.concatenate(part) for part in zip((since, then), self._beats, strict=True))
            order = np.argsort(since, kind="stable")
            since, then = since[order], then[order]
        return TimeMap(since, then - since)

    def motions(self, mine: str, theirs: str) -> Motions:
        """See `Motions`."""
        found = self._kept.pop((mine, theirs), None)
        if found is None:
            a, b = self.tracks(mine, theirs)
            times = self.clock(a, b).other(a.time)
            found = self.together(a, b, times, _seen(b.time, b.position, times))
        self._kept[mine, theirs] = found
        while len(self._kept) > 1 and sum(column.nbytes for kept in self._kept.values() for column in kept) > _KEPT:
            self._kept.popitem(last=False)
        return found

    def together(self, a: Track, b: Track, times: FloatArray, found: FloatArray) -> Motions:
        """Both where they overlap.

        Args:
            a: Of the reference.
            b: Of the other.
            times: Of the other, s, (n,), at those of the reference.
            found: The other's positions then, rad, (n,).
        """
        overlap = (times >= b.time[0]) & (times <= b.time[-1])
        at = a.time[overlap]
        return Motions(at - self.zero, at, times[overlap], a.position[overlap], found[overlap], _command(a, at))


def _pair(sides: _Sides, mine: str, theirs: str, limit: float) -> Pair:
    a, b = sides.tracks(mine, theirs)
    clock = sides.clock(a, b)
    times = clock.other(a.time)
    found = _seen(b.time, b.position, times)
    both = sides.together(a, b, times, found)
    plain = deviation(both.reference, both.other)
    aligned: Deviation | None = plain
    shift = None
    if moves(both.reference):
        shift = best_shift(both.time, both.reference, both.other, limit)
        aligned = None
        if shift is not None:
            aligned = deviation(both.reference, _seen(b.time, b.position, both.other_time + shift))
    segments = [segment for segment in sides.segments if segment.data.get("servo", mine) == mine]
    return Pair(
        mine,
        theirs,
        len(both.time),
        float(both.time[-1] - both.time[0]) if len(both.time) else 0.0,
        _coverage(a, b, clock, sides.zero, found),
        shift,
        plain,
        aligned,
        tuple(_part(a, b, segment, clock, sides, both) for segment in segments),
        sides,
    )


def _finite(track: Track) -> Track:
    """The same with positions that are no finite number taken for unknown."""
    return replace(track, position=np.where(np.isfinite(track.position), track.position, np.nan))


def _matched(mine: Sequence[Segment], theirs: Sequence[Segment]) -> list[tuple[Segment, Segment]]:
    """Segments that both name alike: the first of a name with the first, the second with the second."""
    left = list(theirs)
    found: list[tuple[Segment, Segment]] = []
    for segment in mine:
        match = next((other for other in left if other.name == segment.name), None)
        if match is not None:
            left.remove(match)
            found.append((segment, match))
    return found


def _sent(track: Track, segment: Segment) -> float | None:
    """When the first command of a segment was sent; None when that was not recorded."""
    inside = (track.commanded >= segment.start - 1e-9) & (track.commanded < segment.end)
    return float(track.commanded[inside][0]) if inside.any() else None


def _coverage(a: Track, b: Track, clock: TimeMap, zero: float, found: FloatArray) -> Coverage:
    """How much of `a` was compared with what was `found` of `b` at its times (n,).

    What came before the first command was sent does not count: how long that took is no part of the motion.
    """
    waiting = (a.time >= zero) & (a.time < clock.since[0])
    known = ~np.isnan(a.position) & ~waiting
    lacking = known & np.isnan(found)
    period = float(np.median(np.diff(a.time))) if len(a) > 1 else 0.0
    edges = np.flatnonzero(np.diff(np.concatenate(([0], lacking.astype(np.int8), [0]))))
    holes = [
        float(a.time[end - 1] - a.time[start]) + period for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]
    first, last = clock.other(a.time[[0, -1]])
    beyond = max(0.0, float(first - b.time[0])) + max(0.0, float(b.time[-1] - last))
    count = int(lacking.sum())
    return Coverage(1 - count / max(int(known.sum()), 1), max(holes, default=0.0), beyond, count)


def _seen(time: FloatArray, position: FloatArray, at: FloatArray) -> FloatArray:
    """Positions at times `at`; NaN next to samples that are not known, instead of a line across the gap."""
    values = resample(time, position, at)
    unknown = np.isnan(position)
    if unknown.any() and len(at):
        after = np.clip(np.searchsorted(time, at - 1e-9), 0, len(time) - 1)
        before = np.clip(np.searchsorted(time, at + 1e-9, side="right") - 1, 0, len(time) - 1)
        values[unknown[after] | unknown[before]] = np.nan
    return values


def _part(
    a: Track,
    b: Track,
    segment: Segment,
    clock: TimeMap,
    sides: _Sides,
    both: Motions,
) -> ComparedSegment:
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
        if not sides.stood_still(first.time, second.time):
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


def _pair_summary(pair: Pair, labels: tuple[str, str]) -> dict[str, Any]:
    parts = []
    for part in pair.parts:
        entry: dict[str, Any] = {
            "name": part.name,
            "kind": part.kind,
            "start_s": part.start,
            "end_s": part.end,
            "deviation": asdict(part.deviation),
        }
        if part.results is not None:
            documents = (part.measure.document(result) for result in part.results)
            entry[part.measure.key] = dict(zip(labels, documents, strict=True))
        parts.append(entry)
    return {
        "shift_s": pair.shift,
        "coverage": asdict(pair.coverage),
        "deviation": asdict(pair.plain),
        "aligned": None if pair.aligned is None else asdict(pair.aligned),
        "segments": parts,
    }
