"""Is a knee with twice the friction and slope identified beside a healthy one? A walk, or the knee alone. Prints JSON.

A Bioloid in MuJoCo at 1 ms, all its servos `ax12` models. The left knee is healthy, or has twice the friction and a
compliance slope twice as wide. Either the robot walks (`--motion walk`: 12 steps), or it hangs by its body, its
other servos hold, and the knee alone makes steps, a slow sweep, and falls without torque (`hung`: 15 s). Each recording
is fitted from the same unaltered model. Printed are the values with their intervals, how many of these hold the truth,
and of which unknowns the intervals of the two knees are apart in each seed.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from axbridge.comparison.recorded_runs import packed
from axbridge.config.rig import Rig
from axbridge.fit import identify
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot

KNEE = "left_knee"
MIDDLE = 1.0  # rad
TICK = 20  # ms: reading 18 servos takes nearly as long
STEPS = (0.0, 0.15, -0.2, 0.4, -0.6, 0.1, 0.7, -0.3)  # rad from the middle, half a second each
HUNG = {"fixed_base": True, "base_height": 1.0, "ground": False}
WORN = {
    "params": {"friction": {"coulomb": 2 * 0.03 - 0.02, "viscous": 2 * 0.003}},  # 0.02 of the dry is behind the play
    "registers": {"cw_compliance_slope": 64, "ccw_compliance_slope": 64},
}


def alone(robot):
    """The knee moves, all others hold."""
    knee = robot[KNEE]

    def wait(seconds):
        for _ in range(round(seconds * 1000 / TICK)):
            robot.step(TICK)

    for servo in robot.values():
        servo.set_position(servo.state.position)
    for angle in STEPS:
        knee.set_position(MIDDLE + angle)
        wait(0.5)
    for k in range(6000 // TICK):
        knee.set_position(MIDDLE + 0.8 * math.sin(2 * math.pi * k * TICK / 6000))
        robot.step(TICK)
    for angle in (1.7, 0.2):
        knee.set_position(angle)
        wait(1.0)
        knee.torque_off()
        wait(1.5)
        knee.torque_on()


def moved(rig, path, seed, motion):
    """The recording."""
    with (
        open_robot(rig, "sim", seed=seed) as robot,
        Recorder(path, describe(rig, backend="sim", seed=seed, experiment=motion)) as recorder,
    ):
        if motion == "walk":
            walk(robot, Gait(steps=12, turn=np.radians(8.0)), recorder)
        else:
            with RobotRecorder(robot, recorder):
                alone(robot)
    return open_recording(path)


def fitted(recording, plain, rig, seed):
    """Each unknown's value, interval and truth, SI but for the unit in its name."""
    fit = identify([recording], plain, "ax12", servo=KNEE, starts=1, generations=20, seed=seed)
    servo = next(one for one in rig.servos if one.name == KNEE)
    truth = packed(rig.model_of(servo), rig.model_copy(update={"servos": (servo,)}))
    return {
        one.unknown.name: {
            "value": float(f"{one.value * one.unknown.scale:.4g}"),
            "interval": [float(f"{end * one.unknown.scale:.4g}") for end in (one.low, one.high)],
            "truth": float(f"{truth[one.unknown.column] * one.unknown.scale:.4g}"),
            "told": one.unknown.name not in fit.uncertainty.flat,
            "holds": bool(one.low <= truth[one.unknown.column] <= one.high),
        }
        for one in fit.estimates
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--motion", choices=("hung", "walk"), default="hung")
    arguments.add_argument("--seed", type=int, default=0, help="the first")
    arguments.add_argument("--seeds", type=int, default=1)
    chosen = arguments.parse_args()
    world = {"time_step_ms": 1.0} | (HUNG if chosen.motion == "hung" else {})
    plain = Rig.load("bioloid").with_engine("mujoco").overridden({"world": world})
    worn = plain.with_servos(lambda servo: WORN if servo.name == KNEE else {})
    found, apart, holds = [], {}, []
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        knees = {}
        with tempfile.TemporaryDirectory() as folder:
            for name, rig in (("healthy", plain), ("worn", worn)):
                began = time.process_time()
                recording = moved(rig, Path(folder) / f"{name}.mcap", seed, chosen.motion)
                knees[name] = fitted(recording, plain, rig, seed)
                print(seed, name, f"{time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
        found.append(knees)
        holds += [one["holds"] for knee in knees.values() for one in knee.values()]
        for unknown, healthy in knees["healthy"].items():
            low, high = healthy["interval"]
            below, above = knees["worn"][unknown]["interval"]
            apart.setdefault(unknown, []).append(high < below or above < low)
    print(json.dumps({"knees": found, "apart": apart, "intervals": len(holds), "missed": holds.count(False)}, indent=1))


if __name__ == "__main__":
    main()
