"""What the live page costs the loop that it watches: 18 served servos at 50 Hz, on a real line and beside a simulation.

    python benchmarks/view_cost.py [--minutes M] [--short S] [--json]

First without a page, with one at which nobody looks, and with one at which somebody looks for M minutes; then the same
beside a simulation that has to keep up with the wall clock. The client reads what the page sends and draws nothing: a
browser's own work belongs to the browser. CPU is that of the process that steps the robot, in shares of one core; the
page's share is what it has more than without a page. Memory is flat if its second half does not grow.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

import axbridge
from axbridge.virtual.background import serving

PERIOD = 20  # ms
EVERY = 10.0  # s between two lines about what is going on


@dataclass
class Measured:
    """What a while of steps was like.

    Attributes:
        late: Ms, of each step.
        cpu: Share of a core.
        memory: MB, every ten seconds.
        lag: Twin: S that the simulation is behind the wall clock, at worst; 0 without one.
        pace: Twin: Share of the wall clock's time that the simulation has gone.
    """

    late: list[float] = field(default_factory=list)
    cpu: float = 0.0
    memory: list[float] = field(default_factory=list)
    lag: float = 0.0
    pace: float = 1.0

    def facts(self) -> dict[str, Any]:
        """For people and programs."""
        late, half = sorted(self.late), len(self.memory) // 2
        return {
            "late_p99_ms": round(late[int(0.99 * len(late))], 2),
            "late_worst_ms": round(late[-1], 1),
            "late_share": round(sum(one > 1 for one in late) / len(late), 4),
            "cpu": round(self.cpu, 3),
            "memory_mb": round(self.memory[-1], 1),
            "memory_grown_mb": round(self.memory[-1] - self.memory[half], 2),
            "real_time_factor": round(self.pace, 4),
            "simulation_behind_ms": round(1000 * self.lag, 1),
        }


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident() -> float:
    """MB in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


@contextmanager
def looking(url: str) -> Iterator[list[int]]:
    """A page that is open: it takes what comes; counts its bytes."""
    done, counted = threading.Event(), [0]

    def look() -> None:
        with connect(url.replace("http", "ws") + "live", proxy=None, max_size=None) as socket:
            while not done.is_set():
                try:
                    counted[0] += len(socket.recv(timeout=0.2))
                except TimeoutError:
                    continue

    client = threading.Thread(target=look)
    client.start()
    try:
        yield counted
    finally:
        done.set()
        client.join()


def measure(robot: axbridge.Robot, seconds: float, what: str) -> Measured:
    """Step a robot for so long, with its joints in motion."""
    found, start, said = Measured(), robot.time, 0.0
    simulated = 0.0
    if robot.simulation is not None:
        robot.simulation.shadow()  # brings the simulation up to now
        simulated = robot.simulation.world.now()
    began, spent = time.monotonic(), used()
    servos = list(robot.values())
    while (passed := robot.time - start) < seconds:
        if int(passed / 1.5) != int((passed - PERIOD / 1000) / 1.5):  # a small new pose every 1.5 s
            for number, servo in enumerate(servos):
                servo.set_position(servo.config.position + 0.05 * (-1) ** (number + int(passed / 1.5)))
        found.late.append(robot.step(PERIOD))
        if robot.simulation is not None:
            gone = robot.simulation.world.now() - simulated
            found.lag = max(found.lag, time.monotonic() - began - gone)
        if passed >= said:
            said += EVERY
            found.memory.append(resident())
            print(f"{time.strftime('%H:%M:%S')} {what}: {passed:.0f} of {seconds:.0f} s", file=sys.stderr, flush=True)
    found.memory.append(resident())
    took = time.monotonic() - began
    found.cpu = (used() - spent) / took
    if robot.simulation is not None:
        found.pace = (robot.simulation.world.now() - simulated) / took
    return found


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--minutes", type=float, default=1.0, help="somebody looks for so long, twice")
    words.add_argument("--short", type=float, default=20.0, help="s of the other measurements")
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with serving("bioloid") as port:
        with axbridge.open("bioloid", backend="real", port=port) as robot:
            measure(robot, min(2.0, asked.short), "warming up")
            rows["no page"] = measure(robot, asked.short, "no page").facts()
            page = robot.view(port=0, open=False)
            rows["nobody looks"] = measure(robot, asked.short, "nobody looks").facts()
            with looking(page.url) as counted:
                rows["one looks"] = measure(robot, 60 * asked.minutes, "one looks").facts()
            rows["one looks"]["kb_per_s"] = round(counted[0] / 60 / asked.minutes / 1000, 1)
        with axbridge.open("bioloid", backend="twin", port=port) as robot:
            measure(robot, min(2.0, asked.short), "twin, warming up")
            rows["twin, no page"] = measure(robot, asked.short, "twin, no page").facts()
            page = robot.view(port=0, open=False)
            with looking(page.url) as counted:
                rows["twin, one looks"] = measure(robot, 60 * asked.minutes, "twin, one looks").facts()
            rows["twin, one looks"]["kb_per_s"] = round(counted[0] / 60 / asked.minutes / 1000, 1)
    for watched, alone in (("one looks", "no page"), ("twin, one looks", "twin, no page")):
        rows[watched]["share_of_the_page"] = round(rows[watched]["cpu"] - rows[alone]["cpu"], 3)
    if asked.json:
        print(json.dumps(rows))
        return
    print("| | late p99 | worst | > 1 ms | CPU | the page's share | memory | grown | real-time factor | behind |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, row in rows.items():
        share = f"{row['share_of_the_page']:.1%}" if "share_of_the_page" in row else ""
        pace = f"{row['real_time_factor']:.3f} | {row['simulation_behind_ms']} ms" if "twin" in name else " | "
        print(
            f"| {name} | {row['late_p99_ms']} ms | {row['late_worst_ms']} ms | {row['late_share']:.2%} | "
            f"{row['cpu']:.1%} | {share} | {row['memory_mb']} MB | {row['memory_grown_mb']} MB | {pace} |"
        )


if __name__ == "__main__":
    main()
