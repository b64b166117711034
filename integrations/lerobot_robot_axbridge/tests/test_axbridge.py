"""A rig as a robot of LeRobot: simulated, and on a served bus in the place of a real one."""

import math
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import until
from lerobot.robots import RobotConfig, make_robot_from_config
from lerobot.teleoperators import Teleoperator, TeleoperatorConfig
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError
from lerobot.utils.import_utils import register_third_party_plugins
from lerobot_robot_axbridge import Axbridge, AxbridgeConfig, AxbridgeLimp, AxbridgeLimpConfig

import axbridge


@pytest.fixture
def sim():
    robot = Axbridge(AxbridgeConfig(rig="pan_tilt"))
    robot.connect()
    yield robot
    robot.disconnect()


@pytest.fixture
def real(arm):
    robot = Axbridge(AxbridgeConfig(rig="pan_tilt", backend="real", port=arm.port))
    robot.connect()
    yield robot
    robot.disconnect()


def near(seen, goal, by=2.0):
    return seen if all(abs(seen[key] - goal[key]) < by for key in goal) else None


def test_lerobot_finds_it_by_its_name(caplog):
    with caplog.at_level("INFO"):
        register_third_party_plugins()
    assert "Imported third-party plugin: lerobot_robot_axbridge" in caplog.text
    robot = make_robot_from_config(RobotConfig.get_choice_class("axbridge")(rig="pan_tilt"))
    assert isinstance(robot, Axbridge)
    assert robot.observation_features == robot.action_features == {"pan.pos": float, "tilt.pos": float}
    assert not robot.is_connected
    assert TeleoperatorConfig.get_choice_class("axbridge_limp") is AxbridgeLimpConfig


def test_it_goes_where_it_is_sent(sim):
    goal = {"pan.pos": 20.0, "tilt.pos": -10.0}
    assert sim.send_action(goal) == pytest.approx(goal)
    seen = until(lambda: near(sim.get_observation(), goal))
    assert set(seen) == set(sim.observation_features)


def test_goals_beyond_a_limit_are_sent_as_the_limit(sim):
    sent = sim.send_action({"pan.pos": 4000.0})
    assert 0 < sent["pan.pos"] < 200


def test_goals_come_no_nearer_than_max_relative_target():
    robot = Axbridge(AxbridgeConfig(rig="pan_tilt", max_relative_target=5.0))
    robot.connect()
    try:
        now = robot.get_observation()["pan.pos"]
        assert robot.send_action({"pan.pos": now + 50})["pan.pos"] == pytest.approx(now + 5, abs=0.5)
    finally:
        robot.disconnect()


@pytest.mark.parametrize("goals", [{"elbow.pos": 1.0}, {"pan.pos": math.nan}])
def test_what_is_no_goal_is_refused_and_nothing_is_sent(sim, goals):
    with pytest.raises(ValueError, match=r"no joint elbow.pos|finite"):
        sim.send_action({"tilt.pos": 20.0, **goals})
    assert abs(sim.get_observation()["tilt.pos"]) < 2
    assert sim.is_connected


def test_it_is_used_between_connect_and_disconnect():
    robot = Axbridge(AxbridgeConfig(rig="pan_tilt"))
    with pytest.raises(DeviceNotConnectedError):
        robot.get_observation()
    robot.connect()
    with pytest.raises(DeviceAlreadyConnectedError):
        robot.connect()
    robot.disconnect()
    robot.disconnect()
    with pytest.raises(DeviceNotConnectedError):
        robot.send_action({})


def test_motors_are_on_from_the_first_action_to_disconnect(arm):
    robot = Axbridge(AxbridgeConfig(rig="pan_tilt", backend="real", port=arm.port))
    robot.connect()
    robot.get_observation()
    robot.disconnect()
    assert not arm.torque(1)
    robot.connect()
    robot.send_action({"pan.pos": 15.0})
    until(lambda: near(robot.get_observation(), {"pan.pos": 15.0}))  # nothing but a motor moves it there
    robot.disconnect()
    assert not arm.torque(1)


def test_a_servo_that_falls_silent_ends_it_with_every_motor_off(arm, real):
    real.send_action({"pan.pos": 5.0, "tilt.pos": 5.0})
    arm.fault("dead:2")
    with pytest.raises(ConnectionError, match="no answer from tilt"):
        until(lambda: real.get_observation() and None)
    assert not real.is_connected
    real.disconnect()  # as LeRobot's tools do then
    assert not arm.torque(1)


def test_a_limp_arm_is_read_and_never_powered(arm):
    hand = AxbridgeLimp(AxbridgeLimpConfig(rig="pan_tilt", port=arm.port))
    assert hand.feedback_features == {}
    hand.connect()
    for _ in range(5):
        assert set(hand.get_action()) == {"pan.pos", "tilt.pos"}
    hand.disconnect()
    assert not arm.torque(1)


@TeleoperatorConfig.register_subclass("waving")
@dataclass(kw_only=True)
class WavingConfig(TeleoperatorConfig):
    pass


class Waving(Teleoperator):
    """A hand that moves the pan to 25 degrees within a second, and holds it."""

    config_class, name = WavingConfig, "waving"
    action_features, feedback_features = {"pan.pos": float, "tilt.pos": float}, {}
    is_calibrated = True
    began = None

    @property
    def is_connected(self):
        return self.began is not None

    def connect(self, calibrate=True):
        self.began = time.monotonic()

    def get_action(self):
        return {"pan.pos": min(25.0, 25.0 * (time.monotonic() - self.began)), "tilt.pos": 0.0}

    def calibrate(self):
        pass

    configure = calibrate

    def send_feedback(self, feedback):
        pass

    def disconnect(self):
        self.began = None


def test_lerobots_teleoperate_drives_it(arm, monkeypatch, capsys):
    from lerobot.scripts import lerobot_teleoperate

    seen, look = [], Axbridge.get_observation
    monkeypatch.setattr(Axbridge, "get_observation", lambda self: seen.append(look(self)) or seen[-1])
    monkeypatch.setattr(lerobot_teleoperate, "make_teleoperator_from_config", Waving)
    options = ["--robot.type=axbridge", "--robot.rig=pan_tilt", "--robot.backend=real", f"--robot.port={arm.port}"]
    monkeypatch.setattr("sys.argv", ["lerobot-teleoperate", *options, "--teleop.type=waving", "--teleop_time_s=4"])
    lerobot_teleoperate.main()
    assert near(seen[-1], {"pan.pos": 25.0})
    assert "Hz" in capsys.readouterr().out
    assert not arm.torque(1)


class Swinging(Waving):
    """A hand that moves the pan to and fro by 20 degrees every two seconds."""

    def get_action(self):
        return {"pan.pos": 20.0 * math.sin(math.pi * (time.monotonic() - self.began)), "tilt.pos": -5.0}


def test_lerobots_record_and_replay_drive_it(arm, monkeypatch, tmp_path):
    """Two episodes by its recorder, from its dataset to a recording of axbridge, and the second one again by its replay."""
    from lerobot.scripts import lerobot_record, lerobot_replay

    seen, sent = [], []
    look, send = Axbridge.get_observation, Axbridge.send_action
    monkeypatch.setattr(Axbridge, "get_observation", lambda self: seen.append(look(self)) or seen[-1])
    monkeypatch.setattr(Axbridge, "send_action", lambda self, goal: sent.append(send(self, goal)) or sent[-1])
    monkeypatch.setattr(lerobot_record, "make_teleoperator_from_config", Swinging)
    robot = ["--robot.type=axbridge", "--robot.rig=pan_tilt", "--robot.backend=real", f"--robot.port={arm.port}"]
    data = ["--dataset.repo_id=tests/swing", f"--dataset.root={tmp_path / 'swing'}", "--play_sounds=false"]

    def run(tool, *options):
        seen.clear()
        sent.clear()
        monkeypatch.setattr("sys.argv", [tool.__name__, *robot, *data, *options])
        tool.main()
        assert not arm.torque(1)

    what = ["num_episodes=2", "episode_time_s=2", "reset_time_s=1", "fps=20", "single_task=swing", "push_to_hub=false"]
    run(lerobot_record, "--teleop.type=waving", *(f"--dataset.{one}" for one in what))
    first, second = (imported(tmp_path, number) for number in (0, 1))
    frames = slice(len(first["pan"])), slice(-len(second["pan"]), None)  # a pause is between
    for episode, part in zip((first, second), frames, strict=True):
        for name in ("pan", "tilt"):
            assert np.degrees(episode[name].position) == pytest.approx(
                [one[f"{name}.pos"] for one in seen[part]], abs=1e-4
            )
            assert np.degrees(episode[name].command) == pytest.approx(
                [one[f"{name}.pos"] for one in sent[part]], abs=1e-4
            )
        assert np.ptp(np.degrees(episode["pan"].position)) > 20  # it swung
    told = np.degrees(second["pan"].command)

    run(lerobot_replay, "--dataset.episode=1")
    assert [one["pan.pos"] for one in sent] == pytest.approx(told, abs=1e-4)
    assert near(seen[-1], {"pan.pos": np.degrees(second["pan"].position[-1]), "tilt.pos": -5.0}, by=4.0)


def imported(folder, episode):
    """An episode of a dataset as a recording."""
    out = folder / f"{episode}.mcap"
    command = [sys.executable, "-m", "axbridge", "import", folder / "swing", out, "--episode", str(episode)]
    subprocess.run(command, check=True)
    return axbridge.open_recording(out)
