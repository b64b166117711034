"""P, PID, velocity and acceleration limits of the motor controller, against arithmetic done by hand (h = 0.032 s)."""

import math

import pytest

from tests.support.ideal_world import H, positions

pytestmark = pytest.mark.slow


def test_p_control_closes_a_share_of_the_error_each_step(bench):
    # v = 10·(1 - x) up to 2 rad/s: full speed 0.064 rad a step until the error is below 0.2 rad, then x += 0.32·e
    robot = bench.open({"max_velocity": 2.0})
    robot["j0"].set_position(1.0)
    expected, x = [], 0.0
    for _ in range(40):
        x += H * min(10 * (1 - x), 2.0)
        expected.append(x)
    assert expected[:2] == pytest.approx([0.064, 0.128])
    assert positions(robot, "j0", 40) == pytest.approx(expected, abs=1e-4)


def test_velocity_limits_the_approach_and_zero_holds(bench):
    robot = bench.open({})
    servo = robot["j0"]
    servo.set_position(1.0)
    servo.set_velocity(0.5)
    assert positions(robot, "j0", 3) == pytest.approx([0.016, 0.032, 0.048], abs=1e-6)
    servo.set_velocity(0.0)
    assert positions(robot, "j0", 3) == pytest.approx([0.048] * 3, abs=1e-6)


def test_acceleration_limit_delays_braking_so_that_position_control_overshoots(bench):
    # Vc moves by at most A·h = 0.064 rad/s a step, also when it should brake
    robot = bench.open({"acceleration": 2.0})
    robot["j0"].set_position(0.5)
    x = v = 0.0
    expected = []
    for _ in range(80):
        wanted = max(-10.0, min(10.0, 10 * (0.5 - x)))
        v += max(-0.064, min(0.064, wanted - v))
        x += H * v
        expected.append(x)
    measured = positions(robot, "j0", 80)
    assert max(expected) > 0.6
    assert measured == pytest.approx(expected, abs=1e-4)


def test_pid_adds_integral_and_derivative_with_the_engines_sign(bench):
    # e = 0.2: i = 0.0064, d = (0.2 - 0)/0.032 = 6.25; v = 5·0.2 + 2·0.0064 + 0.1·6.25 = 1.6378
    robot = bench.open({"control_pid": [5.0, 2.0, 0.1]})
    robot["j0"].set_position(0.2)
    x = total = before = 0.0
    expected = []
    for _ in range(30):
        e = 0.2 - x
        total += e * H
        x += H * max(-10.0, min(10.0, 5 * e + 2 * total + 0.1 * (e - before) / H))
        before = e
        expected.append(x)
    assert expected[0] == pytest.approx(1.6378 * H)
    assert positions(robot, "j0", 30) == pytest.approx(expected, abs=1e-4)


def test_new_gains_reset_the_integral_but_a_new_target_does_not(bench):
    robot = bench.open({"control_pid": [2.0, 5.0, 0.0]})
    servo = robot["j0"]
    servo.set_position(0.1)
    x = total = 0.0
    for _ in range(10):
        total += (0.1 - x) * H
        x += H * (2 * (0.1 - x) + 5 * total)
    assert positions(robot, "j0", 10)[-1] == pytest.approx(x, abs=1e-4)
    servo.set_position(x)  # no error any more, but the integral goes on
    total += 0.0
    assert positions(robot, "j0", 1)[0] == pytest.approx(x + H * 5 * total, abs=1e-4)
    servo.set_control_pid(2.0, 5.0, 0.0)
    here = servo.position
    servo.set_position(here)
    assert positions(robot, "j0", 1)[0] == pytest.approx(here, abs=1e-6)


def test_infinite_position_is_velocity_control(bench):
    robot = bench.open({})
    servo = robot["j0"]
    servo.set_position(math.inf)
    servo.set_velocity(-1.5)
    assert positions(robot, "j0", 3) == pytest.approx([-0.048, -0.096, -0.144], abs=1e-6)
    servo.set_acceleration(10.0)
    servo.set_velocity(0.0)  # 0.32 rad/s less a step: -1.18, -0.86, -0.54, -0.22, 0
    assert positions(robot, "j0", 6)[-1] == pytest.approx(-0.144 - H * (1.18 + 0.86 + 0.54 + 0.22), abs=1e-5)


def test_a_long_step_runs_the_controller_every_basic_step(bench):
    robot = bench.open({"inertia": 0.01})  # light enough for 10 rad/s within a step
    robot["j0"].set_position(1.0)
    robot.step(96)
    assert robot["j0"].position == pytest.approx(1 - 0.68**3, abs=1e-5)


def test_a_linear_joint_does_the_same_in_metres(bench):
    robot = bench.open({"kind": "prismatic", "axis": "1 0 0", "max_velocity": 1.0, "max_torque": 100.0})
    servo = robot["j0"]
    assert servo.type == "linear"
    servo.set_position(0.05)
    assert positions(robot, "j0", 4) == pytest.approx([0.05 * (1 - 0.68**k) for k in (1, 2, 3, 4)], abs=1e-5)
