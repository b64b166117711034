"""Tests that real time decides: marked `real_time`, or with something that answers on a pseudo-terminal.

A process beside measures how late a sleep and a byte through a pseudo-terminal come. A test that fails while the
computer is late is asked again, and skipped, with that figure, where it was much too late each time.
"""

import atexit
import contextlib
import subprocess
import sys
import time
from functools import cache

import pytest
from _pytest.runner import runtestprotocol

ANSWERS = ("PtyLine", "led", "serving")  # what the file of such a test imports
FIXTURES = {"line", "served"}
ON_TIME, USELESS = 0.002, 0.05  # s; late by 2 ms, a line hears two questions as one and their answers collide
_ATTEMPTS = 4
_METRONOME = """
import os, pty, select, time, tty
ours, theirs = pty.openpty()
tty.setraw(theirs)
while os.read(0, 1):
    worst = 0.0
    while not select.select([0], (), (), 0)[0]:
        begun = time.monotonic()
        os.write(theirs, b"?")
        os.read(ours, 1)
        time.sleep(0.01)
        worst = max(worst, time.monotonic() - begun - 0.01)
    os.read(0, 1)
    print(worst, flush=True)
"""


@cache
def _metronome():
    """One for all tests of this process; it ends with it. A byte begins to measure, the next one ends it."""
    command = [sys.executable, "-I", "-S", "-c", _METRONOME]
    begun = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    atexit.register(begun.communicate)
    atexit.register(begun.kill)  # first: what a test forked, and left, may hold its input open
    return begun


@contextlib.contextmanager
def lateness():
    """Yields a list that holds, after the block, by how much this computer was late in it at most, s."""
    found = []
    asked, answers = _metronome().stdin, _metronome().stdout
    asked.write(b"?")
    try:
        yield found
    finally:
        asked.write(b"?")
        found.append(float(answers.readline()))


def is_in_real_time(item):
    return (
        item.get_closest_marker("real_time") is not None
        or any(hasattr(getattr(item, "module", None), name) for name in ANSWERS)
        or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if not is_in_real_time(item):
        return None
    place = {"nodeid": item.nodeid, "location": item.location}
    item.ihook.pytest_runtest_logstart(**place)
    found, failed = [], True
    while not found or (failed and found[-1] > ON_TIME and len(found) < _ATTEMPTS):
        time.sleep(len(found))
        if found:
            item.session._setupstate.teardown_exact(None)  # what its fixtures have seen was late, too
        with lateness() as late:
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        failed = [report for report in reports if report.failed]
        found += late
    for report in failed if min(found) > USELESS else ():
        each = ", ".join(f"{one * 1e3:.0f}" for one in found)
        why = f"Skipped: this computer was {each} ms late; it failed with {report.longreprtext[-500:]}"
        report.outcome, report.longrepr = "skipped", (item.location[0], item.location[1], why)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(**place)
    return True
