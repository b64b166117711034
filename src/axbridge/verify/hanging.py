"""Step 8: the robot, held in the air, takes its walk-ready pose and some steps, at half its torque."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.bus.handshake import Finding
from axbridge.comparison.comparison import following
from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.verify.outcome import Measured

_BEHIND = 12.0  # degrees behind its goal at the worst moment: what lags less is no more than slow


def look_at_steps(
    rig: Rig, port: str | None, steps: int, path: Path, progress: Callable[[str, float], None]
) -> Measured:
    """Let the robot take so many steps in the air, and look how far its joints are behind their goals.

    Raises:
        BusError: a servo failed or got lost under way.
        RigError: the robot stands as it cannot.
        RecordingError: the recording cannot be written.
    """
    gait = Gait(steps=steps)
    facts = describe(rig, backend="real", experiment="walk in the air", gait=asdict(gait))
    with open_robot(rig, "real", port=port) as robot, Recorder(path, facts) as recorder, robot:
        outcome = walk(robot, gait, recorder, hanging=True, progress=progress)
    recording = open_recording(path)
    begin = next(part for part in recording.segments if part.name == "walk")
    behind, weakest = _behind(recording, begin.start, begin.end)
    about: dict[str, Any] = {
        "steps": steps, "seconds": outcome.seconds, "behind_deg": behind, "weakest_v": weakest,
    }  # fmt: skip
    worst = max(behind, key=lambda name: behind[name])
    lag = f"{worst} was {behind[worst]:.1f}° behind its goal at most"
    lines = [f"{steps} steps in {outcome.seconds:.1f} s; {lag}; {weakest:.1f} V at least"]
    return Measured(about, lines, judge_steps(rig, about))


def _behind(recording: Recording, start: float, end: float) -> tuple[dict[str, float], float]:
    """How far each joint was behind its goal at most, degrees, with mere lateness taken out; the lowest supply, V."""
    walked = replace(recording, tracks={name: track.between(start, end) for name, track in recording.items()})
    volts = min(float(np.nanmin(track.voltage)) for track in walked.values())
    pairs = following(walked).pairs
    return {pair.name: (pair.plain if pair.aligned is None else pair.aligned).worst for pair in pairs}, volts


def judge_steps(rig: Rig, about: dict[str, Any]) -> list[Finding]:
    """Joints that did not follow."""
    findings = []
    for servo in rig.servos:
        worst = about["behind_deg"].get(servo.name, 0.0)
        if worst > _BEHIND:
            problem = f"was {worst:.0f}° behind its goal, though it carried nothing but itself"
            fix = f"look what holds it, and at its supply; then axbridge verify --rig {rig.path} --only joints"
            findings.append(Finding(f"{servo.name} (id {servo.id})", problem, fix, False, "behind", servo.id))
    return findings
