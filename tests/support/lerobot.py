"""Environments with LeRobot, which needs a newer Python than axbridge, and gets a stand-in for torch."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.made_once import made_once

LEROBOT = ("lerobot==0.6.1", "dynamixel-sdk", "feetech-servo-sdk", "pyserial", "draccus", "deepdiff", "tqdm", "huggingface-hub<2", "numpy<2.3",
           "opencv-python-headless<4.14")  # fmt: skip


def _newer_python():
    """A Python from 3.12 on, which LeRobot needs; None where there is none."""
    names = [sys.executable, *(shutil.which(f"python3.{minor}") for minor in (12, 13, 14))]
    for name in [*names, *sorted(Path.home().glob(".pyenv/versions/3.1[2-4]*/bin/python"))]:
        code = "import sys, ensurepip; sys.exit(sys.version_info < (3, 12))"
        if name and subprocess.run([name, "-c", code], capture_output=True, check=False).returncode == 0:
            return name
    return None


def with_lerobot(factory):
    """A Python with LeRobot and nothing of this project."""
    python = _newer_python()
    if python is None:
        pytest.skip("LeRobot needs Python 3.12 or later; there is none")
    return made_once(factory, "lerobot", partial(_with_lerobot, python))


def _with_lerobot(python, folder):
    own = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "venv", folder / "env"], check=True)
    for wanted in (("--no-deps", LEROBOT[0]), LEROBOT[1:]):
        install(own, *wanted)
    return own


def borrowing(python, folder):
    """A further environment in `folder`, to be changed; what `python`'s has is there, too."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(f"{next(python.parents[1].glob('lib/python*/site-packages'))}\n")
    return folder / "bin" / "python"


def install(python, *wanted):
    """Have pip install something; the test is skipped where that cannot be had."""
    command = [python, "-m", "pip", "install", "-q", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot be installed: {done.stderr[-300:]}")
