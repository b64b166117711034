"""A robot of Feetech servos: each mode of control, and what a servo says of itself."""

import math

import pytest

import axbridge
from axbridge.errors import ControlWarning, RigError
from tests.support.robot_files import write_comb, write_feetech_comb
from tests.support.waiting import run

FAMILIES = ["sts3215", "scs0009"]


@pytest.fixture(params=FAMILIES)
def robot(request, tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path, profile=request.param)) as opened:
        yield opened


def registers(servo, *names):
    return [servo.read(name) for name in names]


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


def test_a_mode_ends_with_the_robot_and_none_was_burnt(tmp_path):
    rig = write_feetech_comb(tmp_path)
    with axbridge.open(rig) as robot:
        servo, virtual = robot["s1"], robot.simulation.world.servos["s1"]
        servo.set_duty(0.2)
        run(robot, 0.1)
        assert registers(servo, "operating_mode", "lock") == [2, 1]
        robot.simulation.world.servos["s1"].power_cycle(robot.time)
        assert virtual.table["operating_mode"] == 0
    assert (virtual.table["operating_mode"], virtual.table["torque_enable"]) == (0, 0)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_mode_that_another_program_left_is_ended_before_a_goal_is_given(mode, tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:
        robot["s1"].write("operating_mode", mode)
        robot["s1"].torque_on()
        run(robot, 0.5)
        assert robot["s1"].read("operating_mode") == 0
        assert robot["s1"].position == pytest.approx(0.0, abs=0.02)


def test_a_wheel_that_was_without_power_turns_on(tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:
        servo = robot["s1"]
        servo.set_position(math.inf)
        servo.set_velocity(0.5)
        run(robot, 0.5)
        robot.simulation.world.servos["s1"].power_cycle(robot.time)
        with pytest.warns(ControlWarning, match="without power until now: s1"):
            run(robot, 3.0)
        assert servo.velocity == pytest.approx(0.5, abs=0.2)


def test_makers_do_not_share_a_line(tmp_path):
    rig = write_comb(tmp_path, 2)
    text = rig.read_text(encoding="utf-8")
    mixed = text.replace('name = "s2"', 'name = "s2"\nprofile = "sts3215"\nzero = 2048')
    rig.write_text(mixed, encoding="utf-8")
    with pytest.raises(RigError, match="a Feetech servo cannot be on the bus of 's1', which is a Dynamixel"):
        axbridge.open(rig)
