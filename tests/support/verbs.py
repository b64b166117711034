"""A verb of the program in a process of its own, to be spoken to and ended."""

import signal
import subprocess
import sys


def start(*arguments):
    """Run `axbridge` with these arguments; Ctrl-C reaches it, which a shell's `&` would ignore."""
    return subprocess.Popen(
        [sys.executable, "-m", "axbridge", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
