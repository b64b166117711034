"""LeRobot's own tools, follower and leader on served servos of an SO-101 arm, unmodified; and the plugin on the same."""

import io
import json
import shutil
import sys

import pytest
from conftest import Arm, until
from lerobot_robot_axbridge import Axbridge, AxbridgeConfig

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
TORQUE_ENABLE = 40
SERVO = """
[[servo]]
name = "{0}"
joint = "{0}"
id = {1}
profile = "sts3215"
model = "sts3215"
zero = 2048
"""


@pytest.fixture
def rig(tmp_path):
    """Six servos; each has a pendulum for a joint, which needs no engine."""
    servos = "".join(SERVO.format(joint, id_) for id_, joint in enumerate(JOINTS, 1))
    (tmp_path / "six.toml").write_text(f'name = "six"\nbus = [{{ supply_voltage = 7.4 }}]\n{servos}')
    return str(tmp_path / "six.toml")


@pytest.fixture
def arms(rig, tmp_path):
    """A follower, a leader, and the options that tell LeRobot of them; both are calibrated by a file."""
    one = {"drive_mode": 0, "homing_offset": 0, "range_min": 1100, "range_max": 3000}
    for name in ("follower", "leader"):
        calibration = {joint: {"id": id_, **one} for id_, joint in enumerate(JOINTS, 1)}
        (tmp_path / f"{name}.json").write_text(json.dumps(calibration))
    with Arm(rig, TORQUE_ENABLE) as follower, Arm(rig, TORQUE_ENABLE) as leader:
        robot = ["--robot.type=so101_follower", f"--robot.port={follower.port}", "--robot.id=follower"]
        teleop = ["--teleop.type=so101_leader", f"--teleop.port={leader.port}", "--teleop.id=leader"]
        assert [follower.torque(1), leader.torque(1)] == [False, False]  # both answer: LeRobot asks once
        robot.append(f"--robot.calibration_dir={tmp_path}")
        teleop.append(f"--teleop.calibration_dir={tmp_path}")
        yield follower, robot, teleop


def test_lerobots_teleoperate_record_and_replay_drive_a_served_arm(arms, monkeypatch, tmp_path):
    from lerobot.scripts import lerobot_record, lerobot_replay, lerobot_teleoperate

    follower, robot, teleop = arms
    data = ["--dataset.repo_id=tests/arm", f"--dataset.root={tmp_path / 'arm'}", "--play_sounds=false"]
    what = ["num_episodes=1", "episode_time_s=3", "reset_time_s=1", "fps=20", "single_task=hang", "push_to_hub=false"]

    def run(tool, *options):
        for attempt in range(4):  # LeRobot asks once, and waits 50 ms: a busy machine may be later
            monkeypatch.setattr(sys, "argv", [tool.__name__, *robot, *options])
            monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))  # ENTER takes the calibration from its file
            try:
                tool.main()
                break
            except (ConnectionError, RuntimeError):
                if tool is lerobot_record:
                    shutil.rmtree(tmp_path / "arm", ignore_errors=True)
                if attempt == 3:
                    raise
        assert [follower.torque(id_) for id_ in range(1, 7)] == [False] * 6

    run(lerobot_teleoperate, *teleop, "--teleop_time_s=3")
    run(lerobot_record, *teleop, *data, *(f"--dataset.{one}" for one in what))
    run(lerobot_replay, *data, "--dataset.episode=0")


def test_the_plugin_drives_a_served_so101():
    with Arm("so101", TORQUE_ENABLE) as arm:
        robot = Axbridge(AxbridgeConfig(rig="so101", backend="real", port=arm.port))
        robot.connect()
        goal = {"shoulder_pan.pos": 20.0, "wrist_roll.pos": -30.0}
        robot.send_action(goal)
        until(lambda: all(abs(robot.get_observation()[key] - there) < 4.0 for key, there in goal.items()))
        robot.disconnect()
        assert not arm.torque(1)
