"""X servos do in modes of their own what an AX-12 needs help for, and have their own mode back."""

import math

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning
from axbridge.robot.safety.policies import hold

pytestmark = pytest.mark.slow


def pendulum(**registers):
    rig = Rig.load("xl330_pendulum")
    (servo,) = rig.servos
    servo = servo.model_copy(update={"registers": {**servo.registers, **registers}})
    return axbridge.open(rig.model_copy(update={"servos": (servo,)}))


def run(robot, seconds):
    for _ in range(round(seconds / 0.02)):
        robot.step(20)


@pytest.fixture
def robot():
    with pendulum() as made:
        yield made


def test_it_turns_by_its_own_loop_of_the_speed_and_counts_its_turns():
    with axbridge.open("koch") as robot:
        roll = robot["wrist_roll"]  # light, and free for 5.8 rad
        assert roll.capabilities["wheel"] == "native"
        roll.set_position(-2.5)
        run(robot, 1.5)
        roll.set_position(math.inf)
        roll.set_velocity(1.5)
        run(robot, 1.5)
        assert (roll.read("operating_mode"), roll.read("goal_velocity")) == (1, 63)
        assert roll.velocity == pytest.approx(1.5, abs=0.05)
        before = roll.position
        run(robot, 1.0)
        assert roll.turned - before == pytest.approx(1.5, abs=0.1)
        roll.set_acceleration(2.0)
        roll.set_velocity(0.0)
        run(robot, 0.4)
        assert 0.5 < roll.velocity < 1.0
        assert roll.read("profile_acceleration") == 5
        roll.set_acceleration(-1)
        roll.set_velocity(roll.max_velocity)
        roll.set_position(0.0)
        run(robot, 1.5)
        assert roll.read("operating_mode") == 3
        assert roll.position == pytest.approx(0.0, abs=0.1)


def test_a_duty_is_its_pwm_mode_and_a_cap_of_the_torque_outlives_it(robot):
    servo = robot["pendulum"]
    assert servo.capabilities["duty"] == "native"
    servo.set_available_torque(servo.max_torque / 2)
    servo.set_duty(-0.3)
    run(robot, 0.4)
    assert (servo.read("operating_mode"), servo.read("goal_pwm")) == (16, -266)
    assert servo.load == pytest.approx(-0.3, abs=0.002)
    servo.set_position(0.0)
    run(robot, 0.4)
    assert (servo.read("operating_mode"), servo.read("goal_pwm")) == (3, 442)


@pytest.mark.parametrize("torque", [0.1, -0.2])
def test_a_torque_is_its_loop_of_the_current(robot, torque):
    servo = robot["pendulum"]
    assert servo.capabilities["torque"] == "native"
    servo.set_torque(torque)
    run(robot, 2.0)
    assert servo.read("operating_mode") == 0
    assert servo.truth.torque == pytest.approx(torque, abs=0.02)  # friction hangs on to where it stopped swinging
    assert servo.read("goal_current") * torque > 0


def test_without_a_loop_of_the_current_a_torque_is_a_duty():
    with axbridge.open("koch") as robot:
        pan = robot["shoulder_pan"]
        assert pan.capabilities["torque"] == "emulated"
        with pytest.warns(ControlWarning, match="motor model"):
            pan.set_torque(0.2)
        run(robot, 0.2)
        assert pan.read("operating_mode") == 16
        assert pan.velocity > 0.1


def test_a_rig_that_asks_for_extended_positions_has_turns():
    with pendulum(operating_mode=4) as robot:
        servo = robot["pendulum"]
        assert servo.capabilities["extended_position"] == "native"
        servo.set_position(10.0)
        run(robot, 4.0)
        assert servo.read("operating_mode") == 4
        assert servo.position == pytest.approx(10.0, abs=0.8)  # its loop has no integral, and it swings 0.49 kg


def test_a_rig_that_asks_for_positions_by_current_has_its_torque_capped_by_current():
    with pendulum(operating_mode=5) as robot:
        servo = robot["pendulum"]
        assert servo.capabilities["available_torque"] == "native"
        servo.set_position(1.5)
        run(robot, 0.1)
        assert servo.read("goal_current") == servo.read("current_limit")
        servo.set_available_torque(0.1)
        run(robot, 2.5)
        assert 0 < servo.read("goal_current") < 500
        assert servo.truth.torque == pytest.approx(0.1, abs=0.03)  # what it lifts, or holds with its friction
        assert servo.read("goal_pwm") == servo.read("pwm_limit")


def test_gains_of_the_rig_outlive_a_change_of_mode():
    with pendulum(position_p_gain=700) as robot:
        servo = robot["pendulum"]
        servo.set_duty(0.1)
        run(robot, 0.1)
        servo.set_position(0.0)
        run(robot, 0.1)
        assert servo.read("position_p_gain") == 700


def test_an_error_that_does_not_shut_it_down_does_not_keep_it_off(robot):
    servo = robot["pendulum"]  # its supply is above its limit, and its Shutdown says that this does not matter
    run(robot, 0.5)
    assert servo.read("hardware_error_status") == 1
    servo.set_position(0.3)
    run(robot, 0.5)
    assert servo.read("torque_enable") == 1


def test_hold_lets_whatever_turns_stand_still():
    with axbridge.open("koch") as robot:
        robot["wrist_roll"].set_position(math.inf)
        robot["wrist_roll"].set_velocity(1.0)
        robot["wrist_flex"].set_torque(0.05)
        robot["shoulder_pan"].set_duty(0.2)
        robot["gripper"].set_position(0.2)
        run(robot, 0.3)
        (cycle,) = robot._connection.cycles.values()
        assert hold(cycle) == {}
        read = {"wrist_roll": "goal_velocity", "wrist_flex": "goal_current", "shoulder_pan": "goal_pwm"}
        assert {name: robot[name].read(register) for name, register in read.items()} == dict.fromkeys(read, 0)
        assert robot["gripper"].read("torque_enable") == 1
