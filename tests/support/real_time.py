"""Tests that real time decides, marked `real_time`: other people's time-outs, or milliseconds that are the promise.

A computer that is busy with other things lets them fail without a fault of ours. So a process beside measures how late
a sleep and a byte through a pseudo-terminal come. A test that fails meanwhile is asked again; it is skipped, with that
figure, where the computer was much too late each time. On a computer that was on time, a failure is a failure.
"""

import contextlib
import subprocess
import sys
import time

import pytest
from _pytest.runner import runtestprotocol

ON_TIME, USELESS = 0.005, 0.05  # s
_ATTEMPTS = 4
_METRONOME = """
import os, pty, select, time, tty
ours, theirs = pty.openpty()
tty.setraw(theirs)
worst = 0.0
print("ready", flush=True)
while not select.select([0], (), (), 0.001)[0]:
    begun = time.monotonic()
    os.write(theirs, b"?")
    os.read(ours, 1)
    time.sleep(0.001)
    worst = max(worst, time.monotonic() - begun - 0.001)
print(worst)
"""


@contextlib.contextmanager
def lateness():
    """Yields a list that holds, after the block, by how much this computer was late in it at most, s."""
    found = []
    command = [sys.executable, "-I", "-S", "-c", _METRONOME]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as metronome:
        try:
            metronome.stdout.readline()
            yield found
        finally:
            # A byte, not the end of the pipe alone: a process that the test forked, and left, may hold that open.
            found.append(float(metronome.communicate("\n")[0]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if item.get_closest_marker("real_time") is None:
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
