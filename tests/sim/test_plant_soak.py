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
    """Return the resident memory of this process, MB, without the allocator's free memory."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def files_and_threads():
    """Return the number of open file descriptors and of threads of this process."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def session(seconds, seed):
    """Use two robots for `seconds` of simulated time, and close them; return the number of steps with contacts."""
    random_numbers, contacts = random.Random(seed), 0
    with axbridge.open("bioloid", seed=seed) as robot, axbridge.open("bench_arm", seed=seed) as other:
        world = robot.simulation.engine
        for tick in range(round(seconds * 1000 / TICK)):
            if tick % 10 == 0:
                for servo in (*robot.values(), *other.values()):
                    servo.set_position(servo.config.position + random_numbers.uniform(-0.3, 0.3))
            if tick % 100 == 60:
                world.place_base(((0, 0, 0.5), tuple(random_numbers.gauss(0, 1) for _ in range(4))))
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
def test_robots_that_are_closed_leave_no_memory_objects_files_or_threads():
    contacts = sum(session(2.5, seed) for seed in range(2))  # fills imports, compiled kernels and caches
    assert contacts > 20
    memory, objects, before = resident(), len(gc.get_objects()), files_and_threads()  # the first collects
    for seed in range(8):
        session(0.3, seed)
    assert resident() - memory < 4.0  # MB; a Bioloid's world is 36
    assert len(gc.get_objects()) - objects < 300  # a robot has thousands
    assert files_and_threads() == before
