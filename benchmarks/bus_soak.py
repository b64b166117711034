"""Many transactions on a line that echoes, loses, delays, damages and adds junk; prints JSON, fails on a wrong value.

`python benchmarks/bus_soak.py [COUNT [LINE [SEED]]]`: 20 000 by default, 1 000 000 for the real thing (40 minutes). The
servos of the line speak Protocol `1`, `2`, Feetech's (`sts`), or `1` and `2` by turns: `mixed`. Every register read
holds a value that tells servo and register, and some are rewritten all the time, so that any mixed-up or late answer
shows. Runs of different seeds (of the questions and of the faults) may go side by side. Ctrl-C ends it early: what was
done by then counts.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time

from bus_line import line

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import BusTimeout, CorruptPacket, ServoFault

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
KIND = sys.argv[2] if len(sys.argv) > 2 else "1"
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 0
PROFILES = {
    "1": ["ax-12a"], "2": ["xl330-m288"], "sts": ["sts3215"], "mixed": ["ax-12a", "xl330-m288"],
}[KIND]  # fmt: skip
SERVOS = 6
FAULTS = "echo,drop=0.01,corrupt=0.01,late=0.01:40ms,noise=0.01"
REGISTERS = {"ax-12a": (30, 32, 34, 48), "xl330-m288": (76, 78, 80, 84), "sts3215": (44, 46, 48)}
# goal, speed, limit, punch; gains; time, speed, limit


def main() -> int:
    """Run."""
    dice = random.Random(SEED)
    wrong, lost, turn, stop = [], 0, 0, []
    signal.signal(signal.SIGINT, lambda number, _: stop.append(number))
    unsure: set[tuple[int, int]] = set()
    profiles = {id_: PROFILES[id_ % len(PROFILES)] for id_ in range(1, SERVOS + 1)}
    with line(SERVOS, "none", FAULTS, PROFILES, SEED) as port, SerialBus(port) as bus:
        for id_, profile in profiles.items():
            bus.set_protocol(id_, PROTOCOLS[FirmwareProfile.load(profile).protocol])
        began = time.perf_counter()
        truth: dict[tuple[int, int], bytes] = {}
        for turn in range(COUNT):
            if stop:
                break
            if turn % 10_000 == 0:
                print(f"{turn} of {COUNT}, {len(wrong)} wrong", file=sys.stderr)
            id_ = dice.randint(1, SERVOS)
            address = dice.choice(REGISTERS[profiles[id_]])
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
        counted = {name: sum(getattr(servo, name) for servo in servos) for name in vars(next(iter(servos)))}
    print(
        json.dumps(
            {
                "transactions": turn + (not stop),
                "line": KIND,
                "seed": SEED,
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
