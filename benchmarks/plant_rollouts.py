"""How fast the one-joint reference runs: 6 s recordings at 1 ms, many parameter sets. Prints JSON."""

import argparse
import json
import time

import numpy as np

from axbridge.comparison.recorded_runs import packed
from axbridge.config.rig import Rig
from axbridge.jit import COMPILED
from axbridge.servo.columns import Command, Param
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import FREE, JOINT_MODE, Regime, Runs


def rollouts_per_second(count):
    """Of so many parameter sets, on all cores."""
    rig = Rig.load("bench_arm")
    times = np.arange(0, 6, 0.004)
    flat, one = np.zeros_like(times), np.ones(1)
    runs = Runs(
        start=np.array([0, len(times)]), time=times, sent=times, goal=np.sin(times),
        driven=np.full(len(times), int(Regime.ON)), speed_limit=flat, duty=flat + JOINT_MODE, cap=flat + 1,
        position=flat, velocity=flat, supply=9.6 * one, inertia=7.2e-4 * one, gravity=0.081 * one, phase=0 * one,
        temperature=25 * one, passive=FREE[None], settings=np.zeros((1, len(Command))),
    )  # fmt: skip
    sets = np.tile(packed(rig.specs[rig.servos[0].name].load_model("ax12"), rig), (count, 1))
    sets[:, Param.ARMATURE] = np.linspace(0.001, 0.01, count)
    rollouts(sets[:1], runs)
    start = time.perf_counter()
    rollouts(sets, runs)
    return round(count / (time.perf_counter() - start))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sets", type=int, default=2000 if COMPILED else 2)
    count = options.parse_args().sets
    print(json.dumps({"compiled": COMPILED, "rollouts_per_second": rollouts_per_second(count)}, indent=2))


if __name__ == "__main__":
    main()
