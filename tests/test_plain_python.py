"""The same simulation without numba."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

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
