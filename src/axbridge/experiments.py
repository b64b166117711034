"""Experiments: drive one servo through a motion and record everything, the same on copper and in simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from axbridge.recorder import Recorder
from axbridge.state import ServoState

__all__ = ["Drivable", "DrivableServo", "step_and_fall"]


class DrivableServo(Protocol):
    """What an experiment needs of a servo; `axbridge.servo.Servo` has it."""

    @property
    def state(self) -> ServoState:
        """The latest sample."""

    def set_position(self, position: float) -> None:
        """Set the goal, rad."""

    def torque_on(self) -> None:
        """Drive."""

    def torque_off(self) -> None:
        """Let go."""


class Drivable(Protocol):
    """What an experiment needs of a robot; `axbridge.robot.Robot` has it."""

    @property
    def time(self) -> float:
        """S."""

    def __getitem__(self, name: str) -> DrivableServo:
        """The servo of that name."""

    def step(self, ms: float) -> float:
        """Advance one control period; -1 means stop."""


class Interrupted(Exception):
    """The robot asked to stop; the experiment ends early."""


def step_and_fall(
    robot: Drivable,
    servo: str,
    recorder: Recorder,
    *,
    start: float = 0.0,
    target: float = math.pi / 2,
    rest: float = 0.5,
    hold: float = 1.5,
    fall: float = 1.5,
    tick_ms: float = 20.0,
) -> bool:
    """The experiment of Lima et al. 2009: rest at `start`, step to `target`, hold, torque off, fall.

    Args:
        robot: The robot.
        servo: Which of its servos.
        recorder: Takes every sample, and a ``segment`` event at the start of each part.
        start: rad.
        target: rad.
        rest: Time at `start` before the step, s.
        hold: Time of the step, s.
        fall: Time after torque off, s.
        tick_ms: Control period.

    Returns:
        False when the robot asked to stop before the end.
    """
    run = _Run(robot, servo, recorder, tick_ms)
    try:
        run.goal(start)
        run.segment("rest", rest)
        run.goal(target)
        run.segment("step", hold, start=start, target=target)
        run.let_go()
        run.segment("fall", fall, start=target)
        run.note()
    except Interrupted:
        return False
    return True


class _Run:
    """One servo under way: its goal, its torque, and the recorder that sees both."""

    def __init__(self, robot: Drivable, servo: str, recorder: Recorder, tick_ms: float) -> None:
        self.robot, self.name, self.recorder, self.tick_ms = robot, servo, recorder, tick_ms
        self.servo = robot[servo]
        self.command: float | None = None
        self.driven = False

    def goal(self, position: float) -> None:
        if not self.driven:
            self.servo.torque_on()
            self.driven = True
        self.servo.set_position(position)
        self.command = position

    def let_go(self) -> None:
        self.servo.torque_off()
        self.driven = False

    def segment(
        self, name: str, duration: float, motion: Callable[[float], float] | None = None, **facts: float
    ) -> None:
        """Run for `duration` s, with the goal `motion(t)` (rad) where one is given; record every period."""
        start = self.robot.time
        self.recorder.event(start, "segment", name=name, servo=self.name, **facts)
        periods = max(1, round(duration * 1e3 / self.tick_ms))
        for period in range(periods):
            if motion is not None:
                self.goal(motion(period * self.tick_ms * 1e-3))
            self.note()
            late = self.robot.step(self.tick_ms)
            if late == -1:
                raise Interrupted
            self.recorder.cycle(self.robot.time, late_ms=late)

    def note(self) -> None:
        """Record the latest sample with the goal that acts from now on: a goal belongs to the time it is sent."""
        self.recorder.record_state(self.name, self.servo.state, command=self.command, torque_enabled=self.driven)
