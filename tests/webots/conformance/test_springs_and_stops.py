"""Springs, dampers, brakes and hard stops: v' = (I·v + h(τ - K·x))/(I + h·B + h²·K)."""

import math

import pytest

from tests.support.ideal_world import INERTIA, H, positions

pytestmark = pytest.mark.slow


def spring_damper(x, v, stiffness, damping, steps, torque=0.0, inertia=INERTIA):
    trace = []
    for _ in range(steps):
        v = (inertia * v + H * (torque - stiffness * x)) / (inertia + H * damping + H * H * stiffness)
        x += H * v
        trace.append(x)
    return trace


@pytest.mark.parametrize(("stiffness", "damping"), [(2.0, 0.0), (2.0, 0.3), (50.0, 1.0), (0.0, 5.0)])
def test_a_passive_spring_and_damper(bench, stiffness, damping):
    robot = bench.open({"max_torque": 0.0, "spring_constant": stiffness, "damping_constant": damping, "position": 0.5})
    assert positions(robot, "j0", 60) == pytest.approx(spring_damper(0.5, 0, stiffness, damping, 60), abs=1e-5)


def test_a_torque_against_a_spring_settles_at_torque_over_stiffness(bench):
    robot = bench.open({"spring_constant": 4.0, "damping_constant": 1.0})
    robot["j0"].set_torque(1.0)
    measured = positions(robot, "j0", 100)
    assert measured == pytest.approx(spring_damper(0, 0, 4.0, 1.0, 100, torque=1.0), abs=1e-5)
    assert measured[-1] == pytest.approx(0.25, abs=1e-3)


def test_a_motor_works_against_its_spring_with_its_limit(bench):
    # at rest 2·x = 0.5 N·m: the motor cannot hold more than 0.25 rad
    robot = bench.open({"spring_constant": 2.0, "damping_constant": 0.5, "max_torque": 0.5})
    robot["j0"].set_position(1.0)
    assert positions(robot, "j0", 150)[-1] == pytest.approx(0.25, abs=1e-3)


def test_a_damped_fall(bench):
    # a pendulum of 1 kg at 0.2 m, damped: implicit in the damper, explicit in gravity
    robot = bench.open({"com": 0.2, "max_torque": 0.0, "damping_constant": 0.4}, gravity=9.81)
    x = v = 0.0
    expected = []
    for _ in range(80):
        v = (0.14 * v + H * 9.81 * 0.2 * math.cos(x)) / (0.14 + H * 0.4)
        x += H * v
        expected.append(x)
    measured = positions(robot, "j0", 80)
    assert measured == pytest.approx(expected, abs=1e-3)
    assert measured[-1] == pytest.approx(math.pi / 2, abs=0.1)


def test_a_brake_adds_damping_while_it_is_on(bench):
    robot = bench.open({"damping_constant": 0.1})
    servo = robot["j0"]
    servo.set_position(math.inf)
    servo.set_velocity(3.0)
    positions(robot, "j0", 3)
    servo.set_available_torque(0.0)
    servo.set_damping_constant(0.9)
    robot.step(32)
    assert servo.velocity == pytest.approx(3 * INERTIA / (INERTIA + H * 1.0), abs=1e-6)
    servo.set_damping_constant(0.0)
    before = servo.velocity
    robot.step(32)
    assert servo.velocity == pytest.approx(before * INERTIA / (INERTIA + H * 0.1), abs=1e-6)


@pytest.mark.parametrize("kind", ["continuous", "revolute"])
def test_stops_hold_against_any_torque(bench, kind):
    limit = '<limit lower="-3" upper="3" effort="9" velocity="9"/>' if kind == "revolute" else ""
    robot = bench.open({"kind": kind, "limit": limit, "min_stop": -0.2, "max_stop": 0.3})
    servo = robot["j0"]
    servo.set_position(2.0)
    trace = positions(robot, "j0", 40)
    assert max(trace) <= 0.3 + 1e-6
    assert trace[-1] == pytest.approx(0.3, abs=1e-6)
    servo.set_torque(-9.0)
    trace = positions(robot, "j0", 40)
    assert min(trace) >= -0.2 - 1e-6
    assert trace[-1] == pytest.approx(-0.2, abs=1e-6)
    assert servo.velocity == pytest.approx(0.0, abs=1e-6)
    servo.set_position(0.0)
    assert positions(robot, "j0", 40)[-1] == pytest.approx(0.0, abs=1e-4)


def test_the_urdfs_limits_are_stops_when_the_rig_has_none(bench):
    robot = bench.open({"kind": "revolute", "limit": '<limit lower="-0.1" upper="0.1" effort="9" velocity="9"/>'})
    robot["j0"].set_position(1.0)
    assert positions(robot, "j0", 20)[-1] == pytest.approx(0.1, abs=1e-6)


def test_a_linear_spring_with_stops(bench):
    robot = bench.open(
        {
            "kind": "prismatic",
            "axis": "1 0 0",
            "max_torque": 0.0,
            "spring_constant": 30.0,
            "position": 0.1,
            "min_stop": -0.02,
            "max_stop": 0.5,
        }
    )
    trace = positions(robot, "j0", 30)
    free = spring_damper(0.1, 0, 30.0, 0.0, 5, inertia=1.0)
    assert trace[:5] == pytest.approx(free, abs=1e-5)
    assert min(trace) == pytest.approx(-0.02, abs=1e-6)


def test_serial_servos_a_motor_that_moves_the_rest_of_a_spring(tmp_path):
    # motor, then spring and damper, on one axis: the tip comes to rest where the motor is
    import axbridge

    body = '<inertial><mass value="1"/><inertia ixx="0.05" iyy="0.05" izz="0.05" ixy="0" ixz="0" iyz="0"/></inertial>'
    (tmp_path / "serial.urdf").write_text(
        f'<robot name="s"><link name="a">{body}</link><link name="b">{body}</link><link name="c">{body}</link>'
        '<joint name="motor" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>'
        '<joint name="spring" type="continuous"><parent link="b"/><child link="c"/><axis xyz="0 0 1"/></joint></robot>'
    )
    (tmp_path / "serial.toml").write_text(
        'name = "serial"\n[world]\nurdf = "serial.urdf"\ngravity = [0, 0, 0]\n[robot]\nbasic_time_step_ms = 32\n'
        '[[servo]]\nname = "motor"\njoint = "motor"\ndrive = "ideal"\n'
        '[[servo]]\nname = "spring"\njoint = "spring"\ndrive = "ideal"\nmax_torque = 0\nspring_constant = 5.0\ndamping_constant = 0.5\n'
    )
    with axbridge.open(tmp_path / "serial.toml") as robot:
        robot["motor"].set_position(1.0)
        most = 0.0
        for _ in range(150):
            robot.step(32)
            most = max(most, abs(robot["spring"].position))
        assert most > 0.05  # the spring gave way on the way
        assert robot["motor"].position == pytest.approx(1.0, abs=1e-3)
        assert robot["spring"].position == pytest.approx(0.0, abs=1e-3)
