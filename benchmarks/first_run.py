"""What the first runs on a machine cost: nothing is compiled yet, then everything is.

Each run has a cache folder of its own. CPU is that of the command and of the processes that it waits for; `beside_s` is
how long, after it, kernels are compiled by the process that it has started. Names of runs as arguments choose some.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECOND = """
import axbridge
with axbridge.open({rig!r}, backend="sim") as robot:
    while robot.step(20) != -1 and robot.time < 1.0:
        pass
"""
RUNS = {
    "import": ["-c", "import axbridge"],
    "version": ["-m", "axbridge", "--version"],
    "info": ["-m", "axbridge", "info", "step.mcap"],
    "bench_arm_1s": ["-c", SECOND.format(rig="bench_arm")],
    "serve_bench_arm": ["-m", "axbridge", "serve", "bench_arm", "--tcp", "127.0.0.1:0"],
    "compare_bench_arm": ["-m", "axbridge", "compare", "step.mcap", "--rig", "bench_arm"],
    "bioloid_1s": ["-c", SECOND.format(rig="bioloid")],
    "warmup": ["-m", "axbridge", "warmup"],
}


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def first_answer(command, folder, cache):
    """CPU and wall time, s, until the command has ended, or a server is ready."""
    before, began = children_cpu(), time.monotonic()
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": ""}
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        if "serve" in command:
            process.stdout.readline()
            wall = time.monotonic() - began
            process.send_signal(signal.SIGTERM)
        process.communicate()
        wall = wall if "serve" in command else time.monotonic() - began
    return children_cpu() - before, wall


def settled(cache, patience=180.0):
    """Wait until nothing is compiled beside any more; how long that took, s."""
    began = time.monotonic()
    while list(cache.glob("axbridge/*/warming")) and time.monotonic() - began < patience:
        time.sleep(0.1)
    return time.monotonic() - began


def main():
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record = [sys.executable, "-m", "axbridge", "record", "step", "--rig", "bench_arm", "--out", "step.mcap"]
        plain = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
        subprocess.run(record, cwd=folder, env=plain, check=True, capture_output=True)
        for run in sys.argv[1:] or RUNS:
            cache = folder / run
            cold = first_answer(RUNS[run], folder, cache)
            beside = settled(cache)
            warm = first_answer(RUNS[run], folder, cache)
            found[run] = {
                "cold_cpu_s": round(cold[0], 2), "cold_wall_s": round(cold[1], 2), "beside_s": round(beside, 1),
                "warm_cpu_s": round(warm[0], 2), "warm_wall_s": round(warm[1], 2),
            }  # fmt: skip
            print(run, found[run], file=sys.stderr, flush=True)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
