"""Waiting for what a test has set going: for the thing itself, and long, because a busy machine takes long."""

import time


def until(condition, seconds=120.0):
    """Wait until a condition is true; what it is then."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.005)
    return found


def run(robot, seconds):
    """Step a robot for so long, 20 ms a step."""
    for _ in range(round(seconds / 0.02)):
        robot.step(20)


def has_grown(path, size=20_000):
    """Whether a recording has begun to fill."""
    return path.is_file() and path.stat().st_size > size
