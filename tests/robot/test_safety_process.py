"""A controller in a process of its own ends in every way there is; the servos say when their torque went off."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from axbridge.bus.serial import SerialBus
from axbridge.errors import PortError
from tests.support import ending_program
from tests.support.pty_line import PtyLine
from tests.support.warm import Warm

pytestmark = pytest.mark.slow

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
    controller = Warm("-c", CONTROLLER, line.port, *arguments, stderr=subprocess.DEVNULL)
    assert controller.stdout.readline() == "running\n"
    return controller


def torque_off_after(line, since):
    """Time until every servo's torque was off and stayed off, s."""
    while any(table[24] for table in line.tables.values()):
        assert time.monotonic() < since + 30, "the servos are still powered"
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
        assert controller.wait(30) == -number


def test_a_controller_killed_at_once_is_guarded_too(line):
    with start(line, "run") as controller:
        since = time.monotonic()
        controller.kill()
        torque_off_after(line, since)
        assert controller.wait(30) == -signal.SIGKILL


@pytest.mark.parametrize(("way", "code"), [("exception", 1), ("exit", 5)])
def test_an_end_from_within_switches_the_torque_off_and_keeps_its_exit_code(line, way, code):
    with start(line, way) as controller:
        torque_off_after(line, time.monotonic())
        assert controller.wait(30) == code


@pytest.mark.parametrize("way", ["hang", "hang without the interpreter"])
def test_a_hanging_controller_is_limped(line, way):
    with start(line, way, "100") as controller:
        torque_off_after(line, time.monotonic())
        assert controller.poll() is None
        controller.kill()


STEPPED = """
import sys, threading, time
import axbridge
from axbridge.config.rig import Rig

servos = [{"name": "hip", "joint": "a", "id": 1}, {"name": "knee", "joint": "b", "id": 2}]
safety = {"stale_command_ms": float(sys.argv[3])} if len(sys.argv) > 3 else {}
rig = Rig.model_validate({"name": "pair", "servo": servos, "safety": safety})
robot = axbridge.open(rig, backend="real", port=sys.argv[1])
robot["hip"].set_position(0.3)
robot["knee"].set_position(0.3)

def go_on():
    while True:
        robot.step(5)

if sys.argv[2] == "another thread steps":
    threading.Thread(target=go_on, daemon=True).start()
    print("running", flush=True)
    threading.Event().wait()
if sys.argv[2] == "a long call into a library":
    import hashlib
    robot.step(5)
    print("running", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000_000)  # minutes
if sys.argv[2] == "a loop without a step":
    robot.step(5)
    print("running", flush=True)
    while True:
        pass
print("running", flush=True)
go_on()
"""  # steps, another thread steps, or nobody does


def powered_soon(line):
    end = time.monotonic() + 30
    while not all(table[24] for table in line.tables.values()):
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.parametrize(
    "way", ["another thread steps", "a long call into a library", "a loop without a step", "steps"]
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_robot_whoever_steps_it(line, way, number):
    with Warm("-c", STEPPED, line.port, way) as controller:
        try:
            assert controller.stdout.readline() == "running\n"
            powered_soon(line)
            since = time.monotonic()
            controller.send_signal(number)
            assert controller.wait(30) == -number
            assert torque_off_after(line, since) < LIMIT
        finally:
            controller.kill()


PAIR = """
name = "pair"
[[servo]]
name = "hip"
joint = "a"
id = 1
[[servo]]
name = "knee"
joint = "b"
id = 2
"""
ENDS = [
    *(("daemon thread", how) for how in ("script", "exception", "sys.exit", "SIGINT", "caught", "own handler")),
    *(("robot of a thread", how) for how in ("exception", "SIGINT")),
    *(("asyncio and threads", how) for how in ("SIGINT", "own handler")),
    ("concurrent.futures", "SIGINT"),
    ("child that takes its parent's robot", "script"),
    ("child by fork", "script"),
    ("child by spawn", "exception"),
]


@pytest.mark.parametrize(("way", "how"), ENDS, ids=map(", ".join, ENDS))
def test_a_program_leaves_no_motor_on_however_it_drives_and_ends(line, tmp_path, way, how):
    rig = tmp_path / "pair.toml"
    rig.write_text(PAIR)
    given = json.dumps({"rig": str(rig), "backend": "real", "port": line.port})
    here = {"cwd": Path(__file__).parents[2], "start_new_session": True}
    for left in (2, 1, 0):  # a busy computer may lose its first packets
        with Warm("-m", "tests.support.ending_program", way, how, 1, given, **here) as program:
            if program.stdout.readline() == "running\n":
                ending_program.tell(program, how)
                _, said = program.communicate(timeout=60)
                break
            said = program.stderr.read()
            assert "did not answer" in said, said
            assert left, said
        no_motor_is_on(line, said)
    no_motor_is_on(line, said)
    assert "powered" not in said


def no_motor_is_on(line, said):
    wait_for_guard(line)
    assert [table[24] for table in line.tables.values()] == [0, 0], said


def wait_for_guard(line):
    """Until nobody holds the port any more, and the servos have heard everything."""
    end = time.monotonic() + 30
    while True:
        try:
            with SerialBus(line.port) as bus:
                bus.latency = 1.0
                bus.ping(1)
        except PortError:
            assert time.monotonic() < end
            time.sleep(0.01)
        else:
            return


def test_a_controller_that_was_stopped_leaves_its_motors_off_when_it_goes_on(line):
    with Warm("-c", STEPPED, line.port, "steps", "150") as controller:
        assert controller.stdout.readline() == "running\n"
        powered_soon(line)
        time.sleep(0.3)  # the guard is up
        controller.send_signal(signal.SIGSTOP)
        torque_off_after(line, time.monotonic())
        controller.send_signal(signal.SIGCONT)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            assert not any(table[24] for table in line.tables.values())
            time.sleep(0.001)
        controller.terminate()
        _, said = controller.communicate(timeout=30)
        assert "off until set_position or torque_on" in said


def test_the_guard_of_a_killed_controller_asks_and_repeats(line):
    def mishap(packet):
        if packet.code == 3 and packet.id != 254:
            line.frozen.discard(24)
        return "ok"

    with start(line, "run") as controller:
        time.sleep(0.2)
        line.frozen.add(24)  # the broadcasts are lost
        line.mishap = mishap
        controller.kill()
        torque_off_after(line, time.monotonic())


def test_the_guard_of_a_killed_controller_names_what_stays_powered(line):
    with Warm("-c", CONTROLLER, line.port, "run") as controller:
        assert controller.stdout.readline() == "running\n"
        time.sleep(0.2)
        line.deaf.add(2)
        controller.kill()
        assert "may still be powered: 2\ncut the servo supply" in controller.stderr.read()  # until the guard ends, too


LEFT_BEHIND = """
import os, sys, time
from axbridge.bus.serial import SerialBus

bus = SerialBus(sys.argv[1])
if os.fork() == 0:
    os.close(1)
    time.sleep(60)
    os._exit(0)
print(os.getpid(), flush=True)
"""


def test_a_child_that_outlives_its_parent_and_keeps_the_port_is_named(line):
    done = subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND, line.port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    child = holder(line.port)
    os.kill(child, signal.SIGKILL)
    assert child != int(done.stdout)


def holder(port):
    """The one process that is said to have the port; nobody is told to kill it."""
    with pytest.raises(PortError, match=r"in use by process \d+: python.*\nend it where .* by Ctrl-C") as refused:
        SerialBus(port)
    assert "kill" not in str(refused.value)
    (found,) = re.findall(r"process (\d+): python", str(refused.value))
    return int(found)


def test_who_has_the_port_is_named_without_its_guard_which_goes_with_it(line):
    with start(line, "hang") as controller:
        try:
            assert holder(line.port) == controller.pid
        finally:
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
    with Warm("-c", SWITCHED, line.port, way) as controller:
        assert controller.stdout.readline() == "running\n"
        controller.terminate()
        assert controller.wait(30) == -signal.SIGTERM
        time.sleep(0.2)  # a guard that was not told off acts within milliseconds
    assert [table[24] for table in line.tables.values()] == [1, 1]


def test_the_guard_leaves_with_its_controller(line):
    with start(line, "exit") as controller:
        controller.wait(30)

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
