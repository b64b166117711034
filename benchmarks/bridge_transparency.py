"""Whether `axbridge bridge --watch --record` changes, loses or misrecords a byte of other people's clients.

    .venv/bin/python benchmarks/bridge_transparency.py --transactions 200000 [--lerobot PYTHON_WITH_LEROBOT]

Each client writes a number to a register that moves nothing, and reads it back, in turn, from a served robot:

    client -- tap -- axbridge bridge -- tap -- axbridge serve

The taps keep the bytes of both directions. Prints a row a client: bytes that differ between the taps, and between the
line's tap and the recording; numbers that were read wrong, and calls without an answer; the median and the 99th
percentile of a call's time, directly and through the bridge (without taps; a tenth of the transactions). The client
`random` sends packets of both protocols, damaged ones and foreign bytes, through the bridge's relay alone. LeRobot
needs a Python of its own, with the packages that tests/support/lerobot.py names, and is left out without one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import serial

from axbridge.bridge.relay import Relay
from axbridge.bus.port import Port
from axbridge.bus.protocols import v1, v2
from axbridge.recording.step_format import Source
from axbridge.recording.stored import recorded_packets
from axbridge.testing import serve
from axbridge.virtual.channel import DirectReader, PtyChannel

_PATIENCE = 5.0  # s
_REST = 0.3  # s after a client's end, for what is on its way
CLIENT = """
import importlib, json, sys, time
kind, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
def call(ask, *what, **options):
    try:
        return ask(*what, **options)
    except KeyboardInterrupt:
        raise
    except BaseException:  # at a late acknowledgement SDKs fail, and rustypot panics
        return None
SDKS = {"dynamixel-sdk": ("dynamixel_sdk", 2.0, 4, 116), "feetech-servo-sdk": ("scservo_sdk", 0, 2, 46)}
if kind in SDKS:
    name, version, size, address = SDKS[kind]
    sdk = importlib.import_module(name)
    line, packets = sdk.PortHandler(port), sdk.PacketHandler(version)
    line.openPort(); line.setBaudRate(1_000_000)
    writes, reads = (getattr(packets, f"{what}{size}ByteTxRx") for what in ("write", "read"))
    write = lambda id, value: call(writes, line, id, address, value)
    def read(id):
        value, result, _ = call(reads, line, id, address) or (None, None, None)
        return None if result else value
elif kind == "rustypot":
    import rustypot
    bus = rustypot.Sts3215PyController(port, 1_000_000, 0.5)
    write = lambda id, value: call(bus.write_raw_goal_velocity, id, value)
    def read(id):
        value = call(bus.read_raw_goal_velocity, id)
        return value if value is None or isinstance(value, int) else call(value.__getitem__, 0)
else:
    from lerobot.motors import Motor, MotorNormMode
    from lerobot.motors.feetech import FeetechMotorsBus
    bus = FeetechMotorsBus(port, {str(id): Motor(id, "sts3215", MotorNormMode.DEGREES) for id in range(1, 7)})
    bus.connect(handshake=False)
    write = lambda id, value: call(bus.write, "Goal_Velocity", str(id), value, normalize=False)
    read = lambda id: call(bus.read, "Goal_Velocity", str(id), normalize=False)
wrong = lost = 0
took = []
for number in range(count // 2):
    id, value = 1 + number % 6, 1 + number % 1000
    begun = time.perf_counter()
    write(id, value)
    between = time.perf_counter()
    found = read(id)
    took += [between - begun, time.perf_counter() - between]
    lost += found is None
    wrong += found not in (None, value)
    if not (number + 1) % 1000:
        print(f"{kind}: {2 * number + 2}, {wrong} wrong, {lost} lost", end="\\r", file=sys.stderr, flush=True)
print(json.dumps([wrong, lost, took]))
"""
STUBS = Path(__file__).parents[1] / "tests/virtual/clients/stubs"  # of torch, which LeRobot's bus does not need
RIGS = {"dynamixel-sdk": "koch", "rustypot": "so101", "feetech-servo-sdk": "so101", "lerobot": "so101"}


class Tap:
    """A pseudo-terminal before a port; it keeps all bytes of both directions."""

    def __init__(self, port: str) -> None:
        self.sent, self.came = bytearray(), bytearray()
        self._line = serial.Serial(port, 1_000_000, exclusive=True)
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        line = self._line.fileno()
        while not self._over:
            for ready in select.select([line, self._master], [], [], 0.1)[0]:
                data = os.read(ready, 4096)
                kept, other = (self.came, self._master) if ready == line else (self.sent, line)
                kept += data
                os.write(other, data)

    def close(self) -> None:
        """End it."""
        self._over = True
        self._thread.join()
        self._line.close()
        os.close(self._master)
        os.close(self._slave)


class Result(NamedTuple):
    """What a client found: wrong numbers, calls without an answer, times of all calls, s."""

    wrong: int
    lost: int
    took: list[float]


def ask(python: str, client: str, port: str, count: int) -> Result:
    """Run a client; one that ends itself has lost all its calls."""
    command = [python, "-c", CLIENT, client, port, str(count)]
    env = os.environ | ({"PYTHONPATH": str(STUBS)} if client == "lerobot" else {})
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, env=env)
    if done.returncode:
        print(f"{client} has ended itself with {done.returncode}", file=sys.stderr)
        return Result(0, count, [math.nan] * 2)
    return Result(*json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def bridged(rig: str, port: str, *options: str) -> Iterator[str]:
    """`axbridge bridge --watch` before a port; the port of its client."""
    command = [sys.executable, "-m", "axbridge", "bridge", rig, "--port", port, "--watch", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()
            process.communicate()


def compared(python: str, client: str, count: int) -> str:
    """One row."""
    rig = RIGS[client]
    with ExitStack() as held, tempfile.TemporaryDirectory() as folder:
        recording = Path(folder, "run.mcap")
        bus = held.enter_context(serve(rig))
        direct = ask(python, client, bus.port, count // 10)
        with bridged(rig, bus.port, "--record", str(Path(folder, "timed.mcap"))) as port:
            through = ask(python, client, port, count // 10)
        line = Tap(bus.port)
        held.callback(line.close)
        with bridged(rig, line.port, "--record", str(recording)) as port:
            program = Tap(port)
            held.callback(program.close)
            found = ask(python, client, program.port, count)
            time.sleep(_REST)
        packets = recorded_packets(recording)
        sent = b"".join(one.data for one in packets if one.source is not Source.SERVOS)
        came = b"".join(one.data for one in packets if one.source is Source.SERVOS)
        changed = differing(program.sent, line.sent) + differing(line.came, program.came)
        misrecorded = differing(sent, line.sent) + differing(came, line.came)
        total = len(line.sent) + len(line.came)
    times = [[percent(result.took, share) for result in (direct, through)] for share in (50, 99)]
    return "| " + " | ".join(
        [client, str(count), str(total), str(changed), str(misrecorded), str(found.wrong), str(found.lost)]
        + [f"{1e3 * one:.3f}" for pair in times for one in pair]
    ) + " |"  # fmt: skip


def percent(times: list[float], share: int) -> float:
    """A percentile."""
    return statistics.quantiles(times, n=100)[share - 1]


def differing(one: bytes | bytearray, other: bytes | bytearray) -> int:
    """Bytes at which two streams differ; what one has more counts, too."""
    if one == other:
        return 0
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


def frame(dice: Random) -> bytes:
    """One packet, a damaged one, or what is none."""
    params = dice.randbytes(dice.randrange(20))
    kind = dice.random()
    if kind < 0.45:
        return v1.encode(dice.randrange(254), dice.randrange(256), params)
    if kind < 0.9:
        return v2.encode(dice.randrange(253), dice.randrange(256), params)
    whole = v1.encode(1, 3, params)
    return whole[:-1] + bytes((whole[-1] ^ 1,)) if kind < 0.95 else dice.randbytes(1 + len(params))


def take(end: int, size: int) -> bytes:
    """So many bytes, or what came within `_PATIENCE`."""
    data, until = b"", time.monotonic() + _PATIENCE
    while len(data) < size and select.select([end], [], [], max(until - time.monotonic(), 0.0))[0]:
        data += os.read(end, size - len(data))
    return data


def random_bytes(count: int) -> str:
    """A row for random packets: how many were changed."""
    dice, over = Random(1), threading.Event()
    master, slave = pty.openpty()
    tty.setraw(slave)
    port, channel = Port(os.ttyname(slave), 1_000_000), PtyChannel(1_000_000, listen=DirectReader)
    relay = Relay(channel, port)

    def run() -> None:
        while not over.is_set():
            relay.step(0.02)

    thread = threading.Thread(target=run)
    thread.start()
    changed = total = 0
    with serial.Serial(channel.address, 1_000_000) as client:
        for number in range(count):
            if not number % 1000:
                print(f"random: {number} of {count}, {changed} changed", end="\r", file=sys.stderr, flush=True)
            question, answer = frame(dice), frame(dice)
            total += len(question) + len(answer)
            client.write(question)
            changed += differing(take(master, len(question)), question)
            os.write(master, answer)
            changed += differing(take(client.fileno(), len(answer)), answer)
    over.set()
    thread.join()
    channel.close()
    port.close()
    return f"| random | {count} | {total} | {changed} |  |  |  |  |  |  |  |"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--transactions", type=int, default=200_000)
    options.add_argument("--clients", nargs="+", default=[*RIGS, "random"], choices=[*RIGS, "random"])
    options.add_argument("--lerobot", help="a Python with LeRobot")
    given = options.parse_args()
    columns = "client | transactions | bytes | changed | misrecorded | wrong | lost"
    print(f"| {columns} | ms direct | bridge | 99 % direct | bridge |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for client in given.clients:
        if client == "random":
            print(random_bytes(given.transactions), flush=True)
        elif client != "lerobot" or given.lerobot:
            python = given.lerobot if client == "lerobot" else sys.executable
            print(compared(python, client, given.transactions), flush=True)


if __name__ == "__main__":
    main()
