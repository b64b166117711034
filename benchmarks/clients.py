"""Other people's clients on served servos: is each call right, and how near is it to the wire's limit?

    python benchmarks/clients.py [--calls 200] [--lerobot PYTHON_WITH_LEROBOT]

Serves `koch` (six X servos), `so101` (six STS3215) and `head_gripper` (two AX-12A and an XL330), motors off,
and calls each client in turn. Prints a table: calls that gave what the servos hold, calls that ended with the client's
own error or time-out (a busy computer makes them), calls that gave something else, the median time of a call that was
right, and what its bytes need at 1 Mbps with the servos' return delay. LeRobot needs a Python of its own, and is left
out without one.
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
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import dynamixel_sdk
import rustypot
import scservo_sdk

IDS = [1, 2, 3, 4, 5, 6]
BYTE = 10 / 1e6  # s
COUNTS = 4096 / math.tau  # a rad
STUBS = Path(__file__).parents[1] / "tests" / "virtual" / "clients" / "stubs"
LEROBOT = """
import importlib, json, sys, time
from lerobot.motors import Motor, MotorNormMode
port, calls, maker, written, *models = sys.argv[1:]
of = getattr(importlib.import_module(f"lerobot.motors.{maker}"), f"{maker.capitalize()}MotorsBus")
motors = dict(zip("abcdef", models))
bus = of(port, {n: Motor(i, m, MotorNormMode.DEGREES) for i, (n, m) in enumerate(motors.items(), 1)})
while not bus.is_connected:
    try:
        bus.connect()
    except Exception:  # it asks each servo once, and a busy computer may be late
        bus.port_handler.closePort()
values = dict.fromkeys(motors, 2048)
asks = {
    "read Present_Position of one": lambda: [bus.read("Present_Position", "c", normalize=False)],
    "sync_read Present_Position of 6": lambda: list(bus.sync_read("Present_Position", normalize=False).values()),
    f"sync_write {written} to 6": lambda: bus.sync_write(written, values, normalize=False),
}
for name, ask in asks.items():
    took, said = [], []
    for _ in range(int(calls)):
        began = time.perf_counter()
        try:
            said.append(ask())
        except Exception as failure:
            said.append(str(failure))
        took.append(time.perf_counter() - began)
        if said[-1] is None:  # written: is it there?
            said[-1] = [bus.read(written, "f", normalize=False, num_retry=20)]
    print(json.dumps([name, took, said]))
"""


class Family(NamedTuple):
    """Six servos on a line, and how those who know them ask.

    Attributes:
        rig: Which arm.
        sdk: Their maker's.
        protocol: Argument of its packet handler.
        model: Model number of servo 3.
        size: Bytes of a position.
        position: Address of Present Position.
        written: A register as wide that moves nothing while the motors are off; its address.
        name: LeRobot's name for it.
        delay: Address of Return Delay Time.
        head, tail: Bytes of a question without parameters, and of an answer.
        address: Bytes of an address in a question.
        rustypot: Its class, and what it calls the register.
        maker: LeRobot's module, and its names of the six models.
    """

    rig: str
    sdk: ModuleType
    protocol: float
    model: int
    size: int
    position: int
    written: int
    name: str
    delay: int
    head: int
    tail: int
    address: int
    rustypot: tuple[type, str, int]
    maker: tuple[str, ...]

    @property
    def ping(self) -> tuple[int, int]:
        """Bytes and return delays of the SDK's ping: that of Protocol 1.0 reads the model number, too."""
        model = self.head + 2 * self.address + self.tail + 2 if self.protocol != 2 else 3
        return self.head + self.tail + model, 1 + (self.protocol != 2)

    def reading(self, ids: int) -> int:
        """Bytes of a sync read of positions and its answers; of a read, for one servo."""
        return self.head + 2 * self.address + (ids if ids > 1 else 0) + ids * (self.tail + self.size)

    @property
    def writing(self) -> int:
        """Bytes of a write and its answer."""
        return self.head + self.address + self.size + self.tail

    @property
    def writing_all(self) -> int:
        """Bytes of a sync write."""
        return self.head + 2 * self.address + len(IDS) * (1 + self.size)


FAMILIES = (
    Family(
        "koch", dynamixel_sdk, 2.0, 1200, 4, 132, 116, "Goal_Position", 9, 10, 11, 2,
        (rustypot.Xl330PyController, "goal_position", 2048),
        ("dynamixel", *["xl430-w250"] * 2, *["xl330-m288"] * 4),
    ),
    Family(
        "so101", scservo_sdk, 0, 777, 2, 56, 46, "Goal_Velocity", 7, 6, 6, 1,
        (rustypot.Sts3215PyController, "goal_velocity", 0),
        ("feetech", *["sts3215"] * 6),
    ),
)  # fmt: skip


class Call(NamedTuple):
    """One call of a client: how to make it, whether what it gave is right (None: no answer), its bytes and delays."""

    client: str
    what: str
    ask: Callable[[], Any]
    right: Callable[[Any], bool | None]
    bytes: int
    delays: int


def writing(
    write: Callable[[int], Any], read: Callable[[], float]
) -> tuple[Callable[[], Any], Callable[[Any], bool | None]]:
    """A call that writes another number, counts, each time, and whether it is there then; None: the old one is."""
    numbers = itertools.cycle(range(2000, 2100, 10))
    held = [math.nan, 0]

    def ask() -> Any:
        held[1] = next(numbers)
        return write(held[1])

    def right(_said: Any) -> bool | None:
        before, held[0] = held[0], read()
        if abs(round(held[0]) - held[1]) <= 1:  # rustypot cuts a count off where others round
            return True
        return None if held[0] == before or math.isnan(before) else False

    return ask, right


@contextmanager
def served(rig: str) -> Iterator[str]:
    """A rig on a pseudo-terminal, without gravity: limp arms do not sink while they are asked."""
    with TemporaryDirectory() as folder:
        still = Path(folder, "still.toml")
        still.write_text(f'name = "still"\nbase = "{rig}"\n[world]\ngravity = [0, 0, 0]\n')
        command = [sys.executable, "-m", "axbridge", "serve", str(still)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                assert server.stdout is not None
                yield server.stdout.readline().split()[1]
            finally:
                server.terminate()


def near(values: list[float], truth: list[float]) -> bool:
    """Whether positions, counts, are those of the servos; one count is left to rounding."""
    return len(values) == len(truth) and all(abs(a - b) <= 1 for a, b in zip(values, truth, strict=True))


def sdk_calls(of: Family, port: Any, packets: Any, truth: list[float]) -> list[Call]:
    """Those of the maker's SDK."""
    words = f"{of.size}Byte"
    read, write = getattr(packets, f"read{words}TxRx"), getattr(packets, f"write{words}TxRx")
    sync = of.sdk.GroupSyncRead(port, packets, of.position, of.size)
    writes = of.sdk.GroupSyncWrite(port, packets, of.written, of.size)
    for id_ in IDS:
        sync.addParam(id_)

    def write_all(value: int) -> int:
        writes.clearParam()
        for id_ in IDS:
            writes.addParam(id_, list(value.to_bytes(of.size, "little")))
        return int(writes.txPacket())

    def register(value: int) -> int:
        packets.regWriteTxRx(port, 3, of.written, of.size, list(value.to_bytes(of.size, "little")))
        return int(packets.action(port, 254))

    def held(id_: int) -> Callable[[], int]:
        return lambda: sure(read, port, id_, of.written)

    def group(of_six: Any, ask: Callable[[], int]) -> Callable[[], Any]:
        return lambda: [ask(), *(of_six.getData(id_, of.position, of.size) for id_ in IDS)]

    def all_right(said: list[int]) -> bool | None:
        return near(said[1:], truth) if said[0] == 0 else None

    def answered(wanted: list[float], said: tuple[int, ...]) -> bool | None:
        return near([*map(float, said[:-2])], wanted) and said[-1] == 0 if said[-2] == 0 else None

    own, size = of.sdk.__name__.replace("_", "-"), of.size
    calls = [
        Call(own, "ping", lambda: packets.ping(port, 3), lambda said: answered([of.model], said), *of.ping),
        Call(own, f"read of {size} bytes", lambda: read(port, 3, of.position),
             lambda said: answered(truth[2:3], said), of.reading(1), 1),
        Call(own, f"write of {size} bytes",
             *writing(lambda value: write(port, 3, of.written, value), held(3)), of.writing, 1),
        Call(own, "sync read of 6", group(sync, sync.txRxPacket), all_right, of.reading(6), 6),
        Call(own, "sync write to 6", *writing(write_all, held(6)), of.writing_all, 0),
        Call(own, "reg write and action", *writing(register, held(3)), of.writing + of.head, 1),
    ]  # fmt: skip
    if of.sdk is dynamixel_sdk:
        bulk = dynamixel_sdk.GroupBulkRead(port, packets)
        for id_ in IDS:
            bulk.addParam(id_, of.position, size)
        calls += [
            Call(own, "fast sync read of 6", group(sync, sync.fastSyncRead), all_right, 14 + 6 + 8 + 6 * 8, 1),
            Call(own, "bulk read of 6", group(bulk, bulk.txRxPacket), all_right, 10 + 5 * 6 + 6 * 15, 6),
            Call(own, "fast bulk read of 6", group(bulk, bulk.fastBulkRead), all_right, 10 + 5 * 6 + 8 + 6 * 8, 1),
        ]
    return calls


def rustypot_calls(of: Family, address: str, truth: list[float]) -> list[Call]:
    """Those of rustypot, which speaks rad."""
    kind, written, zero = of.rustypot
    own = kind(address, 1_000_000, 0.1)
    write, read = getattr(own, f"write_{written}"), getattr(own, f"read_{written}")
    write_all = getattr(own, f"sync_write_{written}")

    def position(said: list[float], truth: list[float]) -> bool:
        return near([value * COUNTS + 2048 for value in said], truth)

    def held(id_: int) -> Callable[[], float]:
        return lambda: read(id_)[0] * COUNTS + zero

    name = "rustypot " + kind.__name__.removesuffix("PyController")
    return [
        Call(name, "ping", lambda: own.ping(3), bool, of.head + of.tail + 3 * (of.protocol == 2), 1),
        Call(name, "read_present_position", lambda: own.read_present_position(3),
             lambda said: position(said, truth[2:3]), of.reading(1), 1),
        Call(name, f"write_{written}",
             *writing(lambda value: write(3, (value - zero) / COUNTS), held(3)), of.writing, 1),
        Call(name, "sync_read_present_position of 6", lambda: own.sync_read_present_position(IDS),
             lambda said: position(said, truth), of.reading(6), 6),
        Call(name, f"sync_write_{written} to 6",
             *writing(lambda value: write_all(IDS, [(value - zero) / COUNTS] * 6), held(6)), of.writing_all, 0),
    ]  # fmt: skip


def pypot_2_calls(address: str) -> list[Call]:
    """What pypot's class for the XL-320, its one of Protocol 2.0, can do with other servos of that protocol."""
    from pypot.dynamixel.io import Dxl320IO

    own = Dxl320IO(address, baudrate=1_000_000, timeout=0.1)
    return [Call("pypot Dxl320IO", "ping", lambda: own.ping(3), bool, 10 + 14, 1)]


def mixed_calls(address: str) -> Iterator[tuple[list[Call], float]]:
    """Both protocols on one line: ids 1 and 2 are AX-12A, 3 is an XL330; and the return delay, s."""
    of = FAMILIES[0]
    port, old, new = (
        dynamixel_sdk.PortHandler(address), dynamixel_sdk.PacketHandler(1.0), dynamixel_sdk.PacketHandler(2.0)
    )  # fmt: skip
    port.openPort()
    port.setBaudRate(1_000_000)
    truth = [float(sure(old.read2ByteTxRx, port, id_, 36)) for id_ in (1, 2)]
    newer = float(sure(new.read4ByteTxRx, port, 3, of.position))
    delay = 2e-6 * (sure(old.read1ByteTxRx, port, 1, 5) + sure(new.read1ByteTxRx, port, 3, of.delay)) / 2

    def both() -> Any:
        return [old.read2ByteTxRx(port, 1, 36), new.read4ByteTxRx(port, 3, of.position)]

    def right(said: Any) -> bool | None:
        return near([one[0] for one in said], [truth[0], newer]) if all(each[1] == 0 for each in said) else None

    yield [Call("dynamixel-sdk", "read of an AX-12A and of an XL330", both, right, 8 + 8 + of.reading(1), 2)], delay
    port.closePort()

    from pypot.dynamixel.io import DxlIO

    with DxlIO(address, baudrate=1_000_000, timeout=0.1, use_sync_read=False) as own:
        zero = 1023 / 300  # counts a degree, from the middle
        yield [
            Call("pypot DxlIO", "get_present_position of 2 AX-12A", lambda: own.get_present_position([1, 2]),
                 lambda said: near([value * zero + 511.5 for value in said], truth), 2 * (8 + 8), 2)
        ], delay  # fmt: skip

    rad = 1023 / math.radians(300)
    with suppress(AttributeError):
        ax = rustypot.AxPyController(address, 1_000_000, 0.1)
        yield [
            Call("rustypot Ax", "read_present_position", lambda: ax.read_present_position(1),
                 lambda said: near([said[0] * rad + 511.5], truth[:1]), 8 + 8, 1)
        ], delay  # fmt: skip
        ax.close()
    xl = rustypot.Xl330PyController(address, 1_000_000, 0.1)
    yield [
        Call("rustypot Xl330", "read_present_position", lambda: xl.read_present_position(3),
             lambda said: near([said[0] * COUNTS + 2048], [newer]), of.reading(1), 1)
    ], delay  # fmt: skip


def measured(
    calls: list[Call], times: int, delay: float, forget: Callable[[], object] = lambda: None
) -> Iterator[dict[str, Any]]:
    """A row for each call; `forget` is done before each: a client may take a late answer for the next one."""
    for call in calls:
        took: list[float] = []
        found: list[bool | None] = []
        for _ in range(times):
            took.append(math.nan)
            found.append(None)
            forget()
            began = time.perf_counter()
            try:
                said = call.ask()
                took[-1] = time.perf_counter() - began
                found[-1] = call.right(said)
            except BaseException as failure:  # whatever a client raises, rustypot's panics, too: no answer
                if isinstance(failure, KeyboardInterrupt):
                    raise
        yield row(call.client, call.what, found, took, call.bytes * BYTE + call.delays * delay)


def row(client: str, what: str, found: list[bool | None], took: list[float], limit: float) -> dict[str, Any]:
    """One line of the table."""
    good = [1000 * one for one, right in zip(took, found, strict=True) if right]
    counts = {"right": found.count(True), "none": found.count(None), "wrong": found.count(False)}
    median = statistics.median(good) if good else math.nan
    return {"client": client, "call": what, **counts, "ms": median, "wire_ms": 1000 * limit}


def lerobot_rows(
    of: Family, python: str, address: str, times: int, truth: list[float], delay: float
) -> Iterator[dict[str, Any]]:
    """LeRobot's bus, in its own interpreter."""
    maker, *models = of.maker
    said = subprocess.run(
        [python, "-c", LEROBOT, address, str(times), maker, of.name, *models],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(STUBS), os.environ.get("PYTHONPATH", "")])},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    limits = (of.reading(1), 1, truth[2:3]), (of.reading(6), 6, truth), (of.writing_all, 0, [2048.0])
    for line, (size, delays, wanted) in zip(said.splitlines(), limits, strict=True):
        name, took, found = json.loads(line)
        asked = not name.startswith("sync_write")  # else it is not acknowledged: what is not there got lost
        right = [None if isinstance(one, str) else near(one, wanted) or (False if asked else None) for one in found]
        yield row(f"LeRobot's {maker} bus", name, right, took, size * BYTE + delays * delay)


def sure(ask: Callable[..., tuple[int, int, int]], *arguments: Any) -> int:
    """What an SDK reads, asked again until it has an answer."""
    while True:
        with suppress(IndexError):  # an answer that is cut short
            value, result, _ = ask(*arguments)
            if result == 0:
                return value


def rows(times: int, lerobot: str | None) -> Iterator[dict[str, Any]]:
    """Every row, line by line."""
    for of in FAMILIES:
        with served(of.rig) as address:
            port, packets = of.sdk.PortHandler(address), of.sdk.PacketHandler(of.protocol)
            port.openPort()
            port.setBaudRate(1_000_000)
            read = getattr(packets, f"read{of.size}ByteTxRx")
            truth = [float(sure(read, port, id_, of.position)) for id_ in IDS]
            delay = 2e-6 * sure(packets.read1ByteTxRx, port, 3, of.delay)
            yield from measured(sdk_calls(of, port, packets, truth), times, delay, port.ser.reset_input_buffer)
            port.closePort()
            yield from measured(rustypot_calls(of, address, truth), times, delay)
            if of.rig == "koch":
                yield from measured(pypot_2_calls(address), times, delay)
            if lerobot is not None:
                yield from lerobot_rows(of, lerobot, address, times, truth, delay)
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
