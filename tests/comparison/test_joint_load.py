"""One servo of a robot, with what it carries while all the joints move: the truth predicts it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.recorded_dynamics import footing, joints_of_robot, standing_robot
from axbridge.comparison.recorded_runs import runs_of
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, RigError, UsageError
from axbridge.recording.provenance import describe, rig_of
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording, Track
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.servo.columns import pack
from axbridge.sim.rollout import rollouts
from tests.support.made_once import made_once

pytestmark = pytest.mark.slow

TRUE = {"friction": {"coulomb": 0.05, "viscous": 0.02}, "motor": {"armature": 0.005}}
SWINGS = {"hip_twist": (0.0, 0.5), "hip_lateral": (0.0, 0.5), "hip_swing": (0.0, 0.9), "knee": (0.9, 0.7),
          "ankle_swing": (0.6, 0.5), "ankle_lateral": (0.0, 0.5)}  # fmt: skip


@pytest.fixture(scope="module")
def rig():
    leg = Rig.load("leg")
    servos = (servo.model_copy(update={"model": "ax12", "params": TRUE}) for servo in leg.servos)
    return leg.model_copy(update={"servos": tuple(servos)})


@pytest.fixture(scope="module")
def recording(rig, tmp_path_factory):
    """All six servos of a leg, each at its own period."""

    def record(folder):
        path = folder / "leg.mcap"
        with (
            open_robot(rig, "sim", seed=1) as robot,
            Recorder(path, describe(rig, backend="sim", seed=1)) as recorder,
            RobotRecorder(robot, recorder),
        ):
            for k in range(150):
                for number, (name, (middle, size)) in enumerate(SWINGS.items()):
                    phase = 2 * math.pi * 0.02 * k / (1.5 - 0.12 * number)
                    jump = math.copysign(0.35, math.sin(0.7 * phase))
                    robot[name].set_position(middle + size * (0.6 * math.sin(phase) + jump))
                robot.step(20)
        return path

    return open_recording(made_once(tmp_path_factory, "leg", record))


def mean_error(runs, row):
    return float(np.degrees(np.abs(runs.errors(rollouts(row[None], runs)[0]))).mean())


def truth(alone):
    return pack(alone.model_of(alone.servos[0]), alone.profile_of(alone.servos[0]).units.position)


@pytest.mark.parametrize("name", ["knee", "hip_swing"])
def test_what_a_servo_carries_explains_how_it_moves(recording, rig, name):
    (one,), alone = joints_of_robot([recording], rig, [name])
    runs = runs_of([one], alone)
    row = truth(alone)
    constant = runs._replace(load=np.zeros((0, 4)), inertia=np.array([runs.load[:, 0].mean()]))
    assert mean_error(runs, row) < 0.4
    assert mean_error(runs, row) < 0.5 * mean_error(constant, row)


def test_several_servos_are_several_recordings_each_with_its_own_load_and_sense(recording, rig):
    turned = rig.with_servos(lambda servo: {"direction": -servo.direction} if servo.name == "knee" else {})
    names = ["knee", "hip_swing"]
    both, robot = joints_of_robot([recording, recording], turned, names)
    assert [next(iter(one)) for one in both] == names * 2
    runs = runs_of(both, robot)
    for index, name in enumerate(names):
        (one,), alone = joints_of_robot([recording], turned, [name])
        np.testing.assert_array_equal(runs.only([index]).position, runs_of([one], alone).position)
        np.testing.assert_array_equal(runs.only([index]).load, runs_of([one], alone).load)
    side = turned.servos[[servo.name for servo in turned.servos].index("knee")].direction
    np.testing.assert_array_equal(runs.only([0]).position, side * recording["knee"].position)


def test_a_robot_that_says_too_little_is_refused_with_the_reason(recording, rig):
    with pytest.raises(UsageError, match="no servo 'nose'"):
        joints_of_robot([recording], rig, ["nose"])
    less = replace(recording, tracks={name: track for name, track in recording.items() if name != "hip_swing"})
    with pytest.raises(RecordingError, match="how joint hip_swing moved"):
        joints_of_robot([less], rig, ["knee"])
    free = rig.overridden({"world": {"fixed_base": False, "ground": True}})
    with pytest.raises(RecordingError, match="only of a robot on two flat feet"):
        joints_of_robot([recording], free, ["knee"])
    flying = Rig.load("bioloid").overridden({"world": {"ground": False}})
    time = np.arange(0, 1, 0.02)
    tracks = {servo.name: Track.of(servo.name, time, position=0 * time) for servo in flying.servos}
    with pytest.raises(RecordingError, match="no floor"):
        joints_of_robot([Recording(Path("fly.mcap"), tracks)], flying, ["left_knee"])
    with pytest.raises(RigError, match="--servo NAME"):
        runs_of([replace(recording, tracks={"knee": recording["knee"]}, metadata={})], rig)


def test_a_robot_on_both_feet_tells_what_its_arms_carry_but_not_its_legs():
    walker, time, angle = Rig.load("bioloid"), np.arange(0, 1.5, 0.02), 0.3
    tracks = {
        servo.name: Track.of(servo.name, time, position=np.full(75, angle if "shoulder" in servo.name else 0.0))
        for servo in walker.servos
    }
    standing = Recording(Path("still.mcap"), tracks, (), {}, describe(backend="sim"))
    (free,), _ = joints_of_robot([standing], walker, ["left_shoulder_swing"])
    bolted = walker.overridden({"world": {"fixed_base": True}})  # with level feet, its body is level, too
    (held,), _ = joints_of_robot([standing], bolted, ["left_shoulder_swing"])

    def torque(load):
        return load[:, 1] * math.sin(angle) + load[:, 2] * math.cos(angle) + load[:, 3]

    np.testing.assert_allclose(torque(free.load), torque(held.load), rtol=1e-6)
    assert np.abs(torque(free.load)).max() > 0.01
    assert free.known.all()
    with pytest.raises(RecordingError, match=r"for 0\.00 s in all the robot stood on one foot"):
        joints_of_robot([standing], walker, ["left_knee"])


@pytest.fixture(scope="module")
def walker(walked):
    return rig_of(walked).model_copy(update={"path": Rig.load("bioloid").path})


@pytest.mark.parametrize(
    ("name", "without"), [("left_knee", 1.5), ("right_hip_lateral", 1.0), ("left_ankle_swing", 0.3)]
)
def test_what_a_leg_carries_on_one_foot_explains_how_it_moves(walked, walker, name, without):
    (one,), alone = joints_of_robot([walked], walker, [name])
    runs = runs_of([one], alone)
    row = truth(alone)
    unloaded = runs._replace(load=runs.load * (1.0, 0.0, 0.0, 0.0))
    share = len(runs.time) / runs.judged.sum()
    assert mean_error(runs, row) * share < 0.2
    assert mean_error(unloaded, row) * share > without
    lifted = footing(walked, standing_robot(walked), one.at).lifted
    assert 0.1 < runs.judged.mean() < 0.6  # on one foot alone
    assert np.abs(lifted[runs.judged]).min() >= 0.005
