"""What a walk tells of each servo of the legs: loads against MuJoCo's own, and fits against the truth. Prints JSON.

A Bioloid walks in MuJoCo at 1 ms, each servo of its legs with an `ax12` model of its own: torque, friction and armature
are drawn within 25 %. From the recording comes what each joint carried while the robot stood on one foot. MuJoCo's own
loads, contacts included, are beside it (root mean squares, N·m; those of MuJoCo are means over 20 ms). Then each servo
is fitted: least squares from the unaltered model; the intervals allow for constants and loads that are off.
"""

import argparse
import json
import tempfile
from pathlib import Path

import mujoco
import numpy as np

from axbridge.comparison.recorded_dynamics import joints_of_robot
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.fit.intervals import constants_of, marginalise_constants, uncertainty
from axbridge.fit.least_squares import left_alone, polish
from axbridge.fit.prepare import base_model, resting_noise
from axbridge.fit.unknowns import space_of
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot

LEGS = "hip", "knee", "ankle"
MEAN = 20  # ms


def altered(rig, seed):
    """The rig with legs whose servos differ from the model, each in its own way."""
    rng = np.random.default_rng(seed)
    servos = []
    for servo in rig.servos:
        efficiency, dry, armature = np.array((0.5944, 0.03, 0.0082)) * rng.uniform(0.75, 1.25, 3)
        gear = {"coulomb": dry - 0.02}  # the rest is behind the play, which a fit leaves as it is
        params = {"motor": {"efficiency": efficiency, "armature": armature}, "friction": gear}
        own = params if any(part in servo.name for part in LEGS) else {}
        servos.append(servo.model_copy(update={"model": "ax12", "params": own}))
    return rig.model_copy(update={"servos": tuple(servos)})


def walked(rig, path, steps, turn, seed):
    """A recording of a walk; times, joints' angles and loads as the engine had them, by joint."""
    rows = []
    with open_robot(rig, "sim", seed=seed) as robot:
        engine = robot.simulation.engine
        model, data, advance = engine.model, engine.data, engine.advance
        joints, dofs, places = engine.joints, engine._driven, engine._driven_qpos  # noqa: SLF001 - no names in there

        def watched(drives, first, count):
            for number in range(first, first + count):
                advance(drives, number, 1)
                mujoco.mj_rnePostConstraint(model, data)
                loads = np.sum(data.cdof[dofs] * data.cfrc_int[model.dof_bodyid[dofs]], axis=1)
                rows.append(((len(rows) + 1) * engine.time_step, data.qpos[places].copy(), loads))

        engine.advance = watched
        with Recorder(path, describe(rig, backend="sim", seed=seed, experiment="walk")) as recorder:
            walk(robot, Gait(steps=steps, turn=np.radians(turn)), recorder)
    recording = open_recording(path)
    time, angles, loads = (np.array(column) for column in zip(*rows, strict=True))
    knee = recording["left_knee"]
    seen = angles[:, joints.index("left_knee")]
    late = min(  # the recording's clock starts a little later than the engine's
        np.arange(0, 0.3, 1e-3),
        key=lambda late: np.mean((np.interp(knee.time + late, time, seen) - knee.position) ** 2),
    )
    smooth = np.stack([np.convolve(load, np.ones(MEAN) / MEAN, "same") for load in loads.T], axis=1)
    return recording, time - late, dict(zip(joints, smooth.T, strict=True))


def judged(recording, rig, servo, time, true):
    """How large a joint's load was while it was told, and how far off what was told, N·m; on its foot and off it."""
    (one,), _ = joints_of_robot([recording], rig, [servo.name])
    theta = one[servo.name].position
    motion = one.load[:, 1] * np.sin(theta) + one.load[:, 2] * np.cos(theta) + one.load[:, 3]
    acceleration = np.gradient(one[servo.name].velocity, one.at)
    carried = motion + one.load[:, 0] * acceleration
    known = np.interp(one.at, time, true)
    inertia = one.load[one.known, 0]  # a foot that stands moves the body, one in the air moves itself
    stands = one.load[:, 0] > np.sqrt(inertia.min() * inertia.max())
    found = {}
    for name, chosen in (("on it", one.known & stands), ("in the air", one.known & ~stands)):
        found[name] = [float(np.sqrt(np.mean(part[chosen] ** 2)).round(3)) for part in (known, carried - known)]
    return found


def fitted(recordings, truth_rig, rig, servo):
    """Values, intervals and the truth of a servo."""
    carried, alone = joints_of_robot(recordings, rig, [servo.name])
    runs = runs_of(carried, alone)
    base = base_model(alone, "ax12")
    base = base.model_copy(update={"sensor": base.sensor.model_copy(update={"position_noise": resting_noise(runs)})})
    space = space_of("ax12", None, packed(base, alone))
    point = polish(space, runs, space.point(space.base), rounds=20)
    sure = uncertainty(space, runs, point)
    if sure.flat:
        point = left_alone(space, runs, point, sure.flat)
        sure = uncertainty(space, runs, point)
    sure, _ = marginalise_constants(sure, space, runs, point, constants_of(space, runs))
    row = space.sets(point[None])[0]
    truth = packed(truth_rig.model_of(servo), truth_rig.model_copy(update={"servos": (servo,)}))
    return {
        unknown.name: {
            "value": float(f"{row[unknown.column] * unknown.scale:.4g}"),
            "interval": [float(f"{end[index] * unknown.scale:.4g}") for end in (sure.low, sure.high)],
            "truth": float(f"{truth[unknown.column] * unknown.scale:.4g}"),
            "told": unknown.name not in sure.flat,
            "holds": bool(sure.low[index] <= truth[unknown.column] <= sure.high[index]),
        }
        for index, unknown in enumerate(space.unknowns)
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--walks", type=int, default=3)
    arguments.add_argument("--steps", type=int, default=12)
    arguments.add_argument(
        "--turn", type=float, default=8.0, help="degrees in two steps: without, the twists stand still"
    )
    arguments.add_argument("--joints", nargs="+", default=LEGS, help="servos whose name has this in it")
    arguments.add_argument("--blind", action="store_true", help="fit without the inertial unit")
    chosen = arguments.parse_args()
    plain = Rig.load("bioloid").with_engine("mujoco").overridden({"world": {"time_step_ms": 1.0}})
    rig = altered(plain, 0)
    found, missed, told, count = {}, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        made = [
            walked(rig, Path(folder) / f"walk{k}.mcap", chosen.steps, chosen.turn * (-1) ** k, k)
            for k in range(chosen.walks)
        ]
        recordings = [recording for recording, *_ in made]
        blind = [
            type(one)(one.path, dict(one), one.events, {"time": one.cycles["time"]}, one.metadata, one.complete)
            for one in recordings
        ]
        for servo in rig.servos:
            if not any(part in servo.name for part in LEGS) or not any(part in servo.name for part in chosen.joints):
                continue
            _, time, loads = made[0]
            try:
                fit = fitted(blind if chosen.blind else recordings, rig, plain, servo)
                found[servo.name] = {
                    "load": judged(recordings[0], plain, servo, time, loads[servo.joint]),
                    "load without IMU": judged(blind[0], plain, servo, time, loads[servo.joint]),
                    "fit": fit,
                }
            except RecordingError as refused:
                found[servo.name] = {"refused": str(refused)}
                continue
            missed += sum(not one["holds"] for one in fit.values())
            told += sum(one["told"] for one in fit.values())
            count += len(fit)
    print(json.dumps({"servos": found, "intervals": count, "told": told, "missed": missed}, indent=1))


if __name__ == "__main__":
    main()
