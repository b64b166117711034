"""Use of a simulated Bioloid that goes on and on: open, stand, step, fall, get limp and up again, close."""

import contextlib
import ctypes
import gc
import os
import random
import threading
from pathlib import Path

import axbridge

TICK = 20.0  # ms


def resident():
    """Resident memory of this process, MB, without what the allocator merely keeps."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def held():
    """Open file descriptors and threads of this process."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def session(seconds, seed):
    """One robot from open to close, `seconds` of simulated time; returns how many contacts it was seen in."""
    dice = random.Random(seed)
    contacts = 0
    with axbridge.open("bioloid", seed=seed) as robot, axbridge.open("bench_arm", seed=seed) as other:
        world = robot.simulation.engine
        arm = other["shoulder"]
        for one in (robot, other):
            for servo in one.values():
                servo.torque_on()
        for tick in range(round(seconds * 1000 / TICK)):
            if tick % 10 == 0:
                for servo in robot.values():
                    servo.set_position(servo.config.position + dice.uniform(-0.3, 0.3))
                arm.set_position(dice.uniform(-1, 1))
            if tick % 100 == 60:
                world.place_base(((0, 0, 0.5), tuple(dice.gauss(0, 1) for _ in range(4))))
            if tick % 100 == 90:
                for servo in robot.values():
                    servo.torque_off()
            if tick % 100 == 95:
                for servo in robot.values():
                    servo.torque_on()
                    servo.recover()
            robot.step(TICK)
            other.step(TICK)
            contacts += bool(len(world._contacts()))
    return contacts
