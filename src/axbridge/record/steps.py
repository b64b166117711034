"""Every step of a robot into a recording, whoever makes the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from axbridge.record.recorder import Recorder
from axbridge.robot.robot import Robot, StepReport
from axbridge.robot.state import ServoState, Truth

__all__ = ["record_steps"]


def record_steps(robot: Robot, recorder: Recorder) -> Callable[[], None]:
    """Record every servo's sample, target and power, and the cycle's timing, after each step from now on.

    A sample is written one step late, because its `command` is the target that acts from it on.

    Returns:
        What writes the last samples and ends it; may be called twice.
    """
    waiting: dict[str, tuple[ServoState, Truth, float]] = {}

    def write() -> None:
        for name, (state, truth, power) in waiting.items():
            servo = robot[name]
            recorder.record_state(
                name,
                state,
                truth=truth,
                command=servo.target_position,
                torque_enabled=servo.torque_enabled,
                power=power,
            )
        waiting.clear()

    def take(report: StepReport, states: Mapping[str, ServoState]) -> None:
        write()
        waiting.update({name: (states[name], servo.truth, servo.power) for name, servo in robot.items()})
        recorder.cycle(
            robot.time, requested_ms=report.requested, actual_ms=report.actual, errors=float(len(report.errors))
        )

    leave = robot.observe(take)

    def end() -> None:
        leave()
        write()

    return end
