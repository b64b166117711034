"""LeRobot on served arms, in a process of its own, and a hand that calibrates them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.hand import led
from tests.support.lerobot import with_lerobot
from tests.support.robot_files import write_feetech_comb
from tests.support.waiting import until
from tests.support.warm import serving

CLIENTS = Path(__file__).parent / "clients"
ENTER_FOR_FILE, MIDDLE, SWEEP = "Press ENTER to use provided", "to the middle of its range", "Press ENTER to stop"
ENDS = ((-2.6, 2.6), (-1.75, 1.75), (-1.6, 1.6), (-1.9, 1.9), (-2.9, 2.9), (-0.2, 1.8))  # rad, of the Koch's joints


@pytest.fixture(scope="module")
def lerobot(tmp_path_factory):
    """A Python with LeRobot and nothing of this project."""
    return with_lerobot(tmp_path_factory)


class Talk:
    """A process whose words are waited for and answered; it ends with the block."""

    def __init__(self, *command, **env):
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        self.process = subprocess.Popen(command, stderr=subprocess.STDOUT, env={**os.environ, **env}, **pipes)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.said, self._heard = "", 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def waits_for(self, text):
        """Wait until it says `text` (once more)."""
        until(lambda: self._says(text), 60)

    def _says(self, text):
        ended = self.process.poll() is not None
        self.said += (self.process.stdout.read() or b"").decode()
        place = self.said.find(text, self._heard)
        assert place >= 0 or not ended, self.said[-3000:]
        self._heard = place + len(text) if place >= 0 else self._heard
        return place >= 0

    def enter(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


@pytest.mark.ci
@pytest.mark.slow
def test_lerobots_own_feetech_bus_and_so101_arms_take_served_arms_for_arms(lerobot, tmp_path):
    rig, calibrations = write_feetech_comb(tmp_path, 6), tmp_path / "calibrations"
    calibrations.mkdir()
    with serving(rig) as port, serving(rig) as leaders:
        done = subprocess.run(
            [lerobot, CLIENTS / "lerobot_so101.py", port, leaders, calibrations],
            input="\n\n",  # ENTER takes the calibration from the file
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(CLIENTS / "stubs"), "HOME": str(tmp_path)},
            check=False,
        )
    assert (done.returncode, done.stdout.endswith("ok\n")) == (0, True), done.stdout + done.stderr


@pytest.mark.ci
@pytest.mark.slow
def test_lerobots_own_bus_follower_and_leader_take_served_arms_for_arms(lerobot, tmp_path):
    with led("koch", "none", "own") as (arm, tell), serving("koch_leader") as leader:

        def turn_all(share):
            """Turn each joint so far from its middle towards its end."""
            for row, (low, high) in enumerate(ENDS):
                tell(f"{row} {(low + high) / 2 + share * (high - low) / 2}")

        command = (lerobot, "-u", CLIENTS / "lerobot_client.py", arm, leader, tmp_path)
        turn_all(0.0)
        with Talk(*command, PYTHONPATH=str(CLIENTS / "stubs"), HOME=str(tmp_path)) as client:
            client.waits_for(MIDDLE)
            client.enter()
            client.waits_for(SWEEP)
            for share in (0.9, -0.9, 0.0):
                turn_all(share)
            client.enter()
            client.waits_for(ENTER_FOR_FILE)  # the leader's
            client.enter()
            client.waits_for("ok\n")
            assert client.process.wait(20) == 0
