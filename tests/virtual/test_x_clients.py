"""LeRobot on served arms, in a process of its own, and a hand that calibrates them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.lerobot import with_lerobot
from tests.support.robot_files import write_feetech_comb
from tests.support.waiting import until
from tests.support.warm import serving

CLIENTS = Path(__file__).parent / "clients"
ENTER_FOR_FILE, MIDDLE, SWEEP = "Press ENTER to use provided", "to the middle of its range", "Press ENTER to stop"
SWEEPING = 5.0  # s, two ways from end to end


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

    def hears(self, text):
        """What it has said before `text` since the last time; None while it has not said that, and must not have ended."""
        ended = self.process.poll() is not None
        self.said += (self.process.stdout.read() or b"").decode()
        place = self.said.find(text, self._heard)
        if place < 0:
            assert not ended, self.said[-3000:]
            return None
        before, self._heard = self.said[self._heard : place], place + len(text)
        return before

    def waits_for(self, text):
        """As `hears`, once it has said `text`."""
        return until(lambda: (before := self.hears(text)) is not None and (before,), 60)[0]

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
    hand = tmp_path / "hand"
    hand.write_text("middle")
    with Talk(sys.executable, CLIENTS / "served_koch.py", hand) as arm, serving("koch_leader") as leader:
        arm.waits_for("ready: ")
        command = (lerobot, "-u", CLIENTS / "lerobot_client.py", arm.waits_for("\n"), leader, tmp_path)
        with Talk(*command, PYTHONPATH=str(CLIENTS / "stubs"), HOME=str(tmp_path)) as client:
            client.waits_for(MIDDLE)
            client.enter()
            client.waits_for(SWEEP)
            hand.write_text("sweep")
            time.sleep(SWEEPING)
            hand.write_text("")
            client.enter()
            client.waits_for(ENTER_FOR_FILE)  # the leader's
            client.enter()
            client.waits_for("ok\n")
            assert client.process.wait(20) == 0
