"""Several ideal joints: chains, joints without a motor, and links without <inertial>."""

import math

import pytest

import axbridge
from tests.support.ideal_world import H, positions

pytestmark = pytest.mark.slow

BODY = '<inertial><origin xyz="{}"/><mass value="{}"/><inertia ixx="{}" iyy="{}" izz="{}" ixy="0" ixz="0" iyz="0"/></inertial>'


def link(name, mass=0.1, inertia=1e-4, centre="0 0 -0.05"):
    body = BODY.format(centre, mass, inertia, inertia, inertia) if mass else ""
    return f'<link name="{name}">{body}</link>'


def heavy(name):
    return link(name, 0.3, 1e-3, "0.05 0 0.02")


def joint(name, kind, parent, child, axis, z=0.0):
    limit = '<limit lower="-50" upper="50" effort="99" velocity="99"/>' if kind == "prismatic" else ""
    origin = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="0 0 {z}"/>'
    return f'<joint name="{name}" type="{kind}">{origin}<axis xyz="{axis}"/>{limit}</joint>'


@pytest.fixture
def opened(tmp_path):
    robots = []

    def make(*parts, gravity=9.81, **servos):
        (tmp_path / "w.urdf").write_text(f'<robot name="r">{heavy("base")}{"".join(parts)}</robot>')
        rows = "".join(
            f'[[servo]]\nname = "{n}"\njoint = "{n}"\ndrive = "ideal"\n{keys}\n' for n, keys in servos.items()
        )
        world = f'[world]\nurdf = "w.urdf"\ngravity = [0, 0, {-gravity}]\n[robot]\nbasic_time_step_ms = 32\n'
        (tmp_path / "w.toml").write_text(f'name = "w"\n{world}{rows}')
        robots.append(axbridge.open(tmp_path / "w.toml", backend="sim"))
        return robots[-1]

    yield make
    for robot in robots:
        robot.close()


@pytest.mark.parametrize("length", [2, 12])
def test_every_motor_of_a_hanging_chain_follows_its_own_p_control(opened, length):
    parts = [
        link(f"l{i}") + joint(f"j{i}", "continuous", f"l{i - 1}" if i else "base", f"l{i}", "0 1 0", -0.1 if i else 0)
        for i in range(length)
    ]
    robot = opened(*parts, **{f"j{i}": "max_torque = 100" for i in range(length)})
    for i, servo in enumerate(robot.values()):
        servo.set_position(0.2 * (-1) ** i)
    for n in range(1, 25):
        robot.step(32)
        expected = [0.2 * (1 - 0.68**n) * (-1) ** i for i in range(length)]
        assert [servo.position for servo in robot.values()] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("carried", [True, False])
def test_a_slider_moves_what_is_held_on_it_and_not_what_is_free(opened, carried):
    """A slider of 0.1 kg carries one of 0.1 kg: 1 N gives 5 m/s² where a motor holds the upper one, else 10 m/s²."""
    sliders = link("l0"), joint("j0", "prismatic", "base", "l0", "1 0 0"), link("l1")
    motors = {"j0": "max_torque = 1"} | ({"j1": "max_torque = 50"} if carried else {})
    robot = opened(*sliders, joint("j1", "prismatic", "l0", "l1", "1 0 0"), gravity=0, **motors)
    robot["j0"].set_position(9.0)
    for n in range(1, 9):
        robot.step(32)
        expected = (5 if carried else 10) * H * H * n * (n + 1) / 2
        assert robot["j0"].position == pytest.approx(expected, abs=1e-4)
        assert not carried or robot["j1"].position == pytest.approx(0, abs=1e-6)


def test_a_motor_moves_a_link_on_a_spring_and_both_come_to_rest(opened):
    arm, tip = link("l0", 1.0, 0.05, "0 0 0"), link("l1", 1.0, 0.05, "0 0 0")
    joints = joint("motor", "continuous", "base", "l0", "0 0 1"), joint("spring", "continuous", "l0", "l1", "0 0 1")
    passive = "max_torque = 0\nspring_constant = 5.0\ndamping_constant = 0.5"
    robot = opened(arm, tip, *joints, gravity=0, motor="", spring=passive)
    robot["motor"].set_position(1.0)
    assert max(map(abs, positions(robot, "spring", 150))) > 0.05  # the spring was deflected during the motion
    assert [servo.position for servo in robot.values()] == pytest.approx([1.0, 0.0], abs=1e-3)


def test_a_frame_fixed_to_a_link_weighs_nothing(opened):
    def held(*frame):
        robot = opened(heavy("arm"), *frame, joint("j", "continuous", "base", "arm", "0 1 0"), j="")
        positions(robot, "j", 5)
        return robot["j"].torque

    assert held(link("tip", mass=0), joint("f", "fixed", "arm", "tip", "1 0 0")) == pytest.approx(held(), abs=1e-4)


FLAG = link("flag", mass=0), joint("flag", "continuous", "base", "flag", "0 0 1")


def test_a_kinematic_joint_takes_its_torque_as_acceleration_and_stops_dead_also_at_its_limits(opened):
    # no PID, no braking ramp: v += 10·h up to 2 rad/s, x += v·h, until the target
    robot = opened(*FLAG, flag="max_velocity = 2.0\nmin_position = -0.2\nmax_position = 0.6")
    servo = robot["flag"]
    servo.set_position(0.5)
    x = v = 0.0
    for _ in range(20):
        if x != 0.5:
            v = min(v + 0.32, 2.0)
            x = min(x + v * 0.032, 0.5)
        robot.step(32)
        assert servo.position == pytest.approx(x, abs=1e-6)
    servo.set_acceleration(1.0)  # now slower; the speed begins at 0 again
    servo.set_position(0.0)
    robot.step(32)
    assert servo.position == pytest.approx(0.5 - 0.032 * 0.032, abs=1e-6)
    servo.set_position(math.inf)
    servo.set_velocity(2.0)
    assert positions(robot, "flag", 40)[-1] == pytest.approx(0.6, abs=1e-6)  # a soft limit ends its endless turning
