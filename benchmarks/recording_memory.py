"""Memory and time of a long recording: made, closed, looked at, compared, made a bag, read by column or when cut off.

    python benchmarks/recording_memory.py [--minutes 60] [--servos 18] [--rate 50]

Samples are made as fast as the recorder takes them. Every part runs in a process of its own, whose peak memory is that
of a process that imports the same and does nothing, and what the part needed above it.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from axbridge.comparison.comparison import Comparison


def record(path: Path, minutes: float, servos: int, rate: float, *, close: bool = True) -> dict[str, float]:
    """Record, then close; both timed."""
    import numpy as np

    from axbridge.recording.recorder import Recorder
    from axbridge.state import SERVO_ROW

    names = tuple(f"servo_{number}" for number in range(1, servos + 1))
    rows = np.full(servos, np.nan, SERVO_ROW)
    rows["torque"], rows["load"], rows["voltage"], rows["temperature"], rows["errors"] = 0.1234567, 0.25, 11.1, 38.0, 0
    rows["true_torque"], rows["torque_enabled"], rows["power"] = 0.3, 1, 1.7
    start = time.perf_counter()
    recorder = Recorder(path, {"backend": "real", "experiment": "benchmark"})
    for tick in range(round(minutes * 60 * rate)):
        now = tick / rate
        if tick % round(10 * rate) == 0:
            recorder.event(now, "segment", name=f"part {tick}")
        rows["time"], rows["velocity"] = now, math.cos(now)
        rows["position"] = rows["command"] = np.sin(now + np.arange(servos))
        rows["true_position"] = rows["position"] + 0.001
        recorder.step(names, rows)
        recorder.cycle(now, late_ms=0.0)
    made = time.perf_counter()
    if close:
        recorder.close()
    else:
        time.sleep(1.0)  # what was recorded a moment ago reaches the disk; then the process ends, and nothing is closed
    return {"recording_s": made - start, "closing_s": time.perf_counter() - made, "file_mb": path.stat().st_size / 1e6}


def killed(path: Path, minutes: float, servos: int, rate: float) -> dict[str, float]:
    """Record and end without closing."""
    return record(path, minutes, servos, rate, close=False)


def info(path: Path) -> dict[str, float]:
    """`axbridge info`, in this process."""
    from axbridge import cli

    sys.argv = ["axbridge", "info", str(path)]
    try:
        cli.main()
    except SystemExit as end:
        return {"exit_code": float(end.code or 0)}
    return {}


def compare(path: Path) -> dict[str, float]:
    """The work of `axbridge compare`: each servo of both sides, read and set side by side."""
    from axbridge.comparison.comparison import compare as comparing
    from axbridge.recording.stored import open_recording

    found = comparing(open_recording(path), open_recording(path))
    return {"pairs": len(found.pairs)}


def following(path: Path) -> dict[str, float]:
    """`axbridge compare` of one recording: each servo with its goals; the page and the picture."""
    from axbridge.comparison.comparison import following as following_
    from axbridge.recording.stored import open_recording

    return _reported(following_(open_recording(path)))


def report(path: Path) -> dict[str, float]:
    """`axbridge compare` of two recordings with `--out` and `--png`."""
    from axbridge.comparison.comparison import compare as comparing
    from axbridge.recording.stored import open_recording

    return _reported(comparing(open_recording(path), open_recording(path)))


def _reported(found: Comparison) -> dict[str, float]:
    from axbridge.comparison.html import write_html
    from axbridge.comparison.png import write_png

    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "page.html", Path(folder) / "picture.png"
        write_html(found, page)
        write_png(found, picture)
        return {"page_mb": page.stat().st_size / 1e6, "picture_mb": picture.stat().st_size / 1e6}


def column(path: Path) -> dict[str, float]:
    """One servo."""
    from axbridge.recording.stored import open_recording

    recording = open_recording(path)
    return {"samples": len(recording[next(iter(recording))].position)}


def ros2(path: Path) -> dict[str, float]:
    """`axbridge convert --ros2`."""
    from axbridge.recording.ros2 import write_ros2
    from axbridge.recording.stored import open_recording

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        bag = Path(folder) / "bag"
        counts = write_ros2(open_recording(path), bag)
        return {"messages": sum(counts.values()), "bag_mb": sum(file.stat().st_size for file in bag.iterdir()) / 1e6}


def idle(path: Path) -> dict[str, float]:
    """What the parts import, and nothing else."""
    import axbridge.cli
    import axbridge.comparison.comparison
    import axbridge.recording.recorder

    return {"modules": len((axbridge.cli, axbridge.comparison.comparison, axbridge.recording.recorder, path)) - 1}


def _part(name: str, *arguments: str) -> dict[str, float]:
    """One part in a process of its own: its figures, its time and its peak memory."""
    command = [sys.executable, __file__, "--part", name, *arguments]
    start = time.perf_counter()
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    elapsed = time.perf_counter() - start
    return {"elapsed_s": elapsed} | dict(json.loads(said.splitlines()[-1]))


def main() -> None:
    """Run every part; print JSON, and each part on stderr as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--servos", type=int, default=18)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--folder", type=Path, help="Where to put the file; default: a temporary one.")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part:
        size = (chosen.minutes, chosen.servos, chosen.rate) if chosen.part in {"record", "killed"} else ()
        began = time.process_time()
        found = globals()[chosen.part](chosen.path, *size)
        found["cpu_s"] = time.process_time() - began
        found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        whole, cut = Path(folder) / "whole.mcap", Path(folder) / "cut.mcap"
        size = [f"--minutes={chosen.minutes}", f"--servos={chosen.servos}", f"--rate={chosen.rate}"]
        rest = _part("idle", f"--path={whole}")["peak_mb"]
        report = {"idle_mb": rest}
        parts = [
            ("record", whole),
            ("info", whole),
            ("column", whole),
            ("compare", whole),
            ("report", whole),
            ("following", whole),
            ("ros2", whole),
            ("killed", cut),
            ("info", cut),
        ]
        for name, path in parts:
            found = _part(name, f"--path={path}", *size)
            above = found.pop("peak_mb") - rest
            report[f"{name} {path.stem}"] = {"mb_above_idle": above, **found}
            print(f"{name} {path.stem}: {above:.0f} MB above idle", file=sys.stderr, flush=True)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
