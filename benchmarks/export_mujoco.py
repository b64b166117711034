"""Steps, falls and a chirp of an arm in axbridge and, exported, in MuJoCo: root mean square differences, degrees.

python benchmarks/export_mujoco.py [--rig bench_arm] [--models lima2009 ax12]
"""

import argparse
import json
import math
from dataclasses import dataclass

import mujoco
import numpy as np

from axbridge.config.rig import Rig
from axbridge.export.mjcf import LIMP_GROUP, to_mjcf
from axbridge.robot.open import open_robot

SAMPLE = 0.005  # s
SECONDS = 1.5  # of a step, and of a fall
CHIRP, SLOW, FAST = 6.0, 0.3, 3.0  # s; Hz at its begin and its end
WIDE = math.radians(30)  # rad, its amplitude
CLEAR = 0.05  # rad to the stops


@dataclass(frozen=True)
class Move:
    """From rest at `start`, rad: a goal at each sample, rad; NaN leaves the servo as it is, which is limp at first."""

    name: str
    start: float
    goals: np.ndarray


def moves_of(rig):
    (servo,) = rig.servos
    (low, high), (bottom, top) = servo.soft_limits, rig.specs[servo.name].stops
    low, high = max(low, bottom + CLEAR), min(high, top - CLEAR)
    limp = np.full(round(SECONDS / SAMPLE), np.nan)
    for size in (10, 30, 90, -90):
        goal = np.clip(math.radians(size), low, high)
        yield Move(f"step {math.degrees(goal):.0f}°", 0.0, np.r_[goal, limp[1:]])
    for size in (45, 90, 135):
        height = float(np.clip(math.radians(size), low, high))
        yield Move(f"fall {math.degrees(height):.0f}°", height, limp)
    times = np.arange(0.0, CHIRP, SAMPLE)
    sines = np.sin(2 * np.pi * (SLOW * times + (FAST - SLOW) * times**2 / (2 * CHIRP)))
    goals = np.where(np.arange(len(times)) % 4, np.nan, np.clip(WIDE * sines, low, high))  # one in 20 ms
    yield Move(f"chirp ±{math.degrees(WIDE):.0f}°, {SLOW:g} to {FAST:g} Hz", 0.0, goals)


def in_axbridge(rig, move):
    """True positions after each sample, rad."""
    rows = []
    with open_robot(rig.with_servos(lambda _: {"position": move.start}), "sim") as robot:
        (servo,) = robot.values()
        servo.torque_off()
        for goal in move.goals:
            if not math.isnan(goal):
                servo.set_position(goal)
            robot.step(SAMPLE * 1000)
            rows.append(servo.truth.position)
    return np.array(rows)


def in_mujoco(document, move):
    """The same in MuJoCo, of a document of `to_mjcf`."""
    model = mujoco.MjModel.from_xml_string(document)
    data = mujoco.MjData(model)
    data.qpos[0] = data.ctrl[0] = move.start
    model.opt.disableactuator = 1 << LIMP_GROUP if np.isnan(move.goals).all() else 0
    times, seen = [0.0], [move.start]
    for index, goal in enumerate(move.goals):
        if not math.isnan(goal):
            data.ctrl[0] = goal
        while data.time < (index + 1) * SAMPLE - 1e-9:
            mujoco.mj_step(model, data)
            times.append(data.time)
            seen.append(data.qpos[0])
    return np.interp(SAMPLE * np.arange(1, len(move.goals) + 1), times, seen)


def differences(rig):
    """By move, degrees: base bolted down in the air, and nothing of the bus between goal and loop."""
    rig = rig.with_buses(bus_timing="none").overridden({"world": {"fixed_base": True, "ground": False}})
    document = to_mjcf(rig)
    away = {move.name: in_axbridge(rig, move) - in_mujoco(document, move) for move in moves_of(rig)}
    return {name: float(np.degrees(np.sqrt(np.mean(one**2)))) for name, one in away.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rig", default="bench_arm", help="of one servo")
    parser.add_argument("--models", nargs="+", default=["lima2009", "ax12"])
    given = parser.parse_args()
    rig = Rig.load(given.rig)
    print(json.dumps({model: differences(rig.with_model(model)) for model in given.models}, indent=2))


if __name__ == "__main__":
    main()
