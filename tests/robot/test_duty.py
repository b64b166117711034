"""Turning by duty: the servo's own wheel mode, open loop, which every other command ends."""

import math

import pytest

import axbridge
from axbridge.errors import ControlWarning, UnsupportedOperation
from tests.support.ideal_world import Bench

pytestmark = pytest.mark.slow


def test_a_duty_acts_until_another_command_and_the_servo_is_a_joint_again():
    with axbridge.open("pendulum") as robot:
        servo = robot["shaft"]
        servo.set_duty(-0.5)
        robot.step(60)
        for _ in range(10):
            robot.step(20)
        assert servo.velocity < -1
        assert servo.load == pytest.approx(-0.5, abs=0.01)
        assert math.isnan(servo.goals.position)
        assert servo.goals.duty == pytest.approx(-0.5, abs=1e-3)
        assert servo.read("ccw_angle_limit") == 0
        servo.set_position(0.0)
        robot.step(60)
        assert servo.read("ccw_angle_limit") == 1023
        assert (servo.goals.position, math.isnan(servo.goals.duty)) == (0.0, True)


def test_restore_leaves_a_limp_joint():
    with axbridge.open("pendulum") as robot:
        servo = robot["shaft"]
        servo.set_duty(0.3)
        robot.step(60)
        servo.restore()
        assert (servo.read("ccw_angle_limit"), servo.read("torque_enable")) == (1023, 0)
        assert not servo.torque_enabled


def test_an_impossible_duty_is_refused_and_a_large_one_clipped():
    with axbridge.open("pendulum") as robot:
        servo = robot["shaft"]
        with pytest.warns(ControlWarning, match="NaN"):
            servo.set_duty(math.nan)
        assert not servo.torque_enabled
        with pytest.warns(ControlWarning, match=r"beyond -1\.\.1"):
            servo.set_duty(3.0)
        assert servo.goals.duty == 1.0


def test_an_ideal_joint_knows_no_duty(tmp_path):
    with Bench(tmp_path).open({}) as robot, pytest.raises(UnsupportedOperation, match="not by duty"):
        next(iter(robot.values())).set_duty(0.5)
