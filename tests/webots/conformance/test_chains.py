"""Several joints in a row: motors act together, and a joint without one moves as its neighbours make it."""

import pytest

import axbridge
from tests.support.ideal_world import H

pytestmark = pytest.mark.slow

LINK = """<link name="l{0}"><inertial><origin xyz="0 0 -0.05"/><mass value="0.1"/>
  <inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
JOINT = '<joint name="j{0}" type="{1}"><parent link="{2}"/><child link="l{0}"/><origin xyz="0 0 {3}"/><axis xyz="{4}"/></joint>'
BASE = '<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'


def opened(folder, urdf, servos, gravity=9.81):
    (folder / "w.urdf").write_text(f'<robot name="w">{BASE}{urdf}</robot>')
    rows = "".join(f'[[servo]]\nname = "{name}"\njoint = "{name}"\ndrive = "ideal"\n{keys}\n' for name, keys in servos)
    (folder / "w.toml").write_text(
        f'name = "w"\n[world]\nurdf = "w.urdf"\ngravity = [0, 0, {-gravity}]\n[robot]\nbasic_time_step_ms = 32\n{rows}'
    )
    return axbridge.open(folder / "w.toml", backend="sim")


@pytest.mark.parametrize("length", [2, 6, 12])
def test_every_motor_of_a_hanging_chain_follows_its_own_p_control(tmp_path, length):
    urdf = "".join(
        LINK.format(i) + JOINT.format(i, "continuous", f"l{i - 1}" if i else "base", -0.1 if i else 0, "0 1 0")
        for i in range(length)
    )
    with opened(tmp_path, urdf, [(f"j{i}", "max_torque = 100") for i in range(length)]) as robot:
        for i, servo in enumerate(robot.values()):
            servo.set_position(0.2 * (-1) ** i)
        for n in range(1, 25):
            robot.step(32)
            share = 0.2 * (1 - 0.68**n)
            expected = [share * (-1) ** i for i in range(length)]
            assert [servo.position for servo in robot.values()] == pytest.approx(expected, abs=1e-3)


def test_a_weak_motor_in_a_chain_gets_its_limit_and_the_other_one_its_target(tmp_path):
    # a slider of 0.1 kg carries one of 0.1 kg on the same axis: 1 N on both gives 5 m/s², whatever the upper one does
    urdf = LINK.format(0) + JOINT.format(0, "prismatic", "base", 0, "1 0 0").replace("/></joint>", "/>" + FREE)
    urdf += LINK.format(1) + JOINT.format(1, "prismatic", "l0", 0, "1 0 0").replace("/></joint>", "/>" + FREE)
    with opened(tmp_path, urdf, [("j0", "max_torque = 1"), ("j1", "max_torque = 50")], gravity=0) as robot:
        robot["j0"].set_position(9.0)
        for n in range(1, 9):
            robot.step(32)
            assert robot["j0"].position == pytest.approx(5 * H * H * n * (n + 1) / 2, abs=1e-5)
            assert robot["j1"].position == pytest.approx(0, abs=1e-6)


def test_a_joint_without_a_motor_moves_freely_and_its_inertia_is_not_carried(tmp_path):
    # the upper slider has no servo: it stays where it is in space, so only 0.1 kg is accelerated
    urdf = LINK.format(0) + JOINT.format(0, "prismatic", "base", 0, "1 0 0").replace("/></joint>", "/>" + FREE)
    urdf += LINK.format(1) + JOINT.format(1, "prismatic", "l0", 0, "1 0 0").replace("/></joint>", "/>" + FREE)
    with opened(tmp_path, urdf, [("j0", "max_torque = 1")], gravity=0) as robot:
        robot["j0"].set_position(9.0)
        for n in range(1, 9):
            robot.step(32)
            assert robot["j0"].position == pytest.approx(10 * H * H * n * (n + 1) / 2, abs=1e-4)


FREE = '<limit lower="-50" upper="50" effort="99" velocity="99"/></joint>'
