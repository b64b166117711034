"""A soft arm learns to reach in simulation, and reaches on robots whose servos no training saw; seed by seed.

    python benchmarks/learn_sim_to_real.py [--seeds 10] [--spreads 0.1 0.3] [--generations 14] [--lines FILE]

The arm is 0.2 kg at 0.15 m on an AX-12 with its softest compliance: left to itself it sags by some degrees. A policy
of four numbers (how much it adds of the error, of its sum, of the gravity at the target, less the speed) is optimised
on one of several worlds. Then it reaches on twenty servos of a population, each with a battery of its own.

How AX-12s differ nobody has published, so the population's spread is a choice: each constant of each servo is that of
`ax12` times exp(spread x a normal number). For each seed some servos of it are the ones that somebody measured, and
twenty more are those that the policy meets. These also have what no model here has: friction that is larger at rest,
and more noise. All trainings of a seed meet the same twenty.
"""

import argparse
import contextlib
import json
import math
import time
from pathlib import Path

import numpy as np

from axbridge.config.rig import Rig
from axbridge.learn.randomise import Parameters, Randomisation, Supply
from axbridge.learn.servo_env import Reach

ARM = "pendulum:mass=0.2,length=0.15"
SOFT = {"cw_compliance_slope": 128, "ccw_compliance_slope": 128}
PERIOD, STEPS, LAST = 0.02, 45, 15  # s; steps of an episode, and those that count
NEAR = math.radians(2)
SPAN = 1.2  # rad
POPULATION = 8  # of CMA-ES
MEASURED = 5  # servos that somebody fitted
BATTERY = Supply(11.1, 0.2, 0.3, 0.1)  # drawn for each robot
UNSEEN = {  # of the servos that a policy meets
    "friction": {"law": "M2", "stribeck": 0.015},
    "sensor": {"position_noise": 0.0015, "quantised": True},
}

# firmware_profiles/models/ax12.toml: the ranges of the fits that are as good, and of its priors
LEFT_OPEN = {
    "motor.resistance_per_duty": (4.695, 4.2, 4.9),
    "motor.armature": (0.0082, 0.0078, 0.0093),
    "motor.dead_duty": (0.0775, 0.063, 0.080),
    "motor.efficiency": (0.5944, 0.5, 0.65),
    "sensor.lag_ms": (11.3, 10.4, 12.7),
    "sensor.latency_ms": (20.0, 17.0, 50.0),
    "friction.coulomb": (0.01, 0.0067, 0.0167),
    "friction.output": (0.02, 0.0133, 0.0333),
    "friction.viscous": (0.003, 0.0, 0.006),
}
NAMES = tuple(LEFT_OPEN)
VALUE, LOW, HIGH = np.array(list(LEFT_OPEN.values())).T


def arm(model="ax12"):
    """The arm, with the softest compliance."""
    return Rig.load(ARM).with_model(model).with_servos(lambda servo: {"registers": {**servo.registers, **SOFT}})


def servo_of(spread, random):
    """The constants of a servo of the population, in the order of `NAMES`."""
    found = VALUE * np.exp(spread * random.standard_normal(len(VALUE)))
    efficiency = NAMES.index("motor.efficiency")
    found[efficiency] = min(found[efficiency], 0.95)
    return found


def fit_of(servo):
    """A fit that found these constants, with intervals as wide as those of the AX-12A's."""
    unsure, high = np.ones(len(NAMES)), servo * HIGH / VALUE
    high[NAMES.index("motor.efficiency")] = min(high[NAMES.index("motor.efficiency")], 1.0)  # no motor has more
    return Parameters(NAMES, servo, servo * LOW / VALUE, high, np.eye(len(NAMES)), unsure)


def exactly(servo):
    """The same, as if nothing were left open."""
    return Parameters(NAMES, servo, servo, servo, np.eye(len(NAMES)), np.zeros(len(NAMES)))


def worlds(spread, random):
    """What to train on, by name: each a rig, and what differs from one of its robots to the next."""
    servos = [servo_of(spread, random) for _ in range(MEASURED)]
    batteries = [BATTERY]
    return {
        "one servo's model": (arm(), Randomisation([exactly(servos[0])])),
        "its intervals": (arm(), Randomisation([fit_of(servos[0])], supplies=batteries)),
        "five servos' models": (arm(), Randomisation([exactly(servo) for servo in servos], supplies=batteries)),
        "five servos' intervals": (arm(), Randomisation([fit_of(servo) for servo in servos], supplies=batteries)),
    }


def goal(policy, seen, total):
    """What is commanded: the target, and what the four numbers add."""
    position, velocity, target = seen
    return (
        target + policy[0] * (target - position) + policy[1] * total + policy[2] * np.sin(target) - policy[3] * velocity
    )


def away(policy, environment, seed):
    """How far the arm is from its target after each step of an episode, (STEPS,), rad."""
    seen, _ = environment.reset(seed=seed)
    total, found = 0.0, []
    for _ in range(STEPS):
        total += PERIOD * (seen[2] - seen[0])
        seen, *_ = environment.step([float(goal(policy, seen, total))])
        found.append(abs(seen[2] - seen[0]))
    return np.array(found)


def cost(policy, environment, seeds):
    """Of a policy: mean distance in the steps that count, and a little of all; rad."""
    found = np.array([away(policy, environment, seed) for seed in seeds])
    return found[:, -LAST:].mean() + 0.1 * found.mean()


def train(rig, randomise, generations, episodes, seed):
    """Four numbers that do well on robots of a world. All policies of a generation meet the same robots."""
    import cma

    options = {"seed": seed + 1, "popsize": POPULATION, "verbose": -9}  # for 0 it would take the time of day
    with contextlib.redirect_stdout(None):
        search = cma.CMAEvolutionStrategy(np.zeros(4), 0.3, options)
    with Reach(rig, span=SPAN, randomise=randomise) as environment:
        for generation in range(generations):
            seeds = [100_000 * seed + 100 * generation + k for k in range(episodes)]
            points = search.ask()
            search.tell(points, [cost(point, environment, seeds) for point in points])
    return search.result.xfavorite


def met(spread, count, random):
    """Robots of servos that no training saw."""
    unseen = [Randomisation([exactly(servo_of(spread, random))], supplies=[BATTERY]) for _ in range(count)]
    changed = arm().with_servos(lambda _: {"params": UNSEEN})
    return [one.drawn(changed, random) for one in unseen]


def reached(policy, robots, targets):
    """How far robots are from targets at the end, degrees: (robots, targets)."""
    found = []
    for rig in robots:
        with Reach(rig, span=SPAN) as environment:
            found.append([away(policy, environment, seed)[-LAST:].mean() for seed in range(targets)])
    return np.degrees(found)


def of_seed(seed, spread, given):
    """One line for each training: how its policy does on the robots that it meets."""
    robots = met(spread, given.robots, np.random.default_rng([seed, 1]))
    choices = worlds(spread, np.random.default_rng([seed, 0]))
    policies = {"nothing": np.zeros(4)}
    for name, world in {"the paper's servo": (arm("lima2009"), None), **choices}.items():
        policies[name] = train(*world, given.generations, given.episodes, seed)
    for name, policy in policies.items():
        off = reached(policy, robots, given.targets)
        yield {
            "spread": spread, "seed": seed, "trained": name, "policy": [round(float(x), 3) for x in policy],
            "mean_deg": float(off.mean()), "worst_deg": float(off.max()),
            "reached": float((off < math.degrees(NEAR)).mean()),
        }  # fmt: skip


def table(lines):
    """Means over seeds with their spread (standard deviation), and how the same seeds differ from one servo's model."""
    rows = ["| spread | trained on | mean error | worst | within 2° | less than one servo's model | better |"]
    rows.append("|---|---|---|---|---|---|---|")
    by = {(line["spread"], line["seed"], line["trained"]): line for line in lines}
    for spread in dict.fromkeys(line["spread"] for line in lines):
        for name in dict.fromkeys(line["trained"] for line in lines):
            own = [line for line in lines if (line["spread"], line["trained"]) == (spread, name)]
            mean, worst, near = (np.array([line[key] for line in own]) for key in ("mean_deg", "worst_deg", "reached"))
            base = np.array([by[spread, line["seed"], "one servo's model"]["mean_deg"] for line in own])
            less, count = base - mean, len(own)
            error = np.std(less, ddof=1) / math.sqrt(count) if count > 1 else math.nan
            gain = f"{less.mean():+.2f}° ± {error:.2f}" if name != "one servo's model" else ""
            wins = f"{np.sum(less > 0)} of {count}" if gain else ""
            rows.append(
                f"| {100 * spread:.0f} % | {name} | {mean.mean():.2f}° ± {mean.std():.2f} | "
                f"{worst.mean():.1f}° | {100 * near.mean():.0f} % | {gain} | {wins} |"
            )
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--spreads", type=float, nargs="+", default=[0.1, 0.3])
    parser.add_argument("--generations", type=int, default=14)
    parser.add_argument("--episodes", type=int, default=8, help="targets of each candidate")
    parser.add_argument("--robots", type=int, default=20, help="servos that a policy meets")
    parser.add_argument("--targets", type=int, default=7, help="of each of them")
    parser.add_argument("--lines", type=Path, help="write each seed's lines here as they come (JSON)")
    given = parser.parse_args()
    lines, began = [], time.process_time()
    for seed in range(given.seed, given.seed + given.seeds):
        for spread in given.spreads:
            for line in of_seed(seed, spread, given):
                lines.append(line)
                if given.lines is not None:
                    with given.lines.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    print(table(lines))
    print(f"\n{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
