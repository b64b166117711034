"""Reads on a line that repeats, loses and damages replies, and holds repeated ones back: wrong values, and why.

`python benchmarks/bus_held.py [READS [SEED]]`: 20 000 of one byte by default, each way, at random moments up to 20 ms
apart. Every register changes with each read, so that an old reply shows. Prints JSON: for each protocol, without and
with echo, the wrong values and those given up.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from axbridge.bus.protocols.known import SECOND
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.serial import SerialBus
from axbridge.errors import BusTimeout, CorruptPacket

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.pty_line import PtyLine

READS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
IDS = (1, 2, 3)
PLACES = {1: (30, 32, 34, 48), 2: (76, 80, 82, 84)}  # goals, limits, punch; gains
FATES = {"held": 0.05, "again": 0.05, "corrupt": 0.01, "drop": 0.01, "late": 0.01}


def reads(protocol: int, *, echo: bool) -> dict[str, float]:
    """A row of the table."""
    dice, fate = random.Random(SEED), random.Random(SEED + 1)

    def mishap(_: Packet) -> str | float:
        kind = fate.choices(["ok", *FATES], [1 - sum(FATES.values()), *FATES.values()])[0]
        return fate.uniform(0.001, 0.04) if kind == "late" else kind

    servos = dict.fromkeys(IDS, "ax-12a" if protocol == 1 else "xl330-m288")
    with PtyLine(servos, mishap=mishap, echo=echo) as line, SerialBus(line.port) as bus:
        if protocol == 2:
            bus.protocols.update(dict.fromkeys(IDS, SECOND))
        wrong = lost = 0
        for turn in range(READS):
            if dice.random() < 0.1:
                time.sleep(dice.uniform(0.0, 0.02))
            id_, address = dice.choice(IDS), dice.choice(PLACES[protocol])
            line[id_].table.data[address] = told = (turn * 7 + address) % 256  # another one with each read
            try:
                wrong += bus.read(id_, address, 1).data[0] != told
            except (BusTimeout, CorruptPacket):
                lost += 1
        late = sum(counts.late for counts in bus.stats.servos.values())
        return {"reads": READS, "wrong": wrong, "given_up": lost, "came_unasked": late}


def main() -> int:
    """Measure and print; a wrong value is a failure."""
    ways = [(protocol, echo) for protocol in (1, 2) for echo in (False, True)]
    table = {f"{protocol}.0{', echo' if echo else ''}": reads(protocol, echo=echo) for protocol, echo in ways}
    print(json.dumps(table, indent=2))
    return any(row["wrong"] for row in table.values())


if __name__ == "__main__":
    raise SystemExit(main())
