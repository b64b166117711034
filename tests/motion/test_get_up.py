"""The moves in examples/ that lie down and get up again: they work where links touch each other, too."""

from pathlib import Path

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.rotations import roll_pitch_yaw

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "lowest"),
    [("squat", 0.21), ("get_up_front", 0.05), pytest.param("get_up_back", 0.05, marks=pytest.mark.ci)],
)
def test_the_robot_goes_down_and_stands_again(name, lowest):
    rig = Rig.load("bioloid").overridden({"world": {"engine": "mujoco", "self_collision": True}})
    heights = []
    with axbridge.open(rig) as robot:
        robot.observe(lambda _report, _states: heights.append(robot.simulation.base[0][2]))
        axbridge.play(robot, axbridge.Move.load(EXAMPLES / f"{name}.json"))  # a warning would be an error here
        for _ in range(25):
            robot.step()
        (_, _, height), turned = robot.simulation.base
    assert min(heights) < lowest
    assert height > 0.25
    assert max(map(abs, roll_pitch_yaw(turned)[:2])) < 0.1
