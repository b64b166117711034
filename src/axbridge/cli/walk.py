"""`axbridge walk`: let a real or simulated Bioloid walk."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from axbridge.cli.app import DONE, FAILED_CHECK, note
from axbridge.cli.exit import interruptible, motors_after
from axbridge.cli.options import WRITES, Result, RigOption, Where, verb
from axbridge.cli.progress import progress
from axbridge.errors import Remedy, require
from axbridge.motion.gait import Gait
from axbridge.motion.walking import check
from axbridge.motion.walking import walk as walk_with
from axbridge.recording.provenance import origin_in_words
from axbridge.recording.robot_recorder import recording_of
from axbridge.robot.open import open_robot
from axbridge.view.page import watched

_SLOWER = 1.05  # ratio of measured to planned time above which a note is printed


@verb("--rig bioloid --steps 6")
def walk(
    *,
    rig: RigOption,
    where: Where,
    steps: Annotated[int, "Steps ahead."] = 12,
    period: Annotated[float, "Of two steps."] = 1.3,
    step_length: Annotated[float, "Ahead, cm a step; negative: back."] = 4.0,
    side_step: Annotated[float, "To the left, cm in two steps."] = 0.0,
    turn: Annotated[float, "To the left, degrees in two steps."] = 0.0,
    step_height: Annotated[float, "How high a foot is lifted, cm."] = 1.6,
    feedback: Annotated[float, "Share of the measured lean that hips correct, such as 0.3."] = 0.0,
    record: Annotated[Path | None, WRITES] = None,
    view: bool = False,
    seed: int = 0,
) -> Result:
    """Let a Bioloid get up, walk, and switch its motors off.

    Its steps are planned before it starts; only with --feedback does the measured lean correct them. Hold a real robot
    upright until it stands. Ctrl-C switches its motors off. The exit code is 1 if the simulated robot fell.
    """
    gait = Gait(
        steps=steps, period=period, step_length=step_length / 100, side_step=side_step / 100,
        turn=math.radians(turn), step_height=step_height / 100, feedback=feedback,
    )  # fmt: skip
    require("planning a walk", "scipy", "mujoco")
    loaded, backend = where.rig(rig), where.chosen
    realtime = True if view and backend == "sim" else None
    with (
        interruptible(record, loaded),
        watched(wanted=view),
        progress("opening the robot") as show,
        open_robot(loaded, backend, port=where.port, seed=seed, realtime=realtime) as robot,
    ):
        check(robot, gait)  # before the file is created
        facts = {"seed": seed, "experiment": "walk", "gait": asdict(gait)}
        with nullcontext() if record is None else recording_of(robot, record, loaded, **facts) as recorder:
            outcome = walk_with(robot, gait, recorder, progress=show)
    if outcome.seconds > _SLOWER * gait.duration:
        look = Remedy("doctor", port=where.port, says="the line or this computer was too slow (see {})")
        note(f"it took {outcome.seconds:.1f} s: {look}")
    lines = [
        f"robot     {origin_in_words(robot.origin)}",
        f"planned   {outcome.planned * 100:.1f} cm in {gait.duration:.1f} s",
    ]
    if outcome.distance is None or outcome.speed is None:
        lines.append("distance  unknown: a real robot cannot measure it")
    else:
        sideways, turned = (outcome.sideways or 0.0) * 100, math.degrees(outcome.turned or 0.0)
        lines += [
            f"walked    {outcome.distance * 100:.1f} cm, {outcome.speed * 100:.1f} cm/s",
            f"drifted   {sideways:+.1f} cm to the left, turned {turned:+.0f}°",
            f"tilted    {math.degrees(outcome.tilt or 0.0):.0f}° at most",
            f"fell      {'yes' if outcome.fell else 'no'}",
        ]
    lines.append(f"energy    {outcome.energy:.0f} J, {outcome.energy / outcome.seconds:.1f} W")
    lines += [] if record is None else [f"recording {record}"]
    lines += [] if robot.backend == "sim" else [motors_after(loaded)]
    more = {"origin": robot.origin, "speed": outcome.speed, "recording": record and str(record)}
    return Result({**asdict(outcome), **more}, lines, FAILED_CHECK if outcome.fell else DONE)
