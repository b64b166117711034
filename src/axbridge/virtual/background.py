"""A virtual bus in a process of its own, for as long as a block runs: the demo's and the tests' hardware."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axbridge.errors import PortError

_PATIENCE = 10.0  # s to wait for the server to end before it is killed


@contextmanager
def serving(rig: str | Path, *options: str) -> Iterator[str]:
    """Run ``axbridge serve RIG OPTIONS``; yield the port (of the first bus). Its warnings go to standard error."""
    command = [sys.executable, "-m", "axbridge", "serve", str(rig), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line.startswith("ready: "):
                _, said = server.communicate()
                problem = (said or line).strip() or "ended before it was ready"
                raise PortError("virtual bus", problem, "run " + " ".join(command[1:]))
            yield line.split()[1]
        finally:
            server.terminate()
            try:
                _, said = server.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                server.kill()
                _, said = server.communicate()
            for line in (said or "").splitlines():
                if line.startswith("warning: "):
                    print(line, file=sys.stderr)
