"""A command on a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress


def on_terminal(*arguments: str) -> tuple[str, str]:
    """Run `axbridge` with its stderr on a terminal and its stdout on a pipe; what came there, and there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "axbridge", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(theirs)
        said = bytearray()
        with suppress(OSError):  # the terminal's end
            while block := os.read(ours, 4096):
                said += block
        assert process.stdout is not None
        written = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0, said.decode()
    return said.decode(), written.decode()
