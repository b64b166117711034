"""Does the paper's procedure find a known truth? Virtual servos of Lima et al. 2009 with random constants. Prints JSON.

Each seed draws Bv, Fc, Kθ, Kω and latency, records falls (45, 90, 135 degrees) and steps of eight sizes on the virtual
servo with 0.293 degree counts, 0.1 degrees of noise and 50 to 100 samples a second, and runs `paper_procedure`. An
error is that of the estimate over the truth; the data tell a constant when its 95 % interval is narrower than a fifth
of it, else it is listed as not told. The error of the step is that of the fitted model on the servo's true motion.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.fit.lima2009 import paper_procedure
from axbridge.motion.experiments import Options, conduct
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.sim.rollout import rollouts

UNITS = {"sensor.latency_ms": 1e-3}
MOTIONS = (("fall", (45, 90, 135)), ("step", (25, 40, 55, 70, 90, -35, -60, -80)))
TOLD = 0.2


def truth_of(seed):
    rng = np.random.default_rng(seed)
    return {
        "friction.viscous": rng.uniform(0.008, 0.02),
        "friction.coulomb": 10 ** rng.uniform(-4.7, -2.3),
        "controller.k_theta": rng.uniform(20, 40),
        "controller.k_omega": rng.uniform(-1.3, -0.3),
        "sensor.latency_ms": rng.uniform(5, 40),
    }


def recorded(truth, seed, folder):
    """Falls and steps on a virtual servo with that truth, and the rig it stood on."""
    params = {"sensor": {"quantised": True, "position_noise": math.radians(0.1)}}
    for name, value in truth.items():
        table, key = name.split(".")
        params.setdefault(table, {})[key] = float(value)
    rig = Rig.load("bench_arm")
    servo = rig.servos[0].model_copy(update={"model": "lima2009", "params": params})
    rig = rig.model_copy(update={"servos": (servo,)})
    tick = float(np.random.default_rng(seed + 1000).uniform(10, 20))
    found = []
    for name, angles in MOTIONS:
        path = folder / f"{name}.mcap"
        with (
            open_robot(rig, "sim", seed=seed) as robot,
            Recorder(path, describe(rig, backend="sim", seed=seed, experiment=name)) as recorder,
        ):
            options = Options(angles=tuple(math.radians(angle) for angle in angles))
            conduct(name, robot, servo.name, recorder, options, tick_ms=tick)
        found.append(open_recording(path))
    return found, rig, 1e3 / tick


def judged(seed):
    """One seed: errors in percent, and what the steps' error is in deg²."""
    truth = truth_of(seed)
    with tempfile.TemporaryDirectory() as folder:
        recordings, rig, rate = recorded(truth, seed, Path(folder))
    fit = paper_procedure(recordings, Rig.load("bench_arm"))
    falls, steps = fit.surfaces
    errors, untold = {}, {}
    for estimate in fit.estimates:
        name = estimate.unknown.name
        value = truth[name] * UNITS.get(name, 1.0)
        error = round(100 * (estimate.value / value - 1), 2)
        narrow = estimate.high - estimate.low < TOLD * abs(estimate.value)
        (errors if narrow else untold)[name] = error
    runs = runs_of(recordings[1:], rig)
    exact = rollouts(packed(rig.model_of(rig.servos[0]), rig)[None], runs, 2.5e-4)[0]
    mse = float(np.mean(np.degrees(rollouts(fit.row[None], runs)[0] - exact) ** 2))
    return {
        "seed": seed,
        "samples_per_second": round(rate, 1),
        "truth": {name: round(float(value), 6) for name, value in truth.items()},
        "error_percent": errors,
        "not_told_error_percent": untold,
        "falls_mse_deg2": round(falls.least, 4),
        "steps_mse_deg2": round(steps.least, 4),
        "steps_mse_deg2_against_the_true_model": round(mse, 4),
        "seconds": round(fit.seconds, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    found = []
    for seed in range(options.first, options.first + options.seeds):
        began = time.monotonic()
        found.append(judged(seed))
        print(json.dumps(found[-1]), f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    errors = [(abs(error), name) for one in found for name, error in one["error_percent"].items()]
    result = {
        "seeds": found,
        "worst_error_percent": max(errors),
        "worst_steps_mse_deg2": max(one["steps_mse_deg2"] for one in found),
        "worst_steps_mse_deg2_against_the_true_model": max(
            one["steps_mse_deg2_against_the_true_model"] for one in found
        ),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
