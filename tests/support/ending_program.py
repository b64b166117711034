"""A program that drives every servo of a robot until it ends; how it drives and how it ends are its arguments.

``ending_program.py WAY END STEP_MS GIVEN``: a way and an end of `WAYS`; what `axbridge.open` is given, as JSON. It
prints ``running`` when the motors move. `tell` lets it end.
"""

import asyncio
import itertools
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection

import axbridge

SWING = 0.03  # rad
SENT = {name: signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")}
SENT |= {"caught": signal.SIGINT, "own handler": signal.SIGTERM}
OWN = ("script", "exception", "sys.exit")
SUDDEN = ("SIGKILL", "os._exit", "exec")  # nothing of the program runs any more
ALL = (*OWN, *SENT, "os._exit", "exec")
WAYS = {
    "main thread": ALL,
    "daemon thread": ALL,
    "thread": ALL,
    "robot of a thread": (*OWN, "SIGINT", "caught", "own handler", "SIGKILL"),  # no signal that nobody takes reaches it
    "asyncio": ALL,
    "asyncio and threads": ALL,
    "concurrent.futures": ALL,
    "child that takes its parent's robot": (*OWN, *SENT),
    "child by fork": (*OWN, "SIGINT", "SIGTERM", "SIGKILL"),
    "child by spawn": (*OWN, "SIGINT", "SIGTERM", "SIGKILL"),
}
"""Ends by the way of driving."""


def lasts(way, how):
    """Whether the rig's policy counts in the end; else the guard has switched the motors off. None: either is right."""
    if (way, how) == ("child by fork", "SIGINT"):  # it ends by itself, or by the signal with which its parent ends it
        return None
    return how not in SUDDEN and (way != "child by fork" or how in {"SIGTERM", "sys.exit"})


def start(way, how, step_ms, **given):
    """Start it; `given` goes to `axbridge.open`."""
    command = [sys.executable, "-W", "ignore", __file__, way, how, str(step_ms), json.dumps(given)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def tell(program, how):
    """Let it end."""
    if how in SENT:
        os.killpg(program.pid, SENT[how])  # as Ctrl-C does: the processes that it has started get it, too
    else:
        program.stdin.write("end\n")
        program.stdin.flush()


# ---- the program


def drive(robot, step_ms, go_on):
    """Move every servo to and fro, as long as the robot and `go_on` allow it."""
    start = {
        name: min(max(servo.position, servo.min_position + SWING), servo.max_position - SWING)
        for name, servo in robot.items()
    }
    for count in itertools.count():
        for name, servo in robot.items():
            servo.set_position(start[name] + SWING * (-1) ** (count // 20))
        if robot.step(step_ms) == -1 or not go_on():
            return


_told = threading.Event()


def running():
    """Say so, in one piece whatever other threads print."""
    _told.set()
    os.write(1, b"running\n")


def end_with_thread(failure):
    """A thread that fails before its motors move ends the program: who started it waits for a word of it."""
    threading.__excepthook__(failure)
    if not _told.is_set():
        os._exit(9)


def end_with_task(driving):
    """The same for a task of asyncio or of a pool, which keeps its failure to itself."""
    if not driving.cancelled() and driving.exception() and not _told.is_set():
        traceback.print_exception(driving.exception())
        os._exit(9)


def wait_for_motion(robot):
    while not all(servo.torque_enabled for servo in robot.values()):
        time.sleep(0.002)
    running()


def end(how):
    if how == "exception":
        raise ZeroDivisionError
    if how == "sys.exit":
        sys.exit(5)
    if how == "os._exit":
        os._exit(6)
    if how == "exec":
        os.execv("/bin/true", ["true"])


def by_main_thread(given, step_ms, how):
    drive_here(axbridge.open(**given), step_ms, lambda: not select.select([0], [], [], 0)[0])
    end(how)


def drive_here(robot, step_ms, go_on):
    said = []

    def look():
        if not said:
            said.append(running())
        return go_on()

    drive(robot, step_ms, look)


def by_thread(given, step_ms, how, *, daemon):
    robot = axbridge.open(**given)
    go_on = (lambda: True) if daemon else threading.main_thread().is_alive
    threading.Thread(target=drive, args=(robot, step_ms, go_on), daemon=daemon).start()
    wait_for_motion(robot)
    sys.stdin.readline()
    end(how)


def by_thread_that_opens(given, step_ms, how):
    threading.Thread(target=lambda: drive_here(axbridge.open(**given), step_ms, lambda: True), daemon=True).start()
    sys.stdin.readline()
    end(how)


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
        end(how)

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
        end(how)


def by_child_of_the_owner(given, step_ms, how):
    robot = axbridge.open(**given)
    drive(robot, step_ms, lambda: robot.time < 0.1)
    multiprocessing.get_context("fork").Process(target=drive, args=(robot, step_ms, lambda: True), daemon=True).start()
    running()
    sys.stdin.readline()
    end(how)


def by_child(given, step_ms, how, *, method):
    context = multiprocessing.get_context(method)
    over = context.Event()
    child = context.Process(target=in_child, args=(given, step_ms, how, over), daemon=True)
    child.start()
    if child.sentinel in connection.wait([sys.stdin, child.sentinel]):
        sys.exit("the child ended by itself")
    if how == "sys.exit":
        sys.exit(5)  # ends the child by SIGTERM
    over.set()
    child.join()


def in_child(given, step_ms, how, over):
    drive_here(axbridge.open(**given), step_ms, lambda: not over.is_set())
    end(how)


DRIVERS = {
    "main thread": by_main_thread,
    "daemon thread": lambda *given: by_thread(*given, daemon=True),
    "thread": lambda *given: by_thread(*given, daemon=False),
    "robot of a thread": by_thread_that_opens,
    "asyncio": lambda *given: by_asyncio(*given, threads=False),
    "asyncio and threads": lambda *given: by_asyncio(*given, threads=True),
    "concurrent.futures": by_pool,
    "child that takes its parent's robot": by_child_of_the_owner,
    "child by fork": lambda *given: by_child(*given, method="fork"),
    "child by spawn": lambda *given: by_child(*given, method="spawn"),
}


def main():
    way, how, step_ms, given = sys.argv[1:]
    for number in set(SENT.values()) - {signal.SIGKILL}:  # whatever started this may ignore them
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
    threading.excepthook = end_with_thread
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
