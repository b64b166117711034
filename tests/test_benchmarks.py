"""Every benchmark still starts: each is run at its smallest size; what has none is started, and ended after a moment."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "benchmarks"
LOGS = FOLDER.parent / "docs" / "real" / "xl330_pendulum"
SMALLEST = {
    "export_bam.py": (str(LOGS),),
    "first_run.py": ("import", "version"),
    "identify_legs.py": ("--walks", "1", "--steps", "4", "--joints", "left_knee"),
    "identify_throughput.py": ("--rounds", "1", "--sets", "10"),
    "learn_cluster.py": ("--size", "0.1", "--kinds", "episodes"),
    "learn_sim_to_real.py": ("--generations", "1", "--targets", "1", "--episodes", "1", "--workers", "0"),
    "learn_throughput.py": ("--robots", "1", "--seconds", "0.1"),
    "line_soak.py": ("--transactions", "500"),
    "plant_cost.py": ("--turns", "2"),
    "plant_humanoid.py": ("--falls", "1"),
    "plant_rollouts.py": ("--sets", "20"),
    "recording_memory.py": ("--minutes", "0.05", "--servos", "2"),
    "twin_causes.py": ("--runs", "1", "--minutes", "0", "--only", "blocked", "--json"),
}
BRIEFLY = 2.0  # s, for those that take longer at any size
LONG = {
    "bus_line.py": ("2", "none"),
    "identify_gains.py": (str(LOGS), "--leave-out", "none"),
}  # what they cannot do without
OF_BULLET = {"engines.py", "plant_cost.py", "plant_couplings.py", "plant_humanoid.py"}
NEEDS = dict.fromkeys(OF_BULLET, "pybullet") | {
    "learn_cluster.py": "distributed",
    "identify_legs.py": "mujoco",
}
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if find_spec(NEEDS.get(path.name, "axbridge")) is not None)
AT_ONCE = 4  # most of those that are ended soon only wait


def started(script):
    """Whether it was ended, its exit status, what it printed, and its errors."""
    process = subprocess.Popen(
        [sys.executable, str(FOLDER / script), *{**SMALLEST, **LONG}.get(script, ())],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=120 if script in SMALLEST else BRIEFLY)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return True, None, *process.communicate()
    return False, process.returncode, out, err


@pytest.fixture(scope="module")
def runs():
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {script: pool.submit(started, script) for script in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_starts(script, runs):
    ended, status, out, err = runs[script].result()
    if ended:
        assert script not in SMALLEST
        assert "Traceback" not in err
        return
    lost = script not in SMALLEST and "axbridge.errors" in err  # a busy machine is late: not what is asked here
    assert status == 0 or lost, err[-2000:]
    if script in SMALLEST:
        assert json.loads(out)


@pytest.mark.skipif(not (find_spec("mujoco") and find_spec("pybullet")), reason="needs both engines")
def test_a_fall_is_measured():
    """It comes late in benchmarks/engines.py, which the test above ends before."""
    from benchmarks.engines import falls  # it takes both engines along

    assert falls("mujoco", 1).startswith("1 of 1 (")
