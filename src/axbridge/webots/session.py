"""The robot of a controller process: opened when the script creates its `Robot`, closed when the process ends."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning, Remedy, UnsupportedOperation, UsageError
from axbridge.robot.backend import SIMULATION
from axbridge.robot.open import chosen_backend, open_robot
from axbridge.robot.robot import Robot
from axbridge.state import ServoState, StepReport

_OURS = re.compile(r"^servo '[^']*'(?: \([^)]*\))?: ")  # Webots names the device instead
_NOTHING = 1e-6  # ms or steps; rounding error
Value = TypeVar("Value")


class Sampler(Generic[Value]):
    """A sensor enabled with a sampling period: NaN until the period has passed, then held between samples.

    A further `enable` begins a new period and keeps the last value (Webots, WbSensor::setRefreshRate and
    position_sensor.c).
    """

    def __init__(self) -> None:
        self.period = 0  # ms; 0 = disabled, with the last value kept
        self.value: Value | float = math.nan
        self.due = math.inf  # time of the next sample, s

    def enable(self, period: int, now: float) -> None:
        """Sample every `period` ms from `now` on, s."""
        self.period = period
        self.due = now + period / 1000 if period else math.inf

    def offer(self, value: Value, now: float) -> None:
        """Store `value` if a sample is due at `now`, s; the next one is due on the grid of the period."""
        if now < self.due - 1e-9:
            return
        self.value = value
        periods = math.floor((now - self.due) * 1000 / self.period + 1e-6) + 1
        self.due += periods * self.period / 1000


@dataclass
class Session:
    """The state behind the `controller` module of this process."""

    rig: Rig  # the robot's rig
    backend: str | None = None  # ``sim``, ``real`` or ``twin``; None = as `chosen_backend` returns
    port: str | None = None  # serial port of the real backend; None = the rig's
    duration: float | None = None  # robot time after which `step` returns -1, s; None = never
    project: Path = field(default_factory=Path.cwd)  # folder of the controller
    ending: bool = False  # set to make `step` return -1, so that the controller ends
    notified: bool = False  # whether `step` has returned -1
    ticks: list[Callable[[float], None]] = field(default_factory=list)  # called before each step with its length, ms
    _robot: Robot | None = None
    _said: set[str] = field(default_factory=set)
    _samplers: dict[tuple[str, str], tuple[Callable[[Robot], Any], Sampler[Any]]] = field(default_factory=dict)

    @property
    def time_step(self) -> float:
        """Return the basic time step for controllers, ms."""
        return self.rig.webots.time_step_ms or self.rig.robot.basic_time_step_ms

    @property
    def opened(self) -> bool:
        """Return whether the controller has created its robot."""
        return self._robot is not None

    @property
    def robot(self) -> Robot:
        """Return the robot, opened on first use."""
        if self._robot is None:
            is_sim = chosen_backend(self.backend, self.port) == "sim"
            paced = True if is_sim and not self.rig.webots.synchronization else None
            self._robot = open_robot(self.rig, self.backend, port=self.port, realtime=paced)
            self._robot.observe(self._sample)
        return self._robot

    def step(self, period: float) -> int:
        """Do one controller step of `period` ms; return 0 or the delay, ms; -1 when the controller should end."""
        robot = self.robot
        if self.ending or (self.duration is not None and robot.time >= self.duration - 1e-9):
            self.ending = self.notified = True
            return -1
        for tick in self.ticks:
            tick(period)
        if period == 0:
            robot.exchange()
            return 0
        late = 0.0
        for until in self._parts(robot.time * 1000 + period):
            delay = robot.step(until - robot.time * 1000)
            if delay == -1:
                return -1
            late += delay
        return round(late)

    def _parts(self, end: float) -> Iterator[float]:
        """Yield the times, ms, that divide a step ending at `end`, so that samples due within it are taken in time."""
        while self.robot.time * 1000 + _NOTHING < (tick := self._next_tick()) < end - _NOTHING:
            yield tick
        yield end

    def _next_tick(self) -> float:
        """Return the time of the basic step, ms, at which the next sample is due: Webots samples only at their ends."""
        due = min((sampler.due for _, sampler in self._samplers.values()), default=math.inf)
        if not self._powered or due == math.inf:
            return math.inf
        basic = self.rig.control_step_ms
        return math.ceil(due * 1000 / basic - _NOTHING) * basic

    @property
    def _powered(self) -> bool:
        """Return False when a simulated battery is empty: then sensors keep their last value."""
        return not (self.robot.battery_energy == 0 and self.robot.mode == SIMULATION)

    def _sample(self, _report: StepReport, _states: Mapping[str, ServoState]) -> None:
        for read, sampler in self._samplers.values() if self._powered else ():
            sampler.offer(read(self.robot), self.robot.time)

    def sampler(self, name: str, quantity: str, read: Callable[[Robot], Any]) -> Sampler[Any]:
        """Return the sampler of a quantity of a servo or device, sampled with `read`; it starts disabled."""
        return self._samplers.setdefault((name, quantity), (read, Sampler()))[1]

    def say_once(self, message: str) -> None:
        """Print a message, as `say`, the first time only."""
        if message not in self._said:
            self._said.add(message)
            say(message)

    def close(self) -> None:
        """Close the robot, with its motors off; may be called twice."""
        if self._robot is not None:
            self._robot.close()


sessions: list[Session] = []  # at most one


def current() -> Session:
    """Return the process's session, which `install` begins."""
    if not sessions:
        raise UsageError("no robot for this controller", Remedy("run", "SCRIPT.py", rig="RIG", says="start it with {}"))
    return sessions[0]


def say(message: str) -> None:
    """Print a message on stderr, as Webots does."""
    print(message, file=sys.stderr, flush=True)


def is_negative(device: str, period: float) -> bool:
    """Return whether a sampling period is negative; then print that it is refused."""
    if period < 0:
        say(f"Error: {device}: sampling period must not be negative: {period}")
    return period < 0


@contextmanager
def reported(device: str) -> Iterator[None]:
    """Print control warnings and unsupported operations in this block on stderr, each message once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except UnsupportedOperation as refused:
            current().say_once(f"Error: {device}: {refused}".replace("\n", "; "))
    for warning in caught:
        if issubclass(warning.category, ControlWarning):
            current().say_once(f"Warning: {device}: {_OURS.sub('', str(warning.message))}")
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
