"""One servo under way in an experiment: its goal, its torque, the recorder that sees both, and what keeps it safe."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from axbridge.errors import UsageError
from axbridge.record.recorder import Recorder
from axbridge.robot.state import ServoState, Truth
from axbridge.units import signed_to_bits

__all__ = ["Drivable", "DrivableServo", "Run", "Stopped"]

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
        """What the last step did; its `commanded` is when the goals had been sent, s."""

    def __getitem__(self, name: str) -> DrivableServo:
        """The servo of that name."""

    def step(self, ms: float) -> float:
        """Advance one control period; -1 means stop."""


class Stopped(Exception):
    """The experiment ends early."""


class Run:
    """One servo under way.

    Args:
        robot: The robot.
        servo: Name of the servo.
        recorder: Takes every sample.
        tick_ms: Control period.
        told: Called with the name of each segment, and the share of it that is done (0..1).
    """

    def __init__(
        self,
        robot: Drivable,
        servo: str,
        recorder: Recorder,
        tick_ms: float,
        told: Callable[[str, float], None] = lambda _name, _share: None,
    ) -> None:
        self.robot, self.name, self.recorder, self.tick_ms, self._told = robot, servo, recorder, tick_ms, told
        self.servo = robot[servo]
        self.driven = False
        self._slipped = 0.0  # s: late steps stop the robot's clock, but not the servo's motion
        self._columns: dict[str, float] = {}
        self._command: float | None = None
        self._limits: tuple[int, int] | None = None  # the servo's own angle limits, while it turns endlessly

    def check(self, *angles: float) -> None:
        """Refuse angles out of the servo's reach, before anything moves.

        Raises:
            UsageError: names the angle and the limits.
        """
        low, high = self.servo.min_position, self.servo.max_position
        for angle in angles:
            if not low - 1e-9 <= angle <= high + 1e-9:
                raise UsageError(
                    f"{math.degrees(angle):.0f}° is beyond the limits of {self.name}: "
                    f"{math.degrees(low):.0f}° to {math.degrees(high):.0f}°",
                    "choose smaller angles, or widen min_position and max_position in the rig",
                )

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
        self.recorder.event(self.time, "register", servo=self.name, name=register, value=value)

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

    def _write_angle_limits(self, clockwise: int, counter: int) -> None:
        """EEPROM: the servo hears nothing for a while after each write."""
        for register, value in (("cw_angle_limit", clockwise), ("ccw_angle_limit", counter)):
            self.servo.write(register, value)
            self.robot.step(EEPROM_PAUSE_MS)

    def segment(self, name: str, duration: float, motion: Callable[[float], float] | None = None, **facts: Any) -> None:
        """Run for `duration` s, with the goal `motion(t)` (rad) where one is given; record every period.

        Raises:
            Stopped: the robot asked to stop.
        """
        self.recorder.event(self.time, "segment", name=name, servo=self.name, **facts)
        periods = max(1, round(duration * 1e3 / self.tick_ms))
        for period in range(periods):
            if motion is not None:
                self.goal(motion(period * self.tick_ms * 1e-3))
            state, columns = self._sample(), self._row()
            late = self.robot.step(self.tick_ms)
            self._slipped += max(0.0, late) / 1e3
            sent = getattr(self.robot.last_step, "commanded", None)
            columns["commanded"] = None if sent is None else sent + self._slipped
            self.recorder.record_state(self.name, state, **columns)
            if late == -1:
                raise Stopped
            self.recorder.cycle(self.time, late_ms=late)
            self._told(name, (period + 1) / periods)

    def note(self) -> None:
        """Record the latest sample, after the last step."""
        self.recorder.record_state(self.name, self._sample(), **self._row())

    @property
    def time(self) -> float:
        """Time that has really passed: the robot's plus what its steps were late, s."""
        return self.robot.time + self._slipped

    def _sample(self) -> ServoState:
        state = self.servo.state
        return replace(state, time=state.time + self._slipped)

    def _row(self) -> dict[str, Any]:
        """What belongs to the latest sample: the goal that acts from now on, not the one that led there."""
        return {
            "truth": self.servo.truth,
            "command": self._command,
            "torque_enabled": self.driven,
            "power": self.servo.power,
            **self._columns,
        }

    def cool(self) -> None:
        """Wait, limp, when the servo has become warm; give up waiting after `PATIENCE`.

        Raises:
            Stopped: the robot asked to stop.
        """
        if not self.servo.state.temperature >= WARM:
            return
        self.let_go()
        self.recorder.event(self.time, "cooling", temperature=self.servo.state.temperature)
        until = self.robot.time + PATIENCE
        while self.servo.state.temperature > COOL and self.robot.time < until:
            if self.robot.step(500.0) == -1:
                raise Stopped
            self._told(f"cooling, {self.servo.state.temperature:.0f} °C", 0.0)
