"""Available torque, torque control, static friction and torque feedback: v' = v + h·τ/I, x' = x + h·v'."""

import math

import pytest

from tests.support.ideal_world import INERTIA, H, positions

pytestmark = pytest.mark.slow

GRAVITY = 9.81


def test_a_weak_motor_accelerates_at_its_torque_limit(bench):
    # 0.5 N·m on 0.1 kg·m²: 5 rad/s², 0.16 rad/s more each step until 10·e is less
    robot = bench.open({"max_torque": 0.5})
    robot["j0"].set_position(1.0)
    x = v = 0.0
    expected = []
    for _ in range(60):
        wanted = max(-10.0, min(10.0, 10 * (1 - x)))
        v += max(-0.16, min(0.16, wanted - v))
        x += H * v
        expected.append(x)
    assert expected[:3] == pytest.approx([0.00512, 0.01536, 0.03072])
    assert max(expected) > 1.1  # too weak to brake in time
    assert positions(robot, "j0", 60) == pytest.approx(expected, abs=1e-4)


def test_torque_control_accelerates_without_end_until_a_position_is_set(bench):
    robot = bench.open({})
    servo = robot["j0"]
    servo.set_torque(0.2)  # 2 rad/s²: x = 2·h²·n(n+1)/2
    assert positions(robot, "j0", 4) == pytest.approx([2 * H * H * n * (n + 1) / 2 for n in (1, 2, 3, 4)], abs=1e-6)
    servo.set_velocity(1.0)  # stored, without effect
    speed = servo.velocity
    robot.step(32)
    assert servo.velocity == pytest.approx(speed + 2 * H, abs=1e-6)
    here = servo.position
    servo.set_position(here)
    robot.step(32)
    assert servo.position == pytest.approx(here, abs=1e-6)


def test_torque_beyond_the_available_torque_is_clipped(bench):
    robot = bench.open({})
    servo = robot["j0"]
    servo.set_available_torque(0.3)
    with pytest.warns(UserWarning, match="requested torque 5 exceeds the available torque 0.3"):
        servo.set_torque(5)
    robot.step(32)
    assert servo.velocity == pytest.approx(0.3 / INERTIA * H, abs=1e-6)


@pytest.mark.parametrize(("torque", "moves"), [(0.29, False), (0.31, True)])
def test_static_friction_is_a_threshold(bench, torque, moves):
    # the motor row holds speed 0 with at most 0.3 N·m; the rest accelerates
    robot = bench.open({"static_friction": 0.3})
    robot["j0"].set_torque(torque)
    x = positions(robot, "j0", 10)[-1]
    assert x == pytest.approx((torque - 0.3) / INERTIA * H * H * 55 if moves else 0.0, abs=1e-6)


def test_static_friction_stops_a_limp_joint_and_is_a_floor_of_the_motor_not_a_load(bench):
    robot = bench.open({"static_friction": 0.5})
    servo = robot["j0"]
    servo.set_position(math.inf)
    servo.set_velocity(2.0)
    positions(robot, "j0", 3)
    assert servo.velocity == pytest.approx(2.0)
    servo.set_available_torque(0.0)  # 0.5/0.1·h = 0.16 rad/s less each step
    robot.step(32)
    assert servo.velocity == pytest.approx(1.84, abs=1e-6)
    positions(robot, "j0", 12)
    assert servo.velocity == pytest.approx(0.0, abs=1e-6)
    servo.set_available_torque(0.2)  # less than the friction: the row still has 0.5 N·m
    servo.set_velocity(-1.0)
    robot.step(32)
    assert servo.velocity == pytest.approx(-0.16, abs=1e-6)


def test_no_available_torque_is_limp_and_gravity_decides(bench):
    # 1 kg at 0.2 m: I about the joint 0.1 + 0.04; semi-implicit pendulum from horizontal
    robot = bench.open({"com": 0.2, "max_torque": 10.0}, gravity=GRAVITY)
    servo = robot["j0"]
    servo.set_available_torque(0.0)
    x = v = 0.0
    expected = []
    for _ in range(40):
        v += H * GRAVITY * 0.2 * math.cos(x) / 0.14  # axis +y: a positive angle swings +x down
        x += H * v
        expected.append(x)
    assert positions(robot, "j0", 40) == pytest.approx(expected, abs=1e-3)


def test_a_motor_holds_its_initial_position_against_gravity_and_says_with_what(bench):
    robot = bench.controlled({"com": 0.2, "position": 0.3}, gravity=GRAVITY)
    motor, sensor = robot.getDevice("j0"), robot.getDevice("j0_sensor")
    motor.enableTorqueFeedback(64)
    sensor.enable(32)
    assert math.isnan(motor.getTorqueFeedback())
    robot.step(32)
    assert math.isnan(motor.getTorqueFeedback())
    for _ in range(3):
        robot.step(32)
    assert sensor.getValue() == pytest.approx(0.3, abs=1e-6)
    assert motor.getTorqueFeedback() == pytest.approx(-GRAVITY * 0.2 * math.cos(0.3), abs=1e-3)
    assert motor.getTorqueFeedbackSamplingPeriod() == 64


def test_too_little_torque_lets_the_load_sink(bench):
    robot = bench.open({"com": 0.2, "max_torque": 1.0}, gravity=GRAVITY)  # the weight asks for 1.962 N·m
    x = v = 0.0
    expected = []
    for _ in range(20):
        load = GRAVITY * 0.2 * math.cos(x)
        free = v + H * load / 0.14
        wanted = max(-10.0, min(10.0, -10 * x))
        v = free + max(-H / 0.14, min(H / 0.14, wanted - free))
        x += H * v
        expected.append(x)
    assert positions(robot, "j0", 20) == pytest.approx(expected, abs=1e-3)


def test_torque_feedback_leaves_out_user_torque_and_springs(bench):
    robot = bench.open({"spring_constant": 2.0, "position": 0.5, "static_friction": 0.1})
    servo = robot["j0"]
    servo.set_torque(0.4)
    robot.step(32)
    assert abs(servo.torque) == pytest.approx(0.1, abs=1e-6)  # the friction alone


def test_torque_off_is_limp_and_on_begins_at_the_present_position(bench):
    robot = bench.open({})
    servo = robot["j0"]
    servo.set_position(1.0)
    positions(robot, "j0", 2)
    servo.torque_off()
    speed = servo.velocity
    positions(robot, "j0", 3)
    assert servo.velocity == pytest.approx(speed, abs=1e-6)  # nothing brakes it
    servo.torque_on()
    here = servo.position
    assert servo.target_position == pytest.approx(here)
    assert positions(robot, "j0", 10)[-1] == pytest.approx(here, abs=0.05)
