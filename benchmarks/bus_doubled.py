"""Replies that come twice: how many wrong values reach the caller? A tenth of them is repeated 0 to 4 ms later.

`python benchmarks/bus_doubled.py [QUESTIONS] [MILLISECONDS]`: 2000 each way, repeated at most 4 ms later. Each answer
tells which question it belongs to, so that a value of a repeated reply shows. The servos are on a pseudo-terminal, in
this process. Their answers take their time on the wire; the host asks as fast as it can. Prints JSON: for each way to
ask the questions, the replies repeated, the wrong values, and µs a question. Fails on a wrong value.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import random
import select
import sys
import threading
import time
import tty
from heapq import heappop, heappush

from axbridge.bus.base import Reply
from axbridge.bus.cycle import Cycle, CycleServo
from axbridge.bus.protocols import v1
from axbridge.bus.protocols.packet import byte_seconds
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import PRESENT, Instruction

QUESTIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
LATEST = (float(sys.argv[2]) if len(sys.argv) > 2 else 4.0) * 1e-3
SHARE = 0.1
WORDS = {30: "goal", 32: "moving speed", 34: "torque limit", 36: "position", 38: "speed"}


class DoublingLine:
    """Servos that count the READs they answer, in all their words: word `w` of answer `n` is n * 8 + w's place."""

    def __init__(self, ids: range) -> None:
        self.answered = dict.fromkeys(ids, 0)
        self.doubled = 0
        self._random = random.Random(1)
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        """Answer until the host's end is closed."""
        decoder, due = v1.Decoder(), list[tuple[float, bytes]]()
        with contextlib.suppress(OSError):
            while True:
                wait = max(due[0][0] - time.monotonic(), 0.0) if due else None
                if select.select([self._master], [], [], wait)[0]:
                    for packet in decoder.feed(os.read(self._master, 4096)):
                        if packet.code == Instruction.READ and packet.id in self.answered:
                            self._answer(packet, due)
                while due and due[0][0] <= time.monotonic():
                    os.write(self._master, heappop(due)[1])

    def _answer(self, packet, due: list[tuple[float, bytes]]) -> None:
        address, length = packet.params
        table = bytearray(128)
        for place, word in enumerate(WORDS):
            table[word : word + 2] = told(self.answered[packet.id], place)
        self.answered[packet.id] += 1
        frame = v1.encode(packet.id, 0, bytes(table[address : address + length]))
        done = time.monotonic() + (8 + len(frame)) * byte_seconds(1_000_000)
        heappush(due, (done, frame))
        if self._random.random() < SHARE:
            self.doubled += 1
            heappush(due, (done + self._random.uniform(0.0, LATEST), frame))

    def __enter__(self) -> DoublingLine:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._slave)
        self._thread.join(1.0)
        os.close(self._master)


def told(number: int, place: int) -> bytes:
    """What answer `number` has in this word."""
    return (number % 8192 * 8 + place).to_bytes(2, "little")


def one_by_one(addresses: list[int]) -> dict[str, float]:
    """Ask one servo for these words by turns."""
    with DoublingLine(range(1, 2)) as line, SerialBus(line.port) as bus:
        bus.latency = 0.1
        wrong, began = 0, time.monotonic()
        for number in range(QUESTIONS):
            address = addresses[number % len(addresses)]
            (answer,) = bus.read_many([(1, address, 2)])
            if isinstance(answer, Reply):  # else this machine was too busy
                wrong += answer.data != told(line.answered[1] - 1, list(WORDS).index(address))
        return report(QUESTIONS, line, wrong, began)


def cycles(servos: int) -> dict[str, float]:
    """A control cycle of so many servos, back to back."""
    with DoublingLine(range(1, servos + 1)) as line, SerialBus(line.port) as bus:
        bus.latency = 0.1
        cycle = Cycle(bus, [CycleServo(str(id_), id_) for id_ in range(1, servos + 1)])
        wrong, began = 0, time.monotonic()
        rounds = QUESTIONS // servos
        for _ in range(rounds):
            for name, state in cycle.receive().states.items():
                wrong += state.position != (line.answered[int(name)] - 1) % 8192 * 8 + list(WORDS).index(36)
        return report(rounds * servos, line, wrong, began)


def report(questions: int, line: DoublingLine, wrong: int, began: float) -> dict[str, float]:
    """A row of the table."""
    each = (time.monotonic() - began) / questions * 1e6
    return {"questions": questions, "doubled": line.doubled, "wrong": wrong, "us_each": round(each)}


def main() -> int:
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
    return sum(row["wrong"] for row in table.values()) > 0


sys.exit(main())
