"""Simulated rollouts a second: the compiled rollouts against the same code as plain Python, in one run.

Prints JSON. A rollout is one recording of 6 s at 1 ms steps.
"""

import json
import math
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from axbridge.identify.fitting import base_model
from axbridge.identify.space import space_of
from axbridge.importers import import_log
from axbridge.plant import rollout
from axbridge.replay import packed, runs_of
from axbridge.rig import Rig

ROUNDS = 8
LOG = Path(__file__).parents[1] / "tests" / "data" / "xl330_kp400_lift_and_drop.json"


def python_rollout(row, runs, out):
    """The loop of the compiled kernel, interpreted."""
    rollout._one.py_func(  # noqa: SLF001
        row, runs.time, runs.sent, runs.goal, runs.driven, runs.speed_limit, runs.duty, runs.position[0],
        runs.velocity[0], runs.supply[0], runs.inertia[0], runs.gravity[0], runs.phase[0], runs.p_gain[0], 1e-3, out,
    )  # fmt: skip


def main():
    if not rollout.COMPILED:
        sys.exit("numba is not installed: there is nothing to compare")
    rig = Rig.load("xl330_pendulum")
    runs = runs_of([import_log(LOG)], rig)
    space = space_of("pendulum-servo", None, packed(base_model(rig, "pendulum-servo"), rig))
    sets = space.sets(np.random.default_rng(0).uniform(0.3, 0.7, (100, len(space))))
    compiled = rollout.rollouts(sets[:1], runs)[0]
    plain = np.empty_like(compiled)
    cores = os.cpu_count() or 1
    parts = np.array_split(np.tile(sets, (cores, 1)), 2 * cores)
    best = dict.fromkeys(("one", "all", "python"), math.inf)  # s a rollout: the least disturbed of the rounds
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            rollout.rollouts(sets, runs)
            best["one"] = min(best["one"], (time.perf_counter() - began) / len(sets))
            began = time.perf_counter()
            list(pool.map(lambda part: rollout.rollouts(part, runs), parts))
            best["all"] = min(best["all"], (time.perf_counter() - began) / (cores * len(sets)))
            began = time.perf_counter()
            for _ in range(5):
                python_rollout(sets[0], runs, plain)
            best["python"] = min(best["python"], (time.perf_counter() - began) / 5)
    print(
        json.dumps(
            {
                "compiled_rollouts_per_second_one_core": round(1 / best["one"]),
                "compiled_rollouts_per_second_all_cores": round(1 / best["all"]),
                "python_rollouts_per_second": round(1 / best["python"], 1),
                "ratio_one_core": round(best["python"] / best["one"]),
                "ratio_all_cores": round(best["python"] / best["all"]),
                "largest_difference_deg": float(np.degrees(np.max(np.abs(plain - compiled)))),
            }
        )
    )


if __name__ == "__main__":
    main()
