"""The same simulation without numba."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from axbridge import jit

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[1] / "src"
SCRIPT = """
import json, sys
{block}
import axbridge
from axbridge.jit import COMPILED
with axbridge.open("bench_arm") as robot:
    arm = robot["shoulder"]
    arm.set_position(1.0)
    for _ in range(3):
        robot.step(20)
    print(json.dumps([COMPILED, arm.position, arm.load, robot.time]))
"""


def run(block):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(block=block)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_kernels_run_as_plain_python_where_numba_is_missing():
    plain = run("sys.modules['numba'] = None")
    usual = run("")
    assert plain[0] is False
    assert plain[1:] == usual[1:]


def test_a_numba_that_is_too_old_is_not_used_and_that_is_said(tmp_path):
    """One that pip did not choose: axbridge without `[fast]` takes what is there."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    facts = tmp_path / "numba-0.67.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.67.0\n")
    code = "from axbridge.servo.motor import warmed; from axbridge import jit; print(jit.COMPILED, round(warmed(6.0, 0.004, 10.0), 2))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(SOURCE)))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "False 6.24\n"
    assert "numba 0.67.0 is too old to compile the simulation" in done.stderr
    assert "pip install --upgrade numba" in done.stderr


def test_the_extra_asks_for_a_numba_that_compiles():
    (asked,) = re.findall(r'"numba>=([\d.]+)', (SOURCE.parent / "pyproject.toml").read_text())
    assert tuple(map(int, asked.split("."))) == jit._OLDEST
