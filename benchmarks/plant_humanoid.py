"""How the simulated Bioloid stands, takes a push and falls. Prints JSON; `--full` is 60 s of standing and 100 falls."""

import argparse
import json
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.humanoid import Humanoid

STATICS = {"pitch_deg": -3.32, "height_m": 0.2695}  # energy minimum of the standing pose on the paper's servos


def standing(seconds, model):
    """Stand: highest speed, travel after 3 s, and how far from what statics says."""
    robot = Humanoid(model=model)
    robot.pose()
    robot.watch(3.0)
    fastest, travel = robot.watch(seconds)
    roll, pitch = robot.tilt()
    found = {
        "seconds": seconds,
        "fastest_rad_s": round(fastest, 3),
        "travel_deg": round(travel, 3),
        "roll_deg": round(float(roll), 2),
        "pitch_deg": round(float(pitch), 2),
        "height_m": round(robot.world.base()[0][2], 4),
    }
    robot.close()
    return found


def pushed(impulse):
    """Push the standing robot: does it still stand 2 s later?"""
    robot = Humanoid()
    robot.pose()
    robot.watch(1.0)
    robot.push(impulse)
    fastest, _ = robot.watch(2.0)
    upright = bool(abs(robot.tilt()).max() < 6)
    robot.close()
    return {"impulse_Ns": impulse, "stands": upright, "fastest_rad_s": round(fastest, 2)}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--full", action="store_true")
    options.add_argument("--falls", type=int)
    given = options.parse_args()
    count = given.falls or (100 if given.full else 8)
    start = time.perf_counter()
    falls = []
    for seed in range(count):
        robot = Humanoid()
        falls.append(robot.drop(seed))
        robot.close()
    took = time.perf_counter() - start
    document = {
        "statics": STATICS,
        "standing_lima2009": standing(60 if given.full else 5, "lima2009"),
        "standing_ax12": standing(60 if given.full else 5, "ax12"),
        "pushes": [pushed(impulse) for impulse in ((0.1, 0, 0), (-0.1, 0, 0), (0, 0.1, 0), (0, -0.1, 0))],
        "falls": {
            "count": count,
            "at_rest_within_5_s": sum(fall.rest < 5 for fall in falls),
            "not_at_rest": [seed for seed, fall in enumerate(falls) if not fall.rest < 5],
            "rest_median_s": round(sorted(fall.rest for fall in falls)[count // 2], 2),
            "fastest_rad_s": round(max(fall.fastest for fall in falls), 1),
            "above_2.5_times_no_load_later_than_100_ms": {
                seed: round(fall.fast_alone, 1) for seed, fall in enumerate(falls) if fall.fast_alone
            },
            "furthest_past_stop_deg": round(max(fall.past_stop for fall in falls), 2),
            "more_than_2_deg_past_stop": {
                seed: round(fall.past_stop, 2) for seed, fall in enumerate(falls) if fall.past_stop > 2
            },
            "finite": all(math.isfinite(fall.fastest) for fall in falls),
            "times_real_time": round(5.0 * count / took, 1),
        },
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
