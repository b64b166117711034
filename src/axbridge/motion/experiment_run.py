"""Servos under way in an experiment: their commands, part by part, and what keeps them safe."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from axbridge.errors import UsageError
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.robot.robot import Robot
from axbridge.robot.servo import Servo

WARM, COOL = 60.0, 50.0  # degC: an experiment waits, limp, from the first down to the second
PATIENCE = 600.0  # s
EEPROM_PAUSE_MS = 60.0  # a servo that becomes a wheel is deaf meanwhile

Progress = Callable[[str, float], None]  # what is under way, and the share of it that is done, 0..1


class ExperimentEnded(Exception):
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


def check_reach(servo: Servo, name: str, angles: Sequence[float]) -> None:
    """Refuse angles out of a servo's reach, before anything moves."""
    low, high = servo.min_position, servo.max_position
    for angle in angles:
        if not low - 1e-9 <= angle <= high + 1e-9:
            raise UsageError(
                f"{math.degrees(angle):.0f}° is beyond the limits of {name}: "
                f"{math.degrees(low):.0f}° to {math.degrees(high):.0f}°",
                "choose smaller angles, or widen min_position and max_position in the rig",
            )


class Driven:
    """One servo under way.

    Args:
        run: The experiment.
        name: The servo's name.
    """

    def __init__(self, run: ExperimentRun, name: str) -> None:
        self._run, self.name, self.servo = run, name, run.robot[name]
        self.driven = self._turning = False

    def goal(self, position: float) -> None:
        """Set the goal, rad; switches the motor on when it is off."""
        if not self.driven:
            self.servo.torque_on()
            self.driven = True
        self.servo.set_position(position)

    def limit_speed(self, speed: float) -> None:
        """Limit the speed of the approach, rad/s, from now on."""
        self.servo.set_velocity(speed)

    def limit_torque(self, share: float) -> None:
        """Limit the torque to a share of the servo's largest, from now on."""
        self.servo.set_available_torque(self.servo.max_torque * share)

    def set_register(self, register: str, value: int) -> None:
        """Write a register that shapes the motion, and record that it was."""
        self.servo.write(register, value)
        self._run.log.event("register", servo=self.name, name=register, value=value)

    def let_go(self) -> None:
        """Switch the servo's motor off: what follows is free motion."""
        self.servo.torque_off()
        self.driven = False

    def turn(self, duty: float) -> None:
        """Turn endlessly at a duty of -1..1, open loop."""
        if not self._turning:
            self._turning = True
            self.servo.set_duty(0.0)
            self._run.step(EEPROM_PAUSE_MS)
        self.servo.set_duty(duty)
        self.driven = True

    def end_turning(self) -> None:
        """Back to joint mode, limp."""
        if self._turning:
            self.servo.restore()
            self._turning = self.driven = False

    def cool(self) -> None:
        """Wait, limp, when the servo has become warm; give up waiting after `PATIENCE`."""
        if not self.servo.state.temperature >= WARM:
            return
        self.let_go()
        self._run.log.event("cooling", temperature=self.servo.state.temperature)
        until = self._run.time + PATIENCE
        while self.servo.state.temperature > COOL and self._run.time < until:
            self._run.step(500.0)
            self._run.progress(f"cooling, {self.servo.state.temperature:.0f} °C", 0.0)


class ExperimentRun:
    """An experiment under way.

    Args:
        robot: The robot.
        log: Records it.
        names: Servos that it drives.
        tick_ms: Control period.
        progress: Called after each step with the name of the segment and the share of it that is done (0..1); while a
            servo cools, with its temperature and 0.
    """

    def __init__(
        self, robot: Robot, log: RobotRecorder, names: Sequence[str], tick_ms: float, progress: Progress
    ) -> None:
        self.robot, self.log, self.tick_ms, self.progress = robot, log, tick_ms, progress
        self.servos = {name: Driven(self, name) for name in names}

    @property
    def time(self) -> float:
        """Time that has really passed, s."""
        return self.log.time

    def segment(self, name: str, duration: float, motion: Callable[[float], None] | None = None, **facts: Any) -> None:
        """Run for `duration` s, calling `motion(t)` before each step where one is given; record every period."""
        self.mark(name, **facts)
        began, half = self.time, self.tick_ms * 0.5e-3
        while True:
            passed = self.time - began
            if motion is not None:
                motion(passed)
            self.advance()
            passed = self.time - began
            self.progress(name, min(1.0, passed / duration) if duration > 0 else 1.0)
            if passed >= duration - half:
                return

    def mark(self, name: str, **facts: Any) -> None:
        """Record that a part begins; it is of the only servo unless `facts` say otherwise."""
        if len(self.servos) == 1:
            facts = {"servo": next(iter(self.servos)), **facts}
        self.log.mark(name, **facts)

    def advance(self) -> None:
        """One control period."""
        if self.robot.step(self.tick_ms) == -1:
            raise ExperimentEnded

    def step(self, ms: float) -> None:
        """Let time pass without recording it."""
        self.log.paused = True
        try:
            if self.robot.step(ms) == -1:
                raise ExperimentEnded
        finally:
            self.log.paused = False

    def outcome(self, *, whole: bool) -> Conducted:
        """How it went so far."""
        return Conducted(whole, self.log.steps, self.log.late, self.log.slipped)
