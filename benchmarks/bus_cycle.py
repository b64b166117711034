"""Rate of full exchanges with 18 servos at 1 Mbps, and what a 50 Hz loop costs the host; prints JSON.

``wire``: every byte takes its time, replies are held up by the servos' 1 kHz interrupt as measured on AX-12s.
``wire-steady``: without that interrupt: what the line itself allows. ``none``: no wire time, the host's share alone.
``cpu_us`` is the host's processor time for an exchange.

``exchange``: on one line of `axbridge serve bioloid --timing wire`, in turns, `Robot.exchange` of 18 servos and what a
user would write by hand with dynamixel-sdk: one sync write of 18 goals, 18 `readTxRx` of the same block; ratios of rate
and of processor time. Once with servos as they come, whose return delay of 250 nobody changes but their owner, and once
as `axbridge doctor` tells to set it, to 0.

How late a machine wakes up decides how near to the wire anybody comes. So each is measured by turns with ``bare``:
frames of the same length and time between two processes that do nothing but wake up, write and read.
``over_bare_us`` is what an exchange takes beyond that, at the median; ``p99_over_bare`` compares the 99th percentiles.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator

import dynamixel_sdk
from bus_line import line

import axbridge
from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.protocols.packet import byte_seconds
from axbridge.bus.protocols.protocol import FIRST
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import TURNAROUND, percentile, wire_time
from axbridge.config.registers import Address
from axbridge.testing import serve
from axbridge.virtual.wake_latency import Awake, wake_on_time

SERVOS = 18
TURN = 50  # exchanges before it is the other one's turn
LOOP_SECONDS = 4.0
BYTE = byte_seconds(1_000_000)
ANSWER = bytes(14)


def answer_barely(terminal: int, timing: str) -> None:
    """Answer whatever comes when its time on the wire is over, and do nothing else."""
    wake_on_time()
    Awake().hold()
    wait = 0.0 if timing == "none" else TURNAROUND + len(ANSWER) * BYTE
    share = 0.0 if timing == "none" else BYTE
    while heard := os.read(terminal, 4096):
        due = time.monotonic() + wait + len(heard) * share
        select.select((), (), (), max(due - time.monotonic() - 60e-6, 0.0))
        while time.monotonic() < due:
            pass
        os.write(terminal, ANSWER)


@contextlib.contextmanager
def bare(timing: str) -> Iterator[Callable[[], float]]:
    """Yield an exchange with `answer_barely` in another process; it returns what it took, s."""
    master, slave = os.openpty()
    tty.setraw(slave)
    poll = select.poll()
    poll.register(slave, select.POLLIN)
    goals, frame = bytes(8 + 5 * SERVOS), bytes(8)

    def exchange() -> float:
        begun = time.monotonic()
        for number in range(SERVOS):
            os.write(slave, frame if number else goals + frame)
            poll.poll(1000)
            os.read(slave, 4096)
        return time.monotonic() - begun

    command = [sys.executable, __file__, "--answer", str(master), timing]
    with subprocess.Popen(command, pass_fds=[master]) as other:
        exchange()
        yield exchange
        other.terminate()


def rate(timing: str, count: int) -> dict[str, float]:
    """Exchanges back to back, by turns with bare ones."""
    with line(SERVOS, timing) as port, SerialBus(port) as bus, bare(timing) as bare_exchange:
        cycle = Cycle(bus, [CycleServo(str(id_), id_) for id_ in range(1, SERVOS + 1)])
        goals = {str(id_): Goal(512, 100) for id_ in range(1, SERVOS + 1)}
        for _ in range(20):
            cycle.exchange(goals)
        spent: list[float] = []
        least: list[float] = []
        faults, used = 0, 0.0
        while len(spent) < count:
            for _ in range(5):
                cycle.exchange(goals)
            began = time.process_time()
            for _ in range(TURN):
                result = cycle.exchange(goals)
                spent.append(result.spent)
                faults += len(result.faults)
            used += time.process_time() - began
            least += [bare_exchange() for _ in range(5 + TURN)][5:]
    p50, p99 = percentile(spent, 0.5), percentile(spent, 0.99)
    bare50, bare99 = percentile(least, 0.5), percentile(least, 0.99)
    return {
        "rate_hz": len(spent) / sum(spent),
        "p50_ms": 1e3 * p50,
        "p99_ms": 1e3 * p99,
        "p99_over_p50": p99 / p50,
        "wire_share": wire_time([FIRST] * SERVOS) / (sum(spent) / len(spent)),
        "bare_p50_ms": 1e3 * bare50,
        "bare_p99_over_p50": bare99 / bare50,
        "over_bare_us": 1e6 * (p50 - bare50),
        "p99_over_bare": p99 / bare99,
        "cpu_us": 1e6 * used / len(spent),
        "faults": faults,
    }


def loop(port: str) -> dict[str, float]:
    """A 50 Hz control loop: processor time over wall time."""
    with SerialBus(port) as bus:
        cycle = Cycle(bus, [CycleServo(str(id_), id_) for id_ in range(1, SERVOS + 1)])
        goals = {str(id_): Goal(512, 100) for id_ in range(1, SERVOS + 1)}
        began, used = time.monotonic(), time.process_time()
        due = bus.clock.now()
        while time.monotonic() - began < LOOP_SECONDS:
            cycle.exchange(goals)
            due += 0.02
            bus.clock.sleep_until(due)
        return {
            "cpu_share": (time.process_time() - used) / (time.monotonic() - began),
            "rate_hz": cycle.times.as_dict()["rate"],
        }


def exchange(count: int) -> dict[str, dict[str, float]]:
    """`beside_sdk` for both return delays."""
    return {f"return_delay_{delay}": beside_sdk(count, delay) for delay in (250, 0)}


def beside_sdk(count: int, delay: int) -> dict[str, float]:
    """`Robot.exchange` and a plain loop of dynamixel-sdk, in turns on one served line."""
    with serve("bioloid", timing="wire", engine=None) as served:
        port = served.port
        with SerialBus(port) as bus:
            for id_ in range(1, SERVOS + 1):
                bus.write(id_, Address.RETURN_DELAY_TIME, bytes((delay,)))
        by_hand, packets = dynamixel_sdk.PortHandler(port), dynamixel_sdk.PacketHandler(1.0)
        by_hand.openPort()
        by_hand.setBaudRate(1_000_000)
        with axbridge.open("bioloid", backend="real", port=port) as robot:
            robot.set_positions(robot.positions)
            robot.step(20)
            ids = [servo.config.id for servo in robot.values()]
            goal = [*(512).to_bytes(2, "little"), *(100).to_bytes(2, "little")]

            def plain() -> int:
                group = dynamixel_sdk.GroupSyncWrite(by_hand, packets, 30, 4)
                for id_ in ids:
                    group.addParam(id_, goal)
                group.txPacket()
                return sum(packets.readTxRx(by_hand, id_, 36, 8)[1] != 0 for id_ in ids)

            def ours() -> int:
                robot.exchange()
                return len(robot.last_step.errors)

            spent, used, lost = ({"sdk": 0.0, "robot": 0.0} for _ in range(3))
            for _ in range(max(count // TURN, 1)):
                for name, ask in (("sdk", plain), ("robot", ours)):
                    ask()
                    began, cpu = time.monotonic(), time.process_time()
                    lost[name] += sum(ask() for _ in range(TURN))
                    spent[name] += time.monotonic() - began
                    used[name] += time.process_time() - cpu
        by_hand.closePort()
    done = max(count // TURN, 1) * TURN
    return {
        "sdk_hz": done / spent["sdk"],
        "robot_hz": done / spent["robot"],
        "rate_ratio": spent["sdk"] / spent["robot"],
        "cpu_ratio": used["robot"] / used["sdk"],
        "robot_cpu_us": 1e6 * used["robot"] / done,
        "sdk_lost": lost["sdk"],
        "robot_lost": lost["robot"],
    }


def main(count: int) -> None:
    """Measure and print."""
    report = {"wire_limit_hz": 1 / wire_time([FIRST] * SERVOS)}
    for timing in ("wire-steady", "wire", "none"):
        report[timing] = rate(timing, count)
    with line(SERVOS, "wire") as port:
        report["loop_50_hz"] = loop(port)
    report["exchange"] = exchange(count)
    print(json.dumps(report, indent=2))


if __name__ != "__main__":
    pass
elif sys.argv[1:2] == ["--answer"]:
    answer_barely(int(sys.argv[2]), sys.argv[3])
else:
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
