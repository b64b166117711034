"""How well does a fit to some pendulum logs predict the others? Leaves each P gain, motion or log out in turn.

Takes Rhoban's XL330 logs (`kp100_sin_sin.json`, …). Prints JSON: for each fold the mean absolute errors, degrees, of
the logs fitted and of those left out, and the time. A fold is a whole fit, about a minute on two cores.
"""

import argparse
import json
import math
import re
import sys
from pathlib import Path

import numpy as np

from axbridge.config.rig import Rig
from axbridge.identify import identify
from axbridge.record.import_logs import import_log


def folds_of(names, kind):
    """Fold's name -> names of the logs it leaves out."""
    if kind == "none":
        return {"none": []}
    key = {"gain": lambda n: re.match(r"kp\d+", n)[0], "motion": lambda n: n.split("_", 1)[1], "log": str}[kind]
    found = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found


def fold(logs, left_out, options):
    """One fit, and how well it predicts."""
    rig = Rig.load("xl330_pendulum")
    fit = identify(
        [log for name, log in logs.items() if name not in left_out],
        rig,
        "pendulum-servo",
        friction=options.friction,
        held_out=[logs[name] for name in left_out],
        starts=options.starts,
        seed=options.seed,
        budget=math.inf,  # the same result on a busy machine
    )
    fitted = {Path(score.name).stem: score.mae for score in fit.scores if not score.held_out}
    held = {Path(score.name).stem: score.mae for score in fit.scores if score.held_out}
    return {
        "fitted_deg": float(np.mean(list(fitted.values()))),
        "left_out_deg": float(np.mean(list(held.values()))) if held else None,
        "left_out": held,
        "fitted": fitted,
        "parameters": {estimate.unknown.name: estimate.value for estimate in fit.estimates},
        "seconds": fit.seconds,
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, help="of the logs")
    arguments.add_argument("--leave-out", default="gain", choices=("none", "gain", "motion", "log"))
    arguments.add_argument("--friction")
    arguments.add_argument("--starts", type=int, default=8)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    logs = {path.stem: import_log(path) for path in sorted(options.folder.glob("*.json"))}
    found = {}
    for name, left_out in folds_of(list(logs), options.leave_out).items():
        found[name] = fold(logs, left_out, options)
        print(name, {key: value for key, value in found[name].items() if key.endswith("_deg")}, file=sys.stderr)
    left = [error for entry in found.values() for error in entry["left_out"].values()]
    print(json.dumps({"left_out_deg": float(np.mean(left)) if left else None, "folds": found}, indent=2))


if __name__ == "__main__":
    main()
