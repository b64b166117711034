"""What a person sees while a verb works: a line on a terminal, one every 10 s in a pipe."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from axbridge.cli.progress import progress
from tests.support.warm import start

pytestmark = pytest.mark.slow

STEP = ["record", "step", "--rig", "bench_arm", "--duration", "0.5", "--angle", "20", "--force"]


def on_terminal(*arguments):
    """Run `axbridge` with its stderr on a terminal and its stdout on a pipe; what came there, and there."""
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


def test_a_terminal_shows_what_is_under_way_its_share_and_the_time(tmp_path):
    out = str(tmp_path / "a.mcap")
    shown, printed = on_terminal(*STEP, "--out", out)
    assert "opening the robot" in shown
    assert "step to 20° 100%" in shown or "step back from 20° 100%" in shown
    assert "0:00:0" in shown
    assert printed == f"wrote {out}\n"  # stdout is a pipe here: what belongs there is there


def test_json_shows_nothing_even_on_a_terminal(tmp_path):
    out = str(tmp_path / "a.mcap")
    on_terminal(*STEP, "--out", out)
    shown, printed = on_terminal("compare", out, "--rig", "bench_arm")
    assert "writing the report" in shown  # what came before may have been too quick to be shown
    assert "shoulder" in printed
    shown, printed = on_terminal("compare", out, "--rig", "bench_arm", "--json")
    assert shown == ""
    assert json.loads(printed)


def test_a_pipe_is_told_every_ten_seconds_how_much_is_done_and_left_of_this_part(capsys, monkeypatch):
    with progress("searching", steadily=True) as show:
        time.sleep(0.5)  # not of the part that begins now
        monkeypatch.setattr("axbridge.cli.progress._EVERY", 0.02)
        show("start 2", 0.0)
        until = time.monotonic() + 10.0
        said = ""
        while "s left" not in said:
            assert time.monotonic() < until
            show("start 2", 0.25)
            said += capsys.readouterr().err
            time.sleep(0.01)
    assert re.search(r"start 2 25%, \d s so far, about [01] s left\n", said)


WAITING = """
import time
from axbridge.cli.progress import progress
with progress("") as show:
    show("waiting for a key")
    time.sleep(2.5)
    show("measuring")
    time.sleep(0.5)
"""


def test_the_time_that_a_person_takes_is_not_counted():
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", WAITING], stderr=theirs, env={**os.environ, "TERM": "xterm"}, check=True)
    os.close(theirs)
    before, _, after = to_its_end(ours).partition("measuring")
    assert "0:00:02" in before
    assert "0:00:00" in after
    assert "0:00:02" not in after
