"""A rig as a robot of LeRobot: simulated, and on a served bus that stands for copper."""

import math
import time
from dataclasses import dataclass

import pytest
from conftest import until
from lerobot.robots import RobotConfig, make_robot_from_config
from lerobot.teleoperators import Teleoperator, TeleoperatorConfig
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError
from lerobot.utils.import_utils import register_third_party_plugins
from lerobot_robot_axbridge import Axbridge, AxbridgeConfig, AxbridgeLimp, AxbridgeLimpConfig


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
