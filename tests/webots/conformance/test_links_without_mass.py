"""Crossing axes with nothing between them, frames, and kinematic joints: links without <inertial>."""

import math

import pytest

import axbridge
from axbridge import RigError

pytestmark = pytest.mark.slow

HEAVY = '<link name="{}"><inertial><origin xyz="0.05 0 0.02"/><mass value="0.3"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/></inertial></link>'
JOINT = '<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/><axis xyz="{4}"/></joint>'


@pytest.fixture
def opened(tmp_path):
    robots = []

    def make(*parts, gravity=9.81, **servos):
        (tmp_path / "world.urdf").write_text(f'<robot name="r">{HEAVY.format("base")}{"".join(parts)}</robot>')
        rows = "".join(
            f'[[servo]]\nname = "{n}"\njoint = "{n}"\ndrive = "ideal"\n{keys}\n' for n, keys in servos.items()
        )
        path = tmp_path / "world.toml"
        path.write_text(
            f'name = "w"\n[world]\nurdf = "world.urdf"\ngravity = [0, 0, {-gravity}]\n[robot]\nbasic_time_step_ms = 32\n{rows}'
        )
        robots.append(axbridge.open(path, backend="sim"))
        return robots[-1]

    yield make
    for robot in robots:
        robot.close()


def test_pan_and_tilt_with_crossing_axes(opened):
    robot = opened(
        '<link name="cross"/>',
        HEAVY.format("head"),
        JOINT.format("pan", "continuous", "base", "cross", "0 0 1"),
        JOINT.format("tilt", "continuous", "cross", "head", "0 1 0"),
        pan="",
        tilt="",
    )
    robot["pan"].set_position(1.0)
    robot["tilt"].set_position(-0.5)
    for n in range(1, 30):
        robot.step(32)
        assert robot["pan"].position == pytest.approx(1 - 0.68**n, abs=1e-3)
        assert robot["tilt"].position == pytest.approx(-0.5 * (1 - 0.68**n), abs=1e-3)


def test_a_frame_fixed_to_a_link_weighs_nothing(opened):
    def held(*frame):
        robot = opened(HEAVY.format("arm"), *frame, JOINT.format("j", "continuous", "base", "arm", "0 1 0"), j="")
        for _ in range(5):
            robot.step(32)
        return robot["j"].torque

    with_frame = held('<link name="tip"/>', JOINT.format("f", "fixed", "arm", "tip", "1 0 0"))
    assert with_frame == pytest.approx(held(), abs=1e-4)


def kinematic(opened, **keys):
    rows = "\n".join(f"{key} = {value}" for key, value in keys.items())
    return opened('<link name="flag"/>', JOINT.format("flag", "continuous", "base", "flag", "0 0 1"), flag=rows)


def test_a_kinematic_joint_takes_its_torque_as_acceleration_and_stops_dead(opened):
    # no PID, no braking ramp: v += 10·h up to 2 rad/s, x += v·h, until the target
    robot = kinematic(opened, max_velocity=2.0)
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


def test_soft_limits_end_the_endless_turning_of_a_kinematic_joint(opened):
    robot = kinematic(opened, min_position=-0.2, max_position=0.3)
    servo = robot["flag"]
    servo.set_position(math.inf)
    servo.set_velocity(5.0)
    for _ in range(20):
        robot.step(32)
    assert servo.position == pytest.approx(0.3, abs=1e-6)


def test_a_dynamixel_cannot_move_a_link_without_mass(tmp_path):
    (tmp_path / "w.urdf").write_text(
        f'<robot name="r">{HEAVY.format("base")}<link name="flag"/>{JOINT.format("j", "continuous", "base", "flag", "0 0 1")}</robot>'
    )
    (tmp_path / "w.toml").write_text(
        'name = "w"\n[world]\nurdf = "w.urdf"\n[[servo]]\nname = "j"\njoint = "j"\nid = 1\n'
    )
    with pytest.raises(RigError, match="no mass or inertia"):
        axbridge.open(tmp_path / "w.toml")
