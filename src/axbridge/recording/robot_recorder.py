"""What a robot does, written down by an observer: the one way from a robot into a recording.

Beside a servo's sample stands the goal that acts from it on; so a row is written one step later. Times are those that
really passed: a late step stops the robot's clock, but not the recording's.
"""

from __future__ import annotations

import math
import time as clocks
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from axbridge.errors import RecordingError
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import COMMANDS
from axbridge.state import Goals, Observer, StepReport, StepTable


class _Robot(Protocol):
    """What is recorded of an `axbridge.robot.robot.Robot`."""

    @property
    def time(self) -> float: ...
    @property
    def table(self) -> StepTable: ...
    def __getitem__(self, name: str) -> Any: ...  # its `Goals`, and its `max_velocity`
    def __iter__(self) -> Iterator[str]: ...
    def observe(self, observer: Observer) -> Callable[[], None]: ...


class RobotRecorder:
    """Records a robot from now on; a context manager that writes the last samples and lets the robot go.

    Args:
        robot: It is observed: `Robot.observe`.
        recorder: Takes samples, goals, power and truth, a cycle each step, and what changed on the buses as events
            (``missing``, ``returned``, ``fault``, ``limit``, ``port lost``, ``port back``). Also that a virtual bus
            fell behind (``stood still``), and for how many seconds.
        servos: Which; all by default.
        cycle: Called after each step for further fields of the cycle, see `recording.step_format.CYCLE_FIELDS`.
        failed: Called with why nothing can be written, and the robot is let go; None: the step raises the error.

    Attributes:
        paused: Set to let time pass without recording it.
        steps: Steps seen.
        late: Those that came late.
        slipped: By how much all together, s.
        unanswered: Steps, of those recorded, in which one of these servos did not answer.
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
        self._limited: set[tuple[str, str]] = set()  # servo and limit: one that was lifted is recorded as lifted
        self._held: dict[str, float] = {}  # rad, by servo
        self._zero, self._slip = 0, 0.0  # of those that wait: wall clock of the robot's time 0, ns; `slipped`, s
        self._sample(robot.table)
        self._leave: Callable[[], None] | None = robot.observe(self._step)

    @property
    def time(self) -> float:
        """Time that has really passed: the robot's plus what its steps were late, s."""
        return self._robot.time + self.slipped

    def event(self, name: str, /, **data: Any) -> None:
        """Record that something happens now; `data` must be JSON. Raises what `Recorder.event` does."""
        self._recorder.event(self.time, name, **data)

    def mark(self, name: str, **facts: Any) -> None:
        """Record that a part, a segment, begins now. Raises what `Recorder.event` does."""
        self.event("segment", name=name, **facts)

    def finish(self) -> None:
        """Record the last samples and look no more; may be called twice. Raises RecordingError."""
        if self._leave is not None:
            self._leave()
            self._leave = None
            self._write(math.nan)

    def _step(self, report: StepReport, table: StepTable) -> None:
        """The observer."""
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
        """The samples before this step, with the goals that acted in it."""
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
                why = "" if event.error is None else event.error.message
                flags = [flag.name for flag in type(event.flags) if flag in event.flags]
                facts = {"servo": event.name, "error": why, "flags": flags}
                self.event(event.kind, **{key: value for key, value in facts.items() if value})

    def _sample(self, table: StepTable) -> None:
        """Keep the samples that have just come in until the next step: what can only be asked now is in them."""
        self._waiting = table.rows()[[table.servos[name] for name in self._names]]
        newest = float(np.fmax.reduce(table.column("time"), initial=0.0))  # has come in just now
        self._zero, self._slip = clocks.time_ns() - round(newest * 1e9), self.slipped

    def _write(self, commanded: float) -> None:
        """The samples that wait, beside the goals in force."""
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
        """The columns of `COMMANDS`; limits only where there is one, or was."""
        servo = self._robot[name]
        goals: Goals = servo.goals
        command, speed, torque = goals.position, math.nan, math.nan
        if goals.speed == 0:  # it holds still where it was then; in the column, 0 means no limit
            command = self._held.setdefault(name, position)
        else:
            self._held.pop(name, None)
            speed = self._limit((name, "speed"), goals.speed, servo.max_velocity)
            torque = self._limit((name, "torque"), goals.torque, 1.0)
        return command, goals.enabled, goals.duty, speed, torque

    def _limit(self, which: tuple[str, str], value: float, most: float) -> float:
        if value < most:
            self._limited.add(which)
        return value if which in self._limited else math.nan

    def __enter__(self) -> RobotRecorder:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            with suppress(RecordingError):  # the error that ended the block is the one to report
                self.finish()
