"""Servos under way in an experiment: their goals, their torque, the recorder that sees both, what keeps them safe.

Everything is recorded on one clock, that of the time that really passed: a step that was late stops the robot's clock,
but neither the servo's motion nor the experiment's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from axbridge.errors import UsageError
from axbridge.record.recorder import Recorder, wall_clock_of_zero
from axbridge.robot.state import ServoState, Truth
from axbridge.units import signed_to_bits

__all__ = ["Conducted", "Drivable", "DrivableServo", "Driven", "Run", "Stopped", "check_reach"]

WARM, COOL = 60.0, 50.0  # degC: an experiment waits, limp, from the first down to the second
PATIENCE = 600.0  # s
EEPROM_PAUSE_MS = 30.0
FULL = 1023  # counts of duty


class DrivableServo(Protocol):
    """What an experiment needs of a servo; `axbridge.robot.servo.Servo` has it."""

    @property
    def state(self) -> ServoState:
        """The latest sample."""

    @property
    def truth(self) -> Truth:
        """The joint itself at that sample, where a simulation knows."""

    @property
    def power(self) -> float:
        """Drawn at the latest sample, W."""

    @property
    def min_position(self) -> float:
        """Rad."""

    @property
    def max_position(self) -> float:
        """Rad."""

    @property
    def max_torque(self) -> float:
        """N·m."""

    def set_position(self, position: float) -> None:
        """Set the goal, rad."""

    def set_velocity(self, velocity: float) -> None:
        """Limit the speed of the approach, rad/s."""

    def set_available_torque(self, torque: float) -> None:
        """Cap the torque, N·m."""

    def torque_on(self) -> None:
        """Drive."""

    def torque_off(self) -> None:
        """Let go."""

    def read(self, register: str) -> int:
        """Read a register."""

    def write(self, register: str, value: int) -> None:
        """Write a register."""


class Drivable(Protocol):
    """What an experiment needs of a robot; `axbridge.robot.robot.Robot` has it."""

    @property
    def time(self) -> float:
        """Seconds."""

    @property
    def last_step(self) -> Any:
        """What the last step did, as `axbridge.robot.robot.StepReport`; None where nobody knows."""

    def __getitem__(self, name: str) -> DrivableServo:
        """The servo of that name."""

    def __iter__(self) -> Iterator[str]:
        """Names of the servos."""

    def step(self, ms: float) -> float:
        """Advance one control period; -1 means stop."""


class Stopped(Exception):
    """The experiment ends early."""


@dataclass(frozen=True)
class Conducted:
    """How an experiment went.

    Attributes:
        whole: False when the robot asked to stop before the end.
        steps: Control periods.
        late: Those that came late.
        slipped: By how much all together, s.
    """

    whole: bool
    steps: int
    late: int
    slipped: float


def check_reach(servo: DrivableServo, name: str, angles: Sequence[float]) -> None:
    """Refuse angles out of a servo's reach, before anything moves.

    Raises:
        UsageError: names the angle and the limits.
    """
    low, high = servo.min_position, servo.max_position
    for angle in angles:
        if not low - 1e-9 <= angle <= high + 1e-9:
            raise UsageError(
                f"{math.degrees(angle):.0f}° is beyond the limits of {name}: "
                f"{math.degrees(low):.0f}° to {math.degrees(high):.0f}°",
                "choose smaller angles, or widen min_position and max_position in the rig",
            )


class Driven:
    """One servo under way: what it was told, and the row that records it.

    Args:
        run: The experiment.
        name: The servo's name.
    """

    def __init__(self, run: Run, name: str) -> None:
        self._run, self.name, self.servo = run, name, run.robot[name]
        self.driven = False
        self._columns: dict[str, float] = {}
        self._command: float | None = None
        self._limits: tuple[int, int] | None = None  # the servo's own angle limits, while it turns endlessly

    def goal(self, position: float) -> None:
        """Set the goal, rad; switches the motor on when it is off."""
        if not self.driven:
            self.servo.torque_on()
            self.driven = True
        self.servo.set_position(position)
        self._command = position

    def limit_speed(self, speed: float) -> None:
        """Limit the speed of the approach, rad/s, from now on."""
        self.servo.set_velocity(speed)
        self._columns["speed_limit"] = speed

    def limit_torque(self, share: float) -> None:
        """Limit the torque to a share of the servo's largest, from now on."""
        self.servo.set_available_torque(self.servo.max_torque * share)
        self._columns["torque_limit"] = share

    def set_register(self, register: str, value: int) -> None:
        """Write a register that shapes the motion, and record that it was."""
        self.servo.write(register, value)
        self._run.recorder.event(self._run.time, "register", servo=self.name, name=register, value=value)

    def let_go(self) -> None:
        """Torque off."""
        self.servo.torque_off()
        self.driven = False

    def turn(self, duty: float) -> None:
        """Turn endlessly at a duty of -1..1, open loop: the servo's wheel mode by its own registers."""
        if self._limits is None:
            self.let_go()
            self._limits = self.servo.read("cw_angle_limit"), self.servo.read("ccw_angle_limit")
            self._write_angle_limits(0, 0)
            self.servo.write("torque_enable", 1)
            self.driven = True
        counts = round(duty * FULL)
        self.servo.write("moving_speed", signed_to_bits(counts))
        self._columns["duty"] = counts / FULL
        self._command = None

    def end_turning(self) -> None:
        """Back to joint mode, limp."""
        if self._limits is None:
            return
        self.servo.write("moving_speed", 0)
        self.servo.write("torque_enable", 0)
        self._write_angle_limits(*self._limits)
        self._limits, self.driven = None, False
        self._columns.pop("duty")

    def cool(self) -> None:
        """Wait, limp, when the servo has become warm; give up waiting after `PATIENCE`.

        Raises:
            Stopped: the robot asked to stop.
        """
        if not self.servo.state.temperature >= WARM:
            return
        self.let_go()
        self._run.recorder.event(self._run.time, "cooling", temperature=self.servo.state.temperature)
        until = self._run.time + PATIENCE
        while self.servo.state.temperature > COOL and self._run.time < until:
            self._run.step(500.0)
            self._run.told(f"cooling, {self.servo.state.temperature:.0f} °C", 0.0)

    def row(self) -> dict[str, Any]:
        """What belongs to the latest sample: the goal that acts from now on, not the one that led there."""
        return {
            "truth": self.servo.truth,
            "command": self._command,
            "torque_enabled": self.driven,
            "power": self.servo.power,
            **self._columns,
        }

    def _write_angle_limits(self, clockwise: int, counter: int) -> None:
        """EEPROM: the servo hears nothing for a while after each write."""
        for register, value in (("cw_angle_limit", clockwise), ("ccw_angle_limit", counter)):
            self.servo.write(register, value)
            self._run.robot.step(EEPROM_PAUSE_MS)


class Run:
    """An experiment under way.

    Args:
        robot: The robot.
        names: Servos that it drives.
        recorder: Takes every sample.
        tick_ms: Control period.
        told: Called with the name of each segment, and the share of it that is done (0..1).
    """

    def __init__(
        self,
        robot: Drivable,
        names: Sequence[str],
        recorder: Recorder,
        tick_ms: float,
        told: Callable[[str, float], None] = lambda _name, _share: None,
    ) -> None:
        self.robot, self.recorder, self.tick_ms, self.told = robot, recorder, tick_ms, told
        self._steps = self._late = 0
        self._slipped = 0.0  # s
        self._zero = self._wall()
        self.servos = {name: Driven(self, name) for name in names}

    @property
    def time(self) -> float:
        """Time that has really passed: the robot's plus what its steps were late, s."""
        return self.robot.time + self._slipped

    def segment(self, name: str, duration: float, motion: Callable[[float], None] | None = None, **facts: Any) -> None:
        """Run for `duration` s, calling `motion(t)` before each step where one is given; record every period.

        Raises:
            Stopped: the robot asked to stop.
        """
        self.mark(name, **facts)
        began, half = self.time, self.tick_ms * 0.5e-3
        while True:
            passed = self.time - began
            if motion is not None:
                motion(passed)
            self.advance()
            passed = self.time - began
            self.told(name, min(1.0, passed / duration) if duration > 0 else 1.0)
            if passed >= duration - half:
                return

    def mark(self, name: str, **facts: Any) -> None:
        """Record that a part begins; it is of the only servo unless `facts` say otherwise."""
        if len(self.servos) == 1:
            facts = {"servo": next(iter(self.servos)), **facts}
        self.recorder.event(self.time, "segment", name=name, **facts)

    def advance(self) -> None:
        """One control period; record what the servos were like, and what they were told then.

        Raises:
            Stopped: the robot asked to stop.
        """
        rows = [(servo, self._sample(servo), self._zero, servo.row()) for servo in self.servos.values()]
        late = self._step(self.tick_ms)
        report = self.robot.last_step
        for servo, state, zero, columns in rows:
            logged = None if math.isnan(state.time) else zero + round(state.time * 1e9)
            commanded = None if report is None else report.commanded + self._slipped
            self.recorder.record_state(servo.name, state, commanded=commanded, logged=logged, **columns)
        if late == -1:
            raise Stopped
        timing = {} if report is None else {"requested_ms": report.requested, "actual_ms": report.actual}
        missing = {} if report is None else {"errors": len(report.errors)}
        self.recorder.cycle(self.time, late_ms=late, **timing, **missing)

    def step(self, ms: float) -> None:
        """Let time pass without recording it.

        Raises:
            Stopped: the robot asked to stop.
        """
        if self._step(ms) == -1:
            raise Stopped

    def note(self) -> None:
        """Record the latest samples, after the last step."""
        for servo in self.servos.values():
            self.recorder.record_state(servo.name, self._sample(servo), **servo.row())

    def outcome(self, *, whole: bool) -> Conducted:
        """How it went so far."""
        return Conducted(whole, self._steps, self._late, self._slipped)

    def _step(self, ms: float) -> float:
        late = self.robot.step(ms)
        self._steps += 1
        if late > 0:
            self._late += 1
            self._slipped += late / 1e3
        self._zero = self._wall()
        return late

    def _wall(self) -> int:
        """Wall-clock time of this clock's 0, UTC in ns."""
        report = self.robot.last_step
        sampled = [self.robot.time] if report is None else report.sampled.values()
        return wall_clock_of_zero(sampled) - round(self._slipped * 1e9)

    def _sample(self, servo: Driven) -> ServoState:
        state = servo.servo.state
        return replace(state, time=state.time + self._slipped)
