"""Does identification find a known truth? Virtual servos with random parameters, fitted from `protocol` recordings.

Prints JSON: held-out RMSE, and how many of the 95 % intervals contain the truth; on stderr how far it is. One seed by
default; try --seeds 20. A second or two are recording, the rest is the fit.

With --off each seed makes a servo, and of it eleven: as the model has it, and with one constant that the fit holds 30 %
larger or smaller; a supply that is off is one that was written down wrong. Each does steps of 20, 60 and 120 degrees
and a fall. Its fit is least squares from the unaltered model, with the right friction law. Counted are the intervals
that contain the truth as if all constants were right, and with the constants moved.
"""

import argparse
import itertools
import json
import math
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.fit import identify
from axbridge.fit.intervals import uncertainty, widen_to
from axbridge.fit.least_squares import polish
from axbridge.fit.pipeline import judged, polished
from axbridge.fit.prepare import prepare
from axbridge.fit.search import StartOutcome
from axbridge.motion.experiments import PROTOCOL, Options, conduct
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot

COUNT = math.radians(300 / 1023)
OFF = "resistance", "torque_constant", "dead_duty", "lag", "supply"
HELD_OUT = {"slow-steps", "sin-time-square"}
SHORT = (
    *((f"step{angle}", "step", Options(angles=(math.radians(angle),), duration=0.8)) for angle in (20, 60, 120)),
    ("fall", "fall", Options(angles=(math.radians(115),))),
)
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


def altered(constant, factor):
    """Parameters of the model with one constant multiplied."""
    rig = Rig.load("bench_arm")
    model = ServoModel.load("ax12", rig.profile_of(rig.servos[0]))
    return {
        "none": {},
        "supply": {},
        "resistance": {
            "motor": {
                "resistance": factor * model.motor.resistance,
                "resistance_per_duty": factor * model.motor.resistance_per_duty,
            }
        },
        "torque_constant": {"motor": {"torque_constant": factor * model.motor.torque_constant}},
        "dead_duty": {"motor": {"dead_duty": factor * model.motor.dead_duty}},
        "lag": {"sensor": {"lag_ms": factor * model.sensor.lag_ms}},
    }[constant]


def misread(recording, factor):
    """The recording of a servo whose supply is larger by a factor than was written down."""
    tracks = {name: replace(track, voltage=track.voltage / factor) for name, track in recording.items()}
    return replace(recording, tracks=tracks)


def recorded(truth, seed, folder, experiments=PROTOCOL, constant="none", factor=1.0):
    """Experiments on a virtual servo with that truth, 0.1 degrees of noise and whole counts."""
    params = altered(constant, factor)
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
    for label, name, options in experiments:
        path = folder / f"{label}.mcap"
        with (
            open_robot(rig, "sim", seed=seed) as robot,
            Recorder(path, describe(rig, backend="sim", seed=seed, experiment=name)) as recorder,
        ):
            conduct(name, robot, servo.name, recorder, options)
        found[label] = open_recording(path)
        if constant == "supply":
            found[label] = misread(found[label], factor)
    return found


def intervals(recordings):
    """Low and high ends (n,) of the intervals without and with the constants moved, by name."""
    problem = prepare(recordings, Rig.load("bench_arm"), "ax12")
    space, runs = problem.space, problem.runs
    begin = StartOutcome(0.0, polish(space, runs, space.point(space.base), rounds=20), 0, 0)
    solution = polished(problem, None, space, [begin])
    fit = judged(problem, solution, map, lambda _what, _share: None)
    sure = widen_to(uncertainty(space, runs, space.point(fit.row)), space, space.point(fit.row), solution.free)
    return {one.unknown.name: ((sure.low[k], sure.high[k]), (one.low, one.high)) for k, one in enumerate(fit.estimates)}


def constants_off(seeds, chosen):
    """What is printed with --off."""
    cases = [("none", 1.0), *itertools.product(chosen, (1.3, 0.7))]
    counts, missed, widths, spent = {case: [0, 0, 0] for case in cases}, [], {}, 0.0
    for seed, (constant, factor) in itertools.product(seeds, cases):
        truth = truth_of(seed)
        with tempfile.TemporaryDirectory() as folder:
            found = recorded(truth, seed, Path(folder), SHORT, constant, factor)
        began = time.process_time()
        fit = intervals(list(found.values()))
        spent += time.process_time() - began
        for name, ends in fit.items():
            value = truth[name] * UNITS.get(name, 1.0)
            held = [bool(low <= value <= high) for low, high in ends]
            counts[constant, factor] = [a + b for a, b in zip(counts[constant, factor], (*held, 1), strict=True)]
            widths.setdefault(name, []).append([(high - low) / 2 / value for low, high in ends])
            if not held[1]:
                low, high = ends[1]
                missed.append(f"seed {seed} {constant} {factor} {name}: {value:.4g} not in {low:.4g} to {high:.4g}")
        print(seed, constant, factor, counts[constant, factor], f"{spent:.0f} s", file=sys.stderr, flush=True)
    off = [count for (constant, _), count in counts.items() if constant != "none"]
    return {
        "seeds": list(seeds),
        "held_without_with_of": {f"{constant} {factor}": count for (constant, factor), count in counts.items()},
        "held_without_with_of_all_off": np.sum(off, axis=0).tolist(),
        "missed_with": missed,
        "half_width_over_truth_median_without_with": {
            name: np.median(found, axis=0).tolist() for name, found in widths.items()
        },
        "cpu_seconds_of_fits": round(spent),
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=0, help="the first")
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--starts", type=int, default=2)
    arguments.add_argument("--generations", type=int, default=80)
    arguments.add_argument("--off", nargs="*", choices=OFF, help="constants that are off; alone: all of them")
    options = arguments.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    if options.off is not None:
        print(json.dumps(constants_off(seeds, options.off or OFF), indent=2))
        return
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
