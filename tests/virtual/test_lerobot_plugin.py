"""`integrations/lerobot_robot_axbridge`: its own tests, in an environment with LeRobot, on arms that are served here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installed import installed
from tests.support.lerobot import borrowing, install, with_lerobot

DATASETS = ("datasets<5", "av<16", "pandas<3", "pillow")  # what its recorder writes with
PLUGIN = Path(__file__).parents[2] / "integrations" / "lerobot_robot_axbridge"


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.real_time
def test_any_rig_is_a_robot_of_lerobot(tmp_path, tmp_path_factory):
    python = borrowing(with_lerobot(tmp_path_factory), tmp_path / "env")
    wheel, _ = installed(tmp_path_factory)
    install(python, wheel, "pytest", "pytest-timeout", *DATASETS)
    install(python, "--no-deps", PLUGIN)
    env = {"AXBRIDGE": f"{sys.executable} -m axbridge", "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", PLUGIN / "tests"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=env, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout
