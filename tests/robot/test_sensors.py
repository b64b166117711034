"""Sensors: simulated ones against textbook motion, and a real IMU that stops sending and is unplugged."""

import contextlib
import math
import os
import pty
import threading
import tty
import warnings

import numpy as np
import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.robot.rig_check import check_rig
from axbridge.robot.sensors import SerialImu, parsed
from tests.support.robot_files import BOX
from tests.support.waiting import run, until
from tests.support.warm import serving

pytestmark = pytest.mark.slow

G = 9.81


@pytest.fixture
def box(tmp_path):
    """Return a function that opens a standing or falling box with a wheel and the given sensors."""
    (tmp_path / "box.urdf").write_text(BOX)
    path, opened = tmp_path / "box.toml", []

    def make(*sensors, height=0.05, engine="auto", **options):
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


@pytest.mark.parametrize("engine", ["bullet", "mujoco"])
def test_sensors_of_a_standing_box_measure_its_weight_and_position(box, engine):
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
    push = robot.sensors["push"]
    assert (push.force, push.touched) == (pytest.approx((0, 0, 2.01 * G), abs=0.5), True)
    assert robot.sensors["eye"].distance == pytest.approx(0.15 / math.sin(math.pi / 3), abs=3e-3)


def test_sensors_of_a_falling_box_measure_no_acceleration_and_no_contact(box):
    robot = box(
        'name = "imu"\nkind = "imu"\nrotation = [3.14159265, 0, 0]',
        'name = "toe"\nkind = "bumper"',
        'name = "place"\nkind = "gps"',
        'name = "eye"\nkind = "distance"\nrotation = [0, 1.5707963, 0]\nrange = 0.7',
        height=1.0,
    )
    assert robot.imu.acceleration == pytest.approx((0, 0, -G), abs=0.2)  # the first sample has no motion before it
    run(robot, 0.2)
    assert robot.imu.acceleration == pytest.approx((0, 0, 0), abs=0.05)
    assert abs(robot.imu.roll_pitch_yaw[0]) == pytest.approx(math.pi, abs=1e-3)
    assert robot.sensors["place"].speed == pytest.approx((0, 0, -G * 0.2), abs=0.05)
    assert not robot.sensors["toe"].touched
    assert robot.sensors["eye"].distance == 0.7


def test_an_imu_off_the_axis_measures_the_rate_and_the_centripetal_acceleration(box):
    robot = box('name = "imu"\nkind = "imu"\nlink = "arm"\nposition = [0.2, 0, 0]')
    robot["wheel"].set_position(math.inf)
    robot["wheel"].set_velocity(5.0)
    measured = run(robot, 1.2, lambda: (*robot.imu.rates, *robot.imu.acceleration))
    rates, push = np.split(np.mean(measured[-20:], axis=0), 2)
    assert rates == pytest.approx((0, 0, rates[2]), abs=0.05)
    assert 4.5 < rates[2] < 5.1  # the box turns a little against it
    assert push == pytest.approx((-(rates[2] ** 2) * 0.2, 0, G), abs=0.3)


def test_noise_and_bias_are_those_of_the_rig_and_equal_for_equal_seeds(box):
    imu = (
        'name = "imu"\nkind = "imu"\nrate_noise = 0.1\nrate_bias = [1, 0, 0]\nacceleration_noise = 0.5\n'
        "acceleration_bias = [0, 0, 2]\norientation_noise = 0.02"
    )

    def samples(seed):
        robot = box(imu, seed=seed)
        values = run(robot, 6.0, lambda: (*robot.imu.rates, *robot.imu.acceleration, *robot.imu.roll_pitch_yaw))
        return np.array(values)[50:]

    values = samples(1)
    assert values.mean(axis=0) == pytest.approx([1, 0, 0, 0, 0, G + 2, 0, 0, 0], abs=0.15)
    assert values.std(axis=0) == pytest.approx([0.1] * 3 + [0.5] * 3 + [0.02] * 3, rel=0.2)
    np.testing.assert_array_equal(samples(1), values)
    assert (samples(2) != values).all()


def test_a_sensor_on_no_link_is_an_error_of_the_rig(box, tmp_path):
    with pytest.raises(axbridge.RigError, match=r"sensor\.imu\.link: link 'tail' is not in box\.urdf"):
        box('name = "imu"\nkind = "imu"\nlink = "tail"')
    with pytest.raises(axbridge.RigError, match=r"sensor\.imu\.link: link 'tail' is not in box\.urdf"):
        check_rig(Rig.load(tmp_path / "box.toml"))


@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        ('name = "wheel"\nkind = "gps"', "'wheel' is a servo of this rig"),
        ('name = "a"\nkind = "gps"\nport = "/dev/ttyUSB1"', "a sensor of kind 'gps' has no port"),
        ('name = "a"\nkind = "bumper"\nnoise = 1.0', "has no noise"),
        ('name = "a"\nkind = "sonar"', "kind"),
    ],
)
def test_a_wrong_sensor_is_refused(box, sensor, message):
    with pytest.raises(axbridge.RigError, match=message):
        box(sensor)


LEVEL = b"#YPRAG=0.00,0.00,0.00,0.00,0.00,256.00,0.00,0.00,0.00\r\n"
LEANING = b"#YPRAG=-90.00,-5.73,11.46,-25.60,12.80,250.00,0.50,-0.25,-0.10\r\n"


class Board:
    """An IMU that sends its line 50 times a second through a link that can be unplugged."""

    def __init__(self, link):
        self.link, self.line, self.received = link, LEVEL, b""
        self._ending = threading.Event()
        self.plug_in()

    def plug_in(self):
        self._ending.clear()
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(os.ttyname(self._slave))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def unplug(self):
        if not self._ending.is_set():
            self._ending.set()
            self._thread.join()
            self.link.unlink(missing_ok=True)
            os.close(self._slave)
            os.close(self._master)

    def _run(self):
        while not self._ending.wait(0.02):
            with contextlib.suppress(BlockingIOError):
                self.received += os.read(self._master, 100)
            if self.line:
                os.write(self._master, self.line)


@pytest.fixture
def board(tmp_path):
    made = Board(tmp_path / "imu")
    yield made
    made.unplug()


def test_a_line_is_turned_into_our_axes_and_units():
    sample = parsed(LEANING, 3.0)
    assert sample.time == 3.0
    assert sample.roll_pitch_yaw == pytest.approx((0.2, 0.1, math.pi / 2), abs=1e-3)
    assert sample.rates == (0.5, 0.25, 0.1)
    assert sample.acceleration == pytest.approx((0.981, 0.490, 9.577), abs=1e-3)


@pytest.mark.parametrize(
    "line",
    [b"", b"#YPR=1,2,3", b"#YPRAG=1,2,3", LEVEL[:30], LEVEL.replace(b"256", b"2x6"), b"#YPRAG=" + b"nan," * 8 + b"nan"],
)
def test_a_damaged_line_is_no_sample(line):
    assert parsed(line, 0.0) is None


def test_the_latest_line_of_an_imu_is_used_and_an_old_line_is_not(board):
    with contextlib.closing(SerialImu(str(board.link), 57_600)) as imu:
        assert imu.read(0.0).acceleration == pytest.approx((0, 0, 9.80665))
        until(lambda: b"#ox" in board.received and b"#o1" in board.received)
        board.line = b"noise" * 100 + b"\n" + LEANING
        until(lambda: imu.read(0.0).rates == (0.5, 0.25, 0.1))
        board.line = b""
        until(lambda: imu.read(0.0) is None)
        assert imu.trouble == f"the IMU on {board.link} sends nothing any more"
        board.unplug()
        until(lambda: "is lost" in imu.trouble)
        board.line = LEVEL
        board.plug_in()
        until(lambda: imu.read(0.0) is not None)
        imu.close()  # and once more


def test_an_imu_port_without_data_or_without_a_device_is_an_error(board, monkeypatch):
    monkeypatch.setattr("axbridge.robot.sensors._START", 0.1)
    board.line = b"hello\n"
    with pytest.raises(axbridge.PortError, match="no line of an IMU"):
        SerialImu(str(board.link), 57_600)
    with pytest.raises(axbridge.PortError, match="cannot be opened"):
        SerialImu("/dev/there-is-none", 57_600)


def test_a_real_robot_reports_that_its_imu_is_lost_and_found(board, caplog):
    sensors = [{"name": "imu", "kind": "imu", "port": str(board.link)}, {"name": "unplugged", "kind": "imu"}]
    rig = Rig.load("bench_arm").overridden({"sensor": sensors})
    with serving("bench_arm") as port, axbridge.open(rig, backend="real", port=port) as robot:
        robot.step(20)
        assert robot.imu.acceleration == pytest.approx((0, 0, 9.80665))
        assert -0.2 < robot.imu.time - robot.time <= 0.02
        assert robot.sensors["unplugged"] is None  # it has no port
        board.line = b""
        words = "sensor 'imu' gives no sample: the IMU on .* sends nothing any more"
        with pytest.warns(axbridge.ControlWarning, match=words):
            run(robot, 0.3)
        assert robot.imu is None
        board.line = LEVEL
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # one warning
            run(robot, 0.3)
        assert robot.imu is not None
        assert "sensor 'imu' is back" in caplog.text
