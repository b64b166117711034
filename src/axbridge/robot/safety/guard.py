"""A process that outlives the controller: it switches all torque off when the controller dies or falls silent.

Run as a script by `axbridge.robot.safety.net` with the port's descriptors inherited. It imports nothing of axbridge, so
it is there within milliseconds and stays small. It cannot hold or park: nobody is left who knows the robot.

Usage: ``guard.py PIPE SILENCE FD…``. `PIPE`: read end of the controller's pipe: ``.`` is a sign of life, ``q`` ends the
watch, end-of-file without it means death. `SILENCE`: longest pause between signs of life, s; 0 = no limit.
"""

import contextlib
import os
import select
import signal
import sys
import time

TORQUE_OFF = b"\xff\xff\xfe\x04\x03\x18\x00\xe2"  # broadcast WRITE of 0 to Torque Enable
_REPEATS = 4  # the first may collide with a reply on the line or end a frame that was cut off
_GAP = 0.004  # s
_TICK = 0.04  # s: how often the parent is looked after


def limp(ports: list[int]) -> None:
    """Send the broadcast torque-off on every port, several times."""
    for _ in range(_REPEATS):
        for port in ports:
            with contextlib.suppress(OSError):  # one port that is gone must not spare the others
                os.write(port, TORQUE_OFF)
        time.sleep(_GAP)


def watch(pipe: int, silence: float, ports: list[int]) -> None:
    """Wait for the controller's death, silence or farewell."""
    parent = os.getppid()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    for port in ports:
        poll.register(port, 0)  # only hang-ups
    alive_at: float | None = None
    while True:
        for descriptor, _ in poll.poll(_TICK * 1000):
            if descriptor != pipe:  # unplugged: let go, or the device cannot come back under its name
                poll.unregister(descriptor)
                ports.remove(descriptor)
                os.close(descriptor)
                continue
            signs = os.read(pipe, 4096)
            if b"q" in signs:
                return
            if not signs:
                limp(ports)
                return
            alive_at = time.monotonic()
        if os.getppid() != parent:  # a child of the dead controller may keep the pipe open
            limp(ports)
            return
        if silence and alive_at is not None and time.monotonic() - alive_at > silence:
            limp(ports)
            alive_at = None  # until it moves again


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the controller decides when the watch ends
    watch(int(sys.argv[1]), float(sys.argv[2]), [int(argument) for argument in sys.argv[3:]])
