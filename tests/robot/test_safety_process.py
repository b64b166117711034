"""Every end of a controller in its own process; the virtual servos record when their torque went off."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from axbridge.bus.serial import SerialBus
from axbridge.errors import PortError
from tests.support import ends
from tests.support.pty_line import PtyLine
from tests.support.robot_files import write_feetech_comb
from tests.support.warm import Warm

pytestmark = pytest.mark.slow

LIMIT = 2.0  # s on a busy machine; benchmarks/safety_signals.py measures what it takes

OPENED = """
import code, os, sys, time
from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.serial import SerialBus
from axbridge.robot.safety.net import Safety

bus = SerialBus(sys.argv[1])
"""
CONTROLLER = """
cycle = Cycle(bus, [CycleServo("hip", 1), CycleServo("knee", 2)])
with Safety([cycle]) as safety:
    cycle.cap("hip", 300)
    for step in range(100_000):
        safety.feed()
        safety.update_guard()
        cycle.exchange({"hip": Goal(500, 100), "knee": Goal(500, 100)})
        if step == 10:
            print("running", flush=True)
            if sys.argv[2:] == ["leave"]:
                break
        time.sleep(0.005)
"""


@pytest.fixture
def line():
    with PtyLine((1, 2)) as made:
        yield made


def torque_off_after(line, since):
    """Check that every servo's torque goes off, and stays off."""
    while line.powered:
        assert time.monotonic() < since + 30, "the servos are still powered"
        time.sleep(0.002)
    time.sleep(0.1)
    assert not line.powered


def test_the_guard_of_a_killed_controller_names_what_stays_powered_and_ends_the_limit_of_a_blocked_joint(line):
    with Warm("-c", OPENED + CONTROLLER, line.port) as controller:
        assert controller.stdout.readline() == "running\n"
        time.sleep(0.2)
        assert line[1].table["torque_limit"] == 300
        line.deaf.add(2)
        controller.kill()
        assert "may still be powered: 2\ncut the servo supply" in controller.stderr.read()  # until the guard ends, too
    assert line[1].table["torque_limit"] == 1023


@pytest.mark.parametrize("pause", [0.5, 0.0], ids=["after 0.5 s", "at once"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_motors_of_a_program_that_ended_without_its_adapter_go_off_when_the_adapter_is_back(line, number, pause):
    with Warm("-c", OPENED + CONTROLLER, line.port) as controller:
        assert controller.stdout.readline() == "running\n"
        line.unplug()
        time.sleep(pause)  # in which the program and its guard lose the port
        controller.send_signal(number)
        assert "these servos may still be powered: " in controller.stderr.read()
    assert len(line.powered) == 2
    line.replug()
    torque_off_after(line, time.monotonic())


OTHER_RATE = """
cycle = Cycle(bus, [CycleServo("hip", 1)])
safety = Safety([cycle], stale_command_ms=2000)
safety.arm()
cycle.exchange({"hip": Goal(500, 100)})
time.sleep(1)  # the guard reads the port's settings when it starts
safety.feed()
bus.port.setBaudRate(57_600)
print("running", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_guard_reaches_servos_when_the_program_has_set_its_port_to_another_baud_rate(line, number):
    with Warm("-c", OPENED + OTHER_RATE, line.port, stderr=None) as controller:
        assert controller.stdout.readline() == "running\n"
        controller.send_signal(number)
        torque_off_after(line, time.monotonic())
        controller.kill()


def test_the_guard_of_a_program_without_standard_input_limps_its_motors(line):
    program = [sys.executable, "-c", OPENED + CONTROLLER, line.port]
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as controller:
        assert controller.stdout.readline() == "running\n"
        controller.kill()
        torque_off_after(line, time.monotonic())


LEFT_BEHIND = """
if os.fork() == 0:
    os.close(1)
    time.sleep(60)
    os._exit(0)
print(os.getpid(), flush=True)
"""


def test_the_error_names_a_child_that_keeps_the_port_after_its_parent_ended(line):
    command = [sys.executable, "-c", OPENED + LEFT_BEHIND, line.port]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    child = holder(line.port)
    os.kill(child, signal.SIGKILL)
    assert child != int(done.stdout)


MOVED_ONCE = """
cycle = Cycle(bus, [CycleServo("hip", 1)])
Safety([cycle]).arm()
cycle.exchange({"hip": Goal(500, 100)})
"""
CAUGHT = "try: 1 / 0\nexcept ZeroDivisionError: code.InteractiveInterpreter().showtraceback()\n"
GO_ON = "time.sleep(0.3); print('still there', flush=True); time.sleep(60)\n"


@pytest.mark.ci
@pytest.mark.parametrize(
    ("options", "program", "typed"), [("-ic", "1 / 0\n", GO_ON), ("-c", CAUGHT + GO_ON, "")], ids=["prompt", "caught"]
)
def test_an_exception_that_does_not_end_the_program_leaves_its_motors_on(line, options, program, typed):
    command = [sys.executable, options, OPENED + MOVED_ONCE + program, line.port]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as controller:
        controller.stdin.write(typed)
        controller.stdin.flush()
        assert controller.stdout.readline() == "still there\n"
        assert line.powered == [1]
        controller.kill()
        torque_off_after(line, time.monotonic())


def holder(port):
    """The one process that the message names as the port's holder, without the advice to kill it."""
    with pytest.raises(PortError, match=r"in use by process \d+: python.*\nend it where .* by Ctrl-C") as refused:
        SerialBus(port)
    assert "kill" not in str(refused.value)
    (pid,) = re.findall(r"process (\d+): python", str(refused.value))
    return int(pid)


def test_the_error_names_the_process_that_uses_the_port_and_not_its_guard(line):
    with Warm("-c", OPENED + CONTROLLER, line.port, stderr=subprocess.DEVNULL) as controller:
        try:
            assert controller.stdout.readline() == "running\n"
            assert holder(line.port) == controller.pid
        finally:
            controller.kill()


# ---- a served bus, last: as long as it is there, it takes a twentieth of a core


@pytest.fixture(scope="module")
def bench():
    with ends.served("pan_tilt", model=None) as served:
        yield served


FEW = [
    *(("main thread", how) for how in ("SIGKILL", "SIGTERM", "SIGINT", "exception", "sys.exit", "hang")),
    ("main thread", "hang with the interpreter locked"),
    ("robot that is stepped only", "SIGSTOP"),
    *(("daemon thread", how) for how in ("script", "caught", "own handler")),
    ("main thread", "own handler set after open, twice"),
    ("main thread", "exec with inherited descriptors"),
    ("main thread, and one that lives on", "exception"),
    ("main thread, and a pool that works on", "script"),
    ("main thread, and processes that work on", "exception"),
    ("main thread, and an atexit handler that hangs", "sys.exit"),
    ("main thread, and an excepthook that hangs", "exception"),
    ("thread that goes on", "exception"),
    ("main thread, its guard killed, and a broken pipe ends it", "SIGTERM"),
    *(("robot of a thread", how) for how in ("exception", "SIGINT", "caught")),
    *((way, "SIGTERM") for way in ("loop without a step", "long call into a library")),
    ("thread", "SIGHUP"),
    ("asyncio and threads", "SIGINT"),
    ("concurrent.futures", "SIGINT"),
    ("child that takes its parent's robot", "script"),
    ("child by fork", "script"),
    ("child by spawn", "exception"),
    *((f"child by {method}", ends.ORPHAN) for method in ("fork", "spawn", "forkserver")),
    ("wheel", "SIGTERM"),
    ("handshake", "SIGTERM"),
]
REST = [pytest.param(*row, marks=pytest.mark.ci) for row in ends.TABLE if row not in FEW]


@pytest.mark.parametrize(("way", "how"), [*FEW, *REST], ids=str)
def test_a_program_leaves_no_motor_on_however_it_drives_and_ends(bench, way, how):
    ended = ends.end(bench, way, how)
    assert not ended.wrong
    assert ended.seconds < LIMIT


@pytest.mark.parametrize("moment", [0.1, 0.155])
def test_a_program_that_was_stopped_switches_nothing_on_where_its_policy_is_to_park(bench, moment):
    assert not ends.end(bench, "robot that is stepped only", "SIGSTOP", policy="park", step_ms=20, moment=moment).wrong


@pytest.fixture(scope="module")
def other(request, tmp_path_factory):
    """A line of Feetech servos, of two protocols, or of X servos: a wheel must be a joint again, no watchdog armed."""
    feetech = str(write_feetech_comb(tmp_path_factory.mktemp("comb")))
    rigs = {"feetech": feetech, "mixed": "head_gripper", "X": "koch"}
    with ends.served(rigs[request.param], model=None) as served:
        yield served


@pytest.mark.parametrize(
    ("other", "way", "how", "policy"),
    [
        *(("feetech", "main thread", "SIGTERM", policy) for policy in ("limp", "hold", "park")),
        *(("feetech", way, "SIGKILL", "limp") for way in ("main thread", "wheel")),
        *(("mixed", "main thread", *end) for end in (("SIGTERM", "hold"), ("SIGKILL", "limp"))),
        *(("X", "wheel", how, "limp") for how in ("script", "exception", "SIGTERM", "SIGKILL")),
    ],
    indirect=["other"],
)
def test_a_program_leaves_no_motor_on_with_every_servo_family(other, way, how, policy):
    assert not ends.end(other, way, how, policy=policy).wrong
