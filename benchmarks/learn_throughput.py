"""How many seconds of robot a second of one core makes: batches without packets, and the robot with them.

    python benchmarks/learn_throughput.py [--robots 4] [--seconds 2]

Both sides run in one process and are measured by the CPU's time, so that other programs do not matter.
"""

import argparse
import json
import time

import numpy as np

from axbridge.config.rig import Rig
from axbridge.learn.fleet import Fleet
from axbridge.robot.open import open_robot

PERIOD = 0.02  # s


def goals(rig, count, random):
    start = np.array([servo.position for servo in rig.servos])
    return np.clip(
        start + random.uniform(-0.1, 0.1, (count, len(start))), *np.array([servo.soft_limits for servo in rig.servos]).T
    )


def batch(rig, count, seconds):
    random = np.random.default_rng(0)
    with Fleet(rig, count, workers=0) as fleet:
        fleet.reset({number: number for number in range(count)})
        fleet.step(0.1)
        began = time.process_time()
        for _ in range(round(seconds / PERIOD)):
            fleet.tell(goals(rig, count, random))
            fleet.step(PERIOD)
        stepping = time.process_time() - began
        began = time.process_time()
        fleet.reset({number: number for number in range(count)})
        anew = (time.process_time() - began) / count
    return count * seconds / stepping, anew


def robot(rig, seconds):
    random = np.random.default_rng(0)
    with open_robot(rig, "sim") as one:
        one.set_positions(one.positions)
        one.step(100)
        began = time.process_time()
        for _ in range(round(seconds / PERIOD)):
            one.set_positions(goals(rig, 1, random)[0])
            one.step(1000 * PERIOD)
        return seconds / (time.process_time() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    found = {}
    for name in ("bioloid", "bench_arm"):
        rig = Rig.load(name).overridden({"world": {"engine": "mujoco"}})
        speed, anew = batch(rig, given.robots, given.seconds)
        found[name] = {
            "batch_x_real_time_a_core": round(speed, 1),
            "robot_x_real_time": round(robot(rig, given.seconds), 1),
            "reset_ms": round(anew * 1000, 1),
        }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
