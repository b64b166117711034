"""When does it help to train on robots that differ? The task of learn_sim_to_real.py, seed by seed, in seconds.

    python benchmarks/learn_spread.py [--seeds 10] [--spreads 0.05 0.1 0.2 0.3] [--generations 30]

A soft arm learns to reach on servos that somebody measured, and reaches on twenty others of the same population, whose
constants are those of `ax12` times exp(spread x a normal number). The arm is integrated here, in one compiled function
with the equations of `ax12` but for its play, because that is hundreds of times quicker than a simulator with
registers, and so trainings can run to their end. The first line says how far it is from that simulator on the same
policy.
"""

import argparse
import contextlib
import math
from functools import partial

import numba
import numpy as np
from learn_sim_to_real import (  # beside this file
    BATTERY,
    LAST,
    MEASURED,
    NAMES,
    PERIOD,
    SPAN,
    STEPS,
    VALUE,
    arm,
    cost,
    fit_of,
    servo_of,
    table,
)

from axbridge.learn.servo_env import Reach
from axbridge.units import AX

STEP, TICKS = 5e-4, 2  # s; steps from one turn of the servo's loop to the next
NOMINAL = arm().model_of(arm().servos[0])
INERTIA, WEIGHT = 0.2 * 0.15**2, 0.2 * 9.81 * 0.15  # kg·m², N·m
RESISTANCE, CONSTANT, MOST = NOMINAL.motor.resistance, NOMINAL.motor.output_constant, NOMINAL.motor.max_current
SLOPE, PUNCH, FULL = 128, 32, 1023
SPEED = 0.111 * math.pi / 30  # rad/s a count
COUNT = AX.position
STUCK, SLIDING = 0.015, 0.3  # N·m more at rest, rad/s: of the servos that are met, and of no model here


@numba.njit(cache=True)
def far_off(policy, servo, battery, target, noise, stuck, near):
    """Mean distance from the target in the steps that count, and of all, rad; `servo` in the order of `NAMES`."""
    per_duty, armature, dead, efficiency, lag, late, coulomb, output, viscous = servo
    lag, late = lag * 1e-3, late * 1e-3
    angle, speed, seen, duty, early, counted = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    steps = round(PERIOD / STEP)
    goals, goal, sums = np.zeros(STEPS + 1), 0.0, 0.0
    for cycle in range(STEPS):
        reading = round((angle + noise[cycle]) / COUNT) * COUNT
        error = target - reading
        sums += PERIOD * error
        asked = target + policy[0] * error + policy[1] * sums + policy[2] * math.sin(target)
        asked -= policy[3] * round(speed / SPEED) * SPEED
        goals[cycle] = round(min(max(asked, -2.5), 2.5) / COUNT) * COUNT
        for tick in range(steps):
            now = cycle * PERIOD + tick * STEP
            told = math.floor((now - late) / PERIOD + 1e-9)
            goal = goals[told] if told >= 0 else 0.0
            seen += STEP / lag * (angle - seen)
            if tick % TICKS == 0:
                away = goal / COUNT - round(seen / COUNT)
                part = min(1.0, (PUNCH + (FULL - PUNCH) * (abs(away) - 1) / SLOPE) / FULL) if abs(away) > 1 else 0.0
                duty = math.copysign(max(0.0, (part - dead) / (1 - dead)), away)
            resistance = RESISTANCE + per_duty * abs(duty) + battery[1] * duty * duty
            current = (battery[0] * duty - CONSTANT * speed) / resistance
            torque = efficiency * CONSTANT * min(max(current, -MOST), MOST)
            torque -= WEIGHT * math.sin(angle) + viscous * speed
            inertia = armature + INERTIA
            stop = speed * inertia / STEP + torque
            most = coulomb + output + stuck * math.exp(-abs(speed) / SLIDING)
            speed += STEP * (torque - math.copysign(min(most, abs(stop)), stop)) / inertia
            angle += STEP * speed
        off = abs(angle - target)
        early += off
        counted += off if cycle >= STEPS - LAST else 0.0
    total = counted / LAST
    return total + (0.1 * early / STEPS if near else 0.0)


def mean_off(policy, servos, batteries, targets, rng, *, stuck=0.0, near=False):
    """Of each servo with its battery, and each target: degrees, (servos, targets)."""
    noise = rng.normal(0, 0.0009 if stuck == 0 else 0.0015, (len(servos), len(targets), STEPS))
    return np.degrees([
        [far_off(policy, servo, battery, target, noise[i, k], stuck, near) for k, target in enumerate(targets)]
        for i, (servo, battery) in enumerate(zip(servos, batteries, strict=True))
    ])  # fmt: skip


def battery(random):
    return np.array([
        BATTERY.voltage + BATTERY.voltage_error * random.standard_normal(),
        max(0.0, BATTERY.resistance + BATTERY.resistance_error * random.standard_normal()),
    ])  # fmt: skip


def left_open(servo, random):
    """A servo drawn from what a fit that found `servo` leaves open."""
    tables = fit_of(servo).drawn(random)
    return np.array([tables[name.split(".")[0]][name.split(".")[1]] for name in NAMES])


def trained(draw, generations, episodes, seed):
    """A policy: `draw` gives the servo of an episode. All policies of a generation meet the same."""
    import cma

    with contextlib.redirect_stdout(None):
        search = cma.CMAEvolutionStrategy(np.zeros(4), 0.3, {"seed": seed + 1, "popsize": 8, "verbose": -9})
    targets = np.linspace(-SPAN, SPAN, episodes)
    for generation in range(generations):
        random = np.random.default_rng([seed, generation])
        servos = [draw(random) for _ in targets]
        batteries = [battery(random) for _ in targets]
        points = search.ask()
        off = [
            np.mean([
                mean_off(np.asarray(point), [servo], [volts], [target], np.random.default_rng(k), near=True)
                for k, (servo, volts, target) in enumerate(zip(servos, batteries, targets, strict=True))
            ])
            for point in points
        ]  # fmt: skip
        search.tell(points, off)
    return np.asarray(search.result.xfavorite)


def of_seed(seed, spread, given):
    """One line for each training, as in learn_sim_to_real.py: how it does on the servos that are met."""
    random = np.random.default_rng([seed, 0])
    servos = [servo_of(spread, random) for _ in range(MEASURED)]
    choices = {
        "one servo's model": lambda _random: servos[0],
        "its intervals": partial(left_open, servos[0]),
        "five servos' models": lambda random: servos[random.integers(MEASURED)],
        "five servos' intervals": lambda random: left_open(servos[random.integers(MEASURED)], random),
    }
    others = np.random.default_rng([seed, 1])
    met = [servo_of(spread, others) for _ in range(given.robots)]
    batteries = [battery(others) for _ in met]
    lines = []
    for name, draw in {"nothing": None, **choices}.items():
        policy = np.zeros(4) if draw is None else trained(draw, given.generations, given.episodes, seed)
        off = mean_off(policy, met, batteries, np.linspace(-1.1, 1.1, 7), np.random.default_rng(seed), stuck=STUCK)
        lines.append({
            "spread": spread, "seed": seed, "trained": name,
            "mean_deg": float(off.mean()), "worst_deg": float(off.max()), "reached": float((off < 2).mean()),
        })  # fmt: skip
    return lines


def check():
    """The same policy on the shipped `ax12`, here and in the simulator: mean distance, degrees."""
    policy, targets = np.array([0.2, 0.3, 0.1, 0.05]), []
    volts = np.array([[arm().buses[0].supply_voltage, arm().buses[0].supply_resistance]] * 7)
    with Reach(arm(), span=SPAN) as environment:
        theirs = math.degrees(cost(policy, environment, range(7)))
        for seed in range(7):
            environment.reset(seed=seed)
            targets.append(float(environment.targets[0]))
    ours = mean_off(policy, [VALUE], volts[:1], targets, np.random.default_rng(0), near=True).mean()
    return float(ours), theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--spreads", type=float, nargs="+", default=[0.05, 0.1, 0.2, 0.3])
    parser.add_argument("--generations", type=int, default=30)
    parser.add_argument("--episodes", type=int, default=12, help="of each candidate")
    parser.add_argument("--robots", type=int, default=20, help="servos that a policy meets")
    given = parser.parse_args()
    ours, theirs = check()
    print(f"the same policy: {ours:.2f}° here, {theirs:.2f}° in the simulator\n")
    seeds = [(spread, seed) for spread in given.spreads for seed in range(given.seeds)]
    print(table([line for spread, seed in seeds for line in of_seed(seed, spread, given)]))


if __name__ == "__main__":
    main()
