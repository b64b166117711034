"""Time from the end of a controller to torque off, as the servos see it, for every way to end; prints JSON (ms).

For SIGKILL, SIGTERM and SIGINT the time runs from the signal. A hanging controller has `stale_command_ms` = 100; its
time runs from its last line of output, just before it hangs.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.pty_line import PtyLine

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
CONTROLLER = """
import sys, time
from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.serial import SerialBus
from axbridge.robot.safety.net import Safety

bus = SerialBus(sys.argv[1])
cycle = Cycle(bus, [CycleServo(str(id_), id_) for id_ in range(1, 19)])
with Safety([cycle], stale_command_ms=100) as safety:
    for step in range(100_000):
        safety.feed()
        cycle.exchange({str(id_): Goal(500, 100) for id_ in range(1, 19)})
        if step == 15:
            print("running", flush=True)
            if sys.argv[2] == "exception":
                raise ZeroDivisionError
            if sys.argv[2] == "hang":
                time.sleep(60)
            if sys.argv[2] == "hang with the interpreter locked":
                import ctypes
                ctypes.PyDLL(None).usleep(5_000_000)
        time.sleep(0.01)
"""
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}


def end(way: str) -> float:
    """Let a controller end; return the time to torque off of all 18 servos, ms."""
    with PtyLine(range(1, 19)) as line:
        controller = subprocess.Popen(
            [sys.executable, "-c", CONTROLLER, line.port, way], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert controller.stdout
        controller.stdout.readline()
        since = time.monotonic()
        if way in SIGNALS:
            time.sleep(0.2)
            since = time.monotonic()
            controller.send_signal(SIGNALS[way])
        while any(table[24] for table in line.tables.values()):
            time.sleep(0.0005)
        took = time.monotonic() - since
        controller.kill()
        controller.wait()
        controller.stdout.close()
        return took * 1e3


def main() -> None:
    """Measure and print."""
    report = {}
    for way in (*SIGNALS, "exception", "hang", "hang with the interpreter locked"):
        times = sorted(end(way) for _ in range(ROUNDS))
        report[way] = {"median_ms": times[len(times) // 2], "worst_ms": times[-1]}
    print(json.dumps(report, indent=2))


main()
