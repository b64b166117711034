"""The world in a window: on a virtual screen where Xvfb is installed, and a clear error where there is no screen."""

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SHOW = """
import time, axbridge
with axbridge.open("bench_arm", engine=ENGINE, world={"gui": True}) as robot:
    robot["shoulder"].set_position(0.5)
    began = time.monotonic()
    while robot.time < 0.5:
        robot.step(20)
    paced = time.monotonic() - began
print(round(robot["shoulder"].position, 1), paced > 0.4)
"""


@pytest.fixture(params=["bullet", "mujoco"])
def engine(request):
    return request.param


def run(engine, *command, **environment):
    return subprocess.run(
        [*command, sys.executable, "-c", SHOW.replace("ENGINE", repr(engine))],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_without_a_display_it_says_so(engine):
    done = run(engine, DISPLAY="", WAYLAND_DISPLAY="")
    assert done.returncode == 1
    assert "there is no display to show the world on" in done.stderr


@pytest.mark.skipif(shutil.which("xvfb-run") is None, reason="needs Xvfb (apt install xvfb)")
def test_a_watched_world_keeps_pace_with_the_wall_clock(engine):
    done = run(engine, "xvfb-run", "-a")
    assert done.stdout.splitlines()[-1] == "0.5 True", done.stdout + done.stderr
