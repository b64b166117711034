"""Is a knee with twice the friction told from a healthy one? A robot that hangs, its knee alone moving. Prints JSON.

A Bioloid hangs by its body in MuJoCo at 1 ms; its other servos hold. The left knee makes small steps, slow sweeps, and
falls without torque, for 20 s. It is healthy, or has twice the friction and a compliance slope twice as wide. Each
recording is fitted from the same unaltered model.
"""

import argparse
import json
import math
import tempfile
from pathlib import Path

from axbridge.config.rig import Rig
from axbridge.experiment.robot_recorder import RobotRecorder
from axbridge.fit import identify
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import open_recording
from axbridge.robot.open import open_robot

KNEE = "left_knee"
MIDDLE = 1.0  # rad
TICK = 20  # ms
STEPS = (0.0, 0.15, -0.2, 0.4, -0.6, 0.1, 0.7, -0.3)  # rad from the middle, half a second each
WORN = {"friction": {"coulomb": 2 * 0.03, "viscous": 2 * 0.003}}


def moved(rig, path, seed):
    """The recording."""
    with (
        open_robot(rig, "sim", seed=seed) as robot,
        Recorder(path, describe(rig, backend="sim", seed=seed)) as recorder,
        RobotRecorder(robot, recorder),
    ):
        knee = robot[KNEE]
        for angle in STEPS:
            knee.set_position(MIDDLE + angle)
            robot.step(500)
        for k in range(6000 // TICK):
            knee.set_position(MIDDLE + 0.8 * math.sin(2 * math.pi * k * TICK / 6000))
            robot.step(TICK)
        for angle in (1.3, 0.8):
            knee.set_position(angle)
            robot.step(1000)
            knee.torque_off()
            robot.step(1500)
            knee.torque_on()
    return open_recording(path)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=1)
    chosen = arguments.parse_args()
    world = {"time_step_ms": 1.0, "fixed_base": True, "base_height": 1.0, "ground": False}
    plain = Rig.load("bioloid").with_engine("mujoco").overridden({"world": world})
    worn = plain.with_servos(
        lambda servo: (
            {"params": WORN, "registers": {"cw_compliance_slope": 64, "ccw_compliance_slope": 64}}
            if servo.name == KNEE
            else {}
        )
    )
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rig in (("healthy", plain), ("worn", worn)):
            for seed in range(chosen.seeds):
                recording = moved(rig, Path(folder) / f"{name}{seed}.mcap", seed)
                fit = identify([recording], plain, "ax12", servo=KNEE, starts=2, generations=60, seed=seed)
                found[f"{name} {seed}"] = {
                    one.unknown.name: [float(f"{x * one.unknown.scale:.4g}") for x in (one.value, one.low, one.high)]
                    for one in fit.estimates
                } | {"not told": fit.uncertainty.flat, "error": fit.scores[0].mae}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
