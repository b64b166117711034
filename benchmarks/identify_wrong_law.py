"""Do intervals hold when the friction law is wrong? Fits M1 to servos whose friction follows M1, M2, M3 or M4.

Each servo is a virtual AX-12 with constants of its own: steps and falls of 1.5 s, with noise and whole counts. Prints
JSON: for each law behind the data, how many intervals miss the truth as the fit by M1 alone gives them (`before`), and
with what richer laws say (`after`); which law was named; and by how much the intervals grew.
"""

import argparse
import json
import sys
from collections import Counter
from itertools import count, islice

import numpy as np
from identify_intervals import COUNT, RIG, motion, truth  # beside this file

from axbridge.fit.friction_laws import allowing_for, richer_law
from axbridge.fit.pipeline import fit_model
from axbridge.fit.search import executor
from axbridge.servo.columns import Param

LAWS = "M1", "M2", "M3", "M4"
MOVED = 0.1  # rad: friction may hold a fall, which tells nothing then


def servo(law, seed):
    """A servo's parameter set with friction of that law."""
    rng = np.random.default_rng(seed)
    row = truth()
    row[Param.EFFICIENCY] = rng.uniform(0.45, 0.75)
    row[Param.ARMATURE] = rng.uniform(0.002, 0.007)
    row[Param.COULOMB] = rng.uniform(0.02, 0.06)
    row[Param.VISCOUS] = rng.uniform(0.01, 0.04)
    row[Param.LATENCY] = rng.uniform(0.012, 0.040)
    row[Param.SLOPE] = rng.choice([16, 32, 64, 128]) * COUNT
    row[Param.PUNCH] = rng.uniform(10, 120) / 1023
    stribeck, speed, load, at_rest = rng.uniform([0.2, 0.1, 0.03, 0.02], [0.5, 0.5, 0.12, 0.10])
    if law in {"M2", "M4"}:
        row[Param.STRIBECK], row[Param.STRIBECK_SPEED] = stribeck * row[Param.COULOMB], speed
    if law in {"M3", "M4"}:
        row[Param.LOAD] = load
    if law == "M4":
        row[Param.LOAD_STRIBECK] = at_rest
    return row


def tried(law, seed, options, running):
    """Misses before and after, the law named, and how many times as wide each interval became (n,)."""
    row = servo(law, seed)
    made = (motion(row, number) for number in count(100 * seed))
    data = list(islice((one for one in made if np.ptp(one["shoulder"].position) > MOVED), options.recordings))
    fit = fit_model(
        data, RIG, "ax12", starts=options.starts, generations=options.generations, seed=seed, richer=False,
        where=running,
    )  # fmt: skip
    richer = richer_law(
        fit.space, fit.friction, fit.runs, fit.space.point(fit.row), generations=options.generations // 2, seed=seed,
        mapper=running,
    )  # fmt: skip
    wide = allowing_for(fit, richer)
    missed = [
        [one.unknown.name for one in each.estimates if not one.low <= row[one.unknown.column] <= one.high]
        for each in (fit, wide)
    ]
    grown = [(w.high - w.low) / (n.high - n.low) for n, w in zip(fit.estimates, wide.estimates, strict=True)]
    return *missed, wide.allowed, grown


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--laws", nargs="+", default=LAWS, choices=LAWS)
    arguments.add_argument("--servos", type=int, default=4, help="of each law")
    arguments.add_argument("--recordings", type=int, default=12, help="of each servo")
    arguments.add_argument("--starts", type=int, default=2)
    arguments.add_argument("--generations", type=int, default=80)
    options = arguments.parse_args()
    found = {}
    with executor() as running:
        for law in options.laws:
            done = []
            for seed in range(options.servos):
                done.append(tried(law, seed, options, running))
                before, after, named, grown = done[-1]
                print(law, seed, "missed", before, "then", after, "named", named or "none",
                      f"width x {np.median(grown):.2f}", file=sys.stderr, flush=True)  # fmt: skip
            befores, afters, names, growths = zip(*done, strict=True)
            widths = np.concatenate(growths)
            wider = widths[widths > 1.0]
            found[law] = {
                "intervals": len(widths),
                "missed_before": sum(map(len, befores)),
                "missed_after": sum(map(len, afters)),
                "named": dict(Counter(name or "none" for name in names)),
                "times_as_wide_median": round(float(np.median(widths)), 2),
                "wider": len(wider),
                "those_times_as_wide_median": round(float(np.median(wider)), 2) if len(wider) else None,
            }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
