"""How far a joint turns that nobody commands: the table of `tests/robot/test_unasked_motion.py`, degrees at the shaft.

Each servo of the simulator has a goal, loses its torque, is led elsewhere, and gets its torque back by one event. What
is printed is the farthest that the shaft gets from there within a second.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from axbridge.errors import ControlWarning
from tests.robot.test_unasked_motion import EVENTS, FAMILIES, PLACES, motion


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=[*FAMILIES])
    parser.add_argument("--events", nargs="*", default=[event.__name__ for event in EVENTS])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ControlWarning)
    events = [event for event in EVENTS if event.__name__ in arguments.events]
    print(" | ".join(["family and mode", "place", *(event.__name__ for event in events)]))
    for family in arguments.families:
        for where in PLACES:
            moved = [f"{math.degrees(motion(family, event, where)):.1f}" for event in events]
            print(" | ".join([family, where, *moved]), flush=True)


if __name__ == "__main__":
    main()
