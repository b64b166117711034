"""A servo shows that it is meant: its LED blinks and is as it was afterwards; its motor moves gently and is off then."""

import math
from itertools import pairwise

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import BusTimeout, UsageError
from axbridge.robot.identify_joint import NUDGE, TORQUE, blinking, nudge

pytestmark = pytest.mark.slow

REGISTERS = ("torque_enable", "torque_limit", "moving_speed", "led", "cw_angle_limit", "ccw_angle_limit")


@pytest.fixture
def robot():
    with axbridge.open("pan_tilt") as robot:
        robot.step(20)
        yield robot


def opened(**pan):
    rig = Rig.load("pan_tilt")
    servos = [servo.model_dump(exclude_unset=True) for servo in rig.servos]
    return axbridge.open(rig.overridden({"servo": [servos[0] | pan, servos[1]]}))


def held(robot):
    return {register: robot["pan"].read(register) for register in REGISTERS}


def test_an_led_that_was_on_blinks_and_is_on_afterwards(robot):
    robot["pan"].write("led", 1)
    seen = []
    with blinking(robot, "pan") as blink:
        for _ in range(100):
            robot.step(20)
            blink()
            seen.append(robot["pan"].read("led"))
    assert sum(one != other for one, other in pairwise(seen)) in {4, 5}  # every 0.4 s in 2 s
    assert robot["pan"].read("led") == 1


def test_a_servo_moves_one_way_and_back_with_little_torque_and_is_limp_and_as_it_was_then(robot):
    robot["pan"].write("moving_speed", 77)
    before, seen, torques, others = held(robot), [], set(), set()

    def look():
        seen.append(robot["pan"].truth.position)
        torques.add(robot["pan"].read("torque_limit"))
        others.add(robot["tilt"].read("torque_enable"))

    assert nudge(robot, "pan", look) == pytest.approx(NUDGE, rel=0.3)
    assert max(seen) == pytest.approx(NUDGE, rel=0.3)
    assert min(seen) > -NUDGE / 10
    assert max(abs(b - a) for a, b in pairwise(seen)) < math.radians(1)  # in 20 ms
    assert torques == {round(TORQUE * 1023)}
    assert others == {0}
    assert held(robot) == before
    assert not robot["pan"].torque_enabled
    robot["pan"].set_position(0.3)  # with all its torque again
    robot.step(20)
    assert robot["pan"].read("torque_limit") == 1023


@pytest.mark.parametrize(
    "limits", [{"min_position": -0.5, "max_position": 0.5}, {"registers": {"ccw_angle_limit": 600}}]
)
def test_a_servo_near_the_end_of_its_range_is_left_alone(limits):
    with opened(position=0.45, **limits) as robot:
        robot.step(20)
        before = held(robot)
        with pytest.raises(UsageError, match="stands at 26°, near the end of its range, -.* to (29|26)°"):
            nudge(robot, "pan")
        assert held(robot) == before


def test_a_wheel_and_a_servo_that_shut_itself_down_are_left_alone(robot):
    robot["pan"].write("cw_angle_limit", 0)
    robot["pan"].write("ccw_angle_limit", 0)
    with pytest.raises(UsageError, match="pan turns as a wheel"):
        nudge(robot, "pan")
    assert robot["pan"].read("torque_enable") == 0
    robot["pan"].write("ccw_angle_limit", 1023)
    robot["pan"].write("torque_limit", 0)
    with pytest.raises(UsageError, match="has shut itself down") as refused:
        nudge(robot, "pan")
    assert "axbridge servo write 1 torque_limit 1023" in refused.value.hint


def test_the_way_waits_for_a_servo_whose_answers_are_lost_for_a_while(robot):
    wanted = []

    def look():
        wanted.append(wanted[-1] if 5 <= len(wanted) < 25 else robot["pan"].read("goal_position"))
        if len(wanted) == 5:
            robot.simulation.inject("drop=1")
        if len(wanted) == 25:
            robot.simulation.inject("none")

    assert nudge(robot, "pan", look) == pytest.approx(NUDGE, rel=0.3)
    assert max(abs(b - a) for a, b in pairwise(wanted)) <= 2


def test_a_servo_that_falls_silent_under_way_is_not_called_limp(robot):
    robot.simulation.inject("dead:1@0.5s")
    with pytest.raises(BusTimeout, match="servo 1 did not answer"):
        nudge(robot, "pan")
