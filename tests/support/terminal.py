"""A command on a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import suppress

from tests.support.warm import start


def on_terminal(*arguments: str) -> tuple[str, str]:
    """Run `axbridge` with its stderr on a terminal and its stdout on a pipe; what came there, and there."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with start(*arguments, stdin=subprocess.DEVNULL, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = bytearray()
        with suppress(OSError):  # the terminal's end
            while block := os.read(ours, 4096):
                said += block
        assert process.stdout is not None
        written = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0, said.decode()
    return said.decode(), written
