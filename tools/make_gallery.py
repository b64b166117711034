"""Draw the film strips of moves and walks for docs/, and print a table of them: every motion played in the simulator.

    python tools/make_gallery.py

All in MuJoCo. The strips show the rig's own servos, `ax12`; the table, which benchmarks/RESULTS.md holds, has those of
the paper, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from robot_png import Film, draw_strip, png_of

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_shapes
from axbridge.motion.gait import Gait
from axbridge.motion.moves import Move
from axbridge.motion.player import play
from axbridge.motion.walking import walk
from axbridge.robot.open import open_robot
from axbridge.robot.robot import Robot
from axbridge.rotations import LinkPose, roll_pitch_yaw

ROOT = Path(__file__).resolve().parents[1]
IMAGES, EXAMPLES = ROOT / "docs" / "images", ROOT / "examples"
RIG = Rig.load("bioloid").with_engine("mujoco")
UPRIGHT, LYING = (9, 1.05, 2.1), (6, 1.6, 1.5)  # pictures in a row, and inches of one


@dataclass(frozen=True)
class Entry:
    """One motion that is shown.

    Attributes:
        name: Of its picture.
        title: In the table.
        run: What plays it, called with the robot.
        start: Share of the time at which the strip begins.
        rows: Of pictures.
        form: Of them.
    """

    name: str
    title: str
    run: Callable[[Robot], object]
    start: float = 0.0
    rows: int = 1
    form: tuple[int, float, float] = UPRIGHT


def played(file: str) -> Callable[[Robot], object]:
    """Play an example."""
    return lambda robot: play(robot, Move.load(EXAMPLES / file))


def walked(gait: Gait) -> Callable[[Robot], object]:
    """Walk."""
    return lambda robot: walk(robot, gait)


ENTRIES = (
    Entry("walk", "Walk", walked(Gait(steps=4)), 0.4),
    Entry("turn", "Turn", walked(Gait(steps=6, step_length=0.0, turn=math.radians(20))), 0.35),
    Entry("squat", "Squat, twice", played("squat.json"), 0.3),
    Entry("bow", "Bow", played("bow.json"), 0.4),
    Entry("get_up_front", "Get up from the front", played("get_up_front.json"), 0.15, 3, LYING),
    Entry("get_up_back", "Get up from the back", played("get_up_back.json"), 0.15, 3, LYING),
)


@dataclass(frozen=True)
class Outcome:
    """How one went.

    Attributes:
        seconds: How long it took, getting up at the start included.
        joules: What the motors drew in all that time.
        height: Of the body's centre of mass in the end, m.
        lean: How far it leans then, rad.
        moments: Time, s, and where the links were.
    """

    seconds: float
    joules: float
    height: float
    lean: float
    moments: list[tuple[float, dict[str, LinkPose]]]


def outcome(entry: Entry, rig: Rig) -> Outcome:
    """Play it."""
    with open_robot(rig, "sim") as robot:
        simulation = robot.simulation
        assert simulation is not None
        assert simulation.engine is not None
        engine, moments = simulation.engine, [(0.0, simulation.engine.poses())]
        robot.observe(lambda _report, _states: moments.append((robot.time, engine.poses())))
        entry.run(robot)
        seconds, joules = robot.time, simulation.energy()
        for _ in range(25):  # does it go on standing?
            robot.step()
        base = simulation.base
        assert base is not None
        roll, pitch, _ = roll_pitch_yaw(base[1])
    return Outcome(seconds, joules, base[0][2], max(abs(roll), abs(pitch)), moments)


def draw(entry: Entry, done: Outcome) -> None:
    """The strip."""
    across, wide, high = entry.form
    count = across * entry.rows
    times = [
        done.seconds * (entry.start + (1 - entry.start) * number / (count - 1)) for number in range(count)
    ]  # fmt: skip
    chosen = [min(done.moments, key=lambda moment: abs(moment[0] - time)) for time in times]
    films = [Film("", chosen[across * row : across * (row + 1)]) for row in range(entry.rows)]
    figure = Figure(figsize=(wide * across, high * entry.rows), dpi=130, facecolor="white")
    draw_strip(figure, read_shapes(RIG.urdf_path(), "visual", RIG.urdf_text()), films)
    (IMAGES / f"gallery_{entry.name}.png").write_bytes(png_of(figure))


def row(entry: Entry, mine: Outcome, other: Outcome) -> str:
    """One line of the table."""
    stands = ["yes" if one.height > 0.24 and one.lean < math.radians(15) else "no" for one in (mine, other)]
    cells = (
        entry.title, f"{mine.seconds:.1f} s", f"{mine.joules:.0f} J", f"{other.joules:.0f} J",
        stands[0] if stands[0] == stands[1] else ", ".join(stands),
        f"{math.degrees(mine.lean):.0f}°, {math.degrees(other.lean):.0f}°",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Draw all, and print the table."""
    warnings.simplefilter("ignore")
    paper = RIG.with_model("lima2009")
    print("| motion | time | energy, `ax12` | energy, `lima2009` | stands in the end | leans then |")
    print("|---|---|---|---|---|---|", flush=True)
    for entry in ENTRIES:
        mine, other = outcome(entry, RIG), outcome(entry, paper)
        draw(entry, mine)
        print(row(entry, mine, other), flush=True)


if __name__ == "__main__":
    main()
