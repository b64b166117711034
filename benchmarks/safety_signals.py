"""Controllers of served servos, ended in every way of `tests/support/ends.py` at random moments; prints JSON.

The robot hangs in the air: on the ground it would settle after the end, and bend the servos that hold. `--rig koch` has
an arm of X servos instead of the 18 AX-12s.

Each end takes its turn of the policies limp, park and hold, and of steps of 1, 8 and 20 ms. When the program is dead,
another client reads every servo: limp and park must have left none with torque, hold each with the present position as
its goal; behind a program that died at once, or hung, the guard must have left none with torque. A wheel must be a
joint again, and no bus watchdog armed. An exit status or words on stderr that are not those of that end are wrong, too.

The time runs from the end to torque off of the last servo, as the servos have it; with hold to the program's death,
which is when every servo has said that it holds.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support import ends

POLICIES, STEPS = ("limp", "park", "hold"), (1, 8, 20)
MOMENT = 0.25  # s in which the end comes, once the program runs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ends", type=int, default=20)
    parser.add_argument("--rig", default="bioloid")
    parser.add_argument("--way", help="this way of driving alone: 'main thread', 'child by fork', notebook, …")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    rows = [row for row in ends.TABLE if arguments.way in {None, row[0]}]
    times = defaultdict(list)
    wrong, ways, how_often, again, due = [], Counter(), Counter(), 0, []
    with ends.served(arguments.rig) as line:
        for turn in range(arguments.ends):
            due = due or random.sample(rows, len(rows))
            way, how = due.pop()
            policy, step_ms = POLICIES[turn % 3], STEPS[turn // 3 % 3]
            line.straighten()
            ended = ends.end(line, way, how, policy=policy, step_ms=step_ms, moment=random.uniform(0, MOMENT))
            ways[way] += 1
            how_often[how] += 1
            again += ended.again
            times[f"{how}, {ends.outcome(way, how, policy) or 'limp'}"].append(ended.seconds * 1e3)
            if ended.wrong:
                print(way, how, policy, step_ms, ended.wrong, file=sys.stderr, flush=True)
                wrong.append({"way": way, "end": how, "policy": policy, "step_ms": step_ms, "wrong": ended.wrong})
            if sys.stderr.isatty() or turn % 20 == 19:
                print(f"{turn + 1} ends, {len(wrong)} wrong", file=sys.stderr, flush=True)
    powered = sum(any(ends.STILL_ON in one for one in each["wrong"]) for each in wrong)
    report = {
        "ends": arguments.ends,
        "left powered": powered,
        "wrong": wrong,
        "driven by": ways,
        "ended by": how_often,
        "had to be started again": again,
        "ms": {name: {"median": median(each), "longest": max(each)} for name, each in sorted(times.items())},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
