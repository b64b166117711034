"""What `axbridge bridge` adds to the questions of a program: time of a READ, and the rate of a loop over all servos.

dynamixel-sdk reads Present Position of each AX-12 of a served rig: directly, through the simplest relay there can be
(which shows what the machine itself adds), with ``--watch``, with all rules, and with a recording. The ways take turns;
a row has the medians of its turns. Put nothing else on the machine.

    .venv/bin/python benchmarks/bridge_cost.py --rig bioloid --loops 100 --turns 5
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dynamixel_sdk import PacketHandler, PortHandler

from axbridge.config.rig import Rig
from axbridge.testing import serve

_POSITION, _SIZE = 36, 2  # Present Position of an AX-12
_SIMPLEST = """
import os, pty, select, sys, tty
import serial
line = serial.Serial(sys.argv[1], 1_000_000, timeout=0)
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # as the bridge
except PermissionError:
    pass
master, slave = pty.openpty()
tty.setraw(slave)
print("ready:", os.ttyname(slave), flush=True)
other = {line.fileno(): master, master: line.fileno()}
waiting = select.epoll()
for end in other:
    waiting.register(end, select.EPOLLIN)
while True:
    for end, _ in waiting.poll():
        os.write(other[end], os.read(end, 4096))
"""
WAYS = ("direct", "simplest", "watch", "rules", "record")


@contextmanager
def through(way: str, rig: str, port: str) -> Iterator[str]:
    """Run what stands between; yield the port that a program opens."""
    if way == "direct":
        yield port
        return
    with tempfile.TemporaryDirectory() as folder:
        options = {"watch": ["--watch"], "record": ["--record", str(Path(folder, "run.mcap"))]}.get(way, [])
        bridge = ["-m", "axbridge", "bridge", rig, "--port", port, "--link", str(Path(folder, "arm")), *options]
        command = [sys.executable, *(["-c", _SIMPLEST, port] if way == "simplest" else bridge)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
            process.terminate()
            process.communicate()


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
    options.add_argument("--loops", type=int, default=100, help="of each turn")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    given = options.parse_args()
    ids = [servo.id for servo in Rig.load(given.rig).dynamixels if servo.id is not None]
    found = defaultdict(list)
    with serve(given.rig, timing="wire", engine=None) as bus:
        for turn in range(given.turns):
            print(f"turn {turn + 1} of {given.turns}", file=sys.stderr, flush=True)
            for way in given.ways:
                with through(way, given.rig, bus.port) as port:
                    times, rate, wrong = measure(port, ids, given.loops)
                late = statistics.quantiles(times, n=100)[98]
                found[way].append((statistics.median(times) * 1e3, late * 1e3, rate, wrong))
    print("way       median ms   99 % ms   loops/s   wrong")
    for way, turns in found.items():
        *columns, wrong = zip(*turns, strict=True)
        middle, late, rate = map(statistics.median, columns)
        print(f"{way:<9} {middle:9.3f} {late:9.3f} {rate:9.1f} {sum(wrong):7}")


if __name__ == "__main__":
    main()
