"""Replies that come twice: how many wrong values reach the caller? A tenth of them is repeated 0 to 4 ms later.

`python benchmarks/bus_doubled.py [QUESTIONS] [MILLISECONDS]`: 2000 each way, repeated at most 4 ms later. Each answer
tells which question it belongs to, so that a value of a repeated reply shows. The servos are on a pseudo-terminal, in
this process. Their answers take their time on the wire; the host asks as fast as it can. Prints JSON: for each way to
ask the questions, the replies repeated, the wrong values, and µs a question.
"""

from __future__ import annotations

import json
import random
import sys
import time
from heapq import heappop, heappush
from pathlib import Path

from axbridge.bus.cycle import Cycle, CycleServo
from axbridge.bus.protocols.packet import byte_seconds
from axbridge.bus.serial import SerialBus
from axbridge.config.instructions import Instruction
from axbridge.config.registers import PRESENT

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.pty_line import PtyLine

QUESTIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
LATEST = (float(sys.argv[2]) if len(sys.argv) > 2 else 4.0) * 1e-3
SHARE = 0.1
WORDS = {30: "goal", 32: "moving speed", 34: "torque limit", 36: "position", 38: "speed"}


class _Queue(list):
    """What is due next comes first, as `PtyLine` expects of its late replies."""

    def popleft(self):
        return heappop(self)

    def append(self, entry):
        heappush(self, entry)


class DoublingLine(PtyLine):
    """Servos that count the READs they answer, in all their words: word `w` of answer `n` is n * 8 + w's place."""

    def __init__(self, ids):
        self.answered = dict.fromkeys(ids, 0)
        self.doubled = 0
        super().__init__(ids)
        self._late = _Queue()

    def _obey(self, id, packet):
        if packet.code == Instruction.READ:
            table = self.tables[id]
            for place, address in enumerate(WORDS):
                table[address : address + 2] = told(self.answered[id], place)
            self.answered[id] += 1
        return super()._obey(id, packet)

    def _answer(self, frame, packet):  # noqa: ARG002
        done = time.monotonic() + (8 + len(frame)) * byte_seconds(1_000_000)
        self._late.append((done, frame))
        if self.random.random() < SHARE:
            self.doubled += 1
            self._late.append((done + self.random.uniform(0.0, LATEST), frame))


def told(number: int, place: int) -> bytes:
    """What answer `number` has in this word."""
    return (number % 8192 * 8 + place).to_bytes(2, "little")


def one_by_one(addresses: list[int]) -> dict[str, float]:
    """Ask one servo for these words by turns."""
    with DoublingLine((1,)) as line, SerialBus(line.port) as bus:
        bus.latency = 0.1
        line.random = random.Random(1)
        before, wrong, began = line.answered[1], 0, time.monotonic()
        for number in range(QUESTIONS):
            address = addresses[number % len(addresses)]
            data = bus.read_many([(1, address, 2)])[0].data
            wrong += data != told(before + number, list(WORDS).index(address))
        return report(QUESTIONS, line, wrong, began)


def cycles(servos: int) -> dict[str, float]:
    """A control cycle of so many servos, back to back."""
    with DoublingLine(tuple(range(1, servos + 1))) as line, SerialBus(line.port) as bus:
        bus.latency = 0.1
        line.random = random.Random(1)
        cycle = Cycle(bus, [CycleServo(str(id_), id_) for id_ in range(1, servos + 1)])
        before, wrong, began = dict(line.answered), 0, time.monotonic()
        rounds = QUESTIONS // servos
        for number in range(rounds):
            for name, state in cycle.receive().states.items():
                wrong += state.position != (before[int(name)] + number) % 8192 * 8 + list(WORDS).index(36)
        return report(rounds * servos, line, wrong, began)


def report(questions: int, line: DoublingLine, wrong: int, began: float) -> dict[str, float]:
    """A row of the table."""
    each = (time.monotonic() - began) / questions * 1e6
    return {"questions": questions, "doubled": line.doubled, "wrong": wrong, "us_each": round(each)}


def main() -> None:
    """Measure and print."""
    assert PRESENT.size == 8  # position is its first word
    table = {
        "position, again and again": one_by_one([36]),
        "goal, speed, position by turns": one_by_one([30, 38, 36]),
        "five words by turns": one_by_one(list(WORDS)),
    }
    for servos in (1, 2, 6, 18):
        table[f"cycle of {servos}"] = cycles(servos)
    print(json.dumps(table, indent=2))


main()
