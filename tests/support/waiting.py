"""Waits for conditions; longer time-outs and higher priorities for tests on a busy computer.

If many processes share few cores, a served bus may answer later than a read waits on a real line. So in
tests the third attempt of a read waits for a tenth of a second. For root, servers get a real-time priority.
"""

import os
import time
from contextlib import suppress

from axbridge.bus.base import Bus
from axbridge.cli import progress


def until(condition, seconds=120.0):
    """Wait until a condition is true; return its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.005)
    return value


def run(robot, seconds, look=lambda: None):
    """Step a robot for `seconds`, 20 ms a step; return the results of `look`, which is called after each step."""
    results = []
    for _ in range(round(seconds / 0.02)):
        robot.step(20)
        results.append(look())
    return results


def has_grown(path):
    """Return whether a recording has samples."""
    return path.is_file() and path.stat().st_size > 20_000


def extend_timeouts():
    """Lengthen the time-outs of all buses of this process; verbs print no progress in a pipe."""
    Bus.retry_timeout_factor, progress._FIRST, progress._EVERY = 5, 600.0, 600.0


def raise_priority():
    """Give this thread, and all threads and processes that it starts, a real-time priority if permitted."""
    with suppress(AttributeError, PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
