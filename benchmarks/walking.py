"""How far the Bioloid walks in the simulator: the tables of RESULTS.md.

python benchmarks/walking.py             by servo model, physics step, gait and engine
python benchmarks/walking.py --seeds 100 falls and drift with floors, masses and delays that differ at random
"""

import argparse
import math
import random
import re
import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import axbridge
from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk

BIOLOID = Rig.load("bioloid")
STEP = 1000 / 240
MODELS = "ax12", "lima2009"
CASES = [
    (STEP, Gait()),
    (1.0, Gait()),
    (STEP, Gait(steps=40)),
    (STEP, Gait(step_length=-0.03)),
    (STEP, Gait(step_length=0.0, side_step=0.03)),
    (STEP, Gait(step_length=0.02, turn=0.3)),
]


def rig(model, physics, engine="auto", latency=None):
    """The Bioloid with another servo model, physics step and delay (ms)."""
    robot = BIOLOID.with_model(model).overridden({"world": {"time_step_ms": physics, "engine": engine}})
    if latency is None:
        return robot
    late = {"params": {"sensor": {"latency_ms": latency}}}
    return robot.model_copy(update={"servos": tuple(servo.model_copy(update=late) for servo in robot.servos)})


def altered(robot, friction, heavier, folder):
    """That robot on another floor, each link heavier by its own factor."""
    text = robot.urdf_path().read_text()
    text = re.sub(r'lateral_friction value="[^"]*"', f'lateral_friction value="{friction:.3f}"', text)
    text = re.sub(r'mass value="([^"]*)"', lambda found: f'mass value="{float(found[1]) * heavier():.6g}"', text)
    (folder / "altered.urdf").write_text(text)
    world = robot.world.model_copy(update={"urdf": "altered.urdf"})
    return robot.model_copy(update={"path": folder / "altered.toml", "world": world})


def row(first, gait, done):
    print(
        f"| {first} | {gait.steps} of {gait.step_length * 100:.0f} cm | {done.planned * 100:.0f} cm "
        f"| {done.distance * 100:.1f} cm | {done.speed * 100:.1f} cm/s | {done.sideways * 100:+.1f} cm "
        f"| {math.degrees(done.turned):+.0f}° | {math.degrees(done.tilt):.1f}° "
        f"| {done.energy:.0f} J{', fell' if done.fell else ''} |",
        flush=True,
    )


def table(engines):
    way = "planned", "walked", "speed", "drift", "turned", "most tilt", "energy"
    columns = "engine", "servo model", "physics step", "steps", *way
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for engine in engines:
        for model in MODELS:
            for physics, gait in CASES:
                with axbridge.open(rig(model, physics, engine)) as robot:
                    done = walk(robot, gait)
                row(f"{engine} | {model} | {physics:.2f} ms", gait, done)


def one(job):
    """Whether a drawn robot fell, its drift (cm), turn (°), share of the way and tilt (°); its plan knows nothing."""
    engine, model, seed, gait = job
    draw = random.Random(seed)
    friction, latency = draw.uniform(0.5, 1.0), draw.uniform(10.0, 30.0)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        drawn = rig(model, STEP, engine, latency)
        changed = altered(drawn, friction, lambda: draw.uniform(0.95, 1.05), Path(folder))
        with axbridge.open(changed, seed=seed) as robot:
            robot.rig = rig(model, STEP, engine)
            done = walk(robot, gait)
    drift, turned = abs(done.sideways) * 100, abs(math.degrees(done.turned))
    return done.fell, drift, turned, done.distance / done.planned, math.degrees(done.tilt)


def seeds(count, engines, gait):
    """Friction 0.5 to 1.0, each link's mass within 5 %, latency 10 to 30 ms."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for engine in engines:
            for model in MODELS:
                name, found = f"{engine}, {model}", []
                for done in pool.map(one, [(engine, model, seed, gait) for seed in range(count)]):
                    found.append(done)
                    print(f"\r{name}: {len(found)} of {count}", end="", file=sys.stderr)
                print("\r", end="", file=sys.stderr)
                stood = [rest for fell, *rest in found if not fell]
                print(f"{name}: {count - len(stood)} of {count} fell", end="; " if stood else "\n")
                if not stood:
                    continue
                drift, turned, walked, tilt = (sorted(column) for column in zip(*stood, strict=True))
                print(
                    f"walked {walked[0]:.0%} to {walked[-1]:.0%} of the way; "
                    f"drift median {median(drift):.1f} cm, most {drift[-1]:.1f}; "
                    f"turned median {median(turned):.1f}°, most {turned[-1]:.1f}; "
                    f"tilt median {median(tilt):.1f}°, most {tilt[-1]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=0)
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--feedback", type=float, default=0.0)
    options.add_argument("--engines", default="auto")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    names = chosen.engines.split(",")
    if chosen.seeds:
        seeds(chosen.seeds, names, Gait(steps=chosen.steps, feedback=chosen.feedback))
    else:
        table(names)
