"""What four clients make of the same bad line: axbridge, dynamixel-sdk, pypot and rustypot; see RESULTS.md.

Each reads two registers in turn, which hold different values, with an adapter that echoes and with one that delivers
every tenth reply 60 ms late: an answer is right, wrong (another register's) or an error. Then each asks a servo that is
not there, looks for all ids, and is killed while it holds a servo. The processor time of a read of 8 bytes is measured
without wire time, in turns; the least of the rounds is given. Prints JSON. A client that is not installed is left out
(`pip install pypot rustypot`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import signal
import subprocess
import sys
import time

from bus_line import line

from axbridge.testing import serve

GOAL, MAX_TORQUE = (30, 600), (14, 1023)  # address, and what it holds
READS = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdecimal() else 200
ROUNDS = 6
ECHO, LATE = "echo", "late=0.1:60ms"


class Axbridge:
    """The client of this project."""

    def __init__(self, port):
        from axbridge.bus.serial import SerialBus

        self.bus = SerialBus(port)

    def read(self, id_, address, length=2):
        return int.from_bytes(self.bus.read(id_, address, length).data, "little")

    def write(self, address, value):
        self.bus.write(1, address, value.to_bytes(2, "little"))

    def scan(self):
        from axbridge.bus.scan import scan

        return [servo.id for servo in scan(self.bus)]


class Sdk:
    """dynamixel-sdk."""

    def __init__(self, port):
        from dynamixel_sdk import PacketHandler, PortHandler

        self.port, self.packets = PortHandler(port), PacketHandler(1.0)
        self.port.openPort()
        self.port.setBaudRate(1_000_000)

    def read(self, id_, address, length=2):
        data, result, _ = self.packets.readTxRx(self.port, id_, address, length)
        if result:
            raise RuntimeError(self.packets.getTxRxResult(result))
        return int.from_bytes(bytes(data), "little")

    def write(self, address, value):
        self.packets.write2ByteTxRx(self.port, 1, address, value)

    def scan(self):
        return [id_ for id_ in range(254) if self.packets.ping(self.port, id_)[1] == 0]


class Pypot:
    """pypot, with its own time-out."""

    def __init__(self, port):
        from pypot.dynamixel import DxlIO

        self.io = DxlIO(port, baudrate=1_000_000)

    def read(self, id_, address, length=2):
        from pypot.dynamixel.protocol.v1 import DxlReadDataPacket

        answer = self.io._send_packet(DxlReadDataPacket(id_, address, length))  # noqa: SLF001
        return int.from_bytes(bytes(answer.parameters), "little")

    def write(self, address, value):
        from pypot.dynamixel.protocol.v1 import DxlWriteDataPacket

        data = list(value.to_bytes(2, "little"))
        self.io._send_packet(DxlWriteDataPacket(1, address, data))  # noqa: SLF001

    def scan(self):
        return self.io.scan(range(254))


class Rustypot:
    """rustypot, with the time-out of its README."""

    def __init__(self, port):
        from rustypot import AxPyController

        self.controller = AxPyController(port, 1_000_000, 0.05)

    def read(self, id_, address, length=2):
        return int.from_bytes(bytes(self.controller.read_raw_data(id_, address, length)), "little")

    def write(self, address, value):
        self.controller.write_raw_data(1, address, list(value.to_bytes(2, "little")))

    def scan(self):
        found = []
        for id_ in range(254):
            with contextlib.suppress(Exception):
                if self.controller.ping(id_):
                    found.append(id_)
        return found


CLIENTS = {"axbridge": Axbridge, "dynamixel_sdk": Sdk, "pypot": Pypot, "rustypot": Rustypot}


def answers(make, faults):
    """How many answers were right, another register's, and errors."""
    with serve("bench_arm", faults=faults, timing="wire", engine=None) as bus:
        client = make(bus.port)
        for _ in range(5):  # until it is there, whatever the line does
            with contextlib.suppress(Exception):
                client.write(*GOAL)
                time.sleep(0.2)
        counts = {"right": 0, "wrong": 0, "errors": 0}
        for turn in range(READS):
            address, value = (GOAL, MAX_TORQUE)[turn % 2]
            try:
                counts["right" if client.read(1, address) == value else "wrong"] += 1
            except Exception:  # noqa: BLE001 - each client has its own
                counts["errors"] += 1
    return counts


def seconds_of(ask, *what):
    began = time.perf_counter()
    with contextlib.suppress(Exception):
        ask(*what)
    return time.perf_counter() - began


def cpu_of_a_read(clients):
    """Processor time of a read of 8 bytes by each client, µs: the least of some rounds."""
    found = dict.fromkeys(clients, float("inf"))
    for name in [*clients] * ROUNDS:
        with line(1, "none") as port:
            client = clients[name](port)
            began = time.process_time()
            for _ in range(READS):
                with contextlib.suppress(Exception):  # on a busy machine a reply may be missing
                    client.read(1, 36, 8)
            found[name] = min(found[name], (time.process_time() - began) / READS * 1e6)
            del client  # which closes the port
    return found


def held_after_a_kill(name):
    """Whether the servo still has power 2 s after the program that held it was killed."""
    with serve("bench_arm", timing="wire", engine=None) as bus:
        holder = subprocess.Popen([sys.executable, __file__, "hold", name, bus.port], stdout=subprocess.PIPE)
        assert b"holds\n" in iter(holder.stdout.readline, b"")  # a client's import may print, too
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
        time.sleep(2)
        return bool(Axbridge(bus.port).read(1, 24) & 0xFF)


def hold(name, port):
    """Power a servo as the client's own programs do, and wait."""
    if name == "axbridge":
        import axbridge

        robot = axbridge.open("bench_arm", backend="real", port=port)
        robot["shoulder"].set_position(0.3)
        robot.step()
    else:
        client = CLIENTS[name](port)
        client.write(*GOAL)
    print("holds", flush=True)
    while True:
        if name == "axbridge":
            robot.step()
        else:
            time.sleep(0.02)


def main():
    clients = {name: make for name, make in CLIENTS.items() if importlib.util.find_spec(name)}
    cpu, report = cpu_of_a_read(clients), {}
    for name, make in clients.items():
        print(name, file=sys.stderr)
        with serve("bench_arm", timing="wire", engine=None) as bus:
            client = make(bus.port)
            missing = sorted(seconds_of(client.read, 9, GOAL[0]) for _ in range(9))[4]
            scanned = seconds_of(client.scan)
            del client  # which closes the port
        report[name] = {
            "echo": answers(make, ECHO),
            "late": answers(make, LATE),
            "missing_servo_ms": missing * 1e3,
            "scan_s": scanned,
            "read_cpu_us": cpu[name],
            "powered_after_kill": held_after_a_kill(name),
        }
    print(json.dumps(report, indent=2))


if len(sys.argv) > 2 and sys.argv[1] == "hold":
    hold(*sys.argv[2:])
else:
    main()
