"""Many transactions on a line that echoes, loses, delays, damages and adds junk; prints JSON, fails on a wrong value.

`python benchmarks/bus_soak.py [COUNT]`: 20 000 by default, 1 000 000 for the real thing (several minutes). Every
register read holds a value that tells servo and register, and some are rewritten all the time, so that any mixed-up or
late answer shows.
"""

from __future__ import annotations

import json
import random
import sys
import time

from bus_line import line

from axbridge.bus.serial import SerialBus
from axbridge.errors import BusTimeout, CorruptPacket, ServoFault

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
SERVOS = 6
FAULTS = "echo,drop=0.01,corrupt=0.01,late=0.01:40ms,noise=0.01"
GOAL, SPEED, LIMIT, PUNCH = 30, 32, 34, 48


def main() -> int:
    """Run."""
    dice = random.Random(4)
    wrong, lost = [], 0
    unsure: set[tuple[int, int]] = set()
    with line(SERVOS, "none", FAULTS) as port, SerialBus(port) as bus:
        began = time.perf_counter()
        truth: dict[tuple[int, int], bytes] = {}
        for turn in range(COUNT):
            id_ = dice.randint(1, SERVOS)
            address = dice.choice((GOAL, SPEED, LIMIT, PUNCH))
            key = (id_, address)
            try:
                if key not in truth or dice.random() < 0.1:
                    value = (address * 20 + id_ * 3 + turn) % 1000
                    data = value.to_bytes(2, "little")
                    unsure.add(key)
                    bus.write(id_, address, data)
                    truth[key] = data
                    unsure.discard(key)
                elif key not in unsure:
                    heard = bus.read(id_, address, 2).data
                    if heard != truth[key]:
                        wrong.append((turn, key, heard.hex(), truth[key].hex()))
            except (BusTimeout, CorruptPacket, ServoFault):
                lost += 1
        took = time.perf_counter() - began
        servos = bus.stats.servos.values()
        counted = {
            name: sum(getattr(servo, name) for servo in servos)
            for name in vars(next(iter(servos)))
            if name != "last_seen"
        }
    print(
        json.dumps(
            {
                "transactions": COUNT,
                "faults": FAULTS,
                "wrong": len(wrong),
                "first_wrong": wrong[:3],
                "given_up": lost,
                "counted": counted,
                "junk_bytes": bus.stats.junk,
                "echo": bus.echo,
                "seconds": took,
            },
            indent=2,
        )
    )
    return 1 if wrong else 0


sys.exit(main())
