"""Recordings: the goals and samples of each servo, real or simulated, on one clock."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.arrays import BoolArray, FloatArray, IntArray
from axbridge.errors import plural
from axbridge.recording.sample_quality import LAST, SampleFacts, sample_facts
from axbridge.recording.step_format import Table
from axbridge.recording.tables import HEADERS, data_frame
from axbridge.state import SERVO_COLUMNS

SERVO_FIELDS = tuple(name for name in SERVO_COLUMNS if name != "time")
_IN_MEMORY = 4 * 2**20  # bytes of samples; longer recordings use a temporary file
_COLUMNS = tuple(SERVO_COLUMNS)
COMMANDS = ("command", "torque_enabled", "duty", "speed_limit", "torque_limit")


@dataclass(frozen=True)
class Track:
    """One servo's samples: arrays of the length of `time`, which increases strictly; unknown values are NaN.

    `axbridge.state.SERVO_COLUMNS` describes each column, with its unit.
    """

    name: str
    time: FloatArray
    command: FloatArray
    commanded: FloatArray
    position: FloatArray
    velocity: FloatArray
    load: FloatArray
    voltage: FloatArray
    temperature: FloatArray
    errors: FloatArray
    torque: FloatArray
    power: FloatArray
    torque_enabled: FloatArray
    true_position: FloatArray
    true_torque: FloatArray
    speed_limit: FloatArray
    duty: FloatArray
    torque_limit: FloatArray

    @classmethod
    def of(cls, name: str, time: FloatArray, **columns: FloatArray) -> Track:
        """Return a track; columns that are not given are NaN."""
        unknown = np.full(len(time), np.nan)
        return cls(name, time, **{key: columns.get(key, unknown) for key in SERVO_FIELDS})

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        span = f", {self.time[0]:.2f} to {self.time[-1]:.2f} s" if len(self) else ""
        return f"<Track {self.name!r}: {plural(len(self), 'sample')}{span}>"

    @property
    def columns(self) -> dict[str, FloatArray]:
        """All columns but the time, by name; (n,) each."""
        return {key: getattr(self, key) for key in SERVO_FIELDS}

    @property
    def known(self) -> dict[str, FloatArray]:
        """The time and the columns with at least one known value, by name; (n,) each."""
        return {"time": self.time} | {key: values for key, values in self.columns.items() if not np.isnan(values).all()}

    def facts(self) -> SampleFacts:
        """Return range, rate, gaps and jumps of these samples."""
        return sample_facts(self.time, self.columns)

    def rows(self, chosen: IntArray | slice) -> Track:
        """Return a track of the samples at these indices."""
        return Track.of(self.name, self.time[chosen], **{key: column[chosen] for key, column in self.columns.items()})

    @property
    def enabled(self) -> BoolArray:
        """Whether torque was on, (n,) bool; an unknown state counts as on."""
        return np.not_equal(self.torque_enabled, 0)

    @property
    def sent(self) -> FloatArray:
        """When each goal had been sent, s, (n,): `commanded`, or the sample's time if that is unknown."""
        return np.where(np.isnan(self.commanded), self.time, self.commanded)

    def between(self, start: float, end: float) -> Track:
        """Return the samples with start <= time < end."""
        return self.rows(slice(*np.searchsorted(self.time, (start, end))))


def in_order(time: FloatArray, columns: Mapping[str, FloatArray]) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return the samples sorted by time; samples with equal times are merged to the last known value of each column.

    `commanded` becomes the time at which the remaining goal was first sent.
    """
    if (time[1:] > time[:-1]).all():  # the usual case; a difference could overflow, a comparison cannot
        return time, dict(columns)
    order = np.argsort(time, kind="stable")
    time = time[order]
    columns = {key: column[order] for key, column in columns.items()}
    starts = np.ones(len(time), dtype=bool)
    starts[1:] = time[1:] > time[:-1]
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(time)) - 1
    merged = {}
    for key, column in columns.items():
        latest = np.maximum.accumulate(np.where(np.isnan(column), -1, np.arange(len(column))))[last]
        merged[key] = np.where(latest >= first, column[latest], np.nan)
    if "commanded" in columns:
        for group in np.flatnonzero(last > first):
            merged["commanded"][group] = _first_sent(columns, int(first[group]), int(last[group]))
    return time[first], merged


def _first_sent(columns: Mapping[str, FloatArray], first: int, last: int) -> float:
    """Return when the commands of row `last` were first sent within a group of rows."""
    commands = [columns[key] for key in COMMANDS if key in columns]
    row = last
    while row > first and all(np.array_equal(c[row - 1], c[last], equal_nan=True) for c in commands):
        row -= 1
    return float(columns["commanded"][row])


@dataclass(frozen=True)
class Event:
    """Something that happened: the start of a segment, a time-out, an abort."""

    time: float  # s
    name: str  # ``segment``, ``aborted``, …
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Segment:
    """A part of an experiment, from its ``segment`` event to the next one or to the end."""

    name: str  # ``step``, ``fall``, …
    start: float  # s
    end: float  # s
    data: dict[str, Any]  # of its event, e.g. ``servo``, ``start`` and ``target`` (rad)


class StoredTracks(Mapping[str, Track]):
    """Samples by servo and column; an access creates the track of that servo alone."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - open as long as this object exists
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._blocks: dict[str, list[tuple[int, int, bytes]]] = {}  # offset, samples, known columns
        self.spans: dict[str, tuple[float, float]] = {}
        self._latest: dict[str, float] = {}
        self.backwards: dict[str, tuple[float, float]] = {}  # by servo: times before and after its first jump back, s

    def add(self, servos: tuple[str, ...], steps: Table) -> None:
        """Add samples, (steps, servos); samples without a valid time are left out."""
        values = steps.view(np.float64).reshape(*steps.shape, len(_COLUMNS))
        for place, servo in enumerate(servos):
            samples = values[:, place]
            samples = samples[np.abs(samples[:, 0]) <= LAST]
            if len(samples):
                self._add(servo, np.where(np.abs(samples) <= LAST, samples, np.nan).T)

    def _add(self, servo: str, columns: FloatArray) -> None:
        time = columns[0]
        before = np.concatenate(([self._latest.get(servo, time[0])], time[:-1]))
        back = np.flatnonzero(time < before)
        if len(back):
            self.backwards.setdefault(servo, (float(before[back[0]]), float(time[back[0]])))
        self._latest[servo] = float(time[-1])
        first, last = self.spans.get(servo, (float(time[0]), float(time[0])))
        self.spans[servo] = min(first, float(time.min())), max(last, float(time.max()))
        known = bytes(np.flatnonzero(~np.isnan(columns).all(axis=1)).tolist())
        self._blocks.setdefault(servo, []).append((self._file.tell(), columns.shape[1], known))
        self._file.write(columns[list(known)].tobytes())

    def __getitem__(self, servo: str) -> Track:
        blocks = self._blocks[servo]
        known = sorted({column for _, _, columns in blocks for column in columns})
        values = {column: np.full(sum(count for _, count, _ in blocks), np.nan) for column in known}
        at = 0
        with self._lock:
            for offset, count, columns in blocks:
                self._file.seek(offset)
                block = np.frombuffer(self._file.read(8 * count * len(columns))).reshape(len(columns), count)
                for column, row in zip(columns, block, strict=True):
                    values[column][at : at + count] = row
                at += count
        named = {_COLUMNS[column]: row for column, row in values.items()}
        time, named = in_order(named.pop("time", np.empty(0)), named)
        return Track.of(servo, time, **named)

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tracks themselves: another process cannot read the temporary file."""
        return dict, (dict(self.items()),)


@dataclass(frozen=True)
class Recording(Mapping[str, Track]):
    """One recording: a mapping of servo name to `Track`.

    Attributes:
        path: The recording's file.
        tracks: By servo.
        events: In order of time.
        cycles: Timing of the control cycles: arrays of equal length, with ``time``; empty when not recorded.
        metadata: Rig, profiles, parameters, versions, experiment; see docs/formats.md.
        complete: False when the file is cut off or damaged.
        lost: The damaged parts, in words; all others were read.
    """

    path: Path
    tracks: Mapping[str, Track]
    events: tuple[Event, ...] = ()
    cycles: Mapping[str, FloatArray] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    complete: bool = True
    lost: tuple[str, ...] = ()

    def __getitem__(self, servo: str) -> Track:
        return self.tracks[servo]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tracks)

    def __len__(self) -> int:
        return len(self.tracks)

    def __repr__(self) -> str:
        cut = "" if self.complete else ", cut off"
        return f"<Recording {self.path.name!r} of {', '.join(self) or 'no servo'}{cut}>"

    @property
    def flaw(self) -> str:
        """What is wrong with the file, in words; empty when it is complete."""
        if self.lost:
            return f"is damaged: {', '.join(self.lost)} cannot be read"
        if not self.complete:
            return "was cut off; everything up to the cut was read" if self else "was cut off before its first sample"
        return "" if self else "holds no samples"

    def to_pandas(self, rate: float | None = None) -> Any:
        """Return a pandas DataFrame: the time as index, a column per servo and quantity (``shoulder.position_rad``).

        Args:
            rate: Rows per second, resampled as in `axbridge.recording.tables.wide_parts`; None: a row at each sample.

        Raises:
            UnsupportedOperation: pandas is not installed.
            UsageError: a rate that is not positive.
        """
        return data_frame({name: track.known for name, track in self.items()}, HEADERS, rate)

    def spans(self) -> list[tuple[float, float]]:
        """Return the first and last time, s, of each servo that has samples."""
        return [span for name in self if (span := self.span(name)) is not None]

    def span(self, servo: str) -> tuple[float, float] | None:
        """Return the first and last time of one servo, s; None without samples. A stored track is not read for this.

        Raises:
            KeyError: no such servo.
        """
        if isinstance(self.tracks, StoredTracks):
            return self.tracks.spans[servo]
        time = self.tracks[servo].time
        return (float(time[0]), float(time[-1])) if len(time) else None

    @property
    def start(self) -> float:
        """Time of the first sample of any servo, s."""
        return min((start for start, _ in self.spans()), default=0.0)

    @property
    def end(self) -> float:
        """Time of the last sample of any servo, s."""
        return max((end for _, end in self.spans()), default=0.0)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The experiment's parts in order; empty when none were marked."""
        marks = [event for event in self.events if event.name == "segment"]
        ends = [*(event.time for event in marks[1:]), np.nextafter(self.end, np.inf)][: len(marks)]
        return tuple(
            Segment(str(mark.data.get("name", "segment")), mark.time, max(float(end), mark.time), mark.data)
            for mark, end in zip(marks, ends, strict=True)
        )
