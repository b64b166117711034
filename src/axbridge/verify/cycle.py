"""Step 4: how fast the cycle is, and whether the control period is kept. Nothing moves: every motor is off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from axbridge.bus.diagnose import look_at_rate
from axbridge.bus.handshake import ExpectedBus, Finding, measure_latency
from axbridge.config.rig import Rig
from axbridge.robot.open import open_robot
from axbridge.verify.outcome import Measured

_OFTEN = 0.1  # share of the steps: more late ones are no hiccup


def look_at_cycle(
    rig: Rig, lines: Sequence[ExpectedBus], port: str | None, seconds: float, progress: Callable[[str], None]
) -> Measured:
    """Measure the rate of full exchanges, then step the limp robot for so long in its own period.

    Raises:
        BusError: a servo does not answer, or the port is lost.
    """
    facts: dict[str, Any] = {"lines": []}
    findings: list[Finding] = []
    words: list[str] = []
    for line in lines:
        with line.open() as bus:
            about: dict[str, Any] = {}
            facts["lines"].append(about)
            ids = [servo.id for servo in line.servos]
            measure_latency(bus, ids)
            progress("measuring the rate")
            findings += look_at_rate(bus, ids, about)
        if "rate_hz" in about:
            words.append(
                f"full exchange with {len(ids)} servos: {about['rate_hz']:.0f} Hz, {about['wire_share']:.0%} of what "
                f"the wire allows (p50 {about['cycle_p50_ms']:.2f} ms, p99 {about['cycle_p99_ms']:.2f} ms)"
            )
    progress("stepping the limp robot")
    late = []
    with open_robot(rig, "real", port=port) as robot:
        for servo in robot.values():
            servo.torque_off()
        robot.step()
        end = robot.time + seconds
        while robot.time < end and robot.step() != -1:
            late.append(robot.last_step.late)
    facts |= {
        "period_ms": rig.robot.basic_time_step_ms,
        "steps": len(late),
        "late": sum(one > 0 for one in late),
        "latest_ms": max(late, default=0.0),
    }
    words.append(
        f"{facts['steps']} steps of {facts['period_ms']:g} ms: {facts['late']} late, by {facts['latest_ms']:.1f} ms at "
        "most"
    )
    return Measured(facts, words, findings + judge_lateness(facts))


def judge_lateness(facts: dict[str, Any]) -> list[Finding]:
    """Whether the control period is too short for this line and this computer."""
    if facts["late"] <= _OFTEN * facts["steps"]:
        return []
    problem = f"{facts['late']} of {facts['steps']} steps of {facts['period_ms']:g} ms came late"
    fix = "close other programs, mend what makes the line slow, or give the rig a longer basic_time_step_ms"
    return [Finding("the computer", problem, fix, False, "late")]
