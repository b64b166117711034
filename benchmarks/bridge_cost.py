"""What `axbridge bridge` adds to the questions of a program: time of a READ, and the rate of a loop over all servos.

dynamixel-sdk reads Present Position of each AX-12 of a served rig: directly, with ``--watch``, and with all rules.

    .venv/bin/python benchmarks/bridge_cost.py --rig bioloid --loops 100
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dynamixel_sdk import PacketHandler, PortHandler

from axbridge.config.rig import Rig
from axbridge.testing import serve

_POSITION, _SIZE = 36, 2  # Present Position of an AX-12


@contextmanager
def bridged(rig: str, port: str, *options: str) -> Iterator[str]:
    """Run ``axbridge bridge``; yield the port that a program opens."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "axbridge", "bridge", rig, "--port", port, "--link", str(Path(folder, "arm"))]
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
            process.terminate()


def measure(port: str, ids: list[int], loops: int) -> tuple[list[float], float, int]:
    """Times of all READs, s; loops a second; READs without a right answer."""
    line, protocol = PortHandler(port), PacketHandler(1.0)
    line.openPort()
    line.setBaudRate(1_000_000)
    times, wrong = [], 0
    begun = time.perf_counter()
    for _ in range(loops):
        for id_ in ids:
            asked = time.perf_counter()
            _, result, error = protocol.read2ByteTxRx(line, id_, _POSITION)
            times.append(time.perf_counter() - asked)
            wrong += bool(result or error)
    rate = loops / (time.perf_counter() - begun)
    line.closePort()
    return times, rate, wrong


def main() -> None:
    """Print a row for each way."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rig", default="bioloid")
    options.add_argument("--loops", type=int, default=100)
    given = options.parse_args()
    ids = [servo.id for servo in Rig.load(given.rig).dynamixels if servo.id is not None]
    print("way      median ms   99 % ms   loops/s   wrong")
    with serve(given.rig, timing="wire", engine=None) as bus:
        port = bus.port
        for way in ("direct", "watch", "rules"):
            if way == "direct":
                times, rate, wrong = measure(port, ids, given.loops)
            else:
                with bridged(given.rig, port, *(["--watch"] if way == "watch" else [])) as between:
                    times, rate, wrong = measure(between, ids, given.loops)
            late = statistics.quantiles(times, n=100)[98]
            print(f"{way:<8} {statistics.median(times) * 1e3:9.3f} {late * 1e3:9.3f} {rate:9.1f} {wrong:7}", flush=True)


if __name__ == "__main__":
    main()
