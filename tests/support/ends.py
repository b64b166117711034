"""Every end of a program that drives motors: a table, the program, and `end`, which examines the servos afterwards.

The tests run some rows, `make long` all, `benchmarks/safety_signals.py` hundreds at random moments. The program is
`ends WAY END STEP_MS GIVEN`, with the arguments of `axbridge.open` as JSON; it prints ``running`` when the motors move.
"""

import asyncio
import atexit
import ctypes
import hashlib
import itertools
import json
import math
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection
from pathlib import Path

import axbridge
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.config.rig import Rig
from axbridge.errors import PortError
from axbridge.robot import connection as robot_connection
from axbridge.robot.safety.net import NETS
from tests.support.hand import led
from tests.support.waiting import until
from tests.support.warm import Warm

SWING = 0.03  # rad
LIVES_ON = 2.5  # s that a program lives after its end has begun: its motors must be off before
LONGEST = 30.0  # s that an end may take, on a busy machine
NEAR = {1: 3.0}  # degrees between goal and position of a servo that holds a load; the loops of others have no integral
FAR = 15.0
GIVEN_BACK = ("cw_angle_limit", "ccw_angle_limit", "operating_mode", "bus_watchdog")  # as they were before
STILL_ON = "still powered"

SENT = {name: signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")}
SENT |= {"caught": signal.SIGINT, "own handler": signal.SIGTERM}
TWICE = {"own handler set after open, twice": signal.SIGTERM, "Ctrl-C twice, Python's handler": signal.SIGINT}
SENT |= TWICE
AGAIN = {"park": 0.3}  # s between the two signals: a park is under way by then
AT_ONCE = 0.02  # s between them where it does not park: it is being closed
OWN = ("script", "exception", "sys.exit")
# ends after which nothing of the program runs any more
SUDDEN = ("SIGKILL", "os._exit", "exec", "exec with inherited descriptors", "kernel killed")
HANGS = ("hang", "hang with the interpreter locked", "SIGSTOP")  # the process exists, and its command is stale
CODES = dict.fromkeys(("script", "exec", "exec with inherited descriptors", "caught"), 0)
CODES |= {"exception": 1, "sys.exit": 5, "os._exit": 6, "own handler": 7}
ORPHAN = "SIGKILL of its parent alone"
ALL = (*OWN, *SENT, "os._exit", "exec")
IN_CLOSE = ("interrupt during close, restart", "interrupt during close, close")
KERNEL = ("restart", "interrupt, restart", *IN_CLOSE, "shutdown", "kernel killed")
WAYS = {
    "main thread": (*ALL, *TWICE, "exec with inherited descriptors", "hang", "hang with the interpreter locked"),
    "main thread, and one that lives on": OWN,
    "main thread, and a pool that works on": OWN,
    "main thread, and processes that work on": OWN,
    "main thread, and an atexit handler that hangs": OWN,
    "main thread, and an excepthook that hangs": ("exception",),
    "main thread, its guard killed, and a broken pipe ends it": (*OWN, "SIGTERM"),
    "wheel": ALL,
    "daemon thread": ALL,
    "thread": ALL,
    "thread that goes on": (*OWN, "SIGINT", "SIGTERM", "SIGKILL"),
    "robot of a thread": (*OWN, "SIGINT", "caught", "own handler", "SIGKILL"),
    "asyncio": ALL,
    "asyncio and threads": ALL,
    "concurrent.futures": ALL,
    "child that takes its parent's robot": (*OWN, *SENT),
    "child by fork": (*OWN, "SIGINT", "SIGTERM", "SIGKILL", ORPHAN),
    "child by spawn": (*OWN, "SIGINT", "SIGTERM", "SIGKILL", ORPHAN),
    "child by forkserver": ("SIGKILL", ORPHAN),
    "long call into a library": ("SIGTERM", "SIGHUP", "SIGKILL"),
    "loop without a step": ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"),
    "robot that is stepped only": ("exception", "SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "SIGSTOP"),
    "handshake": ("SIGTERM", "SIGHUP"),  # of a robot whose motors are on
    "notebook": KERNEL,
    "notebook's thread": KERNEL,
}
TABLE = [(way, how) for way, ends in WAYS.items() for how in ends]


def outcome(way, how, policy):
    """Return the policy that is applied: the rig's, or limp if only the guard acts. None: both are correct."""
    if how == ORPHAN or (way, how) == ("child by fork", "SIGINT"):  # it ends by itself, or its parent ends it
        return None
    return "limp" if how in (*SUDDEN, *HANGS) else policy


# ---- the runner


@dataclass
class Line:
    """Servos that programs drive."""

    rig: str  # name or path
    port: str
    powered: Callable[[], list[int]] | None = None  # returns the motors that are on, without packets; None: unknown
    straighten: Callable[[], None] = lambda: None  # leads all joints whose motors are off to 0
    before: dict[str, list[int]] = field(init=False)  # the registers of `GIVEN_BACK`, by servo

    def __post_init__(self):
        self.loaded = Rig.load(self.rig)
        self.before = self.registers(*GIVEN_BACK)

    def registers(self, *names):
        """Read these registers of each servo after the program and its guard have ended; -1: it has none."""
        with self.opened() as bus:
            return {servo.name: [self._read(bus, servo, name) for name in names] for servo in self.loaded.servos}

    def _read(self, bus, servo, name):
        registers = self.loaded.specs[servo.name].profile.registers
        if name not in registers:
            return -1
        return registers[name].decode(bus.read(servo.id, registers[name].address, registers[name].size).data)

    def opened(self):
        def open_bus():
            with suppress(PortError):
                return SerialBus(self.port)

        bus = until(open_bus, LONGEST)
        bus.latency = 1.0  # s: a busy machine may stop virtual servos for a while
        for servo in self.loaded.servos:
            bus.set_protocol(servo.id, PROTOCOLS[self.loaded.specs[servo.name].profile.protocol])
        return bus

    def wrong(self, policy):
        """Return the differences of the servos from the state that the policy leaves."""
        differences = []
        read = self.registers("torque_enable", "goal_position", "present_position", *GIVEN_BACK)
        for servo in self.loaded.servos:
            on, goal, present, *kept = read[servo.name]
            profile = self.loaded.specs[servo.name].profile
            away = abs(goal - present) * profile.units.position if policy == "hold" else 0.0
            if on != (policy == "hold"):
                differences.append(f"{servo.name}: {STILL_ON if on else 'limp'}")
            if away > math.radians(NEAR.get(profile.protocol, FAR)):
                differences.append(f"{servo.name}: {math.degrees(away):.1f} degrees from its goal")
            if kept != self.before[servo.name]:
                differences.append(f"{servo.name}: {GIVEN_BACK} are {kept}, not {self.before[servo.name]}")
        return differences


@contextmanager
def served(rig, model="own"):
    """A line of virtual servos; without a model their shafts carry nothing. A robot hangs in the air, its joints at 0."""
    with led(rig, "none", *([model] if model else [])) as (port, tell):
        powered = partial(tell, "register torque_enable")
        yield Line(rig, port, powered, partial(tell, "all 0") if model else lambda: None)


@dataclass
class Ended:
    """Result of a program and its end."""

    code: int | None
    said: str  # on stderr
    wrong: list[str]  # wrong states of servos, and wrong output
    seconds: float  # until the motors were off, or held and the program was gone
    again: int  # number of further starts: a busy computer may lose its first packets


def end(line, way, how, *, policy="limp", step_ms=1, moment=0.0):
    """Start a program, and end it `moment` s after its motors move; return its `Ended`."""
    if way == "wheel" or how in HANGS:  # a wheel does not hold; a program that hangs may hold
        policy = "park" if policy == "park" else "limp"
    pose = {s.name: min(max(0.0, s.soft_limits[0] + SWING), s.soft_limits[1] - SWING) for s in line.loaded.servos}
    safety = {"on_exit": policy, "park": pose} | ({"stale_command_ms": 100} if how in HANGS else {})
    given = {"rig": line.rig, "backend": "real", "port": line.port, "safety": safety}
    if way == "handshake":
        with axbridge.open(line.rig, backend="real", port=line.port, safety={"on_exit": "hold"}) as robot:
            robot.set_positions([pose[name] for name in robot])
            robot.step(20)
    for again in range(3):  # noqa: B007 - used after the loop
        with (kernel if how in KERNEL else program)(line, way, how, step_ms, given) as (is_moving, tell, leave):
            if is_moving:
                time.sleep(moment)
                since, expected = time.monotonic(), outcome(way, how, policy)
                with ThreadPoolExecutor(1) as watching:  # a notebook waits before it starts its next kernel
                    watch = partial(_off_after, line, since) if expected in {"limp", "park"} else float
                    off = watching.submit(watch)
                    tell()
                    off_after = off.result()
            code, said = leave()
            if is_moving:
                took = off_after if expected in {"limp", "park"} and line.powered else time.monotonic() - since
                wrong = line.wrong(expected or policy)
                if wrong and expected is None:
                    wrong = line.wrong("limp")
        if is_moving or "did not answer" not in said:
            break
    assert is_moving, said
    wrong += [said] if is_wrong(way, how, code, said) else []
    return Ended(code, said, wrong, took, again)


def _off_after(line, since):
    """Return the time from `since` (s) until the motors of a line are off, s; at most `LONGEST`."""
    while line.powered and any(line.powered()) and time.monotonic() < since + LONGEST:
        time.sleep(0.001)
    return time.monotonic() - since


def is_wrong(way, how, code, said):
    """Return whether its exit status or its output does not belong to that end."""
    if how == "SIGSTOP":
        return "off until set_position or torque_on" not in said or "powered again" in said
    expected = CODES.get(how, -SENT.get(how, signal.SIGKILL))
    alone = "child" not in way and "of a thread" not in way and how not in KERNEL
    silent = how in {"SIGTERM", "SIGHUP"} and alone
    reported = "still be powered" in said or said.startswith("powered")  # a traceback may name `drive.powered`
    return reported or bool(silent and said) or (alone and how not in TWICE and code != expected)


@contextmanager
def program(line, way, how, step_ms, given):
    """Run this file in a process; yield whether its motors move, a function that ends it, and one that waits for it."""
    root = Path(__file__).parents[2]
    with Warm("-m", __spec__.name, way, how, step_ms, json.dumps(given), cwd=root, start_new_session=True) as process:

        def tell():
            if how in SENT:
                os.killpg(process.pid, SENT[how])  # as Ctrl-C does: the processes that it has started get it, too
                if how in TWICE:
                    time.sleep(AGAIN.get(given["safety"]["on_exit"], AT_ONCE))
                    with suppress(ProcessLookupError):  # it has ended already
                        os.killpg(process.pid, SENT[how])
            elif how in {"SIGSTOP", ORPHAN}:
                process.send_signal(signal.SIGSTOP if how == "SIGSTOP" else signal.SIGKILL)
            else:
                process.stdin.write("end\n")
                process.stdin.flush()

        def leave():
            woken = False
            if how == ORPHAN:
                return process.wait(LONGEST), ""  # its children may keep the pipes
            if how == "SIGSTOP":
                process.send_signal(signal.SIGCONT)
                since = time.monotonic()
                while time.monotonic() < since + 0.5:
                    woken |= any(line.powered())
                process.terminate()
            elif how in HANGS:
                assert process.poll() is None, f"{way}, {how}: it ended by itself: {process.communicate()[1]}"
                process.kill()
            try:
                said = process.communicate(timeout=LONGEST)[1]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said = f"powered? It did not end: {process.communicate()[1]}"
            return process.returncode, f"powered again: {said}" if woken else said

        try:
            yield process.stdout.readline() == "running\n", tell, leave
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


CELL = """
import threading, time, warnings, axbridge
warnings.simplefilter("ignore")
robot = axbridge.open(**{given!r})
for servo in robot.values():
    servo.torque_on()
start = {{name: min(max(s.position, s.min_position + 0.03), s.max_position - 0.03) for name, s in robot.items()}}
def drive():
    count = 0
    while robot.step({step_ms}) != -1:
        count += 1
        for name, servo in robot.items():
            servo.set_position(start[name] + 0.03 * (-1) ** (count // 20))
"""

CLOSE = """
import os, random, signal
moment = random.uniform(0, 2 * {middle})
interrupt = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGINT))  # as Jupyter's Interrupt
interrupt.start()
robot.close()
interrupt.join()
time.sleep(0.1)  # the interrupt must come within this cell: one between two cells ends ipykernel's own loop
"""


@contextmanager
def kernel(_line, way, how, step_ms, given):
    """The same for a notebook's kernel."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    aside = "threading.Thread(target=drive, daemon=True).start(); time.sleep(0.2)"
    cells = [CELL.format(given=given, step_ms=step_ms), aside if "thread" in way else "robot.step(20)"]

    def executed(cell):
        reply = {"status": "aborted"}
        while reply["status"] == "aborted":  # a kernel aborts what comes with an interrupt
            reply = client.execute_interactive(cell, timeout=LONGEST, output_hook=lambda _: None)["content"]
        return reply

    def tell():
        if "interrupt" in how:
            manager.interrupt_kernel()
        if how in IN_CLOSE:
            executed(CLOSE.format(middle=AGAIN.get(given["safety"]["on_exit"], AT_ONCE)))
        if how.endswith("close"):
            executed("robot.close()")
        elif how == "shutdown":
            manager.shutdown_kernel()
        else:
            manager.restart_kernel(now=how == "kernel killed")

    try:
        failed = [content for cell in cells if (content := executed(cell))["status"] != "ok"]
        if way == "notebook" and not failed:
            client.execute("print('running'); drive()")
            while client.get_iopub_msg(LONGEST)["msg_type"] != "stream":  # an interrupt must come within the cell
                pass
        yield not failed, tell, lambda: (None, str(failed or ""))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# ---- the program


def drive(robot, step_ms, go_on, *, wheel=False):
    """Move every servo to and fro while the robot and `go_on` allow it; with `wheel` one turns, and one pushes."""
    start = {
        name: min(max(servo.position, servo.min_position + SWING), servo.max_position - SWING)
        for name, servo in robot.items()
    }
    if wheel:
        turned, pushed, *_ = sorted(robot, key=lambda name: robot[name].min_position - robot[name].max_position) * 2
        del start[turned]
        robot[turned].set_position(math.inf)
        robot[turned].set_velocity(0.5)
        if robot[pushed].capabilities["torque"] == "native":
            start.pop(pushed, None)
            robot[pushed].set_torque(0.02)
    for count in itertools.count():
        for name, middle in start.items():
            robot[name].set_position(middle + SWING * (-1) ** (count // 20))
        if robot.step(step_ms) == -1 or not go_on():
            return


_printed = threading.Event()


def running():
    """Print ``running`` in one write, because other threads may print, too."""
    _printed.set()
    os.write(1, b"running\n")


def end_with_thread(failure):
    """End the program when a thread fails before its motors move, because `program` waits for ``running``."""
    threading.__excepthook__(failure)
    if not _printed.is_set():
        os._exit(9)


def end_with_task(driving):
    """Do the same for a task of asyncio or of a pool, which does not print its exception."""
    if not driving.cancelled() and driving.exception() and not _printed.is_set():
        traceback.print_exception(driving.exception())
        os._exit(9)


def finish(how):
    if how == "exception":
        raise ZeroDivisionError
    if how == "sys.exit":
        sys.exit(5)
    if how == "os._exit":
        os._exit(6)
    if how == "exec":
        os.execv("/bin/true", ["true"])
    if how == "exec with inherited descriptors":
        for descriptor in range(3, 64):
            with suppress(OSError):
                os.set_inheritable(descriptor, True)
        os.execv("/bin/sleep", ["sleep", str(LIVES_ON)])
    if how == "hang":
        time.sleep(60)
    if how == "hang with the interpreter locked":
        ctypes.PyDLL(None).usleep(5_000_000)  # PyDLL keeps it locked


def work_on_in_processes():
    from concurrent.futures import ProcessPoolExecutor  # which registers what waits for it

    ProcessPoolExecutor(1).submit(time.sleep, LIVES_ON)


def hang_at_exception():
    sys.excepthook = lambda *_: time.sleep(LIVES_ON)


def kill_guard():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    (net,) = NETS.armed
    net._guard.kill()
    net._guard.wait()


def by_main_thread(given, step_ms, how, *, wheel=False, beside=lambda: None):
    robot = axbridge.open(**given)
    if how in TWICE:
        own = signal.default_int_handler if SENT[how] == signal.SIGINT else lambda *_: sys.exit(7)
        signal.signal(SENT[how], own)
    beside()
    drive_here(robot, step_ms, lambda: not is_told(), wheel=wheel)
    finish(how)


def by_busy(given, step_ms, how, *, work):
    robot = axbridge.open(**given)
    for servo in robot.values():
        servo.set_position(min(max(servo.position, servo.min_position), servo.max_position))
    robot.step(step_ms)
    running()
    work(robot, step_ms)
    finish(how)


def loop_for_ever(*_):
    while True:
        pass


def step_only(robot, step_ms):
    while robot.step(step_ms) != -1 and not is_told():
        pass


def is_told():
    return bool(select.select([0], [], [], 0)[0])


def by_handshake(given, step_ms, how):
    def greet(*arguments, **options):
        running()
        return handshake(*arguments, **options)

    handshake, robot_connection.handshake = robot_connection.handshake, greet
    drive(axbridge.open(**given), step_ms, lambda: True)


def drive_here(robot, step_ms, go_on, **options):
    said = []

    def look():
        if not said:
            said.append(running())
        return go_on()

    drive(robot, step_ms, look, **options)


def by_thread(given, step_ms, how, *, daemon, go_on=lambda: True):
    robot = axbridge.open(**given)
    threading.Thread(target=drive, args=(robot, step_ms, go_on), daemon=daemon).start()
    wait_for_motion(robot)
    sys.stdin.readline()
    finish(how)


def wait_for_motion(robot):
    while not all(servo.torque_enabled for servo in robot.values()):
        time.sleep(0.002)
    running()


def by_thread_that_opens(given, step_ms, how):
    threading.Thread(target=lambda: drive_here(axbridge.open(**given), step_ms, lambda: True), daemon=True).start()
    sys.stdin.readline()
    finish(how)


def by_asyncio(given, step_ms, how, *, threads):
    robot = axbridge.open(**given)

    async def run():
        over = asyncio.Event()
        asyncio.get_running_loop().add_reader(0, over.set)
        step = drive_on_threads if threads else drive_in_loop
        driving = asyncio.create_task(step(over))
        driving.add_done_callback(end_with_task)
        try:
            await over.wait()
        finally:
            over.set()
            await driving
        finish(how)

    async def drive_on_threads(over):
        await asyncio.to_thread(drive_here, robot, step_ms, lambda: not over.is_set())

    async def drive_in_loop(over):
        for servo in robot.values():
            servo.set_position(min(max(servo.position, servo.min_position), servo.max_position))
        robot.step(step_ms)
        running()
        while robot.step(step_ms) != -1 and not over.is_set():  # noqa: ASYNC110 - others have their turn in between
            await asyncio.sleep(0)

    asyncio.run(run())


def by_pool(given, step_ms, how):
    robot = axbridge.open(**given)
    over = threading.Event()
    with ThreadPoolExecutor() as pool:
        pool.submit(drive, robot, step_ms, lambda: not over.is_set()).add_done_callback(end_with_task)
        wait_for_motion(robot)
        try:
            sys.stdin.readline()
        finally:
            over.set()
        finish(how)


def by_child_of_the_owner(given, step_ms, how):
    robot = axbridge.open(**given)
    drive(robot, step_ms, lambda: robot.time < 0.1)
    multiprocessing.get_context("fork").Process(target=drive, args=(robot, step_ms, lambda: True), daemon=True).start()
    running()
    sys.stdin.readline()
    finish(how)


def by_child(given, step_ms, how, *, method):
    context = multiprocessing.get_context(method)
    over = context.Event()
    child = context.Process(target=in_child, args=(given, step_ms, how, over), daemon=True)
    child.start()
    if how == ORPHAN:
        context.Process(target=time.sleep, args=(60,), daemon=True).start()  # it keeps what it inherits
    if child.sentinel in connection.wait([sys.stdin, child.sentinel]):
        sys.exit("the child ended by itself")
    if how == "sys.exit":
        sys.exit(5)  # ends the child by SIGTERM
    over.set()
    child.join()


def in_child(given, step_ms, how, over):
    drive_here(axbridge.open(**given), step_ms, lambda: not over.is_set())
    finish(how)


DRIVERS = {
    "main thread": by_main_thread,
    "main thread, and one that lives on": partial(
        by_main_thread, beside=lambda: threading.Thread(target=time.sleep, args=(LIVES_ON,)).start()
    ),
    "main thread, and a pool that works on": partial(
        by_main_thread, beside=lambda: ThreadPoolExecutor(1).submit(time.sleep, LIVES_ON)
    ),
    "main thread, and processes that work on": partial(by_main_thread, beside=work_on_in_processes),
    "main thread, and an atexit handler that hangs": partial(
        by_main_thread, beside=lambda: atexit.register(time.sleep, LIVES_ON)
    ),
    "main thread, and an excepthook that hangs": partial(by_main_thread, beside=hang_at_exception),
    "main thread, its guard killed, and a broken pipe ends it": partial(by_main_thread, beside=kill_guard),
    "wheel": partial(by_main_thread, wheel=True),
    "daemon thread": partial(by_thread, daemon=True),
    "thread": partial(by_thread, daemon=False, go_on=threading.main_thread().is_alive),
    "thread that goes on": partial(by_thread, daemon=False),
    "robot of a thread": by_thread_that_opens,
    "asyncio": partial(by_asyncio, threads=False),
    "asyncio and threads": partial(by_asyncio, threads=True),
    "concurrent.futures": by_pool,
    "child that takes its parent's robot": by_child_of_the_owner,
    "child by fork": partial(by_child, method="fork"),
    "child by spawn": partial(by_child, method="spawn"),
    "child by forkserver": partial(by_child, method="forkserver"),
    "long call into a library": partial(
        by_busy,
        work=lambda *_: hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000_000),  # minutes
    ),
    "loop without a step": partial(by_busy, work=loop_for_ever),
    "robot that is stepped only": partial(by_busy, work=step_only),
    "handshake": by_handshake,
}


def main():
    way, how, step_ms, given = sys.argv[1:]
    for number in set(SENT.values()) - {signal.SIGKILL}:  # whatever started this may ignore them
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
    threading.excepthook = end_with_thread
    warnings.simplefilter("ignore")
    if how == "own handler":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    try:
        DRIVERS[way](json.loads(given), float(step_ms), how)
    except KeyboardInterrupt:
        if how != "caught":
            raise
        time.sleep(0.1)  # the program goes on without the robot


if __name__ == "__main__":
    main()
