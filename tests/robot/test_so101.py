"""The SO-101 arms: published lengths, agreement of both engines, the table, and a real arm's steps."""

import math
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.comparison.lag import apart
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.recording.import_arms import import_arm_folder
from axbridge.recording.imported import trimmed
from axbridge.rotations import matrix
from tests.support.waiting import run

REAL = Path(__file__).parents[2] / "docs" / "real" / "so101"
RIG = Rig.load("so101")
TIP = np.array([-0.0079, -0.0002, -0.0981])  # of the fixed finger, in the frame of the gripper, m
ENGINES = ["mujoco", pytest.param("bullet", marks=pytest.mark.bullet)]


def opened(engine="mujoco"):
    return axbridge.open(RIG.overridden({"world": {"engine": engine}}), "sim")


def tip(robot):
    place, turn = robot.simulation.engine.poses()["gripper"]
    return np.array(place) + matrix(turn) @ TIP


@pytest.mark.parametrize("engine", ENGINES)
def test_the_tip_at_zero_angles_is_that_of_the_published_arm(engine):
    with opened(engine) as robot:
        # so101_new_calib.urdf: gripperframe_frame with all joints at 0; the base stands 20 mm above the table
        np.testing.assert_allclose(tip(robot), [0.0206, -0.3756, 0.2588 + 0.02], atol=5e-3)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.slow
def test_joints_reach_their_goals_within_the_error_of_friction_and_weight(engine):
    goals = {"shoulder_pan": 0.5, "shoulder_lift": -0.4, "elbow_flex": 0.3, "wrist_flex": 0.4, "wrist_roll": -0.6}
    with opened(engine) as robot:
        for name, goal in goals.items():
            robot[name].set_position(goal)
        run(robot, 2.0)
        off = {name: math.degrees(robot[name].position - goal) for name, goal in goals.items()}
    assert max(map(abs, off.values())) < 4.5
    assert off["shoulder_lift"] > -1.0  # its weight pulls it forward, towards larger angles
    assert off["elbow_flex"] > -1.0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limp_arm_comes_to_rest_on_the_table(engine):
    with opened(engine) as robot:
        run(robot, 1.2)
        assert -0.004 < tip(robot)[2] < 0.05


@pytest.mark.slow
def test_the_model_follows_a_real_arm_with_less_than_twice_its_repeatability():
    names = [servo.name for servo in RIG.servos]
    real, again = (
        trimmed(import_arm_folder(REAL / name, RIG), None, 4.0) for name in ("step_response", "step_response_again")
    )
    model = simulate(real, RIG)
    joints = [name for name in names if name != "gripper"]
    error = np.mean([apart(real[name], model)[1] for name in joints])
    floor = np.mean([apart(real[name], again)[1] for name in joints])
    perfect = np.mean([np.degrees(np.abs(real[name].command - real[name].position)).mean() for name in joints])
    assert error < 2 * floor < 0.5 * perfect
