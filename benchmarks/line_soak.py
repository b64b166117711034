"""Long use of the in-process line with every fault on: does it leak? `--transactions 1000000` is a day at 50 Hz or so.

Prints JSON: transactions, outcomes, resident memory after a tenth and at the end, open file descriptors before and
after, transactions a second.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from axbridge.errors import AxBridgeError
from axbridge.virtual.bus import VirtualBus

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.virtual_rig import make_world

FAULTS = "drop=0.01,corrupt=0.01,truncate=0.01,late=0.01:40ms,duplicate=0.01,noise=0.01"
EVENTS = (
    "brownout:50ms",
    "unplug:20ms",
    "overload:3",
    "overheat:4:100ms",
    "stuck:5:100ms",
    "collision:6",
    "dead:7",
    "echo",
)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--transactions", type=int, default=60_000)
    wanted = parser.parse_args().transactions
    world = make_world(ids=tuple(range(1, 9)), return_delay_time=0, seed=3)
    world.bank.advance = lambda _: None  # the line is what is tested here
    bus = VirtualBus(world)
    outcomes = Counter()
    before = descriptors()
    start, early = time.perf_counter(), 0.0
    for number in range(wanted):
        if number % 2000 == 0:
            world.inject("none")
            world.inject(f"{FAULTS},{EVENTS[number // 2000 % len(EVENTS)]}")
        id_ = 1 + number % 8
        try:
            if number % 9 == 0:
                bus.sync_write(30, {n: (number % 1024).to_bytes(2, "little") for n in range(1, 9)})
            elif number % 50 == 0:
                bus.write(id_, 34, b"\xff\x03")
            else:
                bus.read(id_, 36, 8)
            outcomes["good"] += 1
        except AxBridgeError as error:
            outcomes[type(error).__name__] += 1
            world.sleep_until(world.now() + 0.001)
        if number == wanted // 10:
            early = resident()
    result = {
        "transactions": wanted,
        "outcomes": dict(outcomes),
        "simulated_s": round(world.now(), 1),
        "resident_mb_after_a_tenth": round(early, 1),
        "resident_mb_at_the_end": round(resident(), 1),
        "descriptors_before": before,
        "descriptors_after": descriptors(),
        "transactions_per_s": round(wanted / (time.perf_counter() - start)),
    }
    print(json.dumps(result, indent=2))


main()
