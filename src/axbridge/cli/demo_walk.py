"""The demo of a robot with legs: it walks in the simulator, and a page shows how it followed its goals."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from axbridge.cli.app import emit_json
from axbridge.cli.progress import progress

if TYPE_CHECKING:
    from axbridge.config.rig import Rig
    from axbridge.motion.walking import WalkOutcome


WALK_FILES = {"recording": "walk.mcap", "report": "report.html", "picture": "report.png"}
_STEPS = 6


def demo_walk(rig: Rig, name: str, out: Path, seed: int, *, open_page: bool, json: bool) -> None:
    """Let a robot walk in the simulator; write its recording, and how it followed its goals as page and picture."""
    from axbridge.comparison.comparison import following
    from axbridge.comparison.html import write_html
    from axbridge.comparison.png import write_png
    from axbridge.comparison.walks import sides_of
    from axbridge.motion.gait import Gait
    from axbridge.motion.walking import walk
    from axbridge.recording.provenance import describe
    from axbridge.recording.recorder import Recorder
    from axbridge.recording.stored import open_recording
    from axbridge.robot.open import open_robot

    gait = Gait(steps=_STEPS)
    files = {what: out / name for what, name in WALK_FILES.items()}
    with progress("starting the simulator", quiet=json) as show, open_robot(rig, "sim", seed=seed) as robot:
        facts = describe(rig, backend=robot.backend, seed=seed, experiment="walk", gait=asdict(gait))
        with Recorder(files["recording"], facts) as recorder, robot:  # the robot ends first
            outcome = walk(robot, gait, recorder, progress=lambda part, share: show(f"{robot.name}: {part}", share))
    with progress("writing the report", quiet=json):
        found = following(open_recording(files["recording"]))
        write_html(found, files["report"], _headline(rig, outcome), walks=sides_of(found))
        write_png(found, files["picture"], _headline(rig, outcome))
    if json:
        emit_json("demo-walk-1", {**asdict(outcome), "files": {key: str(path) for key, path in files.items()}})
    else:
        print(_headline(rig, outcome) + "\n")
        for key, path in files.items():
            print(f"{key:<10} {path}")
        print("\nnext:")
        print(f"  axbridge info {files['recording']}")
        print(f"  axbridge walk --rig {name} --steps 12")
        print(f"  axbridge serve {name} --link /tmp/robot")
    if open_page:
        typer.launch(str(files["report"].resolve()))


def _headline(rig: Rig, outcome: WalkOutcome) -> str:
    """What was found, in a sentence."""
    if outcome.fell:
        return f"{rig.name}, simulated, fell after {outcome.seconds:.1f} s."
    ahead, tilt = (outcome.distance or 0.0) * 100, math.degrees(outcome.tilt or 0.0)
    return (
        f"{rig.name}, simulated, walks {_STEPS} steps: {ahead:.1f} cm in {outcome.seconds:.1f} s "
        f"({outcome.planned * 100:.0f} cm planned), and tilts by {tilt:.0f}° at most."
    )
