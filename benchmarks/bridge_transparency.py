"""Whether `axbridge bridge --watch` changes a byte: random packets, damaged ones and foreign bytes, both ways.

A pseudo-terminal is the real line. Its other end keeps what arrives and answers with random bytes.

    .venv/bin/python benchmarks/bridge_transparency.py --transactions 200000
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import threading
import time
import tty
from random import Random

import serial

from axbridge.bridge.relay import Relay
from axbridge.bus.port import Port
from axbridge.bus.protocols import v1, v2
from axbridge.virtual.channel import DirectReader, PtyChannel

_PATIENCE = 5.0  # s


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


def main() -> None:
    """Print how many packets were changed, and how many a second passed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--transactions", type=int, default=200_000)
    count = options.parse_args().transactions
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
    changed, begun = 0, time.monotonic()
    with serial.Serial(channel.address, 1_000_000) as client:
        for _ in range(count):
            question, answer = frame(dice), frame(dice)
            client.write(question)
            changed += take(master, len(question)) != question
            os.write(master, answer)
            changed += take(client.fileno(), len(answer)) != answer
    rate = count / (time.monotonic() - begun)
    over.set()
    thread.join()
    channel.close()
    port.close()
    print(f"{count} transactions, {rate:.0f} a second: {changed} changed")


if __name__ == "__main__":
    main()
