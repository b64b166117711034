"""Other people's software on served servos of Protocol 2.0, each in a process of its own."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.support.warm import serving

CLIENTS = Path(__file__).parent / "clients"
LEROBOT = ("lerobot==0.6.1", "dynamixel-sdk", "pyserial", "draccus", "deepdiff", "tqdm", "huggingface-hub<2", "numpy<2.3",
           "opencv-python-headless<4.14")  # fmt: skip
ENTER_FOR_FILE, MIDDLE, SWEEP = "Press ENTER to use provided", "to the middle of its range", "Press ENTER to stop"
SWEEPING = 5.0  # s, two ways from end to end


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize(
    ("client", "rig"), [("sdk2", "koch"), ("ros2_control", "koch"), ("both_protocols", "head_gripper")]
)
def test_dynamixel_sdk_makes_all_its_calls_of_protocol_2(client, rig):
    with serving(rig) as port:
        command = [sys.executable, CLIENTS / f"{client}.py", port]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env={"PATH": os.defpath}, check=False
        )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def newer_python():
    """A Python from 3.12 on, which LeRobot needs; None where there is none."""
    names = [sys.executable, *(shutil.which(f"python3.{minor}") for minor in (12, 13, 14))]
    for name in [*names, *sorted(Path.home().glob(".pyenv/versions/3.1[2-4]*/bin/python"))]:
        code = "import sys, ensurepip; sys.exit(sys.version_info < (3, 12))"
        if name and subprocess.run([name, "-c", code], capture_output=True, check=False).returncode == 0:
            return name
    return None


@pytest.fixture(scope="module")
def lerobot(tmp_path_factory):
    """A Python with LeRobot, a stand-in for torch, and nothing of this project."""
    python = newer_python()
    if python is None:
        pytest.skip("LeRobot needs Python 3.12 or later; there is none")
    folder = tmp_path_factory.mktemp("lerobot")
    subprocess.run([python, "-m", "venv", folder], check=True)
    own = folder / "bin" / "python"
    for wanted in (("--no-deps", LEROBOT[0]), LEROBOT[1:]):
        done = subprocess.run([own, "-m", "pip", "install", "-q", *wanted], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"LeRobot cannot be installed: {done.stderr[-300:]}")
    return own


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
@pytest.mark.real_time
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
