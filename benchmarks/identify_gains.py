"""How well does a fit to some pendulum logs predict the others? Leaves each P gain, motion or log out in turn.

Takes Rhoban's XL330 logs (`kp100_sin_sin.json`, …). Prints JSON: for each fold the mean absolute errors, degrees, of
the logs fitted and of those left out, how far apart the best starts end, and the time; and for each kind of fold the
mean over all logs left out. With `--seeds 3` each fold is fitted with three seeds: what differs is chance. A fold is a
whole fit, a minute or two on two cores; `--only kp400 up_and_down` fits these folds alone. `--stages` fits in this
process alone, richer laws with it, and prints what part of the processor time each stage took.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

import numpy as np

from axbridge.config.rig import Rig
from axbridge.fit import identify
from axbridge.recording.import_logs import import_log


def folds_of(names, kind):
    """Fold's name -> names of the logs it leaves out."""
    if kind == "none":
        return {"none": []}
    key = {"gain": lambda n: re.search(r"kp\d+", n)[0], "motion": lambda n: re.split(r"kp\d+_", n)[1], "log": str}[kind]
    found = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found


def fold(logs, left_out, seed, options):
    """One fit, and how well it predicts."""
    began = sum(os.times()[:4])  # of this process and of those that it waited for
    stages = {}
    last = [began, "reading"]

    def report(what, _share):
        now = sum(os.times()[:4])
        stages[last[1]] = stages.get(last[1], 0.0) + now - last[0]
        last[:] = now, re.sub(r" \d.*|:.*", "", what)

    rig = Rig.load("xl330_pendulum")
    fit = identify(
        [log for name, log in logs.items() if name not in left_out],
        rig,
        "pendulum-servo",
        friction=options.friction,
        held_out=[logs[name] for name in left_out],
        starts=options.starts,
        seed=seed,
        budget=options.budget,
        richer=options.stages,
        where=map if options.stages else None,
        report=report,
    )
    report("", None)
    spent = sum(os.times()[:4]) - began
    fitted = {Path(score.name).stem: score.mae for score in fit.scores if not score.held_out}
    held = {Path(score.name).stem: score.mae for score in fit.scores if score.held_out}
    return {
        "seed": seed,
        "fitted_deg": float(np.mean(list(fitted.values()))),
        "left_out_deg": float(np.mean(list(held.values()))) if held else None,
        "left_out": held,
        "fitted": fitted,
        "parameters": {estimate.unknown.name: estimate.value for estimate in fit.estimates},
        "seconds": fit.seconds,
        "cpu_seconds": round(spent),
        "rollouts_per_cpu_second": round(fit.rollouts / spent),
        "stages": {name: round(took / spent, 3) for name, took in stages.items()} if options.stages else None,
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, help="of the logs")
    arguments.add_argument(
        "--leave-out", nargs="+", default=["gain", "motion"], choices=("none", "gain", "motion", "log")
    )
    arguments.add_argument("--only", nargs="+", help="gains, motions or logs: other folds are left out")
    arguments.add_argument("--friction")
    arguments.add_argument("--starts", type=int, default=12)
    arguments.add_argument("--budget", type=float, default=150.0, help="of each fold's search, s")
    arguments.add_argument("--seed", type=int, default=0, help="the first")
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--stages", action="store_true")
    options = arguments.parse_args()
    logs = {path.stem: import_log(path) for path in sorted(options.folder.glob("*.json"))}
    found, means = {}, {}
    for kind in options.leave_out:
        left = []
        for name, left_out in folds_of(list(logs), kind).items():
            if options.only is not None and name not in options.only:
                continue
            fits = [fold(logs, left_out, options.seed + k, options) for k in range(options.seeds)]
            found[f"{kind} {name}"] = fits
            left += [error for one in fits for error in one["left_out"].values()]
            for one in fits:
                short = {
                    key: value
                    for key, value in one.items()
                    if key.endswith(("_deg", "second", "seconds")) or key in {"seed", "stages"}
                }
                print(kind, name, short, file=sys.stderr, flush=True)
        means[kind] = float(np.mean(left)) if left else None
    print(json.dumps({"left_out_deg": means, "folds": found}, indent=2))


if __name__ == "__main__":
    main()
