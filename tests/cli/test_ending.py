"""SIGTERM to the verbs that move a robot: exit code, and the last line about motors and files."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from axbridge import samples
from axbridge.cli.by_hand import END, pressed
from axbridge.recording.stored import write_recording
from tests.support.hand import led
from tests.support.waiting import has_grown, until
from tests.support.warm import start

pytestmark = pytest.mark.slow


def terminated(process, number=signal.SIGTERM, seconds=60):
    process.send_signal(number)
    _, err = process.communicate(timeout=seconds)
    assert process.returncode == 128 + number, err
    return err


@pytest.mark.parametrize(("shown", "left"), [("pan_tilt", "motors are off; "), ("log.mcap xl330_pendulum", "")])
def test_view_shows_its_page_until_sigterm_and_reports_the_end(shown, left, tmp_path):
    pytest.importorskip("websockets")
    write_recording(samples.load("xl330"), tmp_path / "log.mcap")
    with start("view", *shown.split(), "--no-open", "--page-port", "0", cwd=tmp_path) as page:
        assert page.stdout.readline().startswith("page: ")
        with pytest.raises(subprocess.TimeoutExpired):
            page.wait(0.5)
        assert terminated(page).endswith(f"stopped: {left}the page is closed\n")  # perhaps after a note


@pytest.mark.ci
def test_a_terminated_walk_prints_the_state_of_its_recording(tmp_path):
    path = tmp_path / "walk.mcap"
    with start("walk", "bioloid", "--steps", 400, "--record", path) as walker:
        until(lambda: has_grown(path))
        assert terminated(walker).startswith("stopped: motors are off; ")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds its processes in /proc")
def test_a_fit_ends_with_its_processes_and_leaves_no_file(tmp_path):
    write_recording(samples.load("xl330"), tmp_path / "log.mcap")
    command = ("identify", tmp_path / "log.mcap", "--rig", "xl330_pendulum", "--model", "pendulum-servo", "--out")
    with start(*command, tmp_path / "fit.toml") as fit:
        children = Path(f"/proc/{fit.pid}/task/{fit.pid}/children")
        until(lambda: len(children.read_text().split()) > 1 and all(map(has_begun, children.read_text().split())))
        workers = children.read_text().split()
        *progress, last = terminated(fit).splitlines()
        assert last == "stopped: no motor was moved, and files are whole or not there"
        assert all(line.startswith("before: ") or "s so far" in line for line in progress)
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert [path.name for path in tmp_path.iterdir()] == ["log.mcap"]


SLEEPER = "import pathlib, subprocess, time; nap = subprocess.Popen(['sleep', '99']); pathlib.Path('asleep').touch(); time.sleep(99)"


def below(process):
    """Return all descendants of a process."""
    children = (task / "children" for task in Path(f"/proc/{process}/task").iterdir())
    processes = [int(process) for child in children for process in child.read_text().split()]
    return [process for child in processes for process in (child, *below(child))]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds its processes in /proc")
@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_conformance_ends_with_a_program_that_sleeps_and_with_its_servos(number, tmp_path):
    command = ("conformance", "--rig", "pan_tilt", "--", sys.executable, "-c", SLEEPER, "{port}")
    with start(*command, cwd=tmp_path) as running:
        until((tmp_path / "asleep").exists)
        children = below(running.pid)
        assert len(children) >= 3  # server, program and its child
        terminated(running, number, seconds=10)  # it takes half a second
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), 10)


def has_begun(process):
    """Return whether a pool's worker has started; another process tracks the pool's semaphores."""
    folder = Path(f"/proc/{process}")
    return "numpy" in (folder / "maps").read_text() or b"resource_tracker" in (folder / "cmdline").read_bytes()


def test_motors_that_do_not_answer_are_not_reported_as_off(tmp_path):
    command = ("teach", "--rig", "pan_tilt", "--joints", "pan", "--out", tmp_path / "cut.json", "--port")
    with led("pan_tilt") as (port, tell), start(*command, port) as teacher:
        said = [teacher.stderr.readline() for _ in range(2)]
        assert said[1].startswith("lead it to the start"), said
        tell("stop")
        err = terminated(teacher)
    assert err.endswith("stopped: pan, tilt may still be powered: cut the servo supply; nothing was written\n")


STILL_STEPPING = """
import threading, axbridge
from axbridge.robot.safety.net import Safety

Safety._lines = Safety._names = lambda self: ()  # no guard, as on a line of another computer
robot = axbridge.open("pan_tilt", "real", port={port!r})
for servo in robot.values():
    servo.torque_on()

def step():
    while robot.step(20) != -1:
        pass

threading.Thread(target=step).start()
print("main ends", flush=True)
"""


def test_sigterm_after_the_end_of_a_script_whose_thread_steps_on_leaves_motors_as_the_rig_says(tmp_path):
    with led("pan_tilt") as (port, tell):
        (tmp_path / "steps.py").write_text(STILL_STEPPING.format(port=port))
        with start("run", tmp_path / "steps.py") as script:
            assert script.stdout.readline() == "main ends\n", script.stderr.read()
            until(lambda: all(tell("register torque_enable")))
            time.sleep(0.5)  # the verb has ended
            script.send_signal(signal.SIGTERM)
            script.communicate(timeout=60)
            assert tell("register torque_enable") == [0, 0]


def test_a_live_monitor_says_by_its_exit_code_that_it_was_terminated():
    ours, theirs = pty.openpty()
    with led("pan_tilt") as (port, tell), start("monitor", "--port", port, stdout=theirs) as monitor:
        os.close(theirs)
        tell("seen")
        assert os.read(ours, 1)
        terminated(monitor)
    os.close(ours)


def test_a_terminal_that_is_closed_while_keys_are_awaited_ends_the_keys_and_is_no_error(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with pressed() as key:
            assert key() == ""
            os.close(ours)
            assert key() == END


def test_while_a_reset_waits_for_its_answer_another_program_can_switch_motors_off(said):
    with led("pan_tilt") as (port, _), start("servo", "reset", "1", "--port", port) as reset:
        prompt = ""
        while "[y/N]" not in prompt:
            prompt += reset.stderr.read(1)
        assert "off and confirmed" in said("off", "--port", port)
        assert "nothing was changed" in terminated(reset)


_IGNORED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a script's shell does for what is behind `&`
from axbridge.cli import main

class Interrupt:
    def find_spec(name, *_):
        if name == "axbridge.{file}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
sys.argv[1:] = ["view", "bench_arm", "--no-open"]
main()
"""


@pytest.mark.parametrize("file", ["cli.app", "cli.view", "robot.robot"])
def test_ctrl_c_during_the_imports_ends_a_verb_that_was_started_with_sigint_ignored(file):
    command = [sys.executable, "-c", _IGNORED.format(file=file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    assert done.stderr.startswith("stopped: ")
