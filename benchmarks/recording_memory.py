"""Memory and time of a long recording: made, closed, looked at, compared, and made a bag. Prints JSON.

    python benchmarks/recording_memory.py [--minutes 60] [--servos 18] [--rate 50]

Samples are made as fast as the recorder takes them. Every part is a process of its own. Its peak memory is given above
that of a process that imports the same and does nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORTED = "import axbridge.cli, axbridge.comparison.comparison, axbridge.recording.recorder"


def record(path: Path, minutes: float, servos: int, rate: float) -> None:
    """Record, and close."""
    import numpy as np

    from axbridge.recording.recorder import Recorder
    from axbridge.state import SERVO_ROW

    names = tuple(f"servo_{number}" for number in range(1, servos + 1))
    rows = np.full(servos, np.nan, SERVO_ROW)
    rows["torque"], rows["load"], rows["voltage"], rows["temperature"], rows["errors"] = 0.1234567, 0.25, 11.1, 38.0, 0
    rows["true_torque"], rows["torque_enabled"], rows["power"] = 0.3, 1, 1.7
    with Recorder(path, {"backend": "real", "experiment": "benchmark"}) as recorder:
        for tick in range(round(minutes * 60 * rate)):
            now = tick / rate
            if tick % round(10 * rate) == 0:
                recorder.event(now, "segment", name=f"part {tick}")
            rows["time"], rows["velocity"] = now, math.cos(now)
            rows["position"] = rows["command"] = np.sin(now + np.arange(servos))
            rows["true_position"] = rows["position"] + 0.001
            recorder.step(names, rows)
            recorder.cycle(now, late_ms=0.0)


def cost(*command: str) -> dict[str, float]:
    """Peak memory, MB, and processor time, s, of a command in a process of its own."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return {"peak_mb": used.ru_maxrss / 1024, "cpu_s": round(used.ru_utime + used.ru_stime, 2)}


def main() -> None:
    """Run every part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--servos", type=int, default=18)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.record:
        record(chosen.record, chosen.minutes, chosen.servos, chosen.rate)
        return
    with tempfile.TemporaryDirectory() as folder:
        path, page = f"{folder}/long.mcap", f"{folder}/page.html"
        rest = cost("-c", IMPORTED)["peak_mb"]
        report: dict[str, object] = {"idle_mb": round(rest)}
        for name, *command in (
            ("record", __file__, "--record", path, *sys.argv[1:]),
            ("info", "-m", "axbridge", "info", path),
            ("compare", "-m", "axbridge", "compare", path, path, "--json"),
            ("page", "-m", "axbridge", "compare", path, path, "--out", page),
            ("bag", "-m", "axbridge", "convert", path, f"{folder}/bag", "--ros2"),
        ):
            found = cost(*command)
            report[name] = {"mb_above_idle": round(found["peak_mb"] - rest), "cpu_s": found["cpu_s"]}
            print(name, report[name], file=sys.stderr, flush=True)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
