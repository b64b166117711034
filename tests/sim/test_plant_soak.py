import contextlib
import ctypes
import gc
import os
import random
import threading
from pathlib import Path

import pytest

import axbridge

pytestmark = pytest.mark.slow

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
    dice, contacts = random.Random(seed), 0
    with axbridge.open("bioloid", seed=seed) as robot, axbridge.open("bench_arm", seed=seed) as other:
        world = robot.simulation.engine
        for tick in range(round(seconds * 1000 / TICK)):
            if tick % 10 == 0:
                for servo in (*robot.values(), *other.values()):
                    servo.set_position(servo.config.position + dice.uniform(-0.3, 0.3))
            if tick % 100 == 60:
                world.place_base(((0, 0, 0.5), tuple(dice.gauss(0, 1) for _ in range(4))))
            if tick % 100 == 89:
                for servo in robot.values():
                    servo.torque_off()
                    servo.recover()
            robot.step(TICK)
            other.step(TICK)
            contacts += bool(len(world._contacts()))
    return contacts


@pytest.mark.ci
@pytest.mark.bullet
def test_robots_that_are_used_and_closed_leave_nothing_behind():
    contacts = sum(session(2.5, seed) for seed in range(2))  # imports, compiled kernels, caches
    assert contacts > 20
    memory, objects, before = resident(), len(gc.get_objects()), held()  # in this order: `resident` collects first
    for seed in range(8):
        session(0.3, seed)
    assert resident() - memory < 4.0  # MB; a Bioloid's world is 36
    assert len(gc.get_objects()) - objects < 300  # a robot has thousands
    assert held() == before
