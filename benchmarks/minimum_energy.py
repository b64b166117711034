"""What moves of least energy save in the simulator, beside the smoothest ones: the table of RESULTS.md.

Both go from the same pose to the same pose in the same time, and then rest for half a second. The energy is what the
motors draw in all that time: as the servo models predict it, and in the simulator, with each engine. How a standing
robot came to its first pose decides how it rests there. So it goes to the second one and back, at several speeds; the
table has the means, and from what to what the savings go.

python benchmarks/minimum_energy.py                     all moves, each in its time
python benchmarks/minimum_energy.py --moves squat --models ax12
"""

import argparse
import math
import time
import warnings

import axbridge
from axbridge.config.rig import Rig
from axbridge.motion.energy import least_energy
from axbridge.motion.moves import Key, Page, tracks
from axbridge.motion.player import play

BEFORE, AFTER = 1.0, 0.5  # s of rest
STARTS = (0.7, 1.0, 1.4)  # s in which a standing robot comes back to its first pose


def sides(**joints):
    return {f"{side}_{joint}": angle for joint, angle in joints.items() for side in ("left", "right")}


STAND = sides(hip_swing=0.632, knee=1.277, ankle_swing=0.645)
DEEP = sides(hip_swing=1.082, knee=2.177, ankle_swing=1.095)
STRAIGHT = {"hip_swing": 0.632, "knee": 1.277, "ankle_swing": 0.645}
BENT = {"hip_swing": 1.382, "knee": 2.277, "ankle_swing": 0.895}
MOVES = {
    "arm": ("bench_arm", ({"shoulder": 0.0}, {"shoulder": 1.5}), 1.0),
    "arm, held high": ("bench_arm", ({"shoulder": 0.5}, {"shoulder": 2.5}), 1.0),
    "leg": ("leg", (STRAIGHT, BENT), 1.0),
    "leg, quickly": ("leg", (STRAIGHT, BENT), 0.5),
    "squat": ("bioloid", (STAND, DEEP, STAND), 1.0),
    "up from a squat": ("bioloid", (DEEP, STAND), 1.0),
    "arm raise": ("bioloid", (sides(shoulder_swing=0.0), sides(shoulder_swing=1.4)), 1.0),
}


def move(poses, seconds):
    keys = [Key(positions=pose, time=seconds) for pose in poses]
    keys[-1] = keys[-1].model_copy(update={"pause": AFTER})
    return axbridge.Move(pages={"1": Page(keys=tuple(keys))})


def played(rig, wanted, poses, seconds):
    """Energy of a move in the simulator, J, where its joints end, rad, and how far the robot leans then, rad.

    Before, it goes to the second of its poses, and comes back in so many seconds; None: it does not.
    """
    page = wanted.single
    with axbridge.open(rig) as robot:
        play(robot, axbridge.Move(pages={"1": page.model_copy(update={"keys": page.keys[:1]})}))
        if seconds is not None:
            robot.goto(poses[1], 1.0)
            robot.goto(poses[0], seconds)
        for _ in range(round(BEFORE / 0.02)):
            robot.step()
        ways, end = tracks(page), page.duration
        begun, now = robot.simulation.energy(), page.keys[0].time
        while now < end - 1e-9:
            now += 0.02
            for joint, way in ways.items():
                robot[joint].set_position(way.at(now))
            robot.step()
        base = robot.simulation.base
        x, y = base[1][:2] if base is not None else (0.0, 0.0)
        lean = 2 * math.asin(min(1.0, math.hypot(x, y)))
        return robot.simulation.energy() - begun, {name: robot[name].position for name in ways}, lean


def row(name, model, engines):
    rig_name, poses, seconds = MOVES[name]
    rig = Rig.load(rig_name).with_model(model)
    smooth = move(poses, seconds)
    begun = time.process_time()
    best = least_energy(rig, smooth)
    took = time.process_time() - begun
    predicted = f"{best.minimum_jerk:.2f} → {best.joules:.2f} J ({-best.saved:+.0%})"
    simulated, apart, leans = [], 0.0, [0.0, 0.0]
    for engine in engines:
        world = rig.with_engine(engine)
        energies = []
        for start in STARTS if rig_name == "bioloid" else (None,):
            (usual, ends, leant), (spared, others, lean) = (
                played(world, one, poses, start) for one in (smooth, best.move)
            )
            energies.append((usual, spared))
            apart = max(apart, *(abs(ends[joint] - others[joint]) for joint in ends))
            leans = [max(leans[0], leant), max(leans[1], lean)]
        usual, spared = (sum(column) / len(energies) for column in zip(*energies, strict=True))
        shares = sorted(spared / usual - 1 for usual, spared in energies)
        between = f"; {shares[0]:+.0%} to {shares[-1]:+.0%}" if len(shares) > 1 else ""
        simulated.append(f"{usual:.2f} → {spared:.2f} J ({spared / usual - 1:+.0%}{between})")
    print(
        f"| {name} | {model} | {best.seconds - AFTER:.1f} s | {predicted} | {' | '.join(simulated)} "
        f"| {math.degrees(apart):.1f}° | {math.degrees(leans[0]):.1f}°, {math.degrees(leans[1]):.1f}° | {took:.1f} s |",
        flush=True,
    )


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--moves", default=",,".join(MOVES), help="names, separated by two commas")
    options.add_argument("--models", default="lima2009,ax12")
    options.add_argument("--engines", default="bullet,mujoco")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    engines = chosen.engines.split(",")
    simulated = [f"simulated, {engine}" for engine in engines]
    columns = "move", "servo model", "time", "predicted", *simulated, "ends apart", "leans", "search"
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    for model in chosen.models.split(","):
        for name in chosen.moves.split(",,"):
            row(name, model, engines)
