"""Tests that depend on real time: marked `real_time`, or with a server of a pseudo-terminal.

A second process measures the delay of a sleep and of a byte through a pseudo-terminal. A test that fails on a delayed
computer is run again, and skipped with the measured delays if each of them was much too long.
"""

import atexit
import contextlib
import subprocess
import sys
import time
from functools import cache

import pytest
from _pytest.runner import runtestprotocol

SERVERS = ("PtyLine", "led", "serving")  # names that the file of such a test imports
FIXTURES = {"line", "served"}
ON_TIME, TOO_LATE = 0.002, 0.05  # s: replies may collide; a failure proves nothing
_ATTEMPTS = 4
_METRONOME = """
import os, pty, select, time, tty
ours, theirs = pty.openpty()
tty.setraw(theirs)
while os.read(0, 1):
    worst = 0.0
    while not select.select([0], (), (), 0)[0]:
        start = time.monotonic()
        os.write(theirs, b"?")
        os.read(ours, 1)
        time.sleep(0.01)
        worst = max(worst, time.monotonic() - start - 0.01)
    os.read(0, 1)
    print(worst, flush=True)
"""


@cache
def _metronome():
    """Return the measuring process of this process, which ends with it. A byte starts a measurement, the next ends it."""
    command = [sys.executable, "-I", "-S", "-c", _METRONOME]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    atexit.register(process.communicate)
    atexit.register(process.kill)  # called first: a process that a test has forked may keep its input open
    return process


@contextlib.contextmanager
def measured_delay():
    """Yield a list that gets, after the block, the longest delay of this computer in it, s."""
    delays = []
    start_and_stop, results = _metronome().stdin, _metronome().stdout
    start_and_stop.write(b"?")
    try:
        yield delays
    finally:
        start_and_stop.write(b"?")
        delays.append(float(results.readline()))


def is_in_real_time(item):
    return (
        item.get_closest_marker("real_time") is not None
        or any(hasattr(getattr(item, "module", None), name) for name in SERVERS)
        or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if not is_in_real_time(item):
        return None
    place = {"nodeid": item.nodeid, "location": item.location}
    item.ihook.pytest_runtest_logstart(**place)
    delays, failed = [], True
    while not delays or (failed and delays[-1] > ON_TIME and len(delays) < _ATTEMPTS):
        time.sleep(len(delays))
        if delays:
            item.session._setupstate.teardown_exact(None)  # its fixtures were delayed, too
        with measured_delay() as delay:
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        failed = [report for report in reports if report.failed]
        delays += delay
    for report in failed if min(delays) > TOO_LATE else ():
        listed = ", ".join(f"{delay * 1e3:.0f}" for delay in delays)
        why = f"Skipped: this computer was {listed} ms late; it failed with {report.longreprtext[-500:]}"
        why = why.encode(errors="replace").decode()  # a report with half of a character ends pytest's worker
        report.outcome, report.longrepr = "skipped", (item.location[0], item.location[1], why)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(**place)
    return True
