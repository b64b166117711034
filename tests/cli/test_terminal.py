"""Output on terminals and pipes: progress, missing characters, and control characters in names."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from axbridge.bus.cycle import CycleServo
from axbridge.bus.serial import SerialBus
from axbridge.cli import monitor
from axbridge.cli.app import MISUSE
from axbridge.cli.progress import progress
from axbridge.file_reading import controls
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.stored import write_recording
from axbridge.robot.twin.residuals import REMEDIES
from tests.support.pty_line import PtyLine
from tests.support.waiting import until
from tests.support.warm import run, start

pytestmark = pytest.mark.slow

ESCAPE = "\x1b[31mred\x07"
NARROW = {"COLUMNS": "40", "TERM": "xterm"}


@pytest.fixture
def walk(tmp_path):
    """A recording whose names have terminal control characters."""
    time = np.arange(0, 1, 0.02)
    track = Track.of(ESCAPE, time, position=np.sin(time), command=np.zeros(len(time)))
    events = (Event(0.0, "segment", {"name": ESCAPE, "kind": "step"}), Event(0.5, ESCAPE))
    metadata = {"experiment": ESCAPE, "backend": ESCAPE, "rig": {"name": ESCAPE}, "models": {ESCAPE: {ESCAPE: ESCAPE}}}
    write_recording(Recording(tmp_path, {ESCAPE: track}, events, {}, metadata), tmp_path / "walk.mcap")
    return tmp_path / "walk.mcap"


def axbridge(*arguments, close=(), **more):
    """Run the program; `close`: descriptors to close before."""

    def shut():
        for number in close:
            os.close(number)

    command = [sys.executable, "-m", "axbridge", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=120, preexec_fn=shut, check=False, **more)


@pytest.mark.skipif(os.name == "nt", reason="streams are closed otherwise there")
@pytest.mark.parametrize("close", [(2,), (1,), (0, 1, 2)])
def test_a_verb_works_with_closed_streams_and_its_file_gets_no_printed_text(walk, close):
    table = walk.with_suffix(".csv")
    done = axbridge("convert", walk, table, close=close)
    assert done.returncode == 0
    assert len(table.read_text().splitlines()) == 51
    assert table.read_text().startswith("servo,")  # the file has no printed text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_error_that_cannot_be_printed_still_has_its_exit_code(tmp_path, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "axbridge", "info", str(tmp_path / "missing.mcap")]
        assert subprocess.run(command, stderr=full, timeout=120, check=False).returncode == MISUSE


def test_a_terminal_without_a_degree_sign_gets_the_word(walk):
    done = axbridge("compare", walk, walk, env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"})
    assert done.returncode == 0, done.stderr
    assert b"MAE deg" in done.stdout
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    "arguments", [("info",), ("info", "--json"), ("compare",), ("compare", "--json"), ("convert", "--wide"), ("convert",)]
)  # fmt: skip
def test_names_in_a_recording_do_not_steer_the_terminal_or_a_table(walk, said, arguments):
    verb, *options = arguments
    files = {"compare": [walk], "convert": [walk.with_suffix(".csv")]}.get(verb, [])
    shown = said(verb, walk, *files, *options) + "".join(file.read_text() for file in files if file.suffix == ".csv")
    assert not controls(shown)
    assert r"\x1b[31mred\x07" in shown or r"\u001b[31mred\u0007" in shown


def test_names_in_a_log_do_not_steer_the_terminal(tmp_path, said):
    log = tmp_path / "log.csv"
    log.write_text(f"servo,time_s,position_rad\n{ESCAPE},0,0\n{ESCAPE},0.1,7000\n")
    shown = said("import", log, tmp_path / "log.mcap")
    log.write_text(f"t{ESCAPE},angle\n0,0\n")
    shown += said("import", log, tmp_path / "other.mcap", code=2)
    assert not controls(shown)
    assert shown.count(r"\x1b[31mred\x07") > 1


def test_an_error_that_quotes_a_large_file_stays_short(tmp_path, said):
    (tmp_path / "mine.toml").write_text(f'base = "bench_arm"\nname = {["x" * 50] * 5000}\n'.replace("'", '"'))
    assert len(said("rig", "check", tmp_path / "mine.toml", code=2)) < 1000


def test_a_name_that_looks_like_markup_is_shown_unchanged_in_the_live_table():
    with PtyLine((1,)) as line, SerialBus(line.port) as bus:
        bus.latency = 0.1  # a busy machine may keep the responder waiting
        servo = "[/red]"
        cause = {"time": 0.0, "servo": servo, "cause": next(iter(REMEDIES))}
        table = monitor._table([monitor._Line(bus, [CycleServo(servo, 1)], {})], [cause])
    console = Console(file=StringIO(), width=200)
    console.print(table)
    assert console.file.getvalue().count("[/red]") == 2


# ---- progress: a line on a terminal, one every 10 s in a pipe


STEP = ["record", "step", "--rig", "bench_arm", "--duration", "0.5", "--angle", "20", "--force"]


def on_terminal(*arguments):
    """Run `axbridge` with stderr on a terminal and stdout on a pipe; return both outputs."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with start(*arguments, stdin=subprocess.DEVNULL, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = to_its_end(ours)
        written = process.stdout.read()
    assert process.returncode == 0, said
    return said, written


def to_its_end(terminal):
    said = bytearray()
    with suppress(OSError):
        while block := os.read(terminal, 4096):
            said += block
    os.close(terminal)
    return said.decode()


def test_a_terminal_shows_activity_share_and_time_and_no_progress_with_json(tmp_path):
    out = str(tmp_path / "a.mcap")
    shown, printed = on_terminal(*STEP, "--out", out)
    assert "opening the robot" in shown
    assert "step to 20° 100%" in shown or "step back from 20° 100%" in shown
    assert "0:00:0" in shown
    wrote, following = printed.splitlines()  # stdout is a pipe here: what belongs there is there
    assert re.fullmatch(rf"wrote {re.escape(out)}: simulated \(\w+\), \d+\.\d s, \d+ samples of each servo", wrote)
    assert following == f"next: axbridge compare {out} --rig bench_arm"
    shown, printed = on_terminal("compare", out, "--rig", "bench_arm")
    assert "comparing" in shown  # earlier messages may have been too short to be shown
    assert "shoulder" in printed
    shown, printed = on_terminal("compare", out, "--rig", "bench_arm", "--json")
    assert shown == ""
    assert json.loads(printed)


def test_a_command_beside_the_progress_line_is_not_broken_by_a_narrow_terminal():
    repair = "axbridge identify step.mcap --rig a_rig_with_a_long_name.toml --servo gripper --out gripper.toml"
    prose = "this text is broken between two words at its end"
    code = (
        f"from axbridge.cli.progress import progress\nwith progress('x'):\n    print({repair!r})\n    print({prose!r})"
    )
    controller, terminal = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stdout=terminal, stderr=terminal, env=os.environ | NARROW):
        os.close(terminal)
        said = to_its_end(controller)
    assert repair in said
    assert "words at\r\nits end" in said


def test_a_warning_is_one_plain_line(tmp_path):
    done = run("record", "sine", "--rig", "pendulum:mass=5,length=1", "--duration", "2", "--out", tmp_path / "a.mcap")
    assert re.fullmatch(r"note: servo 'shaft' has no torque, .*reports overload\n", done.stderr)


def test_a_pipe_gets_a_first_progress_line_and_the_remaining_time_at_intervals(capsys, monkeypatch):
    monkeypatch.setattr("axbridge.cli.progress._FIRST", 0.01)
    monkeypatch.setattr("axbridge.cli.progress._EVERY", 0.5)
    with progress("searching") as show:
        until(lambda: re.fullmatch(r"searching, \d s so far\n", capsys.readouterr().err))
        time.sleep(0.3)  # time before this part does not count
        show("start 2", 0.0)
        show("start 2", 0.25)
        until(lambda: re.search(r"start 2 25%, \d s so far, about [01] s left\n", capsys.readouterr().err))


WAITING = """
import time
from axbridge.cli.progress import progress
with progress("") as show:
    show("waiting for a key")
    time.sleep(2.5)
    show("measuring")
    time.sleep(0.5)
"""


def test_the_users_time_is_not_counted():
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", WAITING], stderr=theirs, env={**os.environ, "TERM": "xterm"}, check=True)
    os.close(theirs)
    before, _, after = to_its_end(ours).partition("measuring")
    assert "0:00:02" in before
    assert "0:00:00" in after
    assert "0:00:02" not in after
