"""An observer that records the steps of a robot; all recordings of robots are made by it.

A row has a servo's sample and the goal that acts from then on, so it is written one step later. Times are elapsed real
times: a late step stops the robot's clock, but not the recording's.
"""

from __future__ import annotations

import math
import time as clocks
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import COMMANDS
from axbridge.state import Goals, Observer, StepReport, StepTable


class _Robot(Protocol):
    """The part of `axbridge.robot.robot.Robot` that is recorded."""

    @property
    def time(self) -> float: ...
    @property
    def table(self) -> StepTable: ...
    @property
    def bus_statistics(self) -> Mapping[str, Any]: ...
    def __getitem__(self, name: str) -> Any: ...  # its `Goals`, and its `max_velocity`
    def __iter__(self) -> Iterator[str]: ...
    def observe(self, observer: Observer) -> Callable[[], None]: ...


@contextmanager
def recording_of(robot: Any, path: Path, rig: Rig, **facts: Any) -> Iterator[Recorder]:
    """Yield a recorder for a robot; at the end the robot is closed first: its motors must not wait for the compression.

    `rig` and `facts` are described in the metadata, see `describe`.
    """
    with Recorder(path, describe(rig, **facts) | robot.origin) as recorder, robot:
        yield recorder


class RobotRecorder:
    """Records a robot from now on; the end of the context writes the last samples and removes the observer.

    Args:
        robot: The robot; `Robot.observe` registers the observer.
        recorder: Gets samples, goals, power and truth, a cycle in each step, and changes on the buses as events
            (``missing``, ``returned``, ``fault``, ``limit``, ``port lost``, ``port back``). The event ``stood still``
            has the number of seconds by which a virtual bus fell behind, and the last one, ``bus statistics``, has
            `Robot.bus_statistics`.
        servos: The servos to record; all by default.
        cycle: Called after each step; returns further fields of the cycle, see `recording.step_format.CYCLE_FIELDS`.
        failed: Called with the error when nothing can be written; recording then ends. None: the step raises the error.

    Attributes:
        paused: While True, nothing is recorded.
        steps: Number of steps.
        late: Number of late steps.
        slipped: Sum of their delays, s.
        unanswered: Number of recorded steps in which at least one of these servos did not answer.
    """

    def __init__(
        self,
        robot: _Robot,
        recorder: Recorder,
        servos: Sequence[str] | None = None,
        *,
        cycle: Callable[[], Mapping[str, float]] = dict,
        failed: Callable[[RecordingError], None] | None = None,
    ) -> None:
        self._robot, self._recorder, self._cycle, self._failed = robot, recorder, cycle, failed
        self._names = tuple(robot if servos is None else servos)
        self.paused = False
        self.steps: int = 0
        self.late: int = 0
        self.slipped: float = 0.0
        self.unanswered: int = 0
        self._limited: set[tuple[str, str]] = set()  # (servo, limit) that was ever set: its removal is recorded, too
        self._held: dict[str, float] = {}  # rad, by servo
        self._zero, self._slip = 0, 0.0  # of the waiting samples: wall clock of the robot's time 0, ns; `slipped`, s
        self._sample(robot.table)
        self._leave: Callable[[], None] | None = robot.observe(self._step)

    @property
    def time(self) -> float:
        """Elapsed real time, s: the robot's time plus the delays of its late steps."""
        return self._robot.time + self.slipped

    def event(self, name: str, /, **data: Any) -> None:
        """Record an event at the present time; `data` must be JSON. Raises the errors of `Recorder.event`."""
        self._recorder.event(self.time, name, **data)

    def mark(self, name: str, **facts: Any) -> None:
        """Record that a segment begins now. Raises the errors of `Recorder.event`."""
        self.event("segment", name=name, **facts)

    def finish(self) -> None:
        """Record the last samples and the bus's statistics, and remove the observer, once. Raises RecordingError."""
        if self._leave is not None:
            self._leave()
            self._leave = None
            self._write(math.nan)
            self.event("bus statistics", **self._robot.bus_statistics)

    def _step(self, report: StepReport, table: StepTable) -> None:
        """Record a step; called by the robot."""
        try:
            self._record(report)
            self._sample(table)
        except RecordingError as error:
            if self._failed is None or self._leave is None:
                raise
            self._leave()
            self._leave = None
            self._failed(error)

    def _record(self, report: StepReport) -> None:
        """Write the samples before this step, with the goals that acted in it."""
        self.steps += report.requested > 0
        self.late += report.late > 0
        self.slipped += report.late / 1e3
        if not self.paused:
            self.unanswered += not report.errors.keys().isdisjoint(self._names)
            self._write(report.commanded + self.slipped)
            if report.requested > 0:
                times = {"requested_ms": report.requested, "actual_ms": report.actual, "late_ms": report.late}
                self._recorder.cycle(self.time, **times, errors=len(report.errors), **self._cycle())
            for event in report.events:
                reason = "" if event.error is None else event.error.message
                flags = [flag.name for flag in type(event.flags) if flag in event.flags]
                facts = {"servo": event.name, "error": reason, "flags": flags}
                self.event(event.kind, **{key: value for key, value in facts.items() if value})

    def _sample(self, table: StepTable) -> None:
        """Keep the newest samples until the next step; the robot replaces its table then."""
        self._waiting = table.rows()[[table.servos[name] for name in self._names]]
        newest = float(np.fmax.reduce(table.column("time"), initial=0.0))  # received just now
        self._zero, self._slip = clocks.time_ns() - round(newest * 1e9), self.slipped

    def _write(self, commanded: float) -> None:
        """Write the waiting samples with the present goals."""
        rows = self._waiting
        first = np.fmin.reduce(rows["time"])
        if math.isnan(first):
            return
        rows["time"] += self._slip
        rows["commanded"] = commanded
        commands = [self._command(*pair) for pair in zip(self._names, rows["position"].tolist(), strict=True)]
        for column, values in zip(COMMANDS, zip(*commands, strict=True), strict=True):
            rows[column] = values
        self._recorder.step(self._names, rows, logged=self._zero + round(first * 1e9))

    def _command(self, name: str, position: float) -> tuple[float, ...]:
        """Return the columns of `COMMANDS`; a limit that was never set is NaN."""
        servo = self._robot[name]
        goals: Goals = servo.goals
        command, speed, torque = goals.position, math.nan, math.nan
        if goals.speed == 0:  # the joint holds its position then; in the column, 0 means no limit
            command = self._held.setdefault(name, position)
        else:
            self._held.pop(name, None)
            speed = self._limit((name, "speed"), goals.speed, servo.max_velocity)
            torque = self._limit((name, "torque"), goals.torque, 1.0)
        return command, goals.enabled, goals.duty, speed, torque

    def _limit(self, key: tuple[str, str], value: float, largest: float) -> float:
        if value < largest:
            self._limited.add(key)
        return value if key in self._limited else math.nan

    def __enter__(self) -> RobotRecorder:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            with suppress(RecordingError):  # the error that ended the block is the one to report
                self.finish()
