"""A soft arm learns to reach in simulation, and reaches on a served robot that is another one.

    python benchmarks/learn_sim_to_real.py [--generations 14] [--targets 14]

The arm is 0.2 kg at 0.15 m on an AX-12 with its softest compliance: left to itself it sags by some degrees. A policy
of four numbers (how much it adds of the error, of its sum, of the gravity at the target, less the speed) is
optimised three times: with the paper's servo, with the AX-12 as it was fitted, and with AX-12s drawn from what the fit
leaves open. Then each is run in real time on a served robot, whose servo is none of them.
"""

import argparse
import contextlib
import json
import math
import tempfile
import time
from pathlib import Path

import numpy as np

from axbridge.config.rig import Rig
from axbridge.learn.fleet import Fleet
from axbridge.learn.randomise import Parameters, Randomisation, Supply
from axbridge.learn.reach import Reach
from axbridge.serve.background import serving

ARM = "pendulum:mass=0.2,length=0.15"
SOFT = {"cw_compliance_slope": 128, "ccw_compliance_slope": 128}
PERIOD, STEPS, LAST = 0.02, 45, 15  # s; steps of an episode, and those that count
NEAR = math.radians(2)
SPAN = 1.2  # rad

# firmware_profiles/models/ax12.toml: the ranges of the fits that are as good, and of its priors
LEFT_OPEN = {
    "motor.resistance_per_duty": (4.695, 4.2, 4.9),
    "motor.armature": (0.0084, 0.0080, 0.0093),
    "motor.dead_duty": (0.0739, 0.063, 0.077),
    "motor.efficiency": (0.5944, 0.5, 0.65),
    "sensor.lag_ms": (12.6, 11.4, 12.7),
    "sensor.latency_ms": (20.0, 17.0, 50.0),
    "friction.coulomb": (0.03, 0.02, 0.05),
    "friction.viscous": (0.003, 0.0, 0.006),
}

# The robot that is served: an older servo on a longer cable.
ANOTHER = """
base = "pendulum"
[parameters]
mass = { value = 0.2 }
length = { value = 0.15 }
[[bus]]
name = "main"
supply_voltage = 10.6
supply_resistance = 0.4
[[servo]]
name = "shaft"
model = "ax12"
registers = { cw_compliance_slope = 128, ccw_compliance_slope = 128 }
[servo.params]
motor = { efficiency = 0.53, armature = 0.0092, resistance_per_duty = 4.3 }
friction = { law = "M2", coulomb = 0.045, viscous = 0.005, stribeck = 0.015 }
sensor = { latency_ms = 36.0, lag_ms = 12.0, position_noise = 0.0015, quantised = true }
"""


def soft(rig):
    servos = (servo.model_copy(update={"registers": {**servo.registers, **SOFT}}) for servo in rig.servos)
    return rig.model_copy(update={"servos": tuple(servos)})


def goals(policy, targets, positions, velocities, sums):
    """What is commanded: the target, and what the four numbers add."""
    error = targets - positions
    return targets + policy[0] * error + policy[1] * sums + policy[2] * np.sin(targets) - policy[3] * velocities


def cost(policies, fleet, seeds):
    """Of each policy, (k,): mean distance in the steps that count, and a little of all before; rad."""
    count = len(seeds)
    targets = np.tile(np.linspace(-SPAN, SPAN, count), len(policies))[:, None]
    shared = np.repeat(np.array(policies), count, axis=0).T[:, :, None]
    fleet.reset({number: seeds[number % count] for number in range(len(targets))})
    sums, early, late = np.zeros_like(targets), 0.0, 0.0
    for step in range(STEPS):
        positions = fleet.positions
        sums += PERIOD * (targets - positions)
        fleet.tell(np.clip(goals(shared, targets, positions, fleet.velocities, sums), -2.5, 2.5))
        fleet.step(PERIOD)
        away = np.abs(fleet.true_positions - targets)
        early, late = early + away, late + (away if step >= STEPS - LAST else 0.0)
    total = late / LAST + 0.1 * early / STEPS
    return total.reshape(len(policies), count).mean(axis=1)


def train(rig, randomise, generations, episodes, workers):
    import cma

    with contextlib.redirect_stdout(None):
        search = cma.CMAEvolutionStrategy(np.zeros(4), 0.3, {"seed": 1, "popsize": 8, "verbose": -9})
    with Fleet(rig, 8 * episodes, workers=workers, randomise=randomise) as fleet:
        for generation in range(generations):
            seeds = [1000 * generation + k for k in range(episodes)]
            points = search.ask()
            search.tell(points, cost(points, fleet, seeds))
    return search.result.xfavorite


def reached(policy, environment, seeds):
    """On how many targets the served arm is within two degrees, and how far it is from them, degrees."""
    away = []
    for seed in seeds:
        seen, _ = environment.reset(seed=seed)
        total, errors = 0.0, []
        for _ in range(STEPS):
            total += PERIOD * (seen[2] - seen[0])
            seen, *_ = environment.step([float(goals(policy, seen[2], seen[0], seen[1], total))])
            errors.append(abs(seen[2] - seen[0]))
        away.append(float(np.mean(errors[-LAST:])))
    return {
        "reached": sum(error < NEAR for error in away), "of": len(away),
        "mean_deg": round(math.degrees(np.mean(away)), 2), "worst_deg": round(math.degrees(max(away)), 2),
    }  # fmt: skip


def worlds():
    """What to train on, by name."""
    arm = soft(Rig.load(ARM))
    names = tuple(LEFT_OPEN)
    value, low, high = np.array(list(LEFT_OPEN.values())).T
    told = Parameters(names, value, low, high, np.eye(len(names)), np.ones(len(names)))
    measured = Randomisation([told], supplies=[Supply(11.1, 0.2, 0.3, 0.2)])
    fitted = arm.with_model("ax12")
    return {"lima2009": (arm.with_model("lima2009"), None), "ax12": (fitted, None), "ax12 drawn": (fitted, measured)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generations", type=int, default=14)
    parser.add_argument("--targets", type=int, default=14)
    parser.add_argument("--episodes", type=int, default=6, help="targets of each candidate")
    parser.add_argument("--workers", type=int, default=None)
    given = parser.parse_args()
    policies, found = {"none": np.zeros(4)}, {}
    for name, (rig, randomise) in worlds().items():
        began = time.monotonic()
        policies[name] = train(rig, randomise, given.generations, given.episodes, given.workers)
        found[name] = {"train_s": round(time.monotonic() - began, 1)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "another.toml"
        path.write_text('name = "another"\n' + ANOTHER.strip() + "\n")
        with serving(path) as port:
            environment = Reach(soft(Rig.load(ARM)), "real", port=port, span=SPAN)
            for name, policy in policies.items():
                table = reached(policy, environment, range(given.targets))
                found[name] = {"policy": [round(float(x), 3) for x in policy], **found.get(name, {}), **table}
            environment.close()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
