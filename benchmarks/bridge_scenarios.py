"""What goes wrong between a program and a robot that has `axbridge bridge` between them: how long until it is safe.

Each row of tests/support/bridge_scenarios.py: s from the event, or the program's start, until all motors are off, or
until the rule has acted; and the farthest way of a joint in between and shortly after.

    .venv/bin/python benchmarks/bridge_scenarios.py --only killed
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.bridge_scenarios import SCENARIOS, Stations


def main() -> None:
    """Print a row for each scenario."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="scenarios with this in their names")
    given = options.parse_args()
    failed = 0
    print(f"{'scenario':<48} {'after':<6} {'rule':<12} {'safe ms':>8} {'moved °':>8}  wrong")
    with tempfile.TemporaryDirectory() as folder:
        stations = Stations(folder)
        for row in SCENARIOS:
            if given.only in row.name:
                done = stations(row).play(row)
                failed += bool(done.wrong)
                times = f"{done.seconds * 1e3:8.0f} {math.degrees(done.moved):8.1f}"
                print(f"{row.name:<48} {row.after:<6} {row.rule:<12} {times}  {'; '.join(done.wrong)}", flush=True)
        stations.close()
    print(f"{failed} wrong")


if __name__ == "__main__":
    main()
