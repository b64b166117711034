"""Simulated rollouts a second: compiled, and as a plain Python loop over the same model, in one run. Prints JSON.

A rollout is one recording of 6 s at 1 ms steps. The plain loop is the one in this file, over the
formulas of axbridge.plant uncompiled; it must give the same positions. The two take turns, so that both meet the same
machine; a ratio is the median over the turns. The kernel itself as plain Python, as it runs where numba is missing, is
measured in a process of its own. The first compiled call, which compiles or loads the kernel, is not
counted.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from axbridge.config.rig import Rig
from axbridge.identify.fit import base_model
from axbridge.identify.unknowns import space_of
from axbridge.jit import COMPILED
from axbridge.physics import friction, motor
from axbridge.physics import position_laws as laws
from axbridge.physics.columns import Command
from axbridge.physics.model_columns import Param
from axbridge.record.import_logs import import_log
from axbridge.replay.rollout import rollouts
from axbridge.replay.simulate import packed, runs_of

relax, mean_torque, end_current, fitted_weight, directed, budget, quantise = (
    getattr(function, "py_func", function)
    for function in (
        motor.relax, motor.mean_torque, motor.end_current, motor.fitted_weight, motor.directed, friction.budget,
        laws.quantise,
    )
)  # fmt: skip
LOOP = 1e-3  # s
LOG = Path(__file__).parents[1] / "tests" / "data" / "xl330_kp400_lift_and_drop.json"


def plain_rollout(row, runs, step=1e-3):
    """One XL330 on its pendulum: the model's own functions, uncompiled, in a loop."""
    time, sent, goal, driven = (values.tolist() for values in (runs.time, runs.sent, runs.goal, runs.driven))
    supply, inertia, gravity = (float(values[0]) for values in (runs.supply, runs.inertia, runs.gravity))
    p = {column.name: float(row[column]) for column in Param}
    gain = p["P_DUTY"] * float(runs.settings[0, Command.P_GAIN])
    total = inertia + p["ARMATURE"]
    angle, speed, now, current = float(runs.position[0]) - p["OFFSET"], float(runs.velocity[0]), time[0], 0.0
    out, j, k = [float(runs.position[0])], 0, 1
    while k < len(time):
        while j + 1 < len(time) and sent[j + 1] + p["LATENCY"] + LOOP <= now + 1e-9:
            j += 1
        h = step
        if j + 1 < len(time) and sent[j + 1] + p["LATENCY"] + LOOP - now < 1.25 * step:
            h = sent[j + 1] + p["LATENCY"] + LOOP - now
        torque, damping, resistance, left, volts = 0.0, 0.0, 1.0, 0.0, 0.0
        if driven[j]:
            error = goal[j] - quantise(angle + p["OFFSET"], p["COUNT"])
            volts = min(max(gain * error / p["COUNT"], -1.0), 1.0) * supply
            resistance = p["RESISTANCE"] + p["RESISTANCE_PER_DUTY"] * abs(volts) / supply
            left, mean = relax(resistance, p["INDUCTANCE"], h)
            efficiency = directed(p["EFFICIENCY"], p["ASYMMETRY"], volts)
            torque, damping = mean_torque(current, volts, 0.0, mean, resistance, p["CONSTANT"], efficiency)
        pull = gravity * math.sin(angle + 0.5 * h * speed)
        dry = budget(
            speed, torque - damping * speed, -pull, p["COULOMB"], p["STRIBECK"], p["STRIBECK_SPEED"],
            p["STRIBECK_EXPONENT"], p["LOAD"], p["LOAD_STRIBECK"], p["LOAD_EXTERNAL"], p["QUADRATIC"],
        )  # fmt: skip
        damping += p["VISCOUS"]
        weight = fitted_weight(h * damping / total)
        pivot = total + h * weight * damping
        fresh = ((total - h * (1.0 - weight) * damping) * speed + h * (torque - pull)) / pivot
        cut = h * dry / pivot
        fresh = fresh - cut if fresh > cut else min(fresh + cut, 0.0)
        mean_speed = weight * fresh + (1.0 - weight) * speed
        current = end_current(current, volts, left, resistance, p["CONSTANT"], mean_speed) if driven[j] else 0.0
        while k < len(time) and time[k] <= now + h:
            out.append(angle + mean_speed * (time[k] - now) + p["OFFSET"])
            k += 1
        angle += h * mean_speed
        speed = fresh
        now += h
    return np.array(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--uncompiled", action="store_true", help="only tell how long the kernel itself takes, s")
    parser.add_argument("--sets", type=int, default=200, help="parameter sets a round and core")
    options = parser.parse_args()
    rig = Rig.load("xl330_pendulum")
    runs = runs_of([import_log(LOG)], rig)
    space = space_of("pendulum-servo", None, packed(base_model(rig, "pendulum-servo"), rig))
    sets = space.sets(np.random.default_rng(0).uniform(0.3, 0.7, (options.sets, len(space))))
    if options.uncompiled:
        began = time.perf_counter()
        rollouts(sets[:1], runs)
        print(time.perf_counter() - began)
        return
    if not COMPILED:
        sys.exit("numba is not installed: there is nothing to compare")
    cores = os.cpu_count() or 1
    compiled = rollouts(sets[:1], runs)[0]
    off = float(np.degrees(np.max(np.abs(plain_rollout(sets[0], runs) - compiled))))
    if off > 1e-6:
        sys.exit(f"the plain loop and the kernel differ by {off:g} degrees: they do not compute the same")
    one, every, plain = [], [], []  # s a rollout
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(options.rounds):
            began = time.perf_counter()
            plain_rollout(sets[0], runs)
            plain.append(time.perf_counter() - began)
            began = time.perf_counter()
            rollouts(sets, runs)
            one.append((time.perf_counter() - began) / len(sets))
            began = time.perf_counter()
            list(pool.map(lambda part: rollouts(part, runs), [sets] * cores))
            every.append((time.perf_counter() - began) / (cores * len(sets)))
    bare = float(
        subprocess.run(
            [sys.executable, __file__, "--uncompiled"], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=True,
            capture_output=True, text=True,
        ).stdout
    )  # fmt: skip
    ratios = [sorted(p / c for p, c in zip(plain, times, strict=True)) for times in (one, every)]
    print(
        json.dumps(
            {
                "cores": cores,
                "compiled_rollouts_per_second_one_core": round(1 / statistics.median(one)),
                "compiled_rollouts_per_second_all_cores": round(1 / statistics.median(every)),
                "python_rollouts_per_second": round(1 / statistics.median(plain), 1),
                "ratio_one_core": round(statistics.median(ratios[0])),
                "ratio_one_core_range": [round(ratios[0][0]), round(ratios[0][-1])],
                "kernel_uncompiled_rollouts_per_second": round(1 / bare, 1),
                "ratio_one_core_to_uncompiled_kernel": round(bare / statistics.median(one)),
                "ratio_all_cores": round(statistics.median(ratios[1])),
                "ratio_all_cores_range": [round(ratios[1][0]), round(ratios[1][-1])],
                "largest_difference_deg": off,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
