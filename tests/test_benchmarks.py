"""Every benchmark runs to its end, at its smallest size. This takes minutes, so only CI runs it."""

import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.ci]

FOLDER = Path(__file__).parents[1] / "benchmarks"
LOGS = FOLDER.parent / "docs" / "real" / "xl330_pendulum"
SMALLEST = {
    "bridge_cost.py": ("--loops", "5", "--turns", "1"),
    "bridge_ends.py": ("--ends", "1"),
    "bridge_normal_use.py": ("--minutes", "0.05"),
    "bridge_scenarios.py": ("--only", "killed in motion"),
    "bridge_transparency.py": ("--transactions", "200"),
    "bus_cycle.py": ("20",),
    "bus_soak.py": ("500",),
    "export_mujoco.py": ("--models", "lima2009"),
    "first_run.py": ("import", "version"),
    "identify_coverage.py": ("--starts", "1", "--generations", "2"),
    "identify_gains.py": (str(LOGS), "--leave-out", "none", "--starts", "1", "--budget", "5"),
    "plant_cost.py": ("--turns", "1"),
    "plant_rollouts.py": ("--sets", "20"),
    "quick.py": ("1", "20", "50"),
    "recording_memory.py": ("--minutes", "0.05", "--servos", "2"),
    "safety_signals.py": ("--ends", "1"),
    "twin_causes.py": ("--runs", "1", "--minutes", "0", "--only", "blocked", "--json"),
    "unasked_motion.py": ("--families", "ax-12a", "--events", "torque_on"),
    "walking.py": ("--steps", "2"),
    "clients.py": ("--calls", "5"),
}
NEEDS = {"engines.py": "pybullet", "export_mujoco.py": "mujoco"}
SERVES = "bus_line.py"  # runs until a signal ends it
SCRIPTS = sorted(
    path.name
    for path in FOLDER.glob("*.py")
    if path.name != SERVES and find_spec(NEEDS.get(path.name, "axbridge")) is not None
)
TIMEOUT = 900  # s


def printed(folder, *command):
    """Run a benchmark to its end; return its output."""
    command = [sys.executable, FOLDER / command[0], *command[1:]]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)
    assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-2000:]
    return finished.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_runs_to_its_end_and_prints_results(script, tmp_path):
    assert any(character.isdigit() for character in printed(tmp_path, script, *SMALLEST.get(script, ())))


def test_the_bus_of_the_other_benchmarks_is_served_until_a_signal_ends_it():
    command = [sys.executable, FOLDER / SERVES, "2", "none"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().split()[-1]
        scan = [sys.executable, "-m", "axbridge", "scan", "--port", port, "--ids", "0-3"]
        finished = subprocess.run(scan, capture_output=True, text=True, timeout=TIMEOUT)
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert [line.split()[3] for line in finished.stdout.splitlines()] == ["1", "2"], finished.stdout + finished.stderr
