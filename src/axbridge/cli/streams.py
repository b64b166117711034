"""The standard streams, which may be a terminal, a pipe, or closed."""

from __future__ import annotations

import codecs
import os
import sys
from io import TextIOWrapper

_PLAIN = {
    "°": "deg",
    "²": "2",
    "³": "3",
    "µ": "u",
    "·": "*",
    "…": "...",
    "Ω": "ohm",
    "─": "-",
    "│": "|",
    "├": "+",
    "└": "+",
}


def open_streams() -> None:
    """Make standard input, output and error something to read from and write to, whatever is written.

    A stream that is closed becomes an empty one: else the next file that is opened would get its number, and what C
    libraries print would go into a recording. A terminal that knows no ``°`` gets ``deg``.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere <= 2:
        nowhere = os.dup(nowhere)
    os.close(nowhere)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("axbridge", _in_plain_letters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="axbridge")


def _in_plain_letters(failure: UnicodeError) -> tuple[str, int]:
    """What to write instead of letters that a stream does not know."""
    assert isinstance(failure, UnicodeEncodeError)  # nothing is decoded here
    return "".join(_PLAIN.get(letter, "?") for letter in failure.object[failure.start : failure.end]), failure.end
