"""Does identification find a known truth? Virtual servos with random parameters, fitted from `protocol` recordings.

Prints JSON: held-out RMSE, and how many of the 95 % intervals contain the truth; on stderr how far it is. One seed by
default; try --seeds 20. A second or two are recording, the rest is the fit.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from axbridge.config.rig import Rig
from axbridge.fit import identify
from axbridge.motion.experiments import PROTOCOL, conduct
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot

COUNT = math.radians(300 / 1023)
HELD_OUT = {"slow-steps", "sin-time-square"}
UNITS = {"controller.slope": COUNT, "controller.punch": 1 / 1023, "sensor.latency_ms": 1e-3}


def truth_of(seed):
    rng = np.random.default_rng(seed)
    return {
        "motor.efficiency": rng.uniform(0.45, 0.75),
        "motor.armature": rng.uniform(0.002, 0.007),
        "friction.coulomb": rng.uniform(0.02, 0.06),
        "friction.viscous": rng.uniform(0.01, 0.04),
        "sensor.latency_ms": rng.uniform(12, 40),
        "controller.slope": int(rng.choice([16, 32, 64, 128])),  # counts
        "controller.punch": int(rng.uniform(10, 120)),  # counts
    }


def recorded(truth, seed, folder):
    """The protocol on a virtual servo with that truth, 0.1 degrees of noise and whole counts."""
    params = {}
    for name in ("motor.efficiency", "motor.armature", "friction.coulomb", "friction.viscous", "sensor.latency_ms"):
        table, key = name.split(".")
        params.setdefault(table, {})[key] = float(truth[name])
    params["sensor"]["position_noise"] = math.radians(0.1)
    slope, punch = truth["controller.slope"], truth["controller.punch"]
    registers = {"cw_compliance_slope": slope, "ccw_compliance_slope": slope, "punch": punch}
    rig = Rig.load("bench_arm")
    servo = rig.servos[0].model_copy(update={"model": "ax12", "params": params, "registers": registers})
    rig = rig.model_copy(update={"servos": (servo,)})
    found = {}
    for label, name, options in PROTOCOL:
        path = folder / f"{label}.mcap"
        with (
            open_robot(rig, "sim", seed=seed) as robot,
            Recorder(path, describe(rig, backend="sim", seed=seed, experiment=name)) as recorder,
        ):
            conduct(name, robot, servo.name, recorder, options)
        found[label] = open_recording(path)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=0, help="the first")
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--starts", type=int, default=2)
    arguments.add_argument("--generations", type=int, default=80)
    options = arguments.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    inside, total, errors, outside, widths = 0, 0, [], [], {}
    began = time.monotonic()
    for seed in seeds:
        truth = truth_of(seed)
        with tempfile.TemporaryDirectory() as folder:
            found = recorded(truth, seed, Path(folder))
        fit = identify(
            [found[label] for label in found if label not in HELD_OUT],
            Rig.load("bench_arm"),
            "ax12",
            held_out=[found[label] for label in HELD_OUT],
            starts=options.starts,
            generations=options.generations,
        )
        for estimate in fit.estimates:
            name = estimate.unknown.name
            value = truth[name] * UNITS.get(name, 1.0)
            total += 1
            widths.setdefault(name, []).append((estimate.high - estimate.low) / 2 / value)
            if estimate.low <= value <= estimate.high:
                inside += 1
            else:
                outside.append(f"seed {seed} {name}: {value:.4g} not in {estimate.low:.4g} to {estimate.high:.4g}")
        errors += [score.rmse for score in fit.scores if score.held_out]
        so_far = (
            f"{inside} of {total} intervals, worst held-out RMSE {max(errors):.3f}°, {time.monotonic() - began:.0f} s"
        )
        print(f"seed {seed}: {so_far}", file=sys.stderr, flush=True)
    print(
        json.dumps(
            {
                "seeds": options.seeds,
                "held_out_rmse_deg_worst": max(errors),
                "held_out_rmse_deg_mean": float(np.mean(errors)),
                "intervals_containing_the_truth": inside / total,
                "outside": outside,
                "half_width_over_truth_median": {name: float(np.median(found)) for name, found in widths.items()},
                "seconds": round(time.monotonic() - began),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
