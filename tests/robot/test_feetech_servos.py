"""A robot of Feetech servos: each mode of control, and what a servo says of itself."""

import math

import pytest

import axbridge
from axbridge.errors import ControlWarning, FeetechError, RigError
from tests.support.robot_files import write_comb, write_feetech_comb

FAMILIES = ["sts3215", "scs0009"]


@pytest.fixture(params=FAMILIES)
def robot(request, tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path, profile=request.param)) as opened:
        yield opened


def step(robot, seconds):
    for _ in range(round(seconds / 0.02)):
        robot.step(20)


def registers(servo, *names):
    return [servo.read(name) for name in names]


def test_a_joint_goes_where_it_is_sent(robot):
    robot["s1"].set_position(0.6)
    robot["s2"].set_position(-0.4)
    step(robot, 1.5)
    assert (robot["s1"].position, robot["s2"].position) == pytest.approx((0.6, -0.4), abs=0.08)
    assert robot["s1"].voltage == pytest.approx(7.4, abs=0.3)


def test_a_first_goal_that_is_far_away_is_approached_gently_and_later_ones_are_not(robot):
    servo, speeds = robot["s1"], ([], [])
    for there, goal in enumerate((1.2, 0.0)):
        servo.set_position(goal)
        for _ in range(100):
            robot.step(20)
            speeds[there].append(abs(servo.velocity))
        assert servo.position == pytest.approx(goal, abs=0.1)
    assert max(speeds[0]) < 1.5
    assert max(speeds[1]) > 2.0


def test_a_speed_that_is_asked_for_is_kept(robot):
    servo = robot["s1"]
    servo.set_velocity(0.5)
    servo.set_position(1.0)
    step(robot, 1.0)
    assert 0.3 < servo.position < 0.55
    assert servo.velocity == pytest.approx(0.5, abs=0.2)


@pytest.mark.filterwarnings("ignore:.*turns in wheel mode")  # of the SCS, as of an AX-12
def test_a_wheel_turns_on_and_stands_again_as_a_joint(robot):
    servo = robot["s1"]
    servo.set_position(math.inf)
    servo.set_velocity(1.5)
    step(robot, 1.0)
    assert servo.velocity == pytest.approx(1.5, abs=0.5)
    servo.set_position(0.0)
    step(robot, 2.5)
    assert servo.position == pytest.approx(0.0, abs=0.06)


def test_a_duty_drives_both_ways(robot):
    servo = robot["s2"]
    servo.set_duty(0.4)
    step(robot, 0.2)
    assert servo.velocity > 0.3
    servo.set_duty(-0.4)
    step(robot, 0.4)
    assert servo.velocity < -0.3
    assert servo.load == pytest.approx(-0.4, abs=0.05)


def test_a_mode_ends_with_the_robot_and_none_was_burnt(tmp_path):
    rig = write_feetech_comb(tmp_path)
    with axbridge.open(rig) as robot:
        servo, virtual = robot["s1"], robot.simulation.world.servos["s1"]
        servo.set_duty(0.2)
        step(robot, 0.1)
        assert registers(servo, "operating_mode", "lock") == [2, 1]
        robot.simulation.world.servos["s1"].power_cycle(robot.time)
        assert virtual.table["operating_mode"] == 0
    assert (virtual.table["operating_mode"], virtual.table["torque_enable"]) == (0, 0)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_mode_that_another_program_left_is_ended_before_a_goal_is_given(mode, tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:
        robot["s1"].write("operating_mode", mode)
        robot["s1"].torque_on()
        step(robot, 0.5)
        assert robot["s1"].read("operating_mode") == 0
        assert robot["s1"].position == pytest.approx(0.0, abs=0.02)


def test_a_wheel_that_was_without_power_turns_on(tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:
        servo = robot["s1"]
        servo.set_position(math.inf)
        servo.set_velocity(0.5)
        step(robot, 0.5)
        robot.simulation.world.servos["s1"].power_cycle(robot.time)
        with pytest.warns(ControlWarning, match="without power until now: s1"):
            step(robot, 3.0)
        assert servo.velocity == pytest.approx(0.5, abs=0.2)


def test_an_overload_is_named_and_recover_ends_it(tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:
        servo = robot["s1"]
        servo.set_position(0.5)
        step(robot, 0.5)
        robot.simulation.world.servos["s1"].overload(robot.time)
        step(robot, 0.2)
        assert servo.errors == FeetechError.OVERLOAD
        servo.recover()
        step(robot, 0.5)
        assert servo.errors == FeetechError(0)
        assert servo.position == pytest.approx(0.5, abs=0.05)


def test_makers_do_not_share_a_line(tmp_path):
    rig = write_comb(tmp_path, 2)
    text = rig.read_text(encoding="utf-8")
    mixed = text.replace('name = "s2"', 'name = "s2"\nprofile = "sts3215"\nzero = 2048')
    rig.write_text(mixed, encoding="utf-8")
    with pytest.raises(RigError, match="a Feetech servo cannot be on the bus of 's1', which is a Dynamixel"):
        axbridge.open(rig)
