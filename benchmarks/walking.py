"""How far the Bioloid walks in the simulator, by servo model, physics step and gait: docs/walking.md's table."""

import math
import warnings

import axbridge
from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk

BIOLOID = Rig.load("bioloid")
CASES = [
    (None, 1000 / 240, Gait()),
    ("ax12", 1000 / 240, Gait()),
    ("lima2009", 1000 / 240, Gait()),
    (None, 1.0, Gait()),
    ("ax12", 1.0, Gait()),
    (None, 1000 / 240, Gait(steps=40)),
    ("ax12", 1000 / 240, Gait(steps=40)),
    (None, 1000 / 240, Gait(step_length=0.03)),
    ("ax12", 1000 / 240, Gait(step_length=0.03)),
]


def rig(model, physics):
    servos = BIOLOID.servos
    if model:
        servos = tuple(servo.model_copy(update={"model": model, "params": {}}) for servo in servos)
    return BIOLOID.model_copy(update={"servos": servos}).overridden({"world": {"time_step_ms": physics}})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| servo model | physics step | steps | planned | walked | speed | drift | turned | most tilt | energy |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for model, physics, gait in CASES:
        with axbridge.open(rig(model, physics)) as robot:
            done = walk(robot, gait)
        print(
            f"| {model or 'the rig’s'} | {physics:.2f} ms | {gait.steps} of {gait.step_length * 100:.0f} cm "
            f"| {done.planned * 100:.0f} cm | {done.distance * 100:.1f} cm | {done.speed * 100:.1f} cm/s "
            f"| {done.sideways * 100:+.1f} cm | {math.degrees(done.turned):+.0f}° | {math.degrees(done.tilt):.1f}° "
            f"| {done.energy:.0f} J{', fell' if done.fell else ''} |",
            flush=True,
        )
