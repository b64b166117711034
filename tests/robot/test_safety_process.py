"""A controller in a process of its own ends in every way there is; the servos say when their torque went off."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.pty_line import PtyLine

LIMIT = 2.0  # s on a busy machine; benchmarks/safety_ends.py measures what it takes

CONTROLLER = """
import sys, time
from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.serial import SerialBus
from axbridge.robot.safety.net import Safety

bus = SerialBus(sys.argv[1])
cycle = Cycle(bus, [CycleServo("hip", 1), CycleServo("knee", 2)])
stale = float(sys.argv[3]) if len(sys.argv) > 3 else None
with Safety([cycle], stale_command_ms=stale) as safety:
    step = 0
    while True:
        safety.feed()
        cycle.exchange({"hip": Goal(500, 100), "knee": Goal(500, 100)})
        step += 1
        if step == 10:
            print("running", flush=True)
            if sys.argv[2] == "exception":
                raise ZeroDivisionError
            if sys.argv[2] == "exit":
                sys.exit(5)
            if sys.argv[2] == "hang":
                time.sleep(60)
            if sys.argv[2] == "hang without the interpreter":
                import ctypes
                ctypes.PyDLL(None).usleep(5_000_000)  # PyDLL keeps the interpreter locked
        time.sleep(0.005)
"""


@pytest.fixture
def line():
    with PtyLine((1, 2)) as made:
        yield made


def start(line, *arguments):
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, line.port, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert controller.stdout.readline() == b"running\n"
    return controller


def torque_off_after(line, since):
    """Time until every servo's torque was off and stayed off, s."""
    while any(table[24] for table in line.tables.values()):
        assert time.monotonic() < since + 5, "the servos are still powered"
        time.sleep(0.002)
    took = time.monotonic() - since
    time.sleep(0.1)
    assert not any(table[24] for table in line.tables.values())
    return took


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_switches_the_torque_off_and_stays_the_cause_of_the_end(line, number):
    with start(line, "run") as controller:
        time.sleep(0.15)  # the guard is up
        since = time.monotonic()
        controller.send_signal(number)
        assert torque_off_after(line, since) < LIMIT
        assert controller.wait(5) == -number


def test_a_controller_killed_at_once_is_guarded_too(line):
    with start(line, "run") as controller:
        since = time.monotonic()
        controller.kill()
        torque_off_after(line, since)
        assert controller.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize(("way", "code"), [("exception", 1), ("exit", 5)])
def test_an_end_from_within_switches_the_torque_off_and_keeps_its_exit_code(line, way, code):
    with start(line, way) as controller:
        torque_off_after(line, time.monotonic())
        assert controller.wait(5) == code


@pytest.mark.parametrize("way", ["hang", "hang without the interpreter"])
def test_a_hanging_controller_is_limped(line, way):
    with start(line, way, "100") as controller:
        torque_off_after(line, time.monotonic())
        assert controller.poll() is None
        controller.kill()


SWITCHED = """
import sys, time
from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.serial import SerialBus
from axbridge.robot.safety.net import Safety

cycle = Cycle(SerialBus(sys.argv[1]), [CycleServo("hip", 1), CycleServo("knee", 2)])
first, second = Safety([cycle], "hold"), Safety([cycle], "hold")
first.arm()
second.arm()
if sys.argv[2] == "changed its backend":
    first.disarm()
cycle.exchange({"hip": Goal(500, 100), "knee": Goal(500, 100)})
cycle.exchange({})
print("running", flush=True)
while True:
    second.feed()
    time.sleep(0.01)
"""


@pytest.mark.parametrize("way", ["changed its backend", "two robots"])
def test_a_robot_that_holds_is_not_limped_by_a_guard_when_a_signal_ends_it(line, way):
    with subprocess.Popen([sys.executable, "-c", SWITCHED, line.port, way], stdout=subprocess.PIPE) as controller:
        assert controller.stdout.readline() == b"running\n"
        controller.terminate()
        assert controller.wait(5) == -signal.SIGTERM
        time.sleep(0.2)  # a guard that was not told off acts within milliseconds
    assert [table[24] for table in line.tables.values()] == [1, 1]


def test_the_guard_leaves_with_its_controller(line):
    with start(line, "exit") as controller:
        controller.wait(5)

    def guards():
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
                ports = [str(link.readlink()) for link in (process / "fd").iterdir()]
            except OSError:
                continue
            if b"guard.py" in command and line.port in ports:
                found.append(process)
        return found

    assert not guards()
