"""The demo of a robot with legs: it walks in the simulator, and a strip of pictures shows how."""

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
    from axbridge.rotations import LinkPose


WALK_FILES = {"recording": "walk.mcap", "picture": "walk.png"}
_STEPS = 6
_PICTURES = 7
_WIDTH, _HEIGHT = 2.6, 3.1  # inches of one picture, and of the strip


def demo_walk(rig: Rig, name: str, out: Path, seed: int, *, open_picture: bool, json: bool) -> None:
    """Let a robot walk in the simulator; write its recording and its strip of pictures.

    Args:
        rig: With legs, see `axbridge.motion.gait.can_walk`.
        name: How the user calls it.
        out: Folder for the files, which is there.
        seed: Of the simulation.
        open_picture: Show the strip in the end.
        json: Print the outcome as one JSON document.
    """
    from axbridge.motion.gait import Gait
    from axbridge.motion.walking import walk
    from axbridge.recording.provenance import describe
    from axbridge.recording.recorder import Recorder
    from axbridge.robot.open import open_robot

    gait = Gait(steps=_STEPS)
    files = {what: out / name for what, name in WALK_FILES.items()}
    moments: list[tuple[float, dict[str, LinkPose]]] = []
    with progress("starting the simulator", quiet=json) as show, open_robot(rig, "sim", seed=seed) as robot:
        assert robot.simulation is not None and robot.simulation.engine is not None  # noqa: PT018 - a rig with a world
        engine = robot.simulation.engine

        def watch(part: str, share: float) -> None:
            show(f"{robot.name}: {part}", share)
            if part == "walk" and share * (_PICTURES - 1) >= len(moments):
                moments.append((robot.time, engine.poses()))

        facts = describe(rig, backend=robot.backend, seed=seed, experiment="walk", gait=asdict(gait))
        with Recorder(files["recording"], facts) as recorder, robot:  # the robot ends first
            outcome = walk(robot, gait, recorder, progress=watch)
    with progress("drawing the robot", quiet=json):
        _draw(rig, moments, outcome, files["picture"])
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
    if open_picture:
        typer.launch(str(files["picture"].resolve()))


def _headline(rig: Rig, outcome: WalkOutcome) -> str:
    """What was found, in a sentence."""
    if outcome.fell:
        return f"{rig.name}, simulated, fell after {outcome.seconds:.1f} s."
    ahead, tilt = (outcome.distance or 0.0) * 100, math.degrees(outcome.tilt or 0.0)
    return (
        f"{rig.name}, simulated, walks {_STEPS} steps: {ahead:.1f} cm in {outcome.seconds:.1f} s "
        f"({outcome.planned * 100:.0f} cm planned), and tilts by {tilt:.0f}° at most."
    )


def _draw(rig: Rig, moments: list[tuple[float, dict[str, LinkPose]]], outcome: WalkOutcome, path: Path) -> None:
    """The strip of pictures."""
    from axbridge.comparison.plots_png import picture, save
    from axbridge.comparison.strip_png import Film, draw_strip

    film = Film("", [(time - moments[0][0], poses) for time, poses in moments])
    figure = picture(_headline(rig, outcome), (max(_WIDTH * len(moments), 7.0), _HEIGHT))
    draw_strip(figure, rig.shapes("visual"), [film], top=0.9)
    save(figure, path)
