"""The command line: one file per verb of `help.VERBS`, imported only when its verb is typed."""

from __future__ import annotations

import codecs
import sys
import warnings
from importlib import import_module
from io import TextIOWrapper

try:
    from axbridge.cli import help as verbs
    from axbridge.cli.exit import accept_interrupts
    from axbridge.files import fill_streams
except KeyboardInterrupt:  # Ctrl-C in the first tenths of a second
    sys.exit(130)

_PLAIN = dict(zip("°²³µ·…Ω─│├└", ("deg", "2", "3", "u", "*", "...", "ohm", "-", "|", "+", "+"), strict=True))

verbs.load = lambda name: import_module(f"axbridge.cli.{name}")


def main() -> None:
    """Run the `axbridge` program."""
    accept_interrupts()  # before the imports, which take up to a second
    open_streams()
    try:
        from axbridge.cli.app import load_typed, note, run

        if "run" not in sys.argv[1:3]:  # a warning of a user's script keeps its line number
            warnings.showwarning = lambda message, *_where: note(message)
        load_typed(sys.argv[1:])
    except KeyboardInterrupt:  # during the imports
        print("stopped: no motor was moved, and files are whole or not there", file=sys.stderr)
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


def open_streams() -> None:
    """Open missing standard streams; replace characters that the terminal's encoding lacks."""
    fill_streams()
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("axbridge", _in_plain_letters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="axbridge")


def _in_plain_letters(failure: UnicodeError) -> tuple[str, int]:
    assert isinstance(failure, UnicodeEncodeError)  # output is only encoded
    return "".join(_PLAIN.get(letter, "?") for letter in failure.object[failure.start : failure.end]), failure.end
