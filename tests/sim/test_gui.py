import os
import shutil
import subprocess
import sys

import pytest

import axbridge
from axbridge.errors import UsageError

pytestmark = pytest.mark.slow

SHOW = """
import time, axbridge
robot = axbridge.open("bench_arm", engine=ENGINE, world={"gui": True})
robot["shoulder"].set_position(0.5)
start = time.monotonic()
while robot.time < 0.2:
    robot.step(20)
print(robot["shoulder"].position > 0.05, time.monotonic() - start > 0.15, flush=True)
END
"""


@pytest.fixture(scope="module")
def screen():
    """Start an X server; yield its display."""
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "320x240x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            yield f":{server.stdout.readline().strip()}"
        finally:
            server.terminate()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a display")
@pytest.mark.parametrize("engine", ["bullet", "mujoco"])
def test_without_a_display_the_gui_is_refused(engine, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(UsageError, match="there is no display to show the world on"):
        axbridge.open("bench_arm", engine=engine, world={"gui": True})


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb (apt install xvfb)")
@pytest.mark.ci
@pytest.mark.parametrize(("engine", "end"), [("bullet", "robot.close()"), ("mujoco", "robot.close()"), ("mujoco", "")])
def test_a_world_with_a_window_runs_in_real_time_and_its_window_closes(engine, end, screen):
    env = {**os.environ, "LP_NUM_THREADS": "1", "DISPLAY": screen, "WAYLAND_DISPLAY": ""}
    command = [sys.executable, "-c", SHOW.replace("ENGINE", repr(engine)).replace("END", end)]
    # slow: rendered in software
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert "True True" in finished.stdout.splitlines(), finished.stdout + finished.stderr
    assert finished.returncode == 0, finished.stderr
