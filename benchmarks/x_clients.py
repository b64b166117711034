"""Other people's clients on served servos of Protocol 2.0: is each call right, and how near is it to the wire's limit?

    python benchmarks/x_clients.py [--calls 200] [--lerobot PYTHON_WITH_LEROBOT]

Serves `koch` (six X servos) and `head_gripper` (two AX-12A and an XL330 on one line), motors off, and calls each client
in turn. Prints a table: calls that gave what the servos hold, calls that ended with the client's own error or time-out
(a busy computer makes them), calls that gave something else, the median time of a call that was right, and what its
bytes need at 1 Mbps with the servos' return delay. LeRobot needs a Python of its own, and is left out without one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from dynamixel_sdk import GroupBulkRead, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler

IDS = [1, 2, 3, 4, 5, 6]  # of koch: XL430, XL430, XL330 …
GOAL, POSITION, DELAY, OLD_POSITION = 116, 132, 9, 36
BYTE = 10 / 1e6  # s
NEAR = 6  # counts: a limp arm swings a little, long after it has come to rest
STUBS = Path(__file__).parents[1] / "tests" / "serve" / "clients" / "stubs"
LEROBOT = """
import json, sys, time
from lerobot.motors import Motor, MotorNormMode
from lerobot.motors.dynamixel import DynamixelMotorsBus
port, calls = sys.argv[1], int(sys.argv[2])
models = dict(zip("abcdef", ["xl430-w250"] * 2 + ["xl330-m288"] * 4))
bus = DynamixelMotorsBus(port, {n: Motor(i, m, MotorNormMode.DEGREES) for i, (n, m) in enumerate(models.items(), 1)})
while not bus.is_connected:
    try:
        bus.connect()
    except Exception:  # it asks each servo once, and a busy computer may be late
        bus.port_handler.closePort()
goals = dict.fromkeys(models, 2048)
asks = {
    "read Present_Position of one": lambda: [bus.read("Present_Position", "c", normalize=False)],
    "sync_read Present_Position of 6": lambda: list(bus.sync_read("Present_Position", normalize=False).values()),
    "sync_write Goal_Position to 6": lambda: bus.sync_write("Goal_Position", goals, normalize=False),
}
for name, ask in asks.items():
    took, said = [], []
    for _ in range(calls):
        began = time.perf_counter()
        try:
            said.append(ask())
        except Exception as failure:
            said.append(str(failure))
        took.append(time.perf_counter() - began)
        if said[-1] is None:  # written: is it there?
            said[-1] = [bus.read("Goal_Position", "f", normalize=False, num_retry=20)]
    print(json.dumps([name, took, said]))
"""


class Call(NamedTuple):
    """One call of a client: how to make it, whether what it gave is right (None: no answer), its bytes and delays."""

    client: str
    what: str
    ask: Callable[[], Any]
    right: Callable[[Any], bool | None]
    bytes: int
    delays: int


def read_2(ids: int, size: int) -> int:
    """Bytes of a sync read and its answers; of a read, for one servo."""
    return 14 + (ids if ids > 1 else 0) + ids * (11 + size)


def fast_2(ids: int, size: int) -> int:
    """Bytes of a fast sync read and its one answer."""
    return 14 + ids + 8 + ids * (4 + size)


def writing(write: Callable[[int], Any], read: Callable[[], float]) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """A call that writes another goal, counts, each time, and whether it is there afterwards."""
    goals = itertools.cycle(range(2000, 2100))
    latest = [0]

    def ask() -> Any:
        latest[0] = next(goals)
        return write(latest[0])

    return ask, lambda _said: abs(round(read()) - latest[0]) <= 1  # rustypot cuts a count off where others round


@contextmanager
def served(rig: str) -> Iterator[str]:
    """A rig on a pseudo-terminal."""
    command = [sys.executable, "-m", "axbridge", "serve", rig]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[1]
        finally:
            server.terminate()


def near(values: list[float], truth: list[float]) -> bool:
    """Whether positions, counts, are those of the servos."""
    return len(values) == len(truth) and all(abs(a - b) <= NEAR for a, b in zip(values, truth, strict=True))


def sdk_calls(port: PortHandler, packets: PacketHandler, truth: list[float]) -> list[Call]:
    """Those of dynamixel-sdk 2.0."""
    sync = GroupSyncRead(port, packets, POSITION, 4)
    bulk = GroupBulkRead(port, packets)
    for id_ in IDS:
        sync.addParam(id_)
        bulk.addParam(id_, POSITION, 4)
    goals = GroupSyncWrite(port, packets, GOAL, 4)

    def write_all(goal: int) -> int:
        goals.clearParam()
        for id_ in IDS:
            goals.addParam(id_, list(goal.to_bytes(4, "little")))
        return int(goals.txPacket())

    def goal_of(id_: int) -> int:
        return sure(packets.read4ByteTxRx, port, id_, GOAL)

    def group(of: Any, ask: Callable[[], int]) -> Callable[[], Any]:
        return lambda: [ask(), *(of.getData(id_, POSITION, 4) for id_ in IDS)]

    def all_right(said: list[int]) -> bool | None:
        return near(said[1:], truth) if said[0] == 0 else None

    def answered(wanted: list[float], said: tuple[int, ...]) -> bool | None:
        return near([*map(float, said[:-2])], wanted) and said[-1] == 0 if said[-2] == 0 else None

    own = "dynamixel-sdk"
    return [
        Call(own, "ping", lambda: packets.ping(port, 3), lambda said: answered([1200], said), 10 + 14, 1),
        Call(own, "read of 4 bytes", lambda: packets.read4ByteTxRx(port, 3, POSITION),
             lambda said: answered(truth[2:3], said), read_2(1, 4), 1),
        Call(own, "write of 4 bytes",
             *writing(lambda goal: packets.write4ByteTxRx(port, 3, GOAL, goal), lambda: goal_of(3)), 12 + 4 + 11, 1),
        Call(own, "sync read of 6", group(sync, sync.txRxPacket), all_right, read_2(6, 4), 6),
        Call(own, "fast sync read of 6", group(sync, sync.fastSyncRead), all_right, fast_2(6, 4), 1),
        Call(own, "bulk read of 6", group(bulk, bulk.txRxPacket), all_right, 10 + 5 * 6 + 6 * 15, 6),
        Call(own, "fast bulk read of 6", group(bulk, bulk.fastBulkRead), all_right, 10 + 5 * 6 + 8 + 6 * 8, 1),
        Call(own, "sync write to 6", *writing(write_all, lambda: goal_of(6)), 14 + 6 * 5, 0),
    ]  # fmt: skip


def rustypot_calls(address: str, truth: list[float]) -> list[Call]:
    """Those of rustypot's X classes, which speak rad."""
    from rustypot import Xl330PyController

    own = Xl330PyController(address, 1_000_000, 0.1)
    counts = 4096 / math.tau

    def position(said: list[float], of: list[float]) -> bool:
        return near([value * counts + 2048 for value in said], of)

    name = "rustypot Xl330"
    return [
        Call(name, "ping", lambda: own.ping(3), bool, 10 + 14, 1),
        Call(name, "read_present_position", lambda: own.read_present_position(3),
             lambda said: position(said, truth[2:3]), read_2(1, 4), 1),
        Call(name, "write_goal_position", *writing(
            lambda goal: own.write_goal_position(3, (goal - 2048) / counts),
            lambda: own.read_goal_position(3)[0] * counts + 2048), 12 + 4 + 11, 1),
        Call(name, "sync_read_present_position of 6", lambda: own.sync_read_present_position(IDS),
             lambda said: position(said, truth), read_2(6, 4), 6),
        Call(name, "sync_write_goal_position to 6", *writing(
            lambda goal: own.sync_write_goal_position(IDS, [(goal - 2048) / counts] * 6),
            lambda: own.read_goal_position(6)[0] * counts + 2048), 14 + 6 * 5, 0),
    ]  # fmt: skip


def pypot_2_calls(address: str) -> list[Call]:
    """What pypot's class for the XL-320, its one of Protocol 2.0, can do with other servos of that protocol."""
    from pypot.dynamixel.io import Dxl320IO

    own = Dxl320IO(address, baudrate=1_000_000, timeout=0.1)
    return [Call("pypot Dxl320IO", "ping", lambda: own.ping(3), bool, 10 + 14, 1)]


def mixed_calls(address: str) -> Iterator[tuple[list[Call], float]]:
    """Both protocols on one line: ids 1 and 2 are AX-12A, 3 is an XL330; and the return delay, s."""
    port, old, new = PortHandler(address), PacketHandler(1.0), PacketHandler(2.0)
    port.openPort()
    port.setBaudRate(1_000_000)
    *truth, newer = at_rest(
        lambda: [
            sure(old.read2ByteTxRx, port, 1, 36),
            sure(old.read2ByteTxRx, port, 2, 36),
            sure(new.read4ByteTxRx, port, 3, 132),
        ]
    )
    delay = 2e-6 * (sure(old.read1ByteTxRx, port, 1, 5) + sure(new.read1ByteTxRx, port, 3, DELAY)) / 2

    def both() -> Any:
        return [old.read2ByteTxRx(port, 1, OLD_POSITION), new.read4ByteTxRx(port, 3, POSITION)]

    def right(said: Any) -> bool | None:
        return near([one[0] for one in said], [truth[0], newer]) if all(each[1] == 0 for each in said) else None

    yield [Call("dynamixel-sdk", "read of an AX-12A and of an XL330", both, right, 8 + 8 + read_2(1, 4), 2)], delay
    port.closePort()

    from pypot.dynamixel.io import DxlIO

    with DxlIO(address, baudrate=1_000_000, timeout=0.1, use_sync_read=False) as own:
        zero = 1023 / 300  # counts a degree, from the middle
        yield [
            Call("pypot DxlIO", "get_present_position of 2 AX-12A", lambda: own.get_present_position([1, 2]),
                 lambda said: near([value * zero + 511.5 for value in said], truth), 2 * (8 + 8), 2)
        ], delay  # fmt: skip

    from rustypot import AxPyController, Xl330PyController

    rad = 1023 / math.radians(300)
    with suppress(AttributeError):
        ax = AxPyController(address, 1_000_000, 0.1)
        yield [
            Call("rustypot Ax", "read_present_position", lambda: ax.read_present_position(1),
                 lambda said: near([said[0] * rad + 511.5], truth[:1]), 8 + 8, 1)
        ], delay  # fmt: skip
        ax.close()
    xl = Xl330PyController(address, 1_000_000, 0.1)
    yield [
        Call("rustypot Xl330", "read_present_position", lambda: xl.read_present_position(3),
             lambda said: near([said[0] * 4096 / math.tau + 2048], [newer]), read_2(1, 4), 1)
    ], delay  # fmt: skip


def measured(calls: list[Call], times: int, delay: float) -> Iterator[dict[str, Any]]:
    """A row for each call."""
    for call in calls:
        took: list[float] = []
        found: list[bool | None] = []
        for _ in range(times):
            began = time.perf_counter()
            try:
                said = call.ask()
                took.append(time.perf_counter() - began)
                found.append(call.right(said))
            except Exception:  # noqa: BLE001 - whatever a client raises: no answer
                took.append(time.perf_counter() - began)
                found.append(None)
        yield row(call.client, call.what, found, took, call.bytes * BYTE + call.delays * delay)


def row(client: str, what: str, found: list[bool | None], took: list[float], limit: float) -> dict[str, Any]:
    """One line of the table."""
    good = [1000 * one for one, right in zip(took, found, strict=True) if right]
    counts = {"right": found.count(True), "none": found.count(None), "wrong": found.count(False)}
    median = statistics.median(good) if good else math.nan
    return {"client": client, "call": what, **counts, "ms": median, "wire_ms": 1000 * limit}


def lerobot_rows(python: str, address: str, times: int, truth: list[float], delay: float) -> Iterator[dict[str, Any]]:
    """LeRobot's bus, in its own interpreter."""
    said = subprocess.run(
        [python, "-c", LEROBOT, address, str(times)],
        env={**os.environ, "PYTHONPATH": str(STUBS)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    limits = (read_2(1, 4), 1, truth[2:3]), (read_2(6, 4), 6, truth), (14 + 6 * 5, 0, [2048.0])
    for line, (size, delays, wanted) in zip(said.splitlines(), limits, strict=True):
        name, took, found = json.loads(line)
        right = [None if isinstance(one, str) else near(one, wanted) for one in found]
        yield row("LeRobot", name, right, took, size * BYTE + delays * delay)


def sure(ask: Callable[..., tuple[int, int, int]], *arguments: Any) -> int:
    """What dynamixel-sdk reads, asked again until it has an answer."""
    while True:
        value, result, _ = ask(*arguments)
        if result == 0:
            return value


def at_rest(positions: Callable[[], list[int]]) -> list[float]:
    """Positions, counts, once the limp joints hang still."""
    first = positions()
    while True:
        time.sleep(0.5)
        second = positions()
        if near([*map(float, first)], [*map(float, second)]):
            return [float(value) for value in second]
        first = second


def rows(times: int, lerobot: str | None) -> Iterator[dict[str, Any]]:
    """Every row, line by line."""
    with served("koch") as address:
        port, packets = PortHandler(address), PacketHandler(2.0)
        port.openPort()
        port.setBaudRate(1_000_000)
        truth = at_rest(lambda: [sure(packets.read4ByteTxRx, port, id_, POSITION) for id_ in IDS])
        delay = 2e-6 * sure(packets.read1ByteTxRx, port, 3, DELAY)
        yield from measured(sdk_calls(port, packets, truth), times, delay)
        port.closePort()
        yield from measured(rustypot_calls(address, truth), times, delay)
        yield from measured(pypot_2_calls(address), times, delay)
        if lerobot is not None:
            yield from lerobot_rows(lerobot, address, times, truth, delay)
    with served("head_gripper") as address:
        for calls, delay in mixed_calls(address):
            yield from measured(calls, times, delay)


def main() -> None:
    """Print the table; exit code 1 if a call gave something else than the servos hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--lerobot", help="a Python with LeRobot")
    chosen = parser.parse_args()
    print("| client | call | right | no answer | wrong | median, ms | the wire's limit, ms |")
    print("|---|---|---|---|---|---|---|")
    wrong = 0
    for one in rows(chosen.calls, chosen.lerobot):
        wrong += one["wrong"]
        print("| {client} | {call} | {right} | {none} | {wrong} | {ms:.2f} | {wire_ms:.2f} |".format(**one), flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
