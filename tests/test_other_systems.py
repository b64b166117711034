"""Systems without some of Linux's functions: no pseudo-terminals, no fork, no SIGHUP, no poll, no engine."""

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.robot.test_safety_process import CONTROLLER, OPENED
from tests.support.pty_line import PtyLine
from tests.support.waiting import until
from tests.support.warm import serving

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

# Remove what Windows does not have. dynamixel-sdk and pyserial come first: here, they import modules of Linux.
WITHOUT = """
import os, select, signal, subprocess, sys, dynamixel_sdk, serial.urlhandler.protocol_socket
for name in ("pty", "fcntl", "termios", "tty", "resource"):
    sys.modules[name] = None
for module, names in {
    os: ("fork", "forkpty", "register_at_fork", "openpty", "set_blocking", "nice", "getuid", "ttyname", "getppid"),
    signal: ("SIGHUP", "SIGTTIN", "pthread_sigmask", "setitimer", "SIGALRM"),
    select: ("poll", "epoll"),
}.items():
    for name in names:
        delattr(module, name)
"""
VERB = "from axbridge.cli import main\nsys.argv = ['axbridge', *sys.argv[1:]]\nmain()"
NO_ENGINE = "import sys\nfor name in ('pybullet', 'mujoco'):\n    sys.modules[name] = None\n"


@contextmanager
def start(code, *arguments):
    """Run a program with its output in a pipe, and kill it at the end of the block."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as program:
        try:
            yield program
        finally:
            program.kill()


def run(code, *arguments):
    finished = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    return finished.returncode, finished.stdout, finished.stderr


@pytest.mark.ci
def test_every_module_can_be_imported_without_linux_functions():
    modules = [
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for path in sorted((ROOT / "src" / "axbridge").rglob("*.py"))
        if path.stem != "__main__" and "bullet" not in path.parts  # pybullet is compiled for this system
    ]
    code = WITHOUT + "from importlib import import_module\nfor name in sys.argv[1:]:\n    import_module(name)"
    assert run(code, *modules) == (0, "", "")


@pytest.mark.ci
def test_serving_without_pseudo_terminals_is_refused_with_the_option_for_tcp():
    code, out, err = run(WITHOUT + VERB, "serve", "bare_horn")
    assert (code, out) == (3, "")
    assert "no pseudo-terminal: this system has none" in err
    assert "--tcp 127.0.0.1:7000" in err


def test_a_bus_is_served_and_scanned_over_tcp_without_pseudo_terminals():
    with start(WITHOUT + VERB, "serve", "bare_horn", "--tcp", "127.0.0.1:0") as server:
        ready = server.stdout.readline().split()
        assert ready[0] == "ready:"
        finished, out, _ = run(WITHOUT + VERB, "scan", "--port", ready[1], "--ids", "1-3")
        assert finished == 0
        assert "id   1  ax-12a" in out


# This system has pseudo-terminals, and they need `getuid`.
CONTROLLER_WITHOUT = WITHOUT.replace('"getuid", ', "") + OPENED + CONTROLLER + "assert bus.port.fd is None\n"


def test_a_guard_without_a_descriptor_switches_the_torque_off_and_ends_with_a_program_that_closes_normally():
    with PtyLine((1, 2)) as line:
        with start(CONTROLLER_WITHOUT, line.port, "stay") as controller:
            assert controller.stdout.readline() == "running\n"
            assert line.powered == [1, 2]
        until(lambda: line.powered == [])
        with start(CONTROLLER_WITHOUT, line.port, "leave") as controller:
            assert controller.stdout.readline() == "running\n"
            assert controller.wait(10) == 0
        packets = len(line.received)
        time.sleep(0.5)
        assert len(line.received) == packets


def test_a_real_bus_needs_no_engine(tmp_path):
    with serving("bare_horn") as port:
        code, out, _ = run(NO_ENGINE + VERB, "scan", "--port", port)
    assert code == 0
    assert "id   1  ax-12a" in out
