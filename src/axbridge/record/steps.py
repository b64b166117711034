"""Every step of a robot into a recording, whoever makes the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from axbridge.record.recorder import Recorder
from axbridge.robot.robot import Robot, StepReport
from axbridge.robot.state import ServoState

__all__ = ["record_steps"]


def record_steps(robot: Robot, recorder: Recorder) -> Callable[[], None]:
    """Record every servo's sample, target and power, and the cycle's timing, after each step from now on.

    Returns:
        What ends it; may be called twice.
    """

    def take(report: StepReport, states: Mapping[str, ServoState]) -> None:
        for name, servo in robot.items():
            recorder.record_state(
                name,
                states[name],
                truth=servo.truth,
                command=servo.target_position,
                torque_enabled=servo.torque_enabled,
                power=servo.power,
            )
        recorder.cycle(
            robot.time, requested_ms=report.requested, actual_ms=report.actual, errors=float(len(report.errors))
        )

    return robot.observe(take)
