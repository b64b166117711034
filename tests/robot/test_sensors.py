"""Simulated sensors: what they tell of motion that is known from the textbook, and what the rig adds to it."""

import math
import statistics

import numpy as np
import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.config.rig_check import check_rig
from tests.support.waiting import run

pytestmark = pytest.mark.slow

BOX = """<robot name="box">
  <link name="base"><inertial><mass value="2"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>
    </inertial><collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
  <link name="arm"><inertial><mass value="0.01"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/>
    </inertial></link>
  <joint name="shaft" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint>
</robot>"""
G = 9.81


@pytest.fixture
def box(tmp_path):
    """Opens a box that stands or falls, with a wheel on it; its sensors as given."""
    (tmp_path / "box.urdf").write_text(BOX)
    opened = []

    def make(*sensors, height=0.05, engine="auto", **options):
        path = tmp_path / "box.toml"
        drive = "id = 1" if engine == "bullet" else 'drive = "ideal"'
        path.write_text(
            f'name = "box"\n[world]\nurdf = "box.urdf"\nfixed_base = false\nground = true\nbase_height = {height}\n'
            f'engine = "{engine}"\n[[servo]]\nname = "wheel"\njoint = "shaft"\n{drive}\n'
            + "".join(f"[[sensor]]\n{sensor}\n" for sensor in sensors)
        )
        opened.append(axbridge.open(path, backend="sim", **options))
        return opened[-1]

    yield make
    for robot in opened:
        robot.close()


def test_a_robot_without_an_imu_has_none(box):
    robot = box()
    assert robot.imu is None
    assert dict(robot.sensors) == {}


@pytest.mark.parametrize("engine", ["bullet", "mujoco"])
def test_what_stands_feels_its_weight_and_knows_its_place(box, engine):
    robot = box(
        'name = "imu"\nkind = "imu"',
        'name = "place"\nkind = "gps"\nposition = [0.02, 0.03, 0.05]',
        'name = "push"\nkind = "force-3d"',
        'name = "eye"\nkind = "distance"\nposition = [0, 0, 0.1]\nrotation = [0, 1.0471975512, 0]',  # 60° down
        engine=engine,
    )
    run(robot, 0.4)
    assert robot.imu.time == pytest.approx(robot.time)
    assert robot.imu.acceleration == pytest.approx((0, 0, G), abs=0.05)
    assert robot.imu.rates == pytest.approx((0, 0, 0), abs=0.05)
    assert robot.imu.roll_pitch_yaw == pytest.approx((0, 0, 0), abs=0.005)
    assert robot.sensors["place"].position == pytest.approx((0.02, 0.03, 0.1), abs=2e-3)
    assert robot.sensors["push"].force == pytest.approx((0, 0, 2.01 * G), abs=0.5)
    assert robot.sensors["push"].touched
    assert robot.sensors["eye"].distance == pytest.approx(0.15 / math.sin(math.pi / 3), abs=3e-3)


def test_what_falls_feels_nothing_and_what_hangs_upside_down_feels_its_weight_turned(box):
    robot = box(
        'name = "imu"\nkind = "imu"\nrotation = [3.14159265, 0, 0]',
        'name = "toe"\nkind = "bumper"',
        'name = "place"\nkind = "gps"',
        'name = "eye"\nkind = "distance"\nrotation = [0, 1.5707963, 0]\nrange = 0.7',
        height=1.0,
    )
    assert robot.imu.acceleration == pytest.approx((0, 0, -G), abs=0.2)  # the first sample knows of no motion
    run(robot, 0.2)
    assert robot.imu.acceleration == pytest.approx((0, 0, 0), abs=0.05)
    assert abs(robot.imu.roll_pitch_yaw[0]) == pytest.approx(math.pi, abs=1e-3)
    assert robot.sensors["place"].speed == pytest.approx((0, 0, -G * 0.2), abs=0.05)
    assert not robot.sensors["toe"].touched
    assert robot.sensors["eye"].distance == 0.7


def test_an_imu_off_the_axis_feels_the_turn(box):
    robot = box('name = "imu"\nkind = "imu"\nlink = "arm"\nposition = [0.2, 0, 0]')
    robot["wheel"].set_position(math.inf)
    robot["wheel"].set_velocity(5.0)
    felt = []
    for _ in range(60):
        robot.step(4)
        felt.append((*robot.imu.rates, *robot.imu.acceleration))
    rates, push = np.array(felt)[-20:, :3].mean(axis=0), np.array(felt)[-20:, 3:].mean(axis=0)
    assert rates == pytest.approx((0, 0, rates[2]), abs=0.05)
    assert 4.5 < rates[2] < 5.1  # the box turns a little against it
    assert push == pytest.approx((-(rates[2] ** 2) * 0.2, 0, G), abs=0.3)


def test_noise_and_bias_are_as_the_rig_says_and_the_same_for_the_same_seed(box):
    imu = (
        'name = "imu"\nkind = "imu"\nrate_noise = 0.1\nrate_bias = [1, 0, 0]\nacceleration_noise = 0.5\n'
        "acceleration_bias = [0, 0, 2]\norientation_noise = 0.02"
    )

    def samples(seed):
        robot = box(imu, seed=seed)
        found = []
        for _ in range(300):
            robot.step(20)
            found.append(robot.imu)
        return found[50:]

    found = samples(1)
    assert statistics.mean(sample.rates[0] for sample in found) == pytest.approx(1.0, abs=0.03)
    assert statistics.stdev(sample.rates[1] for sample in found) == pytest.approx(0.1, rel=0.2)
    assert statistics.mean(sample.acceleration[2] for sample in found) == pytest.approx(G + 2, abs=0.15)
    assert statistics.stdev(sample.acceleration[0] for sample in found) == pytest.approx(0.5, rel=0.2)
    assert statistics.stdev(sample.roll_pitch_yaw[0] for sample in found) == pytest.approx(0.02, rel=0.2)
    assert samples(1) == found
    assert samples(2) != found


def test_a_sensor_on_no_link_is_an_error_of_the_rig(box, tmp_path):
    with pytest.raises(axbridge.RigError, match=r"sensor\.imu\.link: the robot has no link 'tail'"):
        box('name = "imu"\nkind = "imu"\nlink = "tail"')
    with pytest.raises(axbridge.RigError, match=r"sensor\.imu\.link: link 'tail' is not in box\.urdf"):
        check_rig(Rig.load(tmp_path / "box.toml"))


@pytest.mark.parametrize(
    ("sensor", "said"),
    [
        ('name = "wheel"\nkind = "gps"', "'wheel' is a servo of this rig"),
        ('name = "a"\nkind = "gps"\nport = "/dev/ttyUSB1"', "a sensor of kind 'gps' has no port"),
        ('name = "a"\nkind = "bumper"\nnoise = 1.0', "has no noise"),
        ('name = "a"\nkind = "sonar"', "kind"),
    ],
)
def test_a_wrong_sensor_is_refused(box, sensor, said):
    with pytest.raises(axbridge.RigError, match=said):
        box(sensor)
