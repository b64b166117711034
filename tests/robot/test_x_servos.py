"""Robots of X servos: what an AX-12 needs help for they do in modes of their own; and both kinds on one line."""

import math

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning
from axbridge.robot.safety.policies import hold
from tests.support.waiting import run

pytestmark = pytest.mark.slow


def opened(rig, name, **registers):
    return axbridge.open(
        Rig.load(rig).with_servos(
            lambda servo: {"registers": servo.registers | registers} if servo.name == name else {}
        )
    )


def values(servo, *registers):
    return tuple(servo.read(register) for register in registers)


@pytest.fixture
def swing():
    with axbridge.open("xl330_pendulum") as made:
        yield made


@pytest.fixture
def robot():
    with axbridge.open("koch") as made:
        yield made


def test_speed_and_acceleration_are_the_servos_own(robot):
    pan = robot["shoulder_pan"]
    assert pan.capabilities["acceleration"] == pan.capabilities["velocity"] == "native"
    pan.set_velocity(1.0)
    pan.set_acceleration(2.0)
    pan.set_position(1.0)
    speeds = []
    while pan.position < 0.9:
        robot.step(20)
        speeds.append(pan.velocity)
    assert max(speeds) == pytest.approx(1.0, abs=0.05)
    assert 0.35 < 0.02 * sum(speed < 0.9 for speed in speeds[: len(speeds) // 2]) < 0.65  # 0.9 rad/s at 2 rad/s²
    assert values(pan, "profile_acceleration", "profile_velocity") == (5, round(1.0 / 0.02398))
    pan.set_acceleration(-1)
    pan.set_velocity(pan.max_velocity)
    run(robot, 0.04)
    assert values(pan, "profile_acceleration", "profile_velocity") == (0, 0)


def test_mode_and_profile_of_a_servo_are_changed_while_it_is_driven_and_put_back():
    with opened("koch", "elbow_flex", operating_mode=1, drive_mode=4, position_p_gain=700) as robot:
        one = robot["elbow_flex"]
        one.set_position(0.3)
        run(robot, 2.0)
        assert values(one, "operating_mode", "drive_mode") == (3, 0)
        assert one.position == pytest.approx(0.3, abs=0.15)  # its loop has no integral
        assert one.read("position_p_gain") == 700  # a change of mode resets gains, but for those of the rig
        one.restore()
        assert values(one, "operating_mode", "drive_mode", "torque_enable") == (1, 4, 0)


@pytest.mark.parametrize(
    "registers", [{"homing_offset": 300}, {"drive_mode": 1}, {"drive_mode": 1, "homing_offset": -90}]
)
def test_zero_and_direction_hold_with_the_registers_that_the_rig_names(registers):
    with opened("koch", "shoulder_pan", **registers) as robot:
        pan = robot["shoulder_pan"]
        pan.set_position(0.5)
        run(robot, 0.2)
        assert pan.velocity > 0.4
        run(robot, 0.8)
        assert {name: pan.read(name) for name in registers} == registers
        assert pan.position == pytest.approx(0.5, abs=0.03)
        assert pan.read("present_position") == pytest.approx(2048 + 0.5 / 0.001534, abs=20)
        assert pan.truth.position == pytest.approx(0.5, abs=0.03)


def test_both_kinds_move_on_one_line_and_are_off_after_close():
    with axbridge.open("head_gripper") as robot:
        robot["pan"].set_position(0.4)
        robot["gripper"].set_position(0.4)
        run(robot, 2.0)
        assert [robot[name].position for name in ("pan", "gripper")] == pytest.approx([0.4, 0.4], abs=0.05)
        (cycle,) = robot._connection.cycles.values()
        assert hold(cycle) == {}
        assert [robot[name].read("torque_enable") for name in ("pan", "gripper")] == [1, 1]
        assert robot._connection.limp() == {}
        assert [robot[name].read("torque_enable") for name in ("pan", "gripper")] == [0, 0]


def test_it_turns_by_its_own_loop_of_the_speed_and_counts_its_turns(robot):
    roll = robot["wrist_roll"]  # light, and free for 5.8 rad
    assert roll.capabilities["wheel"] == "native"
    roll.set_position(-2.5)
    run(robot, 1.5)
    roll.set_position(math.inf)
    roll.set_velocity(1.5)
    run(robot, 1.5)
    assert values(roll, "operating_mode", "goal_velocity") == (1, 63)
    assert roll.velocity == pytest.approx(1.5, abs=0.05)
    before = roll.position
    run(robot, 1.0)
    assert roll.turned - before == pytest.approx(1.5, abs=0.1)
    roll.set_acceleration(2.0)
    roll.set_velocity(0.0)
    run(robot, 0.4)
    assert 0.5 < roll.velocity < 1.0


def test_a_duty_is_its_pwm_mode_and_a_cap_of_the_torque_outlives_it(swing):
    servo = swing["pendulum"]
    assert servo.capabilities["duty"] == "native"
    servo.set_available_torque(servo.max_torque / 2)
    servo.set_duty(-0.3)
    run(swing, 0.4)
    assert values(servo, "operating_mode", "goal_pwm") == (16, -266)
    assert servo.load == pytest.approx(-0.3, abs=0.002)
    servo.set_position(0.0)
    run(swing, 0.4)
    assert values(servo, "operating_mode", "goal_pwm") == (3, 442)  # the cap is one of the duty


@pytest.mark.parametrize("torque", [0.1, -0.2])
def test_a_torque_is_its_loop_of_the_current(swing, torque):
    servo = swing["pendulum"]
    assert servo.capabilities["torque"] == "native"
    servo.set_torque(torque)
    run(swing, 2.0)
    assert servo.read("operating_mode") == 0
    assert servo.truth.torque == pytest.approx(torque, abs=0.02)  # friction hangs on to where it stopped swinging
    assert servo.read("goal_current") * torque > 0


def test_without_a_loop_of_the_current_a_torque_is_a_duty(robot):
    pan = robot["shoulder_pan"]
    assert pan.capabilities["torque"] == "emulated"
    with pytest.warns(ControlWarning, match="motor model"):
        pan.set_torque(0.2)
    run(robot, 0.2)
    assert pan.read("operating_mode") == 16
    assert pan.velocity > 0.1


def test_a_rig_that_asks_for_extended_positions_has_turns():
    with opened("xl330_pendulum", "pendulum", operating_mode=4) as robot:
        servo = robot["pendulum"]
        assert servo.capabilities["extended_position"] == "native"
        servo.set_position(10.0)
        run(robot, 4.0)
        assert servo.read("operating_mode") == 4
        assert servo.position == pytest.approx(10.0, abs=0.8)  # its loop has no integral, and it swings 0.49 kg


def test_a_rig_that_asks_for_positions_by_current_has_its_torque_capped_by_current():
    with opened("xl330_pendulum", "pendulum", operating_mode=5) as robot:
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


def test_an_error_that_does_not_shut_it_down_does_not_keep_it_off(swing):
    servo = swing["pendulum"]  # its supply is above its limit, and its Shutdown says that this does not matter
    run(swing, 0.5)
    assert servo.read("hardware_error_status") == 1
    servo.set_position(0.3)
    run(swing, 0.5)
    assert servo.read("torque_enable") == 1


def test_hold_lets_whatever_turns_stand_still(robot):
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
