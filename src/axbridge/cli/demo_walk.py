"""The demo of a robot with legs: a virtual one walks, a model walks by the same goals, a page shows both."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

import typer

from axbridge.cli.app import emit_json
from axbridge.cli.progress import progress
from axbridge.comparison.comparison import compare
from axbridge.comparison.html import write_html
from axbridge.comparison.page import command_html
from axbridge.comparison.png import write_png
from axbridge.comparison.simulate import simulate
from axbridge.comparison.walks import sides_of
from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait
from axbridge.motion.walking import WalkOutcome, walk
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.view.replay import replay_html

WALK_FILES = {"recording": "walk.mcap", "report": "report.html", "picture": "report.png"}
_STEPS = 6
_MODELS = "ax12", "lima2009"  # of the virtual robot, and of its simulation: two that differ


def demo_walk(rig: Rig, name: str, out: Path, seed: int, *, open_page: bool, json: bool) -> None:
    """Let a virtual robot walk, simulate it by another model, and write recording, page and picture."""
    own = rig.model_of(rig.dynamixels[0]).name
    other = next(model for model in _MODELS if model != own)
    commands = [
        f"axbridge info {out / WALK_FILES['recording']}",
        f"axbridge view {out / WALK_FILES['recording']}",
        f"axbridge compare {out / WALK_FILES['recording']} --rig {name} --model {other}",
        f"axbridge walk --rig {name} --steps 12",
        f"axbridge serve {name} --link /tmp/robot",
    ]
    gait = Gait(steps=_STEPS)
    files = {what: out / name for what, name in WALK_FILES.items()}
    with progress("starting the simulator", quiet=json) as show, open_robot(rig, "sim", seed=seed) as robot:
        facts = describe(rig, backend=robot.backend, seed=seed, experiment="walk", gait=asdict(gait))
        with Recorder(files["recording"], facts) as recorder, robot:  # the robot ends first
            outcome = walk(robot, gait, recorder, progress=lambda part, share: show(f"{robot.name}: {part}", share))
    with progress("simulating", quiet=json) as show:
        walked = open_recording(files["recording"])
        simulated = simulate(walked, rig, other)
        show("writing the report")
        labels = f"virtual robot, {own}", f"simulated, {other}"
        found, title = compare(walked, simulated, labels=labels, same_clock=True), _headline(rig, outcome)
        more = [replay_html(rig, (walked, simulated), labels), "<h2>Go on with</h2>", *map(command_html, commands)]
        write_html(found, files["report"], title, walks=sides_of(found), more=more)
        write_png(found, files["picture"], title)
    if json:
        emit_json("demo-walk-1", {**asdict(outcome), "files": {key: str(path) for key, path in files.items()}})
    else:
        print(_headline(rig, outcome) + "\n")
        for key, path in files.items():
            print(f"{key:<10} {path}")
        print("\nnext:")
        print("\n".join(f"  {command}" for command in commands))
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
