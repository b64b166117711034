"""A real IMU on a serial line: a board that sends its text over a pseudo-terminal, falls silent, and is unplugged."""

import contextlib
import math
import os
import pty
import threading
import tty
import warnings

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.robot.sensors import SerialImu, parsed
from tests.support.waiting import run, until
from tests.support.warm import serving

LEVEL = b"#YPRAG=0.00,0.00,0.00,0.00,0.00,256.00,0.00,0.00,0.00\r\n"
LEANING = b"#YPRAG=-90.00,-5.73,11.46,-25.60,12.80,250.00,0.50,-0.25,-0.10\r\n"


class Board:
    """Sends its line 50 times a second through a link that can be unplugged."""

    def __init__(self, link):
        self.link, self.line, self.heard = link, LEVEL, b""
        self._ending = threading.Event()
        self.plug_in()

    def plug_in(self):
        self._ending.clear()
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        os.set_blocking(self._master, False)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(os.ttyname(slave))
        self._slave = slave
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
                self.heard += os.read(self._master, 100)
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


def test_the_latest_line_counts_and_an_old_one_does_not(board):
    imu = SerialImu(str(board.link), 57_600)
    try:
        assert imu.read(0.0).acceleration == pytest.approx((0, 0, 9.80665))
        until(lambda: b"#ox" in board.heard and b"#o1" in board.heard)
        board.line = b"noise" * 100 + b"\n" + LEANING
        until(lambda: imu.read(0.0).rates == (0.5, 0.25, 0.1))
        board.line = b""
        until(lambda: imu.read(0.0) is None)
        assert imu.trouble == f"the IMU on {board.link} has fallen silent"
        board.unplug()
        until(lambda: "is lost" in imu.trouble)
        board.line = LEVEL
        board.plug_in()
        until(lambda: imu.read(0.0) is not None)
    finally:
        imu.close()
        imu.close()


def test_a_port_that_says_nothing_or_is_not_there_is_an_error(board, monkeypatch):
    monkeypatch.setattr("axbridge.robot.sensors._START", 0.1)
    board.line = b"hello\n"
    with pytest.raises(axbridge.PortError, match="no line of an IMU"):
        SerialImu(str(board.link), 57_600)
    with pytest.raises(axbridge.PortError, match="cannot be opened"):
        SerialImu("/dev/there-is-none", 57_600)


@pytest.mark.slow
def test_a_real_robot_says_that_its_imu_is_lost_and_back(board, caplog):
    sensors = [{"name": "imu", "kind": "imu", "port": str(board.link)}, {"name": "unplugged", "kind": "imu"}]
    rig = Rig.load("bench_arm").overridden({"sensor": sensors})
    with serving("bench_arm") as port, axbridge.open(rig, backend="real", port=port) as robot:
        robot.step(20)
        assert robot.imu.acceleration == pytest.approx((0, 0, 9.80665))
        assert -0.2 < robot.imu.time - robot.time <= 0.02
        assert robot.sensors["unplugged"] is None  # it has no port
        board.line = b""
        with pytest.warns(axbridge.ControlWarning, match="sensor 'imu' tells nothing: the IMU on .* has fallen silent"):
            run(robot, 0.3)
        assert robot.imu is None
        board.line = LEVEL
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # said once
            run(robot, 0.3)
        assert robot.imu is not None
        assert "sensor 'imu' is back" in caplog.text
