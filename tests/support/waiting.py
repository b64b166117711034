"""Waiting for what a test has set going, and buses and servos that wait for a busy computer.

Where many processes share few cores, a served bus answers later now and then than three questions wait on a real line.
Where a test is not about that, the third one waits for a tenth of a second. Servos come first, where we are root.
"""

import os
import time
from contextlib import suppress

from axbridge.bus.base import Bus
from axbridge.cli import progress


def until(condition, seconds=120.0):
    """Wait until a condition is true; what it is then."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.005)
    return found


def run(robot, seconds, look=lambda: None):
    """Step a robot for so long, 20 ms a step; what it looks like after each."""
    found = []
    for _ in range(round(seconds / 0.02)):
        robot.step(20)
        found.append(look())
    return found


def has_grown(path):
    """Whether a recording has begun to fill."""
    return path.is_file() and path.stat().st_size > 20_000


def be_patient():
    """Let every bus of this process wait, and no verb say every 10 s that it has not come to its end."""
    Bus.retry_timeout_factor, progress._FIRST, progress._EVERY = 5, 600.0, 600.0


def come_first():
    """Let this thread, and all that it begins, go before others."""
    with suppress(AttributeError, PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
