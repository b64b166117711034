"""How promptly `axbridge serve bioloid` answers: 18 servos at 1 Mbps, polled by one raw client as fast as it can.

Prints JSON: lateness of replies as the line measures it (µs), transactions a second, CPU of the server's processes
over the wall time (1 = one core), and CPU while nobody asks.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import serial

from axbridge.bus.protocols.v1 import encode

POLLED, IDLE = 8.0, 4.0  # s


def cpu_of(pid):
    """CPU seconds of a process and its children so far."""
    total = 0.0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (str(pid), *children):
        fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def main():
    command = [sys.executable, "-m", "axbridge", "serve", "bioloid"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = server.stdout.readline().split()[1]
    begun = cpu_of(server.pid)
    time.sleep(IDLE)
    idle = (cpu_of(server.pid) - begun) / IDLE
    with serial.Serial(address, 1_000_000, timeout=0.05) as port:
        begun, start, count, lost = cpu_of(server.pid), time.monotonic(), 0, 0
        while time.monotonic() - start < POLLED:
            id_ = 1 + count % 18
            port.write(encode(id_, 2, b"\x24\x08"))
            lost += len(port.read(14)) != 14
            count += 1
            if count % 18 == 0:
                blocks = b"".join(bytes((n, 0, 2, 0, 0)) for n in range(1, 19))
                port.write(encode(254, 0x83, b"\x1e\x04" + blocks))
        busy = (cpu_of(server.pid) - begun) / POLLED
    server.send_signal(signal.SIGINT)
    said = server.communicate()[1]
    figures = re.search(
        r"served (\d+) packets, (\d+) late .*worst (\d+) µs \(median (\d+) µs, 99 % within (\d+) µs", said
    )
    names = ("packets", "late_by_100_us", "worst_us", "median_us", "p99_us")
    result = dict(zip(names, map(int, figures.groups()), strict=True))
    result |= {
        "reads_per_s": round(count / POLLED),
        "lost": lost,
        "cpu_polled": round(busy, 2),
        "cpu_idle": round(idle, 2),
    }
    print(json.dumps(result, indent=2))


main()
