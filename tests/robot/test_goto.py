"""Whole poses: `goto` leads joints smoothly and says whether they are there; arrays in the rig's order."""

import math

import numpy as np
import pytest

import axbridge
from axbridge import ControlWarning, UnknownServo, UsageError

pytestmark = pytest.mark.slow


@pytest.fixture
def robot():
    with axbridge.open("pan_tilt") as robot:
        yield robot


def test_a_pose_is_reached_together_and_smoothly(robot):
    seen = []
    robot.observe(lambda report, states: seen.append((robot["pan"].target_position, robot["tilt"].target_position)))
    assert robot.goto({"pan": 1.0, "tilt": -0.5}, 0.8)
    assert robot.time == pytest.approx(0.8, abs=0.1)
    assert robot.positions == pytest.approx([1.0, -0.5], abs=0.02)
    pan, tilt = np.array(seen)[:40].T
    assert tilt == pytest.approx(-0.5 * pan, abs=1e-9)  # both on the same way
    assert np.abs(np.diff(pan, n=2)).max() / 0.02**2 < 5.78 * 1.0 / 0.8**2  # rad/s²: 10/sqrt(3) of way over time²


def test_a_way_too_fast_for_the_servo_takes_longer_and_says_so(robot):
    words = r"^servo 'pan': 0.1 s are too short for its speed: it takes 0.61 s"
    with pytest.warns(ControlWarning, match=words) as said:
        assert robot.goto({"tilt": 0.1, "pan": 2.0}, 0.1)
    assert [one.filename for one in said] == [__file__]
    assert robot.time >= 0.6


def test_a_goal_beyond_the_limits_is_clipped_once_and_said_in_the_line_that_gave_it(robot):
    for goto in (lambda: robot.goto({"tilt": 1.5}, 1.0), lambda: robot["tilt"].goto(1.5, 1.0)):
        with pytest.warns(ControlWarning) as said:
            assert goto()
        assert not robot["pan"].torque_enabled
        assert [str(one.message) for one in said] == ["servo 'tilt' (rad): too big requested position: 1.5 > 1.2"]
        assert [one.filename for one in said] == [__file__]


def test_a_joint_that_is_held_back_is_reported_as_not_there(robot):
    robot["pan"].set_available_torque(0)
    assert not robot.goto({"pan": 1.0}, 0.4)
    assert robot.time == pytest.approx(0.9)  # half a second of patience


def test_wrong_names_positions_and_times_are_refused_before_anything_moves(robot):
    with pytest.raises(UnknownServo, match="elbow"):
        robot.goto({"elbow": 0.0}, 1.0)
    for nowhere in (math.nan, math.inf):
        with pytest.raises(UsageError, match="no position"):
            robot.goto({"pan": nowhere}, 1.0)
    for duration in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="can be had"):
            robot.goto({"pan": 0.0}, duration)
    assert not robot["pan"].torque_enabled


def test_arrays_follow_the_rigs_order(robot):
    robot.set_positions([0.3, -0.2])
    for _ in range(30):
        robot.step()
    assert robot.positions == pytest.approx([0.3, -0.2], abs=0.02)
    assert robot.velocities.shape == robot.loads.shape == (2,)
    with pytest.raises(UsageError, match="give one a servo: pan, tilt"):
        robot.set_positions([0.0])


def test_a_repr_says_what_a_thing_is(robot):
    assert repr(robot) == "<Robot 'pan_tilt' on sim: 2 servos, 0.00 s after the start>"
    assert repr(robot["pan"]) == "<Servo 'pan' at 0.000 rad, limp>"
    robot.close()
    assert repr(robot).endswith("closed>")
