"""Simulated rollouts a second: compiled, and by the same code as plain Python, in one run. Prints JSON.

A rollout is one recording of 6 s at 1 ms steps. Plain Python is `rollouts` itself where numba is switched off, in a
process of its own; it must give the same positions. They take turns, so that they meet the same machine; a ratio is the
median over the turns. Times are those of the processor, on all cores those of the wall. What compiles or loads the
kernels is not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.fit.prepare import base_model
from axbridge.fit.unknowns import space_of
from axbridge.jit import COMPILED
from axbridge.recording.import_logs import import_log
from axbridge.sim.rollout import rollouts

LOG = Path(__file__).parents[1] / "docs" / "real" / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json"


def seconds(action, clock=time.thread_time):
    """How long it takes, in processor time of this thread unless said otherwise."""
    began = clock()
    action()
    return clock() - began


def answer(sets, runs):
    """Do a rollout for every line on standard input; answer with how long it took and what came out."""
    for _ in sys.stdin:
        found = []
        took = seconds(lambda: found.append(rollouts(sets[:1], runs)[0].tolist()))  # noqa: B023 - called at once
        print(json.dumps([took, *found]), flush=True)


@contextmanager
def plain_python():
    """Something that does one rollout without numba, and returns the time it took and the positions."""
    with subprocess.Popen(
        [sys.executable, __file__, "--uncompiled"], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip

        def rollout():
            print(file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield rollout
        process.stdin.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--uncompiled", action="store_true", help="only answer: see `answer`")
    parser.add_argument("--sets", type=int, default=200, help="parameter sets a round and core")
    options = parser.parse_args()
    rig = Rig.load("xl330_pendulum")
    runs = runs_of([import_log(LOG)], rig)
    space = space_of("pendulum-servo", None, packed(base_model(rig, "pendulum-servo"), rig))
    sets = space.sets(np.random.default_rng(0).uniform(0.3, 0.7, (options.sets, len(space))))
    if options.uncompiled:
        answer(sets, runs)
        return
    if not COMPILED:
        sys.exit("numba is not installed: there is nothing to compare")
    cores = os.cpu_count() or 1
    one_core, every, plain = [], [], []  # s a rollout
    with ThreadPoolExecutor(cores) as pool, plain_python() as python:
        compiled, slowly = rollouts(sets[:1], runs)[0], np.array(python()[1])
        off = float(np.degrees(np.abs(slowly - compiled).max()))
        if off > 1e-6:
            sys.exit(f"plain Python and the kernels differ by {off:g} degrees: they do not compute the same")
        for _ in range(options.rounds):
            plain.append(python()[0])
            one_core.append(seconds(lambda: rollouts(sets, runs)) / len(sets))
            took = seconds(lambda: list(pool.map(lambda part: rollouts(part, runs), [sets] * cores)), time.perf_counter)
            every.append(took / (cores * len(sets)))
    ratios = [sorted(p / c for p, c in zip(plain, times, strict=True)) for times in (one_core, every)]
    print(
        json.dumps(
            {
                "cores": cores,
                "compiled_rollouts_per_second_one_core": round(1 / statistics.median(one_core)),
                "compiled_rollouts_per_second_all_cores": round(1 / statistics.median(every)),
                "python_rollouts_per_second": round(1 / statistics.median(plain), 1),
                "ratio_one_core": round(statistics.median(ratios[0])),
                "ratio_one_core_range": [round(ratios[0][0]), round(ratios[0][-1])],
                "ratio_all_cores": round(statistics.median(ratios[1])),
                "ratio_all_cores_range": [round(ratios[1][0]), round(ratios[1][-1])],
                "largest_difference_deg": off,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
