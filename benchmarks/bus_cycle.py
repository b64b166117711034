"""Rate of full exchanges with 18 servos at 1 Mbps, and what a 50 Hz loop costs the host; prints JSON.

``wire``: every byte takes its time, replies are held up by the servos' 1 kHz interrupt as measured on AX-12s.
``wire-steady``: without that interrupt: what the line itself allows. ``none``: no wire time, the host's share alone.
``cpu_us`` is the host's processor time for an exchange; without numba, Python asks one servo after the other (`Burst`).
"""

from __future__ import annotations

import json
import sys
import time

from bus_line import line

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import percentile, wire_time

SERVOS = 18
CYCLES = int(sys.argv[1]) if len(sys.argv) > 1 else 500
LOOP_SECONDS = 4.0


def rate(port: str, *, compiled: bool = True) -> dict[str, float]:
    """Exchanges back to back."""
    with SerialBus(port) as bus:
        if compiled:
            bus.prepare()
        cycle = Cycle(bus, [CycleServo(str(id_), id_) for id_ in range(1, SERVOS + 1)])
        goals = {str(id_): Goal(512, 100) for id_ in range(1, SERVOS + 1)}
        for _ in range(20):
            cycle.exchange(goals)
        spent, faults, used = [], 0, time.process_time()
        for _ in range(CYCLES):
            result = cycle.exchange(goals)
            spent.append(result.spent)
            faults += len(result.faults)
        used = time.process_time() - used
    p50, p99 = percentile(spent, 0.5), percentile(spent, 0.99)
    return {
        "rate_hz": CYCLES / sum(spent),
        "p50_ms": 1e3 * p50,
        "p99_ms": 1e3 * p99,
        "p99_over_p50": p99 / p50,
        "wire_share": wire_time(SERVOS) / (sum(spent) / CYCLES),
        "cpu_us": 1e6 * used / CYCLES,
        "faults": faults,
    }


def loop(port: str, *, compiled: bool = True) -> dict[str, float]:
    """A 50 Hz control loop: processor time over wall time."""
    with SerialBus(port) as bus:
        if compiled:
            bus.prepare()
        cycle = Cycle(bus, [CycleServo(str(id_), id_) for id_ in range(1, SERVOS + 1)])
        goals = {str(id_): Goal(512, 100) for id_ in range(1, SERVOS + 1)}
        began, used = time.monotonic(), time.process_time()
        due = bus.clock.now()
        while time.monotonic() - began < LOOP_SECONDS:
            cycle.exchange(goals)
            due += 0.02
            bus.clock.sleep_until(due)
        return {"cpu_share": (time.process_time() - used) / (time.monotonic() - began), "rate_hz": cycle.times.rate}


def main() -> None:
    """Measure and print."""
    report = {"wire_limit_hz": 1 / wire_time(SERVOS)}
    for timing in ("wire-steady", "wire", "none"):
        with line(SERVOS, timing) as port:
            report[timing] = rate(port)
            report[f"{timing}, without numba"] = rate(port, compiled=False)
    with line(SERVOS, "wire") as port:
        report["loop_50_hz"] = loop(port)
        report["loop_50_hz, without numba"] = loop(port, compiled=False)
    print(json.dumps(report, indent=2))


main()
