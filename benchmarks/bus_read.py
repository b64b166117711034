"""Host cost of one 8-byte read, next to other clients on the same responder in the same run; prints JSON.

dynamixel-sdk is always there; rustypot and pypot are measured when they are installed (`pip install rustypot pypot`).
No wire time: what is left is the client, the kernel and the responder (the same for all). Rounds alternate between the
clients, each of which opens and closes the port, so that a busy machine strikes all alike; the best and the middle
round of each are given.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dynamixel_sdk
import serial
from bus_line import line

from axbridge.bus.serial import SerialBus

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
READS = 200
Reader = Iterator[tuple[Callable[[], object], int]]  # a function, and how many reads it makes


@contextmanager
def system_calls(port: str) -> Reader:
    """What any Python client pays at least."""
    opened = serial.Serial(port, 1_000_000, timeout=0)
    descriptor = opened.fileno()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    frame = bytes.fromhex("ffff0104022408cc")

    def ask() -> bytes:
        os.write(descriptor, frame)
        poll.poll(100)
        return os.read(descriptor, 64)

    yield ask, 1
    opened.close()


@contextmanager
def axbridge_cycle(port: str) -> Reader:
    """Reads as a control cycle makes them, ten at a time."""
    request = [(1, 36, 8)] * 10
    with SerialBus(port) as bus:
        yield lambda: bus.read_many(request), 10


@contextmanager
def axbridge_read(port: str) -> Reader:
    """Single reads."""
    with SerialBus(port) as bus:
        yield lambda: bus.read(1, 36, 8), 1


@contextmanager
def sdk(port: str) -> Reader:
    """dynamixel-sdk."""
    handler, packets = dynamixel_sdk.PortHandler(port), dynamixel_sdk.PacketHandler(1.0)
    handler.setBaudRate(1_000_000)
    yield lambda: packets.readTxRx(handler, 1, 36, 8), 1
    handler.closePort()


@contextmanager
def rustypot(port: str) -> Reader:
    """Rustypot: an 8-byte read where its binding offers one, else of 2 bytes."""
    from rustypot import AxPyController

    controller = AxPyController(port, 1_000_000, 0.1)
    raw = getattr(controller, "read_raw_data", None)
    yield (lambda: raw(1, 36, 8)) if raw else (lambda: controller.read_present_position(1)), 1


@contextmanager
def pypot(port: str) -> Reader:
    """Pypot."""
    from pypot.dynamixel.io import DxlIO
    from pypot.dynamixel.protocol.v1 import DxlReadDataPacket

    io = DxlIO(port, baudrate=1_000_000, timeout=0.1)
    packet = DxlReadDataPacket(1, 36, 8)
    yield lambda: io._send_packet(packet), 1  # noqa: SLF001
    io.close()


def main() -> None:
    """Measure and print."""
    clients = [system_calls, axbridge_cycle, axbridge_read, sdk]
    clients += [client for client in (rustypot, pypot) if importlib.util.find_spec(client.__name__)]
    wall: dict[str, list[float]] = {client.__name__: [] for client in clients}
    cpu: dict[str, list[float]] = {client.__name__: [] for client in clients}
    with line(1, "none") as port:
        for _ in range(ROUNDS):
            for client in clients:
                with client(port) as (ask, each):
                    ask()
                    began, used = time.perf_counter(), time.process_time()
                    for _ in range(READS // each):
                        ask()
                    wall[client.__name__].append((time.perf_counter() - began) / READS * 1e6)
                    cpu[client.__name__].append((time.process_time() - used) / READS * 1e6)
    report = {
        name: {"best_us": min(times), "median_us": sorted(times)[len(times) // 2], "cpu_us": min(cpu[name])}
        for name, times in wall.items()
    }
    print(json.dumps(report, indent=2))


main()
