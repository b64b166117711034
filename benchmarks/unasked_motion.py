"""How far a joint turns that nobody commands: the table of `tests/robot/test_unasked_motion.py`, degrees at the shaft.

Each servo of the simulator has a goal, loses its torque, is led elsewhere, and gets its torque back by one event. What
is printed is the farthest that the shaft gets from there within a second. With `--line` the same is done to servos of
a served bus by a real robot, also with Homing Offsets beside an end of the count.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from axbridge.errors import ControlWarning
from tests.robot import test_unasked_motion_on_a_line as line
from tests.robot.test_unasked_motion import EVENTS, FAMILIES, PLACES, motion


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", default=[*FAMILIES])
    parser.add_argument("--events", nargs="*", default=[event.__name__ for event in EVENTS])
    parser.add_argument("--line", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ControlWarning)
    if arguments.line:
        measure_on_a_line(arguments.families, arguments.events)
        return
    events = [event for event in EVENTS if event.__name__ in arguments.events]
    print(" | ".join(["family and mode", "place", *(event.__name__ for event in events)]))
    for family in arguments.families:
        for where in PLACES:
            moved = [f"{math.degrees(motion(family, event, where)):.1f}" for event in events]
            print(" | ".join([family, where, *moved]), flush=True)


def measure_on_a_line(families: list[str], names: list[str]) -> None:
    """The table of a real robot; its rows are those whose names begin with one of `families`."""
    events = [event for event in line.EVENTS if event.__name__ in names]
    print(" | ".join(["family and mode", "place", *(event.__name__ for event in events)]))
    for row in [row for row in line.TABLE if row.startswith(tuple(families))]:
        with tempfile.TemporaryDirectory() as folder, line.bench(Path(folder), row) as bench:
            for where, place in line.TABLE[row][2].items():
                moved = [f"{line.motion(bench, event, place):.1f}" for event in events]
                print(" | ".join([row, where, *moved]), flush=True)


if __name__ == "__main__":
    main()
